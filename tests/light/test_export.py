"""`rheostat export`: the folder is complete, correct without this package, and never half written.

Here it is for ONNX Runtime; `test_export_core` is about the folder for the core.
"""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnx
import pytest
import typer
from typer.testing import CliRunner

import rheostat
from models import TINY, write_tiny, write_words
from rheostat.cli.export import export as export_command
from rheostat.errors import ExportError, PrecisionError, RheostatError
from rheostat.model.cut import cut
from rheostat.model.file import open_model
from rheostat.model.operating_point import full_point
from rheostat.model.precision import Precision
from rheostat.model.shape import Cell, ModelShape
from rheostat.model.writer import write_model
from rheostat.runtime.export import export_graphs
from rheostat.runtime.onnx.session import GraphEngine, onnxruntime
from rheostat.runtime.onnx.weights import prepare
from rheostat.runtime.predictor import Predictor
from rheostat.words.completion import Completion

ROOT = Path(__file__).parents[2]
IDS = [1, 4, 2, 7, 7, 3, 0, 5]
SHAPES: list[Cell] = list(TINY)

app = typer.Typer()
app.command()(export_command)


def run(*arguments: str) -> str:
    answer = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def export_tiny(folder: Path, cell: Cell = "qrnn", precision: Precision = "int8", point: str = "") -> dict[str, Any]:
    with open_model(write_tiny(folder / "model.safetensors", cell)) as file:
        return export_graphs(file, file.point(point) if point else full_point(file.shape), folder / "out", precision)


def open_graph(folder: Path, manifest: dict[str, Any], form: str) -> onnxruntime.InferenceSession:
    path = folder / "out" / manifest["graphs"][form]["file"]
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def initial_state(manifest: dict[str, Any]) -> dict[str, np.ndarray]:
    return {part["input"]: np.zeros(part["shape"], np.float32) for part in manifest["state"]}


def step_through(folder: Path, manifest: dict[str, Any], allowed: np.ndarray) -> tuple[list[np.ndarray], list[Any]]:
    """The best words after the last one with their probabilities, and the state."""
    session, state = open_graph(folder, manifest, "step"), initial_state(manifest)
    names = ["top_words", "top_probabilities"]
    for token in IDS:
        feeds = {"token": np.array([token]), "k": np.array([3]), "allowed": allowed, **state}
        (*answers,) = session.run(names + [part["output"] for part in manifest["state"]], feeds)
        state = {part["input"]: value for part, value in zip(manifest["state"], answers[2:], strict=True)}
    return answers[:2], answers[2:]


@pytest.mark.parametrize("precision", get_args(Precision))
@pytest.mark.parametrize("cell", SHAPES)
def test_exported_graphs_give_the_answers_of_the_engine(tmp_path: Path, cell: Cell, precision: Precision) -> None:
    manifest = export_tiny(tmp_path, cell, precision, "second" if cell == "qrnn" else "")
    with open_model(tmp_path / "model.safetensors") as file:
        point = file.point("second") if cell == "qrnn" else full_point(file.shape)
        engine = GraphEngine.build(*cut(prepare(file.stored_weights(), precision), file.shape, point), precision, 1)
    allowed = np.ones(TINY[cell].vocabulary_size, np.uint8)
    allowed[[0, 1]] = 0
    (words, probabilities), state = step_through(tmp_path, manifest, allowed)
    expected = engine.step(engine.replay(engine.initial_state(), IDS[:-1]), IDS[-1], 3, allowed.astype(bool))
    np.testing.assert_array_equal(words, expected.words)
    np.testing.assert_allclose(probabilities, expected.probabilities, atol=1e-5)
    for found, wanted in zip(state, expected.state, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize("cell", SHAPES)
def test_replaying_a_text_equals_stepping_through_it(tmp_path: Path, cell: Cell) -> None:
    manifest = export_tiny(tmp_path, cell)
    allowed = np.ones(TINY[cell].vocabulary_size, np.uint8)
    _, state = step_through(tmp_path, manifest, allowed)
    names = [part["output"] for part in manifest["state"]]
    session = open_graph(tmp_path, manifest, "replay")
    replayed = session.run(names, {"tokens": np.array(IDS), **initial_state(manifest)})
    for found, wanted in zip(replayed, state, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_manifest_describes_what_the_graphs_take_and_give(tmp_path: Path) -> None:
    manifest = export_tiny(tmp_path)
    types = {"tensor(int64)": "int64", "tensor(float)": "float32", "tensor(uint8)": "uint8"}
    for form, described in manifest["graphs"].items():
        session = open_graph(tmp_path, manifest, form)
        for ports, found in (
            (described["inputs"], session.get_inputs()),
            (described["outputs"], session.get_outputs()),
        ):
            assert [(port["name"], port["type"], port["shape"]) for port in ports] == [
                (port.name, types[port.type], port.shape) for port in found
            ]


def test_manifest_says_what_the_point_costs_and_where_it_comes_from(tmp_path: Path) -> None:
    manifest = export_tiny(tmp_path, point="second")
    with open_model(tmp_path / "model.safetensors") as file:
        point = file.point("second")
        assert manifest["flops"] == point.cut_shape(file.shape).flops
        assert manifest["flops_fraction"] == point.flops_fraction
        assert manifest["shape"]["hidden_sizes"] == list(point.widths)
        assert manifest["vocabulary"]["special_ids"] == {"<unk>": 0, "<eos>": 1}
    assert (manifest["format"], manifest["format_version"], manifest["engine"]) == ("rheostat-export", 1, "onnx")
    assert manifest["tokenizer"] == "words" and manifest["precision"] == "int8"
    assert {"command", "rheostat", "date"} <= set(manifest["provenance"])
    assert manifest == json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))


