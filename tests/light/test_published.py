"""The published figures are consistent and, if the paper is available, agree with every number in it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from rheostat.errors import RheostatError
from rheostat.report import published
from rheostat.report import published_claims as checks
from rheostat.report.published import (
    SAME_SHARE,
    Published,
    PublishedRow,
    PublishedTable,
    Updated,
    is_corpus,
    load_published,
)
from rheostat.tables import from_json

ROOT = Path(__file__).parents[2]
CRITERIA = ("l0", "random", "filter-norm", "mean-activation")


# -------------------------------------------------------------------------------------- internal consistency


def walk(value: Any) -> Iterator[tuple[str, Any]]:
    """Every field of every dataclass below, by name."""
    if is_dataclass(value):
        for field in fields(value):
            yield field.name, getattr(value, field.name)
            yield from walk(getattr(value, field.name))
    elif isinstance(value, tuple):
        for item in value:
            yield from walk(item)


def test_fractions_are_fractions_and_never_percent() -> None:
    named = (
        "recall_at_3",
        "flops_fraction",
        "energy_saved",
        "perplexity_increase",
        "out_of_vocabulary",
        "share",
    )
    seen = [(name, value) for name, value in walk(load_published()) if name in named and value is not None]
    assert len(seen) > 50
    assert all(0 < value <= 1 for _, value in seen), [pair for pair in seen if not 0 < pair[1] <= 1]


def test_rows_are_numbered_and_each_table_has_one_full_model() -> None:
    for number, table in enumerate(load_published().tables, start=1):
        assert table.number == number
        assert [row.row for row in table.rows] == list(range(1, len(table.rows) + 1))
        assert [row.row for row in table.rows if row.flops_fraction == 1] == [table.full.row]
        assert {row.criterion for row in table.pruned()} == set(CRITERIA)


def test_pruned_rows_are_complete_and_cost_less_than_the_full_model() -> None:
    for table in load_published().tables:
        full = table.full
        assert full.latency_ms and full.energy_mj and full.recall_at_3
        for row in table.pruned():
            assert row.flops_fraction and row.flops_fraction < 1
            assert row.latency_ms and row.latency_ms < full.latency_ms
            assert row.energy_mj and row.energy_mj < full.energy_mj
            assert row.recall_at_3 and row.recall_at_3 < full.recall_at_3
            assert row.with_update and row.with_update.recall_at_3 > row.recall_at_3


def test_tables_are_in_milliseconds_and_millijoules() -> None:
    """A Raspberry Pi draws a watt or two above idle, so the two columns of a row are of similar size."""
    for table in load_published().tables:
        for row in table.rows:
            if row.latency_ms is not None and row.energy_mj is not None:
                watts = row.energy_mj / row.latency_ms
                assert 1 < watts < 2


def test_table_of_ptb_keeps_its_cut_off() -> None:
    figures = load_published()
    assert all(row.test_perplexity <= figures.cut_offs.table_test_perplexity for row in figures.table("ptb").rows)


def test_figures_given_twice_agree() -> None:
    figures = load_published()
    claims = {claim.id: claim for claim in figures.claims}
    (trade,) = claims["headline"].checks
    assert isinstance(trade, checks.Trade)
    for field in fields(figures.headline):
        assert getattr(trade, field.name) == getattr(figures.headline, field.name)
    linear = {check.metric: check.r_squared for check in claims["linear-in-flops"].checks}  # type: ignore[union-attr]
    assert linear["latency_ms"] == figures.linearity.latency_r_squared
    assert linear["energy_mj"] == figures.linearity.energy_r_squared
    for name, limit in (
        ("figure-cut-off", figures.cut_offs.figure_test_perplexity),
        ("table-cut-off", figures.cut_offs.table_test_perplexity),
    ):
        assert [check.test_perplexity for check in claims[name].checks] == [limit]  # type: ignore[union-attr]
    below = {check.model: check.kilobytes for check in claims["update-is-small"].checks}  # type: ignore[union-attr]
    assert below == {storage.model: storage.update_kb_below for storage in figures.storage}


def test_models_have_one_window_per_layer_and_a_table() -> None:
    figures = load_published()
    for model in figures.setup.models:
        assert len(model.hidden_sizes) == len(model.windows)
        assert figures.table(model.corpus).model == model.name


def test_claims_have_their_own_names() -> None:
    claims = load_published().claims
    assert len({claim.id for claim in claims}) == len(claims)
    assert all(claim.sentence.endswith(".") and claim.where for claim in claims)


def test_other_sources_are_cited() -> None:
    figures = load_published()
    assert {source.id for source in figures.other_sources} == {"graded-training", "awd-lstm-lm"}
    assert all(source.source for source in figures.other_sources)
    graded = figures.other("graded-training")
    for curve in graded.curves:
        points = sorted((point.fraction, point.perplexity) for point in curve.points)
        assert [perplexity for _, perplexity in points] == sorted((p for _, p in points), reverse=True)
    shared = {point.fraction: point.perplexity for point in graded.curve("graded").points}
    assert all(point.perplexity < shared[point.fraction] for point in graded.curve("dense").points)


# --------------------------------------------------------------------------------------------------- loading


def test_an_unknown_or_missing_key_is_named() -> None:
    value = {"figure_test_perplexity": 100, "table_perplexity": 75}
    with pytest.raises(RheostatError, match=r"cut-offs has .*table_perplexity.*expected .*table_test_perplexity"):
        from_json(published.CutOffs, value, "cut-offs")


@pytest.mark.parametrize("wrong", ["56.8", None, True, [56.8]])
def test_a_value_of_the_wrong_type_is_named(wrong: object) -> None:
    with pytest.raises(RheostatError, match=r"updated.*test_perplexity"):
        from_json(Updated, {"test_perplexity": wrong, "recall_at_3": 0.4}, "updated")


def test_a_claim_of_an_unknown_kind_is_refused() -> None:
    claim = {"id": "x", "sentence": "x.", "where": "x", "own_tables": "silent", "checks": [{"kind": "nicer"}]}
    with pytest.raises(RheostatError, match="nicer"):
        from_json(checks.Claim, claim, "claim")


def test_the_file_is_loaded_once() -> None:
    assert load_published() is load_published()


# -------------------------------------------------------------- the paper's claims on the paper's own tables


def perplexity(row: PublishedRow, with_update: bool) -> float:
    if not with_update:
        return row.test_perplexity
    assert row.with_update is not None
    return row.with_update.test_perplexity


def rows_of(table: PublishedTable, criterion: Any) -> list[PublishedRow]:
    return [row for row in table.pruned() if row.criterion == criterion]


def rivals(
    table: PublishedTable, criterion: Any, others: tuple[Any, ...]
) -> Iterator[tuple[PublishedRow, PublishedRow]]:
    """Pairs of rows of the two sides at the same share of FLOPs."""
    for mine in rows_of(table, criterion):
        for other in others:
            for theirs in rows_of(table, other):
                assert mine.flops_fraction is not None and theirs.flops_fraction is not None
                if abs(mine.flops_fraction - theirs.flops_fraction) < SAME_SHARE:
                    yield mine, theirs


def row_at(table: PublishedTable, criterion: Any, flops_fraction: float) -> PublishedRow:
    shares = {row.flops_fraction: row for row in rows_of(table, criterion)}
    return next(row for share, row in shares.items() if share is not None and abs(share - flops_fraction) < SAME_SHARE)


def holds(check: checks.Check) -> bool:
    """Whether the paper's tables support a claim; only for kinds of claims that tables can answer."""
    figures = load_published()
    match check:
        case checks.Better():
            return all(
                perplexity(mine, update) <= perplexity(theirs, update) * (1 + check.tolerance)
                for corpus in check.corpora
                for update in check.with_update
                for mine, theirs in rivals(figures.table(corpus), check.criterion, check.than)
            )
        case checks.RegainsMore():
            return all(
                perplexity(mine, False) - perplexity(mine, True) > perplexity(theirs, False) - perplexity(theirs, True)
                for corpus in check.corpora
                for mine, theirs in rivals(figures.table(corpus), check.criterion, check.than)
            )
        case checks.UpdateHelps():
            rows = [row for corpus in check.corpora for row in figures.table(corpus).pruned()]
            return all(
                perplexity(row, True) < perplexity(row, False) for row in rows if row.criterion in check.criteria
            )
        case checks.Trade():
            table = figures.table(check.corpus)
            row, full = row_at(table, check.criterion, check.flops_fraction), table.full
            assert row.energy_mj is not None and full.energy_mj is not None
            saved = 1 - row.energy_mj / full.energy_mj
            increase = perplexity(row, check.with_update) / full.test_perplexity - 1
            return (
                saved >= check.energy_saved - check.tolerance
                and increase <= check.perplexity_increase + check.tolerance
            )
        case checks.RecallFallsLess():
            table = figures.table(check.corpus)
            row, full = row_at(table, check.criterion, check.flops_fraction), table.full
            assert row.recall_at_3 is not None and full.recall_at_3 is not None
            return 1 - row.recall_at_3 / full.recall_at_3 < row.test_perplexity / full.test_perplexity - 1
        case checks.OrdersDiffer():
            table = figures.table(check.corpus)
            first = row_at(table, check.lower_perplexity.criterion, check.lower_perplexity.flops_fraction)
            second = row_at(table, check.higher_recall.criterion, check.higher_recall.flops_fraction)
            assert first.recall_at_3 is not None and second.recall_at_3 is not None
            return first.test_perplexity < second.test_perplexity and first.recall_at_3 < second.recall_at_3
        case checks.FullModelBetter():
            table = figures.table(check.corpus)
            others = [row for row in table.rows if row.row in check.than_rows]
            return all(table.full.test_perplexity < row.test_perplexity for row in others)
        case checks.WithinCutOff():
            rows = [row for corpus in check.corpora for row in figures.table(corpus).pruned()]
            return all(row.test_perplexity <= check.test_perplexity for row in rows)
        case checks.LatencyAbove():
            latency_ms = figures.table(check.corpus).full.latency_ms
            return latency_ms is not None and latency_ms > check.latency_ms
    raise AssertionError(f"the tables do not speak of {check}")


