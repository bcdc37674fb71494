"""Every meter from end to end, without its hardware: fake kernel files, a fake command, a real pseudo-terminal."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rheostat.measure.meters import (
    EnergyPerQuery,
    Estimate,
    MeterError,
    MeterOptions,
    NoMeter,
    Plan,
    Work,
    explain,
    find_meter,
    measure_energy,
)
from rheostat.measure.meters.hwmon import HwmonMeter
from rheostat.measure.meters.meter import Clock, SamplerMeter
from rheostat.measure.meters.pmic import PmicMeter, parse_rails
from rheostat.measure.meters.power_supply import BatteryMeter
from rheostat.measure.meters.power_trace import TraceMeter
from rheostat.measure.meters.rapl import RaplMeter
from rheostat.measure.meters.watts_up import WattsUpMeter, parse_record
from rheostat.measure.meters.zeus_monitor import PROCESSOR, ZeusMeter

DATA = Path(__file__).parents[1] / "data" / "power"
IDLE_W, BUSY_W = 2.0, 5.0
QUICK = Plan(idle_seconds=0.1, blocks=3, block_seconds=0.05, minimum_samples=2)
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="this meter reads Linux kernel files")


def write(folder: Path, **files: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (folder / name).write_text(f"{value}\n")
    return folder


class Device:
    """A device whose sensor shows one power at work and another when idle. show: sets the sensor to some watts.

    Its clock moves in steps, and each step waits until the meter's thread has sampled it. So the result is exact, even
    on a slow machine.
    """

    def __init__(self, show: Callable[[float], None], step_s: float) -> None:
        self._show, self._step_s = show, step_s
        self._now, self._looks, self._looked = 0.0, 0, threading.Condition()
        self.clock = Clock(self._look, self._rest)

    def _look(self) -> float:
        if threading.current_thread() is not threading.main_thread():
            with self._looked:
                self._looks += 1
                self._looked.notify_all()
        return self._now

    def _rest(self, seconds: float) -> None:
        self._show(IDLE_W)
        self._pass(seconds)

    def work(self) -> int:
        self._show(BUSY_W)
        self._pass(2 * self._step_s)
        return 4

    def _pass(self, seconds: float) -> None:
        end = self._now + seconds
        while self._now < end:
            self._now = min(self._now + self._step_s, end)
            self._wait_for_a_sample()

    def _wait_for_a_sample(self) -> None:
        with self._looked:
            # The end of the current sample, then the start and the end of one that saw this step.
            wanted = self._looks + 3
            assert self._looked.wait_for(lambda: self._looks >= wanted, timeout=20), "the meter takes no samples"


def measure_device(meter: SamplerMeter, show: Callable[[float], None]) -> EnergyPerQuery:
    show(IDLE_W)  # some meters have a period only once their sensor exists
    device = Device(show, meter.period_s)
    meter.clock = device.clock
    return measure_energy(meter, Work(device.work), QUICK)


def check_net_power(result: EnergyPerQuery) -> None:
    assert result.energy_mj is not None, result.reason
    net_w = result.energy_mj / 1e3 * result.queries / result.seconds
    assert net_w == pytest.approx(BUSY_W - IDLE_W, rel=1e-6)


@contextmanager
def as_somebody_else() -> Iterator[None]:
    """Run as another user, because root can read everything."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


# RAPL


def rapl_tree(root: Path, range_uj: int = 1_000_000_000) -> Path:
    powercap = root / "class" / "powercap"
    zones = {"intel-rapl:0": "package-0", "intel-rapl:0:0": "core", "intel-rapl:0:1": "dram", "intel-rapl:1": "psys"}
    for zone, name in zones.items():
        write(powercap / zone, name=name, energy_uj=0, max_energy_range_uj=range_uj)
    write(powercap / "intel-rapl-mmio:0", name="package-0", energy_uj=0, max_energy_range_uj=range_uj)
    return powercap


