"""What a meter is: the one interface behind which watts and joules are read.

A run is one recording. Its windows (idle, blocks of queries, idle) are marked while it lasts, and their energy is asked
for when it has ended; so a counter reads only at the marks, a sampler samples all the time, and a trace that another
computer writes is read afterwards. Knows nothing of queries, nor of any device.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from rheostat.measure.meters.series import WindowEnergy


@dataclass(frozen=True)
class Clock:
    """Time and the passing of it; tests bring their own."""

    now: Callable[[], float]
    sleep: Callable[[float], None]


MONOTONIC = Clock(time.monotonic, time.sleep)


class Recording(ABC):
    """What a meter reads from its beginning to its end."""

    @abstractmethod
    def mark(self) -> float:
        """This moment, as the begin or end of a window; raises as soon as the meter is known to have failed."""

    def look(self) -> None:
        """A chance to read between queries and while idle, for a meter without a thread that reads by itself."""
        return

    @abstractmethod
    def reading(self, begin: float, end: float) -> WindowEnergy:
        """The energy between two marks, once the recording has ended."""


class Meter(ABC):
    """Something that reads energy."""

    name: ClassVar[str]
    clock: Clock = MONOTONIC

    @property
    @abstractmethod
    def period_s(self) -> float:
        """A new reading comes about this often."""

    @property
    def guard_s(self) -> float:
        """How far one window reaches into the readings of the next; a counter's are separated by its marks."""
        return self.period_s

    @property
    @abstractmethod
    def covers(self) -> str:
        """What the energy is of, such as "package-0, dram" or "the whole device"."""

    @abstractmethod
    def available(self) -> str | None:
        """None if it can be used; else, in one line, why not."""

    @abstractmethod
    def recording(self) -> AbstractContextManager[Recording]:
        """Read from now on, to the end of the block."""
