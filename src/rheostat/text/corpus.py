"""Text as streams of ids: finding the splits of a corpus, then reading, counting and encoding them.

Knows text files, splits and word counts. Knows nothing of models, batches or training; `token_cache` knows the format
of the cache; `chat` and `mixture` write the corpora that have no text files of their own. It is not in `training/`
because evaluation and benchmarks read corpora without torch.

A corpus is never held in memory: text is read in blocks, and ids are memory-mapped. Only the vocabulary is in memory
and, while a training text is being counted, its distinct words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from rheostat.errors import CorpusError, visible
from rheostat.text.casing import collect_casing
from rheostat.text.chat import CHAT_CYCLE, chat_texts
from rheostat.text.mixture import Mixture, Part, mix, talk_parts
from rheostat.text.reading import read_blocks, read_tokens
from rheostat.text.sources import (
    DividedText,
    Source,
    bare_names,
    check_split_name,
    divide,
    find_split,
    find_splits,
    is_chat,
    is_named,
    is_one_file,
    is_talk,
)
from rheostat.text.token_cache import (
    Ids,
    Progress,
    hash_text,
    identify_text,
    key,
    load_json,
    open_cache,
    open_ids,
    reporter,
    store_json,
    while_unchanged,
    write_ids,
)
from rheostat.text.tokenizers import Tokenizer, as_tokenizer
from rheostat.text.vocabulary import END_OF_LINE, SPECIAL_TOKENS, UNKNOWN, Vocabulary
from rheostat.text.word_counts import count_words, read_vocabulary_with_counts, select_words


@dataclass(frozen=True)
class CorpusConfig:
    """The `[corpus]` table of a recipe.

    vocabulary_size: the number of words to keep, special tokens included, the most frequent first; 0 = all.
    minimum_count: rarer words become `<unk>`. If no word of raw text is cut off, there is no `<unk>` to learn from.
    conversations, seed: of the chat corpus: how many conversations (0 = all), and the seed of their order.
    parts, seed: the texts of a mixture, and the seed of their order; without parts the corpus is one text.
    special_counts: counts of `<eos>` and `<unk>`, for a vocabulary file that has counts but not theirs.
    """

    tokenizer: Tokenizer = "words"
    vocabulary_size: int = 0
    minimum_count: int = 1
    conversations: int = 0
    seed: int = 1
    parts: tuple[Part, ...] = ()
    special_counts: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        as_tokenizer(self.tokenizer)
        if self.vocabulary_size and self.vocabulary_size <= len(SPECIAL_TOKENS):
            raise ValueError(f"vocabulary_size is {self.vocabulary_size}; expected 0 (all words) or over 3")
        if self.minimum_count < 1:
            raise ValueError(f"minimum_count is {self.minimum_count}; expected 1 (all words) or more")
        if self.conversations and self.conversations < CHAT_CYCLE:
            raise ValueError(f"conversations is {self.conversations}; expected 0 (all), 20 or more")
        for word, count in self.special_counts.items():
            if word not in (END_OF_LINE, UNKNOWN) or count < 0:
                raise ValueError(f"special_counts has {word} = {count}; expected counts of {END_OF_LINE}, {UNKNOWN}")


@dataclass(frozen=True)
class Split:
    """A split as ids, with `<eos>` after every line.

    words: number of tokens other than `<eos>`. unknown: number of `<unk>`. corpus: its name. digest: of the text's
    bytes.
    """

    name: str
    ids: Ids
    words: int
    unknown: int
    corpus: str | None = None
    digest: str | None = None

    @property
    def tokens(self) -> int:
        return len(self.ids)

    @property
    def unknown_rate(self) -> float:
        """Share of `<unk>` among words, not counting `<eos>`."""
        return self.unknown / self.words if self.words else 0.0


@dataclass(frozen=True)
class Corpus:
    """Everything that training needs to know about a text.

    source: names of the folder or files, without paths, which would mean nothing on another machine.
    counts: how often each vocabulary word occurs, by id; empty if the vocabulary comes from a model.
    casing: the usual spelling of words not written in lower case.
    parts: of a mixture, those that were there.
    split_rule: how one file was divided into the splits; empty if they were given. divided_in: where its parts are.
    """

    name: str
    source: str
    tokenizer: str
    vocabulary: Vocabulary
    counts: tuple[int, ...]
    splits: Mapping[str, Split]
    casing: Mapping[str, str]
    parts: tuple[Part, ...] = ()
    split_rule: str = ""
    divided_in: Path | None = None

    def summary(self) -> dict[str, Any]:
        """What a model file or results file records about its corpus."""
        return {
            "name": self.name,
            "source": self.source,
            **({"split_rule": self.split_rule} if self.split_rule else {}),
            **({"parts": {part.name: part.weight for part in self.parts}} if self.parts else {}),
            "tokenizer": self.tokenizer,
            "vocabulary_size": len(self.vocabulary),
            "words_with_casing": len(self.casing),
            "splits": {
                name: {"tokens": split.tokens, "words": split.words, "unknown_rate": split.unknown_rate}
                for name, split in self.splits.items()
            },
        }


def load_corpus(
    source: Source,
    config: CorpusConfig,
    *,
    vocabulary_file: Path | None = None,
    vocabulary: Vocabulary | None = None,
    cache_directory: Path | None = None,
    progress: Progress | None = None,
) -> Corpus:
    """All three splits of a corpus: a folder, three files, one file (which is divided), "chat" or "talk".

    The vocabulary is `vocabulary` (from a model that is trained further) if given, else that of `vocabulary_file`, else
    that of the training text. The limits of the config apply to the last two.
    """
    if vocabulary is not None and vocabulary_file is not None:
        raise CorpusError(f"found a model's vocabulary and {vocabulary_file}; expected one: leave the file out")
    mixture = _mix(source, config, cache_directory)
    divided = None if mixture else _divide(source, cache_directory, progress)
    made = mixture or divided
    paths = made.paths if made else locate_splits(source, config, cache_directory)
    counts: Mapping[str, int] = {}
    if vocabulary is None:
        counts = vocabulary_counts(paths["train"], config, vocabulary_file, cache_directory, progress)
        vocabulary = Vocabulary(tuple(counts))
    splits = {
        name: encode_split(
            path, vocabulary, config.tokenizer, name=name, cache_directory=cache_directory, progress=progress
        )
        for name, path in paths.items()
    }
    casing = {}
    if config.tokenizer == "words":
        casing = read_casing(paths["train"], vocabulary, cache_directory, progress)
    name = corpus_name(source, paths["train"], config)
    return Corpus(
        name,
        bare_names(source),
        config.tokenizer,
        vocabulary,
        tuple(counts.values()),
        {key: replace(split, corpus=name) for key, split in splits.items()},
        casing,
        parts=mixture.parts if mixture else (),
        split_rule=divided.rule if divided else "",
        divided_in=divided.folder if divided else None,
    )


def corpus_name(source: Source, text: Path, config: CorpusConfig) -> str:
    """What a corpus is called: "chat", "talk", the name of its only file, or that of the folder of its texts."""
    if is_written_here(source, config):
        return bare_names(source)
    return visible(Path(str(source)).stem if is_one_file(source) else text.resolve().parent.name)


def _divide(source: Source, cache_directory: Path | None, progress: Progress | None) -> DividedText | None:
    if not (isinstance(source, str | Path) and is_one_file(source)):
        return None
    return divide(Path(source), cache_directory, progress)


def load_split(
    source: Source,
    name: str,
    config: CorpusConfig,
    vocabulary: Vocabulary,
    *,
    cache_directory: Path | None = None,
    progress: Progress | None = None,
) -> Split:
    """One split in a model's vocabulary, for evaluation; if `source` is a single file, all of it is that split."""
    check_split_name(name)
    written = is_written_here(source, config)
    path = locate_splits(source, config, cache_directory)[name] if written else find_split(source, name)
    split = encode_split(
        path, vocabulary, config.tokenizer, name=name, cache_directory=cache_directory, progress=progress
    )
    return replace(split, corpus=corpus_name(source, path, config))


