"""The whole report: the paper's tables beside our numbers, figures, and one self-contained page."""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from typer.testing import CliRunner

from models import make_ranking, make_vocabulary, make_weights, write_tiny
from pictures import drawn, legend_lines
from results_files import (
    FLOPS,
    MACHINE,
    SILENT,
    SOURCE,
    WIKITEXT_FLOPS,
    JsonObject,
    bench_part,
    bench_row,
    bench_subject,
    full,
    ranked,
    recovered,
    row,
    write_bench,
    write_ngram,
    write_results_json,
    write_sweep,
)
from rheostat.cli import main
from rheostat.cli.report import report
from rheostat.errors import RheostatError
from rheostat.governor.cost import CostPoint
from rheostat.governor.policy import read_policy
from rheostat.governor.replay import FullCost, compare
from rheostat.governor.trace import read_trace
from rheostat.measure.bench import BenchConfig, bench_positions_of
from rheostat.measure.latency import BenchPosition
from rheostat.measure.meters import NoMeter
from rheostat.measure.results import GovernResults, read_all, read_results, read_sweep, write_results
from rheostat.measure.texts import read_text
from rheostat.model.shape import ModelShape
from rheostat.model.widths import select
from rheostat.report.cost_sections import bits_sections
from rheostat.report.document import (
    NOT_MEASURED,
    Paragraph,
    Picture,
    Table,
    TableRow,
    line,
    markdown,
    prose,
    table_markdown,
)
from rheostat.report.evidence import Evidence, gather
from rheostat.report.figures.costs import draw_costs, draw_fit, families, fit_line, front_points, panels, pareto_front
from rheostat.report.figures.day import draw_replay
from rheostat.report.figures.weights import draw_weights, masked_corner
from rheostat.report.kept_filters import read_kept_filters
from rheostat.report.learned import learned_page
from rheostat.report.paper_tables import paper_table
from rheostat.report.published import WeightPicture, load_published
from rheostat.report.sections import build_report, learned_comparisons
from rheostat.report.summary import best_point, summary_lines
from rheostat.report.writer import write_report

RESULTS = Path(__file__).parents[2] / "results"
FOREIGN = SOURCE | {"machine": MACHINE | {"processor": "q", "cores": 4}}
VALID = {"perplexity": 150.0, "recall_at_1": 0.1, "recall_at_3": 0.2, "recall_at_5": 0.3, "tokens": 10}
DAY = Path(__file__).parents[1] / "data" / "traces" / "ordinary-day.csv"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A sweep, learned points, a bench, a replayed day, a benchmark and a training run."""
    folder = tmp_path_factory.mktemp("results")
    rankings = [ranked(name, 0.8, 80.0 + at, widths=[80]) for at, name in enumerate(("random", "filter-norm"))]
    valid = row("random", "random", 0.8, "valid", 85.5, widths=[80])
    learned = [*recovered("l0", 0.6, 81.0, 77.0, widths=[61]), *recovered("random", 0.8, 80.0, 76.0, widths=[80])]
    costs = [bench_row(1.0, 2.0, 10.0), bench_row(0.8, 1.625, 8.5), bench_row(0.6, 1.25, 6.0)]
    day = compare(read_trace(DAY), read_policy(), FullCost(224, 296, "given", "given"))
    write_results(folder / "govern.json", GovernResults.of(day, None, None))
    return [
        write_sweep(folder / "ptb.json", [full(widths=[100]), *rankings, valid]),
        write_sweep(folder / "ptb-learned.json", [full(widths=[100]), *learned]),
        write_bench(folder / "bench.json", costs, (0.999, 0.987)),
        folder / "govern.json",
        write_results_json(
            folder / "speed.json", "benchmark", {"name": "speed", "figures": {"seconds": {"step": 1.25}}}
        ),
        write_results_json(folder / "run.json", "training", TRAINING),
    ]


SPEED = {"name": "speed", "figures": {"seconds": {"step": 1.25}}}
TRAINING = {
    "model": {"recipe": {}, "run": {}, "valid": VALID},
    "progress": {"epoch": 1, "step": 9, "tokens": 99, "seconds": 1.5, "finished": True},
    "train": [{"step": 9, "epoch": 1, "seconds": 1.5, "loss": 5.0, "rate": 0.1, "tokens_per_second": 66.0}],
    "valid": [{"step": 9, "epoch": 1, "seconds": 1.5, "loss": 5.0, "averaged_steps": 0, **VALID}],
}


def write(path: Path, contents: Any) -> Path:
    path.write_text(json.dumps(contents))
    return path


def run(*arguments: str) -> str:
    app = typer.Typer()
    app.command()(report)
    answer = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert answer.exit_code == 0, answer.output
    return answer.output


@pytest.fixture(scope="module")
def evidence(files: list[Path]) -> Evidence:
    return gather(read_all(files))


# Reading


def test_files_are_distinguished_by_their_kind(files: list[Path]) -> None:
    found = read_all([*files, files[0]])
    assert [sweep.path.name for sweep in found.sweeps] == ["ptb.json", "ptb-learned.json"]
    assert [bench.path.name for bench in found.benches] == ["bench.json"]
    assert [day.comparison.trace.name for day in found.days] == ["ordinary-day"]
    assert found.benchmarks[0].numbers == {"seconds.step": 1.25}
    assert found.trainings[0].progress.tokens == 99


def test_a_day_is_read_as_it_was_replayed(files: list[Path]) -> None:
    replayed = compare(read_trace(DAY), read_policy(), FullCost(224, 296, "given", "given"))
    comparison = read_all(files).days[0].comparison
    assert comparison.summary() == replayed.summary()
    # The series are thinned and rounded; the totals above are exact.
    for read, whole in zip(comparison.replays, replayed.replays, strict=True):
        assert len(read.moments) < len(whole.moments)
        by_time = {moment.time_s: moment for moment in whole.moments}
        for moment in read.moments:
            assert moment.knob == by_time[moment.time_s].knob
            assert moment.energy_j == pytest.approx(by_time[moment.time_s].energy_j, rel=1e-4)
    assert (comparison.policy, comparison.cost) == (replayed.policy, replayed.cost)


def test_a_bench_is_read_as_it_was_written(model: Path, tmp_path: Path) -> None:
    positions = [BenchPosition(1.0), BenchPosition(0.7), BenchPosition(0.4)]
    config = BenchConfig(queries=4, warm_up=0, memory=False, threads=1)
    measured = bench_positions_of(model, positions, read_text(None, "words", 100), config, NoMeter())
    write_results(tmp_path / "bench.json", measured)
    assert read_results(tmp_path / "bench.json") == measured
    assert [row.ranking for row in measured.rows] == [None, "random-1", "random-1"]
    assert measured.subject.origins.rankings == {"random-1": "not recorded"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[1, 2]", "not a JSON object"),
        ("{}", "has no kind; expected"),
        ('{"kind": "scale", "version": 1}', "has the unknown kind 'scale'; expected"),
        ('{"kind": ["sweep"], "version": 1}', "has the unknown kind"),
        ('{"kind": "sweep"}', "has the version None"),
        ('{"kind": "sweep", "version": 0}', "has the version 0"),
        ('{"kind": "sweep", "version": true}', "has the version True"),
        ('{"kind": "sweep", "version": 2, "rows": []}', "has version 2; this program reads .* up to 1: update"),
        ('{"kind": "govern", "version": 1}', "lacks 'provenance'"),
    ],
)
def test_a_broken_file_is_one_line_and_exit_1(
    tmp_path: Path, text: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text)
    with pytest.raises(RheostatError, match=rf"broken\.json.*{message}"):
        read_all([path])
    monkeypatch.setattr("sys.argv", ["rheostat", "report", str(path), "-o", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as stopped:
        main()
    shown = capsys.readouterr().err
    assert stopped.value.code == 1 and shown.startswith("error: ") and shown.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (["subject"], None, "lacks 'subject'"),
        (["subject", "flops"], "9", r"subject\.flops is '9'; expected a whole number"),
        (["subject", "flops"], True, r"subject\.flops is True"),
        (["rows"], 3, r"rows is 3; expected a list"),
        (["rows", 0, "perplexity"], math.nan, r"rows\[0\]\.perplexity is nan; expected a finite number"),
        (["rows", 0, "allocation"], "odd", r"rows\[0\]\.allocation is 'odd'"),
        (["rows", 0, "colour"], 1, "unknown key 'colour'"),
        (["provenance", "machine"], {}, "lacks 'processor'"),
        (["subject", "origins"], {"weights": "guessed"}, "'guessed'.*expected one of 'not recorded'"),
    ],
)
def test_a_wrong_value_is_named_by_its_place(tmp_path: Path, place: list[Any], value: Any, message: str) -> None:
    contents = json.loads(write_sweep(tmp_path / "broken.json", [full()]).read_text())
    inner = contents
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    if value is None:
        del inner[place[-1]]
    write(tmp_path / "broken.json", contents)
    with pytest.raises(RheostatError, match=rf"broken\.json: sweep.*{message}"):
        read_all([tmp_path / "broken.json"])


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.name)
def test_every_committed_file_round_trips(path: Path, tmp_path: Path) -> None:
    write_results(tmp_path / path.name, read_results(path))
    assert (tmp_path / path.name).read_text(encoding="utf-8") == path.read_text(encoding="utf-8")


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(RheostatError, match=r"cannot read .*none\.json"):
        read_all([tmp_path / "none.json"])


# The paper's tables


def our_lines(evidence: Evidence, corpus: str = "ptb") -> dict[int, dict[str, str]]:
    """Our cells by the row of the paper's table."""
    published = next(table for table in load_published().tables if table.corpus == corpus)
    table = paper_table(published, evidence.on(corpus))
    ours = [one for one in table.rows if one.mark == "ours"]
    cells = (dict(zip(table.header, one.cells, strict=True)) for one in ours)
    return {theirs.row: own for theirs, own in zip(published.rows, cells, strict=False)}


