"""Both methods of the pooling recurrence against the textbook loop, forward and backward."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from rheostat.training.scan import Method, linear_recurrence, pool, textbook_pool  # noqa: E402

METHODS: tuple[Method, ...] = ("compiled", "logarithmic")


def random_inputs(steps: int, batch: int, filters: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(steps * 1000 + filters)
    gates = torch.randn(steps, batch, 3 * filters, generator=generator, dtype=dtype).requires_grad_()
    cell = torch.randn(batch, filters, generator=generator, dtype=dtype).requires_grad_()
    return gates, cell


def results(function, gates: torch.Tensor, cell: torch.Tensor) -> list[torch.Tensor]:
    hidden, last = function(gates, cell)
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(hidden.shape, generator=generator, dtype=hidden.dtype)
    gradients = torch.autograd.grad((hidden * weights).sum() + (2 * last).sum(), (gates, cell))
    return [hidden.detach(), last.detach(), *gradients]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("steps", "batch", "filters"), [(1, 1, 1), (2, 3, 5), (7, 2, 300), (70, 4, 17), (129, 1, 600)])
def test_pooling_equals_the_textbook_loop(method: Method, steps: int, batch: int, filters: int) -> None:
    gates, cell = random_inputs(steps, batch, filters, torch.float32)
    expected = results(textbook_pool, gates, cell)
    for ours, theirs in zip(results(lambda g, c: pool(g, c, method), gates, cell), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("method", METHODS)
def test_gradient_is_exact_in_float64(method: Method) -> None:
    gates, cell = random_inputs(9, 2, 4, torch.float64)
    assert torch.autograd.gradcheck(lambda g, c: pool(g, c, method), (gates, cell))


@pytest.mark.parametrize("method", METHODS)
def test_saturated_gates_stay_finite(method: Method) -> None:
    gates = torch.full((50, 2, 9), 200.0)
    gates[::2] = -200.0
    cell = torch.zeros(2, 3, requires_grad=True)
    for tensor in results(lambda g, c: pool(g, c, method), gates.requires_grad_(), cell):
        assert torch.isfinite(tensor).all()


@pytest.mark.parametrize("method", METHODS)
def test_reduced_precision_gates_are_pooled_in_float32(method: Method) -> None:
    gates, cell = random_inputs(20, 2, 8, torch.float32)
    narrow = gates.detach().bfloat16().requires_grad_()
    hidden, _ = pool(narrow, cell.detach(), method)
    expected, _ = textbook_pool(narrow.detach().float(), cell.detach())
    assert hidden.dtype == torch.float32
    torch.testing.assert_close(hidden, expected, rtol=1e-5, atol=1e-6)
    hidden.sum().backward()
    assert narrow.grad is not None and narrow.grad.dtype == torch.bfloat16


def test_gates_of_the_wrong_width_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        pool(torch.zeros(3, 2, 8), torch.zeros(2, 3))


def test_linear_recurrence_equals_its_loop() -> None:
    factor, term = torch.rand(37, 3, dtype=torch.float64), torch.randn(37, 3, dtype=torch.float64)
    value, expected = torch.randn(3, dtype=torch.float64), []
    initial = value.clone()
    for a, b in zip(factor, term, strict=True):
        value = a * value + b
        expected.append(value)
    torch.testing.assert_close(linear_recurrence(factor, term, initial), torch.stack(expected))
