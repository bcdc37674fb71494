"""Dropout and penalties against their definitions."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from rheostat.model.shape import ModelShape  # noqa: E402
from rheostat.training.language_model import LanguageModel  # noqa: E402
from rheostat.training.regularization import (  # noqa: E402
    RegularizationConfig,
    activation_penalty,
    embed,
    locked_dropout,
    weight_drop,
)
from rheostat.training.task import LanguageModelLoss  # noqa: E402


@pytest.mark.parametrize("probability", [0.1, 0.5])
def test_weight_drop_keeps_the_mean_and_drops_the_share(probability: float) -> None:
    weight = torch.ones(700, 900)
    dropped = weight_drop(weight, probability)
    kept = dropped != 0
    assert kept.float().mean().item() == pytest.approx(1 - probability, abs=0.005)
    torch.testing.assert_close(dropped[kept], torch.full((int(kept.sum()),), 1 / (1 - probability)))
    # neither rows nor columns nor diagonals are dropped together
    for matrix in (kept.float(), kept.float().T):
        assert matrix.mean(0).std().item() < 2 * (probability * (1 - probability) / len(matrix)) ** 0.5


def test_weight_drop_sends_gradients_through_the_same_mask() -> None:
    weight = torch.randn(40, 50, requires_grad=True)
    dropped = weight_drop(weight, 0.3)
    dropped.sum().backward()
    expected = torch.where(dropped == 0, 0.0, torch.tensor(1 / 0.7))
    torch.testing.assert_close(weight.grad, expected)


def test_weight_drop_follows_torchs_seed() -> None:
    weight = torch.ones(30, 30)
    torch.manual_seed(1)
    first, second = weight_drop(weight, 0.5), weight_drop(weight, 0.5)
    torch.manual_seed(1)
    assert torch.equal(weight_drop(weight, 0.5), first) and not torch.equal(first, second)


def test_locked_dropout_drops_the_same_features_at_every_step() -> None:
    dropped = locked_dropout(torch.ones(9, 4, 50), 0.5)
    assert torch.equal(dropped, dropped[:1].expand_as(dropped))
    assert not torch.equal(dropped[:, 0], dropped[:, 1])


def test_only_rows_of_looked_up_words_get_a_gradient() -> None:
    embedding = torch.ones(100_000, 6, requires_grad=True)
    embed(torch.tensor([[7, 3], [99_999, 7]]), embedding, 0.4, sparse=True).sum().backward()
    assert embedding.grad is not None and embedding.grad.is_sparse
    assert set(embedding.grad.coalesce().indices().flatten().tolist()) == {3, 7, 99_999}


def test_embedding_dropout_drops_whole_words_everywhere() -> None:
    ids = torch.arange(200).repeat(2, 1)
    rows = embed(ids, torch.ones(200, 6), 0.4)
    assert torch.equal(rows[0], rows[1])
    by_word = rows[0]
    assert ((by_word == 0).all(1) | (by_word != 0).all(1)).all()
    torch.testing.assert_close(by_word.max(), torch.tensor(1 / 0.6))


def test_penalties_are_those_of_merity() -> None:
    raw, dropped = torch.randn(5, 2, 3), torch.randn(5, 2, 3)
    config = RegularizationConfig(activation=2.0, temporal_activation=1.5)
    expected = 2 * dropped.pow(2).mean() + 1.5 * (raw[1:] - raw[:-1]).pow(2).mean()
    torch.testing.assert_close(activation_penalty(raw, dropped, config), expected)
    assert activation_penalty(raw, dropped, RegularizationConfig()) is None


def test_bf16_products_give_nearly_the_fp32_loss_and_keep_the_state_in_float32() -> None:
    torch.manual_seed(0)
    model = LanguageModel(ModelShape(50, 16, (32, 16), (2, 1)))
    inputs, targets = torch.randint(50, (12, 3)), torch.randint(50, (12, 3))
    losses = {}
    for precision in ("fp32", "bf16"):
        module = LanguageModelLoss(model, RegularizationConfig(), precision)
        result = module(inputs, targets, model.initial_state(3))
        result.objective.backward()
        losses[precision] = result.log_likelihood_loss.item()
        assert all(tensor.dtype == torch.float32 for layer in result.state for tensor in layer)
    assert losses["bf16"] == pytest.approx(losses["fp32"], rel=5e-3)
    assert all(parameter.grad is not None for parameter in model.parameters())
