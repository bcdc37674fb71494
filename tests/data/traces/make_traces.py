"""Regenerate the traces, always the same ones: invented days that look like those of a real phone.

python tests/data/traces/make_traces.py
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from pathlib import Path

FOLDER = Path(__file__).parent
HOUR = 3600

# (time_s, level, charging, queries, busy)
Row = tuple[int, float, bool, int, float]


def ordinary_day(seed: int = 5) -> Iterator[Row]:
    """24 hours from seven in the morning: the level falls faster while typing; an hour of charging in the evening."""
    chance, level, typing_until = random.Random(seed), 1.0, -1
    for time in range(0, 24 * HOUR + 1, 120):
        asleep = time > 16.5 * HOUR
        if time and time > typing_until and chance.random() < (0.004 if asleep else 0.09):
            typing_until = time + chance.randint(240, 1200)
        typing = 0 < time <= typing_until
        queries = chance.randint(8, 40) if typing else 0
        charging = 13.9 * HOUR <= time < 14.9 * HOUR
        fall = (0.012 if asleep else 0.043) / HOUR + (0.07 / HOUR if typing else 0)  # of the level, per second
        level = min(1.0, max(0.02, level + 120 * ((0.75 / HOUR if charging else 0) - fall)))
        yield time, level, charging, queries, 1.0


def flapping_battery(seed: int = 6) -> Iterator[Row]:
    """70 minutes: a level that jitters around 50 %, then a charger with a loose contact."""
    chance, level = random.Random(seed), 0.505
    for time in range(0, 70 * 60 + 1, 5):
        level -= 0.02 / HOUR * 5
        shown = level + chance.uniform(-0.012, 0.012)
        loose = 35 * 60 <= time < 60 * 60
        charging = chance.random() < 0.5 if loose else time >= 60 * 60
        yield time, shown, charging, chance.choice((0, 0, 1, 2)), 1.0


def busy_device(seed: int = 7) -> Iterator[Row]:
    """Two hours at a good level; for an hour in the middle, the device is busy and about twice as slow."""
    chance, level = random.Random(seed), 0.95
    for time in range(0, 2 * HOUR + 1, 10):
        level -= 0.06 / HOUR * 10
        load = 2.0 if 0.5 * HOUR <= time < 1.5 * HOUR else 1.0
        yield time, level, False, chance.randint(4, 12), load * chance.uniform(0.95, 1.05)


def write(name: str, rows: Iterable[Row]) -> None:
    lines = ["time_s,level,charging,queries,busy"]
    lines += [f"{t},{level:.4f},{charging:d},{queries},{busy:.3g}" for t, level, charging, queries, busy in rows]
    (FOLDER / f"{name}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write("ordinary-day", ordinary_day())
    write("flapping-battery", flapping_battery())
    write("busy-device", busy_device())