@pytest.mark.parametrize(
    "claim",
    [claim for claim in load_published().claims if claim.own_tables != "silent"],
    ids=lambda claim: claim.id,
)
def test_the_papers_tables_support_claims_as_the_file_says(claim: checks.Claim) -> None:
    assert claim.checks
    assert all(holds(check) for check in claim.checks) == (claim.own_tables == "confirm")


# ---------------------------------------------------------------------------- every number against the LaTeX


@pytest.fixture(scope="module")
def latex() -> str:
    folder = Path(os.environ.get("RHEOSTAT_PAPER", ROOT.parent / "shared" / "paper"))
    sources = sorted([*folder.glob("*.tex"), *folder.glob("*.txt")])
    texts = [path.read_text(encoding="utf-8") for path in sources]
    found = [text for text in texts if load_published().paper.title in text]
    if not found:
        pytest.skip(f"the paper is not in {folder}: set RHEOSTAT_PAPER to the folder of its LaTeX source")
    return found[0]


def printed_rows(latex: str, label: str) -> list[list[str]]:
    """The cells of a table without markup; a cell without a figure is empty."""
    (body,) = [
        table
        for table in re.findall(r"\\begin\{table\}.*?\\end\{table\}", latex, re.S)
        if f"\\label{{{label}}}" in table
    ]
    body = body[body.index(r"\midrule") : body.index(r"\bottomrule")]
    body = re.sub(r"\\bfblue\{(.*?)\}", r"\1", body.replace(r"\midrule", "").replace(r"\%", "%"))
    rows = [[" ".join(cell.split()) for cell in line.split("&")] for line in body.split(r"\\") if line.strip()]
    return [["" if cell == "--" else cell.replace("$L_0$", "L0") for cell in row] for row in rows]


