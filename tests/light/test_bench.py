"""Measuring queries: the texts, the plan of a run, what is recorded about the machine, and the command."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from models import TINY, make_weights, write_tiny, write_words
from results_files import bench_row, write_bench
from rheostat.cli import app
from rheostat.core.binding import CoreModel
from rheostat.errors import CorpusError, OperatingPointError, RheostatError
from rheostat.measure import bench as bench_module
from rheostat.measure import latency, machine
from rheostat.measure.bench import BenchConfig, bench, bench_positions_of, busy_notice
from rheostat.measure.latency import BenchPosition, Typist, median_interval, turn_sizes
from rheostat.measure.machine import parse_cpus, pinned, read_conditions, was_throttled
from rheostat.measure.meters import EnergyPerQuery, EnergySource, Estimate, MeterOptions, NoMeter, Plan, find_meter
from rheostat.measure.meters.meter import Clock, CounterMeter
from rheostat.measure.resident_memory import resident_memory
from rheostat.measure.results import BenchRow, read_results, write_results
from rheostat.measure.results.bench import r_squared
from rheostat.measure.texts import MESSAGE, Text, messages, read_text
from rheostat.model.shape import Cell, ModelShape
from rheostat.runtime.predictor import Predictor
from rheostat.tables import to_json
from rheostat.text.tokenizers import Tokenizer
from rheostat.text.vocabulary import END_OF_LINE, UNKNOWN
from rheostat.words.passage import context_words

WORDS = (UNKNOWN, END_OF_LINE, "the", "game", "gate", "garden", "boat", "sees", "we", "to", "a", "and")
SHAPE = ModelShape(len(WORDS), 8, (16, 16, 8), (2, 1, 1))
QUICK = BenchConfig(queries=20, warm_up=2, memory=False, threads=1)
KNOBS = [BenchPosition(knob) for knob in (1.0, 0.7, 0.4)]
NOTHING = NoMeter()
POWER = Path(__file__).parents[1] / "data" / "power"
LSTMS: tuple[Cell, ...] = ("lstm", "skip-lstm")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_words(tmp_path_factory.mktemp("bench") / "model.safetensors", WORDS, SHAPE)


def sample(tokenizer: Tokenizer = "words") -> Text:
    return read_text(None, tokenizer, 100)


# The texts


@pytest.mark.parametrize("tokenizer", ["words", "ptb", "wikitext"])
def test_every_text_is_one_word_longer_than_the_one_before(tokenizer: Tokenizer) -> None:
    texts = islice(messages(sample(tokenizer).pieces(), ["the"]), 1, 600)
    lengths = [len(context_words(text, tokenizer)) for text in texts]
    steps = [after - before for before, after in pairwise(lengths)]
    assert set(steps) - {1} <= {step for step in steps if step < -100}, "but for the next message"
    assert sum(step < 0 for step in steps) == 600 // MESSAGE


def test_a_prepared_text_is_read_word_by_word(tmp_path: Path) -> None:
    path = tmp_path / "ptb.test.txt"
    path.write_text(" no it was n't black monday \n mr. <unk> said N N of u.s. shares \\/ bonds\n")
    text = read_text(str(path), "ptb", 100)
    read = context_words(list(islice(messages(text.pieces(), ["a"]), len(text.pieces())))[-1], "ptb")
    assert read[:10] == [END_OF_LINE, "a", "no", "it", "was", "n't", "black", "monday", END_OF_LINE, "mr."]


def test_no_two_texts_begin_the_same_way() -> None:
    texts = list(islice(messages(["we", "see", "\n"], ["a", "b"]), 10 * MESSAGE))
    assert len({text.rstrip(" ") for text in texts}) > 0.98 * len(texts)  # with two opening words only


def test_every_query_costs_reading_one_word(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps, query = [], CoreModel.query
    monkeypatch.setattr(CoreModel, "query", lambda model, *arguments: steps.append(1) or query(model, *arguments))
    typist = Typist(Predictor(model, threads=1), BenchPosition(0.7), ["the", "boat", "sees", "\n"], list(WORDS[2:]))
    typist.type(1)
    steps.clear()
    assert len(typist.type(3 * MESSAGE)) == len(steps)


def test_a_text_without_words_is_an_error(tmp_path: Path, model: Path) -> None:
    (tmp_path / "test.txt").write_text(" \n\n")
    with pytest.raises(CorpusError, match="empty or has only white space"):
        read_text(str(tmp_path), "words", 10)
    (tmp_path / "test.txt").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(CorpusError, match="expected text in UTF-8"):
        read_text(str(tmp_path), "words", 10)
    with pytest.raises(CorpusError, match="no words that this model can read"):
        bench_positions_of(model, KNOBS, Text("signs", "ptb", ("! ?",), prepared=True), QUICK, NOTHING)


# The plan of a run


@pytest.mark.parametrize("queries", [2, 5, 9, 10, 350, 1234, 99_999])
def test_turns_are_even_and_add_up(queries: int) -> None:
    sizes = list(turn_sizes(queries))
    assert sum(sizes) == queries and max(sizes) - min(sizes) <= 1 and 2 <= len(sizes) <= 100


def test_points_are_interleaved(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    type_queries = Typist.type
    monkeypatch.setattr(Typist, "type", lambda self, n: order.append(self.position.label) or type_queries(self, n))
    bench_positions_of(model, KNOBS[:2], sample(), QUICK, NOTHING)
    assert order == ["1", "0.7", "1", "0.7", "0.7", "1"]  # warm-up, then two turns


def test_models_beside_it_are_interleaved_with_its_points(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    type_queries = Typist.type
    monkeypatch.setattr(Typist, "type", lambda self, n: order.append(self.shape.cell) or type_queries(self, n))
    others = [
        write_tiny(tmp_path / f"{cell}.safetensors", cell, provenance={"run": {"steps": steps}})
        for cell, steps in zip(LSTMS, (0, 7), strict=True)
    ]
    contents = bench_positions_of(model, KNOBS[:1], sample(), QUICK, NOTHING, beside=others)
    assert order[3:] == ["qrnn", "lstm", "skip-lstm", "lstm", "skip-lstm", "qrnn"]
    assert [part.subject.model for part in contents.beside] == ["lstm.safetensors", "skip-lstm.safetensors"]
    assert [part.subject.trained for part in contents.by_model()] == [True, False, True]
    assert [part.rows[0].flops for part in contents.beside] == [TINY[cell].flops for cell in LSTMS]


def test_two_positions_of_one_point_are_measured_once(model: Path) -> None:
    contents = bench_positions_of(
        model, [BenchPosition(0.7), BenchPosition(0.7), BenchPosition(0.70001)], sample(), QUICK, NOTHING
    )
    assert [row.label for row in contents.rows] == ["0.7"]


def test_the_interval_holds_the_median_and_narrows_with_more_turns() -> None:
    random = np.random.default_rng(1)
    few, many = (list(random.normal(5, 1, (turns, 10))) for turns in (10, 100))
    (low, high), (lower, higher) = median_interval(few), median_interval(many)
    assert low < np.median(few) < high and lower < np.median(many) < higher
    assert higher - lower < high - low and median_interval(few) == (low, high)


def test_turns_that_differ_widen_the_interval() -> None:
    mixed = [np.full(10, value) for value in (1.0, 9.0, 1.0, 9.0, 5.0)]
    low, high = median_interval(mixed)
    assert (low, high) == (1.0, 9.0)


def test_r_squared_needs_three_different_points() -> None:
    assert r_squared([1, 2, 3], [2, 4, 6]) == pytest.approx(1)
    assert r_squared([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx(0.64)
    assert r_squared([1, 1, 2], [1, 2, 3]) is None and r_squared([1, 2, 3], [5, 5, 5]) is None


# What is recorded


def test_results_record_what_was_measured(model: Path) -> None:
    contents = bench_positions_of(model, KNOBS, sample(), QUICK, NOTHING)
    assert contents.kind == "bench" and contents.provenance.machine.processor
    subject = contents.subject
    assert (subject.model, subject.corpus, subject.precision) == ("model.safetensors", "sample", "int8")
    assert (subject.queries, subject.threads) == (20, 1)
    for row, position in zip(contents.rows, KNOBS, strict=True):
        low, high = row.interval_ms
        assert 0 < low <= row.latency_ms <= high and row.latency_ms <= row.p95_ms
        assert row.queries == 20 and row.flops == round(row.flops_fraction * SHAPE.flops)
        assert position.knob is not None and row.flops_fraction <= position.knob
        assert row.bytes_read == row.flops // 2  # one byte per weight, two FLOPs
        assert (row.executed_flops.mean, row.executed_flops.worst) == (row.flops, row.flops)  # a plain softmax
    assert [row.ranking for row in contents.rows] == [None, "random", "random"]
    assert [row.served_by for row in contents.rows][:2] == ["whole model", "ranking random"]
    assert contents.fit.latency_r_squared is not None and 0 <= contents.fit.latency_r_squared <= 1
    assert contents.fit.energy_r_squared is None


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine that runs the tests may be busy, which they do not check."""
    monkeypatch.setattr("rheostat.measure.bench.BUSY_LOAD", float("inf"))


