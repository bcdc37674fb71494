"""Sweeps: quality at a grid of operating points, written to a results file that can be resumed.

Knows the grid and the file. Each finished point is written at once, so a killed sweep loses only the point it was
measuring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rheostat.arguments import check_list, checked
from rheostat.errors import OperatingPointError, RheostatError, visible
from rheostat.measure.evaluation import TYPED_WORDS, read_splits
from rheostat.measure.keystrokes import KeystrokeCount, keystroke_savings
from rheostat.measure.results import (
    Allocation,
    KeystrokeFigures,
    Origins,
    Provenance,
    SweepResults,
    SweepRow,
    SweepSubject,
    check_results_target,
    engine_title,
    read_sweep,
    write_results,
)
from rheostat.measure.results.shared import QualityFigures
from rheostat.measure.results.sweep import TEST, TEXT
from rheostat.measure.texts import read_text
from rheostat.metrics import Quality
from rheostat.model import knob as knob_positions
from rheostat.model.file import ModelFile, open_model
from rheostat.model.operating_point import FULL, OperatingPoint
from rheostat.model.precision import Precision
from rheostat.model.widths import check_knob
from rheostat.runtime.engine import EngineName
from rheostat.runtime.evaluation import RuntimeEvaluator
from rheostat.runtime.predictor import Predictor

KNOBS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4)
SPLITS = ("valid", "test")
STORED = ("stored", "bare")  # allocations of stored points, which do not depend on the knob

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Cell:
    """One measurement of the grid, as the results file names it (`SweepRow`)."""

    label: str
    criterion: str
    seed: int | None
    knob: float
    split: str
    allocation: Allocation = "uniform"
    digest: str = ""  # of the point, which may have been learned again under the same name

    def is_of(self, row: SweepRow) -> bool:
        """Whether a row is the measurement of this cell. A stored point is identified by its name alone."""
        same = (row.label, row.split, row.allocation) == (self.label, self.split, self.allocation)
        return same and (self.allocation in STORED or row.knob == self.knob)

    def identified(self, file: ModelFile) -> Cell:
        return replace(self, digest=self.point_of(file).digest)

    def point_of(self, file: ModelFile) -> OperatingPoint:
        """The point to measure."""
        if self.allocation == "stored":
            return file.point(self.label)
        if self.allocation == "bare":
            return replace(file.point(self.label), updates=None)
        if self.allocation == "path":
            return knob_positions.path_point(file, self.knob)
        if self.allocation == "bits":
            return knob_positions.four_bits(file)
        return knob_positions.choose(file, self.knob, ranking=None if self.label == FULL else self.label)


@dataclass(frozen=True)
class CellResult:
    """The result of measuring a cell. keystrokes: None if nothing was typed."""

    point: OperatingPoint
    quality: Quality
    keystrokes: KeystrokeCount | None = None

    def row(self, cell: Cell) -> SweepRow:
        return SweepRow(
            **asdict(cell),
            **asdict(QualityFigures.of(self.quality)),
            flops_fraction=self.point.flops_fraction,
            widths=self.point.widths,
            bounds=self.point.bounds,
            cost_fraction=self.point.cost_fraction,
            update_bytes=self.point.update_bytes,
            update_rank=self.point.update_rank,
            reconstructed=self.point.reconstruction is not None,
            keystrokes=KeystrokeFigures.of(self.keystrokes) if self.keystrokes else None,
        )


Measure = Callable[[Cell, Callable[[float], None]], CellResult]


class SweepFile:
    """The results file of a sweep, rewritten atomically after every row."""

    def __init__(self, path: Path, subject: SweepSubject, *, resume: bool = True) -> None:
        """resume: keep the rows that the file already holds; otherwise they are replaced."""
        self.path, self.subject = path, subject
        self.rows: tuple[SweepRow, ...] = ()
        if resume and path.exists():
            self._load()

    def _load(self) -> None:
        found = read_sweep(self.path)
        if found.subject != self.subject:
            raise RheostatError(
                f"{self.path} holds results of {_described(found.subject)}; the new ones are of "
                f"{_described(self.subject)}: choose another file, or delete the file to measure again"
            )
        self.subject = replace(self.subject, origins=self.subject.origins.with_those_of(found.subject.origins))
        self.rows = found.rows

    def has(self, cell: Cell) -> bool:
        return any(cell.is_of(row) and row.digest == cell.digest for row in self.rows)

    def measured_as(self, cell: Cell) -> SweepRow | None:
        """An earlier row for the same filters on the same text under another name; for bare points only.

        Without its update, a point is often identical to one already measured for a ranking or another point.
        Keystrokes are not copied, because typing is not simulated at bare points.
        """
        if cell.allocation != "bare" or not cell.digest:
            return None
        same = (row for row in self.rows if (row.digest, row.split) == (cell.digest, cell.split))
        return next((replace(row, **asdict(cell), keystrokes=None) for row in same), None)

    def add(self, cell: Cell, row: SweepRow) -> None:
        """Add a row; it replaces the row of an earlier point with this name."""
        self.rows = (*(before for before in self.rows if not cell.is_of(before)), row)
        write_results(self.path, self.results)

    @property
    def results(self) -> SweepResults:
        return SweepResults(Provenance.of_this_process(), self.subject, self.rows, self.path)


@checked
def sweep(
    model: str | Path,
    *,
    data: str | Path,
    out: str | Path,
    criteria: Sequence[str] = (),
    knobs: Sequence[float] = KNOBS,
    splits: Sequence[str] | None = None,
    precision: Precision = "fp32",
    threads: int = 0,
    keystrokes: bool = False,
    words: int = TYPED_WORDS,
    engine: EngineName | None = None,
    progress: Progress = lambda label, share: None,
    on_row: Callable[[SweepRow], None] = lambda row: None,
) -> SweepResults:
    """Measure a model at many operating points: all rankings at all knob positions, and its stored points.

    criteria: use only rankings and points of these. knobs: empty = only the whole model and its stored points. splits:
    by default valid and test; a single text file is one split. keystrokes: also simulate typing the first `words` words
    of the test text, at the points the knob selects. threads, engine: as for `load`. out: the results file; rows
    already in it are kept if the same engine measured them. on_row: called with each new row.
    """
    target = check_results_target(out)
    for name, values in {"criteria": criteria, "knobs": knobs, "splits": splits or ()}.items():
        check_list(name, values)
    for knob in knobs:
        check_knob(knob)
    with open_model(model) as file:
        texts = read_splits(file, data, splits, SPLITS, progress)
        cells = grid(file, criteria, knobs, list(texts))
        typed_words = words if keystrokes else None
        evaluator = RuntimeEvaluator(file, precision, threads, engine)
        corpus, ran = visible(Path(data).resolve().name), evaluator.engine
        results = SweepFile(target, subject_of(file, corpus, precision, ran, cells, typed_words))
        typist = _SimulatedTypist(model, str(data), words, precision, threads, ran) if keystrokes else None

        def measure(cell: Cell, share: Callable[[float], None]) -> CellResult:
            point = cell.point_of(file)
            quality = evaluator.quality(point, texts[cell.split].ids, share)
            return CellResult(point, quality, typist.type_at(cell, point) if typist else None)

        for row in measure_cells(cells, measure, results, progress):
            on_row(row)
    return results.results


def measure_cells(
    cells: Sequence[Cell], measure: Measure, results: SweepFile, progress: Progress
) -> Iterator[SweepRow]:
    """Measure the cells that are not in the results yet; yields each new row. progress: label, share done."""
    left = [cell for cell in cells if not results.has(cell)]
    # A point is weighted by its knob position, so that the bar moves evenly.
    total, done = sum(cell.knob for cell in cells), sum(cell.knob for cell in cells if results.has(cell))
    for cell in left:
        label = f"{cell.label} {cell.knob:.0%} {cell.split}"

        def show(share: float, label: str = label, cell: Cell = cell, before: float = done) -> None:
            progress(label, (before + share * cell.knob) / total)

        show(0.0)
        row = results.measured_as(cell) or measure(cell, show).row(cell)
        results.add(cell, row)
        done += cell.knob
        yield row
    progress("done", 1.0)


def subject_of(
    file: ModelFile,
    corpus: str,
    precision: Precision,
    engine: EngineName,
    cells: Sequence[Cell],
    typed_words: int | None = None,
) -> SweepSubject:
    rankings = [cell.label for cell in cells if cell.allocation == "uniform" and cell.label != FULL]
    points = [cell.label for cell in cells if cell.allocation in STORED]
    return SweepSubject(
        visible(file.path.name),
        corpus,
        file.shape.flops,
        file.weights_digest(),
        precision,
        engine,
        typed_words,
        Origins.of(file, rankings, points),
    )


def grid(file: ModelFile, criteria: Sequence[str], knobs: Sequence[float], splits: Sequence[str]) -> list[Cell]:
    """Cells for the whole model, every ranking at every position, and every stored point; largest first."""
    known = {entry.criterion for entry in file.description.rankings}
    known |= {entry.criterion for entry in file.description.points}
    known |= {knob_positions.PATH, knob_positions.BITS} if knob_positions.turns_bits(file) else set()
    if missing := set(criteria) - known:
        raise OperatingPointError(
            f"{file.path} has no ranking or point of {', '.join(sorted(missing))}; "
            f"expected one of {', '.join(sorted(known)) or 'those that rheostat prune adds'}"
        )
    wanted = set(criteria) or known
    rankings = [entry for entry in file.description.rankings if entry.criterion in wanted]
    points = [entry for entry in file.description.points if entry.criterion in wanted]
    cells = [Cell(FULL, "", None, 1.0, split) for split in splits]
    if knob_positions.BITS in wanted and knobs:
        share = round(knob_positions.four_bits(file).cost, 4)
        cells += [Cell(knob_positions.BITS, knob_positions.BITS, None, share, split, "bits") for split in splits]
    for knob in sorted(knobs, reverse=True):
        if knob_positions.PATH in wanted and knob_positions.can_follow(file, knob):
            cells += [Cell(knob_positions.PATH, knob_positions.PATH, None, knob, split, "path") for split in splits]
        cells += [Cell(r.name, r.criterion, r.seed, knob, split) for r in rankings for split in splits]
    for p in points:
        # How much an update recovers is found by measuring the point with and without it.
        allocations: list[Allocation] = ["stored", "bare"] if p.update_rank else ["stored"]
        share = round(p.flops_fraction, 4)
        cells += [Cell(p.name, p.criterion, None, share, split, kind) for kind in allocations for split in splits]
    return [cell.identified(file) for cell in cells]


class _SimulatedTypist:
    """Types the test text at the cells of a grid that the knob can select."""

    def __init__(
        self, model: str | Path, data: str, words: int, precision: Precision, threads: int, engine: EngineName
    ) -> None:
        self._predictor = Predictor(model, precision=precision, threads=threads, engine=engine)
        self._words = words
        self._text = read_text(data, self._predictor.tokenizer, words)

    def type_at(self, cell: Cell, point: OperatingPoint) -> KeystrokeCount | None:
        """None for other splits, and for a point that the knob does not select."""
        if cell.split not in (TEST, TEXT) or cell.allocation == "bare":
            return None
        stored = cell.label if cell.allocation == "stored" else None
        predictor = self._predictor.at(None if stored else cell.knob, point=stored)
        return keystroke_savings(predictor, self._text, self._words) if predictor.point.name == point.name else None


def _described(subject: SweepSubject) -> str:
    typed = f", {subject.typed_words} words typed" if subject.typed_words else ""
    weights = f" (weights {subject.weights})" if subject.weights else ""
    return (
        f"{subject.model}{weights} on {subject.corpus} in {subject.precision} by {engine_title(subject.engine)}{typed}"
    )
