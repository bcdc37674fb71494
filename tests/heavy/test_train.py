"""Training runs from a user's view: started, killed, resumed, distributed, and what they leave behind."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")

from commands import rheostat, stop_at
from models import TINY, make_weights, write_tiny
from rheostat.cli import app, main
from rheostat.cli.learning import RunBar
from rheostat.errors import CheckpointError, CorpusError, RecipeError, RheostatError, RheostatWarning
from rheostat.measure.evaluation import evaluate
from rheostat.metrics import Quality
from rheostat.model.file import open_model
from rheostat.recipe import read_recipe
from rheostat.tables import fill
from rheostat.text.corpus import CorpusConfig
from rheostat.text.mixture import mix
from rheostat.text.token_cache import hash_text, open_cache
from rheostat.training import trainer
from rheostat.training.run import resume, train
from rheostat.training.run_folder import RunFolder
from rheostat.training.trainer import SILENT

TRAIN = [sys.executable, "-m", "rheostat", "train"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}


def run_in_two_processes(*arguments: object) -> None:
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [sys.executable, *torchrun, *TRAIN[1:], *map(str, arguments)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=240, env=ENVIRONMENT)
    assert answer.returncode == 0, answer.stderr


def weights(folder: Path) -> dict[str, np.ndarray]:
    with open_model(folder / "model.safetensors") as file:
        return {name: array.copy() for name, array in file.weights().items()}


def log(folder: Path, event: str) -> list[dict[str, float]]:
    entries = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [entry for entry in entries if entry["event"] == event]


def assert_same_weights(first: Path, second: Path) -> None:
    ours, theirs = weights(first), weights(second)
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        assert np.array_equal(array, theirs[name]), name


def test_a_run_learns_and_leaves_a_model(corpus_folder: Path, recipe_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    answer = rheostat("train", recipe_file, "--data", corpus_folder, "-o", out, "--json")
    figures = json.loads(answer)
    # 3 names, 3 verbs, usually one thing per verb: far below the 14 words of the vocabulary
    assert figures["valid_perplexity"] < 4 and figures["epochs"] == 2
    with open_model(out / "model.safetensors") as file:
        assert file.tokenizer == "words"
        assert file.description.recipe["train"]["epochs"] == 2
        assert file.description.provenance["corpus"]["vocabulary_size"] == len(file.vocabulary)
        assert file.description.provenance["run"]["steps"] > 10
    assert [entry["epoch"] for entry in log(out, "valid")] == [1, 2]
    assert list((out / "tensorboard").iterdir())


def test_a_run_from_python_on_one_file_says_how_it_was_divided(
    corpus_folder: Path, recipe_file: Path, tmp_path: Path
) -> None:
    told: list[str] = []
    reporter = Watching(told)
    text = corpus_folder / "train.txt"
    result = train(recipe_file, data=text, out=tmp_path / "run", changes=["train.epochs=1"], reporter=reporter)
    assert result.model == tmp_path / "run" / "model.safetensors" and (result.epochs, result.steps > 5) == (1, True)
    rule = "blocks of 3 lines: of every 20, one is for valid and one for test (seed 1)"
    assert told[0].startswith(f"train.txt is one file, divided by {rule}; its parts are in ")
    with open_model(result.model) as file:
        assert file.description.provenance["corpus"]["split_rule"] == rule
        assert file.description.provenance["run"]["valid"]["perplexity"] == result.valid_perplexity
    assert resume(tmp_path / "run") == result
    with pytest.warns(RheostatWarning, match=r"trained on most of train\.txt, so these figures are too good"):
        evaluate(result.model, data=text)
    assert evaluate(result.model, data=corpus_folder / "test.txt").split == "text"  # no warning


class Watching(type(SILENT)):  # type: ignore[misc]
    """Keeps the messages."""

    def __init__(self, told: list[str]) -> None:
        self.told = told

    def message(self, text: str) -> None:
        self.told.append(text)


def test_minutes_end_a_run_with_its_cycle_complete(
    corpus_folder: Path, recipe_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = count()  # a second passes whenever it is read, so the test does not depend on the machine
    monkeypatch.setattr(trainer, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    changes = ["train.minutes=10", "train.epochs=1", "train.schedule=one-cycle", "train.random_length=false"]
    result = train(recipe_file, data=corpus_folder, out=tmp_path / "run", changes=changes)
    steps, seconds = log(tmp_path / "run", "train"), log(tmp_path / "run", "valid")[-1]["seconds"]
    assert 600 <= seconds < 610 and result.epochs > 1  # `epochs` does not end it
    peak = max(entry["rate"] for entry in steps)
    assert steps[0]["rate"] < peak / 2 and steps[-1]["rate"] < peak / 20


def test_steps_and_minutes_together_are_refused(corpus_folder: Path, recipe_file: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="steps and minutes are both given"):
        train(recipe_file, data=corpus_folder, out=tmp_path / "run", changes=["train.steps=5", "train.minutes=1"])


def test_a_model_of_a_mixture_records_its_parts(
    recipe_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "talk"
    folder.mkdir()
    talks = ["\n".join(f"talk {number} has line {line}" for line in range(8)) for number in range(80)]
    (folder / "dialogue.txt").write_text("\n\n".join(talks) + "\n")
    (folder / "sentences.txt").write_text("".join(f"This is sentence {number}.\n" for number in range(400)))
    dialogue = {"name": "dialogue", "file": "dialogue.txt", "weight": 2.0, "licence": "CC0 1.0"}
    sentences = {"name": "sentences", "file": "sentences.txt", "conversations": False, "weight": 0.5}
    tables = read_recipe(recipe_file, ["train.epochs=1", "corpus.tokenizer=words"])
    tables["corpus"]["parts"] = [dialogue, sentences]
    result = train(tables, data=folder, out=tmp_path / "run")
    with open_model(result.model) as file:
        origin, corpus = file.origin, file.description.provenance["corpus"]
    assert (origin.corpus, corpus["name"]) == ("talk", "talk")
    assert corpus["parts"] == {"dialogue": 2.0, "sentences": 0.5}
    config = fill(CorpusConfig, tables["corpus"])
    texts = mix(config.parts, folder, config.seed)
    assert origin.corpus_digest == hash_text(texts.paths["train"], open_cache(), None)
    assert origin.recipe and [part["weight"] for part in origin.recipe["corpus"]["parts"]] == [2.0, 0.5]
    assert origin.recipe["corpus"]["parts"][0]["licence"] == "CC0 1.0"

    # Continued from fp16 on what is left of the text: the record says which part was missing.
    rheostat("pack", result.model, "--precision", "fp16", "-o", tmp_path / "packed.safetensors")
    (folder / "sentences.txt").unlink()
    monkeypatch.setenv("RHEOSTAT_DATA", str(tmp_path))
    with pytest.warns(RheostatWarning, match=r"talk lacks sentences\.txt; the corpus is only dialogue"):
        after = train(tables, data="talk", from_model=tmp_path / "packed.safetensors", out=tmp_path / "after")
    with open_model(after.model) as file:
        origin, corpus = file.origin, file.description.provenance["corpus"]
    assert (origin.corpus, corpus["parts"]) == ("talk", {"dialogue": 2.0})
    assert origin.recipe and [part["name"] for part in origin.recipe["corpus"]["parts"]] == ["dialogue"]
    assert origin.before and origin.before.recipe
    assert [part["name"] for part in origin.before.recipe["corpus"]["parts"]] == ["dialogue", "sentences"]


def test_killed_at_any_moment_and_resumed_ends_with_the_same_weights(
    corpus_folder: Path, recipe_file: Path, tmp_path: Path
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    rheostat("train", recipe_file, "--data", corpus_folder, "-o", whole)
    kills = 0
    command = [*TRAIN, str(recipe_file), "--data", str(corpus_folder), "-o", str(broken)]
    for steps in (1, 20, 90):  # a checkpoint is written at every step, so each kill hits another phase
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
        wait_for_step(process, broken, steps)
        process.kill()
        kills += process.wait() == -signal.SIGKILL
        command = [*TRAIN, "--resume", "-o", str(broken)]
    assert kills == 3
    rheostat("train", "--resume", "-o", broken)
    assert_same_weights(whole, broken)
    steps = [entry["step"] for entry in log(broken, "train")]
    assert steps == sorted(set(steps)) == [entry["step"] for entry in log(whole, "train")]
    losses = [[entry["loss"] for entry in log(folder, "train")] for folder in (whole, broken)]
    assert losses[0] == losses[1]


def wait_for_step(process: subprocess.Popen[bytes], folder: Path, step: int) -> None:
    """Wait for the checkpoint of this step or a later one; a little longer ends up in the middle of the next step."""
    import torch

    for _ in range(2000):
        assert process.poll() is None, "the run ended before it was killed"
        try:
            saved = torch.load(folder / "checkpoint.pt", weights_only=True)
        except (OSError, RuntimeError, EOFError):
            saved = {"progress": {"step": 0}}
        if saved["progress"]["step"] >= step:
            return
        time.sleep(0.02)
    raise AssertionError("the run made no progress")


@pytest.fixture(scope="module")
def whole_and_resumed(
    corpus_folder: Path, recipe_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Path]:
    """An uninterrupted run, and the same run stopped right after its first validation and resumed."""
    folder = tmp_path_factory.mktemp("runs")
    whole, broken = folder / "whole", folder / "broken"
    command = ("train", recipe_file, "--data", corpus_folder, "--set", "train.checkpoint_minutes=60")
    rheostat(*command, "-o", whole)
    stop_at(int(log(whole, "valid")[0]["step"]), *command, "-o", broken)
    (broken / ".model.safetensors.partial").write_bytes(b"what a kill left")
    rheostat("train", "--resume", "-o", broken)
    return whole, broken


def test_a_run_stopped_after_validation_and_resumed_ends_with_the_same_weights(
    whole_and_resumed: tuple[Path, Path],
) -> None:
    whole, broken = whole_and_resumed
    assert_same_weights(whole, broken)
    for event in ("train", "valid"):
        assert [entry["loss"] for entry in log(broken, event)] == [entry["loss"] for entry in log(whole, event)]
    names = {"checkpoint.pt", "log.jsonl", "model.safetensors", "tensorboard"}
    assert {path.name for path in broken.iterdir()} == names


def test_tensorboard_keeps_the_validation_that_a_run_was_stopped_after(whole_and_resumed: tuple[Path, Path]) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for folder in whole_and_resumed:
        events = EventAccumulator(str(folder / "tensorboard"))
        events.Reload()
        assert [event.step for event in events.Scalars("valid/loss")] == [e["step"] for e in log(folder, "valid")]


def test_the_model_of_a_resumed_run_records_what_it_was_made_from(
    whole_and_resumed: tuple[Path, Path], corpus_folder: Path
) -> None:
    for folder in whole_and_resumed:
        with open_model(folder / "model.safetensors") as file:
            assert file.description.provenance["asked"] == {"data": [str(corpus_folder)]}


def test_a_resumed_run_needs_its_original_vocabulary(corpus_folder: Path, recipe_file: Path, tmp_path: Path) -> None:
    data, out = shutil.copytree(corpus_folder, tmp_path / "text"), tmp_path / "run"
    stop_at(2, "train", recipe_file, "--data", data, "-o", out, "--set", "train.steps=4")
    text = (data / "train.txt").read_text()
    more, other_order = text + "two newcomers .\n", text + "eve hides the doors .\n" * 500
    for changed in (more, other_order):
        (data / "train.txt").write_text(changed)
        with pytest.raises(
            CheckpointError, match="the words of the corpus, or their order, have changed since the run started"
        ):
            rheostat("train", "--resume", "-o", out)
    (data / "train.txt").write_text(text)
    rheostat("train", "--resume", "-o", out)


def test_a_resumed_run_needs_its_original_weights(corpus_folder: Path, recipe_file: Path, tmp_path: Path) -> None:
    start, out = write_tiny(tmp_path / "start.safetensors"), tmp_path / "run"
    stop_at(2, "train", recipe_file, "--data", corpus_folder, "--from", start, "-o", out, "--set", "train.steps=4")
    write_tiny(start, weights=make_weights(TINY["qrnn"], seed=1))
    with pytest.raises(
        CheckpointError, match=r"the weights in .*start\.safetensors have changed since the run started"
    ):
        rheostat("train", "--resume", "-o", out)
    write_tiny(start)
    rheostat("train", "--resume", "-o", out)


@pytest.mark.parametrize(
    "changes",
    [
        ["train.checkpoint_minutes=60"],  # validation finds it
        ["train.checkpoint_minutes=0.0", "train.clip=0.0", "regularization.activation=1e9"],  # a checkpoint does
    ],
)
def test_a_run_that_diverges_is_an_error_and_can_be_started_again(
    corpus_folder: Path, recipe_file: Path, tmp_path: Path, changes: list[str]
) -> None:
    always = ["train.steps=5", "train.optimizer=sgd", "train.schedule=constant", "train.learning_rate=1e38"]
    options = [part for change in always + changes for part in ("--set", change)]
    with pytest.raises(RheostatError, match=r"became .*; start again with a lower train\.learning_rate"):
        rheostat("train", recipe_file, "--data", corpus_folder, "-o", tmp_path / "run", *options)
    assert {path.name for path in (tmp_path / "run").iterdir()} <= {"checkpoint.pt", "log.jsonl", "tensorboard"}
    rheostat("train", recipe_file, "--data", corpus_folder, "-o", tmp_path / "run", "--set", "train.steps=2")
    assert [entry["step"] for entry in log(tmp_path / "run", "valid")] == [2]


KILLED = """
import os, signal, sys
from rheostat.training.run_folder import RunFolder
save, saved = RunFolder.save, []
def dying(self, contents):
    saved.append(contents)
    if self.model.exists():
        os.kill(os.getpid(), signal.SIGKILL)
    save(self, contents)
