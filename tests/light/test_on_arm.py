"""The same answers on every processor: compares this one with answers recorded on x86 (tests/data/make_answers.py).

`make test` runs this on your machine, `make test-arm` on an emulated Cortex-A53.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from answers import (
    CASES,
    RECORDED,
    SAME_SUGGESTIONS,
    TOLERANCE,
    Position,
    Question,
    ask,
    open_predictor,
    write_everything,
)
from rheostat.model.precision import Precision

RECORD: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_everything(tmp_path_factory.mktemp("answers") / "model.safetensors")


def recorded(precision: Precision, position: Position) -> list[dict[str, Any]]:
    """The recorded answers, one entry per text."""
    wanted = (precision, position)
    [answers] = [case["answers"] for case in RECORD["cases"] if (case["precision"], case["position"]) == wanted]
    assert isinstance(answers, list)
    return answers


def test_every_question_has_a_recorded_answer() -> None:
    assert RECORD["machine"]["processor"] == "x86_64"
    assert [(case["precision"], case["position"]) for case in RECORD["cases"]] == list(CASES)


@pytest.mark.parametrize(("precision", "position"), [case for case in CASES if case[0] in SAME_SUGGESTIONS])
def test_suggestions_are_those_of_x86(model: Path, precision: Precision, position: Position) -> None:
    predictor = open_predictor(model, precision, position)
    for expected in recorded(precision, position):
        answer = ask(predictor, Question(expected["text"], expected["prefix"]))
        assert (answer.suggestions, answer.completions) == (expected["suggestions"], expected["completions"])


@pytest.mark.parametrize(("precision", "position"), CASES)
def test_log_probabilities_are_near_those_of_x86(model: Path, precision: Precision, position: Position) -> None:
    predictor = open_predictor(model, precision, position)
    for expected in recorded(precision, position):
        found = predictor.log_probabilities_after(expected["text"].split())
        np.testing.assert_allclose(found, expected["log_probabilities"], rtol=0, atol=TOLERANCE[precision])