class RaplDevice:
    """Moves a clock and the counters of a fake tree together; they wrap at their range."""

    def __init__(self, powercap: Path, range_uj: int) -> None:
        self._powercap, self._range_uj, self._now, self._used_uj = powercap, range_uj, 0.0, range_uj - 1_000_000.0
        self.clock = Clock(lambda: self._now, lambda seconds: self._pass(seconds, IDLE_W))
        self._pass(0, 0)

    def work(self) -> int:
        self._pass(0.05, BUSY_W)
        return 1

    def _pass(self, seconds: float, watts: float) -> None:
        self._now += seconds
        self._used_uj += seconds * watts * 1e6
        for zone, share in (("intel-rapl:0", 0.75), ("intel-rapl:0:1", 0.25), ("intel-rapl:1", 3.0)):
            write(self._powercap / zone, energy_uj=round(self._used_uj * share) % self._range_uj)


@linux_only
@pytest.mark.parametrize("range_uj", [1_000_000_000, 7_000_000], ids=["no wrap", "wraps again and again"])
def test_rapl_adds_packages_and_memory_and_survives_wrapping(range_uj: int, tmp_path: Path) -> None:
    meter = RaplMeter(tmp_path)
    device = RaplDevice(rapl_tree(tmp_path, range_uj), range_uj)
    meter.clock = device.clock
    result = measure_energy(meter, Work(device.work), Plan(idle_seconds=1.0, blocks=3, block_seconds=1.0))
    assert result.energy_mj == pytest.approx(150) and result.idle_power_w == pytest.approx(IDLE_W)
    assert result.resolved and (result.meter, result.covers) == ("rapl", "package-0, dram")


@linux_only
def test_rapl_counters_that_never_change_are_not_measured(tmp_path: Path) -> None:
    rapl_tree(tmp_path)  # as in some virtual machines: the files exist and never change
    meter = RaplMeter(tmp_path)
    meter.clock = Clock(iter(range(10_000)).__next__, lambda seconds: None)
    result = measure_energy(meter, Work(lambda: 1), QUICK)
    assert result.energy_mj is None and "does not change" in (result.reason or "")


@linux_only
def test_rapl_without_counters_says_so(tmp_path: Path) -> None:
    assert "no intel-rapl package" in (RaplMeter(tmp_path).available() or "")


@linux_only
def test_unreadable_rapl_says_what_to_do() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        path = rapl_tree(root) / "intel-rapl:0" / "energy_uj"
        path.chmod(0o000)
        with as_somebody_else():
            reason = RaplMeter(root).available() or ""
        path.chmod(0o600)
    assert "not readable for this user" in reason and "sudo chmod a+r" in reason and "\n" not in reason


@linux_only
def test_rapl_that_vanishes_in_the_middle_is_not_measured(tmp_path: Path) -> None:
    powercap = rapl_tree(tmp_path)
    device = RaplDevice(powercap, 1_000_000_000)
    meter = RaplMeter(tmp_path)
    meter.clock = device.clock

    def work() -> int:
        (powercap / "intel-rapl:0" / "energy_uj").unlink(missing_ok=True)
        device.clock.sleep(0.05)
        (powercap / "intel-rapl:0" / "energy_uj").unlink(missing_ok=True)
        return 1

    result = measure_energy(meter, Work(work), QUICK)
    assert result.energy_mj is None and "cannot be read" in (result.reason or "")


# zeus, with a stand-in for ZeusMonitor


@dataclass
class Monitor:
    """Every window costs the same."""

    soc: dict[str, float] | None = None
    cpu_energy: dict[int, float] | None = None
    dram_energy: dict[int, float] | None = None
    gpu_energy: tuple[float, ...] = ()
    fails_after: int = 1000

    @property
    def soc_is_present(self) -> bool:
        return self.soc is not None

    @property
    def cpu_indices(self) -> list[int]:
        return list(self.cpu_energy or {})

    @property
    def gpu_indices(self) -> list[int]:
        return list(range(len(self.gpu_energy)))

    def begin_window(self, key: str, sync_execution: bool = True, restart: bool = False) -> None:
        assert not sync_execution, "would need torch"

    def end_window(self, key: str, sync_execution: bool = True) -> Any:
        assert not sync_execution, "would need torch"
        self.fails_after -= 1
        if self.fails_after < 0:
            raise RuntimeError("the driver\nis gone")
        soc = SimpleNamespace(**self.soc) if self.soc else None
        gpu = dict(enumerate(self.gpu_energy))
        return SimpleNamespace(soc_energy=soc, cpu_energy=self.cpu_energy, dram_energy=self.dram_energy, gpu_energy=gpu)


