"""Text as streams of ids: finding the splits of a corpus, then reading, counting and encoding them.

Knows text files, splits and word counts. Knows nothing of models, batches or training; `token_cache` defines the layout
of the cache, and `chat` provides the chat corpus. This is not in `training/` because evaluation and benchmarks read
corpora without torch.

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

from rheostat.errors import CorpusError
from rheostat.text.casing import collect_casing
from rheostat.text.chat import CHAT_CYCLE, chat_texts
from rheostat.text.counts import count_words, read_vocabulary_with_counts, select_words
from rheostat.text.reading import read_blocks, read_tokens
from rheostat.text.single_file import DividedText, divide
from rheostat.text.sources import (
    CHAT,
    Source,
    bare_names,
    check_split_name,
    find_split,
    find_splits,
    is_chat,
    is_one_file,
)
from rheostat.text.token_cache import (
    Ids,
    Progress,
    hash_text,
    key,
    load_json,
    open_cache,
    open_ids,
    reporter,
    store_json,
    write_ids,
)
from rheostat.text.tokenizers import Tokenizer, as_tokenizer
from rheostat.text.vocabulary import END_OF_LINE, SPECIAL_TOKENS, UNKNOWN, Vocabulary


@dataclass(frozen=True)
class CorpusConfig:
    """The `[corpus]` table of a recipe.

    vocabulary_size: how many of the most frequent words to keep, including special tokens; 0 = all.
    minimum_count: rarer words become `<unk>`. If no word of a raw text is dropped, it has no `<unk>` to learn from.
    conversations, seed: only for the chat corpus: how many conversations to use (0 = all), and the seed of their order.
    special_counts: counts of `<eos>` and `<unk>`, for a vocabulary file that lacks them.
    """

    tokenizer: Tokenizer = "words"
    vocabulary_size: int = 0
    minimum_count: int = 1
    conversations: int = 0
    seed: int = 1
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
    split_rule: how a single file was divided into splits; empty if the splits were given. divided_in: the folder that
    holds its parts.
    """

    name: str
    source: str
    tokenizer: str
    vocabulary: Vocabulary
    counts: tuple[int, ...]
    splits: Mapping[str, Split]
    casing: Mapping[str, str]
    split_rule: str = ""
    divided_in: Path | None = None

    def summary(self) -> dict[str, Any]:
        """What a model file or results file records about its corpus."""
        return {
            "name": self.name,
            "source": self.source,
            **({"split_rule": self.split_rule} if self.split_rule else {}),
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
    """All three splits of a corpus: a folder, three files, one file (which is divided), or the name "chat".

    The vocabulary is `vocabulary` (from a model that is trained further) if given, else that of `vocabulary_file`, else
    that of the training text. The limits of the config apply to the last two.
    """
    if vocabulary is not None and vocabulary_file is not None:
        raise CorpusError(f"found a model's vocabulary and {vocabulary_file}; expected one: leave the file out")
    divided = _divide(source, cache_directory, progress)
    paths = divided.paths if divided else locate_splits(source, config, cache_directory)
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
    name = corpus_name(source, paths["train"])
    return Corpus(
        name,
        bare_names(source),
        config.tokenizer,
        vocabulary,
        tuple(counts.values()),
        {key: replace(split, corpus=name) for key, split in splits.items()},
        casing,
        split_rule=divided.rule if divided else "",
        divided_in=divided.folder if divided else None,
    )


def corpus_name(source: Source, text: Path) -> str:
    """The name of a corpus: "chat", the name of its only file, or the name of the folder that holds its texts."""
    if is_chat(source):
        return CHAT
    return Path(str(source)).stem if is_one_file(source) else text.resolve().parent.name


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
    chat = is_chat(source)
    path = locate_splits(source, config, cache_directory)[name] if chat else find_split(source, name)
    split = encode_split(
        path, vocabulary, config.tokenizer, name=name, cache_directory=cache_directory, progress=progress
    )
    return replace(split, corpus=corpus_name(source, path))


def load_training_split(
    source: Source,
    name: str,
    config: CorpusConfig,
    vocabulary: Vocabulary,
    *,
    cache_directory: Path | None = None,
    progress: Progress | None = None,
) -> Split:
    """The same, for training: a single file is divided, so that training text and other splits do not overlap."""
    divided = _divide(source, cache_directory, progress)
    if divided is None:
        return load_split(source, name, config, vocabulary, cache_directory=cache_directory, progress=progress)
    part = load_split(divided.folder, name, config, vocabulary, cache_directory=cache_directory, progress=progress)
    return replace(part, corpus=corpus_name(source, divided.folder))


def locate_splits(source: Source, config: CorpusConfig, cache_directory: Path | None = None) -> dict[str, Path]:
    """The three text files of a source; the chat corpus is written to the cache if missing."""
    if is_chat(source):
        if config.tokenizer != "words":
            raise CorpusError(f"chat is raw text; found corpus.tokenizer = {config.tokenizer!r}; set it to 'words'")
        return chat_texts(open_cache(cache_directory), config.conversations, config.seed)
    return find_splits(source)


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
    cache = open_cache(cache_directory)
    digest = hash_text(path, cache, progress)
    file = cache / f"{key(digest, tokenizer, vocabulary.to_bytes())}.ids"
    if (stored := open_ids(file)) is None:
        tokens = read_tokens(path, tokenizer, reporter(progress, f"encoding {path.name}"))
        write_ids(file, _encode(tokens, vocabulary), end_id=vocabulary.end_id, unknown_id=vocabulary.unknown_id)
        stored = open_ids(file)
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
