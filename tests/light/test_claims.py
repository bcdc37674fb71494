"""The paper's claims against results: who wins, by which numbers, and what was not measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from models import write_tiny
from results_files import (
    FAST_UPDATE,
    FLOPS,
    PAPERS_UPDATE,
    WIKITEXT_FLOPS,
    WIKITEXT_UPDATE,
    JsonObject,
    bench_row,
    full,
    ranked,
    recovered,
    row,
    update_origins,
    write_bench,
    write_ngram,
    write_results_json,
    write_sweep,
)
from rheostat.measure.results import read_all
from rheostat.measure.results.bench import r_squared_interval
from rheostat.report.claims import (
    LAZY,
    NO_DIFFERENCE,
    Fact,
    Judgement,
    claims_table,
    judge,
    judge_all,
    linearity_of,
    verdict_of,
)
from rheostat.report.document import markdown
from rheostat.report.evidence import Evidence, gather
from rheostat.report.extent import OTHERWISE, comparability_on, training_sentence
from rheostat.report.figures.costs import families
from rheostat.report.kept_filters import KeptFilters, read_kept_filters
from rheostat.report.origins import known_updates
from rheostat.report.paper_tables import paper_table
from rheostat.report.published import WeightPicture, load_published
from rheostat.report.sections import build_report
from rheostat.report.writer import sweep_pages

Judged = Callable[..., Judgement]

PART = "wikitext-103-part"
CLAIMS = {claim.id: claim for claim in load_published().claims}


@pytest.fixture
def judged(tmp_path: Path) -> Judged:
    """A claim judged by the rows of one sweep, and by the rows of a bench if there are any."""

    def judged_by(
        name: str,
        rows: Sequence[JsonObject],
        bench: Sequence[JsonObject] = (),
        whole: float = 70.0,
    ) -> Judgement:
        origins = update_origins(rows, PAPERS_UPDATE)
        files = [write_sweep(tmp_path / "sweep.json", [full(whole), *rows], **origins)]
        if bench:
            files.append(write_bench(tmp_path / "bench.json", bench))
        return judge(CLAIMS[name], gather(read_all(files)))

    return judged_by


def signs(judgement: Judgement) -> list[bool | None]:
    return [fact.holds for fact in judgement.facts]


@pytest.mark.parametrize(
    ("holds", "verdict"),
    [
        ([], "not measured"),
        ([None, None], "not measured"),
        ([True, True], "confirmed"),
        ([True, None], "partly"),
        ([True, False], "partly"),
        ([False, None], "contradicted"),
    ],
)
def test_a_verdict_follows_from_the_facts(holds: list[bool | None], verdict: str) -> None:
    assert verdict_of([Fact(one, "") for one in holds]) == verdict


def test_without_results_nothing_is_judged() -> None:
    judgements = judge_all(Evidence(read_all([]), ()))
    assert [one.claim.id for one in judgements] == list(CLAIMS)
    assert {one.verdict for one in judgements} == {"not measured"}


def test_random_beats_the_criteria_it_is_better_than_at_every_share(judged: Judged) -> None:
    rows = [
        *(ranked("random", 0.9, 76.2), ranked("filter-norm", 0.9, 78.6), ranked("mean-activation", 0.9, 75.9)),
        *(ranked("random", 0.8, 82.0), ranked("filter-norm", 0.8, 87.6), ranked("mean-activation", 0.8, 84.0)),
    ]
    found = judged("random-beats-norm-and-activation", rows)
    assert found.verdict == "partly"
    assert signs(found) == [True, True, False, True, None]
    assert "76.20 / 75.90 at 90%" in found.facts[2].text
    assert found.facts[-1].text == "wikitext103: not measured"


def test_points_beyond_the_papers_cut_off_decide_nothing(judged: Judged) -> None:
    rows = [ranked(name, 0.5, 150.0) for name in ("random", "filter-norm", "mean-activation")]
    assert judged("random-beats-norm-and-activation", rows).verdict == "not measured"


def test_the_cut_off_is_scaled_to_our_full_model(tmp_path: Path) -> None:
    rows = [full(449.3), ranked("random", 0.7, 720.7), ranked("filter-norm", 0.7, 620.3)]
    sweep = write_sweep(tmp_path / "sweep.json", rows)
    facts = judge(CLAIMS["random-beats-norm-and-activation"], gather(read_all([sweep]))).facts
    assert [fact.holds for fact in facts if "720.70 / 620.30" in fact.text] == [False]


def test_seeds_are_compared_by_their_mean(judged: Judged) -> None:
    rows = [
        *(row("random-1", "random", 0.8, "test", 80.0), row("random-2", "random", 0.8, "test", 84.0)),
        ranked("filter-norm", 0.8, 82.5),
    ]
    assert "82.00 / 82.50" in judged("norm-has-no-benefit", rows).facts[0].text


L0 = [ranked("l0", 0.6, 71.0, allocation="stored")]


def test_the_headline_needs_energy_and_perplexity(judged: Judged) -> None:
    assert signs(judged("headline", L0, whole=60.0)) == [True, None]
    bench = [bench_row(1.0, 2.0, 10.0), bench_row(0.6, 1.2, 6.1)]
    assert judged("headline", L0, bench, whole=60.0).verdict == "confirmed"
    costly = [bench_row(1.0, 2.0, 10.0), bench_row(0.6, 1.2, 8.0)]
    assert signs(judged("headline", L0, costly, whole=60.0)) == [True, False]


def test_a_number_of_perplexity_needs_a_whole_model_like_the_papers(judged: Judged) -> None:
    """A limit or a rise; the same rule for both."""
    rows = [*L0, ranked("l0", 0.8, 66.0, allocation="stored")]
    for whole, comparable in ((62.4, True), (62.6, False)):
        rise = judged("headline", rows, whole=whole).facts[0]
        limits = [
            fact for name in ("figure-cut-off", "table-cut-off") for fact in judged(name, rows, whole=whole).facts
        ]
        found = [rise, *(fact for fact in limits if fact.paths)]
        assert len(found) == 5 and {fact.comparable for fact in found} == {comparable}
    assert rise.reasons == ("a rise of 17% is for a full model of 56.8, ours has 62.60",)
    assert limits[0].reasons == ("a limit of 100 is for a full model of 56.8, ours has 62.60",)


def test_an_estimate_of_energy_decides_nothing(judged: Judged) -> None:
    guess = {"energy": {"estimate": True}}
    bench = [bench_row(1.0, 2.0, 10.0, **guess), bench_row(0.6, 1.2, 6.0, **guess)]
    assert signs(judged("headline", L0, bench, whole=60.0)) == [True, None]


def test_energy_that_the_meter_did_not_resolve_decides_nothing(judged: Judged) -> None:
    lost = {"energy": {"resolved": False}}
    bench = [bench_row(1.0, 2.0, 0.3, **lost), bench_row(0.6, 1.2, -0.4, **lost)]
    assert signs(judged("headline", L0, bench, whole=60.0)) == [True, None]


def test_a_learned_point_takes_precedence_over_the_ranking_of_its_gates(judged: Judged) -> None:
    assert "60.00 → 71.00" in judged("headline", [ranked("l0", 0.6, 99.0), *L0], whole=60.0).facts[0].text


def test_updates_are_judged_by_what_they_recover(judged: Judged) -> None:
    rows = [
        *recovered("random", 0.8, 82.0, 77.0),
        *recovered("filter-norm", 0.8, 88.0, 80.0),
        *recovered("mean-activation", 0.8, 84.0, 85.0),
    ]
    assert signs(judged("update-recovers", rows)) == [None, True, True, False, None]
    assert signs(judged("random-regains-more", rows)) == [False, True, None]
    small = judged("update-is-small", rows)
    assert signs(small) == [True, True, True, None]
    assert small.facts[0].text.endswith(": 72.4 kB by arithmetic on shapes, claimed below 74")


# Claims about nothing but an update's effect, and claims about it and more
ABOUT_UPDATES = ("random-regains-more", "update-recovers", "l0-best-with-update-on-ptb")
ALSO_ABOUT_UPDATES = ("random-never-clearly-worse", "norm-has-no-benefit")


def varied(**train: object) -> JsonObject:
    """The paper's schedule with one difference."""
    return {**PAPERS_UPDATE, "train": {**PAPERS_UPDATE["train"], **train}}


