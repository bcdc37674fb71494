"""The governor on phones and laptops: heat, power saver, foreground, budgets, readers and the days of the traces."""

from __future__ import annotations

import itertools
import json
import runpy
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rheostat.errors import RecipeError, RheostatError
from rheostat.governor.body import Body, read_body
from rheostat.governor.cost import CostPoint, CostTable, fit, read_costs
from rheostat.governor.decision import Decision, Situation, decide
from rheostat.governor.device import HEATS, PLUGGED_IN, UNKNOWN_BATTERY, Battery, DeviceState, Heat
from rheostat.governor.governor import Governor
from rheostat.governor.policy import Policy, Step, read_policy
from rheostat.governor.readers import (
    linux_heat,
    linux_power_saver,
    parse_pmset_battery,
    parse_pmset_heat,
    parse_pmset_power_saver,
    parse_power_status,
    read_linux,
)
from rheostat.governor.replay import Comparison, FullCost, compare
from rheostat.governor.trace import Row, Trace, read_trace

TRACES = Path(__file__).parents[1] / "data" / "traces"
RESULTS = Path(__file__).parents[2] / "results"
DEVICES = ("android-phone", "iphone", "linux-laptop", "macbook", "windows-laptop", "raspberry-pi")
PAPERS = FullCost(latency_ms=224, energy_mj=296, latency_source="test", energy_source="test")
DEFAULT = read_policy()


def follow(policy: Policy, *situations: Situation) -> list[Decision]:
    decisions = [Decision(1.0)]
    for situation in situations:
        decisions.append(decide(policy, situation, decisions[-1]))
    return decisions[1:]


# What decides


@pytest.mark.parametrize(
    ("situation", "knob", "reason"),
    [
        (Situation(0), 1.0, "nothing limits it"),
        (Situation(0, Battery(0.9, False)), 1.0, "battery above all steps"),
        (Situation(0, power_saver=True), 0.6, "power saver"),
        (Situation(0, heat="light"), 0.8, "light heat"),
        (Situation(0, heat="moderate"), 0.5, "moderate heat"),
        (Situation(0, heat="severe"), 0.3, "severe heat"),
        (Situation(0, headroom=0.7), 1.0, "nothing limits it"),
        (Situation(0, headroom=0.95), 0.5, "moderate heat"),
        (Situation(0, headroom=0.7, headroom_forecast=1.0), 0.3, "severe heat"),
        (Situation(0, heat="moderate", headroom=0.1), 0.5, "moderate heat"),
        (Situation(0, PLUGGED_IN, heat="severe"), 0.3, "severe heat"),
        (Situation(0, Battery(0.2, False), power_saver=True, heat="light"), 0.6, "battery below 30%"),
        (Situation(0, Battery(0.2, False), power_saver=True, heat="moderate"), 0.5, "moderate heat"),
        (Situation(0, Battery(0.1, False), power_saver=True, heat="moderate"), 0.4, "battery below 15%"),
    ],
)
def test_the_lowest_knob_wins_and_the_reason_names_it(situation: Situation, knob: float, reason: str) -> None:
    (decision,) = follow(DEFAULT, situation)
    assert (decision.knob, decision.reason) == (knob, reason)


def test_an_app_in_the_background_may_get_less() -> None:
    policy = replace(DEFAULT, when=(*DEFAULT.when, Step(foreground=False, knob=0.35)))
    (decision,) = follow(policy, Situation(0, foreground=False))
    assert (decision.knob, decision.reason) == (0.35, "app in the background")
    assert [one.knob for one in follow(policy, Situation(0, foreground=True), Situation(1))] == [1.0, 1.0]


MISSING: dict[str, Any] = {
    "battery": UNKNOWN_BATTERY,
    "power_saver": None,
    "heat": None,
    "headroom": None,
    "headroom_forecast": None,
    "foreground": None,
    "latency_ms": None,
    "energy_mj": None,
}
KNOWN: dict[str, Any] = {
    "battery": Battery(0.4, False),
    "power_saver": True,
    "heat": "light",
    "headroom": 0.95,
    "headroom_forecast": 1.2,
    "foreground": False,
    "latency_ms": 3.0,
    "energy_mj": 4.0,
}


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_value_leaves_the_knob_where_the_others_put_it(name: str) -> None:
    policy = replace(DEFAULT, when=(*DEFAULT.when, Step(foreground=False, knob=0.9)))
    others = {other: value for other, value in KNOWN.items() if other != name}
    alone = [decide(policy, Situation(0, **{other: value}), Decision(1.0)).knob for other, value in others.items()]
    assert decide(policy, Situation(0, **others, **{name: MISSING[name]}), Decision(1.0)).knob == min(alone)


