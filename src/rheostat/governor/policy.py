"""The policy, a TOML file: which knob position to use at which battery level, in which heat, or within which budget.

Knows the keys and which values make sense together. `decision` applies a policy to a situation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib import resources
from itertools import pairwise
from numbers import Real
from pathlib import Path

from rheostat.errors import RecipeError
from rheostat.governor.device import HEATS, Heat
from rheostat.inputs import read_input_text
from rheostat.tables import fill, parse_toml

DEFAULT = "default"
SMALLEST_WINDOW = 20  # with fewer queries, the 95th percentile is just the slowest one
CONDITIONS = ("below", "heat", "power_saver", "foreground")


@dataclass(frozen=True, kw_only=True)
class Step:
    """The largest knob under one condition.

    below: the battery is below this level and not on the charger. heat: the device is this hot or hotter. power_saver:
    true, the power saver is on. foreground: false, the app is in the background.
    """

    below: float | None = None
    heat: Heat | None = None
    power_saver: bool | None = None
    foreground: bool | None = None
    knob: float

    def __post_init__(self) -> None:
        _check_numbers(self)
        given = [name for name in CONDITIONS if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "no condition"
            raise RecipeError(f"a step has {found}; expected exactly one of {', '.join(CONDITIONS)}")
        if self.below is not None and not 0 < self.below <= 1:
            raise RecipeError(f"below is {self.below}; expected a battery level in (0, 1]: 50 % is 0.5")
        if self.heat is not None and self.heat not in HEATS[1:]:
            raise RecipeError(f"heat is {self.heat!r:.40}; expected one of {', '.join(HEATS[1:])}")
        # The other way round, switching the power saver on would raise the knob.
        for name, wanted in (("power_saver", True), ("foreground", False)):
            if (value := getattr(self, name)) is not None and value is not wanted:
                raise RecipeError(f"{name} is {value!r:.40}; expected {str(wanted).lower()}, or no such step")
        _check_knob("knob", self.knob)


@dataclass(frozen=True)
class Policy:
    """Levels and knobs are shares from 0 to 1. when: steps of one kind from mild to strict; the lowest knob wins."""

    when: tuple[Step, ...] = ()
    charging_knob: float = 1.0
    hysteresis: float = 0.03
    dwell_s: float = 60.0
    smallest_knob: float = 0.1
    largest_knob: float = 1.0
    light_headroom: float = 0.75
    moderate_headroom: float = 0.9
    severe_headroom: float = 1.0
    heat_recovery_s: float = 600.0
    latency_ms: float | None = None
    energy_mj: float | None = None
    latency_p95_ms: float | None = None
    latency_window: int = 40  # queries
    latency_notch: float = 0.1
    latency_margin: float = 0.15
    latency_recovery_s: float = 60.0

    def __post_init__(self) -> None:
        _check_numbers(self)
        for name in ("charging_knob", "smallest_knob", "largest_knob"):
            _check_knob(name, getattr(self, name))
        if self.smallest_knob > self.largest_knob:
            raise RecipeError(
                f"smallest_knob is {self.smallest_knob}, largest_knob {self.largest_knob}; expected the smallest first"
            )
        for name in ("dwell_s", "latency_recovery_s", "heat_recovery_s"):
            if not 0 <= getattr(self, name) < math.inf:
                raise RecipeError(f"{name} is {getattr(self, name)}; expected seconds, 0 or more")
        self._check_steps()
        self._check_headroom()
        self._check_latency()

    @property
    def levels(self) -> tuple[Step, ...]:
        """The steps of the battery, from high levels to low."""
        return tuple(step for step in self.when if step.below is not None)

    @property
    def has_budget(self) -> bool:
        """Whether it needs a table of what queries cost."""
        return self.latency_ms is not None or self.energy_mj is not None

    @property
    def headrooms(self) -> tuple[float, float, float]:
        """Where light, moderate and severe heat begin."""
        return self.light_headroom, self.moderate_headroom, self.severe_headroom

    def _check_steps(self) -> None:
        if not 0 <= self.hysteresis < 1:
            raise RecipeError(f"hysteresis is {self.hysteresis}; expected a part of the battery level in [0, 1)")
        levels = self.levels
        for high, low in pairwise(levels):
            assert high.below is not None and low.below is not None
            if low.below >= high.below:
                raise RecipeError(
                    f"when has below = {low.below} after below = {high.below}; expected levels from high to low"
                )
            if low.knob > high.knob:
                raise RecipeError(
                    f"when has knob = {low.knob} below {low.below} but {high.knob} below {high.below}; "
                    "expected a lower level to have no larger knob"
                )
        if levels and levels[0].below is not None and levels[0].below + self.hysteresis > 1:
            raise RecipeError(
                f"when has below = {levels[0].below}, which with hysteresis = {self.hysteresis} is left above "
                "level 1, which never happens; expected their sum to be at most 1"
            )
        self._check_heats([step for step in self.when if step.heat is not None])
        for name in ("power_saver", "foreground"):
            if sum(getattr(step, name) is not None for step in self.when) > 1:
                raise RecipeError(f"when has {name} twice; expected one such step")

    @staticmethod
    def _check_heats(steps: Sequence[Step]) -> None:
        for mild, strict in pairwise(steps):
            assert mild.heat is not None and strict.heat is not None
            if HEATS.index(strict.heat) <= HEATS.index(mild.heat):
                raise RecipeError(f"when has heat = {strict.heat} after {mild.heat}; expected {', '.join(HEATS[1:])}")
            if strict.knob > mild.knob:
                raise RecipeError(
                    f"when has knob = {strict.knob} in {strict.heat} heat but {mild.knob} in {mild.heat} heat; "
                    "expected more heat to have no larger knob"
                )

    def _check_headroom(self) -> None:
        light, moderate, severe = self.headrooms
        if not self.hysteresis < light < moderate < severe < math.inf:
            raise RecipeError(
                f"light_headroom is {light}, moderate_headroom {moderate}, severe_headroom {severe}; "
                f"expected them to rise from above the hysteresis, {self.hysteresis}"
            )

    def _check_latency(self) -> None:
        for name, unit in (
            ("latency_p95_ms", "milliseconds"),
            ("latency_ms", "milliseconds"),
            ("energy_mj", "millijoules"),
        ):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise RecipeError(f"{name} is {value}; expected {unit} above 0")
        if self.latency_window < SMALLEST_WINDOW:
            raise RecipeError(f"latency_window is {self.latency_window}; expected {SMALLEST_WINDOW} queries or more")
        if not 0 < self.latency_notch < 1:
            raise RecipeError(f"latency_notch is {self.latency_notch}; expected a share of the cost in (0, 1)")
        if not 0 <= self.latency_margin < 1:
            raise RecipeError(f"latency_margin is {self.latency_margin}; expected a share of the target in [0, 1)")

    def bounded(self, knob: float) -> float:
        """The nearest knob position within this policy's bounds."""
        return min(self.largest_knob, max(self.smallest_knob, knob))


