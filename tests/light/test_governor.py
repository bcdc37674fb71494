"""The governor: what a policy decides, that it does not flap, and replaying a recorded day."""

from __future__ import annotations

import itertools
import random
import re
import runpy
import threading
import types
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rheostat
from rheostat.errors import OperatingPointError, RecipeError, RheostatError, RheostatWarning
from rheostat.governor.decision import MOST_DOUBLINGS, Decision, Situation, decide
from rheostat.governor.device import PLUGGED_IN, Battery
from rheostat.governor.governor import Governor, LatencyWindow, percentile_95
from rheostat.governor.policy import Policy, Step, policy_names, read_policy
from rheostat.governor.readers import psutil_battery
from rheostat.governor.replay import Comparison, FullCost, compare
from rheostat.governor.trace import read_trace

TRACES = Path(__file__).parents[1] / "data" / "traces"
PAGE = Path(__file__).parents[2] / "docs" / "governor.md"
COST = FullCost(latency_ms=200, energy_mj=300, latency_source="test", energy_source="test")
STEPS = (Step(below=0.5, knob=0.8), Step(below=0.2, knob=0.4))
POLICY = Policy(when=STEPS, hysteresis=0.05, dwell_s=60)


class Knob:
    """Something with a knob, which records how it was turned."""

    def __init__(self, knob: float = 1.0) -> None:
        self.knob = knob
        self.turns: list[tuple[float, bool]] = []

    def turn(self, knob: float, *, wait: bool) -> None:
        self.knob = knob
        self.turns.append((knob, wait))


def follow(policy: Policy, situations: Sequence[Situation], knob: float = 1.0) -> list[Decision]:
    """The decisions of a sequence of situations."""
    decisions = [Decision(knob)]
    for situation in situations:
        decisions.append(decide(policy, situation, decisions[-1]))
    return decisions[1:]


def discharge(levels: Sequence[float | None], every_s: float = 100.0) -> list[Situation]:
    return [Situation(index * every_s, Battery(level, False)) for index, level in enumerate(levels)]


def knobs(decisions: Sequence[Decision]) -> list[float]:
    return [decision.knob for decision in decisions]


# -------------------------------------------------------------------------------------------------- decisions


def test_lower_levels_have_lower_knobs() -> None:
    decisions = follow(POLICY, discharge([0.9, 0.5, 0.49, 0.3, 0.19, 0.01]))
    assert knobs(decisions) == [1.0, 1.0, 0.8, 0.8, 0.4, 0.4]
    assert decisions[-1].reason == "battery below 20%"


def test_a_step_is_left_only_above_its_hysteresis() -> None:
    levels = [0.49, 0.51, 0.54, 0.56, 0.51, 0.49, 0.19, 0.24, 0.26, 0.9]
    assert knobs(follow(POLICY, discharge(levels))) == [0.8, 0.8, 0.8, 1.0, 1.0, 0.8, 0.4, 0.4, 0.8, 1.0]


def test_the_first_level_within_the_hysteresis_counts_as_above() -> None:
    assert knobs(follow(POLICY, discharge([0.52]))) == [1.0]


