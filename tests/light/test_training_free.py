"""Reconstruction in the report: lines by criterion and widths, beside the same cut without the guess."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pictures import drawn, legend_lines
from results_files import JsonObject, full, row, write_sweep
from rheostat.measure.results import read_all
from rheostat.report.document import Paragraph, Section, Table, markdown
from rheostat.report.evidence import Evidence, gather
from rheostat.report.figures.costs import draw_costs, families
from rheostat.report.sections import build_report
from rheostat.report.training_free import best_line, plain_criterion, reconstructed_lines, training_free_sections

UNIFORM, BY_ERROR = [9, 9], [7, 12]


def at(knob: float, widths: list[int]) -> list[int]:
    """Widths that tell shares and kinds apart, as real ones do."""
    return [round(knob * 100 * width) for width in widths]


def guessed(label: str, knob: float, perplexity: float, widths: list[int] = UNIFORM, **more: Any) -> JsonObject:
    criterion = label.partition("-at-")[0]
    return row(label, criterion, knob, "test", perplexity, widths=at(knob, widths), reconstructed=True, **more)


def cut(label: str, knob: float, perplexity: float, widths: list[int] = UNIFORM, **more: Any) -> JsonObject:
    return row(label, label.partition("-at-")[0], knob, "test", perplexity, widths=at(knob, widths), **more)


def found(tmp_path: Path, plain: list[JsonObject], rows: list[JsonObject], **more: Any) -> Evidence:
    first = write_sweep(tmp_path / "ptb.json", [full(70.0), *plain])
    return gather(read_all([first, write_sweep(tmp_path / "ptb-reconstruction.json", [full(70.0), *rows], **more)]))


def section_of(evidence: Evidence) -> Section:
    (only,) = training_free_sections(evidence.on("ptb"))
    return only


def two_criteria(tmp_path: Path) -> Evidence:
    plain = [cut("taylor", 0.8, 77.0), cut("taylor", 0.6, 105.0), cut("random", 0.8, 80.5)]
    rows = [guessed("taylor", 0.8, 71.4), guessed("taylor", 0.6, 73.5), guessed("random", 0.8, 72.1)]
    rows += [guessed("taylor-by-error", 0.8, 70.7, BY_ERROR), guessed("taylor-by-error", 0.6, 71.4, BY_ERROR)]
    return found(tmp_path, plain, rows)


def test_the_table_has_every_criterion_and_kind_of_widths_beside_the_cut_alone(tmp_path: Path) -> None:
    section = section_of(two_criteria(tmp_path))
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    assert table.header[2:6] == ("80%, cut alone", "80%, reconstructed", "60%, cut alone", "60%, reconstructed")
    assert [line.cells[:6] for line in table.rows] == [
        ("random", "uniform", "+15.0%", "72.10 (+3.0%)", "not measured", "not measured"),
        ("taylor", "by error", "not measured", "70.70 (+1.0%)", "not measured", "71.40 (+2.0%)"),
        ("taylor", "uniform", "+10.0%", "71.40 (+2.0%)", "+50.0%", "73.50 (+5.0%)"),
    ]
    (text,) = (block.text for block in section.blocks if isinstance(block, Paragraph))
    chosen = "is the best of 2 lines over the same shares, chosen on the test text itself"
    assert text.endswith(f"The line “taylor, widths by error” {chosen}: +1.0% at 80%, +2.0% at 60%.")


def test_the_picture_says_what_its_best_line_was_chosen_among(tmp_path: Path) -> None:
    text = markdown(build_report(two_criteria(tmp_path)))
    assert "only one of these lines: the best of 2 lines over the same shares, chosen on the test text itself." in text
    single = found(tmp_path, [cut("taylor", 0.8, 77.0)], [guessed("taylor", 0.8, 71.4)])
    assert "The other panels show none of these lines." in markdown(build_report(single))


def test_without_reconstruction_there_is_no_section(tmp_path: Path) -> None:
    evidence = found(tmp_path, [cut("taylor", 0.8, 77.0)], [cut("random", 0.8, 77.0)])
    assert not list(training_free_sections(evidence.on("ptb"))) and best_line(evidence.on("ptb")) is None


def test_more_reconstructed_points_do_not_make_a_sweep_the_reference(tmp_path: Path) -> None:
    rows = [guessed("taylor", knob, 72.0) for knob in (0.9, 0.8, 0.7, 0.6, 0.5)]
    reference = found(tmp_path, [cut("taylor", 0.8, 77.0)], rows).on("ptb").reference
    assert reference is not None and reference.path.stem == "ptb"


def test_points_at_the_widths_of_another_method_are_a_line_of_their_own(tmp_path: Path) -> None:
    stored = {"allocation": "stored"}
    rows = [
        cut("taylor-at-l0-0.6", 0.6, 84.0, BY_ERROR, **stored),
        guessed("taylor-at-l0-0.6-reconstructed", 0.6, 73.0, BY_ERROR, **stored),
        guessed("taylor-at-taylor-searched-0.6-reconstructed", 0.6, 74.0, [8, 10], **stored),
    ]
    on = found(tmp_path, [cut("taylor", 0.8, 77.0)], rows).on("ptb")
    assert [line.widths for line in reconstructed_lines(on)] == ["as l0", "searched"]
    (table,) = (block for block in section_of(found(tmp_path, [], rows)).blocks if isinstance(block, Table))
    assert table.rows[0].cells[:4] == ("taylor", "as l0", "+20.0%", "73.00 (+4.3%)")


def test_the_cut_alone_is_of_the_same_ranking_if_that_was_measured(tmp_path: Path) -> None:
    origins = {"origins": {"weights": "not recorded", "rankings": {"taylor": {"command": "mine"}}, "points": {}}}
    other = write_sweep(tmp_path / "z.json", [full(70.0), cut("taylor", 0.8, 84.0)], **origins)
    ptb = write_sweep(tmp_path / "ptb.json", [full(70.0), cut("taylor", 0.8, 77.0), cut("taylor", 0.6, 90.0)])
    rec = write_sweep(tmp_path / "rec.json", [full(70.0), guessed("taylor", 0.8, 71.4)], **origins)
    (table,) = (b for b in section_of(gather(read_all([ptb, other, rec]))).blocks if isinstance(b, Table))
    assert table.rows[0].cells[2] == "+20.0%"


@pytest.mark.parametrize(
    ("criterion", "plain"),
    [("taylor-by-error, reconstructed", "taylor"), ("taylor, reconstructed", "taylor"), ("random", "random")],
)
def test_a_criterion_is_told_from_what_was_done_to_it(criterion: str, plain: str) -> None:
    assert plain_criterion(criterion) == plain


def test_the_picture_has_the_best_line_and_a_panel_of_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on = two_criteria(tmp_path).on("ptb")
    names = [family.name for family in families(on)]
    assert "taylor-by-error, reconstructed" in names and "taylor, reconstructed" not in names
    figure = drawn(monkeypatch, draw_costs, on)
    assert "taylor-by-error, reconstructed" in [line.get_label() for line in legend_lines(figure)]
    panel = {line.get_label(): line for line in figure.axes[-1].get_lines()}
    assert set(panel) == {
        *("random, reconstructed, widths uniform", "taylor, reconstructed, widths uniform"),
        *("taylor, reconstructed, widths by error", "random, cut alone", "taylor, cut alone"),
    }
    above = panel["taylor, reconstructed, widths by error"].get_ydata()
    assert [round(float(value), 3) for value in above] == [0.0, 1.0, 2.0]
    assert panel["taylor, cut alone"].get_color() == panel["taylor, reconstructed, widths uniform"].get_color()
