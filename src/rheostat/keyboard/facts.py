"""Facts about the model for the page: its size, the range of its knob, what a position costs, and what was measured.

Knows model files and results files of sweeps. The caller provides the energy of a query, and says whether it was
measured or estimated. `model.json` holds these facts, from a server and in a page without one.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import rheostat
from rheostat.errors import visible
from rheostat.governor.cost import read_costs
from rheostat.governor.policy import Policy
from rheostat.keyboard.browser_model import BrowserModel, browser_positions, smallest_percent
from rheostat.measure.meters.choice import Estimate
from rheostat.measure.results import NGramResults, read_bench_of, read_results, read_sweep_of
from rheostat.measure.results.sweep import TEST, TEXT
from rheostat.model.file import ModelFile
from rheostat.model.knob import PATH, can_serve, choose, turns_bits
from rheostat.model.operating_point import FULL
from rheostat.model.precision import Precision, bytes_read
from rheostat.tables import to_json
from rheostat.words.completion import Completion

Json = dict[str, Any]
DIGITS = 6  # of shares: two positions of one path differ by more
NGRAM = Path(__file__).with_name("talk-ngram.json")  # of the bundled model's text: a copy of the one in results/
SPLITS = (TEST, TEXT, "valid")  # in order of preference; a single file is measured as "text"


@dataclass(frozen=True)
class Energy:
    """The energy of a query. query_mj: from its FLOPs and the bytes it reads. note: where the figure comes from."""

    kind: Literal["estimate", "measured"]
    note: str
    query_mj: Callable[[int, int], float]


def estimated_energy() -> Energy:
    """The energy of a query by the estimate of `rheostat bench`."""
    estimate = Estimate()
    return Energy("estimate", estimate.covers, lambda flops, size: 1e3 * estimate.energy_j(flops, size))


def device_energy(bench: str | Path | None, file: ModelFile, precision: Precision) -> Energy:
    """The energy of a query as a bench of this model on the device has it, with its intercept; else the estimate.

    A bench without a meter has no energy, so the estimate is used.
    """
    if bench is None:
        return estimated_energy()
    table, found = read_costs(bench), read_bench_of(file, Path(bench))
    if not table.knows("energy_mj"):
        return estimated_energy()
    whole = bytes_read(file.shape.flops, precision)  # bytes follow the cost, which the knob counts
    kind: Literal["estimate", "measured"] = "estimate" if any(row.energy.estimate for row in found.rows) else "measured"
    note = f"{Path(bench).name}, by the meter {found.subject.meter}"
    return Energy(kind, note, lambda flops, size: table.at(min(size / whole, 1.0), "energy_mj"))


def model_facts(
    file: ModelFile,
    precision: Precision,
    policy: Policy,
    energy: Energy | None,
    curve: list[Json] | None,
    browser: BrowserModel | None,
    completion: Completion,
    *,
    ngram: Json | None,
    server: bool,
) -> Json:
    """The contents of `model.json`. ngram: compared with the curve. server: whether there is one that answers too."""
    shape, description = file.shape, file.description
    return {
        "name": visible(file.path.stem),
        "rheostat": rheostat.__version__,
        "server": server,
        "tokenizer": file.tokenizer,
        "vocabulary_size": shape.vocabulary_size,
        "shape": {"cell": shape.cell, **shape.as_json()},
        "parameters": shape.parameters,
        "flops": shape.flops,
        "file_bytes": file.file_bytes,
        "precision": precision,
        "knob": {"smallest": smallest_percent(file) / 100, "largest": 1.0, "step": 0.01, "costs": _costs(file)},
        "points": [
            {"name": point.name, "criterion": point.criterion, "flops_fraction": point.flops_fraction}
            for point in description.points
        ],
        "curve": curve,
        "ngram": ngram if curve else None,
        "energy": {"kind": energy.kind, "note": energy.note} if energy else None,
        "policy": asdict(policy),
        "browser": _browser_facts(file, precision, energy, browser, completion) if browser else None,
    }


def _browser_facts(
    file: ModelFile, precision: Precision, energy: Energy | None, browser: BrowserModel, completion: Completion
) -> Json:
    """What the browser needs beside the file: where it is, which words may be suggested, and what positions cost."""
    positions = browser_positions(file)
    for position in positions:
        flops, weighted = position["flops"], file.shape.flops * position["cost"]
        position["bytes_read"] = bytes_read(weighted, precision)
        position["energy_mj"] = energy.query_mj(flops, position["bytes_read"]) if energy else None
    return {
        "model": browser.address,
        "bytes": len(browser.contents),
        "path_down_to": browser.path[-1].cost,
        "positions": positions,
        "casing": sorted(file.casing.values()),
        "kinds": "".join(map(str, completion.kinds())),
        "misspelt": sorted(completion.misspelt),
        "known": base64.b64encode(known.to_bytes()).decode() if (known := file.known_words) else None,
    }


def _costs(file: ModelFile) -> list[float]:
    """The share of the cost that is spent at each whole percentage of the knob, from the smallest to 100."""
    return [choose(file, percent / 100).cost for percent in range(smallest_percent(file), 101)]


def curve_of(file: ModelFile, results: Path | None = None) -> list[Json] | None:
    """Quality by share of the cost, from a sweep's results or from the model file; None if neither has it.

    A point says what was measured exactly: `cost` is that of the position, so the page can tell whether the knob serves
    that very position.
    """
    rows: Any = _sweep_rows(results, file) if results else file.description.provenance.get("curve")
    points = _points_of(rows, file) if isinstance(rows, list) else []
    return points if len(points) > 1 else None


def ngram_of(file: ModelFile, results: Path | None = None) -> Json | None:
    """An n-gram model of the same text and words that was measured on the text of the curve; None if there is none.

    Its time is of another machine than the page's times, so that machine is named.
    """
    found = read_results(NGRAM)
    assert isinstance(found, NGramResults)
    made_from = file.description.provenance.get("corpus")
    swept = read_sweep_of(file, results).subject.corpus if results else None
    corpus = swept or (isinstance(made_from, dict) and made_from.get("name"))
    if (corpus, file.shape.vocabulary_size) != (found.subject.corpus, found.subject.vocabulary_size):
        return None
    if not found.counted_text_of(file):
        return None
    return {
        "name": found.subject.model,
        "perplexity": found.test_perplexity,
        "keystrokes_saved_share": found.keystrokes.keystrokes_saved_share,
        "size_bytes": found.subject.size_bytes,
        "latency_ms": found.latency.latency_ms,
        "machine": found.provenance.machine.processor,
    }


def _sweep_rows(path: Path, file: ModelFile) -> list[Json]:
    """What a sweep measured of the points that the knob serves, on the first of SPLITS that it has."""
    followed = PATH if turns_bits(file) else file.description.default_ranking
    labels = {FULL, followed, *(point.name for point in file.description.points)}
    ours = [row for row in read_sweep_of(file, path).rows if row.label in labels and row.allocation != "bare"]
    split = next((split for split in SPLITS if any(row.split == split for row in ours)), None)
    return [to_json(row) for row in ours if row.split == split]


def _points_of(rows: Iterable[Any], file: ModelFile) -> list[Json]:
    """The best row at each cost, from small shares to large; invalid rows are left out.

    keystrokes_saved_share is there if it was measured.
    """
    best: dict[float, Json] = {}
    for row in rows:
        if not isinstance(row, Mapping):
            continue
        shares, perplexity = _shares_of(row, file), _positive(row.get("perplexity"))
        if not shares or not perplexity:
            continue
        cost, flops_fraction = shares
        if cost not in best or perplexity < best[cost]["perplexity"]:
            saved = _positive(row.get("keystrokes_saved_share"))
            best[cost] = {"cost": cost, "flops_fraction": flops_fraction, "perplexity": perplexity} | (
                {"keystrokes_saved_share": saved} if saved else {}
            )
    return [best[cost] for cost in sorted(best)]


def _shares_of(row: Mapping[str, Any], file: ModelFile) -> tuple[float, float] | None:
    """The shares of the cost and of the FLOPs of what was measured; for a row with only a knob, those of its point."""
    flops = _positive(row.get("flops_fraction"))
    if flops:
        return round(_positive(row.get("cost_fraction")) or flops, DIGITS), round(flops, DIGITS)
    knob = _positive(row.get("knob"))
    if not knob or knob > 1 or not can_serve(file, knob):
        return None
    point = choose(file, knob)
    return round(point.cost, DIGITS), round(point.flops_fraction, DIGITS)


def _positive(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value < math.inf else None
