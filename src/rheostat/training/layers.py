"""The layers: QRNN, and LSTM for the baselines of the paper's tables.

A QRNN layer is a masked convolution over time, then pooling (note the forget gate). The LSTM is torch's own kernel and
has its weights and its order of gates (i, f, g, o). The state is a value: state in, state out. A layer keeps nothing
between calls and knows nothing of words.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rheostat.model.shape import LSTM_GATES, QRNN_GATES
from rheostat.training.regularization import weight_drop
from rheostat.training.scan import Method, pool


class LowRank(NamedTuple):
    """A product u · v that is added to a layer's matrix without being multiplied out."""

    u: Tensor  # [3m, rank]
    v: Tensor  # [rank, r·D]


class LayerState(NamedTuple):
    """What the caller carries from one call of a layer to the next."""

    cell: Tensor  # [B, m]
    inputs: Tensor  # [r - 1, B, D]: the last inputs, oldest first; empty for a window of one


class QrnnLayer(nn.Module):
    """z, f, o as one product of W [3m, r·D] with X_t = x_{t-r+1} ⊕ … ⊕ x_t, oldest input first."""

    def __init__(self, input_size: int, hidden_size: int, window: int = 1, scan: Method = "auto") -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.window, self.scan = input_size, hidden_size, window, scan
        columns = window * input_size
        bound = columns**-0.5
        self.weight = nn.Parameter(torch.empty(QRNN_GATES * hidden_size, columns).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(QRNN_GATES * hidden_size).uniform_(-bound, bound))

    def initial_state(self, batch_size: int) -> LayerState:
        """The state before the text starts: zeros."""
        weight = self.weight
        return LayerState(
            weight.new_zeros(batch_size, self.hidden_size),
            weight.new_zeros(self.window - 1, batch_size, self.input_size),
        )

    def forward(
        self, inputs: Tensor, state: LayerState, drop: float = 0.0, update: LowRank | None = None
    ) -> tuple[Tensor, LayerState]:
        """Hidden outputs [T, B, m] for inputs [T, B, D], and the state after them."""
        windows, last_inputs = self._windows(inputs, state.inputs)
        gates = F.linear(windows, weight_drop(self.weight, drop), self.bias)  # [T, B, 3m]
        if update is not None:  # two thin products, so that a frozen W needs no full-size gradient
            gates = gates + F.linear(F.linear(windows, update.v), update.u)
        hidden, cell = pool(gates, state.cell, self.scan)
        return hidden, LayerState(cell, last_inputs)

    def _windows(self, inputs: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        """X [T, B, r·D], and the inputs that the next call needs."""
        if self.window == 1:
            return inputs, before
        steps = len(inputs)
        padded = torch.cat([before, inputs])  # [r - 1 + T, B, D]
        windows = torch.cat([padded[k : k + steps] for k in range(self.window)], dim=-1)
        return windows, padded[steps:]


class LstmState(NamedTuple):
    hidden: Tensor  # [B, m]
    cell: Tensor  # [B, m]


class LstmLayer(nn.Module):
    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        rows, bound = LSTM_GATES * hidden_size, hidden_size**-0.5

        def parameter(*size: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(*size).uniform_(-bound, bound))

        self.weight_ih, self.weight_hh = parameter(rows, input_size), parameter(rows, hidden_size)
        self.bias_ih, self.bias_hh = parameter(rows), parameter(rows)

    def initial_state(self, batch_size: int) -> LstmState:
        zeros = self.weight_hh.new_zeros(batch_size, self.hidden_size)
        return LstmState(zeros, zeros)

    def forward(self, inputs: Tensor, state: LstmState, drop: float = 0.0) -> tuple[Tensor, LstmState]:
        """Hidden outputs [T, B, m] for inputs [T, B, D], and the state after them; `drop` acts on hidden to hidden."""
        parameters = [self.weight_ih, weight_drop(self.weight_hh, drop), self.bias_ih, self.bias_hh]
        state_in = [state.hidden[None], state.cell[None]]  # one layer
        hidden, last_hidden, last_cell = torch.lstm(
            inputs, state_in, parameters, True, 1, 0.0, self.training, False, False
        )
        return hidden, LstmState(last_hidden[0], last_cell[0])
