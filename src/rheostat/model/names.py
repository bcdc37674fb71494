"""Names in a model file: valid names for rankings and points, and the tensor names derived from them.

The only place that spells these tensor names. Knows names; `ModelShape.tensor_shapes` names the weights.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rheostat.errors import show
from rheostat.model.container import problem

VOCABULARY = "vocabulary"
CASING = "casing"
PATH_COST = "path.cost"  # of an ordered file: the share of the cost of each position
PATH_WIDTHS = "path.widths"  # and how many filters of each layer it uses
PATH_BOUNDS = "path.bounds"  # and how many of them, and of the words, in 8 bits
HIDDEN = "hidden"  # words that are never suggested
KNOWN = "known"  # correct words that are not in the vocabulary
COUNTS_COST = "counts.cost"  # the costs of the table of weights of counts
COUNTS_WEIGHT = "counts.weight"  # and the weight of each order there

NAME_RULE = "up to 80 letters, digits and signs like . - + and _, the first a letter or digit"

_NAME = re.compile(r"[A-Za-z0-9][\w.+@%=,:~-]{0,79}", re.ASCII)


def check_name(name: object, where: str = "a ranking or point") -> str:
    """The name, if it is valid for a ranking or a point; else ModelFileError. Call this before any work.

    Names become parts of tensor and folder names, so a path is not a valid name. where: what the message calls the
    source of the name, for instance "rankings".
    """
    if type(name) is not str or not _NAME.fullmatch(name):
        raise problem(f"the name {show(name)} in {where}", NAME_RULE, "choose another name")
    return name


def scores_name(ranking: str, layer: int) -> str:
    """The tensor that holds a ranking's scores for a layer."""
    return f"rankings.{ranking}.{layer}"


class PointTensors(NamedTuple):
    """Names of a point's tensors for one layer; gate, u, v and bias are optional."""

    keep: str
    gate: str
    u: str
    v: str
    bias: str


def point_tensors(point: str, layer: int) -> PointTensors:
    prefix = f"points.{point}"
    update = f"{prefix}.update.{layer}"
    gate, bias = f"{prefix}.gate.{layer}", f"{prefix}.bias.{layer}"
    return PointTensors(f"{prefix}.keep.{layer}", gate, f"{update}.u", f"{update}.v", bias)


class MomentTensors(NamedTuple):
    """Names of the tensors that a reconstruction has for one layer."""

    mean: str
    spread: str
    factor: str


def moment_tensors(layer: int) -> MomentTensors:
    prefix = f"reconstruction.{layer}"
    return MomentTensors(f"{prefix}.mean", f"{prefix}.spread", f"{prefix}.factor")


def counts_rows(order: int) -> str:
    """The tensor that holds the n-grams of one length."""
    return f"counts.{order}"


def counts_levels(order: int) -> str:
    """The tensor that holds their levels."""
    return f"counts.{order}.level"


def scale_name(matrix: str) -> str:
    """The tensor that holds the row scales of a matrix stored as int8."""
    return f"{matrix}.scale"


def upper_name(matrix: str) -> str:
    """The tensor that holds the upper plane of an int8 matrix of an ordered file."""
    return f"{matrix}.upper"


def lower_name(matrix: str) -> str:
    """The tensor that holds its lower plane; a file of 4 bits has none."""
    return f"{matrix}.lower"


def plane_of(tensor: str) -> str:
    """The plane that a tensor is, "upper" or "lower"; empty for any other tensor."""
    last = tensor.rpartition(".")[2]
    return last if last in ("upper", "lower") else ""


def is_scale_name(tensor: str) -> bool:
    return tensor.endswith(".scale")


def part_of(tensor: str) -> str:
    """The part of the file that a tensor belongs to: "layers.2" for "layers.2.weight.scale"."""
    words = tensor.split(".")
    return ".".join(words[:2]) if words[0] == "layers" else words[0]