def test_manifest_counts_the_bytes_of_every_other_file(tmp_path: Path) -> None:
    manifest = export_tiny(tmp_path)
    found = {path.name: path.stat().st_size for path in (tmp_path / "out").iterdir()}
    del found["manifest.json"]
    assert manifest["bytes"] == found


def test_words_and_spellings_are_those_of_the_model(tmp_path: Path) -> None:
    with open_model(write_tiny(tmp_path / "model", casing={"word3": "Word3"})) as file:
        manifest = export_graphs(file, full_point(file.shape), tmp_path / "out")
        assert (tmp_path / "out" / "vocabulary.txt").read_bytes() == file.vocabulary.to_bytes()
    assert (tmp_path / "out" / "casing.txt").read_text(encoding="utf-8") == "Word3"
    assert manifest["casing"] == {"file": "casing.txt", "words": 1}


def test_a_model_without_spellings_has_no_casing_file(tmp_path: Path) -> None:
    assert export_tiny(tmp_path)["casing"] is None
    assert not (tmp_path / "out" / "casing.txt").exists()


@pytest.mark.parametrize("precision", get_args(Precision))
def test_exported_graphs_pass_the_checker(tmp_path: Path, precision: Precision) -> None:
    manifest = export_tiny(tmp_path, precision=precision)
    for described in manifest["graphs"].values():
        model = onnx.load(tmp_path / "out" / described["file"])
        onnx.checker.check_model(model)
        assert {entry.domain for entry in model.opset_import} == {"", "com.microsoft"}


def test_every_input_type_can_be_created_in_an_application(tmp_path: Path) -> None:
    types = {port["type"] for graph in export_tiny(tmp_path)["graphs"].values() for port in graph["inputs"]}
    assert types == {"int64", "uint8", "float32"}  # no bool, which ONNX Runtime for iOS lacks


# The folder


def test_an_earlier_export_is_replaced_as_a_whole(tmp_path: Path) -> None:
    with open_model(write_tiny(tmp_path / "model", casing={"word3": "Word3"})) as file:
        export_graphs(file, full_point(file.shape), tmp_path / "out")
    export_tiny(tmp_path, precision="fp32")
    assert not (tmp_path / "out" / "casing.txt").exists()
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["precision"] == "fp32"
    assert {path.name for path in tmp_path.iterdir()} == {"model", "model.safetensors", "out"}


