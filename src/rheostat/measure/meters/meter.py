"""The interface of all meters, which read watts or joules.

A run is one recording. Its windows (idle, blocks of queries, idle) are marked during the recording, and their energy is
computed afterwards. So a counter is read only at the marks, a sampler samples all the time, and a trace written by
another computer is read at the end. Knows nothing of queries or devices.
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
    """A clock that can also sleep; tests use their own."""

    now: Callable[[], float]
    sleep: Callable[[float], None]


MONOTONIC = Clock(time.monotonic, time.sleep)


class Recording(ABC):
    """Everything that a meter reads during a run."""

    @abstractmethod
    def mark(self) -> float:
        """The current time, as the start or end of a window; raises if the meter has failed."""

    def look(self) -> None:
        """Called between queries and while idle, so that meters without their own thread can read."""
        return

    @abstractmethod
    def reading(self, begin: float, end: float) -> WindowEnergy:
        """The energy between two marks, after the recording has ended."""


class Meter(ABC):
    """Something that reads energy."""

    name: ClassVar[str]
    clock: Clock = MONOTONIC

    @property
    @abstractmethod
    def period_s(self) -> float:
        """The approximate time between two readings."""

    @property
    def guard_s(self) -> float:
        """How far readings of one window can reach into the next; zero for counters, which are read at the marks."""
        return self.period_s

    @property
    @abstractmethod
    def covers(self) -> str:
        """What the energy covers, such as "package-0, dram" or "the whole device"."""

    @abstractmethod
    def available(self) -> str | None:
        """None if it can be used; otherwise the reason, in one line."""

    @abstractmethod
    def recording(self) -> AbstractContextManager[Recording]:
        """Record from now until the end of the block."""