def read_policy(name_or_path: str | Path = DEFAULT) -> Policy:
    """Read a policy from its path, or one that ships with the package by its name."""
    origin = str(name_or_path)
    try:
        return fill(Policy, parse_toml(_policy_text(origin)), "policy")
    except RecipeError as error:
        raise RecipeError(f"{origin}: {error}") from None


def policy_names() -> list[str]:
    """The names of the policies that ship with the package."""
    folder = resources.files("rheostat.governor") / "policies"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def _policy_text(name_or_path: str) -> str:
    if name_or_path in policy_names():
        packaged = resources.files("rheostat.governor") / "policies" / f"{name_or_path}.toml"
        return packaged.read_text(encoding="utf-8")
    try:
        return read_input_text(Path(name_or_path), "recipe or policy")
    except FileNotFoundError:
        names = ", ".join(policy_names())
        raise RecipeError(f"no such policy; expected {names}, or the path of a .toml file") from None
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or an impossible path
        reason = error.strerror if isinstance(error, OSError) else error
        raise RecipeError(f"cannot read the policy ({reason}); expected a UTF-8 .toml file") from None


def _check_numbers(table: Step | Policy) -> None:
    """Tables of a file are checked when they are read; this checks a `Policy(…)` written in Python."""
    for one in fields(table):
        value = getattr(table, one.name)
        if one.name == "when":
            if not (isinstance(value, tuple) and all(isinstance(step, Step) for step in value)):
                raise RecipeError(f"when is {value!r:.80}; expected a tuple of steps")
        elif one.name in CONDITIONS[1:]:
            continue  # words and flags, which a step checks itself
        elif not (value is None and one.default is None) and (isinstance(value, bool) or not isinstance(value, Real)):
            raise RecipeError(f"{one.name} is {value!r:.80}; expected a number")


def _check_knob(name: str, value: float) -> None:
    if not 0 < value <= 1:
        raise RecipeError(f"{name} is {value}; expected a share of the cost in (0, 1]: 80 % is 0.8")
