"""Loops compiled for processors (numba): pooling over time, and weight drop.

Pooling: each thread handles a strip of one text's filters for all time steps. A strip is short enough for its cells to
stay in the nearest cache, and long enough for full vector instructions. The formulas are those of `scan.py`.

Weight drop: a hash of i and a seed decides whether entry i is dropped. The mask is never stored: the backward pass
computes it again. (Drawing 20 million Bernoulli variables from torch's generator takes longer than pooling all four
layers.)
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from torch import Tensor

STRIP = 256  # filters
ONE = np.float32(1)  # a Python 1 would turn float32 arithmetic into float64; exact in float64 too

_compile = numba.njit(parallel=True, fastmath={"contract", "nsz"}, cache=True, boundscheck=False)


def forward(activated: Tensor, cells: Tensor, hidden: Tensor) -> None:
    """Fill cells[1:] and hidden; cells[0] is given."""
    _forward(activated.numpy(), cells.numpy(), hidden.numpy())


def backward(activated: Tensor, cells: Tensor, g: Tensor, cell_gradient: Tensor, gates_gradient: Tensor) -> None:
    """Fill gates_gradient; cell_gradient is ∂L/∂c_T before and ∂L/∂c_0 after."""
    _backward(activated.numpy(), cells.numpy(), g.detach().numpy(), cell_gradient.numpy(), gates_gradient.numpy())


@_compile
def _forward(gates: Any, cells: Any, hidden: Any) -> None:
    steps, batch, filters = hidden.shape
    strips = (filters + STRIP - 1) // STRIP
    for job in numba.prange(batch * strips):
        b, strip = job // strips, job % strips
        first, last = strip * STRIP, min(filters, (strip + 1) * STRIP)
        for t in range(steps):
            z, f, o = gates[t, b, :filters], gates[t, b, filters : 2 * filters], gates[t, b, 2 * filters :]
            before, after, h = cells[t, b], cells[t + 1, b], hidden[t, b]
            for i in range(first, last):
                c = f[i] * before[i] + (ONE - f[i]) * z[i]
                after[i] = c
                h[i] = o[i] * c


@_compile
def _backward(gates: Any, cells: Any, hidden_gradient: Any, cell_gradient: Any, gates_gradient: Any) -> None:
    steps, batch, filters = hidden_gradient.shape
    strips = (filters + STRIP - 1) // STRIP
    for job in numba.prange(batch * strips):
        b, strip = job // strips, job % strips
        first, last = strip * STRIP, min(filters, (strip + 1) * STRIP)
        s_next = cell_gradient[b]  # f_{t+1} ⊙ s_{t+1}
        for t in range(steps - 1, -1, -1):
            z, f, o = gates[t, b, :filters], gates[t, b, filters : 2 * filters], gates[t, b, 2 * filters :]
            dz, df = gates_gradient[t, b, :filters], gates_gradient[t, b, filters : 2 * filters]
            do = gates_gradient[t, b, 2 * filters :]
            before, after, g = cells[t, b], cells[t + 1, b], hidden_gradient[t, b]
            for i in range(first, last):
                s = o[i] * g[i] + s_next[i]
                dz[i] = (ONE - f[i]) * s * (ONE - z[i] * z[i])
                df[i] = (before[i] - z[i]) * s * f[i] * (ONE - f[i])
                do[i] = after[i] * g[i] * o[i] * (ONE - o[i])
                s_next[i] = f[i] * s


def drop(values: Tensor, dropped: Tensor, probability: float, seed: int) -> None:
    """dropped = values / (1 - probability), or 0 where the hash of (seed, position) says so."""
    threshold = np.uint32(min(round(probability * 2**32), 2**32 - 1))
    scale = values.detach().numpy().dtype.type(1 / (1 - probability))
    _drop(values.detach().numpy().reshape(-1), dropped.numpy().reshape(-1), threshold, scale, np.uint32(seed))


@_compile
def _drop(values: Any, dropped: Any, threshold: Any, scale: Any, seed: Any) -> None:
    for i in numba.prange(values.size):
        # A 32-bit finaliser (two multiplications, three shifts): every input bit flips about half of the output bits.
        x = np.uint32(np.uint32(i) * np.uint32(0x9E3779B9)) ^ seed
        x = np.uint32((x ^ (x >> np.uint32(16))) * np.uint32(0x21F0AAAD))
        x = np.uint32((x ^ (x >> np.uint32(15))) * np.uint32(0x735A2D97))
        x ^= x >> np.uint32(15)
        dropped[i] = values[i] * scale if x >= threshold else values[i] * 0
