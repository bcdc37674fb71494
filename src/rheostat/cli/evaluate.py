"""`rheostat evaluate` and `rheostat sweep`: perplexity and recall at one operating point, or at many."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rheostat.cli.console import BUNDLED, MODEL_HELP, labelled_share, messages, print_json
from rheostat.runtime.onnx.quantization import Precision

if TYPE_CHECKING:
    from rheostat.measure.evaluation import Evaluation
    from rheostat.measure.results import SweepRow

DATA_HELP = "A folder with train, valid and test text, one text file, 'chat' or 'talk'."


def evaluate(
    data: Annotated[str, typer.Option(help=DATA_HELP)],
    model: Annotated[Path, typer.Argument(help=MODEL_HELP)] = BUNDLED,
    split: Annotated[str | None, typer.Option(help="train, valid or test (the default) of a folder.")] = None,
    knob: Annotated[float, typer.Option(help="Share of the FLOPs that may be spent.")] = 1.0,
    criterion: Annotated[str | None, typer.Option(help="Cut by this criterion.")] = None,
    ranking: Annotated[str | None, typer.Option(help="Cut by the ranking of this name.")] = None,
    point: Annotated[str | None, typer.Option(help="Use the stored point of this name.")] = None,
    precision: Annotated[Precision, typer.Option(help="fp32, or int8 or int4 as on a device.")] = "fp32",
    threads: Annotated[int, typer.Option(min=0, help="Processor threads; 0 = one per physical core.")] = 0,
    keystrokes: Annotated[bool, typer.Option("--keystrokes", help="Also simulate typing the test text.")] = False,
    words: Annotated[int, typer.Option(min=1, help="With --keystrokes: number of words to type.")] = 2000,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Measure perplexity and R@1/3/5 of a model on a text, at any position of the knob.

    The text is one stream with an <eos> per line; the state is carried through; every token but the first is predicted
    once. A single text file is measured as a whole.

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
            progress=progress,
        )
    if json:
        print_json(found.as_json())
    else:
        _show(found)


def _show(found: Evaluation) -> None:
    quality, saved = found.quality, found.keystrokes
    recall = "  ".join(f"R@{k} {share:.2%}" for k, share in quality.recall.items())
    print(
        f"{found.split} at {found.flops_fraction:.2%} of the FLOPs ({found.served_by}): "
        f"perplexity {quality.perplexity:.3f}  {recall}  ({quality.predictions:,} predictions)"
    )
    if saved:
        print(f"{saved.saved_share:.1%} of the keystrokes saved over {saved.words:,} words of the test text")


def sweep(
    model: Annotated[Path, typer.Argument(help="A model file with rankings.")],
    data: Annotated[str, typer.Option(help=DATA_HELP)],
    out: Annotated[Path, typer.Option("-o", "--out", help="The results file; rows that it already holds are kept.")],
    criterion: Annotated[
        list[str] | None, typer.Option(help="Rankings and points of this criterion; may be repeated; all by default.")
    ] = None,
    knob: Annotated[list[float] | None, typer.Option(help="Share of the FLOPs; may be repeated.")] = None,
    split: Annotated[
        list[str] | None, typer.Option(help="Of a folder; may be repeated; valid and test by default.")
    ] = None,
    stored: Annotated[bool, typer.Option("--stored", help="Only the whole model and its stored points.")] = False,
    precision: Annotated[Precision, typer.Option(help="fp32, or int8 or int4 as on a device.")] = "fp32",
    threads: Annotated[int, typer.Option(min=0, help="Processor threads; 0 = one per physical core.")] = 0,
    keystrokes: Annotated[
        bool, typer.Option("--keystrokes", help="Also simulate typing the test text, at what the knob serves.")
    ] = False,
    words: Annotated[int, typer.Option(min=1, help="With --keystrokes: number of words to type.")] = 2000,
    json: Annotated[bool, typer.Option("--json", help="Print each new row as JSON.")] = False,
) -> None:
    """Measure a model at many operating points: all rankings at all knob positions, and its stored points.

    Each finished point is written at once; the same command resumes a sweep that was stopped.

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
            progress=progress,
            on_row=lambda row: print_json(to_json(row)) if json else _show_row(row),
        )
    if not json:
        print(f"{out}: {len(found.rows)} rows")


def _show_row(row: SweepRow) -> None:
    messages.print(
        f"{row.served_by} at {row.flops_fraction:.2%}, {row.split}: "
        f"perplexity {row.perplexity:.2f}, R@3 {row.recall_at_3:.2%}",
        highlight=False,
    )