@pytest.mark.parametrize(
    ("recipe", "why"),
    [
        (FAST_UPDATE, f"trained for 250 steps with a teacher, {OTHERWISE}"),
        (varied(optimizer="adam"), f"trained for 250 steps, {OTHERWISE}"),
        (varied(epochs=1), f"trained for 250 steps, {OTHERWISE}"),
        (varied(steps=250), f"trained for 250 steps, {OTHERWISE}"),
        (varied(nonmonotone_interval=5), f"trained for 250 steps, {OTHERWISE}"),
        (None, "how the update was trained is not recorded"),
        ("ptb-qrnn", f"trained for 250 steps with a teacher, {OTHERWISE}"),
    ],
    ids=["fast", "optimizer", "epochs", "steps", "interval", "unknown", "known"],
)
def test_an_update_trained_otherwise_than_the_papers_decides_nothing(
    tmp_path: Path, recipe: JsonObject | str | None, why: str
) -> None:
    """Whatever the claim is; how large it is does not depend on the training."""
    after = {"l0": 75.0, "random": 77.0, "filter-norm": 80.0, "mean-activation": 85.0}
    rows = [one for name, value in after.items() for one in recovered(name, 0.8, 90.0, value)]
    rows += [ranked(name, 0.8, 12 + value) for name, value in after.items()]
    origins = update_origins(rows, recipe) if isinstance(recipe, dict) else {}
    if isinstance(recipe, str):  # recorded nowhere, but known of these weights
        origins = {"weights": next(digest for digest, one in known_updates().items() if one.name == recipe)}
    evidence = gather(read_all([write_sweep(tmp_path / "s.json", [full(), *rows], **origins)]))
    found = {name: judge(CLAIMS[name], evidence) for name in (*ABOUT_UPDATES, *ALSO_ABOUT_UPDATES, "update-is-small")}
    assert {found[name].verdict for name in ABOUT_UPDATES} == {"not comparable"}
    assert {found[name].verdict for name in ALSO_ABOUT_UPDATES} == {"partly"}
    judged = {fact for name in ABOUT_UPDATES for fact in found[name].facts if fact.paths}
    assert len(judged) == 12 and {(fact.holds, fact.reasons) for fact in judged} == {(None, (why,))}
    assert all(fact.holds for fact in found["update-is-small"].facts if fact.paths)


