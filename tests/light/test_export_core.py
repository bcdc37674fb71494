"""`rheostat export --engine core`: one file with the whole knob, and the words beside it, without the onnx extra."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import rheostat
from models import GOLDEN, TINY, make_ranking, write_tiny
from rheostat.bundled import model_path
from rheostat.cli import app
from rheostat.core.binding import CoreModel
from rheostat.errors import ExportError, MissingExtraError, ModelFileError, OperatingPointError, RheostatError
from rheostat.model.file import open_model
from rheostat.model.operating_point import full_point
from rheostat.model.ordered import order_filters
from rheostat.model.precision import Precision
from rheostat.model.writer import write_model
from rheostat.runtime.export import export_core, export_graphs
from rheostat.words.completion import Completion

ORDERED = GOLDEN / "golden-ordered.safetensors"
WORDS = ["<eos>", "word3", "word4", "unheard-of", "word7"]
ROUNDING = 1e-6  # of the float32 costs of a path
FILES = {"manifest.json", "model.safetensors", "suggestible.bin", "text.json", "vocabulary.txt"}


def run(*arguments: object) -> str:
    answer = CliRunner().invoke(app, ["export", *map(str, arguments)], catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def export_it(model: Path, out: Path, precision: Precision = "int8", **options: Any) -> dict[str, Any]:
    return rheostat.export(model, out, engine="core", precision=precision, **options)


def unordered(folder: Path, **changes: Any) -> Path:
    """A file of float32, ranked and not in the order of its ranking; without points, which the core does not have."""
    return write_tiny(folder / "unordered.safetensors", points=[], **changes)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# The model


@pytest.mark.parametrize("name", ["golden-ordered", "golden-4-bits"])
def test_an_ordered_file_is_copied_byte_for_byte(name: str, tmp_path: Path) -> None:
    export_it(GOLDEN / f"{name}.safetensors", tmp_path / "out")
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == (GOLDEN / f"{name}.safetensors").read_bytes()
    assert names(tmp_path / "out") == FILES | {"casing.txt"}


def test_the_bundled_model_is_copied_by_its_name(tmp_path: Path) -> None:
    manifest = rheostat.export("chat", tmp_path / "out", engine="core")
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == model_path().read_bytes()
    with open_model() as file:
        path = file.knob_path()
        assert (tmp_path / "out" / "vocabulary.txt").read_bytes() == file.vocabulary.to_bytes()
    assert [(one["cost"], tuple(one["hidden_sizes"]), one["bounds"] and tuple(one["bounds"])) for one in
            manifest["positions"]] == [(one.cost, one.widths, one.bounds) for one in path]  # fmt: skip


@pytest.mark.parametrize("precision", ["int8", "fp32"])
def test_any_other_file_is_packed_in_order(precision: Precision, tmp_path: Path) -> None:
    model = unordered(tmp_path)
    manifest = export_it(model, tmp_path / "out", precision)
    rheostat.pack(model, tmp_path / "packed.safetensors", precision=precision, order=True)
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == (tmp_path / "packed.safetensors").read_bytes()
    assert manifest["precision"] == precision and len(manifest["positions"]) > 1


@pytest.mark.parametrize("precision", ["int8", "fp32"])
@pytest.mark.parametrize("ordered", [True, False])
def test_the_core_opens_the_file_and_gives_the_bits_of_the_original(
    ordered: bool, precision: Precision, tmp_path: Path
) -> None:
    model = ORDERED if ordered else unordered(tmp_path)
    manifest = export_it(model, tmp_path / "out", precision)
    core = CoreModel((tmp_path / "out" / "model.safetensors").read_bytes())
    vocabulary = (tmp_path / "out" / "vocabulary.txt").read_text(encoding="utf-8").split("\n")
    ids = [vocabulary.index(word) if word in vocabulary else vocabulary.index("<unk>") for word in WORDS]
    with rheostat.load(model, precision=precision, threads=1) as predictor:
        for place in manifest["positions"]:
            share = place["cost"] + ROUNDING
            cut = predictor if share > 1 else predictor.at(share, criterion=_criterion(model))
            assert cut.point.widths == tuple(place["hidden_sizes"])
            position = core.position_near(place["cost"])
            found = core.log_probabilities(core.predict(position, core.steps(position, core.start(), ids)))
            np.testing.assert_array_equal(found, cut.log_probabilities_after(WORDS))


def _criterion(model: Path) -> str:
    """Of the default ranking: without one, the knob can be at a stored point."""
    with open_model(model) as file:
        return file.ranking().criterion


def test_an_ordered_file_of_another_precision_keeps_its_path(tmp_path: Path) -> None:
    with open_model(unordered(tmp_path)) as file:
        contents = order_filters(file.contents())
    write_model(tmp_path / "ordered", replace(contents, knob_path=contents.knob_path[::3]))
    manifest = export_it(tmp_path / "ordered", tmp_path / "out")
    assert [one["cost"] for one in manifest["positions"]] == [one.cost for one in contents.knob_path[::3]]
    with open_model(tmp_path / "out" / "model.safetensors") as file:
        assert file.precision == "int8" and file.knob_path() == contents.knob_path[::3]


def test_everything_in_the_file_stays(tmp_path: Path) -> None:
    """What an app can do without is left out by `rheostat pack`, not here."""
    model = write_tiny(tmp_path / "model", casing={"word3": "Word3"}, recipe={"train": {"epochs": 2}})
    export_it(model, tmp_path / "out")
    with open_model(model) as file, open_model(tmp_path / "out" / "model.safetensors") as made:
        assert made.casing == file.casing and made.description.recipe == file.description.recipe
        assert [one.name for one in made.points()] == [one.name for one in file.points()]


def test_the_core_and_not_onnx_is_needed(tmp_path: Path) -> None:
    """`load`, `export` and the command, with onnx and ONNX Runtime hidden."""
    script = """