def number(cell: str, scale: float = 1) -> Any:
    """What a printed cell means in our units, or None."""
    if not cell:
        return None
    value = float(cell.removesuffix("%")) / (100 if cell.endswith("%") else 1)
    return pytest.approx(value * scale)


def as_ours(cells: list[str], scale: float) -> list[Any]:
    return [
        *(int(cells[0]), cells[1]),
        *(number(cell) for cell in cells[2:6]),
        *(number(cell, scale) for cell in cells[6:8]),
        *(number(cell) for cell in cells[8:10]),
    ]


@pytest.mark.parametrize("table", load_published().tables, ids=lambda table: table.corpus)
def test_every_number_of_a_table_is_the_printed_one(latex: str, table: PublishedTable) -> None:
    scale = 1 if table.corpus == "ptb" else 1000  # the second table is in s and J
    printed = [as_ours(cells, scale) for cells in printed_rows(latex, table.label)]
    ours = [
        [
            *(
                row.row,
                row.method,
                row.valid_perplexity,
                row.test_perplexity,
                row.recall_at_3,
                row.flops_fraction,
            ),
            *(row.latency_ms, row.energy_mj),
            *((row.with_update.test_perplexity, row.with_update.recall_at_3) if row.with_update else (None, None)),
        ]
        for row in table.rows
    ]
    assert ours == printed


