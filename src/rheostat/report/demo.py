"""The demo: one model file turned down from 100 % to 15 % of its cost, on a text it was not trained on.

Positions are measured as usual: quality by a sweep, cost by a bench, both in int8 as on a device. The demo writes their
results files and a report. Knows which positions to measure and in which order; the caller shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rheostat.arguments import checked
from rheostat.bundled import HELD_OUT_TEXT, NGRAM_RESULTS, model_path
from rheostat.errors import OperatingPointError
from rheostat.measure.bench import BenchConfig, bench_positions_of
from rheostat.measure.evaluation import read_splits
from rheostat.measure.latency import BenchPosition
from rheostat.measure.meters import EnergySource, Plan, find_meter
from rheostat.measure.results import (
    BenchRow,
    NGramResults,
    SweepRow,
    check_results_target,
    read_results,
    write_results,
)
from rheostat.measure.sweep import Cell, CellResult, SweepFile, measure_cells, subject_of
from rheostat.measure.texts import Text, read_text
from rheostat.model.file import ModelFile, open_model
from rheostat.model.knob import PATH, can_serve, stored_at, turns_bits
from rheostat.model.operating_point import FULL
from rheostat.model.precision import Precision
from rheostat.report.writer import write_report
from rheostat.runtime.engine import choose_engine
from rheostat.runtime.evaluation import RuntimeEvaluator
from rheostat.runtime.predictor import Predictor
from rheostat.tables import to_json

KNOBS = (1.0, 0.85, 0.7, 0.55, 0.4, 0.3, 0.2, 0.15)
STARTS = ("how are you", "i would like to", "what do you think about")
PRECISION: Precision = "int8"
WORDS = 5000  # the most words that queries are made of
QUERIES = 200  # at each position
QUICK = Plan(idle_seconds=2.0, blocks=5, block_seconds=0.4)  # a rough energy measurement

Progress = Callable[[str, float], None]


@dataclass
class DemoStep:
    """One knob position. quality: its row in the sweep. cost: its row in the bench; None until the bench has run."""

    quality: SweepRow
    suggestions: dict[str, list[str]]
    cost: BenchRow | None = None

    def as_json(self) -> dict[str, Any]:
        return {"quality": to_json(self.quality), "cost": to_json(self.cost), "suggestions": self.suggestions}


class Demo:
    """A model, a text and a folder. Call `turn_down` first, then `measure_cost`, then `report`."""

    def __init__(self, model: str | Path, data: str | None, out: Path) -> None:
        self.model, self._data, self.out = model_path(model), str(HELD_OUT_TEXT) if data is None else data, out
        with open_model(self.model) as file:
            text = read_text(self._data, file.tokenizer, WORDS)
            ((self._split, self._ids),) = (
                (name, split.ids) for name, split in read_splits(file, self._data, None, ["test"]).items()
            )
            self._cells = _cells(file, self._split)
            ran = choose_engine(file.shape, PRECISION)
            self._subject = subject_of(file, Path(text.name).stem, PRECISION, ran, self._cells)
        self.text: Text = replace(text, name=self._subject.corpus)
        self.steps: list[DemoStep] = []
        self.ngram = _ngram_on(self._subject.corpus)

    def turn_down(self, progress: Progress) -> Iterator[DemoStep]:
        """Quality and suggestions, starting from the whole model."""
        # The file could be from an earlier demo, perhaps of another model.
        results = SweepFile(self._sweep_path, self._subject, resume=False)
        predictor = Predictor(self.model, precision=PRECISION)
        with open_model(self.model) as file:
            evaluator = RuntimeEvaluator(file, PRECISION)

            def measure(cell: Cell, share: Callable[[float], None]) -> CellResult:
                point = cell.point_of(file)
                return CellResult(point, evaluator.quality(point, self._ids, share))

            for row in measure_cells(self._cells, measure, results, progress):
                predictor.turn(row.knob)
                offered = {start: [s.word for s in predictor.suggest(start)] for start in STARTS}
                self.steps.append(DemoStep(row, offered))
                yield self.steps[-1]

    def measure_cost(self, source: EnergySource, progress: Progress, queries: int = QUERIES) -> None:
        """Milliseconds and, if there is a meter, millijoules of all positions, interleaved."""
        config = BenchConfig(queries=queries, precision=PRECISION, energy=QUICK, memory=False)
        positions = [BenchPosition(cell.knob) for cell in self._cells]
        results = bench_positions_of(self.model, positions, self.text, config, source, progress)
        write_results(self._bench_path, results)
        # Two positions can select the same point, which is measured once.
        by_position = {(row.widths, row.bounds): row for row in results.rows}
        for step in self.steps:
            step.cost = by_position[step.quality.widths, step.quality.bounds]

    def measure(self, meter: str | EnergySource, progress: Progress, queries: int = QUERIES) -> None:
        """Quality and suggestions at every position, then their cost."""
        for path in self.results:
            check_results_target(path)
        source = find_meter(meter) if isinstance(meter, str) else meter
        for _ in self.turn_down(progress):
            progress("", 0.0)
        self.measure_cost(source, progress, queries)
        progress("drawing", 1.0)

    def report(self) -> tuple[Path, ...]:
        """The pages and pictures."""
        used = [*self.results, *([self.ngram.path] if self.ngram else [])]
        return write_report(used, out=self.out).files

    def time_saved(self, step: DemoStep) -> float | None:
        """The share of a query's time that a position saves; None until it is measured."""
        first = self.steps[0].cost
        return 1 - step.cost.latency_ms / first.latency_ms if step.cost and first else None

    def quality_lost(self, step: DemoStep) -> float:
        """By how much a position's perplexity is above that of the whole model."""
        return step.quality.perplexity / self.steps[0].quality.perplexity - 1

    @property
    def results(self) -> list[Path]:
        return [self._sweep_path, self._bench_path]

    @property
    def _sweep_path(self) -> Path:
        return self.out / f"{self.model.stem}-demo.json"

    @property
    def _bench_path(self) -> Path:
        return self.out / f"{self.model.stem}-demo-bench.json"