def zeus(monitor: Monitor, parts: Sequence[str] = ("soc", "cpu", "gpu")) -> ZeusMeter:
    return ZeusMeter(parts, make_monitor=lambda: monitor)


@pytest.mark.parametrize(
    ("monitor", "energy_j", "covers"),
    [
        (Monitor(soc={"cpu_total_mj": 900, "dram_mj": 80, "gpu_mj": None, "ane_mj": 20}), 1.0, "system on chip"),
        (Monitor(soc={"cpu_energy_mj": 9, "gpu_energy_mj": 9, "total_energy_mj": 2000.0}), 2.0, "system on chip"),
        (Monitor(cpu_energy={0: 3.0, 1: 1.0}, dram_energy={0: 0.5}), 4.5, "processor"),
        (Monitor(gpu_energy=(7.0, 1.0)), 8.0, "graphics card"),
        (Monitor(cpu_energy={0: 3.0}, gpu_energy=(7.0,)), 10.0, "processor, graphics card"),
    ],
    ids=["Apple", "Jetson", "RAPL", "cards", "both"],
)
def test_zeus_adds_devices_that_do_not_overlap(monitor: Monitor, energy_j: float, covers: str) -> None:
    meter = zeus(monitor)
    assert meter.available() is None and meter.covers == covers
    with meter.recording() as recording:
        begin, end = recording.mark(), recording.mark()
    assert recording.reading(begin, end).energy_j == pytest.approx(energy_j)


def test_zeus_is_not_chosen_if_it_sees_only_a_graphics_card() -> None:
    assert "neither soc nor cpu" in (zeus(Monitor(gpu_energy=(7.0,)), PROCESSOR).available() or "")


def test_zeus_that_fails_in_the_middle_is_not_measured() -> None:
    result = measure_energy(zeus(Monitor(cpu_energy={0: 1.0}, fails_after=3)), Work(lambda: 1), QUICK)
    assert result.energy_mj is None and result.reason == "zeus failed: RuntimeError: the driver is gone"


def test_zeus_that_does_not_start_says_why() -> None:
    def broken() -> Any:
        raise OSError("no driver")

    assert ZeusMeter(make_monitor=broken).available() == "zeus does not start on this machine: OSError: no driver"


def test_zeus_that_is_not_installed_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zeus.monitor", None)
    assert "rheostat[energy]" in (ZeusMeter().available() or "")


def test_the_real_zeus_answers() -> None:
    pytest.importorskip("zeus.monitor", reason="the energy extra is not installed")
    meter = ZeusMeter()
    reason = meter.available()
    if reason is None:
        with meter.recording() as recording:
            begin = recording.mark()
            time.sleep(0.5)
            end = recording.mark()
        assert recording.reading(begin, end).energy_j > 0
    else:
        assert "zeus" in reason


# Kernel power sensors


def hwmon(root: Path, number: int, **files: object) -> Path:
    return write(root / "class" / "hwmon" / f"hwmon{number}", **files)


