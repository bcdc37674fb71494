"""`rheostat inspect` and `rheostat pack`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from models import GOLDEN, TINY, make_ranking, write_tiny
from results_files import full, row, typed, write_sweep
from rheostat.cli.files import inspect, pack
from rheostat.errors import RheostatError
from rheostat.model.file import open_model
from rheostat.model.origin import Origin

app = typer.Typer()
app.command()(inspect)
app.command()(pack)

MODEL = str(GOLDEN / "golden-fp32.safetensors")


def run(*arguments: str) -> str:
    answer = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def test_inspect_prints_one_json_object() -> None:
    summary = json.loads(run("inspect", MODEL, "--json"))
    assert summary["parameters"] == TINY["qrnn"].parameters
    assert summary["flops"] == TINY["qrnn"].flops
    assert sum(summary["bytes_by_part"].values()) == Path(MODEL).stat().st_size
    assert [ranking["seed"] for ranking in summary["rankings"]] == [0, None]
    assert [point["has_gates"] for point in summary["points"]] == [True, False]
    assert summary["recipe"] == {"train": {"epochs": 2, "rates": [0.1, 30]}}


def test_inspect_shows_everything_in_tables() -> None:
    shown = run("inspect", MODEL, "--all")
    for word in ("qrnn", "fp32", "5 6 4", "filter-norm", "l0-0.5", "37.45%", "rank 2", "layers.2", "Ümlaut"):
        assert word in shown


def test_inspect_shows_how_things_were_made_in_a_row_each(tmp_path: Path) -> None:
    first = Origin(command="rheostat train x", recipe={"train": {}}, steps=7, date="2026-11-18T01:02:03+00:00")
    after = Origin(command="rheostat prune x", before=first)
    ranking = replace(make_ranking(TINY["qrnn"], name="own"), origin=after)
    path = write_tiny(tmp_path / "model", rankings=[ranking], points=[], default_ranking="own", origin=first)
    rows = [line for line in run("inspect", str(path)).splitlines() if "rheostat" in line]
    assert [row.split("│")[1].strip() for row in rows] == ["weights", "ranking own", "before that"]
    assert "2026-11-18" in rows[0] and "7" in rows[0] and "01:02" not in rows[0]


def test_inspect_prints_no_control_characters(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "model", provenance={"corpus": "\x1b[31mred\x07\x9b [bold]x[/bold]\n"})
    shown = run("inspect", str(path), "--all")
    assert "\\x1b[31mred\\x07\\x9b [bold]x[/bold]\\n" in shown
    assert not {"\x1b", "\x07", "\x9b"} & set(shown)


def test_pack_changes_precision_and_points(tmp_path: Path) -> None:
    out = tmp_path / "packed.safetensors"
    options = ["--precision", "int8", "--default-ranking", "random-0", "--point", "plain", "--drop-ranking", "norm"]
    assert "int8" in run("pack", MODEL, "-o", str(out), *options)
    with open_model(out) as file:
        assert file.precision == "int8"
        assert [entry.name for entry in file.description.points] == ["plain"]
        assert [entry.name for entry in file.description.rankings] == ["random-0"]
        assert file.description.default_ranking == "random-0"


def test_pack_stores_the_curve_of_a_sweep(tmp_path: Path) -> None:
    rows = [
        full(70.0, widths=list(TINY["qrnn"].hidden_sizes), **typed(0.25)),
        row("norm", "filter-norm", 0.5, "test", 80.0),
        row("norm", "filter-norm", 0.5, "valid", 1.0),
        row("random-0", "random", 0.5, "test", 99.0),
    ]
    results = write_sweep(tmp_path / "sweep.json", rows, flops=TINY["qrnn"].flops)
    out = tmp_path / "packed.safetensors"
    run("pack", MODEL, "--results", str(results), "-o", str(out))
    with open_model(out) as file:
        provenance = file.description.provenance
    assert provenance["seed"] == 1
    assert [(point["perplexity"], point["keystrokes_saved_share"]) for point in provenance["curve"]] == [
        (70.0, 0.25),
        (80.0, None),
    ]


def test_pack_refuses_the_results_of_another_model(tmp_path: Path) -> None:
    rows = [full(widths=list(TINY["qrnn"].hidden_sizes)), row("norm", "filter-norm", 0.5, "test", 80.0)]
    with open_model(MODEL) as file:
        digest, flops = file.weights_digest(), file.shape.flops
    out = tmp_path / "packed.safetensors"
    ours = write_sweep(tmp_path / "ours.json", rows, flops=flops, weights=digest)
    run("pack", MODEL, "--results", str(ours), "--precision", "int8", "-o", str(out))  # the sweep is of what is packed
    out.unlink()
    others = {
        "weights": write_sweep(tmp_path / "weights.json", rows, "other.safetensors", flops, weights="0" * 16),
        "FLOPs": write_sweep(tmp_path / "flops.json", rows, "other.safetensors"),
        "widths": write_sweep(tmp_path / "widths.json", [full(widths=[9])], "other.safetensors", flops),
    }
    for results in others.values():
        with pytest.raises(RheostatError, match=r"results of another model, other\.safetensors; expected a sweep of"):
            run("pack", MODEL, "--results", str(results), "-o", str(out))
        assert not out.exists()


def test_pack_without_options_copies(tmp_path: Path) -> None:
    out = tmp_path / "copy.safetensors"
    summary = json.loads(run("pack", MODEL, "--out", str(out), "--json"))
    assert summary["file_bytes"] == out.stat().st_size
    assert out.read_bytes() == Path(MODEL).read_bytes()


def test_pack_reports_the_file_that_it_wrote_even_under_a_bundled_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    summary = json.loads(run("pack", MODEL, "-o", "chat", "--json"))
    assert summary["file_bytes"] == Path("chat").stat().st_size == Path(MODEL).stat().st_size


def test_pack_lists_the_precisions(tmp_path: Path) -> None:
    answer = CliRunner().invoke(app, ["pack", MODEL, "-o", str(tmp_path / "out"), "--precision", "float32"])
    assert answer.exit_code == 2
    assert "'fp32', 'fp16', 'int8'" in " ".join(answer.output.replace("│", " ").split())  # some versions draw a box


@pytest.mark.parametrize("command", [inspect, pack])
def test_every_help_ends_with_an_example(command: object) -> None:
    assert (command.__doc__ or "").strip().splitlines()[-1].strip().startswith("Example: rheostat ")