@checked
def _ngram_on(corpus: str) -> NGramResults | None:
    """What an n-gram model of the bundled model's training text reaches on a text, if that was measured."""
    if not NGRAM_RESULTS.exists():
        return None
    found = read_results(NGRAM_RESULTS)
    return found if isinstance(found, NGramResults) and found.subject.corpus == corpus else None


@checked
def run_demo(
    model: str | Path,
    *,
    out: Path,
    data: str | None = None,
    meter: str | EnergySource = "auto",
    queries: int = QUERIES,
    progress: Progress = lambda label, share: None,
) -> Demo:
    """Turn a model's knob down on held-out text: quality, suggestions and cost at each position, and a report."""
    demo = Demo(model, data, out)
    demo.measure(meter, progress, queries)
    demo.report()
    return demo


def _cells(file: ModelFile, split: str) -> list[Cell]:
    """One cell per position that the model has, with the point that the knob selects there."""
    rankings = {entry.name: entry for entry in file.description.rankings}
    ranking = rankings.get(file.description.default_ranking or "")
    if ranking is None:
        raise OperatingPointError(
            f"{file.path} has no default ranking for the knob; add one with rheostat prune or pack"
        )
    cells = [Cell(FULL, "", None, 1.0, split)]
    for knob in (knob for knob in KNOBS if knob < 1 and can_serve(file, knob)):
        if point := stored_at(file, knob):
            cells.append(Cell(point.name, point.criterion, None, knob, split, "stored"))
        elif turns_bits(file):
            cells.append(Cell(PATH, PATH, None, knob, split, "path"))
        else:
            cells.append(Cell(ranking.name, ranking.criterion, ranking.seed, knob, split))
    return cells
