"""Which filters matter, and how to win back what cutting loses; needs torch and builds on `training`."""

from __future__ import annotations

import rheostat.training  # noqa: F401  (names the missing extra if torch is not installed)