def test_the_schedule_of_wikitext_is_another(tmp_path: Path) -> None:
    slower = {**WIKITEXT_UPDATE, "train": {**WIKITEXT_UPDATE["train"], "learning_rate": 1e-3}}
    rows = recovered("random", 0.7, 90.0, 80.0)
    for recipe, holds in ((WIKITEXT_UPDATE, True), (slower, None), (PAPERS_UPDATE, None)):
        origins = update_origins(rows, recipe)
        sweep = write_sweep(tmp_path / "s.json", [full(), *rows], "m", WIKITEXT_FLOPS, PART, **origins)
        facts = judge(CLAIMS["update-recovers"], gather(read_all([sweep]))).facts
        assert [fact.holds for fact in facts if "90.00 → 80.00" in fact.text] == [holds]


def test_linear_is_what_the_bench_found(judged: Judged) -> None:
    shares = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4)
    straight = judged("linear-in-flops", [], [bench_row(share, share, share) for share in shares])
    assert signs(straight) == [True, True] and straight.verdict == "confirmed"
    crooked = judged("linear-in-flops", [], [bench_row(share, abs(share - 0.8)) for share in shares])
    assert signs(crooked) == [False, None] and crooked.facts[1].text.endswith("measured at fewer than three points")


def test_linear_with_too_few_points_is_not_comparable(judged: Judged) -> None:
    bent = [bench_row(share, share**3) for share in (1.0, 0.8, 0.6, 0.4)]
    found = judged("linear-in-flops", [], bent)
    assert found.verdict == "not comparable" and found.facts[0].reasons == ("too few points to tell",)


def test_linear_is_judged_at_8_bits(judged: Judged) -> None:
    """4 bits take less time for the same FLOPs."""
    rows = [bench_row(share, share) for share in (0.4, 0.6, 0.8, 1.0)]
    fewer_bits = {**bench_row(1.0, 0.5), "bounds": [0] * 5}
    found = judged("linear-in-flops", [], [*rows, fewer_bits]).facts[0]
    assert found.holds is True and "over 4 points" in found.text


def test_an_interval_that_reaches_the_claim_as_printed_does_not_contradict_it() -> None:
    """As measured for ptb-path: its bound is below 0.98, and is printed as 0.98."""
    _, high = r_squared_interval(0.858, 7)
    assert high < 0.98 and f"{high:.2f}" == "0.98"
    assert linearity_of(0.858, 7, 0.98) is None
    assert linearity_of(0.80, 7, 0.98) is False and linearity_of(0.976, 7, 0.98) is True


