"""`rheostat report`: turn results files into pages and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheostat.cli.console import messages, print_line


def report(
    results: Annotated[list[Path], typer.Argument(help="Results files of any kind.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder for pages and figures.")] = Path("report"),
    model: Annotated[
        Path | None, typer.Option(help="A model file with rankings or points: draw what each criterion cuts.")
    ] = None,
) -> None:
    """Turn results files into tables, figures and verdicts.

    The report is written as Markdown and as one HTML page. It shows the paper's tables and claims beside the measured
    numbers. Results files are written by sweep, bench, ngram, typing, govern and `make
    benchmark`.

    Example: rheostat report results/ptb.json results/bench.json --model model.safetensors -o report
    """
    from rheostat.report.writer import write_report

    written = write_report(results, out=out, model=model)
    for note in written.notes:
        messages.print(f"note: {note}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    for path in written.files:
        print_line(path)
