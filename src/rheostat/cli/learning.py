"""What `train`, `prune` and `recover` share: showing the progress of a run, and printing what was stored."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

from rheostat.cli.console import INTERRUPTED, LINE_SECONDS, messages, print_json, print_line
from rheostat.metrics import Quality, perplexity
from rheostat.model.operating_point import OperatingPoint, Ranking

if TYPE_CHECKING:
    from rheostat.pruning.steps import Stored
    from rheostat.training.trainer import RunProgress


@contextmanager
def run_bar(resume_with: str = "the same command") -> Iterator[RunBar]:
    """A bar for the run within the block. If a signal stops the run, say how to resume it, and exit."""
    from rheostat.training.trainer import InterruptedRunError

    with RunBar() as bar:
        try:
            yield bar
        except InterruptedRunError as stop:
            bar.message(f"{stop}; resume with {resume_with}")
            sys.exit(INTERRUPTED)


class RunBar:
    """The progress of a run: a bar on a terminal, otherwise a line from time to time."""

    def __init__(self) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TaskProgressColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=messages,
            disable=not messages.is_terminal,
            speed_estimate_period=600,
        )
        self._run = self._bar.add_task("starting", total=1.0, figures="")
        self._validation = self._bar.add_task("validating", total=1.0, figures="", visible=False)
        self._reading: dict[str, TaskID] = {}
        self._last_line = 0.0

    def __enter__(self) -> RunBar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def step(self, progress: RunProgress, share: float, loss: float, tokens_per_second: float) -> None:
        figures = f"{tokens_per_second:,.0f} tokens/s  perplexity {perplexity(loss):.1f}"
        if progress.losses:
            figures += f"  best valid {perplexity(progress.best_loss):.2f}"
        self._bar.update(
            self._run, completed=share, description=f"epoch {progress.epoch + 1} step {progress.step}", figures=figures
        )
        if not messages.is_terminal and time.monotonic() - self._last_line > LINE_SECONDS:
            self._last_line = time.monotonic()
            self.message(f"epoch {progress.epoch + 1} step {progress.step} {share:.1%}  {figures}")

    def reading(self, label: str, share: float) -> None:
        """A bar for each file that is read into the token cache."""
        if label not in self._reading:
            self._reading[label] = self._bar.add_task(label, total=1.0, figures="")
        self._bar.update(self._reading[label], completed=share, visible=share < 1)

    def validating(self, share: float) -> None:
        self._bar.update(self._validation, completed=share, visible=share < 1)

    def validated(self, progress: RunProgress, quality: Quality, improved: bool) -> None:
        mark = ", the best so far" if improved else ""
        self.message(
            f"epoch {progress.last_epoch}: valid perplexity {quality.perplexity:.2f}, R@3 {quality.recall[3]:.2%}{mark}"
        )

    def message(self, text: str) -> None:
        messages.print(text, markup=False, highlight=False, soft_wrap=True)


def print_stored(stored: Stored, json: bool) -> None:
    """Print what was stored, and which ranking the knob of that file uses."""
    if json:
        print_json(
            {
                "model": str(stored.model),
                "rankings": [_ranking_facts(ranking) for ranking in stored.rankings],
                "points": [_point_facts(point, stored.used) for point in stored.points],
                "default_ranking": stored.default_ranking,
            }
        )
        return
    for point in stored.points:
        update = f", {point.update_bytes:,} bytes of update" if point.update_bytes else ""
        used = f", from {stored.used[point.name]}" if point.name in stored.used else ""
        print_line(
            f"{stored.model}: point '{point.name}', {point.flops_fraction:.2%} of the FLOPs, "
            f"filters {' '.join(map(str, point.widths))}{update}{used}"
        )
    for ranking in stored.rankings:
        print_line(f"{stored.model}: ranking '{ranking.name}' of {sum(map(len, ranking.scores)):,} filters")
    if stored.rankings:
        print_line(_knob_line(stored))


def _knob_line(stored: Stored) -> str:
    if stored.default_ranking:
        return f"{stored.model}: the knob uses ranking '{stored.default_ranking}'"
    name = stored.rankings[0].name
    return (
        f"{stored.model}: the knob uses no ranking, because '{name}' is only for comparison. "
        f"To use it anyway: --ranking {name}, or rheostat pack --default-ranking {name}"
    )


def _point_facts(point: OperatingPoint, used: Mapping[str, str]) -> dict[str, object]:
    return {
        "name": point.name,
        "criterion": point.criterion,
        "flops_fraction": point.flops_fraction,
        "widths": list(point.widths),
        "update_bytes": point.update_bytes,
        **({"used": used[point.name]} if point.name in used else {}),
    }


def _ranking_facts(ranking: Ranking) -> dict[str, object]:
    return {
        "name": ranking.name,
        "criterion": ranking.criterion,
        "seed": ranking.seed,
        "filters": [len(scores) for scores in ranking.scores],
    }
