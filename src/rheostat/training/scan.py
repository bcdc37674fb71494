"""The pooling recurrence of a QRNN layer, with its gradient written by hand.

    z = tanh(·)   f = σ(·)   o = σ(·)        the three row blocks of a layer's product, `gates`
    c_t = f_t ⊙ c_{t-1} + (1 - f_t) ⊙ z_t    h_t = o_t ⊙ c_t

In the backward pass, with g_t = ∂L/∂h_t and the total gradient s_t = ∂L/∂c_t:

    s_t = o_t ⊙ g_t + f_{t+1} ⊙ s_{t+1}
    ∂z = (1 - f) ⊙ s    ∂f = (c_{t-1} - z) ⊙ s    ∂o = c ⊙ g    ∂c_0 = f_1 ⊙ s_1

Both directions are one first-order linear recurrence over time, computed either by a compiled loop (numba, on the
processor) or in ⌈log₂ T⌉ whole-array steps (on any device). Both are tested against the textbook loop, differentiated
by torch. Knows nothing of layers, windows or weights.

Shapes: T steps, B texts, m filters; gates [T, B, 3m], cell [B, m], hidden [T, B, m].
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from rheostat.model.shape import QRNN_GATES

Method = Literal["auto", "compiled", "logarithmic", "textbook"]


def pool(gates: Tensor, cell: Tensor, method: Method = "auto") -> tuple[Tensor, Tensor]:
    """Hidden outputs [T, B, m] and the last cell [B, m], from pre-activation gates [T, B, 3m] and the cell before."""
    if gates.shape[0] == 0 or gates.shape[-1] != QRNN_GATES * cell.shape[-1]:
        raise ValueError(f"gates {tuple(gates.shape)} do not fit a cell {tuple(cell.shape)}")
    if method == "auto":
        method = "compiled" if gates.device.type == "cpu" else "logarithmic"
    if method == "textbook":
        return textbook_pool(gates, cell)
    hidden, last_cell = _Pool.apply(gates, cell, method)  # type: ignore[no-untyped-call]
    return hidden, last_cell


def textbook_pool(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """The recurrence as written in papers, one step at a time."""
    hidden = []
    for step in gates:
        z, f, o = step.chunk(QRNN_GATES, dim=-1)
        z, f, o = z.tanh(), f.sigmoid(), o.sigmoid()
        cell = f * cell + (1 - f) * z
        hidden.append(o * cell)
    return torch.stack(hidden), cell


class _Pool(torch.autograd.Function):
    """Saves only what the backward pass needs: the activated gates and all cells."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, cell: Tensor, method: Method) -> tuple[Tensor, Tensor]:
        steps, batch, _ = gates.shape
        filters = cell.shape[-1]
        # Only the product uses reduced precision: a recurrence over 70 steps needs full precision.
        wide = torch.float32 if gates.dtype in (torch.bfloat16, torch.float16) else gates.dtype
        activated = torch.empty(gates.shape, dtype=wide, device=gates.device)
        _activate(gates, activated, filters)
        # cells[t] is the cell *before* step t: a step reads row t and writes row t + 1.
        cells = torch.empty(steps + 1, batch, filters, dtype=wide, device=gates.device)
        cells[0] = cell
        if method == "compiled":
            hidden = torch.empty(steps, batch, filters, dtype=wide)
            from rheostat.training import compiled

            compiled.forward(activated, cells, hidden)
        else:
            z, f, o = activated.split(filters, dim=-1)
            cells[1:] = linear_recurrence(f, (1 - f) * z, cells[0])
            hidden = o * cells[1:]
        ctx.save_for_backward(activated, cells)
        ctx.method, ctx.gates_dtype, ctx.cell_dtype = method, gates.dtype, cell.dtype
        ctx.set_materialize_grads(False)
        return hidden, cells[-1].to(cell.dtype, copy=True)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, Tensor | None, None]:
        activated, cells = ctx.saved_tensors
        hidden_gradient, last_cell_gradient = gradients
        g = torch.zeros_like(cells[1:]) if hidden_gradient is None else hidden_gradient.to(cells.dtype).contiguous()
        last = torch.zeros_like(cells[0]) if last_cell_gradient is None else last_cell_gradient.to(cells.dtype)
        gates_gradient = torch.empty_like(activated)
        if ctx.method == "compiled":
            from rheostat.training import compiled

            # Changed in place: ∂L/∂c_T before, ∂L/∂c_0 after.
            cell_gradient = last.clone(memory_format=torch.contiguous_format)
            compiled.backward(activated, cells, g, cell_gradient, gates_gradient)
        else:
            cell_gradient = _logarithmic_backward(activated, cells, g, last, gates_gradient)
        return gates_gradient.to(ctx.gates_dtype), cell_gradient.to(ctx.cell_dtype), None


def _activate(gates: Tensor, activated: Tensor, filters: int) -> None:
    if gates.dtype != activated.dtype:
        activated.copy_(gates)
        gates = activated
    torch.tanh(gates[..., :filters], out=activated[..., :filters])
    torch.sigmoid(gates[..., filters:], out=activated[..., filters:])


def _logarithmic_backward(activated: Tensor, cells: Tensor, g: Tensor, last: Tensor, gates_gradient: Tensor) -> Tensor:
    z, f, o = activated.split(cells.shape[-1], dim=-1)
    # s_t = o_t g_t + f_{t+1} s_{t+1}: the same recurrence with time reversed and f shifted by one step.
    f_next = torch.cat([f[1:], torch.ones_like(f[:1])])
    s = linear_recurrence(f_next.flip(0), (o * g).flip(0), last).flip(0)
    dz, df, do = gates_gradient.split(cells.shape[-1], dim=-1)
    dz.copy_((1 - f) * s * (1 - z * z))
    df.copy_((cells[:-1] - z) * s * f * (1 - f))
    do.copy_(cells[1:] * g * o * (1 - o))
    first: Tensor = f[0] * s[0]
    return first


def linear_recurrence(factor: Tensor, term: Tensor, initial: Tensor) -> Tensor:
    """y_t = factor_t ⊙ y_{t-1} + term_t from y_0 = initial, for all t, in ⌈log₂ T⌉ whole-array steps.

    After the step with stride d, row t holds the composition of the last 2d maps y → factor · y + term. Products of
    factors in [0, 1] only: nothing is divided, so nothing overflows.
    """
    term = term.clone()
    term[0] += factor[0] * initial
    factor = factor.clone()
    stride = 1
    while stride < len(term):
        term[stride:] += factor[stride:] * term[:-stride].clone()
        factor[stride:] *= factor[:-stride].clone()
        stride *= 2
    return term
