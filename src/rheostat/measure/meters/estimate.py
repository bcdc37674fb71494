"""Energy computed instead of measured: a constant per FLOP and a constant per byte read.

Used only when asked for by name. Knows two constants; knows nothing of the machine. It leaves out all other energy that
a processor uses, so treat it as a lower bound and as a way to compare operating points.
"""

from __future__ import annotations

from dataclasses import dataclass

# Horowitz, "Computing's energy problem", ISSCC 2014, 45 nm: float32 multiply 3.7 pJ, add 0.9 pJ; the mean of both.
JOULES_PER_FLOP = 2.3e-12
# Han et al., "Learning both weights and connections", 2015, table 1 (same technology): 640 pJ for 32 bits of DRAM.
JOULES_PER_BYTE = 160e-12


@dataclass(frozen=True)
class Estimate:
    joules_per_flop: float = JOULES_PER_FLOP
    joules_per_byte: float = JOULES_PER_BYTE

    name = "estimate"

    @property
    def covers(self) -> str:
        return f"{self.joules_per_flop * 1e12:g} pJ per FLOP and {self.joules_per_byte * 1e12:g} pJ per byte, computed"

    def energy_j(self, flops: float, bytes_read: float) -> float:
        return flops * self.joules_per_flop + bytes_read * self.joules_per_byte
