"""Tests use only the public names of the package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PRIVATE = {
    # _asdict and _replace are public methods of every named tuple
    "an attribute": r"(?<!\bself)(?<![\s\"'(])\._(?!asdict\b|replace\b)[a-z]\w*",
    "an import": r"^\s*from rheostat\S* import .*\b_[a-z]\w*",
    "a replaced name": r"setattr\([^)]*?[\"']_[a-z]\w*[\"']",
}


def private_names(text: str) -> list[str]:
    return [found[0] for pattern in PRIVATE.values() for found in re.finditer(pattern, text, re.MULTILINE)]


@pytest.mark.parametrize(
    "line",
    [
        "assert predictor._serving.history",
        "from rheostat.words.completion import Completion, _Index, _best",
        'monkeypatch.setattr(trainer, "_step", stopping)',
        'monkeypatch.setattr("rheostat.runtime.predictor._query_ms", query_ms)',
    ],
)
def test_private_names_are_found(line: str) -> None:
    assert len(private_names(line)) == 1


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(TESTS.rglob("*.py")) if path != Path(__file__)],
    ids=lambda path: path.relative_to(TESTS).as_posix(),
)
def test_no_test_uses_a_private_name(path: Path) -> None:
    assert not private_names(path.read_text(encoding="utf-8"))