def test_heat_turns_down_at_once_and_up_after_its_recovery() -> None:
    readings = [Situation(0, heat="severe"), *(Situation(t, heat="none") for t in (100, 599, 600, 700))]
    assert [one.knob for one in follow(DEFAULT, *readings)] == [0.3, 0.3, 0.3, 1.0, 1.0]


def test_a_thermometer_that_falls_silent_is_forgotten_after_the_recovery() -> None:
    assert [one.knob for one in follow(DEFAULT, Situation(0, heat="severe"), Situation(599), Situation(600))] == [
        0.3,
        0.3,
        1.0,
    ]


def test_a_headroom_is_left_only_below_its_hysteresis() -> None:
    policy = replace(DEFAULT, heat_recovery_s=0, dwell_s=0)
    values = [0.89, 0.9, 0.88, 0.871, 0.869]
    knobs = [one.knob for one in follow(policy, *(Situation(t, headroom=value) for t, value in enumerate(values)))]
    assert knobs == [0.8, 0.5, 0.5, 0.5, 0.8]


def test_a_power_saver_counts_as_off_after_a_dwell() -> None:
    readings = [Situation(0, power_saver=True), *(Situation(t, power_saver=False) for t in (59, 60))]
    assert [one.knob for one in follow(DEFAULT, *readings)] == [0.6, 0.6, 1.0]


# Properties

OPTIONAL_BOOL = st.sampled_from([True, False, None])
HEADROOM = st.one_of(st.none(), st.floats(0, 1.2))
STATE = st.fixed_dictionaries(
    {
        "battery": st.builds(Battery, st.one_of(st.none(), st.floats(0, 1)), OPTIONAL_BOOL),
        "power_saver": OPTIONAL_BOOL,
        "heat": st.sampled_from([None, *HEATS]),
        "headroom": HEADROOM,
        "headroom_forecast": HEADROOM,
        "foreground": OPTIONAL_BOOL,
        "p95_ms": st.one_of(st.none(), st.floats(0.1, 500)),
        "latency_ms": st.one_of(st.none(), st.floats(0.1, 500)),
        "energy_mj": st.one_of(st.none(), st.floats(0.1, 500)),
    }
)
READINGS = st.lists(st.tuples(st.floats(0.1, 400), STATE), max_size=30)
TABLE = CostTable((CostPoint(0.2, 60.0, 80.0), CostPoint(1.0, 224.0, 296.0)), "test")
EVERYTHING = replace(
    DEFAULT,
    when=(*DEFAULT.when, Step(foreground=False, knob=0.7)),
    latency_ms=150.0,
    energy_mj=180.0,
    latency_p95_ms=170.0,
)


def run(
    policy: Policy, readings: list[tuple[float, dict[str, Any]]], table: CostTable | None = TABLE
) -> list[Decision]:
    decisions, time_s = [Decision(1.0)], 0.0
    for wait, state in readings:
        time_s += wait
        decisions.append(decide(policy, Situation(time_s, **state), decisions[-1], table))
    return decisions


@given(READINGS)
def test_no_sequence_of_readings_turns_faster_than_the_dwell_or_leaves_the_bounds(
    readings: list[tuple[float, dict[str, Any]]],
) -> None:
    times = [0.0, *itertools.accumulate(wait for wait, _ in readings)]
    decisions = run(EVERYTHING, readings)
    turns = [time for time, (a, b) in zip(times[1:], itertools.pairwise(decisions), strict=True) if a.knob != b.knob]
    assert all(later - earlier >= EVERYTHING.dwell_s - 1e-9 for earlier, later in itertools.pairwise(turns))
    assert all(EVERYTHING.smallest_knob <= one.knob <= EVERYTHING.largest_knob for one in decisions)