def test_the_charger_turns_up_at_once_but_only_once_per_dwell() -> None:
    seconds_and_charging = [(0, False), (70, True), (80, False), (125, False), (140, True), (194, True), (195, True)]
    decisions = follow(POLICY, [Situation(time, Battery(0.1, charging)) for time, charging in seconds_and_charging])
    # Down at 0, up at 70; then unplugged for less than a dwell.
    assert knobs(decisions) == [0.4, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert knobs(follow(POLICY, [Situation(0, Battery(0.1, False)), Situation(59, Battery(0.1, True))])) == [0.4, 0.4]


def test_a_charger_gone_for_a_dwell_counts_as_unplugged() -> None:
    readings = [Situation(0, Battery(0.1, True)), *(Situation(t, Battery(0.1, False)) for t in (59, 60))]
    assert knobs(follow(POLICY, readings)) == [1.0, 1.0, 0.4]


def test_a_turn_is_possible_as_soon_as_the_dwell_is_over() -> None:
    assert knobs(follow(POLICY, discharge([0.4, 0.1], every_s=59.9))) == [0.8, 0.8]
    assert knobs(follow(POLICY, discharge([0.4, 0.1], every_s=60))) == [0.8, 0.4]


def test_without_a_dwell_the_charger_counts_as_it_is() -> None:
    readings = [Situation(t, Battery(0.1, t % 2 == 0)) for t in range(4)]
    assert knobs(follow(replace(POLICY, dwell_s=0), readings)) == [1.0, 0.4, 1.0, 0.4]


def test_no_battery_means_plugged_in() -> None:
    policy = replace(POLICY, charging_knob=0.9)
    assert follow(policy, [Situation(0, PLUGGED_IN)])[0].knob == 0.9


def test_an_unknown_level_changes_nothing_and_an_unknown_charger_counts_as_unplugged() -> None:
    readings = [
        Situation(0, Battery(0.3, None)),
        Situation(100, Battery(None, None)),
        Situation(200, Battery(0.9, None)),
    ]
    assert knobs(follow(POLICY, readings)) == [0.8, 0.8, 1.0]


def test_bounds_hold_whatever_else_the_policy_says() -> None:
    policy = replace(POLICY, smallest_knob=0.5, largest_knob=0.9)
    assert knobs(follow(policy, discharge([0.9, 0.4, 0.1]))) == [0.9, 0.8, 0.5]
    assert follow(policy, [Situation(0, PLUGGED_IN)])[0].knob == 0.9


READING = st.tuples(
    st.floats(0.1, 200), st.one_of(st.none(), st.floats(0, 1)), st.sampled_from([True, False, None]), st.floats(1, 500)
)


@given(st.lists(READING, max_size=60), st.floats(0.05, 1))
def test_turns_keep_the_dwell_and_knobs_the_bounds_in_any_situation(
    readings: list[tuple[float, float | None, bool | None, float]], first: float
) -> None:
    policy = replace(POLICY, smallest_knob=0.2, latency_p95_ms=100)
    times = itertools.accumulate(step for step, *_ in readings)
    situations = [
        Situation(time, Battery(level, charging), p95)
        for time, (_, level, charging, p95) in zip(times, readings, strict=True)
    ]
    knob, turned_s = first, None
    for situation, decision in zip(situations, follow(policy, situations, first), strict=True):
        assert 0.2 <= decision.knob <= 1
        if decision.knob != knob:
            assert turned_s is None or situation.time_s - turned_s >= policy.dwell_s
            knob, turned_s = decision.knob, situation.time_s


# ---------------------------------------------------------------------------------------------------- latency

LATENCY = Policy(dwell_s=5, latency_p95_ms=100, latency_recovery_s=30, smallest_knob=0.2)


def run_device(policy: Policy, latency_ms: Callable[[float, float], float], seconds: int) -> list[tuple[float, float]]:
    """A plugged-in device that answers four queries per second: (second, knob) of every turn."""
    now, knob = [0.0], Knob()
    governor = Governor(knob, policy, battery=lambda: PLUGGED_IN, clock=lambda: now[0])
    turns = []
    for second in range(seconds):
        now[0], before = float(second), knob.knob
        for _ in range(4):
            governor.observe(latency_ms(second, knob.knob))
        governor.update()
        if knob.knob != before:
            turns.append((float(second), knob.knob))
    return turns


def test_a_busy_device_settles_and_recovers() -> None:
    noise = random.Random(1)

    def latency_ms(second: float, knob: float) -> float:
        return 70 * knob * (2.1 if 600 <= second < 1800 else 1) * noise.uniform(0.9, 1.1)

    turns = run_device(LATENCY, latency_ms, 3600)
    down, up = [t for t in turns if t[0] < 1800], [t for t in turns if t[0] >= 1800]
    assert [knob for _, knob in down] == [0.9, 0.8, 0.7, 0.6]  # 0.6 · 70 · 2.1 · 1.1 is 97 ms
    assert down[0][0] >= 600 and down[-1][0] < 700
    assert [knob for _, knob in up] == [0.7, 0.8, 0.9, 1.0]
    waits = [later - earlier for (earlier, _), (later, _) in itertools.pairwise(up)]
    assert min(waits) >= LATENCY.latency_recovery_s


def test_a_raise_that_keeps_failing_is_tried_less_and_less() -> None:
    """A model that fits into the cache up to 60 %: fast below, far too slow above. No margin can foresee that."""
    turns = run_device(LATENCY, lambda _, knob: 30 * knob if knob <= 0.6 else 300, 4 * 3600)
    hours = [[second for second, _ in turns if hour * 3600 <= second < (hour + 1) * 3600] for hour in range(4)]
    assert {knob for _, knob in turns[4:]} == {0.6, 0.7}
    assert len(hours[0]) < 24 and len(hours[3]) <= 8  # 200 per hour without the growing wait


def test_a_raise_that_lasted_does_not_delay_the_next_one() -> None:
    """Ten slow minutes every hour: the knob recovers as fast each time as the first time."""

    def latency_ms(second: float, knob: float) -> float:
        return knob * (105 if second % 3600 < 600 else 80)

    turns = run_device(LATENCY, latency_ms, 6 * 3600)
    assert [knob for _, knob in turns] == [0.9, 1.0] * 6
    recovered = [second % 3600 for second, knob in turns if knob == 1.0]
    assert max(recovered) - min(recovered) <= LATENCY.dwell_s


def test_a_target_out_of_reach_ends_at_the_smallest_knob() -> None:
    turns = run_device(LATENCY, lambda *_: 1000.0, 1800)
    assert turns[-1][1] == 0.2 and len(turns) == 8


def test_the_knob_rises_only_if_a_margin_is_left() -> None:
    policy = replace(LATENCY, latency_margin=0.2)
    lowered = follow(policy, [Situation(0, PLUGGED_IN, 150.0)])[-1]
    assert lowered.knob == 0.9
    for p95_ms, knob in ((75.0, 0.9), (71.0, 1.0)):  # at the next notch 83 and 79 ms, of which 80 are allowed
        assert decide(policy, Situation(100, PLUGGED_IN, p95_ms), lowered).knob == knob


def test_the_wait_before_a_raise_is_bounded() -> None:
    def cliff_ms(_: float, knob: float) -> float:
        return 30 * knob if knob <= 0.6 else 300

    turns = [second for second, _ in run_device(LATENCY, cliff_ms, 6 * 3600)]
    longest = max(later - earlier for earlier, later in itertools.pairwise(turns))
    assert longest <= LATENCY.latency_recovery_s * 2**MOST_DOUBLINGS + 60


@pytest.mark.parametrize("wait", [True, False])
def test_below_the_smallest_position_of_a_model_the_governor_goes_as_far_as_it_can(wait: bool) -> None:
    predictor = rheostat.load()
    with pytest.raises(OperatingPointError) as refused:
        predictor.turn(0.01)
    policy = Policy(when=(Step(below=0.9, knob=0.01),), smallest_knob=0.01)
    governor = Governor(predictor, policy, battery=lambda: Battery(0.5, False))
    assert governor.update(wait=wait).knob == 0.01
    assert predictor.point.cost == pytest.approx(refused.value.smallest, abs=1e-5)
    assert predictor.suggest("see you at the")


def test_latency_and_battery_take_the_smaller_knob() -> None:
    policy = replace(POLICY, latency_p95_ms=100)
    slow = [Situation(time, Battery(0.3, False), 150.0) for time in (0, 100)]
    assert knobs(follow(policy, slow)) == [0.8, 0.7]
    assert follow(policy, [*slow, Situation(200, Battery(0.1, False), 50.0)])[-1].knob == 0.4


def test_the_window_counts_only_when_full_and_fresh() -> None:
    window = LatencyWindow(20)
    for value in range(19):
        window.add(0.0, value)
    assert window.p95_ms(0.0) is None
    window.add(100.0, 19)
    assert window.p95_ms(100.0) == 18
    assert window.p95_ms(350.0) is None
    window.clear()
    assert window.p95_ms(100.0) is None


def test_percentile_of_known_values() -> None:
    assert percentile_95(range(1, 101)) == 95
    assert percentile_95([7.0]) == 7.0


@pytest.mark.parametrize("latency_ms", [-1.0, float("nan"), float("inf"), 1e308])
def test_an_impossible_latency_is_refused(latency_ms: float) -> None:
    with pytest.raises(RheostatError, match="expected milliseconds, 0 or more"):
        Governor(Knob()).observe(latency_ms)


# --------------------------------------------------------------------------------------- governor and battery


def test_the_predictor_is_turned_only_when_the_knob_changes_and_without_waiting() -> None:
    knob, levels, times = Knob(), iter([0.9, 0.4, 0.4, 0.1]), itertools.count(0, 100)
    governor = Governor(knob, POLICY, battery=lambda: Battery(next(levels), False), clock=lambda: float(next(times)))
    for _ in range(4):
        governor.update()
    assert knob.turns == [(0.8, False), (0.4, False)]
    assert governor.decision.knob == 0.4


def test_a_turn_that_failed_is_tried_again() -> None:
    class Stuck(Knob):
        def turn(self, knob: float, *, wait: bool) -> None:
            super().turn(knob, wait=wait)
            if len(self.turns) == 1:
                raise RheostatError("stuck")

    knob = Stuck()
    governor = Governor(knob, POLICY, battery=lambda: Battery(0.1, False), clock=lambda: 0.0)
    with pytest.raises(RheostatError, match="stuck"):
        governor.update()
    assert governor.update().knob == 0.4


def test_a_policy_can_be_given_by_its_file(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text("largest_knob = 0.7\n")
    assert Governor(Knob(), path).policy.largest_knob == 0.7
    assert Governor(Knob()).policy == read_policy("default")


def test_the_thread_updates_and_stops() -> None:
    updated = threading.Event()

    def battery() -> Battery:
        updated.set()
        return Battery(0.1, False)

    knob = Knob()
    with Governor(knob, POLICY, battery=battery).run_in_background(interval_s=0.001) as background:
        assert updated.wait(10)
        assert background.running
    assert not background.running
    assert knob.turns == [(0.4, True)]
    background.stop()


def test_a_long_interval_does_not_delay_the_stop() -> None:
    background = Governor(Knob(), POLICY, battery=lambda: PLUGGED_IN).run_in_background(interval_s=3600)
    background.stop()
    assert not background.running


def test_a_battery_that_cannot_be_read_does_not_end_the_thread() -> None:
    reads, enough = itertools.count(), threading.Event()

    def battery() -> Battery:
        if next(reads) < 2:
            raise OSError("no such sensor")
        enough.set()
        return Battery(0.1, False)

    knob = Knob()
    with pytest.warns(RheostatWarning, match="no such sensor") as warned:
        with Governor(knob, POLICY, battery=battery).run_in_background(interval_s=0.001) as background:
            assert enough.wait(10)
        assert isinstance(background.error, OSError)
    assert len(warned) == 1
    assert knob.knob == 0.4


@pytest.mark.parametrize("interval_s", [0.0, -1.0, float("nan"), float("inf")])
def test_an_impossible_interval_is_refused(interval_s: float) -> None:
    with pytest.raises(RheostatError, match="seconds above 0"):
        Governor(Knob(), POLICY).run_in_background(interval_s)


def test_observing_while_updating_is_safe() -> None:
    governor = Governor(Knob(), LATENCY, battery=lambda: PLUGGED_IN)
    with governor.run_in_background(interval_s=0.0001) as background:
        for index in range(5000):
            governor.observe(float(index % 7))
    assert background.error is None


@pytest.mark.parametrize(
    ("percent", "plugged", "expected"),
    [(85, True, Battery(0.85, True)), (101.5, None, Battery(1.0, None)), (0, False, Battery(0.0, False))],
)
def test_a_battery_is_read_as_a_share(
    monkeypatch: pytest.MonkeyPatch, percent: float, plugged: bool | None, expected: Battery
) -> None:
    reading = types.SimpleNamespace(percent=percent, power_plugged=plugged)
    monkeypatch.setattr("psutil.sensors_battery", lambda: reading, raising=False)
    assert psutil_battery() == expected


def test_a_machine_without_a_battery_is_plugged_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psutil.sensors_battery", lambda: None, raising=False)
    assert psutil_battery() == PLUGGED_IN
    monkeypatch.delattr("psutil.sensors_battery")
    assert psutil_battery() == PLUGGED_IN


def test_a_container_without_power_supplies_is_plugged_in(monkeypatch: pytest.MonkeyPatch) -> None:
    def read() -> None:
        raise FileNotFoundError(2, "No such file or directory", "/sys/class/power_supply")

    monkeypatch.setattr("psutil.sensors_battery", read, raising=False)
    assert psutil_battery() == PLUGGED_IN


@pytest.mark.parametrize("level", [85.0, -0.1, float("nan")])
def test_a_level_in_percent_is_refused(level: float) -> None:
    with pytest.raises(RheostatError, match=r"85 % is 0\.85"):
        Battery(level, False)


# --------------------------------------------------------------------------------------------------- policies


def test_the_shipped_policies_are_sound_and_spend_less_when_low() -> None:
    assert "default" in policy_names()
    for name in policy_names():
        policy = read_policy(name)
        assert policy.when and policy.when[-1].knob < policy.largest_knob


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dwel_s = 3", "unknown key 'dwel_s' .did you mean 'dwell_s'"),
        ("[[when]]\nbelow = 0.5\nknobb = 1", r"policy.when\[0\] has an unknown key 'knobb'"),
        ("[[when]]\nbelow = 0.5", r"policy.when\[0\] lacks 'knob'"),
        ("[[when]]\nbelow = 50\nknob = 1", r"policy.when\[0\]: below is 50.0; expected a battery level"),
        ("[[when]]\nbelow = 0.5\nknob = 0", "knob is 0.0; expected a share of the cost"),
        ("when = 3", "policy.when is 3; expected a list"),
        ("when = [{below = 0.2, knob = 0.4}, {below = 0.5, knob = 0.4}]", "expected levels from high to low"),
        ("when = [{below = 0.5, knob = 0.4}, {below = 0.5, knob = 0.3}]", "expected levels from high to low"),
        ("when = [{below = 0.5, knob = 0.4}, {below = 0.2, knob = 0.6}]", "lower level to have no larger knob"),
        ("hysteresis = 0.3\nwhen = [{below = 0.8, knob = 0.4}]", "expected their sum to be at most 1"),
        ("hysteresis = -0.1", "hysteresis is -0.1"),
        ("dwell_s = -1", "dwell_s is -1.0; expected seconds"),
        ("dwell_s = inf", "dwell_s is inf; expected seconds"),
        ("dwell_s = '1'", "policy.dwell_s is '1'; expected a number"),
        ("charging_knob = nan", "charging_knob is nan"),
        ("smallest_knob = 0.9\nlargest_knob = 0.5", "expected the smallest first"),
        ("latency_p95_ms = 0", "latency_p95_ms is 0.0; expected milliseconds above 0"),
        ("latency_window = 3", "expected 20 queries or more"),
        ("latency_notch = 1", "latency_notch is 1.0"),
        ("latency_margin = 1", "latency_margin is 1.0"),
        ("latency_recovery_s = nan", "latency_recovery_s is nan"),
        ("a = ", "is not valid TOML"),
    ],
)
def test_a_broken_policy_names_file_and_key_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(RecipeError, match=message) as error:
        read_policy(path)
    assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)


