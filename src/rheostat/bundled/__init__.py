"""Files that ship with the package: the default model, a text it was not trained on, and words it never suggests.

Knows names and paths, not what the files contain. The folder also holds the model's card, `chat.md`, for people.
"""

from __future__ import annotations

import os
from pathlib import Path

from rheostat.errors import ModelFileError

DEFAULT_MODEL = "chat"
FOLDER = Path(__file__).parent
NGRAM_RESULTS = FOLDER / "chat-ngram.json"  # of an n-gram model of the same training text, on the text below
HELD_OUT_TEXT = FOLDER / "chat-test.txt"  # conversations from the test split of the default model's corpus
HIDDEN_WORDS = FOLDER / "hidden-words.txt"


def model_path(name_or_path: str | Path = DEFAULT_MODEL) -> Path:
    """The path of a model: a bundled one by its bare name, any other by its path.

    Bundled names come first, so the default is the same in every folder. To use your own file called just `chat`, write
    its folder in front.
    """
    given: object = name_or_path  # callers may not check their types
    if not isinstance(given, str | os.PathLike):
        raise ModelFileError(f"the model is {given!r:.40}; expected a path, or the name of a bundled model")
    name, path = str(name_or_path), name_or_path if isinstance(name_or_path, Path) else Path(name_or_path)
    if path.name == name:
        bundled = FOLDER / f"{name}.safetensors"
        if bundled in FOLDER.glob("*.safetensors"):
            return bundled
        if name == DEFAULT_MODEL:
            raise ModelFileError(
                f"the bundled model {name!r} is not part of this installation; expected {bundled.name} in its folder "
                "bundled: name a model file, or build the bundled one in a clone with: make model"
            )
    return path
