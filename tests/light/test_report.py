"""Reports from results files: every number in a table is in the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pictures import drawn, legend_lines
from results_files import (
    FLOPS,
    UPDATE,
    WIKITEXT_FLOPS,
    bench_row,
    full,
    ranked,
    recovered,
    row,
    typed,
    write_bench,
    write_ngram,
    write_sweep,
)
from rheostat.errors import RheostatError
from rheostat.measure.results import read_all, read_sweep
from rheostat.report.document import markdown, unique_labels
from rheostat.report.evidence import gather
from rheostat.report.figures.costs import families
from rheostat.report.figures.style import (
    MOST_DRAWINGS,
    OTHER,
    STYLES,
    UPDATED,
    draw_learned,
    draw_trade_off,
    has_trade_off,
    side_by_side,
    write_figure,
)
from rheostat.report.learned import CorpusComparison, compare, learned_page, published_recovery
from rheostat.report.origins import known_weights
from rheostat.report.published import load_published
from rheostat.report.sections import build_report, learned_comparisons
from rheostat.report.sweep_page import page, table
from rheostat.report.writer import sweep_pages

DENSE_FLOPS = round(0.6 * FLOPS)
KNOWN = ("ptb-qrnn", "ptb-dense-60")  # models whose files record nothing


@pytest.fixture
def results_file(tmp_path: Path) -> Path:
    rows = [
        row("full", "", 1.0, "test", 73.67),
        row("random-1", "random", 0.8, "test", 90.0),
        row("random-2", "random", 0.8, "test", 100.0),
        row("random-1", "random", 0.8, "valid", 95.5),
        row("taylor", "taylor", 0.8, "test", 80.25),
        row("taylor-searched-0.8", "taylor", 0.799, "test", 79.125, allocation="stored"),
    ]
    return write_sweep(tmp_path / "ptb.json", rows)


def test_the_table_has_every_point_with_seeds_averaged(results_file: Path) -> None:
    lines = table(read_sweep(results_file)).splitlines()
    assert len(lines) == 2 + 4
    assert lines[2].startswith("| whole model | 100% |")
    random = next(line for line in lines if line.startswith("| random"))
    assert "95.50" in random and "95.00 (90.00–100.00)" in random
    searched = next(line for line in lines if "stored point taylor-searched-0.8" in line)
    assert "79.12" in searched


def test_the_papers_figures_are_shown_beside_ours(results_file: Path) -> None:
    lines = table(read_sweep(results_file)).splitlines()
    assert "| 66.0 | 42.9% |" in next(line for line in lines if line.startswith("| random"))
    assert lines[2].endswith("| 56.8 | 44.7% |")


def test_the_papers_figures_are_not_shown_beside_models_of_another_shape(results_file: Path, tmp_path: Path) -> None:
    dense = write_sweep(tmp_path / "dense.json", [full()], "d.safetensors", DENSE_FLOPS)
    lstm = write_sweep(tmp_path / "lstm.json", [full()], "ptb-awd-lstm.safetensors")
    chat = write_sweep(tmp_path / "chat.json", [full(), ranked("random", 0.8, 80.0)], corpus="chat")
    assert "published figures" in page(read_sweep(results_file), None)
    for path in (dense, lstm, chat):
        text = page(read_sweep(path), None)
        assert "paper" not in text and "published" not in text and "| 40.00% |\n" in text


def test_an_update_of_a_model_of_another_shape_has_no_column_of_the_paper(tmp_path: Path) -> None:
    rows = [full(70.0), *recovered("random", 0.8, 80.0, 75.0)]
    texts = []
    for name, flops in (("same", FLOPS), ("other", DENSE_FLOPS)):
        (comparison,) = compare([read_sweep(write_sweep(tmp_path / f"{name}.json", rows, flops=flops))])
        texts.append(learned_page(comparison, None))
    assert "| 80.00 | 75.00 | 50% | 53% |" in texts[0]
    assert "| 80.00 | 75.00 | 50% |\n" in texts[1] and "paper: recovered" not in texts[1]


def test_the_page_says_where_it_comes_from(results_file: Path) -> None:
    text = page(read_sweep(results_file), "picture.png")
    assert "ptb.json" in text and "picture.png" in text and "`rheostat`" in text
    assert "side by side" in text


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_picture_is_drawn(results_file: Path, tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"picture{suffix}"
    draw_trade_off(read_sweep(results_file), path)
    assert path.stat().st_size > 10_000


def test_a_sweep_of_only_the_whole_model_has_no_figure(results_file: Path, tmp_path: Path) -> None:
    alone = write_sweep(tmp_path / "alone.json", [full()])
    validated = write_sweep(tmp_path / "valid.json", [full(), row("random", "random", 0.8, "valid", 80.0)])
    assert [has_trade_off(read_sweep(path)) for path in (results_file, alone, validated)] == [True, False, False]
    assert "![" not in page(read_sweep(alone), None)


def test_stored_points_are_named_by_their_criterion_and_have_their_own_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = [
        row(f"taylor-searched-{share}", "taylor", share, "test", 75.0, allocation="stored") for share in (0.8, 0.6)
    ]
    learned = [row(f"l0-{share}", "l0", share, "test", 76.0, allocation="stored") for share in (0.8, 0.6)]
    updated = [*recovered("l0", 0.8, 76.0, 75.0), *recovered("random", 0.8, 82.0, 77.0)]
    rank_4 = row("random-1-0.8-rank-4", "random", 0.8, "test", 76.5, allocation="stored", update_rank=4)
    rows = [full(), ranked("taylor", 0.8, 80.0), *searched, *learned, *updated, rank_4]
    results = read_sweep(write_sweep(tmp_path / "ptb.json", rows))
    lines = legend_lines(drawn(monkeypatch, draw_trade_off, results))
    names = ["taylor", "l0 with update", "l0, stored points", "random with update", "taylor, stored points"]
    assert [line.get_label() for line in lines] == names
    looks = {(line.get_marker(), line.get_markerfacecolor(), line.get_markeredgecolor()) for line in lines}
    assert len(looks) == len(names)


def test_points_that_would_hide_each_other_are_drawn_side_by_side() -> None:
    one, other, third = [(80.0, 76.0), (60.0, 80.0)], [(80.2, 76.5)], [(80.0, 95.0)]
    moved = side_by_side([one, other, third], [(100.0, 70.0), *one, *other, *third, (40.0, 140.0)])
    assert moved[0][0][0] < 80.0 < 80.2 < moved[1][0][0]
    assert moved[0][1] == (60.0, 80.0) and moved[2] == third
    assert [perplexity for places in moved for _, perplexity in places] == [76.0, 80.0, 76.5, 95.0]


def test_a_file_that_is_not_a_results_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{}")
    with pytest.raises(RheostatError, match="has no kind"):
        read_sweep(path)
    write_bench(path, [bench_row(1.0, 2.0)])
    with pytest.raises(RheostatError, match="has the kind bench; expected a sweep"):
        read_sweep(path)


# Learned points


@pytest.fixture
def comparison(results_file: Path, tmp_path: Path) -> CorpusComparison:
    learned = [
        row("l0-0.6", "l0", 0.6, "test", 80.0, allocation="stored"),
        row("random-1-0.8", "random", 0.8, "test", 76.0, allocation="stored", **UPDATE),
        row("random-1-0.8", "random", 0.8, "test", 83.67, allocation="bare"),
    ]
    graded = [row("full", "", 1.0, "test", 74.0), row("graded", "graded", 0.5, "test", 79.0)]
    files = [
        results_file,
        write_sweep(tmp_path / "learned.json", [row("full", "", 1.0, "test", 73.67), *learned]),
        write_sweep(tmp_path / "graded.json", graded, "g"),
        write_sweep(tmp_path / "dense.json", [row("full", "", 1.0, "test", 90.0)], "d", DENSE_FLOPS),
    ]
    (found,) = compare(map(read_sweep, files))
    return found


def test_learned_points_are_compared_with_the_unpruned_model(comparison: CorpusComparison) -> None:
    assert comparison.reference.path.name == "ptb.json"
    shares = {(share.name, round(share.flops_fraction, 2)): share.perplexity for share in comparison.shares()}
    assert shares["l0-0.6", 0.6] == 80.0
    assert shares["graded", 1.0] == 74.0 and shares["graded", 0.5] == 79.0
    assert shares["another model, whole (dense)", 0.6] == 90.0
    assert [name for name, _ in shares].count("whole model") == 1


def test_weights_whose_files_record_nothing_say_what_is_known_of_them(tmp_path: Path) -> None:
    reference, dense = (next(key for key, one in known_weights().items() if one.name == name) for name in KNOWN)
    whole = write_sweep(tmp_path / "whole.json", [full(), ranked("random", 0.8, 80.0)], KNOWN[0], weights=reference)
    small = write_sweep(tmp_path / "small.json", [full(90.0)], KNOWN[1], DENSE_FLOPS, weights=dense)
    evidence = gather(read_all([whole, small]))
    (comparison,) = learned_comparisons(evidence)
    name = "another model, whole (small, 6 epochs; the reference had 26)"
    assert name in [share.name for share in comparison.shares()]
    assert "dense (6 epochs; the reference had 26)" in [family.name for family in families(evidence.on("ptb"))]
    text = markdown(build_report(evidence))
    assert f"| `{KNOWN[1]}` (6 epochs; the reference had 26) | ours |" in text
    assert "is not recorded in its file; `docs/baselines.md` says: AdamW, 26 epochs in two runs, outside" in text
    for shown in (learned_page(comparison, None), *sweep_pages(evidence).values()):
        assert "| weights | not recorded in the file; `docs/baselines.md` says: " in shown
    made = {"steps": 1234, "command": "rheostat train"}
    known = {"weights": dense, "origins": {"weights": made}}
    again = write_sweep(tmp_path / "small.json", [full(90.0)], KNOWN[1], DENSE_FLOPS, **known)
    (comparison,) = learned_comparisons(gather(read_all([whole, again])))
    assert comparison.budget(again) == "1,234 steps"  # what a file records comes first


def test_an_update_is_judged_by_the_share_it_recovered(comparison: CorpusComparison) -> None:
    (found,) = comparison.recoveries()
    assert found.recovered_share == pytest.approx((83.67 - 76.0) / (83.67 - 73.67))
    text = learned_page(comparison, "picture.png")
    assert "| random-1-0.8 | 80.0% | 1 | 72,428 | 83.67 | 76.00 | 77% | 53% |" in text


def test_an_update_recovers_nothing_if_cutting_lost_nothing(tmp_path: Path) -> None:
    rows = [full(70.0), ranked("random", 0.8, 80.0), *recovered("random", 0.8, 70.0, 69.0)]
    (comparison,) = compare([read_sweep(write_sweep(tmp_path / "ptb.json", rows))])
    (found,) = comparison.recoveries()
    assert found.recovered_share is None
    assert "| 70.00 | 69.00 |  |" in learned_page(comparison, None)


def test_the_papers_shares_are_those_of_its_table() -> None:
    table = load_published().table("ptb")
    shares = {row.criterion: published_recovery(table, row.criterion or "", 0.8) for row in table.pruned()}
    expected = {"random": 0.53, "mean-activation": 0.55, "filter-norm": 0.42, "l0": 0.36}
    assert shares == {criterion: pytest.approx(share, abs=0.005) for criterion, share in expected.items()}
    assert published_recovery(table, "random", 0.5) is None


def test_learned_points_are_drawn(comparison: CorpusComparison, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw_learned(comparison, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000


def test_a_graded_model_without_its_origin_is_refused(tmp_path: Path) -> None:
    path = write_sweep(tmp_path / "g.json", [row("graded", "graded", 0.5, "test", 79.0)])
    with pytest.raises(RheostatError, match="give the sweep of that model as well"):
        compare([read_sweep(path)])


def test_a_graded_model_alone_is_its_own_reference(tmp_path: Path) -> None:
    rows = [row("full", "", 1.0, "test", 70.0), row("graded", "graded", 0.5, "test", 79.0)]
    (comparison,) = compare([read_sweep(write_sweep(tmp_path / "g.json", rows))])
    assert comparison.full == 70.0


def test_keystrokes_have_a_column_if_they_were_measured(tmp_path: Path, results_file: Path) -> None:
    rows = [row("full", "", 1.0, "test", 70.0, **typed(0.345, needed=1000)), row("graded", "graded", 0.5, "test", 79.0)]
    text = table(read_sweep(write_sweep(tmp_path / "g.json", rows)))
    assert "| 70.00 | 40.00% | 34.5% |" in text and "| 79.00 | 40.00% |  |" in text
    assert "keystrokes" not in table(read_sweep(results_file))


def test_keystrokes_say_how_much_was_typed_and_the_most_that_can_be_saved(tmp_path: Path) -> None:
    rows = [full(**typed(0.5)), ranked("graded", 0.5, 79.0, **typed(0.45, fewest=None))]
    evidence = gather(read_all([write_sweep(tmp_path / "s.json", rows), write_ngram(tmp_path / "n.json", 140.0)]))
    sentence = "Keystrokes saved are over the first 20 words of the test text; at most 80.0% could be saved"
    for text in (sweep_pages(evidence)["s.md"], markdown(build_report(evidence))):
        assert sentence in text and "| 45.0% (older protocol) |" in text and "“Older protocol”: a space" in text
    assert "| 40.0% | 80.0% | 20 |" in markdown(build_report(evidence))
    evidence = gather(read_all([write_sweep(tmp_path / "s.json", rows[:1]), write_ngram(tmp_path / "n.json", 140.0)]))
    assert "lder protocol" not in markdown(build_report(evidence))


def test_keystrokes_per_joule_need_energy_measured_at_that_point(tmp_path: Path) -> None:
    rows = [full(widths=[100], **typed(0.6)), ranked("graded", 0.5, 79.0, widths=[49], **typed(0.6))]
    sweep = read_sweep(write_sweep(tmp_path / "g.json", rows))
    costs = write_bench(tmp_path / "b.json", [bench_row(1.0, 2.0, 5.0), bench_row(0.5, 1.0, 3.0)])
    (bench,) = read_all([costs]).benches
    whole, half = table(sweep, bench).splitlines()[2:]
    assert "| 60.0% | 600 |" in whole  # 60 keystrokes for 20 queries of 5 mJ
    assert "| 60.0% | not measured |" in half  # its own widths were not measured
    assert table(sweep).count("| 60.0% | not measured |") == 2


def test_keystrokes_are_not_divided_by_the_joules_of_another_precision(tmp_path: Path) -> None:
    exact = write_sweep(tmp_path / "exact.json", [full(**typed(0.6))])
    int8 = write_sweep(tmp_path / "int8.json", [full(**typed(0.6))], precision="int8")
    costs = write_bench(tmp_path / "b.json", [bench_row(1.0, 2.0, 5.0)])  # in int8
    evidence = gather(read_all([exact, int8, costs]))
    found = [evidence.energy_bench(sweep) for sweep in evidence.collection.sweeps]
    assert found == [None, evidence.collection.benches[0]]


# The paper, other precisions and several files


def test_pages_of_a_part_of_wikitext_103_have_the_papers_figures(tmp_path: Path) -> None:
    updated = [*recovered("l0", 0.7, 90.0, 80.0), *recovered("random", 0.7, 99.0, 75.0)]
    rows = [full(60.0), ranked("random", 0.7, 99.0), *updated]
    sweep = read_sweep(write_sweep(tmp_path / "wt103.json", rows, flops=WIKITEXT_FLOPS, corpus="wikitext-103-part"))
    lines = table(sweep).splitlines()
    assert lines[2].endswith("| 32.8 | 51.5% |")
    l0 = [line for line in lines if "stored point l0" in line]
    assert [line.endswith(end) for line, end in zip(l0, ("| 65.4 | 43.1% |", "| 56.9 | 44.7% |"), strict=True)]
    assert next(line for line in lines if line.startswith("| random")).endswith("| 81.4 | 42.9% |")
    (comparison,) = compare([sweep])
    text = learned_page(comparison, None)
    assert "| 90.00 | 80.00 | 33% | 26% |" in text and "| 99.00 | 75.00 | 62% | 56% |" in text


def test_a_point_in_two_files_is_listed_once_even_if_rounded_differently(tmp_path: Path) -> None:
    searched = {"allocation": "stored"}
    one = [full(), row("taylor-searched-0.8", "taylor", 0.8, "test", 75.2861872, **searched)]
    two = [full(), row("taylor-searched-0.8", "taylor", 0.8, "test", 75.2861866, **searched)]
    first = write_sweep(tmp_path / "a.json", [*one, ranked("taylor", 0.8, 80.0)])
    (comparison,) = compare(map(read_sweep, [first, write_sweep(tmp_path / "b.json", two)]))
    assert learned_page(comparison, None).count("taylor-searched-0.8") == 1


def test_points_at_the_widths_of_others_are_on_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the widths of l0 and at searched ones: nothing is between two such points."""
    rows = [full(), ranked("random", 0.8, 80.0), ranked("random", 0.6, 90.0)]
    borrowed = [
        row(name, "random", 0.8, "test", 76.0, allocation="stored")
        for name in ("random-at-l0-0.8", "random-at-taylor-searched-0.8")
    ]
    files = [write_sweep(tmp_path / "ptb.json", rows), write_sweep(tmp_path / "widths.json", [full(), *borrowed])]
    (comparison,) = compare(map(read_sweep, files))
    labels = [line.get_label() for line in legend_lines(drawn(monkeypatch, draw_learned, comparison))]
    assert labels == ["random"]
    assert "random-at-l0-0.8" in learned_page(comparison, None)