RunFolder.save = dying
from rheostat.cli import main
main()
"""


def test_a_run_killed_between_its_first_model_and_checkpoint_resumes_to_the_same_weights(
    corpus_folder: Path, recipe_file: Path, tmp_path: Path, whole_and_resumed: tuple[Path, Path]
) -> None:
    out, minutes = tmp_path / "run", ("--set", "train.checkpoint_minutes=60")
    command = [sys.executable, "-c", KILLED, "train", recipe_file, "--data", corpus_folder, "-o", out, *minutes]
    ended = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=ENVIRONMENT, timeout=120)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert (out / "model.safetensors").exists()
    rheostat("train", "--resume", "-o", out)
    assert_same_weights(whole_and_resumed[0], out)


FULL_DISK = """
import resource, sys
from rheostat.training import trainer
draw_length, limit = trainer.draw_length, int(sys.argv.pop(1))
def filling(config, steps_done):
    if steps_done == 12:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))  # of every file: errors as on a full disk
    return draw_length(config, steps_done)
trainer.draw_length = filling
from rheostat.cli import main
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limits")
@pytest.mark.parametrize(("limit", "minutes"), [(0, "0.0"), (3000, "0.0"), (300, "60"), (12_000, "60")])
def test_a_full_disk_is_one_line_and_keeps_the_last_checkpoint(
    corpus_folder: Path, recipe_file: Path, tmp_path: Path, limit: int, minutes: str
) -> None:
    out = tmp_path / "run"
    options = ("--data", corpus_folder, "-o", out, "--set", f"train.checkpoint_minutes={minutes}")
    command = [sys.executable, "-c", FULL_DISK, limit, "train", recipe_file, *options, "--set", "train.epochs=1"]
    ended = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=ENVIRONMENT, timeout=120)
    assert ended.returncode == 1 and "Traceback" not in ended.stderr, ended.stderr
    assert "error: " in ended.stderr and "File too large" in ended.stderr
    assert not list(out.glob(".*.partial"))
    saved = RunFolder(out).load()
    assert saved["progress"]["step"] == (12 if minutes == "0.0" else 0)
    rheostat("train", "--resume", "-o", out)
    assert log(out, "valid")


