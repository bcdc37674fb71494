"""The chat corpus: the conversations of the package chitchat-dataset as three text files, one message per line.

Knows that package, which parts of it nobody typed, and how conversations are divided into training, validation and
test. Knows nothing of tokenizers, ids or recipes: to other modules, the corpus is a folder of raw text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from importlib import import_module, resources
from pathlib import Path
from typing import NamedTuple

from rheostat.errors import MissingExtraError
from rheostat.text.token_cache import CACHE_VERSION, checksum_texts, load_json, open_cache, store_json, whole_file
from rheostat.text.vocabulary import SPECIAL_TOKENS

CHAT_CYCLE = 20  # conversations; with fewer, a split would be empty

_SPLITS = ("train", "valid", "test")
_VALID, _TEST = 18, 19  # places among every 20 conversations; the other 18 are for training
_LONGEST_MESSAGE = 2000  # characters. Longer ones, 0.06 % of messages but 4 % of the text, are pasted or generated
_NOISE = re.compile(r"(?<!\w)(?:https?://|www\.\w)\S*|\[\?\]")  # web addresses, and placeholders for lost emoji


class Turn(NamedTuple):
    """A message as one line of text, and who sent it."""

    sender: str
    message: str


def chat_texts(cache: Path, conversations: int, seed: int) -> dict[str, Path]:
    """The text file of each split, written to the cache if missing or damaged. conversations: to use; 0 = all."""
    folder = cache / f"chat-{conversations or 'all'}-{seed}-{CACHE_VERSION}"
    paths = {name: folder / f"{name}.txt" for name in _SPLITS}
    if load_json(folder / "checksums.json") != checksum_texts(paths):
        _write_texts(open_cache(folder), paths, conversations, seed)
    return paths


def _write_texts(folder: Path, paths: Mapping[str, Path], conversations: int, seed: int) -> None:
    texts: dict[str, list[str]] = {name: [] for name in paths}
    for name, messages in split_conversations(_read_conversations(), seed, conversations):
        texts[name] += messages
    for name, path in paths.items():
        with whole_file(path) as output:
            output.write("".join(f"{message}\n" for message in texts[name]).encode())
    store_json(folder / "checksums.json", checksum_texts(paths))


def split_conversations(
    conversations: Mapping[str, list[str]], seed: int, first: int = 0
) -> Iterator[tuple[str, list[str]]]:
    """(split, messages) of the `first` conversations in a shuffled order; 0 = all of them.

    A conversation's place in that order decides its split, 18 : 1 : 1. So each split of a smaller corpus is part of the
    same split of a larger one, and no model is tested on text that another was trained on.
    """
    order = sorted(conversations, key=lambda name: blake2b(f"{seed} {name}".encode()).digest())
    for place, name in enumerate(order[: first or None]):
        split = {_VALID: "valid", _TEST: "test"}.get(place % CHAT_CYCLE, "train")
        yield split, conversations[name]


def _read_conversations() -> dict[str, list[str]]:
    return {name: [turn.message for turn in turns] for name, turns in read_turns().items()}


def read_turns() -> dict[str, list[Turn]]:
    """The messages of each conversation that is not empty, by its name, the oldest conversation first."""
    try:
        package = import_module("chitchat_dataset")
    except ImportError as error:
        raise MissingExtraError("chat", "the chat corpus", error) from error
    # The package's own reader would open the file in the platform's encoding.
    data = json.loads(resources.files(package).joinpath("dataset.json").read_bytes())
    names = sorted(data, key=lambda name: (data[name]["start"], name))
    cleaned = {name: list(_clean_turns(data[name]["messages"])) for name in names}
    return {name: turns for name, turns in cleaned.items() if turns}


def _clean_turns(turns: Iterable[Sequence[Mapping[str, str]]]) -> Iterator[Turn]:
    """All utterances of a turn have one sender."""
    for turn in turns:
        if message := clean_message(turn):
            yield Turn(turn[0]["sender"], message)


def clean_message(turn: Iterable[Mapping[str, str]]) -> str:
    """A message as one line; empty if nobody typed it."""
    text = _NOISE.sub(" ", " ".join(utterance["text"] for utterance in turn))
    # Raw text must not contain special tokens.
    message = " ".join(word for word in text.split() if word not in SPECIAL_TOKENS)
    return message if len(message) <= _LONGEST_MESSAGE else ""
