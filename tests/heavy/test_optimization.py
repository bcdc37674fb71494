"""Averaging, its trigger, rates and batches, each against its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from rheostat.errors import CorpusError, RecipeError, RheostatWarning  # noqa: E402
from rheostat.tables import fill  # noqa: E402
from rheostat.training import machine  # noqa: E402
from rheostat.training.batches import Batches, draw_length  # noqa: E402
from rheostat.training.configuration import ModelConfig, TrainConfig, TrainingRecipe  # noqa: E402
from rheostat.training.optimization import WeightAverage, has_stalled, make_optimizer, rate_at  # noqa: E402


def merity_would_switch(losses: list[float], interval: int) -> bool:
    """awd-lstm-lm's condition, evaluated before the newest loss joins the list."""
    *before, newest = losses
    return len(before) > interval and newest > min(before[:-interval])


@pytest.mark.parametrize("seed", range(40))
def test_the_trigger_is_meritys(seed: int) -> None:
    random = np.random.default_rng(seed)
    losses = list(5 / (1 + np.arange(1, 15)) + random.normal(0, 0.2, 14))
    for count in range(1, len(losses) + 1):
        for interval in (1, 3, 5):
            assert has_stalled(losses[:count], interval) == merity_would_switch(losses[:count], interval)


def test_averaging_is_the_mean_of_the_weights_since_it_began() -> None:
    parameter = torch.nn.Parameter(torch.zeros(3))
    average, seen = WeightAverage({"p": parameter}), []
    for step in range(1, 8):
        with torch.no_grad():
            parameter.add_(torch.tensor([1.0, 2.0, 3.0]) * step)
        seen.append(parameter.detach().clone())
        average.update()
    own = parameter.detach().clone()
    with average.in_place():
        torch.testing.assert_close(parameter.detach(), torch.stack(seen).mean(0))
    assert torch.equal(parameter.detach(), own)


def test_sgd_with_averaging_is_torchs_asgd() -> None:
    """lambd = 0, t0 = 0: a constant rate. torch copies the weights at each of its first two steps, so its mean
    starts with the second; so does ours here."""
    torch.manual_seed(0)
    start, inputs = torch.randn(5), torch.randn(30, 5)
    ours, theirs = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
    config = TrainConfig(optimizer="nt-asgd", learning_rate=0.05, weight_decay=1e-3)
    optimizer = make_optimizer({"p": ours}, config)
    reference = torch.optim.ASGD([theirs], lr=0.05, lambd=0.0, t0=0, weight_decay=1e-3)
    average = WeightAverage({"p": ours})
    for step, row in enumerate(inputs):
        for parameter, stepper in ((ours, optimizer), (theirs, reference)):
            stepper.zero_grad()
            (parameter @ row - 1).square().backward()
            stepper.step()
        torch.testing.assert_close(ours, theirs)
        if step:
            average.update()
    with average.in_place():
        torch.testing.assert_close(ours.detach(), reference.state[theirs]["ax"], rtol=1e-4, atol=1e-5)


def test_one_cycle_rises_to_the_peak_and_falls() -> None:
    config = TrainConfig(schedule="one-cycle", learning_rate=1.0, warmup=0.25)
    rates = [rate_at(config, share, 0) for share in np.linspace(0, 1, 101)]
    assert max(rates) == rates[25] == 1.0
    assert rates[0] == pytest.approx(1 / 25) and rates[-1] == pytest.approx(1 / 1000)
    assert rates[:26] == sorted(rates[:26]) and rates[25:] == sorted(rates[25:], reverse=True)


def test_the_rate_drops_after_the_named_epochs() -> None:
    config = TrainConfig(learning_rate=1.0, decay_epochs=(12,), decay_factor=0.1)
    assert [rate_at(config, 0.5, epoch) for epoch in (0, 11, 12, 13)] == pytest.approx([1, 1, 0.1, 0.1])


def test_lengths_follow_merity_and_depend_only_on_the_step() -> None:
    config = TrainConfig(sequence_length=70, seed=3)
    lengths = np.array([draw_length(config, step) for step in range(4000)])
    assert 0.03 < (lengths < 50).mean() < 0.07
    assert lengths[lengths >= 50].mean() == pytest.approx(69.5, abs=0.5) and lengths.min() >= 5
    assert [draw_length(config, step) for step in (17, 3)] == [lengths[17], lengths[3]]


