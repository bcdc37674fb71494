"""The best linear guess of the filters that a point drops, from those that it keeps (docs/file-format.md).

    ĥ_d = μ_d + A (h_k - μ_k)      A = C_dk C_kk⁻¹

h is what a layer gives; μ and C are its mean and covariance over a calibration text, C with a ridge on its diagonal.
With C = L Lᵀ and the filters in the order of a ranking, A = L_dk L_kk⁻¹ for every prefix k of that order, and what
cannot be guessed has the covariance L_dd L_ddᵀ. So one triangle per layer serves every position of the knob, and any
other set of filters too, at the price of multiplying it out. Knows numbers; `cut` folds the guess into the matrix that
reads h, `pruning.reconstruction` makes the triangles.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rheostat.errors import RheostatError
from rheostat.model.origin import UNKNOWN_ORIGIN, Origin, digest_of

Floats: TypeAlias = NDArray[np.float32]
Doubles: TypeAlias = NDArray[np.float64]
Halves: TypeAlias = NDArray[np.float16]
Positions: TypeAlias = NDArray[np.int64]

RIDGE = 1e-3  # added to the diagonal of C, relative to the mean of that diagonal
SMALLEST_RIDGE = 1e-12  # for a layer that never moves
BY_ERROR = "-by-error"  # ends the name and the criterion of a ranking whose widths follow from the error of the guess


class Guess(NamedTuple):
    """h_d ≈ weights · h_k + offset."""

    weights: Doubles  # [D, K]
    offset: Doubles  # [D]


@dataclass(frozen=True, eq=False)
class LayerMoments:
    """Mean and covariance of what a layer gives, its filters in the order of a ranking, best first.

    Row i of the triangle L is `spread[i]` times row i of `factor`, which has length one. Scaled like that, float16
    loses no more of a quiet filter than of a loud one.
    """

    mean: Floats  # [m]
    spread: Floats  # [m]: length of each row of L, which is the filter's standard deviation
    factor: Halves  # [m (m + 1) / 2]: rows of the lower triangle, one after another

    @property
    def filters(self) -> int:
        return len(self.mean)

    @property
    def size_bytes(self) -> int:
        return self.mean.nbytes + self.spread.nbytes + self.factor.nbytes

    def triangle(self) -> Doubles:
        """L [m, m]."""
        lower = np.zeros((self.filters, self.filters))
        lower[np.tril_indices(self.filters)] = self.factor
        lower *= self.spread.astype(np.float64)[:, None]
        return lower

    def guess(self, kept: Positions, dropped: Positions) -> Guess:
        """The best linear guess of the filters at `dropped` from those at `kept`: places in the order of L."""
        lower = self.triangle()
        count = len(kept)
        if len(kept) + len(dropped) == self.filters and (np.sort(kept) == np.arange(count)).all():
            solved = np.linalg.solve(lower[:count, :count].T, lower[dropped, :count].T).T  # in the order of L
            weights = solved[:, kept]
        else:
            rows = lower[kept]
            weights = np.linalg.solve(rows @ rows.T, rows @ lower[dropped].T).T
        mean = self.mean.astype(np.float64)
        return Guess(np.asarray(weights, np.float64), mean[dropped] - weights @ mean[kept])

    def remainder(self, kept: Positions, dropped: Positions) -> Doubles:
        """[D, D]: what the filters at `dropped` still say once their guess is used, as their own best linear share.

        It is R (C_dd + μ_d μ_dᵀ)⁻¹, with R the covariance of what cannot be guessed; zero if everything can.
        """
        lower, guess = self.triangle(), self.guess(kept, dropped)
        own = lower[dropped] @ lower[dropped].T
        left = own - guess.weights @ (lower[kept] @ lower[dropped].T)
        mean = self.mean.astype(np.float64)[dropped]
        return np.asarray(np.linalg.solve(own + np.outer(mean, mean), left.T).T)


def moments_of(mean: NDArray[Any], covariance: NDArray[Any], ridge: float = RIDGE) -> LayerMoments:
    """The moments to store. covariance [m, m]: in the order of the ranking; the ridge is added here."""
    matrix = np.asarray(covariance, np.float64).copy()
    if not (np.isfinite(matrix).all() and np.isfinite(mean).all()):
        raise RheostatError("the model gives values that are not finite on this text; expected finite ones: check it")
    matrix[np.diag_indices(len(matrix))] += max(ridge * matrix.trace() / len(matrix), SMALLEST_RIDGE)
    lower = np.linalg.cholesky(matrix)
    spread = np.sqrt((lower**2).sum(axis=1))
    factor = (lower / spread[:, None])[np.tril_indices(len(lower))]
    return LayerMoments(np.asarray(mean, np.float32), spread.astype(np.float32), factor.astype(np.float16))


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """The moments of every layer. order: for each layer, its filters in the order of `ranking`, best first."""

    ranking: str
    layers: tuple[LayerMoments, ...]
    order: tuple[Positions, ...]
    origin: Origin = UNKNOWN_ORIGIN

    @property
    def size_bytes(self) -> int:
        return sum(layer.size_bytes for layer in self.layers)

    @cached_property
    def digest(self) -> str:
        return digest_of([array for one in self.layers for array in (one.mean, one.spread, one.factor)])

    def guess(self, layer: int, keep: NDArray[Any]) -> tuple[Positions, Guess]:
        """The filters of a layer that are not kept, ascending, and their guess from the kept ones."""
        dropped = np.setdiff1d(np.arange(self.layers[layer].filters), keep)
        place = np.argsort(self.order[layer])  # of each filter in the order of the ranking
        return dropped, self.layers[layer].guess(place[keep], place[dropped])

    def remainder(self, layer: int, keep: NDArray[Any]) -> Doubles:
        """`LayerMoments.remainder` for the filters of a layer that are not kept, ascending."""
        dropped = np.setdiff1d(np.arange(self.layers[layer].filters), keep)
        place = np.argsort(self.order[layer])
        return self.layers[layer].remainder(place[keep], place[dropped])


def packed_size(filters: int) -> int:
    """The number of values in the stored triangle of a layer."""
    return filters * (filters + 1) // 2
