"""The demo: one model file turned down from 100 % to 15 % of its FLOPs, over a text that it was not trained on.

Every position is measured as everywhere else: quality by a sweep, cost by a bench, both in int8 as on a device; their
results files and the report of them are what the demo leaves behind. Knows which positions and in which order; what is
shown of them is told step by step to whoever called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from rheostat.report.evidence import gather
from rheostat.measure.latency import BenchConfig, Position, bench
from rheostat.measure.meters import EnergySource, Plan
from rheostat.report.files import write_report
from rheostat.measure.results import JsonObject, read_all, write_results
from rheostat.measure.sweep import Cell, Measured, ResultsFile, sweep
from rheostat.measure.texts import Text, read_text
from rheostat.bundled import model_path
from rheostat.text.corpus import CorpusConfig, load_split
from rheostat.errors import OperatingPointError
from rheostat.model.knob import can_serve, stored_at
from rheostat.model.file import ModelFile, open_model
from rheostat.model.operating_point import FULL
from rheostat.runtime.evaluation import RuntimeEvaluator
from rheostat.runtime.predictor import Predictor
from rheostat.runtime.onnx.quantization import Precision

KNOBS = (1.0, 0.85, 0.7, 0.55, 0.4, 0.3, 0.2, 0.15)
STARTS = ("how are you", "i would like to", "what do you think about")
PRECISION: Precision = "int8"
SPLIT = "test"
WORDS = 5000  # that queries are made of, at most
QUERIES = 200  # at each position
QUICK = Plan(idle_seconds=2.0, blocks=5, block_seconds=0.4)  # energy, roughly

Progress = Callable[[str, float], None]


@dataclass
class Step:
    """One position of the knob. quality: its row of the sweep. cost: its row of the bench, None before that ran."""

    quality: JsonObject
    suggestions: dict[str, list[str]]
    cost: JsonObject | None = None

    def as_json(self) -> JsonObject:
        return {"quality": self.quality, "cost": self.cost, "suggestions": self.suggestions}


class Demo:
    """A model, a text and a folder; `turn_down` first, then `measure_cost`, then `report`."""

    def __init__(self, model: str | Path, data: str, out: Path) -> None:
        self.model, self._data, self.out = model_path(model), data, out
        with open_model(self.model) as file:
            text = read_text(data, file.tokenizer, WORDS)
            self._cells = _cells(file)
            self._flops = file.shape.flops
        self.text: Text = replace(text, name=Path(text.name).stem)
        self.steps: list[Step] = []

    def turn_down(self, progress: Progress) -> Iterator[Step]:
        """Quality and suggestions, from the whole model downwards."""
        subject = {"model": self.model.name, "corpus": self.text.name, "flops": self._flops, "precision": PRECISION}
        results = ResultsFile(self._sweep_path, subject, resume=False)  # of an earlier demo, perhaps another model
        predictor = Predictor(self.model, precision=PRECISION)
        with open_model(self.model) as file:
            ids = load_split(self._data, SPLIT, CorpusConfig(tokenizer=file.tokenizer), file.vocabulary).ids
            evaluator = RuntimeEvaluator(file, PRECISION)

            def measure(cell: Cell, share: Callable[[float], None]) -> Measured:
                point = cell.point_of(file)
                return Measured(point, evaluator.quality(point, ids, share))

            for row in sweep(self._cells, measure, results, progress):
                predictor.turn(row["knob"])
                offered = {start: [s.word for s in predictor.suggest(start)] for start in STARTS}
                self.steps.append(Step(row, offered))
                yield self.steps[-1]

    def measure_cost(self, source: EnergySource, progress: Progress, queries: int = QUERIES) -> None:
        """Milliseconds and, where a meter is, millijoules of all positions, which take turns."""
        config = BenchConfig(queries=queries, precision=PRECISION, energy=QUICK, memory=False)
        positions = [Position(cell.knob) for cell in self._cells]
        contents = bench(self.model, positions, self.text, config, source, progress)
        write_results(self._bench_path, contents)
        # Two positions may mean one point, which is measured once.
        by_widths = {tuple(row["widths"]): row for row in contents["rows"]}
        for step in self.steps:
            step.cost = by_widths[tuple(step.quality["widths"])]

    def report(self) -> list[Path]:
        """The pages and pictures."""
        written, _ = write_report(gather(read_all([self._sweep_path, self._bench_path])), None, self.out)
        return written

    @property
    def results(self) -> list[Path]:
        return [self._sweep_path, self._bench_path]

    @property
    def _sweep_path(self) -> Path:
        return self.out / f"{self.model.stem}-demo.json"

    @property
    def _bench_path(self) -> Path:
        return self.out / f"{self.model.stem}-demo-bench.json"


def _cells(file: ModelFile) -> list[Cell]:
    """The positions that the model can be turned to, each as what the knob serves there."""
    rankings = {entry.name: entry for entry in file.description.rankings}
    ranking = rankings.get(file.description.default_ranking or "")
    if ranking is None:
        raise OperatingPointError(
            f"{file.path} has no default ranking to turn the knob by; expected one: rheostat prune or pack adds it"
        )
    cells = [Cell(FULL, "", None, 1.0, SPLIT)]
    for knob in (knob for knob in KNOBS if knob < 1 and can_serve(file, knob)):
        if point := stored_at(file, knob):
            cells.append(Cell(point.name, point.criterion, None, knob, SPLIT, "stored"))
        else:
            cells.append(Cell(ranking.name, ranking.criterion, ranking.seed, knob, SPLIT))
    return cells