@linux_only
@pytest.mark.parametrize("file", ["power1_input", "power1_average"])
def test_the_only_sensor_of_a_board_is_measured(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rheostat.measure.meters.hwmon.FASTEST_S", 0.005)
    chip = hwmon(tmp_path, 0, name="ina226")
    hwmon(tmp_path, 1, name="coretemp", temp1_input=40_000)
    hwmon(tmp_path, 2, name="amdgpu", power1_average=9_000_000)
    write(hwmon(tmp_path, 3, name="BAT0", power1_input=9_000_000) / "device", type="Battery")

    def show(watts: float) -> None:
        write(chip, new=round(watts * 1e6))
        (chip / "new").replace(chip / file)  # atomically, as the kernel does

    result = measure_device(HwmonMeter((), tmp_path), show)
    check_net_power(result)
    assert (result.meter, result.covers) == ("hwmon", "ina226/power1")
    # It is read fifty times per second and rarely has a new value: only new values count.
    assert not result.resolved and "readings in a window" in (result.reason or "")


@linux_only
def test_a_sensor_with_a_stated_interval_can_repeat_a_value(tmp_path: Path) -> None:
    chip = hwmon(tmp_path, 0, name="ina226", power1_input=1)
    assert HwmonMeter((), tmp_path).ignore_repeats
    write(chip, update_interval=20)
    assert not HwmonMeter((), tmp_path).ignore_repeats


@linux_only
def test_a_sensor_that_hangs_does_not_hang_the_run(tmp_path: Path) -> None:
    hwmon(tmp_path, 0, name="ina226", power1_input=1)
    answers, wake = iter([1.0]), threading.Event()

    class Hanging(HwmonMeter):
        stopping_s = 0.1

        @contextmanager
        def opened(self) -> Iterator[Callable[[], float]]:
            yield lambda: next(answers, None) or float(wake.wait(60))

    result = measure_energy(Hanging((), tmp_path), Work(lambda: 1), QUICK)
    wake.set()
    assert result.energy_mj is None and "a reading has not finished after 0.1 s" in (result.reason or "")


@linux_only
def test_among_several_sensors_the_user_chooses(tmp_path: Path) -> None:
    hwmon(tmp_path, 0, name="ina", power1_input=1, power1_label="CPU", power10_input=4, power2_input=2_000_000)
    reason = HwmonMeter((), tmp_path).available() or ""
    assert "3 power sensors" in reason and "hwmon:ina/CPU+ina/power2+ina/power10" in reason
    chosen = HwmonMeter(["ina/CPU", "ina/power2"], tmp_path)
    assert chosen.available() is None and chosen.covers == "ina/CPU + ina/power2"
    with chosen.opened() as read_power:
        assert read_power() == pytest.approx(2.000001)
    assert "no power sensor is called 'ina/GPU'" in (HwmonMeter(["ina/GPU"], tmp_path).available() or "")


@linux_only
def test_chips_of_the_same_name_are_distinguished_and_none_is_read_twice(tmp_path: Path) -> None:
    hwmon(tmp_path, 3, name="ina226", power1_input=1_000_000)
    hwmon(tmp_path, 4, name="ina226", power1_input=2_000_000, power2_input=9_000_000)
    advised = "hwmon3/power1+hwmon4/power1+ina226/power2"
    assert f"hwmon:{advised}" in (HwmonMeter((), tmp_path).available() or "")
    chosen = HwmonMeter(advised.split("+")[:2], tmp_path)
    assert chosen.available() is None
    with chosen.opened() as read_power:
        assert read_power() == pytest.approx(3.0)
    twice = HwmonMeter(["hwmon3/power1", "hwmon3/power1"], tmp_path)
    assert "hwmon3/power1 is named twice" in (twice.available() or "")


@linux_only
def test_a_sensor_that_states_its_interval_is_not_read_more_often(tmp_path: Path) -> None:
    hwmon(tmp_path, 0, name="ina", power1_average=1, update_interval=35, power1_average_interval=1000)
    assert HwmonMeter((), tmp_path).period_s == 1.0


@linux_only
def test_a_sensor_with_nonsense_values_is_not_available(tmp_path: Path) -> None:
    hwmon(tmp_path, 0, name="ina", power1_input="N/A")
    assert "says 'N/A'; expected a whole number" in (HwmonMeter((), tmp_path).available() or "")
    assert "no power sensor" in (HwmonMeter((), tmp_path / "none").available() or "")


@linux_only
def test_a_sensor_that_dies_ends_the_run_early(tmp_path: Path) -> None:
    chip = hwmon(tmp_path, 0, name="ina", power1_input=1)
    runs = 0

    def work() -> int:
        nonlocal runs
        runs += 1
        (chip / "power1_input").unlink(missing_ok=True)
        time.sleep(0.06)
        return 1

    result = measure_energy(HwmonMeter((), tmp_path), Work(work), Plan(0.05, blocks=500, block_seconds=0.05))
    assert result.energy_mj is None and runs < 500
    assert "the meter hwmon stopped in the middle of the run" in (result.reason or "")


# The battery


def battery(root: Path, name: str = "BAT0", **files: object) -> Path:
    return write(root / "class" / "power_supply" / name, **{"type": "Battery", "status": "Discharging", **files})


@linux_only
def test_a_discharging_battery_is_measured(tmp_path: Path) -> None:
    folder = battery(tmp_path)
    write(folder.parent / "AC", type="Mains", online=0)
    battery(tmp_path, "mouse", scope="Device", power_now=50_000_000)

    def show(watts: float) -> None:
        write(folder, new=-round(watts * 1e6))
        (folder / "new").replace(folder / "power_now")

    meter = BatteryMeter(tmp_path)
    meter.period_s = 0.005  # type: ignore[misc]
    result = measure_device(meter, show)
    check_net_power(result)
    # The value changes only twice; reading it more often adds no readings.
    assert not result.resolved and "readings in a window" in (result.reason or "")
    assert result.covers == "the whole device, from BAT0"


@linux_only
def test_power_is_current_times_voltage_if_a_battery_reports_only_these(tmp_path: Path) -> None:
    battery(tmp_path, current_now=-500_000, voltage_now=4_000_000)
    battery(tmp_path, "BAT1", status="Not charging", power_now=0)
    meter = BatteryMeter(tmp_path)
    assert meter.available() is None
    with meter.opened() as read_power:
        assert read_power() == pytest.approx(2.0)


@linux_only
@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"status": "Charging", "power_now": 1}, "BAT0 is Charging: only a discharging battery"),
        ({"status": "Full", "power_now": 1}, "unplug the charger"),
        ({"status": "Discharging"}, "neither power_now nor current_now"),
        ({"type": "UPS"}, "no battery under"),
    ],
)
def test_an_unusable_battery_says_why(files: dict[str, object], message: str, tmp_path: Path) -> None:
    battery(tmp_path, **files)
    assert message in (BatteryMeter(tmp_path).available() or "")