def test_every_row_of_the_paper_is_above_ours(evidence: Evidence) -> None:
    for published in load_published().tables:
        rows = paper_table(published, evidence.on(published.corpus)).rows
        assert [one.mark for one in rows] == ["published", "ours"] * len(published.rows)
        assert [one.cells[4] for one in rows[::2]] == [f"{row.test_perplexity:.1f}" for row in published.rows]


def test_our_rows_come_from_sweeps_and_benches(evidence: Evidence) -> None:
    lines = our_lines(evidence)
    whole, l0, random = lines[3], lines[5], lines[6]
    assert (whole["test perplexity"], whole["ms/query"], whole["mJ/query"]) == ("70.00", "2", "10")
    assert (random["valid perplexity"], random["test perplexity"]) == ("85.50", "80.00")
    assert (random["above its full model"], random["ms/query"]) == ("+14.3%", "1.62")
    assert random["with update: test"] == "76.00"
    assert random["from"] == "`ptb.json`, `ptb-learned.json`, `bench.json`"
    assert (l0["test perplexity"], l0["with update: test"]) == ("81.00", "77.00")
    assert l0["ms/query"] == "≈ 1.25"  # the same share, other widths


def test_unmeasured_cells_say_so(evidence: Evidence) -> None:
    lines = our_lines(evidence)
    assert lines[8]["test perplexity"] == lines[1]["ms/query"] == NOT_MEASURED
    assert {one["test perplexity"] for one in our_lines(evidence, "wikitext103").values()} == {NOT_MEASURED}


def test_an_estimate_is_labelled(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path / "s.json", [full(), ranked("random", 0.8, 80.0)])
    costs = write_bench(tmp_path / "b.json", [bench_row(1.0, 2.0, 10.0, energy={"estimate": True})])
    assert our_lines(gather(read_all([sweep, costs])))[3]["mJ/query"] == "10 (estimate)"


def test_a_bench_of_another_model_is_not_taken(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path / "s.json", [full(), ranked("random", 0.8, 80.0)])
    costs = write_bench(tmp_path / "b.json", [bench_row(1.0, 2.0)], model="awd-lstm.safetensors", flops=FLOPS + 1)
    lines = our_lines(gather(read_all([sweep, costs])))
    assert lines[3]["ms/query"] == NOT_MEASURED
    assert lines[2]["ms/query"] == "2"  # its own row of the table


def test_models_beside_it_have_rows_and_an_untrained_one_has_no_quality(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path / "s.json", [full(), ranked("random", 0.8, 80.0)])
    beside = [
        bench_part(bench_subject(name, flops, trained=False), [bench_row(1.0, 2.0, flops=flops)])
        for name, flops in (("ptb-awd-lstm.safetensors", 48_380_000), ("ptb-dense-60.safetensors", round(0.6 * FLOPS)))
    ]
    costs = write_bench(tmp_path / "b.json", [bench_row(1.0, 2.0)], beside=beside)
    evidence = gather(read_all([sweep, costs]))
    lstm = our_lines(evidence)[2]
    assert (lstm["test perplexity"], lstm["ms/query"], lstm["FLOPs"]) == ("not trained", "2", "100.8%")
    cells = paper_table(load_published().table("ptb"), evidence.on("ptb")).rows[-1].cells
    assert cells[1] == "`ptb-dense-60.safetensors`" and cells[4] == "not trained" and cells[7] == "60.0%"
    text = markdown(build_report(evidence))
    assert "`ptb-awd-lstm.safetensors` (not trained)" in text and text.count("FLOPs, time and energy") == 1


def test_a_trained_baseline_has_the_flops_of_its_sweep(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path / "s.json", [full(), ranked("random", 0.8, 80.0)])
    lstm = write_sweep(tmp_path / "l.json", [full(75.0)], "ptb-awd-lstm.safetensors", 48_380_000)
    cells = our_lines(gather(read_all([sweep, lstm])))[2]
    assert (cells["test perplexity"], cells["FLOPs"]) == ("75.00", "100.8%")


