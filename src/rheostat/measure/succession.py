"""A model beside the one that it replaces: perplexity over the words that both know, and the time of a query.

Knows two model files and one text. Perplexities over two vocabularies cannot be compared as they are: a model that
knows fewer words has an easier text. So only the tokens that both know count; each still shares its probability among
all the words that it knows.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rheostat.errors import RheostatError
from rheostat.measure.results import Succession
from rheostat.metrics import perplexity
from rheostat.model.file import ModelFile, open_model
from rheostat.model.operating_point import full_point
from rheostat.runtime.evaluation import RuntimeEvaluator
from rheostat.runtime.predictor import load
from rheostat.text.corpus import CorpusConfig, load_split

ROUNDS = 15  # of timing, interleaved
QUERIES = 21


def compare_models(new: str | Path, old: str | Path, text: Path, name: str) -> Succession:
    """The whole new model beside the whole old one. text: a file with the text; name: what it is called."""
    with open_model(new) as file, open_model(old) as before:
        if file.tokenizer != before.tokenizer:
            raise RheostatError(
                f"{Path(old).name} reads {before.tokenizer} and {Path(new).name} {file.tokenizer}; "
                "expected two models with the same tokenizer"
            )
        ids, old_ids = _ids(file, text), _ids(before, text)
        known, old_known = ids != file.vocabulary.unknown_id, old_ids != before.vocabulary.unknown_id
        shared = (known & old_known)[1:]
        if not shared.any():
            raise RheostatError(f"{Path(old).name} and {Path(new).name} share no word of {name}; expected two that do")
        of_new, of_old = (_perplexity(one, own, shared) for one, own in ((file, ids), (before, old_ids)))
        words = ids != file.vocabulary.end_id
        return Succession(
            old=Path(old).name,
            text=name,
            tokens=len(shared),
            shared=int(shared.sum()),
            perplexity=of_new,
            old_perplexity=of_old,
            perplexity_ratio=of_new / of_old,
            unknown_share=float(1 - known[words].mean()),
            old_unknown_share=float(1 - old_known[words].mean()),
            query_ratio=_query_ratio(new, old),
            file_bytes=file.file_bytes,
            old_file_bytes=before.file_bytes,
        )


def _ids(file: ModelFile, text: Path) -> NDArray[np.integer]:
    return np.asarray(load_split(text, "test", CorpusConfig(tokenizer=file.tokenizer), file.vocabulary).ids)


def _perplexity(file: ModelFile, ids: NDArray[np.integer], counted: NDArray[np.bool_]) -> float:
    evaluator = RuntimeEvaluator(file, "int8", threads=1, engine="core")
    found = evaluator.log_probabilities(full_point(file.shape), ids)
    return perplexity(-float(np.mean(found[counted], dtype=np.float64)))


def _query_ratio(new: str | Path, old: str | Path) -> float:
    """Interleaved, so that load affects both equally."""
    with load(new, threads=1, engine="core") as one, load(old, threads=1, engine="core") as other:
        return float(np.median([one.query_ms(QUERIES) / other.query_ms(QUERIES) for _ in range(ROUNDS)]))