def test_a_wrong_digit_in_a_table_is_detected(latex: str) -> None:
    table = load_published().table("ptb")
    changed = replace(table, rows=(replace(table.rows[0], test_perplexity=58.4), *table.rows[1:]))
    with pytest.raises(AssertionError):
        test_every_number_of_a_table_is_the_printed_one(latex, changed)


@pytest.mark.parametrize("method", ["L0 reg.", "Random", "Filter norm", "Mean activation"])
def test_methods_have_their_criterion(method: str) -> None:
    names = {
        "L0 reg.": "l0",
        "Random": "random",
        "Filter norm": "filter-norm",
        "Mean activation": "mean-activation",
    }
    rows = [row for table in load_published().tables for row in table.rows if row.method == method]
    assert {row.criterion for row in rows} == {names[method]}


def percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f}\\%"


def thousands(count: int) -> str:
    return f"{count / 1000:g}K"


def power_of_ten(value: float) -> str:
    """5.5e-4 as the paper writes it: 5.5 \\times 10^{-4}."""
    digits, exponent = f"{value:e}".split("e")
    return rf"{float(digits):g} \times 10^{{{int(exponent)}}}"


def sentences_on_results(figures: Published) -> Iterator[str]:
    yield f"energy savings of {percent(figures.headline.energy_saved)} over"
    yield f"only a {percent(figures.headline.perplexity_increase)} relative increase in perplexity"
    yield f"results that exceed {figures.cut_offs.figure_test_perplexity:g} in test perplexity"
    yield f"we chose {figures.cut_offs.table_test_perplexity:g} as the cutoff-point for perplexity"
    assert figures.linearity.latency_r_squared == figures.linearity.energy_r_squared
    yield f"$r^2={figures.linearity.latency_r_squared}$ for both latency-- and power--FLOPs"

    *shares, last_share = (percent(share) for share in figures.picture.flops_fractions)
    yield f"the operating points are {', '.join(shares)}, and {last_share} FLOPs"
    assert figures.picture.layer == 0
    yield "a truncated subset of the first layer's weights from the PTB model"
    yield f"the first {figures.picture.filters} filters of"
    yield f"the first {figures.picture.elements} elements in each filter"


def sentences_on_storage(figures: Published) -> Iterator[str]:
    ptb, wt103 = figures.storage
    yield rf"less than {ptb.update_kb_below:g} KB for {{\tt ptb-qrnn}}"
    yield rf"less than {wt103.update_kb_below:g} KB for {{\tt wt103-qrnn}}"
    yield rf"requires {ptb.mean_activation_kb:g} KB for {{\tt ptb-qrnn}}, and {wt103.mean_activation_kb:g} KB"
    yield rf"about {ptb.gates_kb_per_point:g} KB on each power level for {{\tt ptb-qrnn}}"
    yield rf"{{\tt ptb-qrnn}}, and {wt103.gates_kb_per_point:g} KB for {{\tt wt103-qrnn}}. Filter norm"
    assert {0} == {kilobytes for model in figures.storage for kilobytes in (model.filter_norm_kb, model.random_kb)}
    yield "Filter norm pruning and random pruning do not require any extra storage"


def sentences_on_data_and_models(setup: checks.Setup) -> Iterator[str]:
    ptb, wt103 = setup.corpora
    train, valid, test = (thousands(tokens) for tokens in (ptb.train_tokens, ptb.valid_tokens, ptb.test_tokens))
    yield f"roughly {train}, {valid}, and {test} training, validation, and testing tokens"
    yield f"capped at {ptb.vocabulary_size:,}, yielding"
    yield f"a relatively large {percent(ptb.out_of_vocabulary, 1)} out-of-vocabulary (OOV) rate"
    yield f"With {wt103.train_tokens / 1e6:.9g} million training tokens, WikiText-103"
    yield f"around {thousands(wt103.valid_tokens)} tokens for validation"
    yield f"and {thousands(wt103.test_tokens)} for testing"
    yield f"unique tokens is {thousands(wt103.vocabulary_size)}, resulting in"
    yield f"in a {percent(wt103.out_of_vocabulary, 1)} OOV rate, significantly lower"

    small, large = setup.models
    assert small.hidden_sizes == (small.hidden_sizes[0],) * 4
    assert large.hidden_sizes == (large.hidden_sizes[0],) * 4
    yield f"a four-layer QRNN with {small.hidden_sizes[0]} hidden units for each layer"
    yield f"for each layer and a {small.embedding_size}-dimensional embedding"
    yield f"a four-layer QRNN with {large.hidden_sizes[0]} hidden units and {large.embedding_size}-dim"
    assert small.windows == large.windows == (2, 1, 1, 1)
    yield "the first layer uses a window size of two, while the rest use a windows size of one"