def test_an_unreadable_policy_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    for name, message in (("none.toml", "no such policy; expected default"), ("bytes.toml", "cannot read the policy")):
        with pytest.raises(RecipeError, match=message):
            read_policy(tmp_path / name)
    with pytest.raises(RecipeError, match="cannot read the policy"):
        read_policy(tmp_path)


def test_the_page_has_every_key_with_its_default() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("| key | default | meaning |")[2].partition("\n\n")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| ([\w.]+) \|", table, re.MULTILINE))
    defaults = {item.name: "none" if item.default in (None, ()) else item.default for item in fields(Policy)}
    assert {name: text if text == "none" else float(text) for name, text in rows.items()} == defaults


def test_the_page_shows_the_default_policy(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "shown.toml").write_text(shown)
    assert read_policy(tmp_path / "shown.toml") == read_policy()


# ------------------------------------------------------------------------------------------------------- days


def day(name: str, policy: Policy | None = None) -> Comparison:
    return compare(read_trace(TRACES / f"{name}.csv"), policy or read_policy(), COST)


def test_the_traces_are_up_to_date_with_their_script(tmp_path: Path) -> None:
    script = runpy.run_path(str(TRACES / "make_traces.py"))
    script["write_all"].__globals__["FOLDER"] = tmp_path
    script["write_all"]()
    assert {path.name: path.read_text() for path in tmp_path.glob("*.csv")} == {
        path.name: path.read_text() for path in TRACES.glob("*.csv")
    }


