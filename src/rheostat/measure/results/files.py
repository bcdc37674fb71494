"""Results files: the only place that writes them, reads them and distinguishes their kinds.

A results file is a JSON object. `kind` says what measured it, `version` which version of the schema it follows; the
rest is the dataclass of that kind. `report` interprets the numbers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from rheostat.durable import READ_ONLY, failure, obstacle, old_file, replacing, try_writing
from rheostat.errors import RheostatError, encode_text, visible
from rheostat.inputs import read_input_text
from rheostat.measure.results.bench import BenchResults, ModelBench
from rheostat.measure.results.benchmark import BenchmarkResults, TrainingResults
from rheostat.measure.results.govern import GovernResults
from rheostat.measure.results.ngram import NGramResults
from rheostat.measure.results.sweep import SweepResults
from rheostat.measure.results.typing import TypingResults
from rheostat.model.file import ModelFile
from rheostat.tables import from_json, to_json

Results: TypeAlias = (
    SweepResults | BenchResults | NGramResults | GovernResults | BenchmarkResults | TrainingResults | TypingResults
)

VERSION = 1
KINDS: dict[str, type[Results]] = {
    kind.kind: kind
    for kind in (
        SweepResults,
        BenchResults,
        NGramResults,
        GovernResults,
        BenchmarkResults,
        TrainingResults,
        TypingResults,
    )
}
_WRITTEN_BY = "a results file that rheostat wrote"


@dataclass(frozen=True)
class Collection:
    """The contents of several results files, in the order given. benches: one per model and file."""

    sweeps: tuple[SweepResults, ...] = ()
    benches: tuple[ModelBench, ...] = ()
    ngrams: tuple[NGramResults, ...] = ()
    days: tuple[GovernResults, ...] = ()
    benchmarks: tuple[BenchmarkResults, ...] = ()
    trainings: tuple[TrainingResults, ...] = ()
    typings: tuple[TypingResults, ...] = ()


def results_json(results: Results) -> dict[str, Any]:
    """The contents of a results file."""
    return {"kind": results.kind, "version": VERSION, **to_json(results)}


def check_results_target(path: str | Path) -> Path:
    """This path; a RheostatError if no results can be written to it. Call it before measuring.

    For every file that is written when the work is done: results, n-grams, pages.
    """
    if not isinstance(path, str | Path):
        raise RheostatError(f"the file to write is {path!r:.80}; expected a path")
    target = Path(path)
    try:
        if found := obstacle(target):
            why = "read-only" if found == READ_ONLY else f"{found}, not a regular file"
            raise RheostatError(f"cannot write {path}: it is {why}; choose another name")
        try_writing(target)
    except OSError as error:
        raise RheostatError(f"cannot write {path}: {failure(target, error)}; choose another folder") from None
    return target


def write_results(path: Path, results: Results) -> None:
    """Replace a file atomically: a kill leaves either the old one or the new one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(encode_text(_formatted(results_json(results)) + "\n"))
    except OSError as error:
        raise RheostatError(f"cannot write {path}: {failure(path, error)}{old_file(path)}") from None


def _formatted(value: Any, indent: str = "") -> str:
    """JSON with one key per line; a list of plain values stays on one line, however long."""
    inner = indent + " "
    if isinstance(value, dict) and value:
        lines = [
            f"{inner}{json.dumps(key, ensure_ascii=False)}: {_formatted(one, inner)}" for key, one in value.items()
        ]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        return "[\n" + ",\n".join(f"{inner}{_formatted(one, inner)}" for one in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False)


def read_results(path: Path) -> Results:
    """One file, as the dataclass of its kind."""
    contents = _contents(path)
    kind, version = contents.pop("kind", None), contents.pop("version", None)
    if not isinstance(kind, str) or kind not in KINDS:
        found = "has no kind" if kind is None else f"has the unknown kind {kind!r:.80}"
        raise RheostatError(f"{path} {found}; expected {_WRITTEN_BY}, of kind {', '.join(KINDS)}")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise RheostatError(f"{path} has the version {version!r:.80}; expected {_WRITTEN_BY}: measure again")
    if version > VERSION:
        raise RheostatError(
            f"{path} has version {version}; this program reads versions up to {VERSION}: update rheostat"
        )
    try:
        return replace(from_json(KINDS[kind], contents, kind), path=path)
    except RheostatError as error:
        raise RheostatError(f"{path}: {error}; expected {_WRITTEN_BY}: measure again") from None


def read_all(paths: Sequence[str | Path]) -> Collection:
    """Every file by its kind."""
    found: list[Results] = [read_results(path) for path in dict.fromkeys(map(Path, paths))]
    return Collection(
        tuple(one for one in found if isinstance(one, SweepResults)),
        tuple(model for one in found if isinstance(one, BenchResults) for model in one.by_model()),
        tuple(one for one in found if isinstance(one, NGramResults)),
        tuple(one for one in found if isinstance(one, GovernResults)),
        tuple(one for one in found if isinstance(one, BenchmarkResults)),
        tuple(one for one in found if isinstance(one, TrainingResults)),
        tuple(one for one in found if isinstance(one, TypingResults)),
    )


def read_sweep(path: Path) -> SweepResults:
    """The results file of a sweep."""
    found = read_results(path)
    if not isinstance(found, SweepResults):
        raise RheostatError(f"{path} has the kind {found.kind}; expected a sweep, which `rheostat sweep` writes")
    return found


def read_sweep_of(file: ModelFile, path: Path) -> SweepResults:
    """The results file of a sweep of this model; an error if it measured another one."""
    found = read_sweep(path)
    _check_model(found, file)
    return found


def read_bench_of(file: ModelFile, path: Path) -> BenchResults:
    """The results file of a bench of this model; an error if it measured another one."""
    found = read_results(path)
    if not isinstance(found, BenchResults):
        raise RheostatError(f"{path} has the kind {found.kind}; expected a bench, which `rheostat bench -o` writes")
    _check_model(found, file)
    return found


def _check_model(found: SweepResults | BenchResults, file: ModelFile) -> None:
    if not found.is_of(file):
        raise RheostatError(
            f"{found.path} holds results of another model, {found.subject.model}; expected a {found.kind} of "
            f"{file.path}, with these very weights: measure it with `rheostat {found.kind}`"
        )


def _contents(path: Path) -> dict[str, Any]:
    try:
        contents = _visible_texts(json.loads(read_input_text(path, "results file")))
    except OSError as error:
        raise RheostatError(f"cannot read {path}: {error.strerror}; expected a results file") from None
    except (ValueError, RecursionError) as error:
        raise RheostatError(f"{path} is not JSON ({error}); expected {_WRITTEN_BY}") from None
    if not isinstance(contents, dict):
        raise RheostatError(f"{path} is not a JSON object; expected {_WRITTEN_BY}")
    return contents


def _visible_texts(value: Any) -> Any:
    """The same with every text, and every key, on one line and without control characters.

    Reports, tables and pictures quote these texts, and anyone could have written them.
    """
    if isinstance(value, dict):
        return {visible(key): _visible_texts(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_visible_texts(one) for one in value]
    return visible(value) if isinstance(value, str) else value