def worse(state: dict[str, Any], what: str, by: float) -> dict[str, Any]:
    """The same situation with a lower battery, more heat, or the power saver on."""
    battery: Battery = state["battery"]
    if what == "battery":
        return state | {
            "battery": Battery(max(0.0, (1.0 if battery.level is None else battery.level) - by), battery.charging)
        }
    if what == "heat":
        return state | {"heat": HEATS[min(3, HEATS.index(state["heat"] or "none") + 1)]}
    if what == "headroom":
        return state | {"headroom": (state["headroom"] or 0.0) + by}
    return state | {"power_saver": True}


@given(
    READINGS,
    STATE,
    st.sampled_from(["battery", "heat", "headroom", "power saver"]),
    st.floats(0, 1),
    st.floats(60, 500),
)
@settings(max_examples=300)
def test_a_lower_battery_more_heat_or_power_saver_never_raises_the_knob(
    readings: list[tuple[float, dict[str, Any]]], state: dict[str, Any], what: str, by: float, wait: float
) -> None:
    before = run(EVERYTHING, readings)[-1]
    now = sum(step for step, _ in readings) + wait
    milder, harsher = (
        decide(EVERYTHING, Situation(now, **one), before, TABLE).knob for one in (state, worse(state, what, by))
    )
    if what != "battery" or state["battery"].level is not None:  # an unknown level stays what it was
        assert harsher <= milder


@given(READINGS, st.sampled_from(["heat", "headroom", "power saver", "battery"]), st.floats(0, 1))
def test_a_whole_day_that_is_worse_never_ends_higher_without_dwell(
    readings: list[tuple[float, dict[str, Any]]], what: str, by: float
) -> None:
    """Without a dwell (whose phase differs between two days) and targets, every moment is comparable."""
    policy = replace(DEFAULT, dwell_s=0)
    known = [(wait, state | {"battery": Battery(state["battery"].level or 0.0, False)}) for wait, state in readings]
    mild = run(policy, known)
    harsh = run(policy, [(wait, worse(state, what, by)) for wait, state in known])
    assert all(one.knob <= other.knob for one, other in zip(harsh, mild, strict=True))


# Policies


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[[when]]\nknob = 0.5",
            "a step has no condition; expected exactly one of below, heat, power_saver, foreground",
        ),
        ("[[when]]\nbelow = 0.5\nheat = 'light'\nknob = 0.5", "a step has below and heat; expected exactly one"),
        ("[[when]]\nheat = 'warm'\nknob = 0.5", "heat is 'warm'; expected one of 'none', 'light'"),
        ("[[when]]\nheat = 'none'\nknob = 0.5", "heat is 'none'; expected one of light, moderate, severe"),
        ("[[when]]\nhaet = 'light'\nknob = 0.5", "unknown key 'haet' .did you mean 'heat'"),
        ("[[when]]\npower_saver = false\nknob = 0.5", "power_saver is False; expected true"),
        ("[[when]]\nforeground = true\nknob = 0.5", "foreground is True; expected false"),
        ("when = [{heat='severe', knob=0.5}, {heat='light', knob=0.4}]", "heat = light after severe"),
        ("when = [{heat='light', knob=0.5}, {heat='severe', knob=0.6}]", "more heat to have no larger knob"),
        ("when = [{power_saver=true, knob=0.5}, {power_saver=true, knob=0.4}]", "power_saver twice"),
        ("light_headroom = 0.95", "expected them to rise"),
        ("latency_mss = 3", "unknown key 'latency_mss' .did you mean 'latency_ms'"),
        ("energy_mj = 0", "energy_mj is 0.0; expected millijoules above 0"),
        ("heat_recovery_s = -1", "heat_recovery_s is -1.0; expected seconds"),
    ],
)
def test_a_broken_rule_names_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(RecipeError, match=message) as error:
        read_policy(path)
    assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)


def test_the_default_covers_heat_and_power_saver() -> None:
    assert {step.heat for step in DEFAULT.when} >= set(HEATS[1:])
    assert any(step.power_saver for step in DEFAULT.when)


@pytest.mark.parametrize(
    "wrong", [{"heat": "hot"}, {"headroom": -1.0}, {"headroom": float("nan")}, {"power_saver": 1}, {"foreground": "no"}]
)
def test_an_impossible_reading_is_refused(wrong: dict[str, Any]) -> None:
    for kind in (DeviceState, lambda **values: Situation(0, **values)):
        with pytest.raises(RheostatError, match=f"{next(iter(wrong))} is .*; expected"):
            kind(**wrong)