def test_the_text_above_a_table_says_how_many_seeds_a_row_has(tmp_path: Path) -> None:
    seeds = [row(f"random-{seed}", "random", 0.8, "test", 80.0 + seed) for seed in (1, 2, 3)]
    rows = [full(), *seeds, ranked("filter-norm", 0.8, 85.0), *recovered("random", 0.8, 81.0, 76.0)]
    text = markdown(build_report(gather(read_all([write_sweep(tmp_path / "s.json", rows)]))))
    assert "Random is the mean of 3 seeds, and with update of 1 (`random-0.8-updated`, 81.00 without it)." in text
    assert "Filter norm is the mean" not in text


def test_sections_with_updates_say_where_their_training_is_listed(tmp_path: Path) -> None:
    rows = [full(), ranked("random", 0.8, 81.0), ranked("taylor", 0.8, 80.0)]
    plain, updated = write_sweep(tmp_path / "s.json", rows), [full(), *recovered("random", 0.8, 81.0, 76.0)]
    learned = write_sweep(tmp_path / "l.json", updated)
    assert "comparable only if" not in markdown(build_report(gather(read_all([plain]))))
    evidence = gather(read_all([plain, learned]))
    sections = {section.title: section for section in build_report(evidence).sections}
    for title in ("The paper's table 1, with our measurements", "Learned operating points: ptb"):
        text = " ".join(block.text for block in sections[title].blocks if isinstance(block, Paragraph))
        assert "“How models were made”" in text and "recipe" not in text
    (comparison,) = learned_comparisons(evidence)
    assert "comparable only if" in learned_page(comparison, None) and "recipe" not in learned_page(comparison, None)
    assert "How models were made" in sections


def test_a_point_has_the_cost_of_its_own_widths_in_any_bench_of_the_machine(tmp_path: Path) -> None:
    sweep = write_sweep(tmp_path / "s.json", [full(), ranked("random", 0.8, 80.0, widths=[7])])
    ranked_costs = write_bench(tmp_path / "a.json", [bench_row(1.0, 2.0), bench_row(0.8, 1.6)])
    learned_costs = write_bench(tmp_path / "b.json", [bench_row(0.8, 1.5, widths=[7])])
    assert our_lines(gather(read_all([sweep, ranked_costs])))[6]["ms/query"] == "≈ 1.6"
    assert our_lines(gather(read_all([sweep, ranked_costs, learned_costs])))[6]["ms/query"] == "1.5"


def test_a_resplit_model_is_not_a_dense_baseline(tmp_path: Path) -> None:
    split = tmp_path / "wt103-split.json"
    split.write_text((RESULTS / "wt103-split.json").read_text(encoding="utf-8"), encoding="utf-8")
    contents = json.loads(split.read_text(encoding="utf-8"))
    contents["subject"] |= {"model": "wt103-learned.safetensors", "flops": WIKITEXT_FLOPS}
    contents["rows"] += [ranked("random", 0.7, 600.0), ranked("l0", 0.7, 500.0, allocation="stored")]
    whole = write(tmp_path / "wt103.json", contents)
    subject = json.loads(split.read_text(encoding="utf-8"))["subject"]
    benched = {name: subject[name] for name in ("model", "flops", "corpus")}
    costs = write_bench(tmp_path / "b.json", [bench_row(1.0, 2.0)], **benched)
    evidence = gather(read_all([split, whole, costs]))
    on = evidence.on("wikitext103")
    assert on.reference is not None and on.reference.path == whole
    assert {one.path for one in on.measurements} == {whole}
    assert on.baselines == () and on.other_baselines(()) == []
    document = build_report(evidence)
    text = markdown(document)
    assert "another model" not in text and "All points of wt103-split" in text
    assert [note.partition(":")[0] for note in document.notes] == ["Left out of comparisons"]
    assert "`wt103-split.json`" in document.notes[0]


def test_a_sweep_of_a_resplit_model_with_fewer_points_is_not_the_reference(tmp_path: Path) -> None:
    few = write_sweep(tmp_path / "split.json", [full(), ranked("random", 0.7, 90.0)], "split", FLOPS + 800)
    more = [full(), ranked("random", 0.7, 90.0), ranked("taylor", 0.7, 85.0)]
    on = gather(read_all([few, write_sweep(tmp_path / "whole.json", more)])).on("ptb")
    assert on.reference is not None and on.reference.path.name == "whole.json"


# Pictures


def test_the_pareto_front_is_chosen_on_valid_and_drawn_on_test() -> None:
    points = [(1.0, 72.0, 70.0), (0.8, 75.0, 73.0), (0.9, 76.0, 74.0), (0.7, 75.5, 74.0), (0.6, 97.0, 95.0)]
    assert pareto_front(points) == [(0.6, 95.0), (0.7, 74.0), (0.8, 73.0), (1.0, 70.0)]
    # no step up to a point that is not shown
    assert pareto_front(points, largest=80.0) == [(0.7, 74.0), (0.8, 73.0), (1.0, 70.0)]
    lucky = [(1.0, 72.0, 70.0), (0.8, 75.0, 73.0), (0.9, 76.0, 60.0)]  # on test only
    assert pareto_front(lucky) == [(0.8, 73.0), (1.0, 70.0)]


def test_other_weights_are_not_on_the_front(tmp_path: Path) -> None:
    def both(maker: Any, *arguments: Any) -> list[dict[str, Any]]:
        test = maker(*arguments)
        return [test, {**test, "split": "valid"}]

    ours = [*both(full, 70.0), *both(ranked, "random", 0.8, 80.0)]
    graded = [*both(full, 70.5), *both(ranked, "graded", 0.8, 72.0)]
    (on,) = gather(
        read_all([write_sweep(tmp_path / "a.json", ours), write_sweep(tmp_path / "b.json", graded, "other")])
    ).corpora
    (panel, *_) = panels(on)
    assert sorted(test for _, _, test in front_points(on, panel)) == [70.0, 80.0]


def test_a_line_is_fitted_by_least_squares() -> None:
    line = fit_line([0.0, 1.0, 2.0], [1.0, 3.0, 5.0])
    assert line is not None and (line.intercept, line.slope) == pytest.approx((1.0, 2.0))
    assert fit_line([1.0, 1.0], [1.0, 2.0]) is None


def test_no_line_is_drawn_through_fewer_than_three_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fit_line([1.0, 2.0], [1.0, 2.0]) is None and fit_line([1.0, 2.0, 2.0], [1.0, 2.0, 3.0]) is None
    costs = [bench_row(1.0, 2.0, 10.0), bench_row(0.8, 1.625, 8.5)]
    (bench,) = read_all([write_bench(tmp_path / "b.json", costs)]).benches
    figure = drawn(monkeypatch, draw_fit, bench)
    assert [axes.get_legend_handles_labels()[1] for axes in figure.axes] == [["points, 95 % interval"]] * 2


