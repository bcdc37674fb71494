"""Record the answers of the model in tests/answers.py on this machine, to compare other machines with.

PYTHONPATH=src python tests/data/make_answers.py

If suggestions must be the same, only texts are used whose best words are farther apart than the tolerance: the order of
two equally probable words means nothing.
"""

from __future__ import annotations

import json
import platform
import sys
import tempfile
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

from answers import (
    CASES,
    LENGTHS,
    RECORDED,
    SAME_SUGGESTIONS,
    TOLERANCE,
    Position,
    ask,
    open_predictor,
    questions,
    write_everything,
)
from rheostat.model.precision import Precision
from rheostat.runtime.predictor import Predictor

LARGEST_SEARCH = 500  # texts


def clear_answer(predictor: Predictor, length: int, least_gap: float) -> dict[str, Any]:
    asked = ((question, ask(predictor, question)) for question in islice(questions(length), LARGEST_SEARCH))
    question, answer = next(pair for pair in asked if pair[1].gap >= least_gap)
    return {
        "text": question.text,
        "prefix": question.prefix,
        "suggestions": answer.suggestions,
        "completions": answer.completions,
        "log_probabilities": [round(float(each), 5) for each in answer.log_probabilities],
    }


def answers_of(model: Path, precision: Precision, position: Position) -> dict[str, Any]:
    predictor = open_predictor(model, precision, position)
    least_gap = 2 * TOLERANCE[precision] if precision in SAME_SUGGESTIONS else 0
    answers = [clear_answer(predictor, length, least_gap) for length in LENGTHS]
    return {"precision": precision, "position": position, "answers": answers}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = write_everything(Path(folder) / "model.safetensors")
        cases = [answers_of(model, precision, position) for precision, position in CASES]
    machine = {"processor": platform.machine(), "onnxruntime": version("onnxruntime")}
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    RECORDED.write_text(f'{{"machine": {json.dumps(machine)},\n"cases": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