# Costs and budgets


def test_costs_are_lines_between_points_with_the_intercept_of_the_fit() -> None:
    table = CostTable((CostPoint(0.5, 3.0), CostPoint(1.0, 5.0)))
    assert table.line("latency_ms") == ((0.0, 1.0), (0.5, 3.0), (1.0, 5.0))
    assert table.at(0.75, "latency_ms") == 4.0 and table.at(0.25, "latency_ms") == 2.0
    assert fit([(0.5, 3.0), (1.0, 5.0)]) == (1.0, 4.0)


def test_noise_in_a_table_is_smoothed_so_that_a_smaller_position_never_costs_more() -> None:
    table = CostTable((CostPoint(0.2, 2.0), CostPoint(0.5, 4.0), CostPoint(0.6, 3.0), CostPoint(1.0, 6.0)))
    assert [cost for _, cost in table.line("latency_ms")[1:]] == [2.0, 3.5, 3.5, 6.0]


def test_a_table_is_read_from_a_bench(tmp_path: Path) -> None:
    table = read_costs(RESULTS / "ptb-graded-bench.json")
    assert len(table.points) == 7 and table.source == "ptb-graded-bench.json" and not table.knows("energy_mj")
    assert 0 < table.at(0, "latency_ms") < table.points[0].latency_ms
    for text, message in (
        ("{", "is not JSON"),
        ('{"kind": "sweep"}', "has the kind 'sweep'; expected a table"),
        ('{"kind": "bench", "rows": []}', "has no rows"),
        (
            '{"kind": "bench", "rows": [{"flops_fraction": 1, "latency_ms": -1}]}',
            "latency_ms is -1.0; expected a number",
        ),
    ):
        (tmp_path / "table.json").write_text(text)
        with pytest.raises(RheostatError, match=message):
            read_costs(tmp_path / "table.json")
    with pytest.raises(RheostatError, match="cannot read"):
        read_costs(tmp_path / "none.json")


class Knob:
    """Something with a knob."""

    def __init__(self) -> None:
        self.knob = 1.0

    def turn(self, knob: float, *, wait: bool) -> None:
        self.knob = knob


def test_a_budget_without_a_table_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(RheostatError, match="no table was given; measure this device with `rheostat bench"):
        Governor(Knob(), Policy(latency_ms=3))
    with pytest.raises(RheostatError, match="has no energy"):
        Governor(Knob(), Policy(energy_mj=3), table=RESULTS / "ptb-graded-bench.json")


def run_budget(
    policy: Policy, table: CostTable, latency: Any, energy: Any, minutes: int = 60
) -> tuple[float, float, int]:
    """Mean latency and energy of the queries of an hour, after the first five minutes; and how often it turned."""
    now, knob = [0.0], Knob()
    governor = Governor(knob, policy, table=table, battery=lambda: PLUGGED_IN, clock=lambda: now[0])
    times, energies, turns = [], [], 0
    for second in range(60 * minutes):
        now[0], before = float(second), knob.knob
        governor.update()
        turns += knob.knob != before
        took, spent = latency(knob.knob, second), energy(knob.knob, second)
        governor.observe(took, spent)
        if second >= 300:
            times.append(took)
            energies.append(spent)
    return sum(times) / len(times), sum(energies) / len(energies), turns


@pytest.mark.parametrize("slower", [1.0, 1.3, 0.8])
@pytest.mark.parametrize("asked", [1.2, 2.0, 2.8])
def test_a_budget_is_kept_within_5_percent_even_if_the_table_is_off(asked: float, slower: float) -> None:
    """A device with an intercept and a bend, measured at four positions; then everything takes longer or shorter."""

    def true_ms(knob: float) -> float:
        return 0.4 + 2.2 * knob + 0.6 * knob * knob

    table = CostTable(tuple(CostPoint(knob, true_ms(knob), 1.5 * true_ms(knob)) for knob in (0.15, 0.4, 0.7, 1.0)))
    jitter = itertools.cycle((0.97, 1.02, 1.0, 1.05, 0.96))

    def latency(knob: float, second: int) -> float:
        return slower * true_ms(knob) * next(jitter)

    def energy(knob: float, second: int) -> float:
        return 1.5 * slower * true_ms(knob)

    within = min(asked, slower * true_ms(1.0))
    took, _, turns = run_budget(Policy(latency_ms=asked, smallest_knob=0.05), table, latency, energy)
    assert took == pytest.approx(within, rel=0.05) and turns <= 12
    _, spent, turns = run_budget(Policy(energy_mj=1.5 * asked, smallest_knob=0.05), table, latency, energy)
    assert spent == pytest.approx(1.5 * within, rel=0.05) and turns <= 12