@pytest.mark.parametrize("latency_ms", [(5, 4.2, 5.5, 3.5, 4.5, 6, 3.8), (5, 6, 5, 6, 5, 6, 5)])
def test_a_lazy_output_layer_decides_nothing_about_linearity(judged: Judged, latency_ms: tuple[float, ...]) -> None:
    """What is executed depends on the words, whether latency follows it or not; the paper computes all of the layer."""
    executed = (0.5, 0.42, 0.55, 0.35, 0.45, 0.6, 0.38)
    rows = [
        bench_row(1 - 0.1 * place, ms, executed_flops={"mean": share * FLOPS, "worst": FLOPS})
        for place, (share, ms) in enumerate(zip(executed, latency_ms, strict=True))
    ]
    found = judged("linear-in-flops", [], rows).facts[0]
    assert found.holds is None and found.reasons == (LAZY,)


def test_a_time_of_a_lazy_output_layer_says_so(tmp_path: Path) -> None:
    rows = [bench_row(1.0, 9.8, flops=WIKITEXT_FLOPS, executed_flops={"mean": 1e8, "worst": WIKITEXT_FLOPS})]
    bench = write_bench(tmp_path / "b.json", rows, flops=WIKITEXT_FLOPS, corpus=PART)
    (found,) = judge(CLAIMS["large-model-takes-a-second"], gather(read_all([bench]))).facts
    assert found.reasons == ("on another machine", LAZY) and "9.8 ms/query, claimed above 1000" in found.text


def test_a_time_of_another_machine_decides_nothing(judged: Judged) -> None:
    found = judged("large-model-takes-a-second", [])
    assert found.verdict == "not measured"
    assert verdict_of([Fact(None, "", reasons=("r",)), Fact(None, "")]) == "not comparable"
    assert verdict_of([Fact(None, "", reasons=("r",)), Fact(True, "")]) == "partly"


def test_a_model_that_does_not_beat_ngrams_decides_nothing(tmp_path: Path) -> None:
    rows = [full(449.0), ranked("random", 0.7, 500.0), *recovered("random", 0.7, 500.0, 480.0)]
    origins = update_origins(rows, WIKITEXT_UPDATE)
    sweep = write_sweep(tmp_path / "sweep.json", rows, corpus=PART, **origins)
    alone = judge(CLAIMS["update-recovers"], gather(read_all([sweep])))
    assert alone.verdict == "partly"
    beside = write_ngram(tmp_path / "ngram.json", 423.0, corpus="wikitext-103-part")
    found = judge(CLAIMS["update-recovers"], gather(read_all([sweep, beside])))
    (line,) = claims_table([found]).rows
    assert found.verdict == "not comparable"
    assert "≠ wikitext103, random at 70%: 500.00 → 480.00 (our model does not clearly beat n-grams)" in line.cells[3]
    beaten = write_ngram(tmp_path / "ngram.json", 900.0, corpus="wikitext-103-part")
    assert judge(CLAIMS["update-recovers"], gather(read_all([sweep, beaten]))).verdict == "partly"


def on_valid(rows: Sequence[JsonObject]) -> list[JsonObject]:
    return [{**one, "split": "valid"} for one in rows]


def test_recall_may_fall_less_and_order_otherwise(judged: Judged) -> None:
    rows = [ranked("filter-norm", 0.8, 90.0, recall_at_3=0.395), ranked("l0", 0.6, 85.0, recall_at_3=0.39)]
    less = judged("recall-falls-less", rows)
    assert signs(less) == [True, None]
    assert less.facts[0].text == (
        "ptb, filter-norm at 80%: R@3 -1.2% of its value (40.0% → 39.5%), perplexity +28.6%; "
        "tested only: R@3 loses a smaller share than perplexity gains"
    )
    assert signs(judged("perplexity-does-not-decide-recall", [*rows, *on_valid(rows)])) == [True, True]
    rows[1]["recall_at_3"] = 0.399
    assert signs(judged("perplexity-does-not-decide-recall", [*rows, *on_valid(rows)])) == [False, False]


def test_cut_offs_apply_to_every_row_of_the_table(judged: Judged) -> None:
    rows = [ranked(name, 0.8, value) for name, value in (("l0", 74.0), ("random", 76.0), ("filter-norm", 101.0))]
    assert signs(judged("table-cut-off", rows, whole=60.0)) == [True, None, False, False, None]
    assert signs(judged("figure-cut-off", rows, whole=60.0)) == [True, None, True, False, None, None]
    # A limit of 75 says nothing about points of a model that is near 75 itself.
    assert judged("table-cut-off", rows, whole=74.0).verdict == "not comparable"


