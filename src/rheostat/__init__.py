"""Rheostat: a power knob for neural language models.

One trained model file serves any operating point from 100 % down to about 10 % of its compute, chosen at inference
time. This module is the light half's public face: importing it needs no torch and stays fast.
"""

from __future__ import annotations

from rheostat.errors import RheostatError, RheostatWarning

__version__ = "0.1.0.dev0"

__all__ = ["RheostatError", "RheostatWarning", "__version__"]
