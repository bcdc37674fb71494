"""A small corpus and recipe for runs that take seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

RECIPE = """
[corpus]
tokenizer = "words"

[model]
embedding_size = 12
layers = 2
hidden_size = 20

[train]
epochs = 2
batch_size = 4
sequence_length = 12
optimizer = "adamw"
learning_rate = 3e-2
schedule = "one-cycle"
average_from = 0.8
checkpoint_minutes = 0.0

[regularization]
dropout_embedding = 0.1
dropout_input = 0.1
dropout_hidden = 0.1
dropout_output = 0.1
weight_drop = 0.1
activation = 1.0
temporal_activation = 1.0
"""

NAMES, VERBS, THINGS = ("ann", "bob", "eve"), ("sees", "hides", "paints"), ("boats", "lamps", "trees", "doors")


def sentence(random: np.random.Generator) -> str:
    """Predictable enough to learn: most of the time, the thing follows from the verb."""
    verb = int(random.integers(len(VERBS)))
    thing = verb if random.random() < 0.8 else int(random.integers(len(THINGS)))
    return f"{NAMES[random.integers(len(NAMES))]} {VERBS[verb]} the {THINGS[thing]} ."


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A token cache only for the tests and the processes they start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RHEOSTAT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def corpus_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    random = np.random.default_rng(1)
    for name, lines in (("train", 600), ("valid", 40), ("test", 40)):
        (folder / f"{name}.txt").write_text("".join(sentence(random) + "\n" for _ in range(lines)))
    return folder


@pytest.fixture(scope="session")
def recipe_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recipe") / "small.toml"
    path.write_text(RECIPE)
    return path