def test_the_full_model_is_compared_with_our_baselines(tmp_path: Path) -> None:
    ours = write_sweep(tmp_path / "ours.json", [full(), ranked("random", 0.8, 80.0)])
    claim = CLAIMS["qrnn-matches-lstm"]
    assert judge(claim, gather(read_all([ours]))).verdict == "not measured"
    lstm = write_sweep(tmp_path / "lstm.json", [full(75.0)], "awd-lstm.safetensors", round(1.01 * FLOPS))
    found = judge(claim, gather(read_all([lstm, ours])))
    assert signs(found) == [None, True, None]
    assert "70.00 / 75.00" in found.facts[1].text


@pytest.fixture
def kept(tmp_path: Path) -> KeptFilters:
    path = write_tiny(tmp_path / "model.safetensors", points=[])
    return read_kept_filters(path, WeightPicture("ptb-qrnn", 0, 4, 3, (1.0, 0.8, 0.7, 0.6, 0.5)))


def test_filters_dropped_by_a_ranking_stay_dropped(kept: KeptFilters) -> None:
    dropped = [kept.dropped("random", share) for share in (0.8, 0.7, 0.6, 0.5)]
    assert kept.dropped("random", 1.0) == set()
    for more, fewer in zip(dropped[1:], dropped, strict=False):
        assert more is not None and fewer is not None and fewer <= more
    assert kept.dropped("l0", 0.8) is None


def test_dropped_filters_are_compared_in_a_model_of_that_corpus(kept: KeptFilters, tmp_path: Path) -> None:
    claim = CLAIMS["criteria-drop-different-filters"]
    other = write_sweep(tmp_path / "sweep.json", [full(), ranked("random", 0.8, 80.0)])
    assert "no model file given" in judge(claim, gather(read_all([other]), kept)).facts[0].text
    own = write_sweep(tmp_path / "own.json", [full(), ranked("random", 0.8, 80.0)], flops=kept.flops)
    assert "no two criteria" in judge(claim, gather(read_all([own]), kept)).facts[0].text


def test_the_table_names_the_files_and_the_numbers(judged: Judged) -> None:
    (line,) = claims_table([judged("headline", L0, whole=60.0)]).rows
    assert line.mark == line.cells[0] == "partly"
    assert "60.00 → 71.00" in line.cells[3] and line.cells[-1] == "`sweep.json`"


def wikitext(tmp_path: Path, perplexity: float, ngram: float) -> Evidence:
    """Part of WikiText-103, with the run that trained the model and n-grams of the same text."""
    quality = {"perplexity": perplexity, "recall_at_1": 0.1, "recall_at_3": 0.2, "recall_at_5": 0.3, "tokens": 100}
    run = {
        "model": {"recipe": {}, "run": {}, "valid": quality, "test": quality},
        "progress": {"epoch": 0, "step": 1800, "tokens": 1_030_000, "seconds": 9.0, "finished": True},
        "train": [],
        "valid": [],
    }
    rows = [full(perplexity), ranked("l0", 0.7, perplexity + 1), ranked("random", 0.7, perplexity + 9)]
    paths = [
        write_sweep(tmp_path / "wt103.json", rows, "wt103", WIKITEXT_FLOPS, "wikitext-103-part"),
        write_ngram(tmp_path / "ngram.json", ngram, "wikitext-103-part", training_tokens=2_060_000),
        write_results_json(tmp_path / "run.json", "training", run),
    ]
    return gather(read_all(paths))


def test_a_table_says_which_part_of_the_text_was_read_and_how_often(tmp_path: Path) -> None:
    evidence = wikitext(tmp_path, 449.0, 423.0)
    table = load_published().table("wikitext103")
    text = training_sentence(table, evidence.on("wikitext103"), evidence.collection.trainings)
    assert "1,800 steps, 1,030,000 tokens read, 0.50 passes over its text (`run.json`" in text
    assert text.endswith(comparability_on(evidence, "wikitext-103-part"))
    lines = paper_table(table, evidence.on("wikitext103"), evidence.collection.trainings).rows
    whose = [line.cells[2] for line in lines]
    assert whose.count("ours (2.0% of the text, 0.50 passes)") == 1


def test_text_passes_and_n_grams_stand_wherever_figures_are_beside_the_papers(tmp_path: Path) -> None:
    wikitext(tmp_path, 449.0, 423.0)
    write_sweep(tmp_path / "l0.json", recovered("l0", 0.7, 460.0, 455.0), "l0", WIKITEXT_FLOPS, PART)
    evidence = gather(read_all(sorted(tmp_path.glob("*.json"), reverse=True)))
    sentence = comparability_on(evidence, PART)
    assert sentence == (
        "Our corpus `wikitext-103-part` has 2.0% of the training text of wikitext103, and our model read it 0.50 "
        "times; a 5-gram of the same text has a test perplexity of 423.0, our whole model 449.0: not comparable "
        "with the paper's figures."
    )
    document = build_report(evidence)
    alone = {one.title: markdown(replace(document, lead="", sections=(one,))) for one in document.sections}
    assert sentence in document.lead
    assert {title for title, text in alone.items() if sentence in text} == {
        f"Perplexity against cost: {PART}",
        "The paper's table 2, with our measurements",
        f"Learned operating points: {PART}",
        "All points of wt103",
        "All points of l0",
    }
    pages = sweep_pages(evidence)
    assert sorted(pages) == ["l0.md", f"{PART}-learned-points.md", "wt103.md"]
    assert all(sentence in page for page in pages.values())


