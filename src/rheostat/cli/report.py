"""`rheostat report`: results files in, pages and pictures out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheostat.cli.console import messages


def report(
    results: Annotated[list[Path], typer.Argument(help="Results files of sweep, bench, govern and the benchmarks.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder for pages and pictures.")] = Path("report"),
    model: Annotated[
        Path | None, typer.Option(help="A model file with rankings or points: draws what each criterion cuts.")
    ] = None,
) -> None:
    """Make the report, as Markdown and one HTML page: the paper's tables and claims beside our numbers, and pictures.

    Every file adds what it can tell; a file of another kind is named and left out. Each sweep has a page of its own,
    and so have all learned points of a corpus.

    Example: rheostat report results/ptb.json results/bench.json --model model.safetensors -o report
    """
    from rheostat.measure.results import read_all
    from rheostat.report.evidence import gather
    from rheostat.report.files import write_report
    from rheostat.report.kept_filters import read_kept_filters

    kept = read_kept_filters(model) if model else None
    evidence = gather(read_all(results), kept)
    written, notes = write_report(evidence, kept, out)
    for note in notes:
        messages.print(f"note: {note}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    for path in written:
        print(path)
