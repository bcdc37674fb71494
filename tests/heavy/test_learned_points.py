"""L0 gates and single-rank updates: closed forms, frozen weights, and what a stored point does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from commands import rheostat, stop_at  # noqa: E402
from models import write_file  # noqa: E402
from rheostat.errors import CheckpointError, ModelFileError, OperatingPointError  # noqa: E402
from rheostat.model.file import ModelFile, open_model  # noqa: E402
from rheostat.model.knob import choose  # noqa: E402
from rheostat.model.operating_point import OperatingPoint  # noqa: E402
from rheostat.model.shape import ModelShape  # noqa: E402
from rheostat.model.writer import write_model  # noqa: E402
from rheostat.pruning import l0  # noqa: E402
from rheostat.pruning.recovery import UpdateConfig, UpdateLoss  # noqa: E402
from rheostat.pruning.run import Texts, learn_gates, learn_update  # noqa: E402
from rheostat.pruning.steps import learn_point, recover  # noqa: E402
from rheostat.training import session  # noqa: E402
from rheostat.training.language_model import Adjustment, LanguageModel  # noqa: E402
from rheostat.training.layers import LowRank  # noqa: E402
from rheostat.training.regularization import RegularizationConfig  # noqa: E402
from rheostat.training.run_folder import RunFolder  # noqa: E402

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def model_path(corpus_folder: Path, recipe_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small trained model with a filter-norm ranking."""
    folder = tmp_path_factory.mktemp("model")
    rheostat("train", recipe_file, "--data", corpus_folder, "-o", folder / "run")
    path = folder / "model.safetensors"
    rheostat("prune", folder / "run" / "model.safetensors", "--criterion", "filter-norm", "-o", path)
    return path


def weight_bytes(path: Path) -> dict[str, bytes]:
    with open_model(path) as file:
        return {name: file.raw(name).tobytes() for name in file.shape.tensor_shapes()}


def perplexity(path: Path, data: Path, *arguments: object) -> dict[str, float]:
    answer = rheostat("evaluate", path, "--data", data, "--split", "valid", "--json", *arguments)
    return dict(json.loads(answer))