def test_another_precision_is_part_of_the_name(tmp_path: Path) -> None:
    graded = [full(74.0), ranked("graded", 0.5, 79.0)]
    files = [
        write_sweep(tmp_path / "ptb.json", [full(), ranked("random", 0.8, 80.0)]),
        write_sweep(tmp_path / "graded.json", graded, "g"),
        write_sweep(tmp_path / "int8.json", [full(74.1), ranked("graded", 0.5, 79.1)], "g8", precision="int8"),
    ]
    (comparison,) = compare(map(read_sweep, files))
    assert [share.name for share in comparison.shares()] == [
        *("whole model", "graded", "graded, int8"),
        *("random", "graded", "graded, int8"),
    ]


def test_no_two_families_share_a_colour_or_a_mark() -> None:
    styles = (*STYLES.values(), OTHER, ("", UPDATED))
    for looks in zip(*styles, strict=True):
        assert len(set(looks)) == len(looks)


def test_rows_with_the_same_label_get_different_ones(tmp_path: Path) -> None:
    files = [
        write_sweep(tmp_path / "a.json", [full(), ranked("random", 0.8, 80.0), ranked("taylor", 0.8, 79.0)]),
        write_sweep(tmp_path / "b.json", [full(), ranked("random", 0.8, 81.0)]),
    ]
    (comparison,) = compare(map(read_sweep, files))
    lines = [
        line.split(" | ")[:2] for line in learned_page(comparison, None).splitlines() if line.startswith("| 79.9%")
    ]
    assert lines == [["| 79.9%", "taylor"], ["| 79.9%", "random (a)"], ["| 79.9%", "random (b)"]]
    assert unique_labels(["x", "y", "x", "x"], ["1", "2", "3", "3"]) == ["x (1)", "y", "x (3)", "x (3), 2"]


