"""The shape of a model: its sizes, its tensors and its parameters. FLOPs are counted by `flops`.

Knows sizes and the names of tensors; knows nothing of values, files or text. A cut model has a shape too: its
`hidden_sizes` are smaller, and its output layer has one column per kept filter of the last layer, while the input
embedding keeps all of its columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, get_args

from rheostat.errors import show
from rheostat.model.flops import cost_by_part, flops_by_part

Cell = Literal["qrnn", "lstm", "skip-lstm"]
CELLS: tuple[str, ...] = get_args(Cell)

# Limits of every model: those of the core (core/rheostat.h, core/model.c). More is a damaged file or a mistake.
MAXIMUM_SIZE = 2**27  # of a vocabulary
MAXIMUM_WIDTH = 2**17  # of the embedding and of a layer
MOST_LAYERS = 16
MOST_CLUSTERS = 64  # the head and the tails of an adaptive softmax
LARGEST_WINDOW = 16

EMBEDDING = "embedding.weight"
CLUSTERS = "clusters.weight"  # of the tails of an adaptive softmax
CLUSTERS_BIAS = "clusters.bias"
OUTPUT = "output.weight"  # of a model whose output layer is not the embedding itself
OUTPUT_BIAS = "output.bias"  # of every model

QRNN_GATES = 3  # z, f, o: the row blocks of a QRNN layer's matrix
LSTM_GATES = 4  # i, f, g, o: torch's order


@dataclass(frozen=True)
class ModelShape:
    """The sizes that determine every tensor of a model.

    hidden_sizes: filters (QRNN) or cells (LSTM) in each layer. windows: how many inputs each QRNN layer reads at once.
    softmax_splits: the first word id of each tail cluster of the adaptive softmax; empty for a plain softmax.
    separate_output: the output layer is as wide as the embedding but differs from it, because gates are folded into it.
    """

    vocabulary_size: int
    embedding_size: int
    hidden_sizes: tuple[int, ...]
    windows: tuple[int, ...]
    softmax_splits: tuple[int, ...] = ()
    cell: Cell = "qrnn"
    separate_output: bool = False

    def check(self) -> None:
        """Raise ValueError, saying what was found and what was expected, unless these sizes are valid."""
        if self.cell not in CELLS:
            raise ValueError(f"cell {self.cell!r:.40}; expected one of {', '.join(CELLS)}")
        layers = len(self.hidden_sizes)
        if not layers:
            raise ValueError("no hidden_sizes; expected one for each layer")
        if layers > MOST_LAYERS:
            raise ValueError(f"{layers} layers; expected at most {MOST_LAYERS}")
        if len(self.softmax_splits) >= MOST_CLUSTERS:
            raise ValueError(f"{len(self.softmax_splits) + 1} clusters of words; expected at most {MOST_CLUSTERS}")
        _check_sizes("vocabulary_size", (self.vocabulary_size,), MAXIMUM_SIZE)
        _check_sizes("embedding_size", (self.embedding_size,), MAXIMUM_WIDTH)
        _check_sizes("hidden_sizes", self.hidden_sizes, MAXIMUM_WIDTH)
        _check_sizes("windows", self.windows, LARGEST_WINDOW)
        if len(self.windows) != layers and (self.cell == "qrnn" or self.windows):
            raise ValueError(f"{len(self.windows)} windows for {layers} layers; expected one for each layer")
        if self.cell != "qrnn" and any(window != 1 for window in self.windows):
            raise ValueError(f"windows {self.windows!s:.80} of cell {self.cell}; expected 1 everywhere or none")
        if self.cell == "skip-lstm" and len(set(self.hidden_sizes)) > 1:
            found = f"{self.hidden_sizes!s:.80}"
            raise ValueError(f"hidden_sizes {found}; expected one width: a skip-lstm sums its layers' outputs")
        if self.softmax_splits:
            _check_sizes("softmax_splits", self.softmax_splits, MAXIMUM_SIZE)
            bounds = (*self.softmax_splits, self.vocabulary_size)
            if any(first >= following for first, following in pairwise(bounds)):
                found = f"{self.softmax_splits!s:.80}"
                raise ValueError(f"softmax_splits {found}; expected ascending ids below {bounds[-1]}")

    def input_size(self, layer: int) -> int:
        """Width of the input of `layer` at one step (a window reads several steps)."""
        return self.hidden_sizes[layer - 1] if layer else self.embedding_size

    @property
    def output_size(self) -> int:
        """Columns of the output layer."""
        return self.hidden_sizes[-1]

    @property
    def is_cut(self) -> bool:
        """Whether the output layer differs from the embedding: columns are missing, or gates are folded into them."""
        return self.separate_output or self.output_size != self.embedding_size

    @property
    def output_name(self) -> str:
        """The matrix of the output layer: a separate one if the model is cut, else the embedding."""
        return OUTPUT if self.is_cut else EMBEDDING

    @property
    def clusters(self) -> tuple[slice, ...]:
        """Word ids of the head and of each tail cluster; for a plain softmax, of all words."""
        bounds = (0, *self.softmax_splits, self.vocabulary_size)
        return tuple(slice(first, last) for first, last in pairwise(bounds))

    @property
    def filters(self) -> int:
        """The number of filters in all layers, which is how many scores a ranking has."""
        return sum(self.hidden_sizes)

    def as_json(self) -> dict[str, Any]:
        """The sizes by name, as in files and results, which state the cell separately."""
        return {
            "vocabulary_size": self.vocabulary_size,
            "embedding_size": self.embedding_size,
            "hidden_sizes": list(self.hidden_sizes),
            "windows": list(self.windows),
            "softmax_splits": list(self.softmax_splits),
        }

    def with_hidden_sizes(self, hidden_sizes: Sequence[int]) -> ModelShape:
        return replace(self, hidden_sizes=tuple(hidden_sizes))

    def cut_to(self, hidden_sizes: Sequence[int], *, gated: bool = False) -> ModelShape:
        """The shape of this model cut to `hidden_sizes`; gated: with gates folded into the output layer."""
        cut = self.with_hidden_sizes(hidden_sizes)
        return replace(cut, separate_output=True) if (self.is_cut or gated) and not cut.is_cut else cut

    def tensor_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every weight tensor, by its name in the model file and in torch."""
        tensors: dict[str, tuple[int, ...]] = {
            EMBEDDING: (self.vocabulary_size, self.embedding_size),
            OUTPUT_BIAS: (self.vocabulary_size,),
        }
        if self.is_cut:
            tensors[OUTPUT] = (self.vocabulary_size, self.output_size)
        if tails := len(self.softmax_splits):
            tensors[CLUSTERS] = (tails, self.output_size)
            tensors[CLUSTERS_BIAS] = (tails,)
        inputs = self.embedding_size
        for layer, hidden in enumerate(self.hidden_sizes):
            name = f"layers.{layer}"
            if self.cell == "qrnn":
                rows = QRNN_GATES * hidden
                tensors[f"{name}.weight"] = (rows, self.windows[layer] * inputs)
                tensors[f"{name}.bias"] = (rows,)
            else:
                rows = LSTM_GATES * hidden
                tensors[f"{name}.weight_ih"] = (rows, inputs)
                tensors[f"{name}.weight_hh"] = (rows, hidden)
                tensors[f"{name}.bias_ih"] = tensors[f"{name}.bias_hh"] = (rows,)
            inputs = hidden
        return tensors

    def matrix_shape(self, layer: int) -> tuple[int, int]:
        """Rows and columns of a QRNN layer's stacked matrix."""
        return QRNN_GATES * self.hidden_sizes[layer], self.windows[layer] * self.input_size(layer)

    @property
    def parameters(self) -> int:
        return sum(math.prod(size) for size in self.tensor_shapes().values())

    @cached_property
    def flops(self) -> int:
        """FLOPs of one query, counted by `model.flops`."""
        return sum(flops_by_part(self).values())

    def flops_fraction(self, hidden_sizes: Sequence[int]) -> float:
        """The cost as a share of this model's FLOPs when its layers are cut to `hidden_sizes`."""
        return self.with_hidden_sizes(hidden_sizes).flops / self.flops

    def cost_fraction(self, hidden_sizes: Sequence[int], bounds: Sequence[int] | None = None) -> float:
        """The cost, FLOPs weighted by bits, as a share of this model's in 8 bits; without bounds, `flops_fraction`."""
        return sum(cost_by_part(self.with_hidden_sizes(hidden_sizes), bounds).values()) / self.flops

    def update_shapes(self, rank: int = 1) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        """Shapes of (u, v) for each layer of an update on this shape, which must already be cut."""
        matrices = [self.matrix_shape(layer) for layer in range(len(self.hidden_sizes))]
        return [((rows, rank), (rank, columns)) for rows, columns in matrices]


def _check_sizes(name: str, sizes: Sequence[int], most: int) -> None:
    for size in sizes:
        if type(size) is not int or not 1 <= size <= most:
            raise ValueError(f"{name} of {show(size)}; expected whole numbers from 1 to {most:,}")
