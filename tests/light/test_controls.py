"""What makes the difference: cases are found by name, and verdicts need more than the spread between seeds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from results_files import UPDATE, JsonObject, full, row, write_sweep
from rheostat.measure.results import read_all
from rheostat.report.control_points import is_control_file, is_control_point
from rheostat.report.controls import CONTROLS, NO_DIFFERENCE, NOT_YET, controls_section, matching
from rheostat.report.document import Paragraph, Section, Table
from rheostat.report.evidence import Evidence, gather


def stored(name: str, perplexity: float, criterion: str = "random", knob: float = 0.8) -> JsonObject:
    return row(name, criterion, knob, "test", perplexity, allocation="stored")


def updated(name: str, before: float, after: float) -> list[JsonObject]:
    bare = row(name, "random", 0.8, "test", before, allocation="bare")
    return [bare, row(name, "random", 0.8, "test", after, allocation="stored", **UPDATE)]


def evidence(tmp_path: Path, rows: Sequence[JsonObject]) -> Evidence:
    # A model with several curves is the reference of its corpus.
    curve = [row("random-1", "random", 0.8, "test", 80.0)]
    return gather(read_all([write_sweep(tmp_path / "ptb-controls.json", [full(70.0), *curve, *rows])]))


def section(found: Evidence) -> Section:
    (only,) = controls_section(found)
    return only


def paragraph(found: Evidence, title: str) -> str:
    texts = [block.text for block in section(found).blocks if isinstance(block, Paragraph)]
    return next(text for text in texts if text.startswith(f"**{title}.**"))


def seeds(low: float, high: float) -> list[JsonObject]:
    return [stored(f"random-1-0.8-seed-{seed}", value) for seed, value in ((2, low), (3, high), (4, low))]


def test_what_is_not_measured_says_so(tmp_path: Path) -> None:
    found = evidence(tmp_path, [])
    tables = [block for block in section(found).blocks if isinstance(block, Table)]
    assert len(tables) == len(CONTROLS)
    assert all(line.cells[1] == NOT_YET for table in tables for line in table.rows)
    assert NOT_YET in paragraph(found, "Seeds").lower()


def test_the_section_lists_what_was_not_run(tmp_path: Path) -> None:
    found = evidence(tmp_path, [stored("random-1-at-l0-0.8", 75.0)])
    text = section(found).blocks[0]
    assert isinstance(text, Paragraph)
    assert "Widths of L0, 80% (filter-norm, mean-activation, taylor, l0, with its gates)" in text.text
    assert "; Seeds;" in text.text and "Equal budget;" in text.text


def test_rankings_of_several_seeds_are_a_spread_too(tmp_path: Path) -> None:
    seeded = [row(f"random-{seed}", "random", 0.8, "test", value) for seed, value in ((1, 80.0), (2, 82.0))]
    others = [row(name, name, 0.8, "test", 90.0) for name in ("filter-norm", "mean-activation")]
    rows = [full(70.0), *seeded, *others, row("taylor", "taylor", 0.8, "test", 79.5)]
    found = gather(read_all([write_sweep(tmp_path / "ptb.json", rows)]))
    assert NO_DIFFERENCE in paragraph(found, "Uniform widths, 80%").lower()
    rows[-1] = row("taylor", "taylor", 0.8, "test", 75.0)
    found = gather(read_all([write_sweep(tmp_path / "ptb.json", rows)]))
    assert "Best: taylor (6.00; seeds differ by 2.00)." in paragraph(found, "Uniform widths, 80%")
    (table, *_) = (block for block in section(found).blocks if isinstance(block, Table))
    assert table.rows[0].cells[1] == "81.00 (range 2.00 of 2)"


def test_every_case_has_a_step_that_measures_it() -> None:
    """The names of cases are those of points and files in reproduce.toml."""
    recipe = (Path(__file__).parents[2] / "reproduce.toml").read_text(encoding="utf-8")
    results = set(re.findall(r"results/([\w.-]+)\.json", recipe))
    for control in CONTROLS:
        for case in control.cases:
            if "/" in case.names:
                stem = case.names.partition("/")[0]
                assert any(re.fullmatch(stem, name) for name in results), case
            elif "-at-" in case.names:
                widths = case.names.partition("-at-")[2].replace("\\", "").removesuffix("-reconstructed")
                assert f"--widths-of {widths}" in recipe, case
                if case.names.endswith("-reconstructed"):
                    assert f"--point {case.names.removesuffix('-reconstructed')} " in recipe, case
            else:
                plain = case.names.replace("\\d", "2").replace("\\", "")
                named = f"--name {plain}" in recipe or f"--widths-of {plain}" in recipe
                ranking, _, share = plain.rpartition("-")
                named = named or f"--ranking {ranking} --knob {share} " in recipe
                assert named or f"--point {plain.removesuffix('-reconstructed')} " in recipe, case


def test_points_that_only_controls_need_are_controls() -> None:
    """By the names of reproduce.toml; what the paper's tables show is none."""
    recipe = (Path(__file__).parents[2] / "reproduce.toml").read_text(encoding="utf-8")
    named = re.findall(r"\{control\} .*--name ([\w.-]+)", recipe)
    assert len(named) == 10
    assert [name for name in named if not is_control_point(name)] == []
    seeded = set(re.findall(r"results/([\w.-]+-seed-\d)\.json", recipe))
    assert len(seeded) == 6 and all(map(is_control_file, seeded))
    assert not any(map(is_control_file, ("ptb", "ptb-learned", "ptb-graded", "ptb-widths", "ptb-dense-60-long")))
    assert not any(map(is_control_point, ("full", "random-1", "random-1-0.8", "random-1-0.8-rank-4", "l0-0.6-updated")))