def test_a_budget_follows_a_device_that_gets_busy_and_idle_again() -> None:
    table = CostTable((CostPoint(0.2, 1.0), CostPoint(1.0, 3.0)))
    policy = Policy(latency_ms=2.0, smallest_knob=0.05)
    now, knob = [0.0], Knob()
    governor = Governor(knob, policy, table=table, battery=lambda: PLUGGED_IN, clock=lambda: now[0])
    seen = {}
    for second in range(5400):
        now[0] = float(second)
        governor.update()
        governor.observe(table.at(knob.knob, "latency_ms") * (1.5 if 1800 <= second < 3600 else 1.0))
        seen[second] = knob.knob
    for second, slower in ((1799, 1.0), (3599, 1.5), (5399, 1.0)):
        assert slower * table.at(seen[second], "latency_ms") == pytest.approx(2.0, rel=0.05)


# Readers


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    return root


ZONE = {
    "class/thermal/thermal_zone0/trip_point_0_type": "critical",
    "class/thermal/thermal_zone0/trip_point_0_temp": "105000",
    "class/thermal/thermal_zone0/trip_point_1_type": "passive",
    "class/thermal/thermal_zone0/trip_point_1_temp": "90000",
}


@pytest.mark.parametrize(
    ("celsius", "heat"), [(45, "none"), (79, "none"), (80, "light"), (89, "light"), (90, "moderate"), (100, "severe")]
)
def test_a_thermal_zone_is_read_by_its_trip_points(tmp_path: Path, celsius: int, heat: Heat) -> None:
    write(tmp_path, ZONE | {"class/thermal/thermal_zone0/temp": str(1000 * celsius)})
    assert linux_heat(tmp_path) == heat


def test_the_hottest_zone_counts_and_senseless_trip_points_do_not(tmp_path: Path) -> None:
    zone = "class/thermal/thermal_zone1/"
    write(tmp_path, ZONE | {"class/thermal/thermal_zone0/temp": "50000"})
    write(tmp_path, {f"{zone}temp": "60000", f"{zone}trip_point_0_type": "passive", f"{zone}trip_point_0_temp": "0"})
    assert linux_heat(tmp_path) == "none"
    write(tmp_path, {f"{zone}trip_point_0_temp": "58000", f"{zone}mode": "enabled"})
    assert linux_heat(tmp_path) == "moderate"
    write(tmp_path, {f"{zone}mode": "disabled"})
    assert linux_heat(tmp_path) == "none"
    assert linux_heat(tmp_path / "nothing") is None


def test_the_platform_profile_is_the_power_saver(tmp_path: Path) -> None:
    assert linux_power_saver(tmp_path) is None
    for profile, saves in (("low-power", True), ("balanced", False), ("performance", False)):
        write(tmp_path, {"firmware/acpi/platform_profile": profile})
        assert linux_power_saver(tmp_path) is saves


def supply(name: str, **files: str) -> dict[str, str]:
    return {f"class/power_supply/{name}/{file}": text for file, text in files.items()}


MOUSE = supply("hidpp_battery_0", type="Battery", scope="Device", capacity="5", status="Discharging")
LAPTOP = supply("macsmc-battery", type="Battery", capacity="81", status="Charging")


def test_the_battery_of_a_mouse_is_not_the_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def psutil_must_not_be_asked() -> None:
        raise AssertionError("psutil would return the mouse's battery")

    monkeypatch.setattr("psutil.sensors_battery", psutil_must_not_be_asked, raising=False)
    assert read_linux(write(tmp_path / "desktop", MOUSE)).battery == PLUGGED_IN
    assert read_linux(write(tmp_path / "laptop", MOUSE | LAPTOP)).battery == Battery(0.81, True)
    monkeypatch.setattr("psutil.sensors_battery", lambda: None, raising=False)
    assert read_linux(tmp_path / "container") == DeviceState(PLUGGED_IN)


