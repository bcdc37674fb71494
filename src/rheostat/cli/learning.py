"""What `recover` and `prune --criterion l0` share: points that are learnt one after the other and then stored."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rheostat.cli.console import INTERRUPTED, print_json
from rheostat.cli.train import RunBar
from rheostat.model.description import check_name
from rheostat.model.file import ModelFile, check_target, repack
from rheostat.model.operating_point import OperatingPoint, Ranking

if TYPE_CHECKING:
    from rheostat.pruning.run import Learnt, Texts

Learn = Callable[["Texts", Path, RunBar], "Learnt"]


def learn_and_store(file: ModelFile, data: str, out: Path, jobs: Mapping[str, Learn]) -> list[OperatingPoint]:
    """Learn each point in a folder of its own beside `out`, then write `out` with all of them and remove the folders.

    Stopped in between, the same command goes on where it was: finished runs are found finished. Runs of other commands
    that write to `out` may lie beside them, and are left alone.
    """
    for name in jobs:
        check_name(name, "the points to store")
    check_target(out)
    from rheostat.pruning.run import read_texts
    from rheostat.training.run_folder import RunFolder
    from rheostat.training.trainer import InterruptedRunError

    runs = out.with_name(out.name + ".run")
    with RunBar() as bar:
        texts = read_texts(file, data, bar.reading)
        try:
            learnt = [learn(texts, runs / name, bar) for name, learn in jobs.items()]
        except InterruptedRunError as stop:
            bar.message(f"{stop}; go on with the same command")
            sys.exit(INTERRUPTED)
    points = [result.point for result in learnt]
    repack(file, out, add_rankings=[result.ranking for result in learnt if result.ranking], add_points=points)
    for name in jobs:
        RunFolder(runs / name).remove()
    with contextlib.suppress(OSError):  # not empty: another command's
        runs.rmdir()
    return points


def report_points(out: Path, points: list[OperatingPoint], json: bool, ranking: Ranking | None = None) -> None:
    """Print what was stored. ranking: that was stored too."""
    if json:
        facts = [
            {
                "name": point.name,
                "criterion": point.criterion,
                "flops_fraction": point.flops_fraction,
                "widths": list(point.widths),
                "update_bytes": point.update_bytes,
            }
            for point in points
        ]
        ranked = {"ranking": _ranking_facts(ranking)} if ranking else {}
        print_json({"model": str(out), **ranked, "points": facts})
        return
    for point in points:
        update = f", {point.update_bytes:,} bytes of update" if point.update_bytes else ""
        print(
            f"{out}: point '{point.name}', {point.flops_fraction:.2%} of the FLOPs, "
            f"filters {' '.join(map(str, point.widths))}{update}"
        )
    if ranking:
        print(f"{out}: ranking '{ranking.name}' of {sum(map(len, ranking.scores)):,} filters")


def _ranking_facts(ranking: Ranking) -> dict[str, object]:
    return {
        "name": ranking.name,
        "criterion": ranking.criterion,
        "seed": ranking.seed,
        "filters": [len(scores) for scores in ranking.scores],
    }
