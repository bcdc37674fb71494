"""Hard-concrete gates against the formulas of Louizos et al. (2018), section 2.2 and equations 10 to 13.

s = σ((log u - log(1 - u) + log α) / β)    s̄ = s (ζ - γ) + γ    gate = min(1, max(0, s̄))
P(s̄ ≤ q) = σ(β log(p / (1 - p)) - log α)  with p = (q - γ) / (ζ - γ)
"""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from rheostat.pruning import l0  # noqa: E402

GAMMA, ZETA, BETA = -0.1, 1.1, 2 / 3  # the paper's
LOG_ALPHAS = [-4.0, -1.5, -0.2, 0.0, 0.7, 2.5, 6.0]
GRID = (np.arange(200_000) + 0.5) / 200_000  # evenly spaced instead of random


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def distribution(q: float, log_alpha: float) -> float:
    """P(s̄ ≤ q): of the gate too, for q in [0, 1)."""
    p = (q - GAMMA) / (ZETA - GAMMA)
    return sigmoid(BETA * math.log(p / (1 - p)) - log_alpha)


def gates_on_the_grid(log_alpha: float) -> np.ndarray:
    uniform = torch.from_numpy(GRID)
    return np.asarray(l0.sample_gates(torch.tensor(log_alpha, dtype=torch.float64), uniform).numpy())


@pytest.mark.parametrize("log_alpha", LOG_ALPHAS)
def test_given_uniform_numbers_give_the_gates_of_the_formula(log_alpha: float) -> None:
    uniform = [0.001, 0.05, 0.2, 0.5, 0.77, 0.9, 0.999]
    expected = []
    for u in uniform:
        s = sigmoid((math.log(u) - math.log(1 - u) + log_alpha) / BETA)
        expected.append(min(1.0, max(0.0, s * (ZETA - GAMMA) + GAMMA)))
    numbers = torch.tensor(uniform, dtype=torch.float64)
    found = l0.sample_gates(torch.full_like(numbers, log_alpha), numbers)
    assert found.tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("log_alpha", LOG_ALPHAS)
def test_a_gate_is_closed_and_open_as_often_as_the_closed_forms_say(log_alpha: float) -> None:
    gates = gates_on_the_grid(log_alpha)
    shut, open_wide = distribution(0, log_alpha), 1 - distribution(1, log_alpha)
    assert (gates == 0).mean() == pytest.approx(shut, abs=2 / len(GRID))
    assert (gates == 1).mean() == pytest.approx(open_wide, abs=2 / len(GRID))
    open_at_all = l0.probability_open(torch.tensor(log_alpha, dtype=torch.float64))
    assert float(open_at_all) == pytest.approx(1 - shut, abs=1e-12)


@pytest.mark.parametrize("log_alpha", LOG_ALPHAS)
def test_between_the_ends_gates_are_distributed_as_the_stretched_concrete(log_alpha: float) -> None:
    gates = gates_on_the_grid(log_alpha)
    for q in np.linspace(0.02, 0.98, 25):
        assert (gates <= q).mean() == pytest.approx(distribution(float(q), log_alpha), abs=2 / len(GRID))


@pytest.mark.parametrize("log_alpha", LOG_ALPHAS)
def test_the_mean_gate_is_that_of_quadrature(log_alpha: float) -> None:
    nodes, weights = np.polynomial.legendre.leggauss(60)
    open_beyond = [1 - distribution((node + 1) / 2, log_alpha) for node in nodes]  # E[gate] = ∫₀¹ P(gate > q) dq
    expected = float(weights @ np.array(open_beyond)) / 2
    assert gates_on_the_grid(log_alpha).mean() == pytest.approx(expected, abs=1e-5)


def test_the_gate_at_test_time_is_that_of_the_formula() -> None:
    expected = [min(1.0, max(0.0, sigmoid(a) * (ZETA - GAMMA) + GAMMA)) for a in LOG_ALPHAS]
    assert l0.test_time_gates(torch.tensor(LOG_ALPHAS, dtype=torch.float64)).tolist() == pytest.approx(expected)
    assert 0.0 in expected and 1.0 in expected


def test_the_gradient_of_the_open_probability_is_that_of_its_sigmoid() -> None:
    log_alpha = torch.tensor(LOG_ALPHAS, dtype=torch.float64, requires_grad=True)
    l0.probability_open(log_alpha).sum().backward()
    shut = [distribution(0, a) for a in LOG_ALPHAS]
    assert log_alpha.grad is not None
    assert log_alpha.grad.tolist() == pytest.approx([p * (1 - p) for p in shut], abs=1e-12)
