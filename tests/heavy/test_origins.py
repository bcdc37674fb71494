"""Every command records the origin of what it makes, and no command loses the origins of others."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from commands import rheostat, stop_at
from rheostat.model.file import open_model
from rheostat.model.origin import Origin
from rheostat.text.corpus import CorpusConfig, load_split

SHORT = ("--set", "train.steps=6", "--set", "train.batch_size=2", "--set", "train.sequence_length=10")


@pytest.fixture(scope="module")
def trained(corpus_folder: Path, recipe_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("origins") / "run"
    rheostat("train", recipe_file, "--data", corpus_folder, "-o", folder)
    return folder / "model.safetensors"


@pytest.fixture(scope="module")
def ranked(trained: Path, corpus_folder: Path) -> Path:
    """A model with a ranking that read no text, one that did, and searched points."""
    path = trained.with_name("ranked.safetensors")
    rheostat("prune", trained, "--criterion", "filter-norm", "--data", corpus_folder, "-o", path)
    searching = ("--search", "--knob", 0.8, "--budget", 10, "--search-tokens", 50)
    rheostat("prune", path, "--criterion", "mean-activation", "--data", corpus_folder, *searching, "-o", path)
    return path


def weights_digest(path: Path) -> str:
    with open_model(path) as file:
        return file.weights_digest()


def text_digest(path: Path, data: Path, split: str = "train") -> str | None:
    with open_model(path) as file:
        return load_split(str(data), split, CorpusConfig("words"), file.vocabulary).digest


def check_process(origin: Origin) -> None:
    assert origin.command and origin.version and origin.date


def test_trained_weights_record_how_they_were_made(trained: Path, corpus_folder: Path) -> None:
    with open_model(trained) as file:
        origin, run = file.origin, file.description.provenance["run"]
    check_process(origin)
    assert (origin.steps, origin.tokens_read) == (run["steps"], run["training_tokens"]) and origin.steps
    assert origin.recipe and origin.recipe["train"]["epochs"] == 2 and origin.seed == origin.recipe["train"]["seed"]
    assert origin.recipe["model"]["hidden_size"] == 20
    assert (origin.corpus, origin.corpus_digest) == (corpus_folder.name, text_digest(trained, corpus_folder))
    assert origin.recipe["data"] == corpus_folder.name, "the corpus that was read, not the one the recipe names"
    assert origin.made_from == "" and origin.before is None, "they were made from no others"


def test_weights_trained_from_others_link_to_them(
    trained: Path, corpus_folder: Path, recipe_file: Path, tmp_path: Path
) -> None:
    rheostat("train", recipe_file, "--data", corpus_folder, "--from", trained, "-o", tmp_path / "run", *SHORT)
    with open_model(trained) as first, open_model(tmp_path / "run" / "model.safetensors") as second:
        assert second.origin.made_from == first.weights_digest()
        assert second.origin.before == first.origin
        assert second.origin.recipe and "model" not in second.origin.recipe, "its shape is that of the first"


def test_a_graded_ranking_links_to_the_one_it_was_ordered_by(
    ranked: Path, corpus_folder: Path, recipe_file: Path, tmp_path: Path
) -> None:
    graded = ("--set", "train.graded=0.6", "--set", "graded.ranking=filter-norm", *SHORT)
    given = ("--data", corpus_folder, "--from", ranked, "-o", tmp_path / "run")
    rheostat("train", recipe_file, *given, *graded, "--set", "train.batch_size=4")
    with open_model(ranked) as before, open_model(tmp_path / "run" / "model.safetensors") as after:
        origin = after.ranking("graded").origin
        assert origin.steps == after.origin.steps and origin.made_from == before.weights_digest()
        assert origin.before == before.ranking("filter-norm").origin
        assert after.origin.before == before.origin


def test_a_ranking_records_what_it_read(ranked: Path, trained: Path, corpus_folder: Path) -> None:
    with open_model(ranked) as file:
        norm, activation = file.ranking("filter-norm").origin, file.ranking("mean-activation").origin
        tokens = load_split(str(corpus_folder), "train", CorpusConfig("words"), file.vocabulary).tokens
    for origin in (norm, activation):
        check_process(origin)
        assert origin.made_from == weights_digest(trained) and origin.steps == 0
    assert (norm.tokens_read, norm.corpus, norm.corpus_digest) == (0, "", "")
    assert activation.recipe == {"criterion": "mean-activation", "share": 1.0}
    assert activation.corpus == corpus_folder.name
    assert activation.corpus_digest == text_digest(ranked, corpus_folder)
    assert activation.tokens_read and 0.8 * tokens < activation.tokens_read <= tokens


def test_a_random_ranking_records_its_seed(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "random.safetensors"
    rheostat("prune", trained, "--criterion", "random", "--seed", 7, "-o", out)
    with open_model(out) as file:
        assert file.ranking("random").origin.seed == 7
        assert file.description.default_ranking is None, "nobody means to cut by chance for good"


def test_a_searched_point_links_to_its_ranking(ranked: Path, corpus_folder: Path) -> None:
    with open_model(ranked) as file:
        origin, ranking = file.point("mean-activation-searched-0.8").origin, file.ranking("mean-activation")
    check_process(origin)
    assert origin.before == ranking.origin and origin.seed is None
    assert origin.recipe == {"search": {"knob": [0.8], "budget": 10, "tokens": 50}}
    assert origin.corpus_digest == text_digest(ranked, corpus_folder, "valid")
    assert origin.tokens_read and origin.tokens_read % 50 == 0 and origin.tokens_read >= 10 * 50 / 2


def test_learned_points_record_how_they_were_learned(ranked: Path, corpus_folder: Path, tmp_path: Path) -> None:
    gated, recovered = tmp_path / "gated.safetensors", tmp_path / "recovered.safetensors"
    rheostat("prune", ranked, "--criterion", "l0", "--knob", 0.8, "--data", corpus_folder, "-o", gated, *SHORT)
    with open_model(gated) as file:
        point, ranking = file.point("l0-0.8").origin, file.ranking("gates-0.8").origin
        assert file.ranking("filter-norm").origin.is_recorded, "what was recorded before stays"
    assert point == ranking and point.before is None
    given = ("--point", "l0-0.8", "--data", corpus_folder)
    rheostat("recover", gated, *given, "-o", recovered, *SHORT)
    rheostat("recover", recovered, *given, "-o", recovered, *SHORT)
    with open_model(recovered) as file:
        update = file.point("l0-0.8").origin
    for origin in (point, update):
        check_process(origin)
        assert origin.steps == 6 and origin.tokens_read and origin.recipe and origin.seed is not None
        assert origin.made_from == weights_digest(ranked)
        assert origin.corpus_digest == text_digest(ranked, corpus_folder)
    assert update.before == point, "an update that was learned again replaces the one before"


def test_new_clusters_link_to_the_weights_before(trained: Path, corpus_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "split.safetensors"
    rheostat("resplit", trained, "--data", corpus_folder, "--tails", 2, "--tokens", 1000, "-o", out)
    with open_model(trained) as before, open_model(out) as after:
        check_process(after.origin)
        assert after.origin.before == before.origin and after.origin.made_from == before.weights_digest()
        assert after.origin.corpus_digest == text_digest(trained, corpus_folder)
        assert after.origin.tokens_read and after.origin.tokens_read > 1000
        assert after.description.recipe == before.description.recipe


def test_pack_keeps_origins_and_inspect_shows_them(ranked: Path, tmp_path: Path) -> None:
    out = tmp_path / "packed.safetensors"
    rheostat("pack", ranked, "--precision", "int8", "-o", out)
    with open_model(ranked) as before, open_model(out) as after:
        assert before.origin == after.origin
        for one, other in zip(before.rankings(), after.rankings(), strict=True):
            assert one.origin == other.origin
    summary = json.loads(rheostat("inspect", out, "--json"))
    assert Origin.from_json(summary["origin"]).is_recorded
    assert all(Origin.from_json(entry["origin"]).is_recorded for entry in summary["rankings"] + summary["points"])
    shown = rheostat("inspect", out, "--all")
    for text in ("ranking filter-norm", "point mean-activation-searched-0.8", "tokens read", "before: tokens read"):
        assert text in shown


def test_a_resumed_run_records_the_command_that_started_it(
    corpus_folder: Path, recipe_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    monkeypatch.setattr(sys, "argv", ["rheostat", "train", "small.toml"])
    stop_at(3, "train", recipe_file, "--data", corpus_folder, "-o", out, *SHORT)
    monkeypatch.setattr(sys, "argv", ["rheostat", "train", "--resume"])
    rheostat("train", "--resume", "-o", out)
    with open_model(out / "model.safetensors") as file:
        assert file.origin.command == "rheostat train small.toml" and file.origin.steps == 6
        assert file.description.provenance["command"] == "rheostat train --resume"
