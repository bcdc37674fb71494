"""The table of the README: what each position of the knob saves and costs, with a 5-gram in the same table.

python benchmarks/readme.py

Replaces what is between the marks of README.md. Figures come from the results of the bundled model and of an n-gram
model of the same training text, on the same test text.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from card import replaced
from rheostat.bundled import model_path
from rheostat.measure.results import read_all
from rheostat.model.knob import PATH
from rheostat.report.cost_sections import engine_note
from rheostat.report.document import Table, files, rows, table_markdown
from rheostat.report.evidence import cost_in
from rheostat.report.typed import limit_text

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
MARKS = ("<!-- table: written by benchmarks/readme.py -->", "<!-- end of table -->")
RESULTS = [ROOT / "results" / name for name in ("talk-path.json", "talk-path-bench.json", "talk-ngram.json")]
HEADER = ("knob", "MB", "ms/query", "time saved", "perplexity", "quality lost", "R@3", "keystrokes saved")


def section() -> Iterator[str]:
    found = read_all(RESULTS)
    (sweep,), (bench,), (ngram,) = found.sweeps, found.benches, found.ngrams
    assert sweep.subject.corpus == bench.subject.corpus == ngram.subject.corpus
    points = [point for point in sweep.curve(PATH) if point.is_tested]
    size, perplexity = model_path().stat().st_size / 1e6, points[0].test_perplexity()
    cells, whole_ms = [], 0.0
    for point in points:
        cost = cost_in(bench, point.cost, point.widths, point.bounds)
        assert cost is not None and cost.same_widths, f"{point.knob:.0%} was not timed"
        whole_ms = whole_ms or cost.row.latency_ms
        time = (f"{cost.row.latency_ms:.3f}", f"{1 - cost.row.latency_ms / whole_ms:.0%}")
        quality = (point.test_perplexity(), point.test_recall(), point.keystrokes_saved_share)
        cells.append([f"{point.knob:.0%}", f"{size:.1f}", *time, *_quality(*quality, perplexity)])
    quality = (ngram.test_perplexity, ngram.test_recall, ngram.keystrokes.keystrokes_saved_share)
    time = (f"{ngram.latency.latency_ms:.3f}", "")
    cells.append([ngram.subject.model, f"{ngram.subject.megabytes:.1f}", *time, *_quality(*quality, perplexity)])
    yield table_markdown(Table(HEADER, "lrrrrrrr", rows(cells)))
    yield (
        f"*The bundled model on the test text of its corpus. MB: the file, which serves all positions, and the tables "
        f"of the n-gram. Times on {bench.provenance.machine.processor}: the knob's {engine_note(bench.subject)}; the "
        f"{ngram.subject.model}'s in Python, in another run. Quality lost: the rise in perplexity. Keystrokes over the "
        f"first {ngram.keystrokes.words:,} words; at most {limit_text(ngram.keystrokes)} could be saved. From "
        f"{files(RESULTS)}.*"
    )


def _quality(perplexity: float, recall: float, saved: float | None, whole: float) -> tuple[str, ...]:
    assert saved is not None
    return f"{perplexity:.1f}", f"{perplexity / whole - 1:.1%}", f"{recall:.1%}", f"{saved:.1%}"


def main() -> None:
    README.write_text(replaced(README.read_text(encoding="utf-8"), MARKS, section()), encoding="utf-8")


if __name__ == "__main__":
    main()
