"""Which filters matter, and how to win back what cutting loses: torch, on top of `training`."""

from __future__ import annotations

import rheostat.training  # noqa: F401  (says which extra is missing, where it is)