def test_a_corpus_that_can_be_compared_needs_no_caution(tmp_path: Path) -> None:
    whole = [write_sweep(tmp_path / "s.json", [full()]), write_ngram(tmp_path / "n.json", 140.0)]
    assert comparability_on(gather(read_all(whole)), "ptb") == ""
    better = comparability_on(wikitext(tmp_path, 100.0, 423.0), PART)
    assert better.endswith(": compare only how far a point is above its own whole model.")


@pytest.mark.parametrize(("ngram", "decides"), [(423.0, False), (700.0, True)])
def test_a_model_that_n_grams_match_decides_no_claim(tmp_path: Path, ngram: float, decides: bool) -> None:
    evidence = wikitext(tmp_path, 449.0, ngram)
    facts = [
        fact for one in judge_all(evidence) for fact in one.facts if fact.text.startswith("wikitext") or fact.topic
    ]
    about = [fact for fact in facts if "wikitext103" in fact.topic + fact.text and fact.paths]
    assert about and any(fact.holds is not None for fact in about) == decides
    assert decides or all(not fact.comparable for fact in about)


def test_a_criterion_that_chooses_widths_is_also_judged_at_equal_widths(judged: Judged) -> None:
    rows = [row("l0-0.6", "l0", 0.6, "test", 80.0, allocation="stored", widths=[5]), ranked("random", 0.6, 90.0)]
    judgement = judged("l0-best", rows)
    assert [fact.holds for fact in judgement.facts if "random, each at its own widths" in fact.topic] == [True]
    assert any(fact.text == "ptb, l0 against random, at equal widths: not measured" for fact in judgement.facts)
    rows.append(row("random-at-l0-0.6", "random", 0.6, "test", 79.0, allocation="stored", widths=[5]))
    judgement = judged("l0-best", rows)
    assert [fact.holds for fact in judgement.facts if "random, at equal widths" in fact.topic] == [False]


@pytest.mark.parametrize(("theirs", "holds"), [((80.5, 81.5), None), ((82.0, 83.0), True), ((77.0, 78.0), False)])
def test_a_difference_within_the_range_over_seeds_is_none(
    judged: Judged, theirs: tuple[float, float], holds: bool | None
) -> None:
    seeds = [row(f"random-{n}", "random", 0.8, "test", value, seed=n) for n, value in enumerate(theirs)]
    judgement = judged("random-beats-norm-and-activation", [*seeds, ranked("filter-norm", 0.8, 80.2)])
    (fact,) = (fact for fact in judgement.facts if "filter-norm" in fact.topic)
    assert fact.holds is (None if holds is None else not holds)
    assert (NO_DIFFERENCE in fact.shown) == (holds is None)


# Seeds and controls


def learned(widths: Sequence[int], perplexity: float, share: float = 0.8) -> JsonObject:
    more = {"allocation": "stored", "widths": list(widths), "flops_fraction": share}
    return row("l0-0.8", "l0", 0.8, "test", perplexity, **more)


@pytest.fixture
def several_seeds(tmp_path: Path) -> Evidence:
    """Gates with their update, those of another seed nearer to 80 %, and random at the widths of the first."""
    update = recovered("l0", 0.8, 76.4, 75.0, widths=[5], flops_fraction=0.7981)
    own = [learned([5], 76.4, 0.7981), *on_valid([learned([5], 80.6, 0.7981)]), *update]
    borrowed = row("random-at-l0-0.8", "random", 0.8, "test", 75.7, allocation="stored", widths=[5])
    curve = [ranked(name, 0.8, 82.0, widths=[8]) for name in ("random", "filter-norm", "mean-activation")]
    timed = [bench_row(1.0, 2.0, widths=[10]), bench_row(0.7981, 1.7, widths=[5])]
    files = [
        write_sweep(tmp_path / "ptb.json", [full(70.0), *curve]),
        write_sweep(tmp_path / "ptb-learned.json", [full(70.0), *own]),
        write_sweep(tmp_path / "ptb-widths.json", [full(70.0), borrowed]),
        write_sweep(tmp_path / "ptb-l0-seed-2.json", [full(70.0), learned([6], 76.6, 0.79999)]),
        write_bench(tmp_path / "bench.json", timed),
    ]
    return gather(read_all(files))


