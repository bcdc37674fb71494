"""Watts Up Pro, the paper's meter: it sits in the mains cable and reports over a serial line, once a second.

Knows the packets ("#" to ";", arguments separated by commas) that a measurement needs: starting and stopping external
logging, and the data record, whose fourth argument is tenths of watts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rheostat.errors import MeterError, MissingExtraError
from rheostat.measure.meters.meter import SamplerMeter

BAUD_RATE = 115200
START = b"#L,W,3,E,0,1;"  # logging, external, (reserved), every second: the meter's fastest
STOP = b"#L,R,0;"
LEFT_OUT = b"_"  # in place of a quantity that the meter is not set to log
FTDI = 0x0403  # the maker of the serial chip inside
MOST_FOREIGN = 8  # packets in a row that are not data records; the meter sends one or two between records


class WattsUpMeter(SamplerMeter):
    """port: such as /dev/ttyUSB0 or COM3; None = the only port with the right chip."""

    name = "watts-up"
    covers = "the whole device with its power supply, at the mains"
    waits_for_itself = True
    period_s = 1.0
    patience_s = 5.0  # the meter is gone if there is no record for this long

    def __init__(self, port: str | None = None) -> None:
        self._port = port

    @property
    def lag_s(self) -> float:
        return self.period_s / 2  # each record is the mean since the previous one

    def available(self) -> str | None:
        try:
            self._open().close()
        except (MeterError, MissingExtraError) as error:
            return str(error)
        return None

    @contextmanager
    def opened(self) -> Iterator[Callable[[], float]]:
        line = self._open()
        try:
            self._start(line)
            yield lambda: self._next_power(line)
        finally:
            with suppress(OSError):  # pyserial's errors are OSErrors; a meter that is gone cannot be stopped
                line.write(STOP)
            line.close()

    def _open(self) -> Any:
        serial = _pyserial()
        port = self._port or _only_port(serial)
        if not port.startswith("COM") and not Path(port).exists():
            raise MeterError(f"there is no serial port {port}; plug the meter in or name its port: watts-up:PORT")
        try:
            return serial.Serial(port, BAUD_RATE, timeout=self.patience_s, write_timeout=5)
        except OSError as error:
            raise MeterError(f"the serial port {port} cannot be opened: {error}") from None

    def _start(self, line: Any) -> None:
        try:
            line.reset_input_buffer()
            line.write(START)
        except Exception as error:  # an OSError, or termios.error, which is not one
            raise MeterError(
                f"the serial line broke before the first record: {error}; plug the meter in again"
            ) from None

    def _next_power(self, line: Any) -> float:
        packet = b""
        for _ in range(MOST_FOREIGN):
            packet = self._next_packet(line)
            watts = parse_record(packet)
            if watts is not None:
                return watts
        raise MeterError(
            f"{MOST_FOREIGN} packets without a data record, the last {packet[-40:]!r}; is that another device's port?"
        )

    def _next_packet(self, line: Any) -> bytes:
        try:
            packet: bytes = line.read_until(b";")
        except OSError as error:
            raise MeterError(f"the serial line broke: {error}") from None
        if not packet.endswith(b";"):
            raise MeterError(f"no record within {self.patience_s:g} s; is the meter switched on?")
        return packet


def parse_record(packet: bytes) -> float | None:
    """Watts of a data record; None for any other packet, and for one damaged by line noise.

    A complete record without watts is an error: the meter is set to leave them out.
    """
    arguments = packet[packet.rfind(b"#") :].rstrip(b";").split(b",")
    if arguments[0] != b"#d" or len(arguments) < 4:
        return None
    if arguments[3] == LEFT_OUT:
        raise MeterError("the meter's records have no watts; set it to log watts (its field W), then measure again")
    if not arguments[3].isdigit():
        return None
    return int(arguments[3]) / 10


def _pyserial() -> Any:
    try:
        import serial
        import serial.tools.list_ports
    except ImportError as error:
        raise MissingExtraError("energy", "The meter watts-up", error) from None
    return serial


def _only_port(serial: Any) -> str:
    ports = [port.device for port in serial.tools.list_ports.comports() if port.vid == FTDI]
    if len(ports) != 1:
        found = ", ".join(ports) or "none"
        raise MeterError(f"serial ports with a Watts Up's chip: {found}; name the meter's own: watts-up:PORT")
    return str(ports[0])