def test_no_trace_is_called_a_recording() -> None:
    for path in TRACES.glob("*.csv"):
        assert read_trace(path).note == "generated by make_traces.py; not a recording"


def test_a_governed_day_saves_energy_and_loses_no_query_while_switching_off_loses_some() -> None:
    governed, full, off = (replay.totals for replay in day("ordinary-day").replays)
    assert governed.energy_j < 0.9 * full.energy_j
    assert governed.queries_lost == full.queries_lost == 0 < off.queries_lost
    assert governed.queries_served == full.queries_served == off.queries_served + off.queries_lost
    assert governed.turns <= 8


def test_energy_is_linear_in_the_flops_of_the_queries_served() -> None:
    governed, full, _ = (replay.totals for replay in day("ordinary-day").replays)
    assert governed.mean_knob is not None
    assert full.energy_j == pytest.approx(full.queries_served * COST.energy_mj / 1000)
    assert governed.energy_j == pytest.approx(full.energy_j * governed.mean_knob)


def test_a_flapping_battery_turns_the_knob_a_handful_of_times() -> None:
    comparison = day("flapping-battery")
    levels = [row.battery.level or 0.0 for row in comparison.trace.rows]
    crossings = sum((a < 0.5) != (b < 0.5) for a, b in itertools.pairwise(levels))
    plugs = sum(a.battery.charging != b.battery.charging for a, b in itertools.pairwise(comparison.trace.rows))
    assert crossings > 40 and plugs > 100  # the trace really flaps
    assert comparison.replays[0].totals.turns <= 4


