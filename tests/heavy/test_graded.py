"""Graded training: the ranking, the loss of prefixes, and whole runs."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

torch = pytest.importorskip("torch")

from commands import rheostat  # noqa: E402
from models import TINY, make_weights, write_tiny  # noqa: E402
from rheostat.errors import OperatingPointError, RecipeError  # noqa: E402
from rheostat.model.cut import cut, reorder, unfolded  # noqa: E402
from rheostat.model.file import open_model  # noqa: E402
from rheostat.model.operating_point import full_point  # noqa: E402
from rheostat.model.precision import quantize  # noqa: E402
from rheostat.model.widths import select  # noqa: E402
from rheostat.training import graded  # noqa: E402
from rheostat.training.evaluation import measure_quality  # noqa: E402
from rheostat.training.graded import (  # noqa: E402
    WHOLE,
    Drawn,
    GradedConfig,
    GradedLoss,
    GradedTask,
    assign_texts,
    at_cost,
    draw_bits,
    four_bits,
    graded_ranking,
    prefix_state,
    read_bits,
)
from rheostat.training.language_model import LanguageModel  # noqa: E402
from rheostat.training.regularization import NO_REGULARIZATION  # noqa: E402
from rheostat.training.session import RunSession  # noqa: E402

SHAPE = TINY["qrnn"]


def make_model() -> LanguageModel:
    weights = {name: array.astype(np.float32) for name, array in make_weights(SHAPE).items()}
    return LanguageModel.from_weights(SHAPE, weights)


def make_loss(**changes: object) -> GradedLoss:
    config = GradedConfig(**changes)  # type: ignore[arg-type]
    return GradedLoss(make_model(), graded_ranking(SHAPE), 0.5, config, NO_REGULARIZATION)


def batch(steps: int = 5, texts: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(SHAPE.vocabulary_size, (steps + 1, texts), generator=torch.Generator().manual_seed(3))
    return ids[:-1], ids[1:]


def test_graded_points_are_nested_prefixes_within_the_knob() -> None:
    ranking = graded_ranking(SHAPE, (1.0,) * (len(SHAPE.hidden_sizes) - 1) + (0.1,))
    before = full_point(SHAPE).widths
    for share in np.linspace(1, 0.3, 30):
        point = select(ranking, SHAPE, float(share))
        assert all((kept == np.arange(len(kept))).all() for kept in point.keep)
        assert point.flops_fraction <= share
        assert all(width <= wider for width, wider in zip(point.widths, before, strict=True))
        before = point.widths


def test_a_layer_with_a_small_taper_is_narrowed_least() -> None:
    ranking = graded_ranking(SHAPE, (1.0,) * (len(SHAPE.hidden_sizes) - 1) + (0.01,))
    assert select(ranking, SHAPE, 0.7).widths[-1] == SHAPE.hidden_sizes[-1]


def test_a_prefix_computes_what_the_cut_model_computes() -> None:
    loss = make_loss()
    point, narrow = loss.prefix(Drawn(0.6))
    weights, shape = cut({name: p.detach() for name, p in loss.model.named_parameters()}, SHAPE, point)
    expected = LanguageModel.from_weights(shape, weights)
    inputs, _ = batch()
    own, other = (m(inputs, m.initial_state(inputs.shape[1])) for m in (narrow, expected))
    torch.testing.assert_close(own.raw, other.raw)


def test_the_loss_of_prefixes_reaches_only_the_weights_they_use() -> None:
    loss = make_loss(widths=1)
    inputs, targets = batch()
    state = loss.model.initial_state(inputs.shape[1])
    outputs = loss.model(inputs, state)
    extra = loss.extra_loss(inputs, targets, state, outputs)
    assert extra is not None
    extra.backward()
    point, _ = loss.prefix(Drawn(0.5))
    width, whole = point.widths[0], SHAPE.hidden_sizes[0]
    gradient = loss.model.layers[0].weight.grad.reshape(3, whole, -1)
    assert gradient[:, :width].abs().sum() > 0
    assert not gradient[:, width:].any()


def test_at_full_width_a_prefix_that_only_imitates_has_no_loss() -> None:
    loss = GradedLoss(make_model(), graded_ranking(SHAPE), 1.0, GradedConfig(), NO_REGULARIZATION)
    inputs, targets = batch()
    state = loss.model.initial_state(inputs.shape[1])
    extra = loss.extra_loss(inputs, targets, state, loss.model(inputs, state))
    assert extra is not None
    assert abs(float(extra.detach())) < 1e-6


def test_texts_are_distributed_over_all_widths_and_each_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assigned: list[tuple[slice, Drawn]] = []
    monkeypatch.setattr(
        graded, "assign_texts", lambda shares, texts: assigned.extend(assign_texts(shares, texts)) or assigned
    )
    loss, (inputs, targets) = make_loss(widths=3), batch(texts=7)
    state = loss.model.initial_state(7)
    loss.extra_loss(inputs, targets, state, loss.model(inputs, state))
    shares = [drawn.flops_fraction for _, drawn in assigned]
    assert shares[0] == 0.5  # the sandwich's lower slice
    assert len(set(shares)) == 3 and all(0.5 <= share < 1 for share in shares)
    assert sorted(text for texts, _ in assigned for text in range(7)[texts]) == list(range(7))


def test_over_time_every_share_reads_every_text() -> None:
    torch.manual_seed(1)
    shares = [1.0, 0.5, 0.7]
    read: dict[float, set[int]] = {share: set() for share in shares}
    for _ in range(30):
        assigned = assign_texts(shares, 7)
        assert [share for _, share in assigned] == shares  # the full width first, whichever texts it has
        for texts, share in assigned:
            read[share].update(range(7)[texts])
    assert all(texts == set(range(7)) for texts in read.values())


def test_imitating_the_starting_model_at_full_width_has_no_loss_and_does_not_change_the_teacher() -> None:
    config = GradedConfig(teacher="start", widths=1)
    loss = GradedLoss(make_model(), graded_ranking(SHAPE), 1.0, config, NO_REGULARIZATION)
    inputs, targets = batch()
    found = loss(inputs, targets, loss.model.initial_state(inputs.shape[1]))
    assert abs(float(found.objective.detach())) < 1e-6
    with torch.no_grad():
        loss.model.embedding.weight.add_(0.3)
    after = loss(inputs, targets, found.state)
    after.objective.backward()
    assert float(after.objective.detach()) > 1e-4
    assert loss.teacher is not None
    assert all(parameter.grad is None for parameter in loss.teacher.parameters())


def test_the_result_is_anchored_to_the_start_and_training_continues_with_what_it_learned(tmp_path: Path) -> None:
    written: list[torch.Tensor] = []
    config = GradedConfig(teacher="start", anchor=0.25)
    task = GradedTask(
        make_model(),
        0.5,
        config,
        NO_REGULARIZATION,
        np.arange(20) % SHAPE.vocabulary_size,
        lambda model, *_: written.append(model.output.bias.detach().clone()),
    )
    start = task.model.output.bias.detach().clone()
    with torch.no_grad():
        task.model.output.bias.add_(1.0)
    task.save(tmp_path, {})
    torch.testing.assert_close(written[0], start + 0.75)
    torch.testing.assert_close(task.model.output.bias.detach(), start + 1.0)
    with pytest.raises(ValueError, match="anchor"):
        GradedConfig(anchor=0.5)


@given(
    arrays(np.float32, st.tuples(st.integers(1, 9), st.integers(1, 12)), elements=st.floats(-3, 3, width=32)),
    st.sampled_from([1e-30, 1e-3, 1.0, 1e30]),
)
def test_torch_rounds_to_what_the_upper_four_bits_of_int8_hold(matrix: np.ndarray, size: float) -> None:
    matrix = matrix * np.float32(size)
    integers, scale = quantize(matrix)
    read = 16 * (integers.astype(np.int16) >> 4) + 8
    expected = read.astype(np.float32) * np.where(integers.any(1), scale, 0)[:, None]  # a row of zeros stays one
    np.testing.assert_array_equal(four_bits(torch.tensor(matrix)).numpy(), expected)


def test_rounding_in_slices_is_rounding_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = torch.randn(37, 5)
    whole = four_bits(matrix)
    monkeypatch.setattr(graded, "CACHED", 20)
    torch.testing.assert_close(four_bits(matrix), whole, rtol=0, atol=0)


def test_rows_before_a_bound_keep_their_weights_and_the_rest_have_four_bits() -> None:
    model = make_model()
    weights = dict(model.named_parameters())
    rounded = {name: four_bits(weight.detach()) for name, weight in weights.items() if weight.dim() > 1}
    bounds = (0.5,) * len(SHAPE.hidden_sizes) + (0.25,)
    read = read_bits(weights, SHAPE, bounds, rounded)
    size = SHAPE.hidden_sizes[0]
    for gate in range(3):  # the bound is one of filters, which have a row in each of z, f and o
        first, bound, last = gate * size, gate * size + round(size / 2), (gate + 1) * size
        name = "layers.0.weight"
        assert torch.equal(read[name][first:bound], weights[name][first:bound])
        assert torch.equal(read[name][bound:last], rounded[name][bound:last])
    words = round(SHAPE.vocabulary_size / 4)
    assert torch.equal(read["embedding.weight"][:words], weights["embedding.weight"][:words])
    assert torch.equal(read["embedding.weight"][words:], rounded["embedding.weight"][words:])
    assert read["output.bias"] is weights["output.bias"]


def test_gradients_pass_the_rounding_unchanged_and_reach_the_weights() -> None:
    loss = make_loss(teacher="start", widths=1, bits=True)
    inputs, targets = batch()
    loss(inputs, targets, loss.model.initial_state(inputs.shape[1])).objective.backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in loss.model.parameters())

    weight = torch.randn(3, 4, requires_grad=True)
    factors = torch.randn(3, 4)
    (graded._StraightThrough.apply(weight, four_bits(weight.detach())) * factors).sum().backward()
    torch.testing.assert_close(weight.grad, factors)


def test_a_prefix_in_four_bits_computes_what_the_rounded_model_computes() -> None:
    loss = make_loss()
    drawn = Drawn(0.6, (0.0,) * (len(SHAPE.hidden_sizes) + 1))
    point, narrow = loss.prefix(drawn)
    rounded = {n: four_bits(p.detach()) if p.dim() > 1 else p.detach() for n, p in loss.model.named_parameters()}
    weights, shape = cut(rounded, SHAPE, point)  # a row is rounded before its columns are cut, as in a file
    expected = LanguageModel.from_weights(shape, weights)
    inputs, _ = batch()
    own, other = (m(inputs, m.initial_state(inputs.shape[1])) for m in (narrow, expected))
    torch.testing.assert_close(own.raw, other.raw)


def test_draws_with_bits_are_in_four_bits_below_half_of_the_cost_and_nothing_is_below_the_smallest() -> None:
    torch.manual_seed(1)
    draws = [draw_bits(0.1, SHAPE) for _ in range(400)]
    coarse = [drawn for drawn in draws if not any(drawn.eight_bits)]
    mixed = [drawn for drawn in draws if any(drawn.eight_bits)]
    assert 60 < len(mixed) < 140
    assert min(drawn.flops_fraction for drawn in mixed) >= 0.5
    shares = sorted(drawn.flops_fraction for drawn in coarse)
    assert 0.2 <= shares[0] < 0.25 and 0.9 < shares[-1] <= 1
    assert 0.35 < shares[len(shares) // 2] < 0.55  # half of them below 22 % of the cost
    assert at_cost(1.0, SHAPE, bits=True) == WHOLE
    assert at_cost(0.5, SHAPE, bits=True).flops_fraction == 1 and not any(at_cost(0.5, SHAPE, bits=True).eight_bits)


def test_a_step_with_bits_reads_the_whole_model_and_the_smallest_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assigned: list[tuple[slice, Drawn]] = []
    monkeypatch.setattr(
        graded, "assign_texts", lambda draws, texts: assigned.extend(assign_texts(draws, texts)) or assigned
    )
    config = GradedConfig(teacher="start", widths=2, bits=True)
    loss = GradedLoss(make_model(), graded_ranking(SHAPE), 0.3, config, NO_REGULARIZATION)
    inputs, targets = batch()
    loss(inputs, targets, loss.model.initial_state(inputs.shape[1]))
    assert assigned[0][1] == WHOLE
    assert assigned[1][1] == Drawn(0.6, (0.0,) * (len(SHAPE.hidden_sizes) + 1))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_training_with_bits_improves_the_small_end_in_four_bits(precision: str) -> None:
    torch.manual_seed(2)
    config = GradedConfig(teacher="start", widths=2, bits=True)
    loss = GradedLoss(make_model(), graded_ranking(SHAPE), 0.3, config, NO_REGULARIZATION, precision)
    inputs, targets = batch(steps=12, texts=6)
    state = loss.model.initial_state(inputs.shape[1])
    optimizer = torch.optim.Adam(loss.model.parameters(), 1e-2)

    def small_end() -> float:
        with torch.no_grad():
            _, narrow = loss.prefix(at_cost(0.3, SHAPE, bits=True))
            soft = loss.teacher.soft_targets(loss.teacher(inputs, state).raw, 1.0)
            hidden = narrow(inputs, narrow.initial_state(inputs.shape[1])).raw
            return float(narrow.distillation(hidden, targets, soft).objective)

    before = small_end()
    for _ in range(30):
        optimizer.zero_grad()
        loss(inputs, targets, state).objective.backward()
        optimizer.step()
    assert small_end() < 0.8 * before


def test_bits_with_a_smallest_share_that_four_bits_cost_is_refused() -> None:
    config = GradedConfig(teacher="start", bits=True)
    with pytest.raises(ValueError, match=r"expected less than 0\.5"):
        GradedTask(make_model(), 0.5, config, NO_REGULARIZATION, np.arange(20), lambda *_: None)


@pytest.mark.parametrize("only", ["whole", "smallest"])
def test_as_a_control_a_single_width_is_taught_all_texts(only: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assigned: list[tuple[slice, Drawn]] = []
    monkeypatch.setattr(
        graded, "assign_texts", lambda draws, texts: assigned.extend(assign_texts(draws, texts)) or assigned
    )
    config = GradedConfig(teacher="start", only=only)  # type: ignore[arg-type]
    loss = GradedLoss(make_model(), graded_ranking(SHAPE), 0.5, config, NO_REGULARIZATION)
    with torch.no_grad():
        loss.model.layers[0].weight.mul_(1.1)  # otherwise the whole model is its teacher, and has nothing to learn
    inputs, targets = batch()
    loss(inputs, targets, loss.model.initial_state(inputs.shape[1])).objective.backward()
    share = 1.0 if only == "whole" else 0.5
    ((texts, drawn),) = assigned
    assert range(4)[texts] == range(4) and drawn == Drawn(share)
    assert config.readers == 1 and config.validated(0.5) == (share,)
    point, _ = loss.prefix(Drawn(0.5))
    gradient = loss.model.layers[0].weight.grad.reshape(3, SHAPE.hidden_sizes[0], -1)[:, point.widths[0] :]
    assert gradient.any() == (only == "whole")


@pytest.mark.parametrize("option", [{"only": "whole"}, {"reconstructed": True}])
def test_options_of_a_taught_run_need_the_teacher(option: dict[str, object]) -> None:
    with pytest.raises(ValueError, match='expected teacher = "start"'):
        GradedConfig(**option)  # type: ignore[arg-type]


def test_a_run_starts_from_the_reconstructed_prefix_and_is_taught_by_the_untouched_model(
    recipe_file: Path, corpus_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, built = write_tiny(tmp_path / "start.safetensors"), list[GradedTask]()
    common = ["regularization.activation=0.0", "regularization.temporal_activation=0.0", "graded.teacher=start"]
    asked = ["train.graded=0.6", "graded.reconstructed=true", "train.steps=1", *common]
    options = [part for change in asked for part in ("--set", change)]
    with pytest.raises(RecipeError, match=r"has no reconstruction; run rheostat reconstruct on it first"):
        rheostat("train", recipe_file, "--data", corpus_folder, "--from", start, "-o", tmp_path / "run", *options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a short text
        rheostat("reconstruct", start, "--data", corpus_folder, "-o", start)

    def stop(self: object, task: GradedTask, *_: object) -> None:
        built.append(task)
        raise RecipeError("stopped before the first step")

    monkeypatch.setattr(RunSession, "train", stop)
    with pytest.raises(RecipeError, match="stopped"):
        rheostat("train", recipe_file, "--data", corpus_folder, "--from", start, "-o", tmp_path / "again", *options)
    (task,) = built
    with open_model(start) as file:
        ranking = file.ranking(None)
        untouched = reorder(file.weights(), file.shape, ranking)
        point = replace(select(ranking, file.shape, 0.6), reconstruction=file.reconstruction)
        expected, _ = cut(unfolded(file.weights(), file.shape, point), file.shape, replace(point, reconstruction=None))
    assert task.module.teacher is not None
    for name, value in task.module.teacher.state_dict().items():
        np.testing.assert_allclose(value.numpy(), untouched[name], err_msg=name)
    _, narrow = task.module.prefix(Drawn(0.6))
    assert any(not np.allclose(task.model.state_dict()[name].numpy(), untouched[name]) for name in untouched)
    ids = np.arange(60) % SHAPE.vocabulary_size
    small = LanguageModel.from_weights(point.cut_shape(SHAPE), expected)
    assert measure_quality(narrow, ids).loss == pytest.approx(measure_quality(small, ids).loss, rel=1e-4)


def test_a_run_without_a_starting_model_has_no_teacher(recipe_file: Path, corpus_folder: Path, tmp_path: Path) -> None:
    changes = ["--set", "train.graded=0.4", "--set", "graded.teacher=start"]
    with pytest.raises(RecipeError, match="needs a model to start from"):
        rheostat("train", recipe_file, "--data", corpus_folder, "-o", tmp_path / "run", *changes)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (["regularization.activation=2.0"], "regularization.activation is 2, which has no effect"),
        (["regularization.temporal_activation=1.0"], "regularization.temporal_activation is 1, which has no effect"),
        (["graded.weight=0.5"], "graded.weight is 0.5, which has no effect"),
        (["train.batch_size=2"], "2 texts per batch for 3 widths"),
    ],
)
def test_options_that_a_taught_run_cannot_use_are_refused(
    recipe_file: Path, corpus_folder: Path, tmp_path: Path, changes: list[str], expected: str
) -> None:
    start = write_tiny(tmp_path / "start.safetensors")
    without = ["regularization.activation=0.0", "regularization.temporal_activation=0.0"]
    asked = ["train.graded=0.5", "graded.teacher=start", *without, *changes]
    options = [part for change in asked for part in ("--set", change)]
    with pytest.raises(RecipeError, match=expected):
        rheostat("train", recipe_file, "--data", corpus_folder, "--from", start, "-o", tmp_path / "run", *options)


def test_a_ranking_missing_from_the_starting_model_is_an_error(
    recipe_file: Path, corpus_folder: Path, tmp_path: Path
) -> None:
    start = write_tiny(tmp_path / "start.safetensors", rankings=[], points=[], default_ranking=None)
    changes = ["--set", "train.graded=0.5", "--set", "graded.ranking=other"]
    with pytest.raises(OperatingPointError, match="no ranking 'other'"):
        rheostat("train", recipe_file, "--data", corpus_folder, "--from", start, "-o", tmp_path / "run", *changes)


def test_prefix_state_has_the_shape_that_the_prefix_expects() -> None:
    loss = make_loss()
    point, narrow = loss.prefix(Drawn(0.6))
    state = prefix_state(loss.model.initial_state(4), point, slice(1, 3))
    expected = narrow.initial_state(2)
    assert [[t.shape for t in layer] for layer in state] == [[t.shape for t in layer] for layer in expected]


def test_reordering_filters_does_not_change_the_outputs() -> None:
    model, ids = make_model(), np.arange(40) % SHAPE.vocabulary_size
    ranking = graded_ranking(SHAPE)
    backwards = type(ranking)("back", "x", tuple(-scores for scores in ranking.scores))
    weights = reorder(dict(model.named_parameters()), SHAPE, backwards)
    other = LanguageModel.from_weights(SHAPE, weights)
    assert measure_quality(other, ids).loss == pytest.approx(measure_quality(model, ids).loss, rel=1e-6)


def test_a_graded_run_gives_a_continuous_knob_and_starts_from_a_ranked_model(
    recipe_file: Path, corpus_folder: Path, tmp_path: Path
) -> None:
    first = tmp_path / "first"
    answer = rheostat("train", recipe_file, "--data", corpus_folder, "-o", first, "--set", "train.graded=0.4")
    assert "over 100% 70% 40% of the cost together" in answer
    ranked = tmp_path / "ranked.safetensors"
    rheostat("prune", first / "model.safetensors", "--criterion", "filter-norm", "-o", ranked)
    second = tmp_path / "second"
    changes = ["--set", "train.graded=0.4", "--set", "graded.ranking=filter-norm", "--set", "graded.distill=0.5"]
    rheostat("train", recipe_file, "--data", corpus_folder, "--from", ranked, "-o", second, *changes)
    with open_model(second / "model.safetensors") as file:
        assert file.description.default_ranking == "graded"
        assert file.ranking().comparable
        assert file.ordered == "graded" and 0.35 < file.knob_path()[-1].cost <= 0.4
        origin = file.description.provenance
        assert origin["run"]["valid_over_shares"] == [1.0, 0.7, 0.4]
        assert origin["asked"] == {"data": [str(corpus_folder)], "from": str(ranked)}
        assert "model" not in file.description.recipe  # it has no effect: the shape is that of `ranked`
        assert select(file.ranking(), file.shape, 0.5).flops_fraction <= 0.5
    found = rheostat("evaluate", second / "model.safetensors", "--data", corpus_folder, "--knob", "0.5", "--json")
    assert '"flops_fraction": 0.' in found


def test_a_comparable_ranking_gives_graded_training_its_widths(
    recipe_file: Path, corpus_folder: Path, tmp_path: Path
) -> None:
    first, gated, second = tmp_path / "first", tmp_path / "gated.safetensors", tmp_path / "second"
    rheostat("train", recipe_file, "--data", corpus_folder, "-o", first)
    short = ["--recipe", "fast", "--set", "train.steps=30", "--set", "train.batch_size=4"]
    model = first / "model.safetensors"
    rheostat("prune", model, "--criterion", "l0", "--knob", "0.6", "--data", corpus_folder, *short, "-o", gated)
    changes = ["--set", "train.graded=0.5", "--set", "graded.ranking=gates-0.6", "--set", "train.epochs=1"]
    changes += ["--set", "graded.teacher=start", "--set", "regularization.activation=0.0"]
    changes += ["--set", "regularization.temporal_activation=0.0"]
    rheostat("train", recipe_file, "--data", corpus_folder, "--from", gated, "-o", second, *changes)
    with open_model(gated) as origin, open_model(second / "model.safetensors") as graded:
        assert origin.ranking("gates-0.6").comparable
        pairs = ((origin, "gates-0.6"), (graded, "graded"))
        for knob in (0.9, 0.7, 0.5):
            widths = [select(file.ranking(name), file.shape, knob).widths for file, name in pairs]
            assert widths[0] == widths[1]


def test_a_run_with_bits_is_validated_in_four_bits_and_ends_by_the_clock(
    recipe_file: Path, corpus_folder: Path, tmp_path: Path
) -> None:
    start = tmp_path / "start"
    rheostat("train", recipe_file, "--data", corpus_folder, "-o", start)
    wanted = ["train.graded=0.3", "train.minutes=0.05", "graded.teacher=start", "graded.bits=true"]
    wanted += ["regularization.activation=0.0", "regularization.temporal_activation=0.0"]
    changes = [part for change in wanted for part in ("--set", change)]
    model = start / "model.safetensors"
    answer = rheostat("train", recipe_file, "--data", corpus_folder, "--from", model, "-o", tmp_path / "b", *changes)
    assert "over 100% 50% 30% of the cost together" in answer
    with open_model(tmp_path / "b" / "model.safetensors") as file:
        assert file.description.provenance["run"]["valid_over_shares"] == [1.0, 0.5, 0.3]
        assert file.description.recipe["graded"]["bits"] is True
        # Below 60 % of the FLOPs nothing was trained: 30 % of the cost was 60 % of the FLOPs in 4 bits.
        assert 0.5 < file.knob_path()[-1].cost <= 0.6


def test_a_taper_for_another_number_of_layers_is_refused(
    recipe_file: Path, corpus_folder: Path, tmp_path: Path
) -> None:
    changes = ["--set", "train.graded=0.4", "--set", "graded.taper=[1.0]"]
    with pytest.raises(RecipeError, match="taper has 1 numbers"):
        rheostat("train", recipe_file, "--data", corpus_folder, "-o", tmp_path / "run", *changes)