def sentences_on_pruning(setup: checks.Setup) -> Iterator[str]:
    l0 = setup.l0
    assert l0.beta == 2 / 3
    yield rf"\gamma = {l0.gamma}, \zeta = {l0.zeta}, \beta = 2/3"
    strengths = [power_of_ten(penalty.strength) for penalty in l0.penalties]
    targets = [percent(penalty.flops_fraction) for penalty in l0.penalties]
    yield f"To achieve {targets[0]} and {targets[1]} FLOPs for the model on PTB"
    yield rf"\lambda = {strengths[0]}, {strengths[1]}$, respectively"
    yield rf"To achieve about {targets[2]} FLOPs on WT103, we chose $\lambda = {strengths[2]}$"
    yield f"roughly {l0.steps} steps using Adam with a learning rate of ${power_of_ten(l0.learning_rate)}$"
    assert l0.weight_decay == 0
    yield "Since the weight decay penalty is incompatible with the objective, we removed it"
    assert setup.mean_activation[0].training_share == 1
    yield r"we used the entire training set for {\tt ptb-qrnn}"
    yield f"roughly {percent(setup.mean_activation[1].training_share)} of the first training examples"


def sentences_on_updates_and_meters(setup: checks.Setup) -> Iterator[str]:
    ptb, wt103 = setup.update
    assert ptb.initial_deviation == wt103.initial_deviation
    yield rf"$\text{{Normal}}(0, {ptb.initial_deviation})$"
    yield f"trained for {ptb.epochs} epochs using NT-ASGD"
    assert ptb.non_monotone_interval == 3
    yield "with a non-monotonic interval of three"
    assert wt103.learning_rate is not None
    yield f"{wt103.steps} steps using Adam with a learning rate of ${power_of_ten(wt103.learning_rate)}$"

    measurement = setup.measurement
    yield f"{measurement.board.replace(' 3', ' (RPi) 3')} (ARM Cortex-A53)"
    yield f"a {measurement.meter} meter, a wattmeter that reports"
    yield f"power usage at the rate of {measurement.meter_hz:g} Hz"
    yield f"{measurement.queries} next-word predictions"
    yield "subtracted off the idle power usage"


def sentences() -> list[str]:
    """What the paper's text must say if our transcription of its other figures is right."""
    figures = load_published()
    return [
        *sentences_on_results(figures),
        *sentences_on_storage(figures),
        *sentences_on_data_and_models(figures.setup),
        *sentences_on_pruning(figures.setup),
        *sentences_on_updates_and_meters(figures.setup),
    ]


def flat(text: str) -> str:
    """One line, one space between words, none around a product sign; a citation is not part of a sentence."""
    text = re.sub(r"~\\citep\{.*?\}", "", text)
    return re.sub(r" *(\\times) *", r"\1", " ".join(text.split()))


@pytest.mark.parametrize("sentence", sentences())
def test_every_other_figure_is_in_the_papers_text(latex: str, sentence: str) -> None:
    assert flat(sentence) in flat(latex)


# ------------------------------------------------------------------------------------- what ours stand beside


def test_a_corpus_is_recognised_by_the_start_of_the_folder_name() -> None:
    assert is_corpus("wikitext-103-part", "wikitext103") and is_corpus("WikiText-103", "wikitext-103")
    assert not is_corpus("wikitext-2", "wikitext103") and not is_corpus("chat", "ptb")


def test_a_table_is_shown_beside_models_of_its_corpus_and_shape() -> None:
    figures = load_published()
    assert figures.flops("ptb-qrnn") == 47_990_000
    found = figures.table_beside("wikitext-103-part", "wt103-split.safetensors", 307_200_800)
    assert found is not None and found.corpus == "wikitext103"
    assert figures.table_beside("chat", "m", 47_990_000) is None
    assert figures.table_beside("ptb", "ptb-dense-60.safetensors", 28_790_000) is None
    assert figures.table_beside("ptb", "ptb-skip-lstm.safetensors", 47_914_656) is None  # its size, and another kind


def test_a_row_is_shown_beside_the_same_share_of_its_criterion() -> None:
    table = load_published().table("wikitext103")
    l0 = table.beside("l0", 0.7)
    assert l0 is not None and l0.flops_fraction == 0.69
    assert table.beside(None, 1.0) is table.full
    assert table.beside("l0", 0.8) is None and table.beside("graded", 0.7) is None
