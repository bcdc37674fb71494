"""Write power/steps.csv and power/steps-energy.csv: the power of a device during the run that test_energy.py replays.

A dry run says when the device works. It idles at 2 W at first and at 0.1 W more after each round, and works at 5 W.
Run it again if the plan of a run changes: python tests/data/make_power_steps.py
"""

from __future__ import annotations

import datetime
import sys
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "light")]

from test_energy import PLAN, STEPS, STEPS_BEGIN, STEPS_ENERGY, Time, trace_of  # noqa: E402

from rheostat.measure.meters.energy import run  # noqa: E402

RISE_W = 0.1
ZONE = datetime.timezone(datetime.timedelta(hours=2))


def main() -> None:
    time = Time()
    meter = trace_of(STEPS, time)
    with meter.recording() as recording:
        windows = run(meter, recording, [time.work()], PLAN)
    ends = [max(idle.end, block.end) for idle, block in zip(windows.idle, windows.works[0], strict=True)]
    moments = np.arange(STEPS_BEGIN - 1, time.moment + 4, 0.1).round(1)
    changes, totals = np.array(time.passed).T
    watts = []
    for number, moment in enumerate(moments):
        place = int(np.searchsorted(changes, moment - 1e-6))
        works = 0 < place < len(changes) and (totals[place] - totals[place - 1]) > 2.5 * (
            changes[place] - changes[place - 1]
        )
        idle = 2.0 + RISE_W * sum(moment > end for end in ends[:-1])
        watts.append((5.0 if works else idle) + (0.01 if number % 2 else -0.01))
    power = [f"{moment:.1f},{watt:.2f}\n" for moment, watt in zip(moments, watts, strict=True)]
    STEPS.write_text("time,power_w\n" + "".join(power))
    energy = 731.0 + np.concatenate([[0.0], 0.1 * np.cumsum(np.round(np.array(watts[:-1]), 1))])
    stamps = [datetime.datetime.fromtimestamp(moment, ZONE).isoformat(timespec="milliseconds") for moment in moments]
    counted = [f"{stamp},5.1,{joules:.4f}\n" for stamp, joules in zip(stamps, energy, strict=True)]
    STEPS_ENERGY.write_text("time,voltage_v,energy_j\n" + "".join(counted))


if __name__ == "__main__":
    main()