# In the form that pmset prints; not recorded on a Mac of ours.
BATTERY = " -InternalBattery-0 (id=22806627)\t"
ON_BATTERY = f"Now drawing from 'Battery Power'\n{BATTERY}78%; discharging; 5:05 remaining present: true\n"
ON_MAINS = f"Now drawing from 'AC Power'\n{BATTERY}83%; charging; 1:00 remaining present: true\n"
WITH_MOUSE = "Now drawing from 'AC Power'\n -Magic Mouse (id=1)\t12%; discharging; (no estimate) present: true\n"
SETTINGS = "System-wide power settings:\nCurrently in use:\n displaysleep         0\n lowpowermode         1\n"
LIMITED = " - CPU_Scheduler_Limit          = 100\n - CPU_Speed_Limit               = {}\n"


def test_pmset_is_parsed() -> None:
    assert parse_pmset_battery(ON_BATTERY) == Battery(0.78, False)
    assert parse_pmset_battery(ON_MAINS) == Battery(0.83, True)
    assert parse_pmset_battery(WITH_MOUSE) == PLUGGED_IN
    assert parse_pmset_battery("") == UNKNOWN_BATTERY
    assert parse_pmset_power_saver(SETTINGS) is True
    assert parse_pmset_power_saver(SETTINGS.replace("lowpowermode         1", "powermode            0")) is False
    assert parse_pmset_power_saver("") is None
    limits = {100: "none", 85: "light", 60: "moderate", 30: "severe"}
    assert {limit: parse_pmset_heat(LIMITED.format(limit)) for limit in limits} == limits
    assert parse_pmset_heat("Note: No thermal warning level has been recorded\n") == "none"
    assert parse_pmset_heat("") is None


# As Macs of others printed them, in public logs: full, at rest on the charger, without an estimate, a busy machine.
@pytest.mark.parametrize(
    ("source", "state", "expected"),
    [
        ("AC Power", "\t100%; charged; 0:00 remaining present: true", Battery(1.0, True)),
        ("AC Power", " 100%; charged; 0:00 remaining present: true", Battery(1.0, True)),
        ("AC Power", "\t79%; AC attached; not charging present: true", Battery(0.79, True)),
        ("AC Power", "\t90%; charging; (no estimate) present: true", Battery(0.9, True)),
        ("Battery Power", "\t100%; discharging; (no estimate) present: true", Battery(1.0, False)),
        ("Battery Power", "        100%; discharging; 20:00 remaining present: true", Battery(1.0, False)),
    ],
)
def test_what_macs_printed_is_parsed(source: str, state: str, expected: Battery) -> None:
    assert parse_pmset_battery(f"Now drawing from '{source}'\n -InternalBattery-0 (id=3997795){state}\n") == expected


def test_settings_and_limits_that_macs_printed_are_parsed() -> None:
    settings = (
        "System-wide power settings:\nCurrently in use:\n standby              1\n Sleep On Power Button 1\n"
        " sleep                1 (sleep prevented by coreaudiod, useractivityd, powerd, sharingd)\n"
        " hibernatemode        3\n displaysleep         10\n lowpowermode         0\n womp                 1\n"
    )
    assert parse_pmset_power_saver(settings) is False
    limits = (
        " - CPU_Scheduler_Limit          = 100\n - CPU_Available_CPUs            = 10\n"
        " - CPU_Speed_Limit               = 100\n"
    )
    assert parse_pmset_heat(limits) == "none"
    quiet = "Note: No thermal warning level has been recorded\nNote: No performance warning level has been recorded\n"
    assert parse_pmset_heat(quiet) == "none"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ((0, 1, 78, 0, 18_000, 0xFFFFFFFF), DeviceState(Battery(0.78, False), power_saver=False)),
        ((0, 2, 18, 1, 3600, 0xFFFFFFFF), DeviceState(Battery(0.18, False), power_saver=True)),
        ((1, 8, 83, 0, 0xFFFFFFFF, 0xFFFFFFFF), DeviceState(Battery(0.83, True), power_saver=False)),
        ((1, 128, 255, 0, 0xFFFFFFFF, 0xFFFFFFFF), DeviceState(PLUGGED_IN, power_saver=False)),
        ((255, 255, 255, 0, 0xFFFFFFFF, 0xFFFFFFFF), DeviceState(UNKNOWN_BATTERY, power_saver=False)),
    ],
)
def test_windows_power_status_is_parsed(status: tuple[int, ...], expected: DeviceState) -> None:
    assert parse_power_status(struct.pack("<BBBBII", *status)) == expected