import sys
for name in ("onnx", "onnxruntime"):
    sys.modules[name] = None
import rheostat
from rheostat.cli import main
rheostat.export(sys.argv[1], sys.argv[2], engine="core")
try:
    rheostat.export(sys.argv[1], sys.argv[2])
except rheostat.MissingExtraError as error:
    print(error)
sys.argv[1:] = ["export", sys.argv[1], "--engine", "core", "-o", sys.argv[2]]
main()
"""
    command = [sys.executable, "-c", script, str(unordered(tmp_path)), str(tmp_path / "out")]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120)
    missing, said = answer.stdout.splitlines()
    assert missing == "exporting ONNX graphs needs the 'onnx' extra: pip install 'rheostat[onnx]'"
    assert said.startswith("wrote ") and names(tmp_path / "out") == FILES


# The words and the manifest


def test_words_that_are_never_suggested_are_marked(tmp_path: Path) -> None:
    """The package's slurs, the misspellings that the file hides, and what the app hides."""
    export_it(model_path(), tmp_path / "out", hidden_words=["game"])
    kinds = (tmp_path / "out" / "suggestible.bin").read_bytes()
    words = (tmp_path / "out" / "vocabulary.txt").read_text(encoding="utf-8").split("\n")
    with rheostat.load(hidden_words=["game"]) as predictor:
        assert list(kinds) == predictor.completion.kinds().tolist()
    assert {word: kinds[words.index(word)] for word in ("game", "definetely", "games")} == {
        "game": 0, "definetely": 0, "games": 1,
    }  # fmt: skip


def test_the_manifest_says_what_the_file_is(tmp_path: Path) -> None:
    manifest = export_it(unordered(tmp_path, casing={"word3": "Word3"}), tmp_path / "out")
    assert manifest == json.loads((tmp_path / "out" / "manifest.json").read_text(encoding="utf-8"))
    assert (manifest["format"], manifest["format_version"], manifest["engine"]) == ("rheostat-export", 1, "core")
    assert manifest["model"]["file"] == "model.safetensors" and manifest["precision"] == "int8"
    assert manifest["vocabulary"]["special_ids"] == {"<unk>": 0, "<eos>": 1}
    assert manifest["casing"] == {"file": "casing.txt", "words": 1}
    assert manifest["flops"] == TINY["qrnn"].flops and manifest["shape"]["hidden_sizes"] == [5, 6, 4]
    assert {"command", "rheostat", "date"} <= set(manifest["provenance"])
    assert manifest["positions"][0] == {"cost": 1.0, "hidden_sizes": [5, 6, 4], "bounds": None}
    assert not {"graphs", "state", "operating_point", "not_in_the_graph"} & set(manifest)
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "out").iterdir() if path.name != "manifest.json"}
    assert manifest["bytes"] == sizes