def load_training_split(
    source: Source,
    name: str,
    config: CorpusConfig,
    vocabulary: Vocabulary,
    *,
    cache_directory: Path | None = None,
    progress: Progress | None = None,
) -> Split:
    """The same, to learn from: one file is divided, so that training text and other splits do not overlap."""
    divided = None if is_written_here(source, config) else _divide(source, cache_directory, progress)
    if divided is None:
        return load_split(source, name, config, vocabulary, cache_directory=cache_directory, progress=progress)
    part = load_split(divided.folder, name, config, vocabulary, cache_directory=cache_directory, progress=progress)
    return replace(part, corpus=corpus_name(source, divided.folder, config))


def locate_splits(source: Source, config: CorpusConfig, cache_directory: Path | None = None) -> dict[str, Path]:
    """The three text files of a source; chat and mixtures are written into the cache if they are missing."""
    if is_chat(source):
        _check_raw(source, config)
        return chat_texts(open_cache(cache_directory), config.conversations, config.seed)
    mixture = _mix(source, config, cache_directory)
    return mixture.paths if mixture else find_splits(source)


def part_texts(source: Source, config: CorpusConfig, cache_directory: Path | None = None) -> Mapping[str, Path]:
    """The texts of a mixture by name, with those of its parts ("test-chitchat"); none for any other source."""
    mixture = _mix(source, config, cache_directory)
    return mixture.texts if mixture else {}