def test_without_results_on_the_corpus_there_is_no_section() -> None:
    assert not list(controls_section(gather(read_all([]))))


def at_widths_of_l0(random: float = 75.0, l0: float = 74.0) -> list[JsonObject]:
    others = [stored(f"{name}-at-l0-0.8", 79.0, name) for name in ("filter-norm", "mean-activation", "taylor")]
    return [stored("random-1-at-l0-0.8", random), *others, stored("l0-0.8", l0, "l0")]


def test_a_case_is_found_by_the_name_of_its_point(tmp_path: Path) -> None:
    found = evidence(tmp_path, [stored("random-1-at-l0-0.8", 75.0), stored("l0-0.8", 74.0, "l0"), *seeds(73.0, 73.5)])
    widths = next(control for control in CONTROLS if control.title == "Widths of L0, 80%")
    assert [len(matching(found.on("ptb"), case)) for case in widths.cases] == [1, 0, 0, 0, 1]


def test_there_is_no_verdict_until_all_cases_are_measured(tmp_path: Path) -> None:
    some = [stored("random-1-at-l0-0.8", 75.0), stored("l0-0.8", 74.0, "l0"), *seeds(73.0, 73.5)]
    text = paragraph(evidence(tmp_path, some), "Widths of L0, 80%")
    assert text.endswith("Which one is best? No verdict: 3 of 5 not measured yet.")
    text = paragraph(evidence(tmp_path, [*at_widths_of_l0(), *seeds(73.0, 73.5)]), "Widths of L0, 80%")
    assert text.endswith("Best: l0, with its gates (1.00; seeds differ by 0.50).")


def test_a_difference_within_the_spread_is_none(tmp_path: Path) -> None:
    assert "No verdict" in paragraph(evidence(tmp_path, at_widths_of_l0()), "Widths of L0, 80%")
    close = evidence(tmp_path, [*at_widths_of_l0(), *seeds(73.0, 75.0)])
    assert NO_DIFFERENCE in paragraph(close, "Widths of L0, 80%").lower()


def test_the_range_of_rankings_at_the_same_share_counts_in_every_table(tmp_path: Path) -> None:
    """The rankings were drawn again at uniform widths, but a table at other widths is no less subject to chance."""
    rows = [*at_widths_of_l0(), *seeds(73.0, 73.1), row("random-2", "random", 0.8, "test", 81.5)]
    text = paragraph(evidence(tmp_path, rows), "Widths of L0, 80%")
    assert "No difference seen between l0, with its gates and random (1.00; seeds differ by 1.50)." in text


def with_seeds_of_l0(tmp_path: Path, *values: float) -> Evidence:
    files = [write_sweep(tmp_path / "ptb.json", [full(70.0), row("random-1", "random", 0.8, "test", 80.0)])]
    files.append(write_sweep(tmp_path / "ptb-widths.json", [full(70.0), *at_widths_of_l0(random=74.1)]))
    for seed, value in enumerate(values, start=2):
        rows = [full(70.0), row("l0-0.8", "l0", 0.8, "test", value, allocation="stored", widths=[seed])]
        files.append(write_sweep(tmp_path / f"ptb-l0-seed-{seed}.json", rows))
    return gather(read_all(files))