def test_an_empty_folder_is_used(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    export_tiny(tmp_path)
    assert (tmp_path / "out" / "step.onnx").exists()


def test_missing_parent_folders_are_created(tmp_path: Path) -> None:
    with open_model(write_tiny(tmp_path / "model")) as file:
        export_graphs(file, full_point(file.shape), tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b" / "manifest.json").exists()


def test_something_else_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("precious")
    with pytest.raises(ExportError, match="contains files that are not an earlier export"):
        export_tiny(tmp_path)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.tex"]


def test_an_earlier_export_with_other_files_in_it_is_not_overwritten(tmp_path: Path) -> None:
    export_tiny(tmp_path)
    (tmp_path / "out" / "notes.txt").write_text("precious")
    with pytest.raises(ExportError, match=r"contains 'notes\.txt', which is not part of an export"):
        export_tiny(tmp_path)
    assert (tmp_path / "out" / "notes.txt").read_text() == "precious"


@pytest.mark.parametrize("manifest", ["", "[]", "{}", '{"format": "other"}', "\xff", "[" * 100_000, "1" * 5000])
def test_a_folder_with_another_manifest_is_not_overwritten(tmp_path: Path, manifest: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "manifest.json").write_text(manifest, encoding="latin-1")
    with pytest.raises(ExportError, match="not an earlier export"):
        export_tiny(tmp_path)


def test_a_kill_at_any_moment_leaves_a_folder_that_is_whole(tmp_path: Path) -> None:
    """The process ends by itself at every call that renames or deletes, one call later each time."""
    model = write_tiny(tmp_path / "model.safetensors", casing={"word3": "Word3"})
    script = """
import os, signal, sys
from pathlib import Path
import rheostat
import rheostat.runtime.export_folder as folder
left = int(sys.argv[3])
def dying(call):
    def one(*given, **options):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*given, **options)
    return one
Path.rename, Path.unlink, Path.rmdir = map(dying, (Path.rename, Path.unlink, Path.rmdir))
folder.exchange = dying(folder.exchange) if sys.argv[4] == "swap" else lambda one, other: False
rheostat.export(sys.argv[1], sys.argv[2])
"""
    for way in ("swap", "rename"):
        out = tmp_path / way / "out"
        export_graphs(open_model(model), full_point(open_model(model).shape), out)
        for calls in range(40):
            command = [sys.executable, "-c", script, str(model), str(out), str(calls), way]
            ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
            assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
            aside = [path for path in out.parent.iterdir() if path.suffix == ".old"]
            assert is_whole(out) or (way == "rename" and any(map(is_whole, aside)))
            if not ended.returncode:
                break
        assert not ended.returncode and is_whole(out)
        assert {path.suffix for path in out.parent.iterdir()} <= {"", ".partial", ".old"}
        for path in out.parent.iterdir():  # a day later, the next export tidies up
            os.utime(path, (0, 0))
        export_graphs(open_model(model), full_point(open_model(model).shape), out)
        assert list(out.parent.iterdir()) == [out]


def is_whole(folder: Path) -> bool:
    try:
        sizes = json.loads((folder / "manifest.json").read_text())["bytes"]
    except OSError:
        return False
    return sizes == {path.name: path.stat().st_size for path in folder.iterdir() if path.name != "manifest.json"}


def test_an_export_that_a_kill_left_aside_is_put_back(tmp_path: Path) -> None:
    export_tiny(tmp_path)
    (tmp_path / "out").rename(tmp_path / f".out.{'0f' * 8}.old")
    with open_model(tmp_path / "model.safetensors") as file, pytest.raises(PrecisionError):
        export_graphs(file, full_point(file.shape), tmp_path / "out", "int3")  # type: ignore[arg-type]
    export_tiny(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"model.safetensors", "out"} and is_whole(tmp_path / "out")


def test_nothing_but_old_exports_is_tidied_up(tmp_path: Path) -> None:
    export_tiny(tmp_path)
    mine = tmp_path / f".out.{'0f' * 8}.partial"
    mine.mkdir()
    (mine / "thesis.tex").write_text("precious")
    os.utime(mine, (0, 0))
    export_tiny(tmp_path)
    assert (mine / "thesis.tex").read_text() == "precious"


@pytest.mark.skipif(os.name != "posix", reason="no permissions")
def test_a_read_only_export_is_respected_and_permissions_are_kept(tmp_path: Path) -> None:
    export_tiny(tmp_path)
    out = tmp_path / "out"
    out.chmod(0o750)
    (out / "step.onnx").chmod(0o640)
    export_tiny(tmp_path)
    assert stat.S_IMODE(out.stat().st_mode) == 0o750 and stat.S_IMODE((out / "step.onnx").stat().st_mode) == 0o640
    (out / "step.onnx").chmod(0o444)
    with pytest.raises(ExportError, match=r"contains step\.onnx, which is a read-only file"):
        export_tiny(tmp_path)
    (out / "step.onnx").chmod(0o644)
    out.chmod(0o555)
    with pytest.raises(ExportError, match="is read-only"):
        export_tiny(tmp_path)
    out.chmod(0o755)


def test_words_that_a_file_hides_are_not_suggestible(tmp_path: Path) -> None:
    model = write_tiny(tmp_path / "model.safetensors")
    with open_model(model) as file:
        contents = file.contents()
        hidden = np.frombuffer(b"word3\n", np.uint8)
        write_model(model, replace(contents, words={**contents.words, "hidden": hidden}))
    rheostat.export(model, tmp_path / "out")
    kinds, words = (
        (tmp_path / "out" / "suggestible.bin").read_bytes(),
        (tmp_path / "out" / "vocabulary.txt").read_text(),
    )
    assert [kinds[at] for at, word in enumerate(words.splitlines()) if word in ("word3", "word4")] == [0, kinds[-1]]


def test_a_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("precious")
    with pytest.raises(ExportError, match="is not a folder"):
        export_tiny(tmp_path)
    assert (tmp_path / "out").read_text() == "precious"


def test_an_unwritable_place_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with open_model(write_tiny(tmp_path / "model")) as file, pytest.raises(ExportError, match="could not be written"):
        export_graphs(file, full_point(file.shape), tmp_path / "file" / "out")


def test_a_graph_too_large_for_one_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rheostat.runtime.onnx.graph_files.LARGEST_GRAPH", 100)
    with pytest.raises(ExportError, match=r"step\.onnx would have"):
        export_tiny(tmp_path)
    assert not (tmp_path / "out").exists()


def test_a_failed_export_leaves_the_earlier_one_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_tiny(tmp_path)
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Completion, "kinds", fail)  # the last file but the manifest
    with pytest.raises(ExportError, match="No space left on device"):
        export_tiny(tmp_path, precision="fp32")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    assert {path.name for path in tmp_path.iterdir()} == {"model.safetensors", "out"}


# The command


def test_command_writes_the_folder_and_says_so(tmp_path: Path) -> None:
    model = str(write_tiny(tmp_path / "model"))
    shown = run(model, "--knob", "0.6", "-o", str(tmp_path / "out"))
    assert "random-3-0.6" in shown and "int8" in shown and (tmp_path / "out" / "sequence.onnx").exists()


def test_command_prints_the_manifest(tmp_path: Path) -> None:
    model = str(write_tiny(tmp_path / "model"))
    printed = json.loads(run(model, "--point", "second", "--precision", "fp32", "-o", str(tmp_path / "out"), "--json"))
    assert printed["operating_point"]["name"] == "second" and printed["precision"] == "fp32"


def test_an_unknown_precision_is_refused_with_a_list_of_the_known_ones(tmp_path: Path) -> None:
    model, out = write_tiny(tmp_path / "model"), tmp_path / "out"
    with pytest.raises(PrecisionError, match="expected one of fp32, int8"):
        rheostat.export(model, out, precision="int2")  # type: ignore[arg-type]
    answer = CliRunner().invoke(app, [str(model), "--precision", "int2", "-o", str(out)])
    assert answer.exit_code == 2 and "'int8'" in answer.output
    assert not out.exists()


def test_one_call_exports_like_the_command(tmp_path: Path) -> None:
    model = write_tiny(tmp_path / "model")
    manifest = rheostat.export(model, tmp_path / "one", 0.8, precision="fp32")
    printed = json.loads(run(str(model), "--knob", "0.8", "--precision", "fp32", "-o", str(tmp_path / "two"), "--json"))
    assert manifest["bytes"] == printed["bytes"] and manifest["operating_point"] == printed["operating_point"]
    assert (tmp_path / "one" / "step.onnx").read_bytes() == (tmp_path / "two" / "step.onnx").read_bytes()


def test_errors_are_rheostat_errors() -> None:
    assert issubclass(ExportError, RheostatError)


def test_help_ends_with_an_example() -> None:
    assert (export_command.__doc__ or "").strip().splitlines()[-1].strip().startswith("Example: rheostat ")


def test_words_that_are_never_suggested_are_marked(tmp_path: Path) -> None:
    words = ("<unk>", "<eos>", "game", "?", "shit", "42", "garden")
    model = write_words(tmp_path / "model.safetensors", words, ModelShape(len(words), 4, (4,), (1,)))
    run(str(model), "-o", str(tmp_path / "out"))
    found = (tmp_path / "out" / "suggestible.bin").read_bytes()
    assert [word for word, kind in zip(words, found, strict=True) if kind == 1] == ["game", "garden"]
    assert list(found) == Predictor(model).completion.kinds().tolist()


def test_the_python_of_the_page_runs_without_this_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    export_tiny(tmp_path)
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert "rheostat" not in example
    exec(compile(example, "export.md", "exec"), {})
    suggestions = eval(capsys.readouterr().out)
    assert len(suggestions) == 3 and all(word.startswith("word") and 0 < p < 1 for word, p in suggestions)
