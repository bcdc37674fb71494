"""`rheostat evaluate` and `rheostat sweep`: perplexity and recall at one operating point, or at many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rheostat import knob as knob_positions
from rheostat.benchmark.sweep import Cell, Measured, ResultsFile
from rheostat.benchmark.sweep import sweep as run_sweep
from rheostat.cli.console import BUNDLED, MODEL_HELP, labelled_share, messages, print_json, shares
from rheostat.corpus import CorpusConfig, Split, load_split
from rheostat.errors import OperatingPointError
from rheostat.metrics import KeystrokeCount
from rheostat.model_file import ModelFile, open_model
from rheostat.operating_point import FULL, OperatingPoint
from rheostat.runtime.quantization import Precision

if TYPE_CHECKING:
    from rheostat.runtime.predictor import Predictor


def evaluate(
    data: Annotated[
        str, typer.Option(help="A folder with train, valid and test text, one text file, 'chat' or 'talk'.")
    ],
    model: Annotated[Path, typer.Argument(help=MODEL_HELP)] = BUNDLED,
    split: Annotated[str, typer.Option(help="train, valid or test.")] = "test",
    knob: Annotated[float, typer.Option(help="Share of the FLOPs that may be spent.")] = 1.0,
    criterion: Annotated[str | None, typer.Option(help="Cut by this criterion.")] = None,
    ranking: Annotated[str | None, typer.Option(help="Cut by the ranking of this name.")] = None,
    point: Annotated[str | None, typer.Option(help="Use the stored point of this name.")] = None,
    precision: Annotated[Precision, typer.Option(help="fp32, or int8 or int4 as on a device.")] = "fp32",
    threads: Annotated[int, typer.Option(min=0, help="Processor threads; 0: one a physical core.")] = 0,
    keystrokes: Annotated[bool, typer.Option("--keystrokes", help="Also simulate typing of the test text.")] = False,
    words: Annotated[int, typer.Option(min=1, help="With --keystrokes: how many words are typed.")] = 2000,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Measure perplexity and R@1/3/5 of a model on a text, at any position of the knob.

    The text is one stream with an <eos> per line; the state is carried through; every token but the first is predicted
    once.

    Example: rheostat evaluate model.safetensors --data DIR --split test --knob 0.8 --json
    """
    if keystrokes and (criterion or ranking):
        raise OperatingPointError("--keystrokes types at what the knob serves; leave out --criterion and --ranking")
    with open_model(model) as file:
        chosen = knob_positions.choose(file, knob, criterion=criterion, ranking=ranking, point=point)
        from rheostat.runtime.evaluation import RuntimeEvaluator
        from rheostat.runtime.predictor import Predictor

        text = _read(file, data, split)
        with shares("evaluating") as progress:
            quality = RuntimeEvaluator(file, precision, threads).quality(chosen, text.ids, progress)
    saved = None
    if keystrokes:
        saved = _type(Predictor(model, knob, point=point, precision=precision, threads=threads), data, words)
    if json:
        where = {"point": chosen.name, "split": split, "precision": precision, "model": str(model)}
        typing = {"keystrokes": saved.as_json()} if saved else {}
        print_json({**quality.as_json(), "flops_fraction": chosen.flops_fraction, **where, **typing})
    else:
        recall = "  ".join(f"R@{k} {share:.2%}" for k, share in quality.recall.items())
        print(
            f"{split} at {chosen.flops_fraction:.2%} of the FLOPs ({chosen.name}): "
            f"perplexity {quality.perplexity:.3f}  {recall}  ({quality.predictions:,} predictions)"
        )
        if saved:
            print(f"{saved.saved_share:.1%} of the keystrokes saved over {saved.words:,} words of the test text")


def _type(predictor: Predictor, data: str, words: int) -> KeystrokeCount:
    """Type the first words of the test text with three suggestions."""
    from rheostat.benchmark.keystrokes import keystroke_savings
    from rheostat.benchmark.texts import read_text

    with shares("typing") as progress:
        text = read_text(data, predictor.tokenizer, words)
        return keystroke_savings(predictor, text, words, progress=progress)