def test_paced_queries_come_one_at_a_time(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(latency, "OTHER_MEMORY_BYTES", 1000)
    typists = latency.open_points(Predictor(model), KNOBS, sample())
    times = latency.measure_paced(typists, 3, sleep=pauses.append)
    assert [len(one) for one in times] == [3] * len(typists) and pauses == [latency.PAUSE_S] * 3 * len(typists)
    assert all((one > 0).all() for one in times)


def test_paced_figures_are_recorded_only_if_asked_for(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "OTHER_MEMORY_BYTES", 1000)
    monkeypatch.setattr(latency, "PAUSE_S", 0.0)
    plain = bench_positions_of(model, KNOBS[:1], sample(), QUICK, NOTHING)
    assert plain.rows[0].paced is None and "paced" not in to_json(plain.rows[0])
    (row, *_) = bench_positions_of(model, KNOBS[:1], sample(), replace(QUICK, paced=2), NOTHING).rows
    assert row.paced is not None and row.paced.queries == 2 and row.paced.latency_ms > 0
    with pytest.raises(RheostatError, match="paced"):
        replace(QUICK, paced=-1)


def test_a_busy_machine_and_too_many_threads_are_noticed(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rheostat.measure.bench.BUSY_LOAD", 0.5)
    assert busy_notice(None) is None and busy_notice(0.1) is None
    assert "busy" in (busy_notice(3.0) or "")
    notices: list[str] = []
    bench(
        model,
        knobs=[1.0],
        queries=2,
        warm_up=0,
        threads=2,
        cpus=[0],
        meter="none",
        memory=False,
        engine="onnx",
        notice=notices.append,
    )
    assert any("2 threads on 1 pinned CPUs" in notice for notice in notices)


@pytest.mark.parametrize(
    ("wanted", "ran", "threads"), [(None, "core", 2), ("core", "core", 2), ("onnx", "onnx", 2), ("core", "core", 0)]
)
def test_results_say_which_engine_ran_on_how_many_threads(wanted: Any, ran: str, threads: int, model: Path) -> None:
    config = replace(QUICK, queries=2, threads=threads, engine=wanted)
    subject = bench_positions_of(model, KNOBS[:1], sample(), config, NOTHING).subject
    assert (subject.engine, subject.threads) == (ran, threads or 1), "one thread is enough for a small model"


def test_beside_an_lstm_all_models_run_on_onnx_runtime(model: Path, tmp_path: Path) -> None:
    lstm, notices = write_tiny(tmp_path / "lstm.safetensors", "lstm"), list[str]()
    quick: dict[str, Any] = {"queries": 2, "warm_up": 0, "threads": 1, "meter": NOTHING, "memory": False}
    found = bench(model, knobs=[1.0], beside=[lstm], notice=notices.append, **quick)
    assert [one.subject.engine for one in found.by_model()] == ["onnx", "onnx"]
    assert notices == ["all models run on ONNX Runtime, because the core does not run lstm.safetensors"]
    with pytest.raises(RheostatError, match="the core has no lstm; expected a qrnn"):
        bench(model, knobs=[1.0], beside=[lstm], engine="core", **quick)
    bench(lstm, knobs=[1.0], notice=notices.append, **quick)
    assert len(notices) == 1, "nothing to say where no other model would have run on the core"


def test_beside_a_qrnn_all_models_run_on_the_core(model: Path) -> None:
    found = bench(model, knobs=[1.0], beside=[model], queries=2, warm_up=0, meter=NOTHING, memory=False)
    assert [one.subject.engine for one in found.by_model()] == ["core", "core"]


def test_memory_is_that_of_the_engine_that_ran(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engines: list[object] = []
    monkeypatch.setattr(bench_module, "resident_memory", lambda *arguments: engines.append(arguments[-1]))
    bench_positions_of(model, KNOBS[:1], sample(), replace(QUICK, queries=2, memory=True, engine="onnx"), NOTHING)
    assert engines == ["onnx"]


@pytest.mark.parametrize(("precision", "weight_bytes"), [("fp32", 4.0), ("int8", 1.0)])
def test_bytes_follow_the_precision(precision: Any, weight_bytes: float, model: Path) -> None:
    config = BenchConfig(queries=2, warm_up=0, precision=precision, memory=False, threads=1)
    (row,) = bench_positions_of(model, KNOBS[:1], sample(), config, NOTHING).rows
    assert row.bytes_read == round(SHAPE.flops / 2 * weight_bytes)


def test_clusters_that_stay_closed_are_neither_read_nor_estimated(tmp_path: Path) -> None:
    shape = ModelShape(len(WORDS), 8, (16, 16, 8), (2, 1, 1), (5, 9))
    weights = make_weights(shape)
    weights["clusters.bias"] = np.array([-9, -9], np.float32)
    path = write_words(tmp_path / "split.safetensors", WORDS, shape, weights=weights)
    (row,) = bench_positions_of(path, KNOBS[:1], sample(), QUICK, Estimate(1e-12, 1e-9)).rows
    executed = row.executed_flops.mean
    assert executed < row.flops == shape.flops
    assert row.bytes_read == round(executed / 2)
    assert row.energy_mj == pytest.approx(1e3 * (executed * 1e-12 + row.bytes_read * 1e-9))


def test_memory_is_measured_in_a_separate_process(model: Path) -> None:
    memory = resident_memory(model, 0.7, None, "int8", 1, ["the boat"])
    assert memory is not None and 10e6 < memory.resident_bytes < 1e9
    assert memory.model_bytes < memory.resident_bytes
    assert resident_memory(model.with_name("absent"), 1.0, None, "int8", 1, []) is None


class SteadyMeter(CounterMeter):
    """Always five watts, by a clock that moves a millisecond whenever it is read."""

    name = "steady"
    covers = "everything"
    period_s = 0.001

    def __init__(self) -> None:
        self._now = 0.0
        self.clock = Clock(lambda: self._pass(0.001), self._pass)

    def _pass(self, seconds: float) -> float:
        self._now += seconds
        return self._now

    def available(self) -> str | None:
        return None

    @contextmanager
    def opened(self) -> Iterator[Callable[[], float]]:
        yield lambda: 5 * self._now


def with_energy(model: Path, source: EnergySource) -> tuple[BenchRow, ...]:
    plan = Plan(idle_seconds=0.05, blocks=2, block_seconds=0.05, minimum_samples=1)
    config = BenchConfig(queries=4, warm_up=0, memory=False, threads=1, energy=plan)
    return bench_positions_of(model, KNOBS[:2], sample(), config, source).rows


def test_energy_is_measured_over_real_queries(model: Path) -> None:
    for row in with_energy(model, SteadyMeter()):
        energy = row.energy
        assert (energy.meter, energy.covers, energy.blocks) == ("steady", "everything", 2)
        assert energy.gross_mj == pytest.approx(5e3 * energy.seconds / energy.queries)
        assert row.energy_mj == pytest.approx(0, abs=1e-6)  # nothing above idle


@pytest.mark.parametrize("resolved", [True, False])
def test_energy_has_a_fit_only_if_every_point_is_resolved(
    model: Path, resolved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    energies = [EnergyPerQuery("steady", "everything", value, resolved=True) for value in (3.5, 2.0, 1.0)]
    energies[1] = replace(energies[1], resolved=resolved)
    monkeypatch.setattr(bench_module, "measure_energies", lambda *_: energies)
    found = bench_positions_of(model, KNOBS, sample(), QUICK, NOTHING)
    expected = np.corrcoef([row.flops for row in found.rows], [3.5, 2.0, 1.0])[0, 1] ** 2
    assert found.fit.energy_r_squared == (pytest.approx(expected) if resolved else None)


def test_a_meter_that_does_not_move_is_not_measured(model: Path, tmp_path: Path) -> None:
    chip = tmp_path / "class" / "hwmon" / "hwmon0"
    chip.mkdir(parents=True)
    (chip / "name").write_text("ina226\n")
    (chip / "power1_input").write_text("0\n")
    for row in with_energy(model, find_meter("auto", MeterOptions(system_root=tmp_path))):
        assert row.energy_mj is None and "does not change" in (row.energy.reason or "")


def test_an_estimate_is_labelled_and_has_no_fit(model: Path) -> None:
    config = BenchConfig(queries=2, warm_up=0, memory=False, threads=1)
    contents = bench_positions_of(model, KNOBS, sample(), config, find_meter("estimate"))
    assert all(row.energy.estimate and (row.energy_mj or 0) > 0 for row in contents.rows)
    assert contents.fit.energy_r_squared is None


# The machine


def write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{value}\n")


def fake_machine(root: Path) -> None:
    cpus = root / "devices" / "system" / "cpu"
    for number, frequency in ((0, 1_500_000), (1, 600_000)):
        write(cpus / f"cpu{number}" / "cpufreq" / "scaling_governor", "ondemand")
        write(cpus / f"cpu{number}" / "cpufreq" / "scaling_cur_freq", frequency)
        write(cpus / f"cpu{number}" / "thermal_throttle" / "core_throttle_count", 3 + number)
    write(root / "class" / "thermal" / "thermal_zone0" / "type", "cpu-thermal")
    write(root / "class" / "thermal" / "thermal_zone0" / "temp", 61_250)
    write(root / "class" / "thermal" / "thermal_zone1" / "temp", "N/A")


def test_the_state_of_the_machine_is_recorded(tmp_path: Path) -> None:
    fake_machine(tmp_path)
    found = read_conditions(tmp_path)
    assert (found.governors, found.frequencies_mhz, found.throttle_events) == (("ondemand",), (600, 1500), 7)
    assert found.temperatures_c == {"cpu-thermal/thermal_zone0": 61.25} and found.slowed_down is None


def test_an_unknown_state_of_the_machine_is_not_guessed(tmp_path: Path) -> None:
    found = read_conditions(tmp_path)
    assert (found.governors, found.frequencies_mhz, found.temperatures_c) == ((), None, {})
    assert (found.throttle_events, found.slowed_down, was_throttled(found, found)) == (None, None, None)


def test_processor_sensors_replace_missing_thermal_zones(tmp_path: Path) -> None:
    write(tmp_path / "class" / "hwmon" / "hwmon2" / "name", "k10temp")
    write(tmp_path / "class" / "hwmon" / "hwmon2" / "temp1_input", 48_000)
    assert read_conditions(tmp_path).temperatures_c == {"k10temp/temp1": 48.0}


def test_throttling_is_detected_from_its_counters(tmp_path: Path) -> None:
    fake_machine(tmp_path)
    before = read_conditions(tmp_path)
    assert was_throttled(before, before) is False
    write(tmp_path / "devices" / "system" / "cpu" / "cpu1" / "thermal_throttle" / "core_throttle_count", 9)
    assert was_throttled(before, read_conditions(tmp_path)) is True


@pytest.mark.parametrize(("bits", "slowed"), [("0", False), ("50000", False), ("4", True), ("50005", True)])
def test_a_raspberry_pi_reports_throttling(bits: str, slowed: bool, tmp_path: Path) -> None:
    write(tmp_path / machine.RASPBERRY_PI, bits)
    assert read_conditions(tmp_path).slowed_down is slowed


@pytest.mark.parametrize(("state", "slowed"), [(0, False), (3, True)])
def test_a_cooling_device_of_the_processor_is_throttling(state: int, slowed: bool, tmp_path: Path) -> None:
    coolers = tmp_path / "class" / "thermal"
    write(coolers / "cooling_device0" / "type", "cpufreq-cpu0")
    write(coolers / "cooling_device0" / "cur_state", state)
    write(coolers / "cooling_device1" / "type", "pwm-fan")
    write(coolers / "cooling_device1" / "cur_state", 2)
    assert read_conditions(tmp_path).slowed_down is slowed


def test_the_state_before_and_after_is_in_the_results(model: Path, tmp_path: Path) -> None:
    fake_machine(tmp_path)
    contents = bench_positions_of(model, KNOBS[:1], sample(), QUICK, NOTHING, system_root=tmp_path)
    assert contents.machine.throttled is False
    assert contents.machine.before.governors == contents.machine.after.governors == ("ondemand",)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system does not pin")
def test_pinning_lasts_as_long_as_the_measurement(model: Path) -> None:
    allowed = os.sched_getaffinity(0)
    cpu = min(allowed)
    contents = bench_positions_of(model, KNOBS[:1], sample(), BenchConfig(2, 0, cpus=[cpu], memory=False), NOTHING)
    subject = contents.subject
    assert (subject.cpus, subject.pinned, subject.threads) == ((cpu,), True, 1)
    assert os.sched_getaffinity(0) == allowed
    with (
        pytest.raises(RheostatError, match=r"the CPUs to pin to include 4711; this program can use"),
        pinned([4711]),
    ):
        pass


def test_a_system_that_cannot_pin_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    with pytest.raises(RheostatError, match="pin it to none"), pinned([0]):
        pass


def test_cpus_are_numbers_between_commas() -> None:
    assert parse_cpus("2,0,2") == [0, 2]
    with pytest.raises(RheostatError, match="as in 0,1"):
        parse_cpus("first")


# The command


def run(*arguments: object) -> str:
    wide = {"COLUMNS": "160"}  # a busy machine has longer numbers
    result = CliRunner().invoke(app, ["bench", *map(str, arguments)], env=wide, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_command_prints_json_and_writes_the_same(model: Path, tmp_path: Path) -> None:
    data, out = tmp_path / "test.txt", tmp_path / "results" / "bench.json"
    data.write_text("The boat sees a gate, and we go to the garden.\n")
    options = ["--knob", 1, "--knob", 0.5, "--queries", 10, "--warm-up", 1, "--meter", "none", "--data", data]
    printed = json.loads(run(model, *options, "--threads", 1, "--json", "-o", out))
    assert printed == json.loads(out.read_text()) and printed["subject"]["corpus"] == "test.txt"
    assert [row["knob"] for row in printed["rows"]] == [1.0, 0.5]
    assert all(row["resident_bytes"] > row["model_bytes"] for row in printed["rows"])


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_results_are_shown_even_if_they_cannot_be_written(
    flags: list[str], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_module, "resident_memory", lambda *_: None)
    monkeypatch.setattr(bench_module, "check_results_target", Path)  # the folder was there when the run began
    (tmp_path / "file").write_text("")
    options = ["--queries", "2", "--warm-up", "0", "--meter", "none", "--threads", "1", *flags]
    answer = CliRunner().invoke(app, ["bench", str(model), *options, "-o", str(tmp_path / "file" / "bench.json")])
    assert isinstance(answer.exception, RheostatError) and "file is a file, not a folder" in str(answer.exception)
    assert json.loads(answer.stdout)["rows"] if flags else "100.0%" in answer.stdout


def test_the_command_shows_a_table(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_module, "resident_memory", lambda *_: None)
    printed = run(model, "--queries", 6, "--warm-up", 0, "--meter", "none", "--threads", 1)
    assert "int8 on the core, 1 thread, text: sample" in printed and "r² of latency with executed FLOPs: " in printed
    assert printed.count("measured") == 4 and "100.0%" in printed  # four positions, without energy
    assert all(word in printed for word in ("0.8 by", "0.4 by", "random"))


def test_the_command_chooses_the_engine(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_module, "resident_memory", lambda *_: None)
    options = ["--queries", 2, "--warm-up", 0, "--meter", "none", "--threads", 2]
    assert "int8 on ONNX Runtime, 2 threads" in run(model, *options, "--engine", "onnx")
    assert "int8 on the core, 2 threads" in run(model, *options)
    assert CliRunner().invoke(app, ["bench", str(model), "--engine", "torch"]).exit_code == 2


def test_stored_points_are_measured_if_there_is_no_ranking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_module, "resident_memory", lambda *_: None)
    path = write_tiny(tmp_path / "m.safetensors", default_ranking=None, rankings=[])
    rows = json.loads(run(path, "--queries", 2, "--meter", "none", "--json"))["rows"]
    assert [row["label"] for row in rows] == ["1", "l0-0.5", "second"]


def test_models_with_another_tokenizer_are_not_measured_beside_it(model: Path, tmp_path: Path) -> None:
    other = write_tiny(tmp_path / "other.safetensors", "lstm", text={"tokenizer": "ptb"})
    with pytest.raises(RheostatError, match="expected the same tokenizer"):
        run(model, "--beside", other, "--queries", 2)


def test_meters_are_listed_without_a_model() -> None:
    meters = {entry["meter"]: entry for entry in json.loads(run("--meter", "list", "--json"))}
    assert {"rapl", "hwmon", "estimate"} <= set(meters) and meters["estimate"]["reason"]
    assert "on this machine" in run("--meter", "list")


def said_before_the_run(model: Path, trace: Path, monkeypatch: pytest.MonkeyPatch, *options: object) -> str:
    """The stderr of a bench that stops before its first query."""

    def end(*_: object, **__: object) -> None:
        raise RheostatError("it begins")

    monkeypatch.setattr(bench_module, "bench_positions_of", end)
    arguments = ["bench", model, "--meter", f"trace:{trace}", *options]
    answer = CliRunner().invoke(app, list(map(str, arguments)))
    assert str(answer.exception) == "it begins"
    return answer.stderr.strip()


def test_blocks_too_short_for_the_meter_are_reported_before_the_run(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = POWER / "steps.csv"  # ten readings per second
    said = said_before_the_run(model, trace, monkeypatch, "--block-seconds", 1, "--idle-seconds", 1.05)
    assert said == (
        "energy will not be resolved: block seconds 1 and idle seconds 1.05, but the meter trace has a new reading "
        "every 0.1 s; use at least 1.1 s, or leave the option out"
    )
    assert said_before_the_run(model, trace, monkeypatch, "--block-seconds", 1.1) == ""
    assert said_before_the_run(model, trace, monkeypatch) == ""


def test_the_duration_with_a_slow_meter_is_reported_before_the_run(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tmp_path / "slow.csv"
    trace.write_text("time,power_w\n1,2.0\n2,2.1\n3,2.0\n")
    said = said_before_the_run(model, trace, monkeypatch)
    # four points of ten blocks, each eleven seconds plus guards of three; and two idle windows of the same length
    assert said == "energy takes about 12 min: the meter trace has a new reading every 1 s"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["MODEL", "--point", "absent"], OperatingPointError, "absent"),
        (["MODEL", "--knob", "7"], OperatingPointError, "the knob is set to 7"),
        (["MODEL", "--meter", "rappl"], RheostatError, "did you mean rapl"),
        (["MODEL", "--pin", "x"], RheostatError, "the CPUs to pin to are 'x'"),
        (["MODEL", "--data", "absent"], CorpusError, "absent"),
    ],
)
def test_a_wrong_call_gets_an_error_with_what_was_expected(
    arguments: list[str], error: type[Exception], message: str, model: Path
) -> None:
    with pytest.raises(error, match=message):
        run(*(str(model) if argument == "MODEL" else argument for argument in arguments))


def test_results_that_cannot_be_written_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    path = write_bench(tmp_path / "bench.json", [bench_row(1.0, 2.0)])
    found = read_results(path)
    with pytest.raises(RheostatError, match=r"file is a file, not a folder$"):  # there is no old file to be intact
        write_results(tmp_path / "file" / "bench.json", found)
    path.chmod(0o444)
    with pytest.raises(RheostatError, match=r"it is read-only; the old file is intact$"):
        write_results(path, found)


@pytest.mark.skipif(sys.platform == "win32", reason="a folder cannot be opened there")
def test_a_results_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    for latency_ms in (2.0, 1.0):
        found = read_results(write_bench(path, [bench_row(1.0, latency_ms)]))
        write_results(path, found)
        assert read_results(path) == found and list(tmp_path.iterdir()) == [path]
