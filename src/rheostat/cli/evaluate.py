"""`rheostat evaluate` and `rheostat sweep`: perplexity and recall at one operating point, or at many."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rheostat.cli.console import (
    BUNDLED,
    CRITERION_HELP,
    DATA_HELP,
    ENGINE_HELP,
    JSON_HELP,
    KNOB_HELP,
    MODEL_HELP,
    POINT_HELP,
    PRECISION_HELP,
    RANKING_HELP,
    THREADS_HELP,
    labelled_share,
    messages,
    print_json,
    print_line,
)
from rheostat.model.precision import Precision
from rheostat.runtime.engine import Cache, EngineName

if TYPE_CHECKING:
    from rheostat.measure.evaluation import Evaluation
    from rheostat.measure.results import SweepRow


def evaluate(
    data: Annotated[str, typer.Option(help=DATA_HELP)],
    model: Annotated[Path, typer.Argument(help=MODEL_HELP)] = BUNDLED,
    split: Annotated[
        str | None, typer.Option(help="The split of a corpus: train, valid or test (the default).")
    ] = None,
    knob: Annotated[float, typer.Option(help=KNOB_HELP)] = 1.0,
    criterion: Annotated[str | None, typer.Option(help=CRITERION_HELP)] = None,
    ranking: Annotated[str | None, typer.Option(help=RANKING_HELP)] = None,
    point: Annotated[str | None, typer.Option(help=POINT_HELP)] = None,
    precision: Annotated[Precision, typer.Option(help=PRECISION_HELP)] = "fp32",
    engine: Annotated[EngineName | None, typer.Option(help=ENGINE_HELP)] = None,
    threads: Annotated[int, typer.Option(min=0, help=THREADS_HELP)] = 0,
    keystrokes: Annotated[bool, typer.Option("--keystrokes", help="Also simulate typing the test text.")] = False,
    words: Annotated[int, typer.Option(min=1, help="With --keystrokes: number of words to type.")] = 2000,
    counts: Annotated[bool, typer.Option(help="Use the counts of the file, if it has them.")] = True,
    cache: Annotated[
        int, typer.Option(min=0, help="The number of last words to keep in a cache, such as 250; 0 for none.")
    ] = 0,
    json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Measure perplexity and R@1/3/5 on a text, at one point.

    The text is read as one stream with an <eos> per line. Every token but the first is predicted once. A single text
    file is measured as a whole.

    Example: rheostat evaluate model.safetensors --data DIR --split test --knob 0.8 --json
    """
    from rheostat.measure.evaluation import evaluate as run

    with labelled_share() as progress:
        found = run(
            model,
            data=data,
            split=split,
            knob=knob,
            criterion=criterion,
            ranking=ranking,
            point=point,
            precision=precision,
            threads=threads,
            keystrokes=keystrokes,
            words=words,
            engine=engine,
            counts=counts,
            cache=Cache(words=cache) if cache else None,
            progress=progress,
        )
    if json:
        print_json(found.as_json())
    else:
        _show(found)


def _show(found: Evaluation) -> None:
    from rheostat.measure.results import engine_title

    quality, saved = found.quality, found.keystrokes
    recall = "  ".join(f"R@{k} {share:.2%}" for k, share in quality.recall.items())
    print_line(
        f"{found.split} at {found.cost:.2%} of the cost, {found.flops_fraction:.2%} of the FLOPs ({found.served_by}), "
        f"{found.precision} on "
        f"{engine_title(found.engine)}: "
        f"perplexity {quality.perplexity:.3f}  {recall}  ({quality.predictions:,} predictions)"
    )
    if saved:
        limit = "" if saved.limit_share is None else f" (at most {saved.limit_share:.1%} can be)"
        sample = f"the first {saved.words:,} words of the text"
        print_line(f"{saved.saved_share:.1%} of the keystrokes saved{limit} over {sample}")


def sweep(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    data: Annotated[str, typer.Option(help=DATA_HELP)],
    out: Annotated[
        Path, typer.Option("-o", "--out", help="The results file to write. Rows that it already has are kept.")
    ],
    criterion: Annotated[
        list[str] | None, typer.Option(help="Measure only rankings and points of this criterion. May be repeated.")
    ] = None,
    knob: Annotated[
        list[float] | None, typer.Option(help="A share of the cost; by default 0.9 to 0.4 in tenths. May be repeated.")
    ] = None,
    split: Annotated[
        list[str] | None,
        typer.Option(help="A split of a corpus; by default valid and test. May be repeated."),
    ] = None,
    stored: Annotated[
        bool, typer.Option("--stored", help="Measure only the whole model and its stored points.")
    ] = False,
    precision: Annotated[Precision, typer.Option(help=PRECISION_HELP)] = "fp32",
    engine: Annotated[EngineName | None, typer.Option(help=ENGINE_HELP)] = None,
    threads: Annotated[int, typer.Option(min=0, help=THREADS_HELP)] = 0,
    keystrokes: Annotated[
        bool, typer.Option("--keystrokes", help="Also simulate typing the test text, at the points the knob uses.")
    ] = False,
    words: Annotated[int, typer.Option(min=1, help="With --keystrokes: number of words to type.")] = 2000,
    json: Annotated[bool, typer.Option("--json", help="Print each new row as JSON, one per line.")] = False,
) -> None:
    """Measure quality at many operating points.

    Measures the whole model, every ranking at every knob position, the path if the file has one that turns bits too
    (criterion path), the whole model in 4 bits (criterion bits), and every stored point. Each measurement is written as
    soon as it is finished; run the same command again to resume.

    Example: rheostat sweep model.safetensors --data DIR --knob 0.8 --knob 0.6 -o results/ptb.json
    """
    from rheostat.measure.sweep import KNOBS
    from rheostat.measure.sweep import sweep as run
    from rheostat.tables import to_json

    with labelled_share() as progress:
        found = run(
            model,
            data=data,
            out=out,
            criteria=criterion or (),
            knobs=() if stored else knob or KNOBS,
            splits=split,
            precision=precision,
            threads=threads,
            keystrokes=keystrokes,
            words=words,
            engine=engine,
            progress=progress,
            on_row=lambda row: print_json(to_json(row)) if json else _show_row(row),
        )
    if not json:
        print_line(f"{out}: {len(found.rows)} rows")


def _show_row(row: SweepRow) -> None:
    messages.print(
        f"{row.served_by} at {row.cost:.2%}, {row.split}: perplexity {row.perplexity:.2f}, R@3 {row.recall_at_3:.2%}",
        highlight=False,
    )