def test_another_seed_does_not_take_the_place_of_a_point(several_seeds: Evidence) -> None:
    facts = judge(CLAIMS["l0-best"], several_seeds).facts
    assert {fact.text for fact in facts if "each at its own widths" in fact.topic} == {"76.40 / 82.00 at 80%"}
    (equal,) = (fact for fact in facts if fact.topic == "ptb, l0 against random, at equal widths")
    assert equal.holds is False and equal.text == "76.40 / 75.70 at 80%"


def test_other_seeds_are_a_spread_for_claims(several_seeds: Evidence) -> None:
    assert several_seeds.on("ptb").spread_at(0.8) == pytest.approx(0.2)


def test_a_row_of_the_paper_has_a_point_and_its_update_from_the_same_file(several_seeds: Evidence) -> None:
    table = load_published().table("ptb")
    lines = [line.cells for line in paper_table(table, several_seeds.on("ptb")).rows]
    ours = lines[1 + next(at for at, cells in enumerate(lines) if cells[1] == "L0 reg.")]
    assert (ours[3], ours[4], ours[8], ours[10]) == ("80.60", "76.40", "1.7", "75.00")
    assert ours[-1] == "`ptb-learned.json`, `bench.json`"


def test_gates_of_another_run_are_not_set_beside_an_update(tmp_path: Path) -> None:
    """Even if they are nearer to the share, and no control."""
    update = recovered("l0", 0.8, 76.4, 75.0, flops_fraction=0.7981)
    files = [write_sweep(tmp_path / "a.json", [full(70.0), ranked("random", 0.8, 82.0), *update])]
    files.append(write_sweep(tmp_path / "b.json", [full(70.0), learned([6], 77.0)]))
    plain, updated = gather(read_all(files)).on("ptb").pair_at("l0", 0.8)
    assert plain is not None and updated is not None
    assert (plain.test_perplexity, updated.test_perplexity) == (76.4, 75.0)


def controls(tmp_path: Path, *more: JsonObject) -> Evidence:
    """Updates of three criteria, and controls of one of them."""
    rows = [full(70.0), *recovered("random", 0.8, 82.0, 77.0), *recovered("filter-norm", 0.8, 88.0, 79.0)]
    rows += [*recovered("mean-activation", 0.8, 84.0, 76.0), ranked("random", 0.8, 82.0), *more]
    varied = []
    for name, after in (("random-1-0.8-seed-2", 77.1), ("random-1-0.8-rank-1-untaught", 79.8)):
        varied += [{**one, "label": name} for one in recovered("random", 0.8, 82.0, after)]
    varied += [row("random-1-0.8-bias", "random", 0.8, "test", 77.3, allocation="stored")]
    main = write_sweep(tmp_path / "ptb-learned.json", rows, **update_origins(rows, PAPERS_UPDATE))
    return gather(read_all([main, write_sweep(tmp_path / "ptb-controls.json", [full(70.0), *varied])]))


def test_controls_decide_no_claim(tmp_path: Path) -> None:
    found = controls(tmp_path)
    texts = [fact.text for fact in judge(CLAIMS["random-regains-more"], found).facts]
    assert texts[0] == "ptb, random against filter-norm at 80%: 5.00 / 9.00 points regained"
    helped = [fact.text for fact in judge(CLAIMS["update-recovers"], found).facts]
    assert [text for text in helped if text.startswith("ptb, random")] == ["ptb, random at 80%: 82.00 → 77.00"]
    used = {path.name for one in judge_all(found) for fact in one.facts for path in fact.paths}
    assert used == {"ptb-learned.json"}


def test_controls_are_not_drawn_or_listed_with_learned_points(tmp_path: Path) -> None:
    on = controls(tmp_path).on("ptb")
    drawn = [(family.name, len(family.points)) for family in families(on) if family.criterion == "random"]
    assert drawn == [("random", 2), ("random with update", 1)]
    assert on.comparison is not None
    assert {one.file for one in on.comparison.recoveries()} == {"ptb-learned.json"}
    assert {one.file for one in on.comparison.shares()} == {"ptb-learned"}
    assert sum(one.control for one in on.measurements) == len(on.controls) == 6