def part_weights(source: Source, config: CorpusConfig, cache_directory: Path | None = None) -> dict[str, float]:
    """How often training reads each part of a mixture in one pass; none for any other source."""
    mixture = _mix(source, config, cache_directory)
    return {part.name: part.weight for part in mixture.parts} if mixture else {}


def is_written_here(source: Source, config: CorpusConfig) -> bool:
    """Whether this program writes the texts (chat, or a mixture of parts); otherwise they are the user's files."""
    return bool(config.parts) or is_named(source)


def _mix(source: Source, config: CorpusConfig, cache_directory: Path | None) -> Mixture | None:
    """The mixture that a source and the parts of a recipe stand for; None if they stand for something else."""
    if is_chat(source) or not is_written_here(source, config):
        return None
    _check_raw(source, config)
    if not isinstance(source, str | Path):
        raise CorpusError(f"got {len(source)} files; the recipe has parts: expected the one folder that they are in")
    folder = None if is_talk(source) else Path(source)
    return mix(config.parts or talk_parts(), folder, config.seed, cache_directory)


def _check_raw(source: Source, config: CorpusConfig) -> None:
    if config.tokenizer != "words":
        raise CorpusError(f"{source} is raw text; found corpus.tokenizer = {config.tokenizer!r}; set it to 'words'")


def vocabulary_counts(
    training_text: Path,
    config: CorpusConfig,
    vocabulary_file: Path | None,
    cache_directory: Path | None,
    progress: Progress | None,
) -> dict[str, int]:
    def training_counts() -> dict[str, int]:
        return count_words(training_text, config.tokenizer, cache_directory, progress)

    if vocabulary_file is None:
        counts = training_counts()
    else:
        counts = read_vocabulary_with_counts(vocabulary_file, config.special_counts, training_counts)
    return select_words(counts, config.vocabulary_size, config.minimum_count)


def encode_split(
    path: Path,
    vocabulary: Vocabulary,
    tokenizer: str,
    *,
    name: str | None = None,
    cache_directory: Path | None = None,
    progress: Progress | None = None,
) -> Split:
    """A text as ids, read from the cache if complete there."""
    cache, identity = open_cache(cache_directory), identify_text(path)
    digest = hash_text(path, cache, progress)
    file = cache / f"{key(digest, tokenizer, vocabulary.to_bytes())}.ids"
    if (stored := open_ids(file, len(vocabulary))) is None:
        tokens = while_unchanged(
            path, identity, read_tokens(path, tokenizer, reporter(progress, f"encoding {path.name}"))
        )
        write_ids(file, _encode(tokens, vocabulary), end_id=vocabulary.end_id, unknown_id=vocabulary.unknown_id)
        stored = open_ids(file, len(vocabulary))
    assert stored is not None, f"{file} was just written"
    return Split(name or path.name, *stored, digest=digest)


def _encode(token_lists: Iterable[list[str]], vocabulary: Vocabulary) -> Iterator[Ids]:
    index, unknown_id = vocabulary.index.get, vocabulary.unknown_id
    for tokens in token_lists:
        yield np.fromiter(map(index, tokens, repeat(unknown_id)), np.int32, len(tokens))


def read_casing(
    path: Path, vocabulary: Vocabulary, cache_directory: Path | None = None, progress: Progress | None = None
) -> dict[str, str]:
    """The usual spelling of words in a raw text, read from the cache if possible."""
    cache = open_cache(cache_directory)
    file = cache / f"{key(hash_text(path, cache, progress), 'words', vocabulary.to_bytes())}.casing.json"
    if (stored := load_json(file)) is not None:
        return stored
    blocks = read_blocks(path, reporter(progress, f"spelling of {path.name}"))
    casing = collect_casing((line for _, text in blocks for line in text.split("\n")), vocabulary)
    store_json(file, casing)
    return casing
