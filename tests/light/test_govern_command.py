"""`rheostat govern`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from models import GOLDEN
from results_files import bench_row, write_bench
from rheostat.cli.govern import govern
from rheostat.errors import RheostatError
from rheostat.keyboard.facts import estimated_energy
from rheostat.measure.meters.choice import Estimate
from rheostat.model.file import open_model
from rheostat.model.knob import choose
from rheostat.model.precision import bytes_read
from rheostat.report.govern import full_cost
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
    title = " ".join(shown.split("┏")[0].split())
    assert title.startswith("'ordinary-day' (android-phone, costs: the paper's, Raspberry Pi 3 Model B): the governor")
    given = " ".join(run("--trace", DAY, "--model", str(MODEL), "--latency-ms", "2").split("┏")[0].split())
    assert "costs: given and estimate)" in given


def test_the_error_names_the_model_as_the_user_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "own.safetensors").write_bytes(MODEL.read_bytes())
    monkeypatch.chdir(tmp_path)
    for name in ("chat", "runs/own.safetensors"):
        with pytest.raises(RheostatError, match=f"a query of {name} takes.*`rheostat bench {name} -o FILE`"):
            run("--trace", DAY, "--model", name)


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
    spent = totals("--policy", str(policy), "--model", str(MODEL), "--latency-ms", "2")
    assert share < 0.7
    governed, full = spent["governed"]["energy_j"], spent["always full"]["energy_j"]
    assert governed == pytest.approx(full * share)


def test_a_path_of_bits_spends_its_cost_not_its_flops(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("largest_knob = 0.5\n")
    with open_model("chat") as file:
        point = choose(file, 0.5)
    spent = totals("--policy", str(policy), "--model", "chat", "--latency-ms", "2")
    assert point.cost <= 0.5 < 0.8 < point.flops_fraction
    assert spent["governed"]["energy_j"] == pytest.approx(spent["always full"]["energy_j"] * point.cost)


def test_another_model_never_costs_what_the_paper_measured() -> None:
    with pytest.raises(RheostatError, match=r"how long a query of .*golden-fp32.* is not known; expected a bench"):
        run("--trace", DAY, "--model", str(MODEL))
    with pytest.raises(RheostatError, match="how long a query"):
        run("--trace", DAY, "--model", str(MODEL), "--energy-mj", "3")
    shown = run("--trace", DAY, "--model", str(MODEL), "--latency-ms", "2")
    assert "the paper's" not in shown and "2 ms (given)" in shown and "pJ per FLOP" in shown


def test_the_keyboards_estimate_and_governs_agree() -> None:
    with open_model(MODEL) as file:
        flops = file.shape.flops
        cost = full_cost(latency_ms=2, file=file)
    assert cost.energy_mj == estimated_energy().query_mj(flops, bytes_read(flops, "int8"))
    half = flops // 2
    theirs = estimated_energy().query_mj(half, bytes_read(half, "int8"))
    assert cost.table.at(half / flops, "energy_mj") == pytest.approx(theirs, rel=1e-3)


def test_a_bench_without_a_meter_is_priced_by_its_flops_and_bytes(tmp_path: Path) -> None:
    rows = [bench_row(1.0, 2.0), bench_row(0.5, 1.2)]
    path = write_bench(tmp_path / "bench.json", rows)
    cost = full_cost(bench=path)
    estimate = Estimate()
    expected = [1e3 * estimate.energy_j(row["executed_flops"]["mean"], row["bytes_read"]) for row in reversed(rows)]
    assert [point.energy_mj for point in cost.points] == pytest.approx(expected)
    assert cost.latency_source == "bench.json" and cost.energy_source.startswith("estimate, ")
    given = full_cost(bench=path, energy_mj=4)
    assert [point.energy_mj for point in given.points] == pytest.approx([2.4, 4]) and given.energy_source == "given"


def test_positions_in_4_bits_are_priced_by_their_cost(tmp_path: Path) -> None:
    rows = [bench_row(1.0, 2.0), bench_row(0.9, 1.1, bounds=[1], cost_fraction=0.45)]
    assert [point.knob for point in full_cost(bench=write_bench(tmp_path / "bench.json", rows)).points] == [0.45, 1.0]


def test_a_bench_of_another_model_is_refused(tmp_path: Path) -> None:
    path = write_bench(tmp_path / "bench.json", [bench_row(1.0, 2.0), bench_row(0.5, 1.2)], model="other.safetensors")
    with pytest.raises(RheostatError, match=r"another model, other\.safetensors; expected a bench of .*golden-fp32"):
        run("--trace", DAY, "--model", str(MODEL), "--bench", str(path))
    with open_model(MODEL) as file:
        known: Any = {"flops": file.shape.flops, "weights": file.weights_digest()}
    path = write_bench(tmp_path / "own.json", [bench_row(1.0, 2.0), bench_row(0.5, 1.2)], **known)
    assert "2 ms (own.json)" in " ".join(run("--trace", DAY, "--model", str(MODEL), "--bench", str(path)).split())


def test_savings_are_also_a_share_of_the_battery() -> None:
    summary = json.loads(run("--trace", DAY, "--json"))
    governed, full = (one["battery_share"] for one in summary["behaviours"][:2])
    assert summary["battery_saved"] == pytest.approx(full - governed) and summary["battery_saved"] > 0
    assert "of a battery (ESTIMATE)" in " ".join(run("--trace", DAY).split())


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
    with pytest.raises(RheostatError, match=r"cannot write .*file is a file, not a folder"):
        run("--trace", "absent.csv", "-o", str(tmp_path / "file"))  # noticed before anything is read


def test_an_unknown_policy_error_lists_the_known_ones() -> None:
    with pytest.raises(RheostatError, match="no-such: no such policy; expected default"):
        run("--trace", DAY, "--policy", "no-such")


def test_a_trace_named_like_markup_is_shown_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "[red]day.csv"
    path.write_text("time_s,level,charging,queries\n0,0.5,0,3\n")
    assert "[red]day" in run("--trace", str(path))


@pytest.mark.parametrize("option", ["--energy-mj", "--latency-ms"])
@pytest.mark.parametrize("value", ["1e308", "1e13", "0", "nan", "inf"])
def test_a_cost_that_no_query_has_is_an_error_in_one_line(option: str, value: str) -> None:
    with pytest.raises(RheostatError, match=r"of the full model is .*; expected a number above 0, at most 1e\+12$"):
        run("--trace", DAY, option, value)