def test_points_regained_differ_only_by_more_than_seeds_do(tmp_path: Path) -> None:
    seeds = [row("random-2", "random", 0.8, "test", 85.5)]  # a range of 3.5, and 3 points between random and activation
    facts = judge(CLAIMS["random-regains-more"], controls(tmp_path, *seeds)).facts
    assert [fact.holds for fact in facts[:2]] == [False, None]
    assert facts[1].shown.endswith("5.00 / 8.00 points regained (no difference seen: seeds differ by 3.50)")


def test_a_limit_missed_by_less_than_the_spread_is_not_missed(tmp_path: Path) -> None:
    found = controls(tmp_path, row("random-2", "random", 0.8, "test", 82.3))
    facts = judge(CLAIMS["random-never-clearly-worse"], found).facts
    (fact,) = (one for one in facts if one.topic == "ptb, random against mean-activation with update, 1% allowed")
    assert fact.holds is None and not fact.comparable
    assert fact.text == "77.00 / 76.00 at 80%"
    assert fact.reasons[0].startswith("no difference seen from the limit of 76.76: seeds differ by 0.")


def test_orders_that_differ_within_the_range_over_seeds_do_not_count(judged: Judged) -> None:
    rows = [ranked("filter-norm", 0.8, 90.0, recall_at_3=0.395), ranked("l0", 0.6, 85.0, recall_at_3=0.39)]
    seeds = [row(f"random-{n}", "random", 0.6, "test", 99.0, recall_at_3=n) for n in (0.38, 0.386)]
    (papers, _) = judged("perplexity-does-not-decide-recall", [*rows, *seeds]).facts
    assert papers.holds is None and papers.shown.endswith("(no difference seen: seeds differ by 0.00 and 0.60%)")


def test_the_pair_of_orders_that_differ_is_chosen_on_valid(judged: Judged) -> None:
    on_test = [ranked("random", 0.8, 80.0, recall_at_3=0.39), ranked("taylor", 0.7, 81.0, recall_at_3=0.40)]
    (_, none) = judged("perplexity-does-not-decide-recall", on_test).facts
    assert none.text == "ptb, a pair chosen on validation text: not measured"
    lucky = [{**one, "split": "valid", "recall_at_3": 0.4} for one in on_test]
    (_, by_luck) = judged("perplexity-does-not-decide-recall", [*on_test, *lucky]).facts
    assert by_luck.holds is False and "no pair among 2 points on validation text" in by_luck.text
    (_, chosen) = judged("perplexity-does-not-decide-recall", [*on_test, *on_valid(on_test)]).facts
    assert chosen.holds and chosen.text.startswith("ptb, chosen on validation text: random at 80% has 80.00")


# Weights


def test_a_model_is_recognised_by_its_weights(tmp_path: Path) -> None:
    """Not by the word "graded": a model that was trained for longer is another model."""
    main = [full(70.0), ranked("taylor", 0.8, 80.0), ranked("random", 0.8, 82.0)]
    other = [full(68.0), ranked("taylor", 0.8, 71.0)]
    files = [write_sweep(tmp_path / "ptb.json", [*main, *on_valid(main)], weights="a")]
    again = write_sweep(tmp_path / "again.json", [full(70.0), ranked("taylor", 0.6, 90.0)], weights="a")
    files += [again, write_sweep(tmp_path / "more.json", [*other, *on_valid(other)], "more", weights="b")]
    on = gather(read_all(files)).on("ptb")
    assert {one.path.name for one in on.comparable} == {"ptb.json", "again.json"}
    assert [one.test_perplexity for one in on.baselines] == [68.0]
    assert on.comparison is not None
    names = {share.name for share in on.comparison.shares()}
    assert names == {"whole model", "taylor", "random", "another model, whole (more)", "taylor (more)"}
    lines = {family.name: [one.test_perplexity for one in family.points] for family in families(on)}
    assert lines["taylor"] == [70.0, 80.0, 90.0] and 71.0 in lines["taylor (more)"]


def test_without_a_digest_a_model_of_the_same_size_is_the_same(tmp_path: Path) -> None:
    files = [write_sweep(tmp_path / "ptb.json", [full(70.0), ranked("random", 0.8, 82.0)], weights="a")]
    files += [write_sweep(tmp_path / "old.json", [full(70.0), ranked("taylor", 0.6, 90.0)])]
    files += [write_sweep(tmp_path / "graded.json", [full(71.0), ranked("graded", 0.6, 75.0)])]
    on = gather(read_all(files)).on("ptb")
    assert {one.path.name for one in on.comparable} == {"ptb.json", "old.json"}