def test_other_seeds_of_a_point_have_other_widths_and_are_its_spread(tmp_path: Path) -> None:
    found = with_seeds_of_l0(tmp_path, 74.1, 74.2, 74.2)
    widths, seeded = (next(one for one in CONTROLS if one.title == title) for title in ("Widths of L0, 80%", "Seeds"))
    assert [one.test_perplexity for one in matching(found.on("ptb"), widths.cases[-1])] == [74.0]
    assert [one.test_perplexity for one in matching(found.on("ptb"), seeded.cases[0])] == [74.0, 74.1, 74.2, 74.2]
    text = paragraph(found, widths.title)
    assert "No difference seen between l0, with its gates and random (0.10; seeds differ by 0.20)." in text


def test_the_rankings_of_searched_widths_differ_as_the_table_says() -> None:
    recipe = (Path(__file__).parents[2] / "reproduce.toml").read_text(encoding="utf-8")
    assert "--criterion taylor --share 0.25 --search" in recipe and "--criterion taylor --share 0.02" in recipe
    searched = next(control for control in CONTROLS if control.title == "Searched widths, 80%")
    assert "another ranking of taylor, from 25 % of the training text instead of 2 %" in searched.question


def test_all_cases_are_set_beside_the_same_whole_model(tmp_path: Path) -> None:
    """Also those of a model with other weights, whose own whole model is better or worse."""
    ptb = write_sweep(tmp_path / "ptb.json", [full(70.0), row("random-1", "random", 0.8, "test", 80.0)])
    graded = write_sweep(
        tmp_path / "ptb-graded.json", [full(72.0), row("graded", "graded", 0.6, "test", 77.0)], weights="b"
    )
    more = write_sweep(tmp_path / "ptb-continued.json", [full(67.9)], weights="c")
    tables = [block for block in section(gather(read_all([ptb, graded, more]))).blocks if isinstance(block, Table)]
    assert {table.header[2] for table in tables} == {"above the reference (70.00)"}
    cells = {line.cells[0]: line.cells[1:3] for table in tables for line in table.rows}
    assert cells["graded, at 60 %"] == ("77.00", "+10.0%")
    assert cells["the whole model, trained for as many more steps"] == ("67.90", "-3.0%")


def test_reconstruction_is_judged_beside_the_best_reconstructed_point(tmp_path: Path) -> None:
    guess = row("taylor-by-error", "taylor-by-error", 0.6, "test", 75.6, reconstructed=True)
    files = [write_sweep(tmp_path / "ptb.json", [full(70.0), row("random-1", "random", 0.8, "test", 80.0)])]
    files.append(write_sweep(tmp_path / "ptb-reconstruction.json", [full(70.0), guess]))
    found = gather(read_all(files))
    tables = [block for block in section(found).blocks if isinstance(block, Table)]
    measured = [line for table in tables for line in table.rows if "ptb-reconstruction" in line.cells[3]]
    cells = {line.cells[0]: line.cells[1] for line in measured}
    assert cells["taylor by error, reconstructed"] == "75.60"
    assert "No verdict: 7 of 8 not measured yet." in paragraph(found, "Reconstruction with other methods, 60%")


def test_updates_are_compared_with_the_same_point_without_one(tmp_path: Path) -> None:
    more = [stored(f"random-1-0.8-{name}", 78.0) for name in ("gate", "rank-4", "rank-16")]
    rows = [*updated("random-1-0.8", 80.0, 76.0), stored("random-1-0.8-bias", 77.0), *more]
    found = evidence(tmp_path, [*rows, *updated("random-1-0.8-seed-2", 80.0, 76.1)])
    control = next(one for one in CONTROLS if one.title == "Updates at equal steps, with the teacher")
    values = [[point.test_perplexity for point in matching(found.on("ptb"), case)] for case in control.cases]
    assert values == [[80.0], [77.0], [78.0], [76.0], [78.0], [78.0]]
    assert "Best: rank 1 (1.00; seeds differ by 0.10)." in paragraph(found, control.title)


def test_several_seeds_show_their_range(tmp_path: Path) -> None:
    tables = [block for block in section(evidence(tmp_path, seeds(73.0, 74.5))).blocks if isinstance(block, Table)]
    cells = [line.cells for table in tables for line in table.rows if "update of random" in line.cells[0]]
    assert cells[0][1] == "73.50 (range 1.50 of 3)"