def test_points_with_fewer_bits_are_drawn_beside_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They take less time at the same FLOPs."""
    whole = [bench_row(share, 2.0 * share, 10.0) for share in (1.0, 0.8, 0.6)]
    costs = [*whole, {**bench_row(1.0, 0.5, 10.0), "bounds": [0] * 5}]
    (bench,) = read_all([write_bench(tmp_path / "b.json", costs)]).benches
    assert bench.fit.latency_r_squared == pytest.approx(1.0)
    figure = drawn(monkeypatch, draw_fit, bench)
    assert "some weights in 4 bits: not in the line" in figure.axes[0].get_legend_handles_labels()[1]


def test_there_is_a_panel_for_every_cost_that_was_measured(evidence: Evidence, files: list[Path]) -> None:
    labels = [panel.label for panel in panels(evidence.on("ptb"))]
    assert [label.partition(" ")[0] for label in labels] == ["share", "latency", "energy"]
    assert labels[1].endswith("int8 on p")
    assert len(panels(gather(read_all(files[:2])).on("ptb"))) == 1


def test_energy_is_drawn_if_resolved_or_labelled_an_estimate(files: list[Path], tmp_path: Path) -> None:
    for energy, label in (({"resolved": False}, None), ({"estimate": True, "resolved": False}, "ESTIMATE")):
        costs = [bench_row(1.0, 2.0, 10.0, energy=energy), bench_row(0.8, 1.6, 8.0, energy=energy)]
        found = gather(read_all([*files[:2], write_bench(tmp_path / "b.json", costs)]))
        labels = [panel.label for panel in panels(found.on("ptb")) if panel.label.startswith("energy")]
        assert ["ESTIMATE" in one for one in labels] == ([] if label is None else [True])


def test_updated_points_are_a_separate_family(evidence: Evidence) -> None:
    names = [family.name for family in families(evidence.on("ptb"))]
    assert names == ["filter-norm", "l0 with update", "random", "random with update"]


def test_points_of_another_precision_are_a_separate_family(files: list[Path], tmp_path: Path) -> None:
    rows = [full(70.5), ranked("random", 0.8, 80.5)]
    int8 = write_sweep(tmp_path / "int8.json", rows, "m8", precision="int8")
    found = {family.name: family for family in families(gather(read_all([files[0], int8])).on("ptb"))}
    assert list(found) == ["filter-norm", "random", "random, int8"]
    assert [one.test_perplexity for one in found["random, int8"].points] == [70.5, 80.5]


def test_a_dense_model_has_the_cost_of_its_own_bench(tmp_path: Path) -> None:
    name, flops = "dense.safetensors", round(0.6 * FLOPS)
    sweep = write_sweep(tmp_path / "s.json", [full(), ranked("random", 0.8, 80.0)])
    dense = write_sweep(tmp_path / "d.json", [full(92.0)], name, flops)
    costs = write_bench(tmp_path / "a.json", [bench_row(1.0, 2.0), bench_row(0.8, 1.6)])
    own = write_bench(tmp_path / "b.json", [bench_row(1.0, 1.4)], model=name, flops=flops)
    elsewhere = write_bench(tmp_path / "c.json", [bench_row(1.0, 9.0)], model=name, flops=flops, provenance=FOREIGN)
    found: dict[bool, float | None] = {}
    for there, benches in ((False, [costs, elsewhere]), (True, [costs, elsewhere, own])):
        on = gather(read_all([sweep, dense, *benches])).on("ptb")
        (model,) = on.baselines
        found[there] = panels(on)[1].cost(model)
    assert found == {False: None, True: 1.4}
    text = markdown(build_report(gather(read_all([sweep, dense, costs, own]))))
    assert "cost from `a.json`, `b.json` (in int8" in text


def test_an_update_is_drawn_beside_the_others_at_its_share(
    evidence: Evidence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    updates = [one for name in ("random", "filter-norm", "l0") for one in recovered(name, 0.8, 80.0, 76.0)]
    sweep = write_sweep(
        tmp_path / "s.json", [full(), ranked("random", 0.8, 80.0), ranked("random", 0.5, 99.0), *updates]
    )
    on = gather(read_all([sweep])).on("ptb")
    lines = [line for line in legend_lines(drawn(monkeypatch, draw_costs, on)) if "update" in line.get_label()]
    shares = [float(line.get_xdata()[0]) for line in lines]
    assert len(set(shares)) == 3 and all(abs(share - 80) < 3 for share in shares)
    assert "side by side" in markdown(build_report(evidence))
    lines_only = write_sweep(tmp_path / "l.json", [full(), ranked("random", 0.8, 80.0)])
    assert "side by side" not in markdown(build_report(gather(read_all([lines_only]))))


def test_a_model_that_n_grams_beat_is_drawn_nevertheless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [full(449.0), ranked("random", 0.8, 500.0), ranked("random", 0.5, 900.0)]
    ngram = write_ngram(tmp_path / "ngram.json", 423.0)
    evidence = gather(read_all([write_sweep(tmp_path / "worse.json", rows), ngram]))
    low, high = drawn(monkeypatch, draw_costs, evidence.on("ptb")).axes[0].get_ylim()
    assert low < 423 and 500 < high < 900
    assert f"above {high:.0f} are not drawn (the paper draws none above 100" in markdown(build_report(evidence))
    better = write_sweep(tmp_path / "better.json", [full(400.0), *rows[1:]])
    evidence = gather(read_all([better, ngram]))
    assert drawn(monkeypatch, draw_costs, evidence.on("ptb")).axes[0].get_ylim()[1] == pytest.approx(1.03 * 423)
    assert "above 436 are not drawn (a little more than an n-gram" in markdown(build_report(evidence))


def test_paced_queries_stand_beside_those_back_to_back(tmp_path: Path) -> None:
    paced = {"latency_ms": 3.5, "interval_ms": [3.0, 4.0], "p95_ms": 5.25, "queries": 40, "pause_s": 0.3}
    rows = [bench_row(1.0, 2.0, paced=paced), bench_row(0.5, 1.2)]
    text = markdown(build_report(gather(read_all([write_bench(tmp_path / "b.json", rows)]))))
    assert "Cold: one query every 300 ms, with cold caches, 40 per point, as a keyboard asks" in text
    assert "| p95 ms | cold: ms/query | cold: p95 ms | mJ/query |" in text
    assert "| 2 | 3.5 | 5.25 |" in text and "| 1.2 | not measured | not measured |" in text
    plain = write_bench(tmp_path / "b.json", [bench_row(1.0, 2.0)])
    assert "old: " not in markdown(build_report(gather(read_all([plain]))))


def test_a_day_says_where_its_costs_were_measured(tmp_path: Path) -> None:
    bench = write_bench(tmp_path / "bench.json", [bench_row(1.0, 2.0, 4.0)], model="small")
    cost = FullCost(2.0, 4.0, "bench.json", "bench.json", (CostPoint(1.0, 2.0, 4.0),))
    write_results(tmp_path / "day.json", GovernResults.of(compare(read_trace(DAY), read_policy(), cost), None, None))
    for beside, expected in (
        ([bench], "These are the costs of `small` on p, not of this device; only the battery and the heat are"),
        ([], "These are the costs of the machine of that bench, not of this device"),
    ):
        assert expected in markdown(build_report(gather(read_all([tmp_path / "day.json", *beside]))))


def test_a_caption_does_not_call_an_estimate_not_measured(files: list[Path], tmp_path: Path) -> None:
    guess = {"estimate": True, "resolved": False}
    costs = [bench_row(1.0, 2.0, 10.0, energy=guess), bench_row(0.8, 1.6, 8.0, energy=guess)]
    sections = build_report(gather(read_all([files[0], write_bench(tmp_path / "b.json", costs)]))).sections
    (caption,) = [block.caption for block in sections[0].blocks if isinstance(block, Picture)]
    assert caption.endswith("; energy is an estimate.")


def test_the_line_of_a_fit_has_units(evidence: Evidence, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = drawn(monkeypatch, draw_fit, evidence.collection.benches[0])
    labels = [axes.get_legend_handles_labels()[1][0] for axes in figure.axes]
    assert [label.split()[1:5:3] for label in labels] == [["ms", "ms"], ["mJ", "mJ"]]


def test_the_weight_figure_labels_its_axis(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = drawn(monkeypatch, draw_weights, read_kept_filters(model))
    assert "elements 1–75" in [axes.get_xlabel() for axes in figure.axes]


def test_a_day_says_that_its_energy_is_an_estimate_and_keeps_within_its_frames(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (day,) = read_all(files).days
    steady = tuple(replace(moment, latency_ms=200.0) for moment in day.comparison.replays[0].moments)
    replays = tuple(replace(one, moments=steady) for one in day.comparison.replays)
    policy = replace(day.comparison.policy, latency_p95_ms=230.0)
    figure = drawn(monkeypatch, draw_replay, replace(day.comparison, replays=replays, policy=policy))
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert sum(" J (estimate)" in label for label in labels) == 3 and "latency target: 230 ms" in labels
    (latency,) = [axes for axes in figure.axes if "latency" in axes.get_ylabel()]
    assert not latency.texts  # no text over the curves
    assert latency.get_ylim()[1] > 1.05 * 230
    for word in ("knob", "battery", "queries", "energy"):
        assert any(word in axes.get_ylabel() for axes in figure.axes)


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_costs_and_fits_are_drawn(evidence: Evidence, tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    for name, draw, subject in (
        ("costs", draw_costs, evidence.on("ptb")),
        ("fit", draw_fit, evidence.collection.benches[0]),
    ):
        path = tmp_path / f"{name}{suffix}"
        draw(subject, path)  # type: ignore[operator]
        assert path.stat().st_size > 10_000


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shape = ModelShape(11, 40, (60, 40), (2, 1))
    rankings = [make_ranking(shape, 1, "random-1")]
    parts = {"weights": make_weights(shape), "vocabulary": make_vocabulary(11), "points": []}
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    return write_tiny(path, shape=shape, rankings=rankings, default_ranking="random-1", **parts)


def test_cut_filters_are_blank_in_z_f_and_o(model: Path) -> None:
    kept = read_kept_filters(model)
    whole, half = masked_corner(kept, "random", 1.0), masked_corner(kept, "random", 0.5)
    assert whole is not None and half is not None
    assert whole.shape == (75, 75) and not np.isnan(whole).any()
    blank = np.isnan(half).all(axis=1).reshape(3, 25)
    keep = kept.points["random", 0.5].keep[0]
    assert [index for index in range(25) if not blank[0, index]] == [index for index in keep if index < 25]
    assert (blank == blank[0]).all() and blank.any()
    np.testing.assert_array_equal(half[~np.isnan(half)], whole[~np.isnan(half)])


def test_a_row_of_the_weight_figure_has_one_kind_of_point(tmp_path: Path) -> None:
    shape = ModelShape(11, 40, (60, 40), (2, 1))
    taylor = replace(make_ranking(shape, 1, "taylor"), criterion="taylor")
    gates = replace(make_ranking(shape, 2, "gates-0.8"), criterion="l0")
    searched = replace(select(make_ranking(shape, 3), shape, 0.8), name="taylor-searched-0.8", criterion="taylor")
    learned = replace(select(make_ranking(shape, 4), shape, 0.8), name="l0-0.8", criterion="l0")
    parts = {"weights": make_weights(shape), "vocabulary": make_vocabulary(11), "points": [searched, learned]}
    path = write_tiny(tmp_path / "m", shape=shape, rankings=[taylor, gates], default_ranking="taylor", **parts)
    share = learned.flops_fraction
    points = read_kept_filters(path, WeightPicture("ptb-qrnn", 0, 4, 3, (1.0, share, 0.6))).points
    assert points["taylor", share].name != searched.name and ("taylor", 0.6) in points  # its ranking at every share
    assert (
        points["l0", share].name == learned.name and ("l0", 0.6) not in points
    )  # gates are learned separately for each point


def test_the_weight_picture_is_drawn(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw_weights(read_kept_filters(model), tmp_path / "weights.png")
    assert (tmp_path / "weights.png").stat().st_size > 10_000


def test_a_model_without_rankings_or_points_has_no_weight_figure(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "bare.safetensors", rankings=[], points=[], default_ranking=None)
    with pytest.raises(RheostatError, match="rheostat prune"):
        read_kept_filters(path)


# Pages


def test_a_cell_can_contain_a_bar() -> None:
    assert line(["a|b", "c\nd"]) == "| a\\|b | c<br>d |"
    table = Table(("x", "y"), "lr", (TableRow(("1", "2")),))
    assert table_markdown(table) == "| x | y |\n| --- | ---: |\n| 1 | 2 |"


def test_every_section_is_there_and_every_number_has_its_file(evidence: Evidence) -> None:
    text = markdown(build_report(evidence))
    for title in (
        "table 1",
        "table 2",
        "claims",
        "Learned operating points",
        "FLOPs, time and energy",
        "governor's day",
    ):
        assert re.search(rf"^## .*{title}", text, re.M), title
    for name in ("ptb.json", "ptb-learned.json", "bench.json", "govern.json", "speed.json", "run.json"):
        assert f"`{name}`" in text
    assert re.search(r"r² = [01]\.\d{3} \(0\.00 to 1\.00; published 0\.98\)", text)  # three points: no interval
    assert "The day `ordinary-day` (generated by make_traces.py; not a recording), 24 h." in text


def test_machine_state_and_memory_are_shown_beside_the_times(tmp_path: Path) -> None:
    moment = SILENT | {"load_average": 3.3, "governors": ["performance"]}
    machine = {"before": moment, "after": {**moment, "load_average": 0.5}, "throttled": False}
    rows = [bench_row(1.0, 2.0, resident_bytes=94_600_000), bench_row(0.8, 1.5)]
    quiet = write_bench(tmp_path / "a.json", rows, machine=machine)
    silent = write_bench(tmp_path / "b.json", rows)
    text = markdown(build_report(gather(read_all([quiet, silent]))))
    assert "load average 3.3 before and 0.5 after, CPU governor performance, clock not throttled" in text
    assert "load average not reported, CPU governor not reported, clock not reported" in text
    assert "| 95 | 2 |" in text and "| not measured | 1.5 |" in text


def test_a_graded_model_alone_is_left_out_with_a_note(tmp_path: Path) -> None:
    path = write_sweep(tmp_path / "g.json", [ranked("graded", 0.5, 79.0)])
    document = build_report(gather(read_all([path])))
    assert "give the sweep of that model as well" in document.notes[0]
    assert any("All points of g" in section.title for section in document.sections)


class Page(HTMLParser):
    """What a page refers to, and which tags it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def written(files: list[Path], model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    out = tmp_path_factory.mktemp("out") / "new" / "report"
    return out, run(*map(str, files), "--model", str(model), "-o", str(out))


def test_the_command_writes_every_page_and_picture(written: tuple[Path, str]) -> None:
    out, shown = written
    pages = {"ptb.md", "ptb-learned.md", "ptb-learned-points.md", "report.md", "report.html"}
    pictures = {"ptb-trade-off", "ptb-learned-trade-off", "ptb-learned-points", "report-trade-off-ptb"}
    pictures |= {"report-fit-bench", "report-weights", "report-day-govern"}
    assert {path.name for path in out.iterdir()} == pages | {f"{p}{s}" for p in pictures for s in (".png", ".svg")}
    assert all(str(path) in shown for path in out.iterdir())
    for page in out.glob("*.md"):
        for target in re.findall(r"!\[.*?\]\((.*?)\)", page.read_text(encoding="utf-8")):
            assert (out / target).is_file()


def test_a_single_point_is_not_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    out = tmp_path / "out"
    run(str(write_sweep(tmp_path / "alone.json", [full()])), "-o", str(out))
    assert {path.name for path in out.iterdir()} == {"alone.md", "report.md", "report.html"}
    assert "![" not in (out / "alone.md").read_text(encoding="utf-8")


def test_the_page_is_self_contained(written: tuple[Path, str]) -> None:
    text = (written[0] / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == [] and "script" not in page.tags
    assert page.tags.count("img") == 5
    assert all(address.startswith(("#", "data:image/svg+xml;base64,")) for address in page.addresses)
    assert "url(" not in text and "@import" not in text


def test_a_hostile_name_stays_text(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    rows = [full(), ranked("<script>alert(1)</script>", 0.8, 80.0)]
    path = write_sweep(tmp_path / "x.json", rows, model="`<img src=x>`")
    run(str(path), "-o", str(tmp_path / "out"))
    page = Page((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    assert "script" not in page.tags and "x" not in page.addresses


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    paths = [tmp_path / folder / "ptb.json" for folder in ("a", "b")]
    for path in paths:
        path.parent.mkdir()
        write_sweep(path, [full(), ranked("random", 0.8, 80.0)])
    with pytest.raises(RheostatError, match=r"two results files are named ptb\.json"):
        run(*map(str, paths), "-o", str(tmp_path / "out"))


@pytest.mark.parametrize(
    ("engine", "note"),
    [("core", "measured on the core with 1 thread, on p"), ("onnx", "on ONNX Runtime with 1 thread, not on the core,")],
)
def test_a_report_says_which_engine_ran(engine: str, note: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    bench = write_bench(tmp_path / "bench.json", [bench_row(1.0, 2.0), bench_row(0.8, 1.6)], engine=engine)
    swept = write_sweep(tmp_path / "ptb.json", [full(widths=[100])], engine=engine)
    out = tmp_path / "out"
    run(str(bench), str(swept), "-o", str(out))
    title = {"core": "the core", "onnx": "ONNX Runtime"}[engine]
    text = (out / "report.md").read_text(encoding="utf-8")
    assert text.count(note) == 2, "in the section of the bench and in the caption of the trade-off"
    assert f"on ptb, run by {title}." in text
    assert f"in fp32, run by {title}" in (out / "ptb.md").read_text(encoding="utf-8")


def test_times_on_two_engines_are_not_compared(tmp_path: Path) -> None:
    cut = {"widths": [61], "flops_fraction": 0.6, "energy": {"resolved": False}}
    files = [
        write_sweep(tmp_path / "ptb.json", [full(widths=[100])]),
        write_bench(tmp_path / "core.json", [bench_row(1.0, 2.0)], engine="core"),
        write_bench(tmp_path / "onnx.json", [bench_row(0.6, 9.0, **cut)], engine="onnx"),
    ]
    assert [one.path.name for one in gather(read_all(files)).on("ptb").cost_benches] == ["core.json"]


def test_a_table_with_baselines_has_times_of_one_engine(tmp_path: Path) -> None:
    dense = round(0.6 * FLOPS)
    beside = [
        bench_part(bench_subject(name, flops, engine="onnx"), [bench_row(1.0, ms, flops=flops)])
        for name, flops, ms in (("ptb-awd-lstm.safetensors", 48_380_000, 2.2), ("ptb-dense-60.safetensors", dense, 1.4))
    ]
    files = [
        write_sweep(tmp_path / "ptb.json", [full(widths=[100]), ranked("random", 0.8, 80.0)]),
        write_bench(tmp_path / "core.json", [bench_row(1.0, 1.1), bench_row(0.8, 0.9)], engine="core"),
        write_bench(tmp_path / "onnx.json", [bench_row(1.0, 2.0)], engine="onnx", beside=beside),
        write_bench(tmp_path / "more.json", [bench_row(0.8, 1.7)], engine="onnx"),
        write_bench(tmp_path / "skip.json", [bench_row(1.0, 9.0)], model="ptb-skip-lstm.safetensors", flops=FLOPS + 1),
    ]
    evidence = gather(read_all(files))
    lines = our_lines(evidence)
    times = [lines[number]["ms/query"] for number in (1, 2, 3, 6)]
    assert times == [NOT_MEASURED, "2.2", "2", "≈ 1.7"], "the core's times and those of a baseline on it are left out"
    last = paper_table(load_published().table("ptb"), evidence.on("ptb")).rows[-1].cells
    assert (last[1], last[8]) == ("`ptb-dense-60.safetensors`", "1.4")
    text = markdown(build_report(evidence))
    assert "ms and mJ from `onnx.json`, `more.json`: m in int8, measured on ONNX Runtime with 1 thread" in text
    assert "Left out, because the engine, threads, machine or meter differ: `core.json`." in text


def test_the_committed_table_sets_the_lstms_beside_the_qrnn_on_onnx_runtime() -> None:
    core_first = sorted(RESULTS.glob("ptb*.json"), key=lambda path: path.name != "ptb-path-bench.json")
    evidence = gather(read_all(core_first))
    lines = our_lines(evidence)
    engines = {one.path.name: one.subject.engine for one in evidence.collection.benches}
    for cells in lines.values():
        used = [engine for name, engine in engines.items() if f"`{name}`" in cells["from"]]
        assert used == ["onnx"], cells
    assert all("`ptb-bench.json`" in lines[number]["from"] for number in (1, 2, 3))


def test_a_bench_from_before_engines_were_recorded_is_of_onnx_runtime(tmp_path: Path) -> None:
    path = write_bench(tmp_path / "bench.json", [bench_row(1.0, 2.0)])
    contents = json.loads(path.read_text())
    del contents["subject"]["engine"]
    (found,) = read_all([write(path, contents)]).benches
    assert found.subject.engine == "onnx"


def test_a_bench_alone_makes_a_report(tmp_path: Path) -> None:
    ours = write_bench(tmp_path / "b.json", [bench_row(1.0, 2.0), bench_row(0.8, 1.5)])
    lstm = write_bench(tmp_path / "a.json", [bench_row(1.0, 3.0)], model="awd-lstm.safetensors")
    evidence = gather(read_all([lstm, ours]))
    assert [our_lines(evidence)[number]["ms/query"] for number in (2, 3)] == ["3", "2"]
    assert "no fit, measured at fewer than three points" in markdown(build_report(evidence))


def test_one_point_that_can_be_fitted_is_one_point(tmp_path: Path) -> None:
    rows = [bench_row(1.0, 2.0), bench_row(0.9, 1.1, bounds=[1], cost_fraction=0.45)]
    text = markdown(build_report(gather(read_all([write_bench(tmp_path / "b.json", rows)]))))
    assert "Only 1 point with all weights in 8 bits can be fitted" in text


def test_a_report_on_another_corpus_leaves_the_paper_out(tmp_path: Path) -> None:
    rows = [full(70.0), ranked("graded", 0.5, 79.0)]
    document = build_report(gather(read_all([write_sweep(tmp_path / "chat.json", rows, corpus="chat")])))
    titles = [section.title for section in document.sections]
    assert "Perplexity against cost: chat" in titles and not [title for title in titles if "paper" in title]


def test_a_report_starts_with_five_lines(evidence: Evidence, tmp_path: Path) -> None:
    text = markdown(build_report(evidence))
    lines = text.splitlines()[2:7]
    assert [line.partition(" ")[2].partition(":")[0].partition(",")[0] for line in lines] == [
        *("Measured", "Whole models", "Best points", "What they cost", "Missing")
    ]
    assert "a test perplexity of 70.00 and R@3 40.0% on ptb" in lines[1]
    assert (
        "`l0-0.6-updated` with update at 59.9% of the cost on ptb, test perplexity 77.00 (+10.0% from its own 70.00; "
        "`ptb-learned.json`; chosen on test text, for want of validation figures)"
    ) in lines[2]
    assert "1.25 instead of 2 ms/query, energy 6 mJ instead of 10 on ptb" in lines[3]
    assert "which filters are cut (no model file given)" in lines[4]
    alone = build_report(gather(read_all([write_bench(tmp_path / "b.json", [bench_row(1.0, 2.0)])])))
    assert len(alone.summary) == 5 and alone.summary[1] == "Whole models: not measured."


def test_the_best_point_is_the_cheapest_in_flops_and_bits(tmp_path: Path) -> None:
    four_bits = {"allocation": "bits", "flops_fraction": 1.0, "cost_fraction": 0.5, "bounds": [0, 0]}
    on_path = {"allocation": "path", "flops_fraction": 0.98, "cost_fraction": 0.249, "bounds": [0, 5]}
    measured = [full(70.0), ranked("graded", 0.7, 74.0), row("bits", "bits", 0.5, "test", 71.4, **four_bits)]
    for rows, best in (
        (
            measured,
            "`bits` at 50.0% of the cost on ptb, test perplexity 71.40 (+2.0% from its own 70.00; ",
        ),  # all FLOPs, fewer bits
        (
            [*measured, row("path", "path", 0.25, "test", 75.6, **on_path)],
            "`path` at 24.9% of the cost on ptb, test perplexity 75.60 (+8.0% from its own 70.00; ",
        ),
    ):
        document = build_report(gather(read_all([write_sweep(tmp_path / "m.json", rows)])))
        assert f"validation text where it was measured: {best}`m.json`; chosen on test" in document.summary[2]


def best_of(*files: Path) -> tuple[str, float, bool]:
    """The name of the best point, its whole model's test perplexity, and whether validation text chose it."""
    (on,) = gather(read_all(list(files))).corpora
    best = best_point(on)
    assert best is not None
    return best.point.name, best.whole.test_perplexity, best.on_valid


def both_splits(one: JsonObject, valid: float) -> list[JsonObject]:
    return [one, {**one, "split": "valid", "perplexity": valid}]


def test_the_best_point_is_chosen_on_validation_text(tmp_path: Path) -> None:
    whole = both_splits(full(70.0), 80.0)
    lucky = both_splits(ranked("taylor", 0.5, 71.0), 88.1)  # good enough on test text only
    rows = [*whole, *lucky, *both_splits(ranked("taylor", 0.6, 79.0), 87.9)]
    sweep = write_sweep(tmp_path / "m.json", rows)
    assert best_of(sweep) == ("taylor", 70.0, True)
    assert "(+12.9% from its own 70.00; `m.json`)" in summary_lines(gather(read_all([sweep])))[2]
    # Of points that cost the same, that of validation text comes first; a cheaper one on test text is marked.
    assert best_of(write_sweep(tmp_path / "m.json", [*rows, ranked("random", 0.6, 71.0)])) == ("taylor", 70.0, True)
    assert best_of(write_sweep(tmp_path / "m.json", [*rows, ranked("random", 0.5, 71.0)])) == ("random", 70.0, False)


def test_the_best_point_is_compared_with_the_whole_model_of_its_own_weights(tmp_path: Path) -> None:
    main = write_sweep(tmp_path / "m.json", [full(70.0), ranked("taylor", 0.8, 75.0), ranked("random", 0.8, 75.1)])
    worse = write_sweep(tmp_path / "graded.json", [full(80.0), ranked("graded", 0.5, 87.0)], "graded", weights="b")
    assert best_of(main, worse) == ("graded", 80.0, False)
    better = write_sweep(tmp_path / "graded.json", [full(60.0), ranked("graded", 0.5, 67.0)], "graded", weights="b")
    assert best_of(main, better)[0] == "taylor"


def test_quantisation_is_compared_with_pruning_at_equal_bytes(tmp_path: Path) -> None:
    four_bits = {"allocation": "bits", "flops_fraction": 1.0, "cost_fraction": 0.5, "bounds": [0, 0]}
    on_path = {"allocation": "path", "flops_fraction": 0.98, "cost_fraction": 0.495, "bounds": [0, 5]}
    measured = [
        full(70.0),
        ranked("graded", 0.5, 77.0),
        row("bits", "bits", 0.5, "test", 71.4, **four_bits),
        row("path", "path", 0.5, "test", 70.7, **on_path),
        row("path", "path", 0.2, "test", 91.0, **on_path | {"cost_fraction": 0.2, "flops_fraction": 0.4}),
    ]
    (on,) = gather(read_all([write_sweep(tmp_path / "m.json", measured)])).corpora
    (section,) = bits_sections(on)
    (table,) = [block for block in section.blocks if isinstance(block, Table)]  # no bench, so nothing at equal times
    assert tuple(one.cells for one in table.rows) == (
        ("49.5%", "77.00 (+10.0%)", "71.40 (+2.0%)", "70.70 (+1.0%)"),
        ("20.0%", "not measured", "not measured", "91.00 (+30.0%)"),
    )
    line = next(family for family in families(on) if family.criterion == "path")
    assert line.joined and [one.cost for one in line.points][-2:] == [0.495, 0.2]


HOSTILE = [
    "../../outside",
    "..",
    "<img src=x onerror=alert(1)> ![x](http://example.com/x.png) [y](javascript:alert(2))",
]


@pytest.mark.parametrize("corpus", HOSTILE)
def test_a_hostile_corpus_name_stays_in_the_folder_and_is_only_text(tmp_path: Path, corpus: str) -> None:
    pytest.importorskip("matplotlib")
    learned = [*recovered("l0", 0.6, 81.0, 77.0, widths=[61])]
    results = [
        write_sweep(tmp_path / "one.json", [full(widths=[100]), ranked("random", 0.8, 80.0)], corpus=corpus),
        write_sweep(tmp_path / "two.json", [full(widths=[100]), *learned], corpus=corpus, model=corpus),
    ]
    out = tmp_path / "deep" / "down" / "out"
    before = set(tmp_path.rglob("*"))
    written = write_report(results, out=out)
    assert any("learned-points" in path.name for path in written.files)
    assert all(path.parent == out for path in written.files)
    assert set(tmp_path.rglob("*")) - before <= {out.parent.parent, out.parent, out, *out.iterdir()}
    for path in written.files:
        if path.suffix in (".md", ".html"):
            text = path.read_text(encoding="utf-8")
            page = MarkdownIt("commonmark").enable("table").render(text) if path.suffix == ".md" else text
            assert "<img src=x" not in page and not re.search(r'(href|src)="(http|javascript)', page)


@pytest.mark.skipif(os.name != "posix", reason="no permissions")
@pytest.mark.parametrize("name", ["report.md", "report.html", "ptb.md", "ptb-trade-off.svg"])
def test_a_report_respects_read_only_files(files: list[Path], tmp_path: Path, name: str) -> None:
    pytest.importorskip("matplotlib")
    write_report(files, out=tmp_path)
    (tmp_path / name).write_text("mine")
    (tmp_path / name).chmod(0o444)
    with pytest.raises(RheostatError, match=f"{name}: it is read-only"):
        write_report(files, out=tmp_path)
    assert (tmp_path / name).read_text() == "mine"


@given(name=st.text(alphabet="<a>`\\[]()!/: \n", max_size=30))
@example(name="` a\n` <script> `")  # Markdown pairs the first two backticks, although a line ends between them
@example(name="\\\\` a ` <script> `")  # two backslashes escape each other, so the backtick is not escaped
@example(name="`` a ` <script> ` b ` c ``` `<script>")
def test_no_name_becomes_html_outside_code(name: str) -> None:
    html = MarkdownIt("commonmark").render(f"From {prose(f'x {name} y')}.")
    allowed = r"</?(p|code|ul|ol|li|pre|h\d|hr|blockquote|em|strong|br)( ?/)?>"
    assert "<" not in re.sub(allowed, "", html)


@given(name=st.text(alphabet="<a>`\\[]()!/: \n", max_size=30))
def test_text_that_is_escaped_twice_stays_the_same(name: str) -> None:
    assert prose(prose(name)) == prose(name)


@given(name=st.text(alphabet="<b>`\\|[]() ", max_size=30))
@example(name="`\\| <script> `")
def test_no_name_becomes_html_in_a_table(name: str) -> None:
    table = table_markdown(Table(("a", "b"), "ll", (TableRow((name, "x")),)))
    html = MarkdownIt("commonmark").enable("table").render(table)
    allowed = r"</?(p|code|table|thead|tbody|tr|th|td|em|strong|br)( ?/)?>"
    assert "<" not in re.sub(allowed, "", html)


@pytest.mark.parametrize("name", ["[model]: http://evil", "x\n\n[model]: http://evil", " [a`]: http://evil `"])
def test_no_name_defines_a_link(name: str) -> None:
    html = MarkdownIt("commonmark").render(f"{prose(name)}\n\nA [model].")
    assert "href" not in html


EVERYWHERE = "x <script> ` a\n` <script> `\n\n[model]: http://evil \x1b[31m \ud800"


def test_hostile_texts_in_every_field_stay_text(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    origin = {"command": EVERYWHERE, "version": EVERYWHERE, "date": EVERYWHERE, "recipe": {EVERYWHERE: EVERYWHERE}}
    machine = {"processor": EVERYWHERE, "cores": 2, "system": EVERYWHERE}
    source = dict.fromkeys(("command", "rheostat", "commit", "date", "python"), EVERYWHERE) | {"machine": machine}
    origins = {"weights": origin, "rankings": {EVERYWHERE: origin}, "points": {}}
    write_sweep(
        tmp_path / "s.json",
        [full(), ranked("random", 0.8, 80.0) | {"label": EVERYWHERE}],
        model=EVERYWHERE,
        corpus=EVERYWHERE,
        precision=EVERYWHERE,
        origins=origins,
    )
    contents = json.loads((tmp_path / "s.json").read_text()) | {"provenance": source}
    (tmp_path / "s.json").write_text(json.dumps(contents))
    written = write_report([tmp_path / "s.json"], out=tmp_path / "out")
    pages = [path for path in written.files if path.suffix in (".md", ".html")]
    assert len(pages) == 3
    for path in pages:
        text = path.read_text(encoding="utf-8")
        assert "\x1b" not in text
        page = MarkdownIt("commonmark").enable("table").render(text) if path.suffix == ".md" else text
        assert "<script> " not in page and 'href="http://evil' not in page


def test_texts_of_results_are_read_on_one_line(tmp_path: Path) -> None:
    path = write_sweep(tmp_path / "s.json", [full()], model="a\nb\x1b\ud800", corpus="naïve “x”")
    subject = read_sweep(path).subject
    assert (subject.model, subject.corpus) == ("a\\nb\\x1b\\ud800", "naïve “x”")


def test_the_picture_of_a_sweep_with_an_odd_name_is_found(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = write_sweep(tmp_path / "é(1).json", [full(), ranked("random", 0.8, 80.0)])
    write_report([path], out=tmp_path / "out")
    linked = re.findall(r"\]\(([^)]*)\)", (tmp_path / "out" / "é(1).md").read_text(encoding="utf-8"))
    assert linked and all((tmp_path / "out" / name).is_file() for name in linked)
