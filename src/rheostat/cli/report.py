"""`rheostat report`: results files in, a page and pictures out."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from rheostat.benchmark.figures import draw_learned, draw_trade_off
from rheostat.benchmark.learned import compare, learned_page
from rheostat.benchmark.report import page, read_sweep
from rheostat.errors import RheostatError


def report(
    results: Annotated[list[Path], typer.Argument(help="Results files of `rheostat sweep`.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder for pages and pictures.")] = Path("report"),
) -> None:
    """Make a table and the trade-off picture of each results file; of several, one of all learned points together.

    Example: rheostat report results/ptb.json results/ptb-graded.json -o report
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RheostatError(f"cannot create {out}: {error.strerror}; expected a folder") from None
    sweeps = [read_sweep(path) for path in results]
    for sweep in sweeps:
        picture = out / f"{sweep.path.stem}-trade-off.png"
        draw = partial(draw_trade_off, sweep)
        _write(out / f"{sweep.path.stem}.md", page(sweep, picture.name), picture, draw)
    if len(sweeps) > 1:
        for comparison in compare(sweeps):
            stem = f"{comparison.reference.subject['corpus']}-learned-points"
            picture = out / f"{stem}.png"
            text = learned_page(comparison, picture.name)
            _write(out / f"{stem}.md", text, picture, partial(draw_learned, comparison))


def _write(document: Path, text: str, picture: Path, draw: Callable[[Path], None]) -> None:
    for path in (picture, picture.with_suffix(".svg")):
        draw(path)
    document.write_text(text, encoding="utf-8")
    print(f"{document}\n{picture}\n{picture.with_suffix('.svg')}")