@linux_only
def test_a_charger_plugged_in_during_the_run_ends_it(tmp_path: Path) -> None:
    folder = battery(tmp_path, power_now=1)
    meter = BatteryMeter(tmp_path)
    meter.period_s = 0.005  # type: ignore[misc]

    def work() -> int:
        write(folder, status="Charging")
        time.sleep(0.02)
        return 1

    result = measure_energy(meter, Work(work), QUICK)
    assert result.energy_mj is None and "unplug the charger" in (result.reason or "")


# Raspberry Pi 5


def fake_vcgencmd(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    executable = folder / "vcgencmd"
    executable.write_text(f'#!/bin/sh\n[ "$*" = pmic_read_adc ] || exit 9\n{script}\n')
    executable.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_rails_with_current_and_voltage_are_paired_by_name() -> None:
    rails = parse_rails((DATA / "pmic.txt").read_text())
    assert rails == pytest.approx({"3V7_WL_SW": 0.037, "3V3_SYS": 0.33, "1V8_SYS": 0.36, "VDD_CORE": 1.2, "HDMI": 0.1})


@linux_only
def test_the_pmic_is_measured_through_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = tmp_path / "said"
    fake_vcgencmd(tmp_path, monkeypatch, f"cat {said}")

    def show(watts: float) -> None:
        new = tmp_path / "new"
        new.write_text(f"  VDD_CORE_A current(7)={watts / 0.8:.8f}A\n  VDD_CORE_V volt(15)=0.80000000V\n")
        new.replace(said)

    meter = PmicMeter()
    meter.period_s = 0.005  # type: ignore[misc]
    show(IDLE_W)
    assert meter.available() is None
    result = measure_device(meter, show)
    check_net_power(result)
    assert result.meter == "pmic" and "USB" in result.covers


@linux_only
def test_an_older_raspberry_pi_has_no_pmic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_vcgencmd(tmp_path, monkeypatch, "echo 'error=1 error_msg=\"Command not registered\"'")
    reason = PmicMeter().available() or ""
    assert "Command not registered" in reason and "only a Raspberry Pi 5" in reason


def test_without_vcgencmd_there_is_no_pmic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no command vcgencmd" in (PmicMeter().available() or "")


# Watts Up Pro


class Speaker(threading.Thread):
    """Speaks the Watts Up's protocol on a pseudo-terminal, faster than the real meter."""

    period_s = 0.004

    def __init__(self) -> None:
        import pty
        import tty

        super().__init__(daemon=True)
        self._far, self._near = pty.openpty()
        tty.setraw(self._near)
        self.port = os.ttyname(self._near)
        self.watts, self.silent, self.heard = IDLE_W, False, b""
        self.record: str | None = None  # what it sends instead of a proper record
        self._over = threading.Event()

    def show(self, watts: float) -> None:
        self.watts = watts

    def run(self) -> None:
        os.set_blocking(self._far, False)
        while not self._over.wait(self.period_s):
            self._listen()
            logging = self.heard.rfind(b"#L,W,3,E,") > self.heard.rfind(b"#L,R,0;")
            if logging and not self.silent:
                self._say()
        self._listen()

    def _listen(self) -> None:
        with suppress(BlockingIOError):
            self.heard += os.read(self._far, 100)

    def _say(self) -> None:
        fields = f"{round(self.watts * 10)},2301,{round(self.watts / 230.1 * 1000)},0,0,0,0,_,_,_,_,_,_,100,0,0,500,_"
        record = self.record or f"#d,-,18,{fields};"
        with suppress(BlockingIOError):
            os.write(self._far, f"#l,-,0;noise\r\n{record}\r\n".encode())

    def finish(self) -> None:
        self._over.set()
        self.join()

    def hang_up(self) -> None:
        self.finish()
        os.close(self._far)
        os.close(self._near)


@pytest.fixture
def speaker() -> Iterator[Speaker]:
    pytest.importorskip("serial", reason="the energy extra is not installed")
    speaker = Speaker()
    speaker.start()
    yield speaker
    speaker.hang_up()


def watts_up(port: str) -> WattsUpMeter:
    meter = WattsUpMeter(port)
    meter.period_s = Speaker.period_s  # type: ignore[misc]
    return meter


@pytest.mark.parametrize(
    ("packet", "watts"),
    [
        (b"#d,-,18,124,1191,97,0,_,_,_,124,_,_,_,_,_,100,_,_,_,_;", 12.4),
        (b"\r\n#d,-,16,0,1191;", 0.0),
        (b"#d,-,1#d,-,18,55,1;", 5.5),
        (b"#d,-,18,1x4,1191;", None),
        (b"#d,-;", None),
        (b"#h,-,18,W,V,A;", None),
        (b";", None),
    ],
)
def test_the_fourth_argument_of_a_data_record_is_tenths_of_watts(packet: bytes, watts: float | None) -> None:
    assert parse_record(packet) == watts


@linux_only
def test_a_watts_up_is_measured_over_its_serial_line(speaker: Speaker) -> None:
    meter = watts_up(speaker.port)
    assert meter.available() is None
    result = measure_device(meter, speaker.show)
    check_net_power(result)
    assert result.meter == "watts-up" and "mains" in result.covers
    speaker.finish()
    assert speaker.heard.startswith(b"#L,W,3,E,0,1;") and speaker.heard.endswith(b"#L,R,0;")


@linux_only
def test_a_watts_up_that_falls_silent_is_not_measured(speaker: Speaker) -> None:
    def work() -> int:
        speaker.silent = True
        time.sleep(0.05)
        return 1

    meter = watts_up(speaker.port)
    meter.patience_s = 0.3
    result = measure_energy(meter, Work(work), QUICK)
    assert result.energy_mj is None and "no record within" in (result.reason or "")


@linux_only
def test_a_watts_up_that_is_gone_before_its_first_record_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("serial", reason="the energy extra is not installed")
    import pty

    import serial

    far, near = pty.openpty()
    open_line = serial.Serial

    def open_and_pull_out(*arguments: Any, **options: Any) -> Any:
        line = open_line(*arguments, **options)
        os.close(far)
        return line

    monkeypatch.setattr(serial, "Serial", open_and_pull_out)
    result = measure_energy(watts_up(os.ttyname(near)), Work(lambda: 1), QUICK)
    os.close(near)
    assert result.energy_mj is None and "the serial line broke before the first record" in (result.reason or "")


@linux_only
def test_a_watts_up_that_leaves_watts_out_is_not_measured(speaker: Speaker) -> None:
    speaker.record = "#d,-,18,_,2301,8,0,0,0,0,_,_,_,_,_,_,100,0,0,500,_;"
    result = measure_energy(watts_up(speaker.port), Work(lambda: 1), QUICK)
    assert result.energy_mj is None and "records have no watts" in (result.reason or "")


@linux_only
def test_another_device_on_the_port_is_not_measured(speaker: Speaker) -> None:
    speaker.record = "$GPGGA,123519;"
    result = measure_energy(watts_up(speaker.port), Work(lambda: 1), QUICK)
    assert result.energy_mj is None and "is that another device's port?" in (result.reason or "")


@linux_only
def test_a_missing_port_is_a_reason(speaker: Speaker) -> None:
    assert "there is no serial port /dev/none" in (WattsUpMeter("/dev/none").available() or "")


def test_without_pyserial_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "serial", None)
    assert "rheostat[energy]" in (WattsUpMeter("/dev/none").available() or "")


