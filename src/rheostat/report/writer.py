"""Writing a report: a Markdown page for each sweep and for learned points, the report itself as Markdown and as one
HTML page, and every picture as PNG and SVG.

Knows file names and the folder; `sections`, `sweep_page` and `learned` provide the contents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rheostat.arguments import checked
from rheostat.durable import file_name, replacing
from rheostat.errors import RheostatError, encode_text
from rheostat.measure.results import SweepResults, read_all
from rheostat.report.cost_sections import REPORT
from rheostat.report.document import Picture, html, markdown
from rheostat.report.evidence import Evidence, gather
from rheostat.report.extent import comparability_on
from rheostat.report.figures.style import draw_trade_off, has_trade_off
from rheostat.report.kept_filters import KeptFilters, read_kept_filters
from rheostat.report.learned import learned_page
from rheostat.report.sections import build_report, learned_comparisons, learned_stem
from rheostat.report.sweep_page import page
from rheostat.report.typing_page import typing_page


@dataclass(frozen=True)
class WrittenReport:
    """files: documents first, then pictures. notes: what was left out, and why. summary: the report's first lines."""

    files: tuple[Path, ...]
    notes: tuple[str, ...]
    summary: tuple[str, ...]


@checked
def write_report(results: Sequence[str | Path], *, out: str | Path, model: str | Path | None = None) -> WrittenReport:
    """Make the report of some results files. model: a model file with rankings or points, to show what is cut."""
    kept = read_kept_filters(Path(model)) if model else None
    return write_evidence(gather(read_all(list(results)), kept), kept, Path(out))


def write_evidence(evidence: Evidence, kept: KeptFilters | None, out: Path) -> WrittenReport:
    """The same for results that have already been read."""
    document = build_report(evidence, kept)
    documents = {f"{REPORT}.md": markdown(document), **sweep_pages(evidence)}
    _check_names(evidence)
    try:
        out.mkdir(parents=True, exist_ok=True)
        pictures = [
            path for picture in (*document.pictures(), *_sweep_pictures(evidence)) for path in _draw(picture, out)
        ]
        vectors = {path.stem: path for path in pictures if path.suffix == ".svg"}
        documents[f"{REPORT}.html"] = html(document, vectors)
        for name, text in documents.items():
            with replacing(out / name) as file:
                file.write(encode_text(text))
    except OSError as error:
        found = f"{error.filename or out}: {error.strerror}"
        raise RheostatError(f"cannot write {found}; expected a writable folder") from None
    files = (*(out / name for name in sorted(documents)), *dict.fromkeys(pictures))
    return WrittenReport(files, document.notes, document.summary)


def sweep_pages(evidence: Evidence) -> dict[str, str]:
    """The Markdown page of every sweep, and of the learned points of every corpus."""
    pages = {}
    for sweep in evidence.collection.sweeps:
        picture = f"{_trade_off_stem(sweep)}.png" if has_trade_off(sweep) else None
        caution = comparability_on(evidence, sweep.subject.corpus)
        pages[f"{sweep.path.stem}.md"] = page(sweep, picture, evidence.energy_bench(sweep), caution)
    for typing in evidence.collection.typings:
        pages[f"{typing.path.stem}.md"] = typing_page(typing)
    for comparison in learned_comparisons(evidence):
        stem = learned_stem(comparison)
        caution = comparability_on(evidence, comparison.reference.subject.corpus)
        pages[f"{stem}.md"] = learned_page(comparison, f"{stem}.png", caution)
    return pages


def _sweep_pictures(evidence: Evidence) -> list[Picture]:
    return [
        Picture(_trade_off_stem(sweep), "", "", partial(draw_trade_off, sweep))
        for sweep in evidence.collection.sweeps
        if has_trade_off(sweep)
    ]


def _trade_off_stem(sweep: SweepResults) -> str:
    return file_name(f"{sweep.path.stem}-trade-off")  # as `Picture` names its files


def _draw(picture: Picture, out: Path) -> list[Path]:
    paths = [out / f"{picture.stem}{suffix}" for suffix in (".png", ".svg")]
    for path in paths:
        picture.draw(path)
    return paths


def _check_names(evidence: Evidence) -> None:
    """Refuse two results files with the same name: they would overwrite each other's page."""
    collection = evidence.collection
    for kind in (collection.sweeps, collection.benches, collection.days, collection.typings):
        names = Counter(path.stem for path in {one.path for one in kind})
        doubled = sorted(name for name, count in names.items() if count > 1)
        if doubled:
            raise RheostatError(f"two results files are named {doubled[0]}.json; expected different names: rename one")
    if any(sweep.path.stem == REPORT for sweep in collection.sweeps):
        raise RheostatError(f"a sweep is named {REPORT}.json, like the report itself; rename it")