def sweep(
    model: Annotated[Path, typer.Argument(help="A model file with rankings.")],
    data: Annotated[str, typer.Option(help="A folder with train, valid and test text, 'chat' or 'talk'.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The results file; what it holds already is kept.")],
    criterion: Annotated[
        list[str] | None, typer.Option(help="Rankings of this criterion; repeat it; all by default.")
    ] = None,
    knob: Annotated[list[float] | None, typer.Option(help="Share of the FLOPs; repeat it.")] = None,
    split: Annotated[list[str] | None, typer.Option(help="valid and test by default; repeat it.")] = None,
    stored: Annotated[bool, typer.Option("--stored", help="Only the whole model and its stored points.")] = False,
    precision: Annotated[Precision, typer.Option(help="fp32, or int8 or int4 as on a device.")] = "fp32",
    threads: Annotated[int, typer.Option(min=0, help="Processor threads; 0: one a physical core.")] = 0,
    keystrokes: Annotated[
        bool, typer.Option("--keystrokes", help="Also simulate typing of the test text, at what the knob serves.")
    ] = False,
    words: Annotated[int, typer.Option(min=1, help="With --keystrokes: how many words are typed.")] = 2000,
    json: Annotated[bool, typer.Option("--json", help="Print each new row as JSON.")] = False,
) -> None:
    """Measure a model at many operating points: all rankings at all knob positions, and its stored points.

    Each finished point is written at once; the same command again goes on where it stopped.

    Example: rheostat sweep model.safetensors --data DIR --knob 0.8 --knob 0.6 -o results/ptb.json
    """
    with open_model(model) as file:
        from rheostat.runtime.evaluation import RuntimeEvaluator

        splits = split or ["valid", "test"]
        texts = {name: _read(file, data, name) for name in splits}
        knobs = [] if stored else knob or [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]
        cells = _grid(file, criterion, knobs, splits)
        subject: dict[str, Any] = {
            "model": file.path.name,
            "corpus": Path(data).resolve().name,
            "flops": file.shape.flops,
            "weights": file.weights_digest(),
        }
        if precision != "fp32":
            subject["precision"] = precision
        if keystrokes:
            subject["typed_words"] = words
        results, evaluator = ResultsFile(out, subject), RuntimeEvaluator(file, precision, threads)
        typist = _Typist(model, data, words, precision, threads) if keystrokes else None

        def measure(cell: Cell, progress: Callable[[float], None]) -> Measured:
            point = cell.point_of(file)
            quality = evaluator.quality(point, texts[cell.split].ids, progress)
            return Measured(point, quality, typist.type_at(cell, point) if typist else None)

        with labelled_share() as progress:
            for row in run_sweep(cells, measure, results, progress):
                if json:
                    print_json(row)
                else:
                    messages.print(
                        f"{row['label']} at {row['flops_fraction']:.2%}, {row['split']}: "
                        f"perplexity {row['perplexity']:.2f}, R@3 {row['recall_at_3']:.2%}",
                        highlight=False,
                    )
    if not json:
        print(f"{out}: {len(results.rows)} rows")


class _Typist:
    """Types the test text at those cells of a grid that a user of the knob would meet."""

    def __init__(self, model: Path, data: str, words: int, precision: Precision, threads: int) -> None:
        from rheostat.benchmark.texts import read_text
        from rheostat.runtime.predictor import Predictor

        self._predictor, self._words = Predictor(model, precision=precision, threads=threads), words
        self._text = read_text(data, self._predictor.tokenizer, words)

    def type_at(self, cell: Cell, point: OperatingPoint) -> KeystrokeCount | None:
        """None for the other splits, and for a point that the knob does not serve."""
        from rheostat.benchmark.keystrokes import keystroke_savings

        if cell.split != "test" or cell.allocation == "bare":
            return None
        stored = cell.label if cell.allocation == "stored" else None
        predictor = self._predictor.at(None if stored else cell.knob, point=stored)
        return keystroke_savings(predictor, self._text, self._words) if predictor.point.name == point.name else None


def _grid(file: ModelFile, criteria: Sequence[str] | None, knobs: Sequence[float], splits: Sequence[str]) -> list[Cell]:
    """The whole model, every ranking at every position, every stored point; largest first, so that a bar is honest."""
    known = {entry.criterion for entry in file.description.rankings}
    known |= {entry.criterion for entry in file.description.points}
    if missing := set(criteria or ()) - known:
        raise OperatingPointError(
            f"{file.path} has no ranking or point of {', '.join(sorted(missing))}; "
            f"expected one of {', '.join(sorted(known)) or 'those that rheostat prune adds'}"
        )
    wanted = known if criteria is None else set(criteria)
    rankings = [entry for entry in file.description.rankings if entry.criterion in wanted]
    points = [entry for entry in file.description.points if entry.criterion in wanted]
    cells = [Cell(FULL, "", None, 1.0, split) for split in splits]
    for knob in sorted(knobs, reverse=True):
        cells += [Cell(r.name, r.criterion, r.seed, knob, split) for r in rankings for split in splits]
    for p in points:
        allocations = ["stored", "bare"] if p.update_rank else ["stored"]  # what an update won back needs both
        share = round(p.flops_fraction, 4)
        cells += [Cell(p.name, p.criterion, None, share, split, kind) for kind in allocations for split in splits]
    return [cell.identified(file) for cell in cells]


def _read(file: ModelFile, data: str, split: str) -> Split:
    config = CorpusConfig(tokenizer=file.tokenizer)
    with shares(f"reading {split}") as progress:
        return load_split(data, split, config, file.vocabulary, progress=lambda _, share: progress(share))
