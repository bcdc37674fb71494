"""A word-level language model in torch: embedding, recurrent layers, tied output layer.

Its parameters have the names and shapes in `ModelShape.tensor_shapes`, so a state dict and a model file hold the same
tensors. The state is a value: state in, state out. Knows nothing of files, text or training.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from rheostat.model.shape import ModelShape
from rheostat.training import adaptive_softmax
from rheostat.training.adaptive_softmax import OutputWeights, SoftTargets
from rheostat.training.cross_entropy import Distilled
from rheostat.training.layers import LowRank, LstmLayer, QrnnLayer
from rheostat.training.regularization import NO_REGULARIZATION, RegularizationConfig, embed, locked_dropout

State = tuple[tuple[Tensor, ...], ...]  # one LayerState or LstmState per layer


@dataclass(frozen=True)
class Adjustment:
    """What is trained on top of frozen weights, one entry per layer: factors for its outputs, updates to its matrix."""

    gates: Sequence[Tensor] | None = None  # [m] each
    updates: Sequence[LowRank] | None = None


UNADJUSTED = Adjustment()


class Outputs(NamedTuple):
    """The outputs of the layers for a stretch of text, before the output layer."""

    raw: Tensor  # [T, B, D]: the last layer's output
    dropped: Tensor  # the same after dropout: what the output layer reads
    state: State
    layers: tuple[Tensor, ...]  # every layer's output [T, B, m], before any dropout


class LanguageModel(nn.Module):
    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.shape = shape
        bound = 0.1  # Merity et al.
        weight = torch.empty(shape.vocabulary_size, shape.embedding_size).uniform_(-bound, bound)
        self.embedding = _Tensors(weight=weight)
        self.output = _Tensors(bias=torch.zeros(shape.vocabulary_size))
        if shape.is_cut:
            self.output.weight = nn.Parameter(torch.zeros(shape.vocabulary_size, shape.output_size))
        if tails := len(shape.softmax_splits):
            self.clusters = _Tensors(weight=torch.zeros(tails, shape.output_size), bias=torch.zeros(tails))
        self.layers = nn.ModuleList(_layer(shape, index) for index in range(len(shape.hidden_sizes)))
        assert {name: tuple(p.shape) for name, p in self.named_parameters()} == shape.tensor_shapes()

    @classmethod
    def from_weights(cls, shape: ModelShape, weights: Mapping[str, Any]) -> Self:
        """A model with a copy of these weights: arrays or tensors by name."""
        with torch.device("meta"):
            model = cls(shape)
        tensors = {
            name: value.detach().clone() if isinstance(value, Tensor) else torch.tensor(value)
            for name, value in weights.items()
        }
        model.load_state_dict(tensors, assign=True)
        return model

    @classmethod
    def over(cls, shape: ModelShape, tensors: Mapping[str, Tensor]) -> Self:
        """A model that computes with these tensors themselves, not with copies, so that gradients flow through them."""
        with torch.device("meta"):
            model = cls(shape)
        for name, tensor in tensors.items():
            owner, _, leaf = name.rpartition(".")
            module = model.get_submodule(owner)
            delattr(module, leaf)  # torch only lets a parameter be replaced by a parameter
            setattr(module, leaf, tensor)
        return model

    def initial_state(self, batch_size: int) -> State:
        """The state before the text starts."""
        return tuple(layer.initial_state(batch_size) for layer in self._layers())

    def forward(
        self,
        ids: Tensor,
        state: State,
        regularization: RegularizationConfig = NO_REGULARIZATION,
        adjustment: Adjustment = UNADJUSTED,
    ) -> Outputs:
        """The layers' outputs for ids [T, B]. Only `regularization` controls dropout, not the module's mode."""
        # If tied, the output layer already gives the embedding a dense gradient; these rows are added to it.
        tied = not self.shape.is_cut
        rows = embed(ids, self.embedding.weight, regularization.dropout_embedding, sparse=tied)
        return self.run_layers(rows, state, regularization, adjustment)

    def run_layers(
        self,
        rows: Tensor,
        state: State,
        regularization: RegularizationConfig = NO_REGULARIZATION,
        adjustment: Adjustment = UNADJUSTED,
    ) -> Outputs:
        """The layers' outputs for rows of the embedding [T, B, D]."""
        hidden = locked_dropout(rows, regularization.dropout_input)
        outputs, after = [], []
        for index, (layer, layer_state) in enumerate(zip(self.layers, state, strict=True)):
            if index:
                hidden = locked_dropout(hidden, regularization.dropout_hidden)
            extras = {"update": adjustment.updates[index]} if adjustment.updates else {}
            hidden, layer_state = layer(hidden, layer_state, regularization.weight_drop, **extras)
            if adjustment.gates:
                hidden = hidden * adjustment.gates[index]
            outputs.append(hidden)
            after.append(layer_state)
        if self.shape.cell == "skip-lstm":  # Melis et al. (2018): layers are stacked, and their outputs summed
            hidden = torch.stack(outputs).sum(0)
        dropped = locked_dropout(hidden, regularization.dropout_output)
        return Outputs(hidden, dropped, tuple(after), tuple(outputs))

    def _layers(self) -> Iterator[QrnnLayer | LstmLayer]:
        for layer in self.layers:
            assert isinstance(layer, QrnnLayer | LstmLayer)
            yield layer

    def output_weights(self) -> OutputWeights:
        weight = self.output.weight if self.shape.is_cut else self.embedding.weight
        if not self.shape.softmax_splits:
            return OutputWeights(weight, self.output.bias)
        return OutputWeights(
            weight, self.output.bias, self.shape.softmax_splits, self.clusters.weight, self.clusters.bias
        )

    def cross_entropy(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """Summed negative log-likelihood of targets [T, B], given the output layer's input [T, B, D]."""
        flat = hidden.reshape(-1, hidden.shape[-1])
        return adaptive_softmax.cross_entropy(flat, self.output_weights(), targets.reshape(-1))

    def distillation(self, hidden: Tensor, targets: Tensor, soft: SoftTargets) -> Distilled:
        """The same with another model's distribution as a second target; `soft.hidden` is [T, B, D'] too."""
        flat = hidden.reshape(-1, hidden.shape[-1])
        theirs = replace(soft, hidden=soft.hidden.reshape(-1, soft.hidden.shape[-1]))
        return adaptive_softmax.distillation(flat, self.output_weights(), targets.reshape(-1), theirs)

    def soft_targets(self, hidden: Tensor, share: float) -> SoftTargets:
        """This model as a teacher, given the input of its output layer; detached from the graph."""
        return SoftTargets(hidden.detach(), self.output_weights().detach(), share)

    def log_probabilities(self, hidden: Tensor) -> Tensor:
        """log p of every word [N, V], given the output layer's input [N, D]."""
        return adaptive_softmax.log_probabilities(hidden, self.output_weights())


class _Tensors(nn.Module):
    """Parameters under one name, without behaviour."""

    weight: nn.Parameter
    bias: nn.Parameter

    def __init__(self, **tensors: Tensor) -> None:
        super().__init__()
        for name, tensor in tensors.items():
            setattr(self, name, nn.Parameter(tensor))


def _layer(shape: ModelShape, index: int) -> nn.Module:
    inputs, hidden = shape.input_size(index), shape.hidden_sizes[index]
    if shape.cell == "qrnn":
        return QrnnLayer(inputs, hidden, shape.windows[index])
    return LstmLayer(inputs, hidden)


def detach(state: State) -> State:
    """The same state, detached from the graph: truncated back-propagation stops here."""
    return tuple(type(layer)(*(tensor.detach() for tensor in layer)) for layer in state)