def test_batches_cover_the_text_in_order() -> None:
    batches = Batches(np.arange(103, dtype=np.int32), 4)
    position, seen = 0, []
    while batches.has(position):
        inputs, targets = batches.batch(position, 7)
        assert torch.equal(targets, inputs + 1)
        seen.append(inputs)
        position += len(inputs)
    columns = torch.cat(seen).T
    assert torch.equal(columns, torch.arange(100).reshape(4, 25)[:, :-1])


def test_a_process_reads_its_own_columns() -> None:
    ids = np.arange(100, dtype=np.int32)
    whole = Batches(ids, 4).batch(3, 5)[0]
    halves = [Batches(ids, 4, slice(first, first + 2)).batch(3, 5)[0] for first in (0, 2)]
    assert torch.equal(torch.cat(halves, dim=1), whole)


def test_a_text_too_short_for_the_batch_is_refused() -> None:
    with pytest.raises(CorpusError, match=r"lower train\.batch_size"):
        Batches(np.arange(7), 4)


def test_a_machine_that_refuses_bf16_trains_in_fp32_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(dtype: torch.dtype, device: torch.device) -> float:
        raise RuntimeError("could not create a primitive")

    monkeypatch.setattr(machine, "product_seconds", refuse)
    with pytest.warns(RheostatWarning, match=r"cannot compute bf16 products .* training in fp32"):
        assert machine.usable_precision("bf16", torch.device("cpu")) == "fp32"


@pytest.mark.parametrize(
    ("wanted", "slowdown", "expected"),
    [("bf16", 0.5, "bf16"), ("bf16", 6.0, "fp32"), ("bf16-always", 6.0, "bf16"), ("fp32", 0.5, "fp32")],
)
@pytest.mark.filterwarnings("ignore::rheostat.errors.RheostatWarning")
def test_bf16_is_used_if_it_is_faster(
    monkeypatch: pytest.MonkeyPatch, wanted: str, slowdown: float, expected: str
) -> None:
    seconds = {torch.bfloat16: slowdown, torch.float32: 1.0}
    monkeypatch.setattr(machine, "product_seconds", lambda dtype, device: seconds[dtype])
    assert machine.usable_precision(wanted, torch.device("cpu")) == expected


def test_a_machine_whose_lstm_refuses_bf16_trains_lstms_in_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(device: torch.device) -> None:
        raise RuntimeError("could not create a primitive descriptor")

    monkeypatch.setattr(machine, "try_lstm", refuse)
    device = torch.device("cpu")
    with pytest.warns(RheostatWarning, match=r"cannot compute bf16 products .* training in fp32"):
        assert machine.usable_precision("bf16-always", device, lstm=True) == "fp32"
    assert machine.usable_precision("fp32", device, lstm=True) == "fp32"


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [
        ("train", "steps", -1),
        ("train", "minutes", -0.5),
        ("train", "seed", -3),
        ("train", "weight_decay", -1.0),
        ("train", "clip", -0.1),
        ("train", "nonmonotone_interval", -1),
        ("train", "patience", -1),
        ("train", "warmup", 1.0),
        ("train", "learning_rate", float("nan")),
        ("regularization", "weight_drop", 1.0),
        ("regularization", "dropout_input", 1.5),
        ("regularization", "activation", -1.0),
        ("graded", "dropout", -0.5),
    ],
)
def test_a_number_out_of_range_is_refused(table: str, key: str, value: float) -> None:
    with pytest.raises(RecipeError, match=f"{table}: {key} is {value}"):
        fill(TrainingRecipe, {table: {key: value}})


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"cell": "lstm"}, "expected 1 everywhere or none"),
        ({"softmax_splits": (9, 5)}, "expected ascending ids"),
        ({"cell": "skip-lstm", "windows": ()}, "expected one width"),
    ],
)
def test_a_shape_that_makes_no_model_is_refused_before_it_is_trained(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        ModelConfig(embedding_size=8, hidden_size=12, **changes).shape(20)


def test_the_skip_lstm_is_solved_for_24_million_parameters() -> None:
    config = ModelConfig(cell="skip-lstm", embedding_size=0, layers=4, windows=(), parameters=24_000_000)
    shape = config.shape(10_000)
    wider = ModelConfig(cell="skip-lstm", embedding_size=0, layers=4, windows=(), hidden_size=shape.hidden_sizes[0] + 1)
    assert len(set(shape.hidden_sizes)) == 1 and shape.embedding_size == shape.hidden_sizes[0]
    assert shape.parameters <= 24_000_000 < wider.shape(10_000).parameters
