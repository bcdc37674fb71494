"""`rheostat report`: results files in, a page and pictures out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheostat.benchmark.figures import draw_trade_off
from rheostat.benchmark.report import page, read_sweep
from rheostat.errors import RheostatError


def report(
    results: Annotated[list[Path], typer.Argument(help="Results files of `rheostat sweep`.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder for pages and pictures.")] = Path("report"),
) -> None:
    """Make a table and the trade-off picture of each results file.

    Example: rheostat report results/ptb.json -o report
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RheostatError(f"cannot create {out}: {error.strerror}; expected a folder") from None
    for path in results:
        sweep = read_sweep(path)
        picture = out / f"{path.stem}-trade-off.png"
        draw_trade_off(sweep, picture)
        draw_trade_off(sweep, picture.with_suffix(".svg"))
        document = out / f"{path.stem}.md"
        document.write_text(page(sweep, picture.name), encoding="utf-8")
        print(f"{document}\n{picture}\n{picture.with_suffix('.svg')}")
