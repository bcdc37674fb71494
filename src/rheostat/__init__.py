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
    from rheostat.governor.battery import Battery
    from rheostat.governor.governor import Governor
    from rheostat.governor.policy import Policy
    from rheostat.model.operating_point import OperatingPoint
    from rheostat.runtime.predictor import Predictor, load
    from rheostat.words.user_words import UserWords
    from rheostat.words.writing import Suggestion

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
    "Battery": "rheostat.governor.battery",
    "Governor": "rheostat.governor.governor",
    "OperatingPoint": "rheostat.model.operating_point",
    "Policy": "rheostat.governor.policy",
    "Predictor": "rheostat.runtime.predictor",
    "Suggestion": "rheostat.words.writing",
    "UserWords": "rheostat.words.user_words",
    "load": "rheostat.runtime.predictor",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'rheostat' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value
