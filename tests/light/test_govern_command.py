"""`rheostat govern`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from models import GOLDEN
from rheostat.cli.govern import govern
from rheostat.errors import RheostatError
from rheostat.model.file import open_model
from rheostat.model.knob import choose
from rheostat.report.published import load_published

DAY = str(Path(__file__).parents[1] / "data" / "traces" / "ordinary-day.csv")
MODEL = GOLDEN / "golden-fp32.safetensors"
FULL = load_published().table("ptb").full

app = typer.Typer()
app.command()(govern)


def run(*arguments: str) -> str:
    answer = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def totals(*arguments: str) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in json.loads(run("--trace", DAY, "--json", *arguments))["behaviours"]}


def test_the_table_compares_three_behaviours_and_says_what_is_estimated() -> None:
    shown = run("--trace", DAY)
    for word in ("governed", "always full", "off at 20%", "ESTIMATE", "Raspberry Pi 3", "224 ms", "296 mJ"):
        assert word in shown


def test_json_is_one_line_with_the_papers_cost() -> None:
    shown = run("--trace", DAY, "--json")
    assert shown.count("\n") == 1
    summary = json.loads(shown)
    assert (summary["estimate"]["latency_ms"], summary["estimate"]["energy_mj"]) == (FULL.latency_ms, FULL.energy_mj)
    assert "Raspberry Pi 3" in summary["estimate"]["energy_source"]
    assert summary["files"] == []
    assert 0 < summary["energy_saved"] < 1


def test_a_given_cost_is_used_and_labelled() -> None:
    assert "2 ms (given) and 1 mJ (given)" in run("--trace", DAY, "--latency-ms", "2", "--energy-mj", "1")
    full = totals("--latency-ms", "2", "--energy-mj", "1")["always full"]
    assert full["p95_latency_ms"] == 2
    assert full["energy_j"] == pytest.approx(full["queries_served"] / 1000)


def test_a_models_points_spend_what_they_really_spend(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("largest_knob = 0.7\n")
    with open_model(MODEL) as file:
        share = choose(file, 0.7).flops_fraction
    spent = totals("--policy", str(policy), "--model", str(MODEL))
    assert share < 0.7
    governed, full = spent["governed"]["energy_j"], spent["always full"]["energy_j"]
    assert governed == pytest.approx(full * share)


def test_files_are_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "new" / "report"
    shown = run("--trace", DAY, "-o", str(out))
    for name in ("govern.json", "govern.png", "govern.svg"):
        assert (out / name).stat().st_size > 10_000
        assert name in shown
    contents = json.loads((out / "govern.json").read_text(encoding="utf-8"))
    assert contents["kind"] == "govern" and contents["policy"]["when"] and contents["provenance"]["rheostat"]
    governed, _, off = contents["behaviours"]
    day = {key: values for key, values in contents["trace"].items() if key not in ("name", "note", "hours")}
    assert len({len(values) for values in (*day.values(), *governed["series"].values())}) == 1
    assert governed["series"]["energy_j"][-1] == pytest.approx(governed["totals"]["energy_j"], rel=1e-4)
    assert len(day["time_s"]) <= 240 and (out / "govern.json").stat().st_size < 100_000
    assert off["name"] == "off at 20%" and None in off["series"]["latency_ms"]


def test_the_picture_names_its_units(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    with matplotlib.rc_context({"svg.fonttype": "none"}):  # text as text, not as outlines
        run("--trace", DAY, "-o", str(tmp_path))
    picture = (tmp_path / "govern.svg").read_text(encoding="utf-8")
    for word in ("knob (% of FLOPs)", "latency (ms/query)", "energy so far (J)", "time (h)", "ESTIMATE"):
        assert word in picture


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RheostatError, match=r"cannot write .*the old file is intact"):
        run("--trace", DAY, "-o", str(tmp_path / "file"))


def test_an_unknown_policy_error_lists_the_known_ones() -> None:
    with pytest.raises(RheostatError, match="no-such: no such policy; expected default"):
        run("--trace", DAY, "--policy", "no-such")


def test_a_trace_named_like_markup_is_shown_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "[red]day.csv"
    path.write_text("time_s,level,charging,queries\n0,0.5,0,3\n")
    assert "[red]day" in run("--trace", str(path))