# Choosing one


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MeterOptions:
    """A machine without any meter."""
    for module in ("zeus.monitor", "serial"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setenv("PATH", "")
    return MeterOptions(system_root=tmp_path / "sys")


def test_without_any_meter_auto_explains_each(bare: MeterOptions) -> None:
    meter = find_meter("auto", bare)
    assert isinstance(meter, NoMeter)
    assert [name for name, _ in meter.reasons] == ["rapl", "zeus", "hwmon", "pmic", "battery"]


def test_every_reason_is_one_line(bare: MeterOptions) -> None:
    rows = explain(bare)
    assert [name for name, _ in rows][-3:] == ["watts-up[:PORT]", "trace:FILE", "estimate"]
    assert all(reason and "\n" not in reason for _, reason in rows)


@linux_only
def test_auto_takes_the_first_that_is_available(bare: MeterOptions) -> None:
    battery(bare.system_root, power_now=1)
    assert find_meter("auto", bare).name == "battery"
    hwmon(bare.system_root, 0, name="ina226", power1_input=1)
    assert find_meter("auto", bare).name == "hwmon"
    rapl_tree(bare.system_root)
    assert find_meter("auto", bare).name == "rapl"
    assert dict(explain(bare))["rapl"] is None


def test_a_graphics_card_is_measured_only_if_zeus_is_named(bare: MeterOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zeus", SimpleNamespace())
    monitor = SimpleNamespace(ZeusMonitor=lambda: Monitor(gpu_energy=(7.0,)))
    monkeypatch.setitem(sys.modules, "zeus.monitor", monitor)
    assert isinstance(find_meter("auto", bare), NoMeter)
    assert find_meter("zeus", bare).name == "zeus"


def test_an_estimate_is_made_only_on_request(bare: MeterOptions) -> None:
    assert isinstance(find_meter("estimate", bare), Estimate)
    assert not isinstance(find_meter("auto", bare), Estimate)


def test_none_is_no_meter() -> None:
    assert find_meter("none") == NoMeter()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rapl", "the meter rapl is not available: no intel-rapl package"),
        ("rappl", "there is no meter 'rappl'; did you mean rapl"),
        ("wattmeter!", "expected one of auto, none, rapl, zeus, hwmon, pmic, battery, watts-up, trace, estimate"),
        ("trace", "needs a file: trace:FILE"),
        ("trace:none.csv", "the trace none.csv cannot be read"),
        ("hwmon:ina/CPU", "no power sensor"),
        ("watts-up:/dev/none", "rheostat[energy]"),
        (
            "estimate:foo",
            "the meter estimate takes no argument, but ':foo' was given; expected estimate alone",
        ),
        ("none:x", "the meter none takes no argument"),
        ("auto:rapl", "the meter auto takes no argument"),
        ("rapl:package-0", "the meter rapl takes no argument"),
        ("nothing:x", "there is no meter 'nothing'"),
    ],
)
def test_an_unavailable_meter_is_an_error(name: str, message: str, bare: MeterOptions) -> None:
    with pytest.raises(MeterError) as error:
        find_meter(name, bare)
    assert message in str(error.value)


def test_a_trace_is_found_by_its_file() -> None:
    options = MeterOptions(trace_offset_s=2.0, trace_patience_s=600.0)
    meter = find_meter(f"trace:{DATA / 'steps.csv'}", options)
    assert isinstance(meter, TraceMeter) and (meter.offset_s, meter.patience_s) == (2.0, 600.0)