@pytest.mark.parametrize("log_alpha", [-3.0, -0.5, 0.0, 1.0, 4.0])
def test_closed_forms_agree_with_sampling(log_alpha: float) -> None:
    noise = torch.rand(400_000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    gates = l0.sample_gates(torch.tensor(log_alpha, dtype=torch.float64), noise)
    assert ((gates >= 0) & (gates <= 1)).all()
    expected = float(l0.probability_open(torch.tensor(log_alpha)))
    assert float((gates > 0).double().mean()) == pytest.approx(expected, abs=0.004)


def test_the_test_time_gate_is_near_the_mean_of_samples_and_closed_or_open_like_most_of_them() -> None:
    log_alpha = torch.linspace(-6, 6, 25, dtype=torch.float64)
    noise = torch.rand(100_000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    samples, gates = l0.sample_gates(log_alpha[:, None], noise), l0.test_time_gates(log_alpha)
    assert float((samples.mean(1) - gates).abs().max()) < 0.11
    for end in (0, 1):
        assert int((gates == end).sum()) > 5
        assert ((samples == end).double().mean(1)[gates == end] > 0.6).all()
    # β only widens the noise: without noise, the gate is that of the median, where β has no effect
    middle = torch.full_like(log_alpha, 0.5)
    torch.testing.assert_close(gates, l0.sample_gates(l0.BETA * log_alpha, middle))


def test_the_controller_follows_its_path_and_finds_a_strength_that_holds() -> None:
    controller = l0.StrengthController(l0.GateConfig(knob=0.5, path=0.5))
    assert [controller.wanted(share) for share in (0.0, 0.25, 0.5, 1.0)] == [1.0, 0.75, 0.5, 0.5]
    # a model whose share falls the faster the stronger the penalty, and recovers without it
    share, integral = 1.0, torch.zeros(())
    for step in range(4000):
        strength = controller.strength(integral, share, step / 4000)
        share = min(1.0, max(0.0, share + 0.002 * (1 - share) - 0.5 * strength))
    assert share == pytest.approx(0.5, abs=0.01)


def test_the_path_takes_a_share_of_the_run() -> None:
    for path in (0.0, 1.1):
        with pytest.raises(ValueError, match=f"path is {path}"):
            l0.GateConfig(path=path, polish=0.0)
    assert l0.GateConfig(path=1.0, polish=0.0).path == 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA here")
def test_gates_are_learned_and_chosen_on_an_accelerator() -> None:
    config, shape = l0.GateConfig(knob=0.7, polish=0.3), ModelShape(9, 4, (12, 4), (2, 1))
    loss = l0.GateLoss(LanguageModel(shape), config, RegularizationConfig(), 2, "fp32").to("cuda")
    ids = torch.randint(9, (7, 2), device="cuda")
    for _ in range(3):
        loss(ids, ids, loss.model.initial_state(2)).objective.backward()
    assert loss.is_chosen and len(loss.keep()) == 2


def test_at_the_end_the_choice_is_fixed_and_its_gates_are_stored() -> None:
    torch.manual_seed(0)
    shape = ModelShape(9, 4, (12, 4), (2, 1))
    loss = l0.GateLoss(LanguageModel(shape), l0.GateConfig(knob=0.7, polish=0.3), RegularizationConfig(), 10, "fp32")
    with torch.no_grad():
        for layer in loss.log_alpha:
            layer.normal_(0, 3)
    expected = loss.keep()
    for _ in range(7):
        assert loss.adjustment().gates is not None and loss.penalty() is not None and not loss.is_chosen
    first, second = loss.adjustment().gates, loss.adjustment().gates
    assert first is not None and second is not None and loss.penalty() is None and loss.is_chosen
    point = l0.point_of(list(loss.log_alpha), loss.keep(), shape, "l0-0.7")
    for kept, wanted, gates, again, stored in zip(point.keep, expected, first, second, point.gates or (), strict=True):
        np.testing.assert_array_equal(kept, wanted)
        torch.testing.assert_close(gates, again)  # no noise
        np.testing.assert_allclose(gates.detach().numpy()[kept], stored)
        assert int((gates == 0).sum()) == len(gates) - len(kept)


def test_a_gate_on_the_output_equals_a_gate_on_z() -> None:
    torch.manual_seed(0)
    model, ids = LanguageModel(ModelShape(9, 4, (5, 4), (2, 1))), torch.randint(9, (7, 2))
    gates = [torch.rand(5), torch.rand(4)]
    ours = model(ids, model.initial_state(2), adjustment=Adjustment(gates=gates)).raw
    hidden = model.embedding.weight[ids]
    for layer, gate in zip(model.layers, gates, strict=True):
        before = torch.cat([torch.zeros_like(hidden[:1]), hidden[:-1]])
        windows = torch.cat([before, hidden], dim=-1) if layer.window == 2 else hidden
        z, f, o = (windows @ layer.weight.t() + layer.bias).chunk(3, dim=-1)
        z, f, o = gate * z.tanh(), f.sigmoid(), o.sigmoid()
        cell, outputs = torch.zeros_like(z[0]), []
        for t in range(len(z)):
            cell = f[t] * cell + (1 - f[t]) * z[t]
            outputs.append(o[t] * cell)
        hidden = torch.stack(outputs)
    torch.testing.assert_close(ours, hidden)


def test_an_applied_update_equals_a_merged_one() -> None:
    torch.manual_seed(0)
    shape = ModelShape(9, 4, (5, 4), (2, 1))
    model, ids = LanguageModel(shape), torch.randint(9, (7, 2))
    updates = [LowRank(torch.randn(u), torch.randn(v)) for u, v in shape.update_shapes(2)]
    applied = model(ids, model.initial_state(2), adjustment=Adjustment(updates=updates)).raw
    weights = model.state_dict()
    for layer, update in enumerate(updates):
        weights[f"layers.{layer}.weight"] = weights[f"layers.{layer}.weight"] + update.u @ update.v
    merged = LanguageModel.from_weights(shape, weights)
    torch.testing.assert_close(applied, merged(ids, merged.initial_state(2)).raw)


def test_frozen_weights_get_no_gradient() -> None:
    model = LanguageModel(ModelShape(9, 4, (5, 4), (2, 1)))
    module = UpdateLoss(model, UpdateConfig(), RegularizationConfig())
    ids = torch.randint(9, (7, 2))
    module(ids, ids, model.initial_state(2)).objective.backward()
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(parameter.grad is not None for parameter in module.u)


def test_a_zero_start_begins_exactly_at_the_weights() -> None:
    model = LanguageModel(ModelShape(9, 4, (5, 4), (2, 1)))
    module, ids = UpdateLoss(model, UpdateConfig(start="zero"), RegularizationConfig()), torch.randint(9, (7, 2))
    state = model.initial_state(2)
    assert torch.equal(model(ids, state, adjustment=module.adjustment()).raw, model(ids, state).raw)


def test_gates_meet_the_knob_and_do_not_change_the_weights(
    model_path: Path, corpus_folder: Path, tmp_path: Path
) -> None:
    out, steps = tmp_path / "l0.safetensors", ["--set", "train.steps=80", "--set", "train.batch_size=4"]
    knobs = ["--knob", "0.8", "--knob", "0.5"]
    others = tmp_path / "l0.safetensors.run" / "knob-0.3"  # an unfinished run of another command
    others.mkdir(parents=True)
    answer = rheostat(
        "prune", model_path, "--criterion", "l0", *knobs, "--data", corpus_folder, "-o", out, *steps, "--json"
    )
    points = json.loads(answer)["points"]
    assert [point["name"] for point in points] == ["l0-0.8", "l0-0.5"]
    for point, knob in zip(points, (0.8, 0.5), strict=True):
        # in such a small model, one filter costs more than the tolerance of one hundredth
        assert knob - 0.05 < point["flops_fraction"] <= knob
    assert weight_bytes(out) == weight_bytes(model_path)
    assert list((tmp_path / "l0.safetensors.run").iterdir()) == [others]
    found = perplexity(out, corpus_folder, "--knob", "0.8", "--criterion", "l0")["point"]
    assert found in (
        "l0-0.8",
        "gates-0.8-0.8",
    )  # the stored point if it is close enough, otherwise the gates as a ranking


def test_a_stronger_penalty_closes_more_gates(model_path: Path, corpus_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "l0.safetensors"
    rates = ["--set", "train.steps=60", "--set", "train.batch_size=4", "--set", "train.learning_rate=0.2"]
    strengths = ["--strength", "1e-4", "--strength", "0.3"]
    answer = rheostat(
        "prune", model_path, "--criterion", "l0", *strengths, "--data", corpus_folder, "-o", out, *rates, "--json"
    )
    weak, strong = json.loads(answer)["points"]
    assert strong["flops_fraction"] < weak["flops_fraction"] <= 1


def test_a_strength_of_zero_is_refused(model_path: Path, corpus_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(OperatingPointError, match="expected positive numbers"):
        rheostat(
            "prune", model_path, "--criterion", "l0", "--strength", "0", "--data", corpus_folder, "-o", tmp_path / "m"
        )


def test_an_update_recovers_quality_and_costs_its_bytes(model_path: Path, corpus_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "recovered.safetensors"
    arguments = ["--knob", "0.5", "--criterion", "filter-norm", "--data", corpus_folder, "-o", out]
    schedule = ["--set", "train.steps=150", "--set", "train.batch_size=4"]
    answer = rheostat("recover", model_path, *arguments, *schedule, "--rank", "2", "--json")
    point = json.loads(answer)["points"][0]
    assert point["used"] == "ranking filter-norm"
    with open_model(out) as file:
        stored = file.point(point["name"])
        cut = file.shape.with_hidden_sizes(stored.widths)
        assert point["update_bytes"] == 4 * sum(2 * (u[0] + v[1]) for u, v in cut.update_shapes())
    assert weight_bytes(out) == weight_bytes(model_path)
    assert not (tmp_path / "recovered.safetensors.run").exists()
    before = perplexity(out, corpus_folder, "--knob", "0.5", "--ranking", "filter-norm")
    after = perplexity(out, corpus_folder, "--point", point["name"])
    assert after["point"] == point["name"] and after["flops_fraction"] == before["flops_fraction"]
    assert after["perplexity"] < before["perplexity"]


def test_reconstruction_combines_with_gates_and_with_an_update_on_top(
    model_path: Path, corpus_folder: Path, tmp_path: Path
) -> None:
    out, data = tmp_path / "out.safetensors", ["--data", corpus_folder]
    few = ["--set", "train.steps=2", "--set", "train.batch_size=4"]
    rheostat("prune", model_path, "--criterion", "l0", "--knob", "0.7", *data, "-o", out, *few)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a short text
        rheostat("reconstruct", out, "--ranking", "filter-norm", "--point", "l0-0.7", *data, "-o", out)
    rheostat("recover", out, "--point", "l0-0.7-reconstructed", "--name", "gated", *data, "-o", out, *few)
    rheostat("recover", out, "--knob", "0.5", "--name", "by-error", *data, "-o", out, *few)
    with open_model(out) as file:
        gated, cut = file.point("gated"), file.point("by-error")
        assert gated.gates is not None and gated.updates is not None and gated.reconstruction is file.reconstruction
        assert cut.updates is not None and cut.reconstruction is file.reconstruction and cut.flops_fraction <= 0.5
        # Nothing but the update differs from the point that it was trained on.
        for point, start in ((gated, file.point("l0-0.7-reconstructed")), (cut, choose(file, 0.5))):
            assert replace(point, updates=None).digest == replace(start, updates=None).digest
    bare = perplexity(out, corpus_folder, "--point", "l0-0.7-reconstructed")["perplexity"]
    assert perplexity(out, corpus_folder, "--point", "gated")["perplexity"] == pytest.approx(bare, rel=0.2)


@pytest.mark.parametrize("what", ["bias", "gate"])
def test_controls_train_biases_or_gates_alone(what: str, model_path: Path, corpus_folder: Path, tmp_path: Path) -> None:
    """What a layer reads is three times too much here, so that gates below 1 and other biases must both help."""
    out, model = tmp_path / "recovered.safetensors", tmp_path / "model.safetensors"
    with open_model(model_path) as file:
        contents = file.contents()
        loud = {"layers.1.weight": 3 * contents.weights["layers.1.weight"]}
        write_model(model, replace(contents, weights={**contents.weights, **loud}))
    arguments = ["--knob", "0.5", "--criterion", "filter-norm", "--data", corpus_folder, "-o", out, "--what", what]
    rheostat("recover", model, *arguments, "--set", "train.steps=150", "--set", "train.batch_size=4")
    with open_model(out) as file:
        (point,) = [one for one in file.points() if one.name.startswith("filter-norm")]
        assert (point.biases is not None, point.gates is not None) == (what == "bias", what == "gate")
        assert point.updates is None
    before = perplexity(out, corpus_folder, "--knob", "0.5", "--ranking", "filter-norm")
    after = perplexity(out, corpus_folder, "--point", point.name)
    assert after["perplexity"] < 0.99 * before["perplexity"]


def test_a_distilled_update_recovers_quality_and_resumes_after_a_stop(
    model_path: Path, corpus_folder: Path, tmp_path: Path
) -> None:
    """The checkpoint also has the teacher's state."""
    bare = perplexity(model_path, corpus_folder, "--ranking", "filter-norm", "--knob", "0.5")
    options = [
        "--recipe",
        "fast",
        "--set",
        "train.steps=60",
        "--distill",
        "--set",
        "train.checkpoint_minutes=0.0",
        "--set",
        "train.batch_size=4",
    ]
    where = ["--ranking", "filter-norm", "--knob", "0.5", "--data", corpus_folder]
    rheostat("recover", model_path, *where, *options, "-o", tmp_path / "once.safetensors")
    point = ["--point", "filter-norm-0.5"]
    assert perplexity(tmp_path / "once.safetensors", corpus_folder, *point)["perplexity"] < bare["perplexity"]

    stop_at(30, "recover", model_path, *where, *options, "-o", tmp_path / "twice.safetensors")
    assert (tmp_path / "twice.safetensors.run" / "filter-norm-0.5" / "checkpoint.pt").exists()
    rheostat("recover", model_path, *where, *options, "-o", tmp_path / "twice.safetensors")
    once, twice = (open_model(tmp_path / f"{name}.safetensors").point("filter-norm-0.5") for name in ("once", "twice"))
    for layer in range(len(once.widths)):
        np.testing.assert_array_equal(once.update(layer).u, twice.update(layer).u)


@pytest.mark.parametrize("name", ["{folder}", "../precious", "", "a/b", ".."])
def test_a_name_that_is_a_path_is_refused_and_deletes_nothing(model_path: Path, tmp_path: Path, name: str) -> None:
    """The name of a point is part of the name of its run's folder."""
    precious, work = tmp_path / "precious", tmp_path / "work"
    precious.mkdir()
    work.mkdir()
    (precious / "file").write_text("kept")
    options = ["--data", tmp_path / "no-corpus", "-o", work / "out.safetensors", "--name", name.format(folder=precious)]
    for command in (["recover", "--knob", "0.5"], ["prune", "--criterion", "filter-norm"]):
        with pytest.raises(ModelFileError, match=r"the name .* in --name; expected up to 80 letters"):
            rheostat(*command, model_path, *options)
    assert (precious / "file").read_text() == "kept" and not list(work.iterdir())


@pytest.mark.parametrize("option", [["--search", "--knob", "0.5"], ["--widths-of", "l0-0.7"]])
def test_names_of_points_are_checked_before_any_work(model_path: Path, tmp_path: Path, option: list[str]) -> None:
    """A ranking's name can be valid and too long for the points that are named after it."""
    options = ["--data", tmp_path / "no-corpus", "-o", tmp_path / "out.safetensors", "--name", "n" * 80, *option]
    with pytest.raises(ModelFileError, match=r"the name .* in the points to store; expected up to 80 letters"):
        rheostat("prune", model_path, "--criterion", "filter-norm", *options)


def test_recovery_names_the_point_or_ranking_that_it_used(
    model_path: Path, corpus_folder: Path, tmp_path: Path
) -> None:
    steps_of_a_test = ["--set", "train.steps=2", "--set", "train.batch_size=4"]
    out, data = tmp_path / "out.safetensors", ["--data", corpus_folder]
    rheostat("prune", model_path, "--criterion", "l0", "--knob", "0.7", *data, "-o", out, *steps_of_a_test)
    printed = rheostat("recover", out, "--point", "l0-0.7", "--name", "again", *data, "-o", out, *steps_of_a_test)
    assert "point 'again'" in printed and printed.endswith("bytes of update, from point l0-0.7\n")
    printed = rheostat("recover", out, "--knob", "0.5", *data, "-o", out, *steps_of_a_test)
    assert printed.endswith(", from ranking filter-norm\n")
    with pytest.raises(OperatingPointError, match="the name again was given for 2 points"):
        rheostat("recover", out, "--knob", "0.5", "--knob", "0.4", "--name", "again", *data, "-o", out)


def test_points_are_learned_from_python_on_one_file(model_path: Path, corpus_folder: Path, tmp_path: Path) -> None:
    text, out = corpus_folder / "train.txt", tmp_path / "out.safetensors"
    changes = ["train.steps=2", "train.batch_size=4"]
    learned = learn_point(model_path, data=text, out=out, knob=0.7, changes=changes)
    assert [point.name for point in learned.points] == ["l0-0.7"] and learned.default_ranking == "filter-norm"
    recovered = recover(out, data=text, out=out, knob=[0.7, 0.5], rank=2, changes=changes)
    assert [point.update_rank for point in recovered.points] == [2, 2]
    assert set(recovered.used.values()) <= {"point l0-0.7", "ranking filter-norm"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.safetensors"]


def test_a_run_deletes_only_what_a_run_writes(model_path: Path, tmp_path: Path) -> None:
    """If a folder happens to have the name of the run's folder, its files stay."""
    folder, texts = tmp_path / "run", Texts(IDS, IDS)
    (folder / "tensorboard").mkdir(parents=True)
    for mine in ("notes.txt", "tensorboard/notes.txt"):
        (folder / mine).write_text("kept")
    with open_model(model_path) as file:
        learn_gates(file, TABLES, texts, folder, Silence())
    RunFolder(folder).remove()
    assert sorted(path.name for path in folder.rglob("*")) == ["notes.txt", "notes.txt", "tensorboard"]


def test_a_killed_recovery_resumes_and_ends_the_same(model_path: Path, corpus_folder: Path, tmp_path: Path) -> None:
    schedule = ["--set", "train.steps=60", "--set", "train.batch_size=4", "--set", "train.checkpoint_minutes=0.0"]

    def command(out: Path) -> list[object]:
        return ["recover", model_path, "--knob", "0.5", "--data", corpus_folder, "-o", out, *schedule]

    whole, broken = tmp_path / "whole.safetensors", tmp_path / "broken.safetensors"
    rheostat(*command(whole))
    process = subprocess.Popen([sys.executable, "-m", "rheostat", *map(str, command(broken))], env=ENVIRONMENT)
    checkpoint = tmp_path / "broken.safetensors.run" / "filter-norm-0.5" / "checkpoint.pt"
    for _ in range(2000):
        if checkpoint.exists() or process.poll() is not None:
            break
        time.sleep(0.02)
    process.kill()
    assert process.wait() == -signal.SIGKILL and not broken.exists()
    rheostat(*command(broken))
    with open_model(whole) as first, open_model(broken) as second:
        for ours, theirs in zip(
            first.point("filter-norm-0.5").updates or (), second.point("filter-norm-0.5").updates or (), strict=True
        ):
            assert ours is not None and theirs is not None
            assert np.array_equal(ours.u, theirs.u) and np.array_equal(ours.v, theirs.v)


class Silence:
    """A reporter that reports nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


IDS = np.random.default_rng(0).integers(0, 5, 400)
TABLES = {"train": {"steps": 2, "batch_size": 2, "sequence_length": 10, "optimizer": "adam"}}


def other_model(file: ModelFile, path: Path) -> ModelFile:
    """A model of the same shape and vocabulary, with other weights."""
    weights = {name: 0.9 * weight for name, weight in file.weights().items()}
    write_file(path, shape=file.shape, vocabulary=file.vocabulary, weights=weights, text=file.description.text)
    return open_model(path)


def other_point(point: OperatingPoint) -> OperatingPoint:
    """A point of the same name and widths, with other filters."""
    sizes = [max(kept) + 1 for kept in point.keep]
    keep = tuple(np.sort(size - 1 - kept).astype(np.int32) for size, kept in zip(sizes, point.keep, strict=True))
    return replace(point, keep=keep)


def test_a_run_with_other_settings_is_not_resumed(model_path: Path, tmp_path: Path) -> None:
    recovery, gates, texts = tmp_path / "recovery", tmp_path / "gates", Texts(IDS, IDS)
    longer = {"train": {**TABLES["train"], "steps": 3}}
    with open_model(model_path) as file, other_model(file, tmp_path / "other.safetensors") as other:
        point = choose(file, 0.5)
        learn_update(file, point, TABLES, texts, recovery, Silence())
        learn_update(file, point, TABLES, texts, recovery, Silence())
        learn_gates(file, TABLES, texts, gates, Silence())
        for what, call in {
            "recipe": lambda: learn_update(file, point, longer, texts, recovery, Silence()),
            "model": lambda: learn_gates(other, TABLES, texts, gates, Silence()),
            "text": lambda: learn_gates(file, TABLES, Texts(IDS, IDS[:300]), gates, Silence()),
            "filters": lambda: learn_update(file, other_point(point), TABLES, texts, recovery, Silence()),
        }.items():
            with pytest.raises(CheckpointError, match=f"holds a different run, with another {what}; remove it"):
                call()


def test_a_run_resumes_with_the_threads_and_the_precision_that_it_started_with(
    model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, threads = Texts(IDS, IDS), torch.get_num_threads()
    with open_model(model_path) as file:
        learn_gates(file, TABLES, texts, tmp_path / "run", Silence())
        saved = torch.load(tmp_path / "run" / "checkpoint.pt", weights_only=True)
        torch.save({**saved, "threads": saved["threads"] + 1}, tmp_path / "run" / "checkpoint.pt")
        monkeypatch.setattr(session, "usable_precision", lambda *_, **__: pytest.fail("precision was chosen again"))
        learn_gates(file, TABLES, texts, tmp_path / "run", Silence())
    assert torch.get_num_threads() == saved["threads"] + 1
    torch.set_num_threads(threads)
