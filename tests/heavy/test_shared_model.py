"""The full-size reference model on Penn Treebank has the figures in its README."""

from __future__ import annotations

import re

import pytest

from corpora import data_folder
from models import shared_model

pytest.importorskip("torch")

from rheostat.model.file import open_model
from rheostat.model.operating_point import full_point
from rheostat.text.corpus import encode_split
from rheostat.text.sources import find_split
from rheostat.training.evaluation import PointEvaluator
from rheostat.training.machine import keep_freed_memory


@pytest.mark.parametrize("split", ["valid", "test"])
def test_the_shared_model_has_its_published_perplexity_and_recall(split: str) -> None:
    model, folder = shared_model(), data_folder("ptb")
    stated = (model.parent / "README.md").read_text(encoding="utf-8")
    figures = dict(re.findall(rf"^{split}_(\w+): ([\d.]+)$", stated, re.MULTILINE))
    assert "perplexity" in figures and "recall_at_3" in figures
    keep_freed_memory()
    with open_model(model) as file:
        text = encode_split(find_split(folder, split), file.vocabulary, file.tokenizer)
        quality = PointEvaluator(file).quality(full_point(file.shape), text.ids).as_json()
    for name, figure in figures.items():
        decimals = len(figure.partition(".")[2])
        assert f"{quality[name]:.{decimals}f}" == figure, name
