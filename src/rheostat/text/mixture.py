"""A corpus made of several texts, the parts of a recipe: each is split by conversation, then all are mixed.

Knows text files, conversations, splits and weights; knows nothing of tokenizers, ids or models. The recipe says what a
part is called, where it comes from and how often it is read. Forty senders of chitchat are held out with everything
they wrote. Other modules see a folder of text like any other: train.txt, valid.txt and test.txt, and for each part its
own valid-NAME.txt and test-NAME.txt. There is a blank line between conversations.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from rheostat.errors import CorpusError, RheostatWarning
from rheostat.inputs import read_input_text
from rheostat.recipe import read_recipe
from rheostat.tables import fill
from rheostat.text.chat import Turn, read_turns, split_conversations
from rheostat.text.sources import SPLITS, TALK
from rheostat.text.token_cache import (
    checksum_texts,
    hash_text,
    key,
    load_json,
    open_cache,
    reading,
    store_json,
    whole_file,
)

SENDERS = 40
WORDS = range(2000, 6001)  # of one sender: enough to learn from, too few to shape the corpus

_SEED = 1  # as in the corpus "chat", so the test conversations are those that earlier models were tested on


class HeldOut(NamedTuple):
    """messages: what each sender wrote, one list per conversation, oldest first. conversations: the names of theirs."""

    messages: dict[str, list[list[str]]]
    conversations: frozenset[str]

    @property
    def words(self) -> int:
        """The number of words the senders typed, separated by white space."""
        return sum(map(_count_words, self.messages.values()))


def held_out_senders(turns: Mapping[str, list[Turn]] | None = None) -> HeldOut:
    """The held-out senders, always the same ones.

    Test conversations stay test conversations, whoever takes part. They are neither counted nor returned here.
    """
    turns = read_turns() if turns is None else turns
    splits = chat_splits(turns)
    training = [name for name in turns if splits[name] != "test"]
    messages: dict[str, list[list[str]]] = {}
    for name in training:
        for sender in sorted({turn.sender for turn in turns[name]}):
            own = [turn.message for turn in turns[name] if turn.sender == sender]
            messages.setdefault(sender, []).append(own)
    able = [sender for sender in messages if _count_words(messages[sender]) in WORDS]
    chosen = sorted(able, key=lambda sender: draw(_SEED, sender))[:SENDERS]
    together = {name for name in training if {turn.sender for turn in turns[name]} & set(chosen)}
    return HeldOut({sender: messages[sender] for sender in chosen}, frozenset(together))


def chat_splits(turns: Mapping[str, list[Turn]]) -> dict[str, str]:
    """The split of each conversation by its name, as in the corpus "chat"."""
    names = {name: [name] for name in turns}
    return {name: split for split, (name,) in split_conversations(names, _SEED)}


def draw(seed: int, name: str) -> bytes:
    """A key to sort by: a shuffled order that is the same on every machine and in every version of Python."""
    return blake2b(f"{seed} {name}".encode(), digest_size=16).digest()


def _count_words(conversations: Iterable[Iterable[str]]) -> int:
    return sum(len(message.split()) for messages in conversations for message in messages)


_VERSION = "2"  # raise it whenever the same parts give other texts
_CYCLE = 40  # of each 40 conversations of a file, one is for validation and one for test
_BLOCK_LINES = 20  # sentences that stand alone are put into blocks about as long as a conversation


@dataclass(frozen=True)
class Part:
    """A `[[corpus.parts]]` table of a recipe.

    file: a text in the folder of the corpus; empty for the conversations of the package chitchat-dataset.
    conversations: whether blank lines separate conversations. If not, lines are shuffled one by one.
    weight: how often one pass over the mixture reads the training text of this part.
    thin, thin_to: of the lines with one of the words `thin`, only the share `thin_to` is kept: for names that are far
    more frequent in the source than in what people type. Only if lines stand alone.
    source: where the text comes from. licence, attribution: what the card of a model trained on it must say.
    """

    name: str
    file: str = ""
    conversations: bool = True
    weight: float = 1.0
    thin: tuple[str, ...] = ()
    thin_to: float = 1.0
    source: str = ""
    licence: str = ""
    attribution: str = ""

    def __post_init__(self) -> None:
        if not self.name or set(self.name) & set("/\\. "):
            raise ValueError(f"a part is called {self.name!r}; expected a word, which becomes part of a file name")
        if Path(self.file).name != self.file:
            raise ValueError(
                f"the file of {self.name} is {self.file!r}; expected a bare name: the folder is given as data"
            )
        if not 0 < self.weight <= 100:
            raise ValueError(f"the weight of {self.name} is {self.weight}; expected a number above 0, at most 100")
        if not 0 <= self.thin_to <= 1:
            raise ValueError(f"thin_to of {self.name} is {self.thin_to}; expected a share from 0 to 1")
        if self.thin and self.conversations:
            raise ValueError(f"thin of {self.name} would leave gaps in conversations; expected conversations = false")


Conversation = list[str]


@dataclass(frozen=True)
class Mixture:
    """texts: paths by name ("train", "valid", "test", "test-NAME", …). parts: those that were there."""

    texts: Mapping[str, Path]
    parts: tuple[Part, ...]

    @property
    def paths(self) -> dict[str, Path]:
        """The texts of the three splits."""
        return {name: self.texts[name] for name in SPLITS}


def talk_parts() -> tuple[Part, ...]:
    """The parts of the recipe `talk`, which are meant wherever a corpus is called "talk"."""
    return tuple(fill(Part, table, "talk.parts") for table in read_recipe(TALK)["corpus"]["parts"])


def talk_folder() -> Path:
    """Where the files of the recipe `talk` are expected unless a folder is given."""
    return Path(os.environ.get("RHEOSTAT_DATA", "data")) / TALK


def mix(parts: Sequence[Part], folder: Path | None, seed: int, cache_directory: Path | None = None) -> Mixture:
    """The mixture of these parts, written into the cache if it is missing or damaged.

    folder: where the files are; all of them must be there. None means `talk_folder()`, and files that are missing there
    are left out, with a warning.
    """
    if len({part.name for part in parts}) < len(parts):
        raise CorpusError(f"two parts have the same name: {', '.join(part.name for part in parts)}; rename one")
    cache = open_cache(cache_directory)
    present = _present_parts(parts, folder)
    inputs = [hash_text(path, cache, None) if path else _chat_version() for path in present.values()]
    settings = json.dumps([_settings(part) for part in present])
    place = cache / f"mixture-{key(_VERSION, settings, str(seed), *inputs)}"
    names = [*SPLITS, *(f"{split}-{part.name}" for part in present for split in SPLITS[1:])]
    paths = {name: place / f"{name}.txt" for name in names}
    if load_json(place / "checksums.json") != checksum_texts(paths):
        _write_texts(open_cache(place), paths, present, seed)
    return Mixture(paths, tuple(present))


def _settings(part: Part) -> dict[str, object]:
    """What of a part decides its texts."""
    return {name: value for name, value in asdict(part).items() if name not in ("source", "licence", "attribution")}


# --- finding the parts ------------------------------------------------------------------------------------


def _present_parts(parts: Sequence[Part], folder: Path | None) -> dict[Part, Path | None]:
    """The file of each part that was found; None for chitchat, which is a package."""
    base = folder or talk_folder()
    files = {part: base / part.file if part.file else None for part in parts}
    missing = [part for part, path in files.items() if path is not None and not path.is_file()]
    if not missing:
        return files
    lacking = f"{base} lacks {', '.join(part.file + f' ({part.source})' * bool(part.source) for part in missing)}"
    present = {part: path for part, path in files.items() if part not in missing}
    if folder is not None or not present:
        raise CorpusError(f"{lacking}; expected a file for each part of the recipe: give their folder as data")
    rest = ", ".join(part.name for part in present)
    remedy = "for the others, put the files there, or give their folder as data or with RHEOSTAT_DATA"
    warnings.warn(f"{lacking}; the corpus is only {rest}; {remedy}", RheostatWarning, stacklevel=3)
    return present


def _chat_version() -> str:
    try:
        return metadata.version("chitchat-dataset")
    except metadata.PackageNotFoundError:
        return "none"  # reading it raises the error


# --- splitting and mixing ---------------------------------------------------------------------------------


def _write_texts(place: Path, paths: Mapping[str, Path], parts: Mapping[Part, Path | None], seed: int) -> None:
    texts: dict[str, list[Conversation]] = {name: [] for name in paths}
    for part, path in parts.items():
        splits = _split_file(part, path, seed) if path else _split_chat()
        texts["train"] += _weighted(splits["train"], part, seed)
        for split in ("valid", "test"):
            texts[split] += splits[split]
            texts[f"{split}-{part.name}"] = splits[split]
    order = range(len(texts["train"]))
    texts["train"] = [texts["train"][index] for index in sorted(order, key=lambda index: draw(seed, f"mix {index}"))]
    for name, path in paths.items():
        with whole_file(path) as output:
            output.write("\n".join("".join(f"{line}\n" for line in lines) for lines in texts[name]).encode())
    store_json(place / "checksums.json", checksum_texts(paths))


def _split_file(part: Part, path: Path, seed: int) -> dict[str, list[Conversation]]:
    """By conversation; lines that stand alone one by one, then in blocks."""
    with reading(path):
        try:
            text = read_input_text(path, "part of a mixture")
        except UnicodeDecodeError:
            raise CorpusError(f"{path} is not UTF-8; expected UTF-8: convert the file") from None
    lines = [_plain(line) for line in text.split("\n")]
    units = list(_conversations(lines)) if part.conversations else [[line] for line in _thinned(lines, part, seed)]
    splits: dict[str, list[Conversation]] = {name: [] for name in SPLITS}
    for place, index in enumerate(sorted(range(len(units)), key=lambda index: draw(seed, f"{part.name} {index}"))):
        split = {_CYCLE - 2: "valid", _CYCLE - 1: "test"}.get(place % _CYCLE, "train")
        splits[split].append(units[index])
    # Some conversations occur twice in the source. What is trained on must not be measured.
    trained = set(map(tuple, splits["train"]))
    for split in ("valid", "test"):
        splits[split] = [unit for unit in splits[split] if tuple(unit) not in trained]
    return splits if part.conversations else {name: list(_blocks(lines)) for name, lines in splits.items()}


def _conversations(lines: Iterable[str]) -> Iterator[Conversation]:
    conversation: Conversation = []
    for line in (*lines, ""):
        if line:
            conversation.append(line)
        elif conversation:
            yield conversation
            conversation = []


def _thinned(lines: Iterable[str], part: Part, seed: int) -> Iterator[str]:
    """The lines that are not blank. Most lines with an overused word are dropped."""
    words = "|".join(map(re.escape, part.thin))
    overused = re.compile(rf"\b(?:{words})\b" if words else r"(?!)")
    limit = round(part.thin_to * 2**32)
    for line in filter(None, lines):
        if not overused.search(line) or int.from_bytes(draw(seed, line)[:4], "big") < limit:
            yield line


def _plain(line: str) -> str:
    """With plain apostrophes instead of curly ones, whatever tokenizer reads the text."""
    return line.strip().replace("’", "'").replace("‘", "'")


def _blocks(units: Sequence[Conversation]) -> Iterator[Conversation]:
    for first in range(0, len(units), _BLOCK_LINES):
        yield [line for unit in units[first : first + _BLOCK_LINES] for line in unit]


def _split_chat() -> dict[str, list[Conversation]]:
    """As the corpus "chat" is split, without the conversations of held-out senders."""
    turns = read_turns()
    held_out = held_out_senders(turns).conversations
    splits: dict[str, list[Conversation]] = {name: [] for name in SPLITS}
    for name, split in chat_splits(turns).items():
        if name not in held_out:
            splits[split].append([turn.message for turn in turns[name]])
    return splits


def _weighted(conversations: Sequence[Conversation], part: Part, seed: int) -> list[Conversation]:
    """Each conversation as often as the weight says; its fraction is the share that is read once more."""
    whole, fraction = divmod(part.weight, 1)
    order = sorted(range(len(conversations)), key=lambda index: draw(seed, f"again {part.name} {index}"))
    again = set(order[: round(fraction * len(conversations))])
    return [
        conversation for index, conversation in enumerate(conversations) for _ in range(int(whole) + (index in again))
    ]
