"""Names in a model file: which ones rankings and points may have, and the tensors that follow from them.

The only place that spells these tensor names. Knows text; `ModelShape.tensor_shapes` names the weights.
"""

from __future__ import annotations

import re
from typing import NamedTuple, TypeGuard

from rheostat.errors import OperatingPointError

NAME_RULE = "up to 80 letters, digits and signs like . - + and _, the first a letter or digit"

_NAME = re.compile(r"[A-Za-z0-9][\w.+@%=,:~-]{0,79}", re.ASCII)


def is_name(name: object) -> TypeGuard[str]:
    """Whether a ranking or a point may have this name: it becomes part of tensor names and of folder names."""
    return type(name) is str and _NAME.fullmatch(name) is not None


def check_name(name: object) -> None:
    """Raise OperatingPointError unless a ranking or a point may have this name. To be called before any work."""
    if not is_name(name):
        raise OperatingPointError(
            f"found the name {name!r:.100} for a ranking or point; expected {NAME_RULE}: choose such a name"
        )


def scores_name(ranking: str, layer: int) -> str:
    """The tensor that holds a ranking's scores of a layer."""
    return f"rankings.{ranking}.{layer}"


class PointTensors(NamedTuple):
    """Names of the tensors of one layer of a point; gate, u and v are optional."""

    keep: str
    gate: str
    u: str
    v: str


def point_tensors(point: str, layer: int) -> PointTensors:
    prefix = f"points.{point}"
    update = f"{prefix}.update.{layer}"
    return PointTensors(f"{prefix}.keep.{layer}", f"{prefix}.gate.{layer}", f"{update}.u", f"{update}.v")


def scale_name(matrix: str) -> str:
    """The tensor that holds the row scales of a matrix stored as int8."""
    return f"{matrix}.scale"


def is_scale_name(tensor: str) -> bool:
    return tensor.endswith(".scale")


def part_of(tensor: str) -> str:
    """The part of the file that a tensor belongs to: "layers.2" for "layers.2.weight.scale"."""
    words = tensor.split(".")
    return ".".join(words[:2]) if words[0] == "layers" else words[0]
