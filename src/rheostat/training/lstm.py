"""One LSTM layer, the baseline of the paper's tables: torch's own kernel with the state as a value.

Weights have torch's layout and gate order (i, f, g, o).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from rheostat.model.shape import LSTM_GATES
from rheostat.training.regularization import weight_drop


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