def test_the_device_is_asked_at_most_once_a_second() -> None:
    asked, now = [], [0.0]

    def read() -> DeviceState:
        asked.append(now[0])
        return DeviceState(heat="light")

    governor = Governor(Knob(), DEFAULT, device=read, clock=lambda: now[0])
    for step in range(31):
        now[0] = step / 10
        governor.update()
    assert asked == [0.0, 1.0, 2.0, 3.0]
    assert governor.decision.knob == 0.8


def test_a_device_and_a_battery_cannot_both_be_given() -> None:
    with pytest.raises(RheostatError, match="both device= and battery="):
        Governor(Knob(), DEFAULT, device=DeviceState, battery=lambda: PLUGGED_IN)


# Bodies


def test_a_body_settles_where_heat_in_equals_heat_out() -> None:
    body = read_body("android-phone")
    settled = body.settled_c(2.0, 25.0)
    assert settled == pytest.approx(25 + 2 * body.resistance_k_w)
    assert body.after(20.0, 2.0, 25.0, 1e6) == pytest.approx(settled)
    constant_s = body.resistance_k_w * body.heat_capacity_j_k
    assert (settled - body.after(20.0, 2.0, 25.0, constant_s)) / (settled - 20) == pytest.approx(0.3679, abs=1e-4)


@given(st.floats(0, 60), st.floats(0, 5), st.floats(-10, 40), st.floats(1, 1000))
def test_a_step_of_heat_does_not_depend_on_the_length_of_rows(
    start: float, power: float, air: float, seconds: float
) -> None:
    body = read_body("raspberry-pi")
    halves = body.after(body.after(start, power, air, seconds / 2), power, air, seconds / 2)
    assert halves == pytest.approx(body.after(start, power, air, seconds))


def test_an_unknown_device_names_the_nearest() -> None:
    with pytest.raises(RheostatError, match="did you mean 'iphone'"):
        read_body("ipone")


# Days


def day(name: str, policy: Policy = DEFAULT, cost: FullCost = PAPERS) -> Comparison:
    return compare(read_trace(TRACES / f"{name}.csv"), policy, cost, device=name if name in DEVICES else DEVICES[0])


@pytest.mark.parametrize("path", sorted(TRACES.glob("*.csv")), ids=lambda path: path.stem)
def test_no_query_is_lost_when_governed(path: Path) -> None:
    governed, full, _ = (one.totals for one in day(path.stem).replays)
    assert governed.queries_lost == 0 and governed.queries_served >= full.queries_served
    assert governed.energy_j <= full.energy_j and governed.battery_share <= full.battery_share


@pytest.mark.parametrize("name", DEVICES)
def test_severe_heat_is_left_within_two_dwell_times(name: str) -> None:
    governed, full, _ = (one.totals for one in day(name).replays)
    assert governed.longest_severe_s is not None and governed.longest_severe_s <= 2 * DEFAULT.dwell_s
    assert (governed.severe_s or 0) <= (full.severe_s or 0) and (governed.hottest_c or 0) <= (full.hottest_c or 0)


def test_some_days_would_be_severely_hot_without_the_governor() -> None:
    full = {name: day(name).replays[1].totals.severe_s for name in DEVICES}
    assert all((full[name] or 0) > 10 * DEFAULT.dwell_s for name in ("android-phone", "iphone", "raspberry-pi"))
    assert (day("raspberry-pi").replays[0].totals.severe_s or 0) > 0  # it gets there, and leaves again


@pytest.mark.parametrize("name", ["flapping-battery", "flapping-device"])
def test_a_flapping_device_turns_the_knob_at_most_12_times_an_hour(name: str) -> None:
    assert day(name).replays[0].totals.turns_per_hour <= 12