def test_a_policy_without_hysteresis_or_dwell_would_flap() -> None:
    nervous = replace(read_policy(), hysteresis=0.0, dwell_s=0.0)
    assert day("flapping-battery", nervous).replays[0].totals.turns > 100


def test_a_busy_day_holds_its_latency() -> None:
    policy = read_policy(TRACES / "busy-device.toml")
    governed, full, _ = (replay.totals for replay in day("busy-device", policy).replays)
    assert governed.p95_latency_ms is not None and full.p95_latency_ms is not None and policy.latency_p95_ms is not None
    assert governed.p95_latency_ms <= policy.latency_p95_ms < full.p95_latency_ms
    assert governed.turns <= 12 and governed.queries_lost == 0


def test_a_day_spends_what_the_model_really_spends_at_a_knob() -> None:
    trace = read_trace(TRACES / "ordinary-day.csv")
    half = compare(trace, read_policy(), COST, share=lambda knob: knob / 2)
    assert half.replays[1].totals.energy_j == pytest.approx(day("ordinary-day").replays[1].totals.energy_j / 2)


def test_queries_are_served_at_the_knob_before_the_row(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("time_s,level,charging,queries\n0,0.6,0,0\n100,0.4,0,10\n200,0.4,0,10\n")
    comparison = compare(read_trace(path), POLICY, COST)
    assert [moment.knob for moment in comparison.replays[0].moments] == [1.0, 0.8, 0.8]
    assert [moment.energy_j for moment in comparison.replays[0].moments] == pytest.approx([0, 3.0, 5.4])


def test_switching_off_loses_nothing_on_the_charger(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("time_s,level,charging,queries\n0,0.2,1,0\n100,0.2,0,10\n200,0.21,0,7\n300,0.3,0,5\n")
    off = compare(read_trace(path), POLICY, COST).replays[2]
    assert [moment.knob for moment in off.moments] == [1.0, 0.0, 1.0, 1.0]
    assert (off.totals.queries_served, off.totals.queries_lost) == (15, 7)


def test_a_day_without_typing_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("time_s,level,charging,queries\n0,0.1,0,0\n")
    comparison = compare(read_trace(path), POLICY, COST)
    assert comparison.energy_saved == 0
    assert [(r.totals.mean_knob, r.totals.p95_latency_ms) for r in comparison.replays] == [(None, None)] * 3


HEADER = "time_s,level,charging,queries,busy\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no rows"),
        (HEADER, "has no rows"),
        ("time_s,level\n", "line 1: the columns are time_s,level; expected time_s,level,charging,queries"),
        ("time_s,level,charging,queries,mood\n", "line 1: the columns are"),
        ("time_s,time_s,level,charging,queries\n", "line 1: the columns are"),
        (HEADER + "0,1,0,0,1\n0,1,0,0,1\n", "line 3: time_s is 0 after 0; expected rising times"),
        (HEADER + "\n5,1,0,0,1\n4,1,0,0,1\n", "line 4: time_s is 4 after 5"),
        (HEADER + "0,1.1,0,0,1\n", "line 2: level is 1.1; expected a number from 0 to 1"),
        (HEADER + "0,full,0,0,1\n", "line 2: level is 'full'; expected a number"),
        (HEADER + "0,nan,0,0,1\n", "line 2: level is 'nan'; expected a number"),
        (HEADER + "inf,1,0,0,1\n", "line 2: time_s is 'inf'; expected a number"),
        (HEADER + "0,1,maybe,0,1\n", "line 2: charging is 'maybe'; expected 0 or 1"),
        (HEADER + "0,1,0,-1,1\n", "line 2: queries is -1; expected a number of 0 or more"),
        (HEADER + "0,1,0,1.5,1\n", "line 2: queries is 1.5; expected a whole number"),
        (HEADER + "0,1,0,0,0\n", "line 2: busy is 0; expected a number above 0"),
        (HEADER + "0,1,0,0\n", "line 2: 4 values; expected 5"),
        (HEADER + "0,1,0,1e300,1\n", "line 2: queries is 1e\\+300; expected a number of at most 1e\\+12"),
        ("[" * 100_000, "line 1: the columns are"),
        (HEADER + f"{'x' * 90_000},1,0,1,1\n", "line 2: time_s is 'x"),
        (HEADER + f"0,1,{'x' * 90_000},1,1\n", "line 2: charging is 'x"),
        (HEADER.replace("busy", "heat") + f"0,1,0,1,{'x' * 90_000}\n", "line 2: heat is 'x"),
    ],
)
def test_a_broken_trace_names_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(RheostatError, match=message) as error:
        read_trace(path)
    assert str(path) in str(error.value) and len(str(error.value)) < 600


def test_an_unreadable_trace_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    for name in ("none.csv", "bytes.csv", "."):
        with pytest.raises(RheostatError, match="cannot read the trace"):
            read_trace(tmp_path / name)


def test_a_spreadsheets_csv_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes("\ufefftime_s, level, charging, queries\r\n0, 0.5, TRUE, 3\r\n".encode())
    (row,) = read_trace(path).rows
    assert (row.battery, row.queries, row.busy) == (Battery(0.5, True), 3, 1.0)


@pytest.mark.parametrize("latency_ms", [0.0, -1.0, float("nan")])
def test_an_impossible_cost_is_refused(latency_ms: float) -> None:
    with pytest.raises(RheostatError, match="the latency of the full model"):
        replace(COST, latency_ms=latency_ms)