@pytest.mark.parametrize("text", ["", None])
def test_a_corpus_that_cannot_be_used_leaves_no_folder(recipe_file: Path, tmp_path: Path, text: str | None) -> None:
    corpus = tmp_path / "text"
    if text is not None:
        corpus.mkdir()
        for split in ("train", "valid", "test"):
            (corpus / f"{split}.txt").write_text(text)
    with pytest.raises(CorpusError):
        rheostat("train", recipe_file, "--data", corpus, "-o", tmp_path / "deep" / "run")
    assert not (tmp_path / "deep").exists()


def test_ctrl_c_saves_and_says_how_to_resume(corpus_folder: Path, recipe_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = [*TRAIN, str(recipe_file), "--data", str(corpus_folder), "-o", str(out), "--set", "train.epochs=500"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    wait_for_step(process, out, 3)
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"rheostat train --resume -o {out}" in messages
    assert "Traceback" not in messages


@pytest.mark.parametrize("splits", [[], [5, 11]], ids=["plain", "adaptive"])
def test_two_processes_give_the_loss_curve_of_one(
    corpus_folder: Path, recipe_file: Path, tmp_path: Path, splits: list[int]
) -> None:
    off = ["dropout_embedding", "dropout_input", "dropout_hidden", "dropout_output", "weight_drop"]
    changes = [part for key in off for part in ("--set", f"regularization.{key}=0.0")]
    changes += ["--set", f"model.softmax_splits={splits}"]
    rheostat("train", recipe_file, "--data", corpus_folder, "-o", tmp_path / "1", *changes)
    run_in_two_processes(recipe_file, "--data", corpus_folder, "-o", tmp_path / "2", *changes)
    one, two = (log(tmp_path / name, "train") for name in ("1", "2"))
    assert len(one) > 3
    assert [entry["loss"] for entry in two] == pytest.approx([entry["loss"] for entry in one], rel=1e-4)
    valid = [[entry["perplexity"] for entry in log(tmp_path / name, "valid")] for name in ("1", "2")]
    assert valid[1] == pytest.approx(valid[0], rel=1e-3)


def test_each_process_draws_its_own_dropout(corpus_folder: Path, recipe_file: Path, tmp_path: Path) -> None:
    run_in_two_processes(recipe_file, "--data", corpus_folder, "-o", tmp_path / "run", "--set", "train.steps=3")
    import torch

    ranks = torch.load(tmp_path / "run" / "checkpoint.pt", weights_only=True)["ranks"]
    assert len(ranks) == 2
    assert not torch.equal(ranks[0]["random"]["cpu"], ranks[1]["random"]["cpu"])
    assert ranks[0]["log_loss"] != ranks[1]["log_loss"]  # each resumes with its own


@pytest.mark.parametrize("cell", ["lstm", "skip-lstm"])
@pytest.mark.parametrize("optimizer", ["nt-asgd", "adam"])
def test_baselines_train_in_the_same_trainer(
    corpus_folder: Path, recipe_file: Path, tmp_path: Path, cell: str, optimizer: str
) -> None:
    rate = "train.learning_rate=3.0" if optimizer == "nt-asgd" else "train.learning_rate=0.02"
    changes = ["--set", f"model.cell={cell}", "--set", "model.windows=[]", "--set", f"train.optimizer={optimizer}"]
    changes += ["--set", rate, "--set", "train.schedule=constant", "--set", "model.embedding_size=0"]
    answer = rheostat("train", recipe_file, "--data", corpus_folder, "-o", tmp_path / "run", *changes, "--json")
    assert json.loads(answer)["valid_perplexity"] < 8
    with open_model(tmp_path / "run" / "model.safetensors") as file:
        assert file.shape.cell == cell


@pytest.mark.filterwarnings("ignore::rheostat.errors.RheostatWarning")
def test_an_lstm_trains_even_if_its_kernel_lacks_the_precision(
    corpus_folder: Path, recipe_file: Path, tmp_path: Path
) -> None:
    changes = ["model.cell=lstm", "model.windows=[]", "train.precision=bf16-always", "train.steps=2"]
    options = [part for change in changes for part in ("--set", change)]
    rheostat("train", recipe_file, "--data", corpus_folder, "-o", tmp_path / "run", *options)
    with open_model(tmp_path / "run" / "model.safetensors") as file:
        assert file.shape.cell == "lstm" and file.description.provenance["run"]["steps"] == 2


def test_splits_are_chosen_from_the_counts_of_the_corpus(
    corpus_folder: Path, recipe_file: Path, tmp_path: Path
) -> None:
    changes = ["--set", "model.softmax_tails=2", "--set", "train.steps=2"]
    rheostat("train", recipe_file, "--data", corpus_folder, "-o", tmp_path / "run", *changes)
    with open_model(tmp_path / "run" / "model.safetensors") as file:
        assert len(file.shape.softmax_splits) == 2
        assert file.description.recipe["model"]["softmax_tails"] == 2


def test_an_untrained_model_says_so(corpus_folder: Path, recipe_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    answer = rheostat(
        "train", recipe_file, "--data", corpus_folder, "--set", "model.cell=lstm", "--set", "model.windows=[]",
        "--untrained", "-o", out, "--json",
    )  # fmt: skip
    assert json.loads(answer) == {"model": str(out / "model.safetensors"), "steps": 0}
    with open_model(out / "model.safetensors") as file:
        assert file.shape.cell == "lstm" and not file.description.trained


def test_adaptive_softmax_trains(corpus_folder: Path, recipe_file: Path, tmp_path: Path) -> None:
    splits = ["--set", "model.softmax_splits=[5, 9]"]
    answer = rheostat("train", recipe_file, "--data", corpus_folder, "-o", tmp_path / "run", *splits, "--json")
    assert json.loads(answer)["valid_perplexity"] < 4


def test_training_starts_from_a_model(corpus_folder: Path, recipe_file: Path, tmp_path: Path) -> None:
    first = json.loads(rheostat("train", recipe_file, "--data", corpus_folder, "-o", tmp_path / "a", "--json"))
    model = tmp_path / "a" / "model.safetensors"
    slow = ["--set", "train.learning_rate=1e-6", "--set", "train.epochs=1"]
    second = json.loads(
        rheostat("train", recipe_file, "--data", corpus_folder, "--from", model, "-o", tmp_path / "b", *slow, "--json")
    )
    assert second["valid_perplexity"] == pytest.approx(first["valid_perplexity"], rel=0.01)


def test_three_files_are_a_corpus_too(corpus_folder: Path, recipe_file: Path, tmp_path: Path) -> None:
    files = [part for name in ("train", "valid", "test") for part in ("--data", corpus_folder / f"{name}.txt")]
    rheostat("train", recipe_file, *files, "-o", tmp_path / "run", "--set", "train.steps=2")
    with open_model(tmp_path / "run" / "model.safetensors") as file:
        assert file.description.provenance["corpus"]["source"] == "train.txt, valid.txt, test.txt"


def test_a_folder_with_a_run_is_not_overwritten(corpus_folder: Path, recipe_file: Path, tmp_path: Path) -> None:
    arguments = ("train", recipe_file, "--data", corpus_folder, "-o", tmp_path / "run", "--set", "train.steps=2")
    rheostat(*arguments)
    before = weights(tmp_path / "run")
    with pytest.raises(CheckpointError, match="resume it") as refused:
        rheostat(*arguments)
    assert "\n" not in str(refused.value)
    finished = CliRunner().invoke(app, ["train", "--resume", "-o", str(tmp_path / "run")], catch_exceptions=False)
    assert finished.exit_code == 0 and "finished" in finished.stderr
    for name, array in weights(tmp_path / "run").items():
        np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nothing"], "no recipe 'nothing'"),
        (["--resume", "-o", "{tmp}/absent"], "no checkpoint"),
        (["{recipe}", "--data", "{tmp}/absent"], "absent"),
        (["{recipe}", "--data", "{data}", "--set", "train.epoch=3"], "did you mean 'epochs'"),
        (["{recipe}", "--data", "{data}", "--set", "train.batch_size=100000"], "too few"),
        (["{recipe}"], "give data"),
        (["{recipe}", "--data", "{data}", "--set", "model.softmax_splits=[900]"], "softmax_splits"),
        (["{recipe}", "--data", "{data}", "--set", "model.cell=lstm"], "model: windows (2, 1) of cell lstm"),
        (["{recipe}", "--data", "{data}", "--set", "train.steps=-1"], "steps is -1"),
        (["{recipe}", "--data", "{data}", "--from", "{tmp}/absent"], "absent"),
    ],
)
def test_a_wrong_call_gets_one_clear_line(
    corpus_folder: Path,
    recipe_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    expected: str,
) -> None:
    filled = [text.format(tmp=tmp_path, recipe=recipe_file, data=corpus_folder) for text in arguments]
    if "-o" not in filled:
        filled += ["-o", str(tmp_path / "run")]
    monkeypatch.setattr(sys, "argv", ["rheostat", "train", *filled])
    with pytest.raises(SystemExit) as stop:
        main()
    printed = capsys.readouterr().err
    assert stop.value.code == 1 and "Traceback" not in printed
    errors = [line for line in printed.splitlines() if line.startswith("error:")]
    assert len(errors) == 1 and expected in errors[0]


def test_a_validation_within_an_epoch_has_the_number_of_its_steps(capfd: pytest.CaptureFixture[str]) -> None:
    quality = Quality(1.0, {1: 0.1, 3: 0.2, 5: 0.3}, 9)
    with RunBar() as bar:
        bar.step(trainer.RunProgress(position=70, step=10), 0.5, 1.0, 9.0)
        bar.validated(trainer.RunProgress(position=70, step=10), quality, True)
        bar.validated(trainer.RunProgress(epoch=1, step=20), quality, True)  # at the end of the first epoch
        bar.validated(trainer.RunProgress(epoch=1, position=70, step=30), quality, True)
    said = capfd.readouterr().err
    assert "epoch 0" not in said and said.count("epoch 1: valid") == 2 and said.count("epoch 2: valid") == 1


def test_one_epoch_is_one_epoch(corpus_folder: Path, recipe_file: Path, tmp_path: Path) -> None:
    for epochs, said in ((1, "after 1 epoch, "), (2, "after 2 epochs, ")):
        options = ["--data", corpus_folder, "-o", tmp_path / str(epochs), "--set", f"train.epochs={epochs}"]
        assert said in rheostat("train", recipe_file, *options)


def test_the_commands_of_the_readme_run_from_top_to_bottom(
    corpus_folder: Path,
    recipe_file: Path,
    whole_and_resumed: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those that make and measure a model, on a small corpus, for a reader with a trained model."""
    pytest.importorskip("matplotlib", reason="the report needs the report extra")
    pytest.importorskip("jinja2", reason="the report needs the report extra")
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    block = readme[readme.index("# you have a trained model") : readme.index("# use it")]
    monkeypatch.chdir(tmp_path)
    own = {"DIR": str(corpus_folder), "ptb-fast": str(recipe_file), "ptb": str(recipe_file)}
    own["TRAINED"] = str(whole_and_resumed[0] / "model.safetensors")
    more = {
        "train": ["--set", "train.epochs=1"],
        "recover": ["--set", "train.steps=2"],
        "resplit": ["--tails", "2", "--tokens", "1000"],
        "path": ["--smallest", "0.5"],
        "bench": ["--queries", "2", "--warm-up", "0", "--meter", "none"],
        "ngram": ["--queries", "2", "--words", "9"],
        "typing": ["--words", "9", "--order", "2"],
    }
    done = []
    for line in block.splitlines():
        if words := shlex.split(line, comments=True):
            done.append(words[1])
            rheostat(*(own.get(word, word) for word in words[1:]), *more.get(words[1], ()))
    assert len(done) > 12 and Path("small.safetensors").exists() and Path("report").is_dir()
    assert Path("runs/ptb/model.safetensors").exists()  # as the comment beside `train` says
