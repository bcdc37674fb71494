"""How well a budget is kept on this machine: the time asked for, against the median that governed queries took.

python benchmarks/budgets.py --json -o results/budgets.json

A table is measured first, as `rheostat bench` does: positions interleaved, the median of each. Queries in longer
windows find warmer caches, so they are faster than the table says, and a governor has to notice. Budgets lie between
the times that the smallest position and the whole model take in such windows, so that each can be met. Then one
governor for each budget and one predictor at full knob are interleaved, a window of queries each, so that load affects
them all equally. A governor decides after each of its windows. The first rounds, in which it finds its position, do not
count. Medians are over all counted queries of a budget. If the whole model takes less than a budget even so, `got` is
compared with the whole model's time.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from measuring import make_parser, report_results
from rheostat import Policy, bench
from rheostat.bundled import DEFAULT_MODEL
from rheostat.governor.cost import CostTable, read_costs
from rheostat.governor.device import PLUGGED_IN
from rheostat.governor.governor import Governor
from rheostat.measure.latency import Queries, opening_words
from rheostat.measure.texts import read_text
from rheostat.runtime.predictor import Predictor, load

KNOBS = (1.0, 0.8, 0.6, 0.4, 0.25, 0.15)
SHARES = (0.2, 0.4, 0.6, 0.8)  # of the way from the smallest position to the whole model
WINDOW = 100  # queries between two decisions
SETTLING = 10  # rounds that are not counted


class Typing:
    """One predictor with its own texts."""

    def __init__(self, predictor: Predictor) -> None:
        text = read_text(None, predictor.tokenizer, 1000)
        self.predictor = predictor
        self._queries = Queries("", predictor, text.pieces(), opening_words(predictor.vocabulary, text))

    def window(self) -> list[float]:
        """Milliseconds of a window; the first query is left out, because others have emptied the caches."""
        return [float(one) for one in self._queries.type(1 + WINDOW)[1:]]


class Governed(Typing):
    """A predictor that a budget turns. Each decision is a second after the last, and may turn."""

    def __init__(self, predictor: Predictor, asked_ms: float, table: CostTable) -> None:
        super().__init__(predictor)
        self.asked_ms, self.turns, self._now = asked_ms, 0, 0.0
        self.times: list[list[float]] = []
        policy = Policy(latency_ms=asked_ms, smallest_knob=0.1, dwell_s=1, latency_recovery_s=1, latency_window=WINDOW)
        self._governor = Governor(predictor, policy, table=table, battery=lambda: PLUGGED_IN, clock=lambda: self._now)

    def round(self) -> None:
        self._now += 1
        before = self.predictor.knob
        self._governor.update(wait=True)
        self.turns += self.predictor.knob != before
        self.times.append(self.window())
        for one in self.times[-1]:
            self._governor.observe(one)


def measure(model: str, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.json"
        bench(model, knobs=KNOBS, queries=1000, memory=False, meter="none", out=path)
        table = read_costs(path)
    predictor = load(model)
    full, small = Typing(predictor.at(1.0)), Typing(predictor.at(min(KNOBS)))
    first = [(small.window(), full.window()) for _ in range(SETTLING)]
    low, high = (_median([windows[place] for windows in first]) for place in (0, 1))
    budgets = [Governed(predictor.at(1.0), low + share * (high - low), table) for share in SHARES]
    reference: list[list[float]] = []
    for _ in range(SETTLING + rounds):
        reference.append(full.window())
        for one in budgets:
            one.round()
    full_ms = _median(reference[SETTLING:])
    figures = [_figures(one, full_ms) for one in budgets]
    return {
        "model": Path(model).name,
        "queries": rounds * WINDOW,
        "table_ms": {f"{point.knob:.3f}": point.latency_ms for point in table.points},
        "intercept_ms": table.at(0, "latency_ms"),
        # 1.2: everything took a fifth longer than when the table was measured
        "machine_against_its_table": full_ms / table.at(1, "latency_ms"),
        "budgets": figures,
        "worst_error": max(abs(one["got_over_reachable"] - 1) for one in figures),
    }


def _figures(one: Governed, full_ms: float) -> dict[str, float]:
    got = _median(one.times[SETTLING:])
    return {
        "asked_ms": one.asked_ms,
        "got_ms": got,
        "got_over_asked": got / one.asked_ms,
        "got_over_reachable": got / min(one.asked_ms, full_ms),
        "knob": one.predictor.knob,
        "turns": one.turns,
    }


def _median(windows: list[list[float]]) -> float:
    return statistics.median(value for window in windows for value in window)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--rounds", type=int, default=150, help="windows that are counted, for each budget")
    arguments = parser.parse_args()
    report_results("budgets", measure(arguments.model, arguments.rounds), arguments)


if __name__ == "__main__":
    sys.exit(main())
