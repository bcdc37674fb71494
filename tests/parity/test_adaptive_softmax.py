"""The adaptive softmax against its definition in plain NumPy: probabilities, loss, gradient and distillation."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

torch = pytest.importorskip("torch")

from rheostat.training import adaptive_softmax  # noqa: E402
from rheostat.training.adaptive_softmax import OutputWeights, SoftTargets  # noqa: E402

WORDS, WIDTH, TEXTS = 17, 5, 60
SPLITS = [(), (4,), (3, 9), (1, 2, 16)]

Reals = NDArray[np.float64]
Layer = dict[str, Reals]


def make_layer(splits: tuple[int, ...], seed: int, width: int = WIDTH) -> Layer:
    random = np.random.default_rng(seed)
    shapes = {"weight": (WORDS, width), "bias": (WORDS,)}
    shapes |= {"cluster_weight": (len(splits), width), "cluster_bias": (len(splits),)} if splits else {}
    return {name: random.normal(size=shape) for name, shape in shapes.items()}


def make_hidden(seed: int, width: int = WIDTH) -> Reals:
    return np.random.default_rng(seed).normal(size=(TEXTS, width))


TARGETS = np.random.default_rng(7).integers(WORDS, size=TEXTS)


def in_torch(layer: Layer, splits: tuple[int, ...]) -> OutputWeights:
    return OutputWeights(
        **{name: torch.tensor(array, requires_grad=True) for name, array in layer.items()}, splits=splits
    )


def log_softmax(logits: Reals) -> Reals:
    shifted = logits - logits.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))


def softmaxes(layer: Layer, splits: tuple[int, ...], h: Reals) -> list[Reals]:
    """Log-probabilities of one hidden vector: the head's words and the clusters; then the words within each cluster."""
    logits = layer["weight"] @ h + layer["bias"]
    if not splits:
        return [log_softmax(logits)]
    head = np.concatenate([logits[: splits[0]], layer["cluster_weight"] @ h + layer["cluster_bias"]])
    return [log_softmax(head), *(log_softmax(logits[a:b]) for a, b in pairwise((*splits, WORDS)))]


def log_probabilities(layer: Layer, splits: tuple[int, ...], h: Reals) -> Reals:
    """log p(word) = log p(cluster) + log p(word | cluster) for the words of a tail."""
    head, *tails = softmaxes(layer, splits, h)
    first = splits[0] if splits else WORDS
    return np.concatenate([head[:first], *(head[first + number] + tail for number, tail in enumerate(tails))])


def place_of(word: int, splits: tuple[int, ...]) -> list[tuple[int, int]]:
    """Where a word counts: (which softmax, which entry of it); in the head, and in its cluster if it has one."""
    cluster = sum(word >= split for split in splits)
    if not cluster:
        return [(0, word)]
    return [(0, splits[0] + cluster - 1), (cluster, word - splits[cluster - 1])]


@pytest.mark.parametrize("splits", SPLITS)
def test_log_probabilities_are_those_of_the_definition(splits: tuple[int, ...]) -> None:
    layer, hidden = make_layer(splits, 1), make_hidden(2)
    ours = adaptive_softmax.log_probabilities(torch.tensor(hidden), in_torch(layer, splits))
    expected = np.stack([log_probabilities(layer, splits, h) for h in hidden])
    np.testing.assert_allclose(ours.detach().numpy(), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.exp(expected).sum(1), 1)


@pytest.mark.parametrize("splits", SPLITS)
def test_loss_and_gradient_are_those_of_the_definition(splits: tuple[int, ...]) -> None:
    layer, hidden = make_layer(splits, 1), make_hidden(2)
    output, read = in_torch(layer, splits), torch.tensor(hidden, requires_grad=True)
    loss = adaptive_softmax.cross_entropy(read, output, torch.from_numpy(TARGETS))
    loss.backward()

    expected_loss, expected = 0.0, {name: np.zeros_like(array) for name, array in layer.items()}
    expected_hidden = np.zeros_like(hidden)
    first = splits[0] if splits else WORDS
    for row, (h, target) in enumerate(zip(hidden, TARGETS, strict=True)):
        parts = softmaxes(layer, splits, h)
        for softmax, entry in place_of(int(target), splits):
            expected_loss -= parts[softmax][entry]
            error = np.exp(parts[softmax])  # ∂loss/∂logits = softmax - one-hot
            error[entry] -= 1
            words = slice(0, first) if softmax == 0 else slice(splits[softmax - 1], (*splits, WORDS)[softmax])
            count = words.stop - words.start
            expected["weight"][words] += np.outer(error[:count], h)
            expected["bias"][words] += error[:count]
            expected_hidden[row] += error[:count] @ layer["weight"][words]
            if softmax == 0 and splits:
                expected["cluster_weight"] += np.outer(error[count:], h)
                expected["cluster_bias"] += error[count:]
                expected_hidden[row] += error[count:] @ layer["cluster_weight"]

    assert float(loss.detach()) == pytest.approx(expected_loss, rel=1e-6)
    assert read.grad is not None
    np.testing.assert_allclose(read.grad.numpy(), expected_hidden, rtol=1e-5, atol=1e-6)
    for name, gradient in expected.items():
        np.testing.assert_allclose(getattr(output, name).grad.numpy(), gradient, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("splits", SPLITS)
def test_distillation_is_the_divergence_within_each_softmax_that_the_target_lies_in(splits: tuple[int, ...]) -> None:
    layer, teacher, share = make_layer(splits, 1), make_layer(splits, 3, width=8), 0.3
    hidden, theirs = make_hidden(2), make_hidden(4, width=8)
    taught = SoftTargets(torch.tensor(theirs), in_torch(teacher, splits).detach(), share)
    ours = adaptive_softmax.distillation(
        torch.tensor(hidden), in_torch(layer, splits), torch.from_numpy(TARGETS), taught
    )
    loss = divergence = 0.0
    for h, t, target in zip(hidden, theirs, TARGETS, strict=True):
        own, other = softmaxes(layer, splits, h), softmaxes(teacher, splits, t)
        for softmax, entry in place_of(int(target), splits):
            loss -= own[softmax][entry]
            divergence += float(np.exp(other[softmax]) @ (other[softmax] - own[softmax]))
    assert float(ours.log_likelihood_loss) == pytest.approx(loss, rel=1e-6)
    assert float(ours.objective.detach()) == pytest.approx((1 - share) * loss + share * divergence, rel=1e-6)