def test_a_text_file_is_reported_like_a_test_text(tmp_path: Path) -> None:
    rows = [row("full", "", 1.0, "text", 70.0, flops_fraction=1.0), row("random", "random", 0.8, "text", 80.0)]
    sweep = read_sweep(write_sweep(tmp_path / "s.json", rows, corpus="notes.txt"))
    assert [figures.perplexity for figures in sweep.test_figures("random")] == [70.0, 80.0]
    assert "| 80.00 |" in table(sweep)


def test_a_page_says_how_its_model_was_made_and_guesses_nothing(tmp_path: Path) -> None:
    made = {"command": "rheostat prune m --criterion random", "seed": 7}
    origins = {"weights": "not recorded", "rankings": {"random": made}, "points": {}}
    rows = [full(), ranked("random", 0.8, 80.0)]
    text = page(read_sweep(write_sweep(tmp_path / "s.json", rows, origins=origins)), None)
    assert "| weights | not recorded |" in text
    assert "| ranking random | `rheostat prune m --criterion random`; seed 7 |" in text


# Without memory, a library may leave out a label and say nothing


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_picture_is_drawn_until_two_drawings_agree(suffix: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    titles = iter(["whole", "", "whole", "whole"])
    write_figure(tmp_path / f"a.{suffix}", lambda figure: figure.suptitle(next(titles)))
    assert next(titles, None) is None
    write_figure(tmp_path / f"b.{suffix}", lambda figure: figure.suptitle("whole"))
    assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


def test_a_picture_that_differs_every_time_is_not_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    drawings: list[Any] = []

    def paint(figure: Any) -> None:
        drawings.append(figure)
        figure.suptitle("I" * len(drawings))

    with pytest.raises(MemoryError):
        write_figure(tmp_path / "a.svg", paint)
    assert len(drawings) == MOST_DRAWINGS and not list(tmp_path.iterdir())


def test_fonts_are_loaded_for_every_drawing(tmp_path: Path) -> None:
    """A font that was loaded without enough memory spoils every picture, all in the same way."""
    font_manager = pytest.importorskip("matplotlib.font_manager")
    fonts: list[Any] = []

    def paint(figure: Any) -> None:
        fonts.append(font_manager.get_font(font_manager.findfont("DejaVu Sans")))

    write_figure(tmp_path / "a.png", paint)
    first, second = fonts
    assert first is not second
