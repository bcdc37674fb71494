"""How long a query takes at each position of the knob on this device: measured once, kept for the process.

All positions are interleaved, a query each, so load affects them equally, and the median of each is taken. A smaller
position is never taken for slower than a larger one. The table stays, so the same question has the same answer.
Knows engines and a clock; operating points are handled by `points`.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

from rheostat.runtime.engine import Engine

ROUNDS = 25  # queries at each position
WARM_UP = 2  # rounds that do not count
_TABLES_KEPT = 16


class TimedPosition(NamedTuple):
    """A knob position, and the median time of a query there."""

    knob: float
    query_ms: float


LatencyTable = tuple[TimedPosition, ...]  # from the full model down

_tables: OrderedDict[Hashable, LatencyTable] = OrderedDict()
_lock = threading.Lock()  # two measurements at once would disturb each other


def latency_table(key: Hashable, positions: Callable[[], Sequence[tuple[float, Engine]]]) -> LatencyTable:
    """The table of a model with its settings (`key`), measured at these positions if it was not before."""
    with _lock:
        if key not in _tables:
            _tables[key] = measure(positions())
            if len(_tables) > _TABLES_KEPT:
                _tables.popitem(last=False)
        return _tables[key]


def measure(positions: Sequence[tuple[float, Engine]], rounds: int = ROUNDS) -> LatencyTable:
    """Median milliseconds of a query at each position, the most expensive first."""
    queries = [_Queries(engine) for _, engine in positions]
    times: list[list[float]] = [[] for _ in positions]
    for number in range(WARM_UP + rounds):
        for place, query in enumerate(queries):
            elapsed = query.next_ms()
            if number >= WARM_UP:
                times[place].append(elapsed)
    table: list[TimedPosition] = []
    for (knob, _), values in zip(positions, times, strict=True):
        fastest = table[-1].query_ms if table else float("inf")
        table.append(TimedPosition(knob, min(fastest, _median(values))))
    return tuple(table)


def query_ms(engine: Engine, queries: int) -> float:
    """The median time of a query, measured now."""
    run = _Queries(engine)
    times = [run.next_ms() for _ in range(WARM_UP + queries)]
    return _median(times[WARM_UP:])


def _median(values: list[float]) -> float:
    """Not that of `statistics`: importing it takes longer than many queries."""
    middle = sorted(values)
    return (middle[len(values) // 2] + middle[(len(values) - 1) // 2]) / 2


class _Queries:
    """One query after another: a word read, the three best next words found."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._token = engine, 0
        self._state: Any = engine.start()

    def next_ms(self) -> float:
        engine, token = self._engine, self._token % self._engine.shape.vocabulary_size
        start = time.perf_counter()
        reading, _ = engine.query(self._state, token, 3)
        self._state = engine.after(reading)
        self._token += 1
        return 1000 * (time.perf_counter() - start)
