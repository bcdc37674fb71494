"""The compiled core as ctypes sees it: its structures, the signature of every call, and the errors it reports.

Mirrors rheostat.h and pool.h. Knows where the library is and how C lays things out; `binding`, `pool` and `word_tree`
know what the calls are for.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Any

from rheostat.core.build import FOLDER, REMEDY, library_name
from rheostat.errors import ModelFileError, RheostatError

MAX_LAYERS = 16  # RHEO_MAX_LAYERS
MAX_CLUSTERS = 64  # RHEO_MAX_CLUSTERS
MAX_BEST = 1024  # RHEO_MAX_BEST
MAX_CACHE = 1024  # RHEO_MAX_CACHE
MAX_THREADS = 1024  # RHEO_MAX_THREADS
BAD_FILE = 1  # RHEO_BAD_FILE


class ErrorText(ctypes.Structure):
    """One line of text about what went wrong."""

    _fields_ = [("text", ctypes.c_char * 256)]


class ConfigStruct(ctypes.Structure):
    """rheo_config."""

    _fields_ = [
        ("vocabulary_size", ctypes.c_int32),
        ("embedding_size", ctypes.c_int32),
        ("layers", ctypes.c_int32),
        ("hidden_sizes", ctypes.c_int32 * MAX_LAYERS),
        ("windows", ctypes.c_int32 * MAX_LAYERS),
        ("clusters", ctypes.c_int32),
        ("cluster_start", ctypes.c_int32 * (MAX_CLUSTERS + 1)),
        ("positions", ctypes.c_int32),
        ("is_int8", ctypes.c_int32),
        ("bits", ctypes.c_int32),
        ("counts", ctypes.c_int32),
    ]


class PositionStruct(ctypes.Structure):
    """rheo_position."""

    _fields_ = [
        ("widths", ctypes.c_int32 * MAX_LAYERS),
        ("bounds", ctypes.c_int32 * (MAX_LAYERS + 1)),
        ("cost", ctypes.c_float),
        ("without_counts", ctypes.c_int32),
    ]


POSITION_BYTES = ctypes.sizeof(PositionStruct)


class ChoiceStruct(ctypes.Structure):
    """rheo_choice."""

    _fields_ = [
        ("mask", ctypes.c_void_p),
        ("prefix", ctypes.c_char_p),
        ("prefix_length", ctypes.c_size_t),
        ("candidates", ctypes.c_void_p),
        ("candidate_count", ctypes.c_size_t),
    ]


_POINTER, _SIZE, _INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int32
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "rheo_workspace_bytes": (_INT, [_POINTER, _SIZE, _POINTER, _POINTER]),
    "rheo_open": (_INT, [_POINTER, _POINTER, _SIZE, _POINTER, _SIZE, ctypes.c_char_p, _POINTER]),
    "rheo_config_of": (ctypes.POINTER(ConfigStruct), [_POINTER]),
    "rheo_kernel_of": (ctypes.c_char_p, [_POINTER]),
    "rheo_kernel_name": (ctypes.c_char_p, [_INT]),
    "rheo_use_workers": (None, [_POINTER, _POINTER]),
    "rheo_pool_bytes": (_SIZE, [_INT]),
    "rheo_pool_start": (_INT, [_POINTER, _INT, _POINTER, _SIZE, _POINTER]),
    "rheo_pool_workers": (_POINTER, [_POINTER]),
    "rheo_pool_stop": (None, [_POINTER]),
    "rheo_word": (_POINTER, [_POINTER, _INT, _POINTER]),
    "rheo_find_word": (_INT, [_POINTER, ctypes.c_char_p, _SIZE]),
    "rheo_unknown_id": (_INT, [_POINTER]),
    "rheo_end_id": (_INT, [_POINTER]),
    "rheo_position_at": (_INT, [_POINTER, _INT, _POINTER, _POINTER]),
    "rheo_position_near": (_INT, [_POINTER, ctypes.c_float, _POINTER, _POINTER]),
    "rheo_state_bytes": (_SIZE, [_POINTER]),
    "rheo_answer_bytes": (_SIZE, [_POINTER]),
    "rheo_scratch_bytes": (_SIZE, [_POINTER]),
    "rheo_evaluation_bytes": (_SIZE, [_POINTER]),
    "rheo_start": (None, [_POINTER, _POINTER]),
    "rheo_step": (_INT, [_POINTER, _POINTER, _POINTER, _INT, _POINTER, _POINTER]),
    "rheo_steps": (_INT, [_POINTER, _POINTER, _POINTER, _POINTER, _SIZE, _POINTER, _POINTER]),
    "rheo_evaluate": (_INT, [_POINTER, _POINTER, _POINTER, _POINTER, _SIZE, _POINTER, _POINTER, _POINTER, _POINTER]),
    "rheo_predict": (_INT, [_POINTER, _POINTER, _POINTER, _POINTER, _POINTER]),
    "rheo_cache_bytes": (_SIZE, [_POINTER, _INT]),
    "rheo_cache_start": (_INT, [_POINTER, _POINTER, _INT, _POINTER]),
    "rheo_cache_add": (_INT, [_POINTER, _POINTER, _POINTER, _POINTER, _INT, _POINTER]),
    "rheo_cache_mix": (
        _INT,
        [_POINTER, _POINTER, _POINTER, _POINTER, ctypes.c_float, ctypes.c_float, _POINTER, _POINTER],
    ),
    "rheo_best": (_INT, [_POINTER, _POINTER, _POINTER, _INT, _POINTER, _POINTER, _POINTER, _POINTER]),
    "rheo_query": (_INT, [_POINTER, _POINTER, _POINTER, _INT, *[_POINTER] * 3, _INT, *[_POINTER] * 5]),
    "rheo_log_probabilities": (_INT, [_POINTER, _POINTER, _POINTER, _POINTER]),
    "rheo_executed": (ctypes.c_int64, [_POINTER, _POINTER]),
    "rheo_typing_set_keys": (_INT, [_POINTER, _POINTER, _INT, _POINTER, _POINTER]),
    "rheo_typing_bytes": (_SIZE, [_INT, _SIZE]),
    "rheo_typing_open": (
        _INT,
        [_POINTER, ctypes.c_char_p, _SIZE, _POINTER, _INT, _INT, _POINTER, _SIZE, _POINTER],
    ),
    "rheo_typed_bytes": (_SIZE, [_POINTER]),
    "rheo_typed_open": (_INT, [_POINTER, _POINTER, _POINTER, _POINTER, _SIZE, _POINTER]),
    "rheo_typed_open_answer": (_INT, [_POINTER, _POINTER, _POINTER, _POINTER, _POINTER, _SIZE, _POINTER]),
    "rheo_typed_log_probability": (ctypes.c_float, [_POINTER, _INT]),
    "rheo_typed_best": (
        _INT,
        [_POINTER, _POINTER, _POINTER, _POINTER, _POINTER, _INT, _POINTER, _POINTER, _POINTER],
    ),
}


@cache
def load_library(path: Path | None = None) -> ctypes.CDLL:
    """The shared library of the package, or another build of it: `path`, or the one that $RHEOSTAT_CORE names."""
    path = path or Path(os.environ.get("RHEOSTAT_CORE") or FOLDER / library_name())
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise RheostatError(
            f"the compiled core {path.name} cannot be loaded ({error}); expected it beside rheostat.h: reinstall the "
            f"package, or {REMEDY} and run python -m rheostat.core.build"
        ) from error
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def kernels(library: ctypes.CDLL | None = None) -> list[str]:
    """The kernels that this processor can run, fastest first."""
    found: list[str] = []
    library = library or load_library()
    while name := library.rheo_kernel_name(len(found)):
        found.append(name.decode())
    return found


def check(status: int, error: ErrorText) -> None:
    """Raise what C reports."""
    if status:
        kind = ModelFileError if status == BAD_FILE else RheostatError
        raise kind(error.text.decode())
