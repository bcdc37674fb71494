"""The torch model against plain numpy, against itself step by step, and its output layer against torch's."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from rheostat.model.shape import ModelShape  # noqa: E402
from rheostat.training import adaptive_softmax  # noqa: E402
from rheostat.training.adaptive_softmax import OutputWeights  # noqa: E402
from rheostat.training.cross_entropy import Teacher, linear_cross_entropy, linear_distillation  # noqa: E402
from rheostat.training.language_model import LanguageModel  # noqa: E402
from rheostat.training.regularization import RegularizationConfig  # noqa: E402

SHAPES = {
    "qrnn": ModelShape(11, 4, (6, 5, 4), (3, 2, 1)),
    "adaptive": ModelShape(11, 4, (6, 4), (2, 1), softmax_splits=(3, 7)),
    "lstm": ModelShape(11, 4, (6, 4), (1, 1), cell="lstm"),
    "skip-lstm": ModelShape(11, 4, (4, 4), (1, 1), cell="skip-lstm"),
    "cut": ModelShape(11, 4, (5, 2), (2, 1)),
}


def make_model(name: str) -> LanguageModel:
    torch.manual_seed(3)
    model = LanguageModel(SHAPES[name])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-0.7, 0.7)
    return model


def numpy_qrnn(model: LanguageModel, ids: list[int]) -> np.ndarray:
    """The equations written out for one text: logits [T, V]."""
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    sequence = [weights["embedding.weight"][i] for i in ids]
    for layer, window in enumerate(model.shape.windows):
        w, b = weights[f"layers.{layer}.weight"], weights[f"layers.{layer}.bias"]
        before = [np.zeros_like(sequence[0])] * (window - 1)
        padded, cell, hidden = before + sequence, np.zeros(len(w) // 3, np.float32), []
        for t in range(len(ids)):
            z, f, o = np.split(w @ np.concatenate(padded[t : t + window]) + b, 3)  # oldest input first
            f, o = 1 / (1 + np.exp(-f)), 1 / (1 + np.exp(-o))
            cell = f * cell + (1 - f) * np.tanh(z)
            hidden.append(o * cell)
        sequence = hidden
    output = weights.get("output.weight", weights["embedding.weight"])
    return np.stack(sequence) @ output.T + weights["output.bias"]


@pytest.mark.parametrize("name", ["qrnn", "cut"])
def test_model_equals_the_formulas_in_numpy(name: str) -> None:
    model, ids = make_model(name), [3, 1, 4, 1, 5, 9, 2, 6]
    expected = torch.log_softmax(torch.from_numpy(numpy_qrnn(model, ids)), dim=-1)
    with torch.inference_mode():
        outputs = model(torch.tensor(ids)[:, None], model.initial_state(1))
        ours = model.log_probabilities(outputs.dropped[:, 0])
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", SHAPES)
def test_word_by_word_equals_the_whole_sequence(name: str) -> None:
    model, ids = make_model(name), torch.randint(11, (9, 2), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        whole = model(ids, model.initial_state(2))
        state, steps = model.initial_state(2), []
        for row in ids:
            outputs = model(row[None], state)
            state = outputs.state
            steps.append(outputs.raw)
    torch.testing.assert_close(torch.cat(steps), whole.raw, rtol=1e-5, atol=1e-6)
    for ours, theirs in zip(state, whole.state, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_state_is_a_value() -> None:
    model = make_model("qrnn")
    ids, state = torch.tensor([[1], [2], [3]]), model.initial_state(1)
    before = [tensor.clone() for layer in state for tensor in layer]
    first = model(ids, state).raw
    assert all(torch.equal(a, b) for a, b in zip(before, (t for layer in state for t in layer), strict=True))
    assert torch.equal(first, model(ids, state).raw)


@pytest.mark.parametrize("name", SHAPES)
def test_parameters_have_the_names_and_sizes_of_the_shape(name: str) -> None:
    model = make_model(name)
    assert {key: tuple(value.shape) for key, value in model.state_dict().items()} == model.shape.tensor_shapes()
    assert sum(p.numel() for p in model.parameters()) == model.shape.parameters


@pytest.mark.parametrize("name", SHAPES)
def test_probabilities_of_all_words_add_up_to_one(name: str) -> None:
    model = make_model(name)
    hidden = torch.randn(5, model.shape.output_size)
    torch.testing.assert_close(model.log_probabilities(hidden).exp().sum(1), torch.ones(5))


@pytest.mark.parametrize("name", SHAPES)
def test_cross_entropy_equals_the_sum_of_log_probabilities(name: str) -> None:
    model = make_model(name)
    hidden, targets = torch.randn(40, model.shape.output_size), torch.arange(40) % 11
    expected = -model.log_probabilities(hidden).gather(1, targets[:, None]).sum()
    torch.testing.assert_close(model.cross_entropy(hidden, targets), expected)


def test_blockwise_cross_entropy_has_torchs_value_and_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rheostat.training.cross_entropy.block_size", lambda vocabulary_size: 7)
    generator = torch.Generator().manual_seed(5)
    size = {"dtype": torch.float64, "generator": generator}
    hidden, weight, bias = torch.randn(20, 6, **size), torch.randn(13, 6, **size), torch.randn(13, **size)
    tensors = [tensor.requires_grad_() for tensor in (hidden, weight, bias)]
    targets = torch.randint(13, (20,), generator=generator)
    ours = linear_cross_entropy(*tensors, targets)
    logits = torch.nn.functional.linear(*tensors)
    theirs = torch.nn.functional.cross_entropy(logits, targets, reduction="sum")
    torch.testing.assert_close(ours, theirs)
    for a, b in zip(torch.autograd.grad(3 * ours, tensors), torch.autograd.grad(3 * theirs, tensors), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_blockwise_distillation_has_the_textbooks_value_and_gradient(
    monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    monkeypatch.setattr("rheostat.training.cross_entropy.block_size", lambda vocabulary_size: 7)
    generator = torch.Generator().manual_seed(6)
    size = {"dtype": torch.float64, "generator": generator}
    hidden, weight, bias = torch.randn(20, 6, **size), torch.randn(13, 6, **size), torch.randn(13, **size)
    teacher = Teacher(torch.randn(20, 9, **size), torch.randn(13, 9, **size), torch.randn(13, **size), share)
    tensors = [tensor.requires_grad_() for tensor in (hidden, weight, bias)]
    targets = torch.randint(13, (20,), generator=generator)
    ours = linear_distillation(*tensors, targets, teacher)
    log_own = torch.log_softmax(torch.nn.functional.linear(*tensors), 1)
    log_theirs = torch.log_softmax(torch.nn.functional.linear(*teacher[:3]), 1)
    text = torch.nn.functional.nll_loss(log_own, targets, reduction="sum")
    divergence = torch.nn.functional.kl_div(log_own, log_theirs, reduction="sum", log_target=True)
    objective = (1 - share) * text + share * divergence
    torch.testing.assert_close(ours.log_likelihood_loss, text)
    torch.testing.assert_close(ours.objective, objective)
    pairs = zip(
        torch.autograd.grad(3 * ours.objective, tensors), torch.autograd.grad(3 * objective, tensors), strict=True
    )
    for a, b in pairs:
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", SHAPES)
def test_a_model_that_is_its_own_teacher_has_no_loss(name: str) -> None:
    model = make_model(name)
    hidden, targets = torch.randn(8, 5, model.shape.output_size), torch.arange(40).reshape(8, 5) % 11
    distilled = model.distillation(hidden, targets, model.soft_targets(hidden, 1.0))
    torch.testing.assert_close(distilled.objective, torch.zeros(()), atol=1e-4, rtol=0)
    torch.testing.assert_close(distilled.log_likelihood_loss, model.cross_entropy(hidden, targets))


def test_a_model_over_other_tensors_computes_with_them_and_passes_on_their_gradients() -> None:
    model = make_model("adaptive")
    doubled = LanguageModel.over(model.shape, {name: 2 * p for name, p in model.named_parameters()})
    ids = torch.arange(12).reshape(6, 2) % 11
    outputs = doubled(ids, doubled.initial_state(2))
    doubled.cross_entropy(outputs.dropped, ids).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_frozen_output_weights_get_no_gradient() -> None:
    hidden = torch.randn(4, 3, requires_grad=True)
    linear_cross_entropy(hidden, torch.randn(5, 3), torch.zeros(5), torch.tensor([0, 1, 2, 3])).backward()
    assert hidden.grad is not None


def test_adaptive_gradient_reaches_every_part() -> None:
    model = make_model("adaptive")
    hidden = torch.randn(30, 4)
    loss = adaptive_softmax.cross_entropy(hidden, model.output_weights(), torch.arange(30) % 11)
    expected = -adaptive_softmax.log_probabilities(hidden, model.output_weights())
    reference = expected.gather(1, (torch.arange(30) % 11)[:, None]).sum()
    parts = [model.embedding.weight, model.output.bias, model.clusters.weight, model.clusters.bias]
    for a, b in zip(torch.autograd.grad(loss, parts), torch.autograd.grad(reference, parts), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_a_split_vocabulary_covers_every_word_once() -> None:
    output = OutputWeights(torch.zeros(11, 4), torch.zeros(11), (3, 7))
    assert list(output.tails()) == [(3, 7), (7, 11)] and output.head_size == 3


def test_lstm_equals_torchs_module() -> None:
    model = make_model("lstm")
    inputs, layer = torch.randn(6, 2, 4), model.layers[0]
    theirs = torch.nn.LSTM(4, 6)
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    theirs.load_state_dict({f"{name}_l0": getattr(layer, name).detach() for name in names})
    ours, state = layer(inputs, layer.initial_state(2))
    expected, (hidden, cell) = theirs(inputs)
    torch.testing.assert_close(ours, expected)
    torch.testing.assert_close(state.hidden, hidden[0])
    torch.testing.assert_close(state.cell, cell[0])


def test_skip_lstm_sums_the_outputs_of_its_layers() -> None:
    model, ids = make_model("skip-lstm"), torch.tensor([[1], [5], [2]])
    hidden, total = model.embedding.weight[ids], 0
    for layer in model.layers:
        hidden, _ = layer(hidden, layer.initial_state(1))
        total = total + hidden
    torch.testing.assert_close(model(ids, model.initial_state(1)).raw, total)


def test_dropout_changes_the_outputs_and_no_dropout_does_not() -> None:
    model, ids = make_model("qrnn"), torch.tensor([[1], [2], [3], [4]])
    strong = RegularizationConfig(0.3, 0.3, 0.3, 0.3, 0.3)
    state = model.initial_state(1)
    assert torch.equal(model(ids, state, RegularizationConfig()).raw, model(ids, state).raw)
    torch.manual_seed(1)
    first = model(ids, state, strong).dropped
    assert not torch.equal(first, model(ids, state, strong).dropped)
    torch.manual_seed(1)
    assert torch.equal(first, model(ids, state, strong).dropped)
