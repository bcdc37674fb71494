"""Criteria against their definitions, and what cutting by them does to a small model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from commands import rheostat  # noqa: E402
from models import TINY, write_tiny  # noqa: E402
from results_files import full, row, write_sweep  # noqa: E402
from rheostat.errors import OperatingPointError, RheostatError  # noqa: E402
from rheostat.model.cut import cut  # noqa: E402
from rheostat.model.file import open_model  # noqa: E402
from rheostat.model.shape import ModelShape  # noqa: E402
from rheostat.model.widths import select  # noqa: E402
from rheostat.pruning import criteria, steps  # noqa: E402
from rheostat.pruning.allocation import search_allocation  # noqa: E402
from rheostat.pruning.criteria import CRITERIA, Subject, criterion, score  # noqa: E402
from rheostat.training.evaluation import measure_quality  # noqa: E402
from rheostat.training.language_model import LanguageModel  # noqa: E402

SHAPE = ModelShape(17, 6, (9, 6), (2, 1))


@pytest.fixture
def model() -> LanguageModel:
    torch.manual_seed(2)
    model = LanguageModel(SHAPE)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-0.8, 0.8)
    return model


@pytest.fixture
def ids(monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    monkeypatch.setattr(criteria, "BATCH", 2)
    monkeypatch.setattr(criteria, "LENGTH", 7)
    return np.random.default_rng(4).integers(0, 17, 81, dtype=np.int32)


def test_a_seed_that_no_generator_takes_is_an_error_in_one_line(model: LanguageModel) -> None:
    with pytest.raises(OperatingPointError, match=r"the seed is 10000.*expected a whole number of at most 64 bits"):
        score(Subject(model, seed=10**26), "random")


def test_random_is_a_permutation_that_follows_its_seed(model: LanguageModel) -> None:
    first, again, other = (score(Subject(model, seed=seed), "random") for seed in (1, 1, 2))
    assert [sorted(scores) for scores in first.scores] == [list(range(9)), list(range(6))]
    assert all(np.array_equal(a, b) for a, b in zip(first.scores, again.scores, strict=True))
    assert not np.array_equal(first.scores[0], other.scores[0])
    assert (first.seed, other.seed) == (1, 2)


def test_filter_norm_is_the_l1_norm_of_the_row_of_z(model: LanguageModel) -> None:
    scores = score(Subject(model), "filter-norm").scores
    for layer, size in enumerate(SHAPE.hidden_sizes):
        rows = model.state_dict()[f"layers.{layer}.weight"].numpy()[:size]
        np.testing.assert_allclose(scores[layer], np.abs(rows).sum(1), rtol=1e-6)


def test_mean_activation_is_the_mean_of_h_over_one_pass(model: LanguageModel, ids: np.ndarray) -> None:
    scores = score(Subject(model, ids), "mean-activation").scores
    columns = torch.from_numpy(ids[:80].reshape(2, 40).T[:-1].astype(np.int64))  # the last row is only a target
    with torch.inference_mode():
        outputs = model(columns, model.initial_state(2))
    for layer, hidden in enumerate(outputs.layers):
        np.testing.assert_allclose(scores[layer], hidden.abs().mean((0, 1)).numpy(), rtol=1e-5)


def test_taylor_is_the_mean_of_h_times_its_gradient(model: LanguageModel, ids: np.ndarray) -> None:
    whole = Subject(model, ids[:16])  # one batch of seven steps, so nothing is truncated
    scores = score(whole, "taylor").scores
    columns = torch.from_numpy(ids[:16].reshape(2, 8).T.astype(np.int64))
    outputs = model(columns[:-1], model.initial_state(2))
    for hidden in outputs.layers:
        hidden.retain_grad()
    logits = outputs.dropped @ model.embedding.weight.t() + model.output.bias
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), columns[1:].flatten(), reduction="sum").backward()
    for layer, hidden in enumerate(outputs.layers):
        assert hidden.grad is not None
        np.testing.assert_allclose(scores[layer], (hidden * hidden.grad).abs().mean((0, 1)).detach(), rtol=1e-4)
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("name", CRITERIA)
def test_a_dead_filter_comes_last(model: LanguageModel, ids: np.ndarray, name: str) -> None:
    if name == "random":
        pytest.skip("random does not look")
    with torch.no_grad():  # z = 0, so c = 0, so h = 0
        model.layers[0].weight[4] = 0
        model.layers[0].bias[4] = 0
    ranking = score(Subject(model, ids), name)
    assert ranking.order(0)[-1] == 4


def test_a_share_of_the_text_is_its_beginning(model: LanguageModel, ids: np.ndarray) -> None:
    part = score(Subject(model, ids, share=0.5), "mean-activation").scores
    beginning = score(Subject(model, ids[:40]), "mean-activation").scores
    assert all(np.array_equal(a, b) for a, b in zip(part, beginning, strict=True))


def test_adding_a_criterion_is_one_function(model: LanguageModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(criteria, "CRITERIA", dict(CRITERIA))

    @criterion("last-first")
    def last_first(subject: Subject) -> criteria.Scores:
        return [torch.arange(size).float() for size in subject.model.shape.hidden_sizes]

    assert list(score(Subject(model), "last-first").order(1)) == [5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize("name", ["taylor", "l0"])
def test_a_taken_name_cannot_be_registered(name: str) -> None:
    before = dict(CRITERIA)
    with pytest.raises(OperatingPointError, match=f"a criterion named '{name}' is already registered by (taylor|the)"):
        criterion(name)(lambda subject: [])
    assert before == CRITERIA


@pytest.mark.parametrize(
    ("returned", "found"),
    [
        (None, "a NoneType"),
        (torch.zeros(9), "a Tensor"),
        ([np.zeros(9), np.zeros(6)], "a list of ndarray"),
        ([torch.zeros(9)], r"scores of shapes \[\(9,\)\]"),
        ([torch.zeros(6), torch.zeros(9)], r"scores of shapes \[\(6,\), \(9,\)\]"),
        ([torch.zeros(9, 1), torch.zeros(6)], r"scores of shapes \[\(9, 1\), \(6,\)\]"),
        ([torch.full((9,), float("nan")), torch.zeros(6)], "a score that is not finite"),
    ],
)
def test_wrong_scores_are_an_error_that_names_the_criterion(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch, returned: object, found: str
) -> None:
    monkeypatch.setitem(CRITERIA, "mine", lambda subject: returned)
    expected = "expected a list of one tensor per layer, of 9, 6 scores: correct the criterion$"
    with pytest.raises(RheostatError, match=f"^criterion 'mine' returned {found}; {expected}") as error:
        score(Subject(model), "mine")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("subject", "name", "expected"),
    [
        ({}, "nonsense", "no criterion 'nonsense'"),
        ({}, "taylor", "give it as data"),
        ({"share": 0.0}, "random", "share"),
    ],
)
def test_a_ranking_that_cannot_be_made_is_an_error(
    model: LanguageModel, subject: dict[str, float], name: str, expected: str
) -> None:
    with pytest.raises(OperatingPointError, match=expected):
        score(Subject(model, **subject), name)  # type: ignore[arg-type]


def test_a_searched_allocation_meets_its_targets_and_loses_no_more_than_the_uniform_one(
    model: LanguageModel, ids: np.ndarray
) -> None:
    ranking = score(Subject(model), "filter-norm")
    weights, measured = model.state_dict(), []

    def loss(point: object) -> float:
        measured.append(point)
        small, shape = cut(weights, SHAPE, point)  # type: ignore[arg-type]
        return measure_quality(LanguageModel.from_weights(shape, small), ids).loss

    targets = [0.6, 0.8]
    points = search_allocation(ranking, SHAPE, targets, loss, budget=40)
    assert [point.name for point in points] == ["filter-norm-searched-0.8", "filter-norm-searched-0.6"]
    for point, target in zip(points, (0.8, 0.6), strict=True):
        assert point.flops_fraction <= target
        assert loss(point) <= loss(select(ranking, SHAPE, target))


def test_a_search_without_a_budget_is_refused(model: LanguageModel) -> None:
    with pytest.raises(OperatingPointError, match="budget"):
        search_allocation(score(Subject(model), "random"), SHAPE, [0.5], lambda point: 0.0, budget=1)


def test_json_names_the_stored_ranking(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "tiny.safetensors")
    told = json.loads(rheostat("prune", path, "--criterion", "random", "--seed", 7, "-o", path, "--json"))
    filters = list(TINY["qrnn"].hidden_sizes)
    assert told["rankings"] == [{"name": "random", "criterion": "random", "seed": 7, "filters": filters}]


def test_several_criteria_are_one_command_and_one_output(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "tiny.safetensors", rankings=[], points=[], default_ranking=None)
    out = tmp_path / "ranked.safetensors"
    printed = rheostat("prune", path, "--criterion", "random", "--criterion", "filter-norm", "-o", out)
    assert printed.splitlines()[-1] == f"{out}: the knob uses ranking 'filter-norm'"
    with open_model(out) as file:
        assert [entry.name for entry in file.description.rankings] == ["random", "filter-norm"]
    for options, message in (
        (["--criterion", "random"], "the criterion random was given more than once"),
        (["--criterion", "filter-norm", "--name", "mine"], "the name mine was given for 2 rankings"),
        (["--criterion", "l0"], "l0 learns points instead of a ranking"),
    ):
        with pytest.raises(OperatingPointError, match=message):
            rheostat("prune", path, "--criterion", "random", *options, "-o", out)


def test_the_knob_does_not_use_random_by_default_and_prune_says_so(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "tiny.safetensors", rankings=[], points=[], default_ranking=None)
    printed = rheostat("prune", path, "--criterion", "random", "-o", path)
    assert "the knob uses no ranking, because 'random' is only for comparison." in printed
    assert printed.endswith("--ranking random, or rheostat pack --default-ranking random\n")
    told = json.loads(rheostat("prune", path, "--criterion", "random", "-o", path, "--json"))
    assert told["default_ranking"] is None


def test_ranking_from_python_writes_only_if_out_is_given(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "tiny.safetensors", rankings=[], points=[], default_ranking=None)
    before, told = path.read_bytes(), []
    found = steps.rank(path, ["filter-norm", "random"], seed=3, progress=lambda *what: told.append(what))
    assert found.model is None and [ranking.name for ranking in found.rankings] == ["filter-norm", "random"]
    assert found.rankings[1].seed == 3 and path.read_bytes() == before
    stored = steps.rank(path, "filter-norm", name="norm", out=tmp_path / "out")
    assert stored.model == tmp_path / "out" and stored.default_ranking == "norm"
    with open_model(tmp_path / "out") as file:
        np.testing.assert_array_equal(file.ranking("norm").scores[0], found.rankings[0].scores[0])


@pytest.mark.parametrize("knob", ["0.8", True, [0.8, "x"], 0, 7, float("nan")], ids=str)
def test_learning_refuses_a_wrong_knob_before_it_reads_anything(tmp_path: Path, knob: Any) -> None:
    for step in (steps.learn_point, steps.recover):
        with pytest.raises(OperatingPointError, match=r"expected a .*share of the cost"):
            step(tmp_path / "absent", data="nowhere", out=tmp_path / "out", knob=knob)
    with pytest.raises(RheostatError, match=r"strength is .x. .*expected a number"):
        steps.learn_point(tmp_path / "absent", data="nowhere", out=tmp_path / "out", strength="x")  # type: ignore[arg-type]


def test_an_unknown_criterion_error_lists_all_criteria(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "tiny.safetensors")
    with pytest.raises(OperatingPointError, match=r"no criterion 'nope'; expected one of random, .*, l0$"):
        rheostat("prune", path, "--criterion", "nope", "-o", path)


def test_criteria_at_the_widths_of_a_swept_point_of_another_file(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "tiny.safetensors", rankings=[], points=[], default_ranking=None)
    widths = [max(1, size - 2) for size in TINY["qrnn"].hidden_sizes]
    rows = [full(), row("l0-0.6", "l0", 0.6, "test", 80.0, allocation="stored", widths=widths)]
    swept = write_sweep(tmp_path / "swept.json", rows)
    several = ("--criterion", "random", "--criterion", "filter-norm")
    rheostat("prune", path, *several, "--widths-from", swept, "--widths-of", "l0-0.6", "-o", path)
    with open_model(path) as file:
        for name in ("random", "filter-norm"):
            point, ranking = file.point(f"{name}-at-l0-0.6"), file.ranking(name)
            assert list(point.widths) == widths
            for layer, kept in enumerate(point.keep):
                np.testing.assert_array_equal(kept, np.sort(ranking.order(layer)[: widths[layer]]))
    for options, message in (
        (("--widths-from", swept), "--widths-from works only with --widths-of"),
        (("--widths-from", swept, "--widths-of", "l0-0.7"), r"has no point 'l0-0.7'; expected one of .*l0-0.6"),
    ):
        with pytest.raises(OperatingPointError, match=message):
            rheostat("prune", path, "--criterion", "random", *options, "-o", path)
    for wrong in ([1], [0, *widths[1:]], [10**6, *widths[1:]]):
        with pytest.raises(OperatingPointError, match="expected one width for each, from 1 to its size"):
            steps.rank(path, "random", widths_of={"wrong": wrong})
