"""Rheostat: a power knob for neural language models.

    predictor = rheostat.load("model.safetensors", knob=0.6)
    predictor.suggest("see you at the")

One trained model file serves any operating point from 100 % down to about 10 % of its compute, chosen at inference
time. This module is the light half's public face: importing it needs no torch and stays fast, since what it offers is
imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rheostat.errors import RheostatError, RheostatWarning

if TYPE_CHECKING:
    from rheostat.operating_point import OperatingPoint
    from rheostat.runtime.battery import Battery
    from rheostat.runtime.governor import Governor
    from rheostat.runtime.policy import Policy
    from rheostat.runtime.predictor import Predictor, load
    from rheostat.runtime.user_words import UserWords
    from rheostat.runtime.writing import Suggestion

__version__ = "0.1.0.dev0"

__all__ = [
    "Battery",
    "Governor",
    "OperatingPoint",
    "Policy",
    "Predictor",
    "RheostatError",
    "RheostatWarning",
    "Suggestion",
    "UserWords",
    "__version__",
    "load",
]

_WHERE = {
    "Battery": "rheostat.runtime.battery",
    "Governor": "rheostat.runtime.governor",
    "OperatingPoint": "rheostat.operating_point",
    "Policy": "rheostat.runtime.policy",
    "Predictor": "rheostat.runtime.predictor",
    "Suggestion": "rheostat.runtime.writing",
    "UserWords": "rheostat.runtime.user_words",
    "load": "rheostat.runtime.predictor",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'rheostat' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value
