"""Which filters matter, and how to recover what cutting loses. Needs torch and builds on `training`."""

from __future__ import annotations

import rheostat.training  # noqa: F401  (names the missing extra if torch is not installed)
