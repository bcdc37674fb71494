"""Rheostat: a power knob for neural language models.

    predictor = rheostat.load("model.safetensors", knob=0.6)
    predictor.suggest("see you at the")

One trained model file runs at any share of its compute, from 100 % down to about 10 %; you choose the share at
inference time. Everything a command does is one call from here; docs/api.md documents every name. Importing this module
is fast and does not need torch: each name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rheostat.errors import (
    CheckpointError,
    CorpusError,
    ExportError,
    MeterError,
    MissingExtraError,
    ModelFileError,
    OperatingPointError,
    PrecisionError,
    RecipeError,
    RheostatError,
    RheostatWarning,
    UserWordsError,
)

if TYPE_CHECKING:
    from rheostat.governor.device import Battery, DeviceState
    from rheostat.governor.governor import Governor
    from rheostat.governor.policy import Policy
    from rheostat.keyboard.server import serve_keyboard
    from rheostat.keyboard.site import write_page
    from rheostat.measure.bench import bench
    from rheostat.measure.counting import add_counts
    from rheostat.measure.evaluation import evaluate
    from rheostat.measure.ngram_baseline import measure_ngram
    from rheostat.measure.packing import pack
    from rheostat.measure.path_search import search_path
    from rheostat.measure.sweep import sweep
    from rheostat.measure.typing import measure_typing
    from rheostat.model.file import ModelFile, open_model
    from rheostat.model.operating_point import OperatingPoint
    from rheostat.model.summary import summarize
    from rheostat.pruning.criteria import criterion
    from rheostat.pruning.reconstruction import reconstruct
    from rheostat.pruning.resplit import resplit
    from rheostat.pruning.steps import learn_point, rank, recover
    from rheostat.report.demo import run_demo
    from rheostat.report.govern import replay_day
    from rheostat.report.writer import write_report
    from rheostat.runtime.engine import Cache
    from rheostat.runtime.export import export
    from rheostat.runtime.predictor import Predictor, load
    from rheostat.training.run import resume, train, write_untrained
    from rheostat.words.memory import Memory
    from rheostat.words.user_words import UserWords
    from rheostat.words.writing import Suggestion

__version__ = "0.2.0"

__all__ = [
    "Battery",
    "Cache",
    "CheckpointError",
    "CorpusError",
    "DeviceState",
    "ExportError",
    "Governor",
    "Memory",
    "MeterError",
    "MissingExtraError",
    "ModelFile",
    "ModelFileError",
    "OperatingPoint",
    "OperatingPointError",
    "Policy",
    "PrecisionError",
    "Predictor",
    "RecipeError",
    "RheostatError",
    "RheostatWarning",
    "Suggestion",
    "UserWords",
    "UserWordsError",
    "__version__",
    "add_counts",
    "bench",
    "criterion",
    "evaluate",
    "export",
    "learn_point",
    "load",
    "measure_ngram",
    "measure_typing",
    "open_model",
    "pack",
    "rank",
    "reconstruct",
    "recover",
    "replay_day",
    "resplit",
    "resume",
    "run_demo",
    "search_path",
    "serve_keyboard",
    "summarize",
    "sweep",
    "train",
    "write_page",
    "write_report",
    "write_untrained",
]

# The module that defines each name.
_WHERE = {
    "Battery": "rheostat.governor.device",
    "Cache": "rheostat.runtime.engine",
    "DeviceState": "rheostat.governor.device",
    "Governor": "rheostat.governor.governor",
    "Memory": "rheostat.words.memory",
    "ModelFile": "rheostat.model.file",
    "OperatingPoint": "rheostat.model.operating_point",
    "Policy": "rheostat.governor.policy",
    "Predictor": "rheostat.runtime.predictor",
    "Suggestion": "rheostat.words.writing",
    "UserWords": "rheostat.words.user_words",
    "add_counts": "rheostat.measure.counting",
    "bench": "rheostat.measure.bench",
    "criterion": "rheostat.pruning.criteria",
    "evaluate": "rheostat.measure.evaluation",
    "export": "rheostat.runtime.export",
    "learn_point": "rheostat.pruning.steps",
    "load": "rheostat.runtime.predictor",
    "measure_ngram": "rheostat.measure.ngram_baseline",
    "measure_typing": "rheostat.measure.typing",
    "open_model": "rheostat.model.file",
    "pack": "rheostat.measure.packing",
    "rank": "rheostat.pruning.steps",
    "reconstruct": "rheostat.pruning.reconstruction",
    "recover": "rheostat.pruning.steps",
    "replay_day": "rheostat.report.govern",
    "resplit": "rheostat.pruning.resplit",
    "resume": "rheostat.training.run",
    "run_demo": "rheostat.report.demo",
    "search_path": "rheostat.measure.path_search",
    "serve_keyboard": "rheostat.keyboard.server",
    "summarize": "rheostat.model.summary",
    "sweep": "rheostat.measure.sweep",
    "train": "rheostat.training.run",
    "write_page": "rheostat.keyboard.site",
    "write_report": "rheostat.report.writer",
    "write_untrained": "rheostat.training.run",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'rheostat' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