def test_other_flapping_devices_do_not_flap_either() -> None:
    script = runpy.run_path(str(TRACES / "make_traces.py"))
    for seed in range(20):
        rows = tuple(
            Row(time, Battery(level, charging), queries, heat=heat, power_saver=saver, foreground=foreground)
            for time, level, charging, queries, heat, saver, foreground in script["flapping_device"](seed)
        )
        assert compare(Trace("flapping", rows), DEFAULT, PAPERS).replays[0].totals.turns <= 12


def test_saved_energy_lengthens_the_day() -> None:
    governed, full, off = (one.totals for one in day("android-phone").replays)
    assert full.emptied_s is not None and full.queries_lost > 0
    assert governed.emptied_s is None and (governed.final_level or 0) > 0.02
    assert off.queries_lost > full.queries_lost


def test_a_level_is_the_traces_plus_what_was_saved() -> None:
    body = read_body("android-phone")
    rows = tuple(Row(100.0 * index, Battery(0.4 - 0.01 * index, False), 100) for index in range(5))
    governed, full, _ = compare(Trace("short", rows), Policy(when=(Step(below=0.5, knob=0.5),)), PAPERS).replays
    assert [moment.level for moment in full.moments] == pytest.approx([0.4, 0.39, 0.38, 0.37, 0.36])
    saved_j = full.totals.energy_j - governed.totals.energy_j
    assert governed.totals.final_level == pytest.approx(0.36 + saved_j / body.battery_j)


def test_an_empty_battery_loses_queries_and_saved_energy_keeps_it_going() -> None:
    """The trace is empty after 200 s; half the cost leaves 16 J, which last at 0.04 W and not at 10 W."""
    body = read_body("android-phone")
    start = 2 * 54 * 0.296 / body.battery_j
    rows = (
        Row(0.0, Battery(start, False), 0, power_w=0.0),
        Row(100.0, Battery(start / 2, False), 54, power_w=0.0),
        Row(200.0, Battery(0.0, False), 54, power_w=0.0),
        Row(300.0, Battery(0.0, False), 10, power_w=0.04),
        Row(400.0, Battery(0.0, False), 10, power_w=10.0),
        Row(500.0, Battery(0.0, False), 10, power_w=10.0),
    )
    governed, full, _ = compare(Trace("empty", rows), Policy(when=(Step(below=0.9, knob=0.5),)), PAPERS).replays
    assert (full.totals.queries_lost, full.totals.emptied_s) == (30, 200.0)
    assert governed.totals.queries_lost == 10 and governed.totals.emptied_s == 400.0


@pytest.mark.parametrize(
    ("asked", "name"), list(itertools.product([90.0, 130.0, 180.0], ["linux-laptop", "busy-device", "iphone"]))
)
def test_a_latency_budget_is_kept_within_5_percent_on_a_day(asked: float, name: str) -> None:
    points = tuple(CostPoint(knob, 40 + 184 * knob, 50 + 246 * knob) for knob in (0.1, 0.4, 0.7, 1.0))
    cost = FullCost(224, 296, "test", "test", points)
    (budget,) = day(name, Policy(latency_ms=asked, smallest_knob=0.05), cost).budgets()
    assert budget["got_over_asked"] == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("asked", [120.0, 180.0, 240.0])
def test_an_energy_budget_is_kept_within_5_percent_on_a_day(asked: float) -> None:
    points = tuple(CostPoint(knob, 40 + 184 * knob, 50 + 246 * knob) for knob in (0.1, 0.4, 0.7, 1.0))
    cost = FullCost(224, 296, "test", "test", points)
    for name in DEVICES:
        (budget,) = day(name, Policy(energy_mj=asked, smallest_knob=0.05), cost).budgets()
        assert budget["got_over_asked"] == pytest.approx(1, abs=0.05), name


def test_every_committed_day_has_its_results() -> None:
    for path in TRACES.glob("*.csv"):
        results = json.loads((RESULTS / f"govern-{path.stem}.json").read_text(encoding="utf-8"))
        assert results["behaviours"][0]["totals"]["queries_lost"] == 0
        assert "not a recording" in results["trace"]["note"]
        assert (RESULTS / f"govern-{path.stem}.json").stat().st_size < 100_000


def test_a_body_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="do not rise"):
        Body(1.0, 1.0, 1.0, 45.0, 42.0, 39.0)