def test_both_engines_describe_words_alike(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    model = unordered(tmp_path, casing={"word3": "Word3"})
    core, graphs = export_it(model, tmp_path / "core"), rheostat.export(model, tmp_path / "graphs")
    words = FILES - {"manifest.json", "model.safetensors"} | {"casing.txt"}
    assert all((tmp_path / "core" / one).read_bytes() == (tmp_path / "graphs" / one).read_bytes() for one in words)
    assert set(core) - set(graphs) == {"positions"}
    shared = set(core) & set(graphs) - {"engine", "model", "bytes", "provenance"}
    assert {key: core[key] for key in shared} == {key: graphs[key] for key in shared}


# What is refused


POSITIONS: dict[str, dict[str, Any]] = {
    "knob": {"knob": 0.5},
    "point": {"point": "second"},
    "criterion": {"criterion": "random"},
    "ranking": {"ranking": "other"},
}


@pytest.mark.parametrize("option", POSITIONS)
def test_a_position_is_refused_since_the_file_has_the_whole_knob(option: str, tmp_path: Path) -> None:
    model = write_tiny(tmp_path / "model")
    with pytest.raises(RheostatError, match=rf"got a position \({option}\); expected none.*the whole knob") as caught:
        export_it(model, tmp_path / "out", **POSITIONS[option])
    (value,) = POSITIONS[option].values()
    given = [str(model), "--engine", "core", f"--{option}", str(value), "-o", str(tmp_path / "out")]
    result = CliRunner().invoke(app, ["export", *given])
    assert str(result.exception) == str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_model_that_the_core_does_not_run_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "new" / "out"
    with pytest.raises(RheostatError, match="the core has no lstm; expected a qrnn"):
        export_it(write_tiny(tmp_path / "lstm", "lstm"), place)
    with pytest.raises(OperatingPointError, match="no default ranking to order by"):
        export_it(unordered(tmp_path, default_ranking=None), place)
    with open_model(unordered(tmp_path)) as file:
        contents = file.contents()
    text = tmp_path / "text.txt"
    text.write_text("word3 word4 word5\n" * 50)
    write_model(tmp_path / "ranked", contents)
    rheostat.reconstruct(tmp_path / "ranked", data=text, out=tmp_path / "reconstructed")
    with pytest.raises(OperatingPointError, match=r"has a reconstruction.*drop the reconstruction"):
        export_it(tmp_path / "reconstructed", place)
    assert not place.parent.exists()


def test_an_ordered_file_with_a_reconstruction_is_refused_too(tmp_path: Path) -> None:
    """Its positions are cut with the reconstruction, which the core does not have."""
    text = tmp_path / "text.txt"
    text.write_text("word3 word4 word5\n" * 50)
    rheostat.reconstruct(unordered(tmp_path), data=text, out=tmp_path / "reconstructed", widths="ranking")
    with open_model(tmp_path / "reconstructed") as file:
        contents = file.contents()
    ordered = order_filters(replace(contents, reconstruction=None))
    write_model(tmp_path / "both", replace(ordered, reconstruction=contents.reconstruction))
    with pytest.raises(OperatingPointError, match="has a reconstruction"):
        export_it(tmp_path / "both", tmp_path / "out")


@pytest.mark.parametrize("engine", ["tflite", "", None])
def test_an_unknown_engine_is_refused_with_a_list_of_the_known_ones(engine: Any, tmp_path: Path) -> None:
    with pytest.raises(RheostatError, match="expected one of core, onnx"):
        rheostat.export(unordered(tmp_path), tmp_path / "out", engine=engine)


def test_a_damaged_file_is_not_copied(tmp_path: Path) -> None:
    content = bytearray(ORDERED.read_bytes())
    content[-200] ^= 1
    (tmp_path / "damaged").write_bytes(content)
    with pytest.raises(ModelFileError, match="checksum"):
        export_it(tmp_path / "damaged", tmp_path / "out")
    assert names(tmp_path) == {"damaged"}


# The folder


def test_an_export_for_the_other_engine_is_replaced_as_a_whole(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    with open_model(unordered(tmp_path, casing={"word3": "Word3"})) as file:
        export_graphs(file, full_point(file.shape), tmp_path / "out")
        assert names(tmp_path / "out") == FILES - {"model.safetensors"} | {"step.onnx", "sequence.onnx", "casing.txt"}
    with open_model(unordered(tmp_path)) as file:
        export_core(file, tmp_path / "out")
        assert names(tmp_path / "out") == FILES
        export_graphs(file, full_point(file.shape), tmp_path / "out")
    assert names(tmp_path / "out") == FILES - {"model.safetensors"} | {"step.onnx", "sequence.onnx"}
    assert names(tmp_path) == {"unordered.safetensors", "out"}


def test_anything_else_is_left_alone(tmp_path: Path) -> None:
    export_it(ORDERED, tmp_path / "out")
    (tmp_path / "out" / "notes.txt").write_text("precious")
    with pytest.raises(ExportError, match=r"contains 'notes\.txt', which is not part of an export"):
        export_it(ORDERED, tmp_path / "out")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "model.safetensors").write_bytes(ORDERED.read_bytes())
    with pytest.raises(ExportError, match="contains files that are not an earlier export"):
        export_it(ORDERED, tmp_path / "models")


def test_a_model_in_an_earlier_export_can_be_exported_into_it(tmp_path: Path) -> None:
    export_it(unordered(tmp_path), tmp_path / "out")
    before = (tmp_path / "out" / "model.safetensors").read_bytes()
    export_it(tmp_path / "out" / "model.safetensors", tmp_path / "out")
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize("failing", ["copied", "packed", "words"])
def test_a_full_disk_leaves_the_earlier_export_and_nothing_else(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ORDERED if failing == "copied" else unordered(tmp_path)
    export_it(ORDERED, tmp_path / "out")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    others = names(tmp_path)

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    where = {"copied": (Path, "write_bytes"), "packed": (os, "fsync"), "words": (Completion, "kinds")}[failing]
    monkeypatch.setattr(*where, fail)
    with pytest.raises(ExportError, match=r"out could not be written \(No space left on device\)"):
        export_it(model, tmp_path / "out")
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    assert names(tmp_path) == others


def test_what_a_kill_left_half_written_is_tidied_up(tmp_path: Path) -> None:
    partial = tmp_path / f".out.{'0f' * 8}.partial"
    partial.mkdir()
    (partial / f".rheostat-{'0f' * 8}.partial").write_bytes(b"half a model")
    for path in (*partial.iterdir(), partial):
        os.utime(path, (0, 0))
    export_it(ORDERED, tmp_path / "out")
    assert names(tmp_path) == {"out"}


# The command


def test_the_command_says_what_it_wrote(tmp_path: Path) -> None:
    model, out = unordered(tmp_path), tmp_path / "out"
    said = run(model, "--engine", "core", "-o", out)
    assert f"wrote {out}: " in said and "positions of the knob, down to" in said and "int8, 4 files" in said
    manifest = json.loads(run(model, "--engine", "core", "--precision", "fp32", "-o", out, "--json"))
    assert (manifest["engine"], manifest["precision"]) == ("core", "fp32")


def test_the_engine_is_onnx_unless_the_core_is_asked_for(tmp_path: Path) -> None:
    try:
        run(unordered(tmp_path), "-o", tmp_path / "out")
    except MissingExtraError:
        pytest.skip("the onnx extra is not installed")
    assert "step.onnx" in names(tmp_path / "out")


def test_rankings_beside_the_default_one_stay(tmp_path: Path) -> None:
    shape = TINY["qrnn"]
    model = unordered(tmp_path, rankings=[make_ranking(shape, 1, "one"), make_ranking(shape, 2, "two")],
                      default_ranking="two")  # fmt: skip
    export_it(model, tmp_path / "out")
    with open_model(tmp_path / "out" / "model.safetensors") as file:
        assert file.ordered == "two" and [entry.name for entry in file.rankings()] == ["one", "two"]
