"""Ordered files: the bytes that the core opens.

In an ordered file the filters of every layer stand in the order of a ranking, best first, so that a position of the
knob is one width per layer. This module makes such bytes from the weights of any model, in memory. Knows tensors and
the few keys of the description that the core reads; how it runs them is described in core/rheostat.h.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rheostat.model.container import LENGTH_BYTES, arrange, header_bytes
from rheostat.model.operating_point import OperatingPoint
from rheostat.model.precision import dequantize, quantize, widen
from rheostat.model.shape import ModelShape
from rheostat.text.vocabulary import Vocabulary

ORDERED_VERSION = 2  # of the file format: the first one that has ordered files
Arrays = Mapping[str, NDArray[Any]]


def ordered_bytes(
    weights: Arrays,
    shape: ModelShape,
    vocabulary: Vocabulary,
    precision: Literal["fp32", "int8"] = "int8",
    *,
    order: str = "as stored",
    path: Sequence[OperatingPoint] = (),
) -> NDArray[np.uint8]:
    """The bytes of an ordered model file.

    weights: those of `shape` by name, of any stored precision (`{name}.scale` beside int8); `cut.reorder` puts their
    filters in order. order: the name of the ranking. path: points of that ranking, the largest first.
    """
    tensors = as_precision(weights, precision)
    tensors["vocabulary"] = np.frombuffer(vocabulary.to_bytes(), np.uint8)
    if path:
        tensors["path.cost"] = np.array([point.flops_fraction for point in path], np.float32)
        tensors["path.widths"] = np.array([point.widths for point in path], np.int32)
    description = {
        "format_version": ORDERED_VERSION,
        "cell": shape.cell,
        "ordered": order,
        "shape": {"softmax_splits": list(shape.softmax_splits)},
    }
    arrays = arrange(tensors)
    header = header_bytes({"rheostat": json.dumps(description)}, arrays)
    parts = (len(header).to_bytes(LENGTH_BYTES, "little"), header, *(array.tobytes() for array in arrays.values()))
    return np.concatenate([np.frombuffer(part, np.uint8) for part in parts])


def as_precision(weights: Arrays, precision: str) -> dict[str, NDArray[Any]]:
    """Weights of any stored precision as float32, or as int8 with row scales; what fits already is not copied."""
    prepared: dict[str, NDArray[Any]] = {}
    for name, array in weights.items():
        scale = weights.get(f"{name}.scale")
        if name.endswith(".scale"):
            continue
        if array.ndim == 2 and precision == "int8":
            prepared[name], prepared[f"{name}.scale"] = (array, scale) if scale is not None else quantize(widen(array))
        else:
            prepared[name] = widen(array) if scale is None else dequantize(array, scale)
    return prepared
