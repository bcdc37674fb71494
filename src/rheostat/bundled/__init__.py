"""What comes with the package beside its code: the default model, a text that it has not seen, words to hold back.

Knows names and where files lie; what is in them is for others to know. The folder also holds the model's
card, `chat.md`, for people.
"""

from __future__ import annotations

from pathlib import Path

from rheostat.errors import ModelFileError

DEFAULT_MODEL = "chat"
FOLDER = Path(__file__).parent
HELD_OUT_TEXT = FOLDER / "chat-test.txt"  # conversations of the test split of the default model's corpus
HIDDEN_WORDS = FOLDER / "hidden-words.txt"


def model_path(name_or_path: str | Path = DEFAULT_MODEL) -> Path:
    """Where a model lies: a bundled one by its bare name, any other by its path.

    The name goes first, so that the default is the same wherever it is asked for: a file of your own that is named
    just `chat` needs its folder in front.
    """
    name, path = str(name_or_path), name_or_path if isinstance(name_or_path, Path) else Path(name_or_path)
    if path.name == name:
        bundled = FOLDER / f"{name}.safetensors"
        if bundled in FOLDER.glob("*.safetensors"):
            return bundled
        if name == DEFAULT_MODEL:
            raise ModelFileError(
                f"the bundled model {name!r} is not part of this installation; expected {bundled.name} in its folder "
                "models: name a model file, or make it from a clone with: make model"
            )
    return path
