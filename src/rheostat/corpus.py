"""Text as streams of ids: finding the splits of a corpus, reading, counting and encoding them.

Knows text files, splits and counts of words; knows nothing of models, batches or training, nor how the files
of the cache are laid out (`token_cache`) or where chat comes from (`chat`). It is in the light half, not in
`training/`, because evaluation and benchmarks read corpora without torch.

A corpus is never in memory as a whole: text is read in blocks, ids are memory-mapped. In memory are the
vocabulary and, while a training text is counted, all of its different words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from rheostat.chat import CHAT_CYCLE, chat_texts
from rheostat.chat import split_conversations as split_conversations
from rheostat.errors import CorpusError
from rheostat.mixture import TALK, Part, mixture_texts, talk_parts
from rheostat.token_cache import (
    Ids,
    Progress,
    Report,
    hash_text,
    key,
    load_json,
    open_cache,
    open_ids,
    reading,
    reporter,
    stat_text,
    store_json,
    write_ids,
)
from rheostat.token_cache import default_cache_directory as default_cache_directory
from rheostat.vocabulary import (
    END,
    NUMBER,
    SPECIAL_TOKENS,
    UNKNOWN,
    Tokenizer,
    Vocabulary,
    as_tokenizer,
    collect_casing,
    split_at_ascii_white_space,
    tokenize,
)

SPLITS = ("train", "valid", "test")
CHAT = "chat"

Source = str | Path | Sequence[Path]


@dataclass(frozen=True)
class CorpusConfig:
    """The `[corpus]` table of a recipe.

    vocabulary_size: most words to keep, special tokens included, frequent ones first; 0 keeps all.
    minimum_count: rarer words become `<unk>`. Raw text of which no word is cut off has none to learn from.
    conversations, seed: of the chat corpus: how many conversations (0: all) of which shuffled order.
    parts, seed: the texts of a mixture, and the order they are shuffled in; without parts the corpus is one text.
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
            if word not in (END, UNKNOWN) or count < 0:
                raise ValueError(f"special_counts has {word} = {count}; expected counts of {END}, {UNKNOWN}")


@dataclass(frozen=True)
class Split:
    """A split as ids, `<eos>` after every line. words: tokens but `<eos>`; unknown: how many are `<unk>`."""

    name: str
    ids: Ids
    words: int
    unknown: int

    @property
    def tokens(self) -> int:
        return len(self.ids)

    @property
    def unknown_rate(self) -> float:
        """Share of `<unk>` among words; `<eos>` is no word."""
        return self.unknown / self.words if self.words else 0.0


@dataclass(frozen=True)
class Corpus:
    """All that training needs to know of a text.

    source: bare names of the folder or files; where they lie is nobody's business but this machine's.
    counts: how often the words of the vocabulary occur, by id; empty where the vocabulary is that of a model.
    casing: usual spelling of words not written lower-case.
    """

    name: str
    source: str
    tokenizer: str
    vocabulary: Vocabulary
    counts: tuple[int, ...]
    splits: Mapping[str, Split]
    casing: Mapping[str, str]

    def summary(self) -> dict[str, Any]:
        """What a result file says of its corpus."""
        return {
            "name": self.name,
            "source": self.source,
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
    """All three splits of a corpus: a folder, three files, or the name "chat" or "talk".

    The vocabulary is `vocabulary` (that of a model to go on with), else that of `vocabulary_file`, else that
    of the training text; the limits of the config apply to the last two.
    """
    if vocabulary is not None and vocabulary_file is not None:
        raise CorpusError(f"found a model's vocabulary and {vocabulary_file}; expected one: leave the file out")
    paths = locate_splits(source, config, cache_directory)
    counts: Mapping[str, int] = {}
    if vocabulary is None:
        counts = _vocabulary_counts(paths["train"], config, vocabulary_file, cache_directory, progress)
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
    name = _bare_names(source) if is_named(source, config) else paths["train"].resolve().parent.name
    return Corpus(name, _bare_names(source), config.tokenizer, vocabulary, tuple(counts.values()), splits, casing)


def load_split(
    source: Source,
    name: str,
    config: CorpusConfig,
    vocabulary: Vocabulary,
    *,
    cache_directory: Path | None = None,
    progress: Progress | None = None,
) -> Split:
    """One split in a model's vocabulary; `source` may be a single file, which then is that split."""
    _check_split_name(name)
    named = is_named(source, config)
    path = locate_splits(source, config, cache_directory)[name] if named else find_split(source, name)
    return encode_split(
        path, vocabulary, config.tokenizer, name=name, cache_directory=cache_directory, progress=progress
    )


# --- finding the texts ------------------------------------------------------------------------------------

_SPLIT_NAMES = {
    "train": "train", "training": "train",
    "valid": "valid", "validation": "valid", "val": "valid", "dev": "valid",
    "test": "test",
}  # fmt: skip
_SPLIT_FILE = re.compile(rf"(?:.*[._-])?({'|'.join(_SPLIT_NAMES)})(?:\.(?:txt|text|tokens|raw))?", re.IGNORECASE)
_EXPECTED_FILES = "one file each for train, valid and test, named like train.txt, ptb.valid.txt or wiki.test.tokens"


def locate_splits(source: Source, config: CorpusConfig, cache_directory: Path | None = None) -> dict[str, Path]:
    """The three text files of any source; chat and mixtures are written into the cache if they are not there."""
    if not is_named(source, config):
        return find_splits(source)
    if config.tokenizer != "words":
        raise CorpusError(f"{source} is raw text; found corpus.tokenizer = {config.tokenizer!r}; set it to 'words'")
    if _is(CHAT, source):
        return chat_texts(open_cache(cache_directory), config.conversations, config.seed)
    if not isinstance(source, str | Path):
        raise CorpusError(f"got {len(source)} files; the recipe has parts: expected the one folder that they are in")
    folder = None if _is(TALK, source) else Path(source)
    texts = mixture_texts(config.parts or talk_parts(), folder, config.seed, cache_directory)
    return {name: texts[name] for name in SPLITS}


def is_named(source: Source, config: CorpusConfig) -> bool:
    """Whether the texts are made by this program: chat, or a mixture of parts; else they are the user's files."""
    return bool(config.parts) or _is(CHAT, source) or _is(TALK, source)


def find_splits(source: Source) -> dict[str, Path]:
    """The train, valid and test text of a folder, or of three files in that order."""
    if not isinstance(source, str | Path):
        return _three_files(source)
    folder = Path(source)
    candidates = _candidates(folder)
    for name, paths in candidates.items():
        if len(paths) != 1:
            remedy = "Rename the files, or give the three files in the order train, valid, test."
            raise CorpusError(f"{_wrong_candidates(folder, name, paths)}. {remedy}")
    return {name: paths[0] for name, paths in candidates.items()}


def find_split(source: Source, name: str) -> Path:
    """The text of one split; a single file is taken as it is."""
    _check_split_name(name)
    if not isinstance(source, str | Path):
        return _three_files(source)[name]
    with reading(Path(source)):
        if Path(source).is_file():
            return Path(source)
    paths = _candidates(Path(source))[name]
    if len(paths) != 1:
        raise CorpusError(f"{_wrong_candidates(Path(source), name, paths)}. Rename the files.")
    return paths[0]


def _check_split_name(name: str) -> None:
    if name not in SPLITS:
        raise CorpusError(f"the split {name!r} is not known; expected one of {', '.join(SPLITS)}")


def _three_files(paths: Sequence[Path]) -> dict[str, Path]:
    if len(paths) != len(SPLITS):
        raise CorpusError(f"got {len(paths)} files ({', '.join(map(str, paths))}); expected three: train, valid, test")
    for path in paths:
        with reading(path):
            if not path.is_file():
                raise CorpusError(f"{path} is not a file; expected three texts in the order train, valid, test")
    return dict(zip(SPLITS, paths, strict=True))


def _candidates(folder: Path) -> dict[str, list[Path]]:
    candidates: dict[str, list[Path]] = {name: [] for name in SPLITS}
    with reading(folder):
        if folder.is_file():
            raise CorpusError(f"{folder} is one file; expected a folder with {_EXPECTED_FILES}, or three files")
        if not folder.is_dir():
            raise CorpusError(f"the folder {folder} does not exist; expected {_EXPECTED_FILES} in it")
        for path in sorted(folder.iterdir()):
            match = _SPLIT_FILE.fullmatch(path.name)
            if match and path.is_file() and not path.name.startswith("."):
                candidates[_SPLIT_NAMES[match[1].lower()]].append(path)
    return candidates


def _wrong_candidates(folder: Path, name: str, paths: Sequence[Path]) -> str:
    names = [path.name for path in paths] or sorted(path.name for path in folder.iterdir())
    found = ", ".join(names[:10] + ["…"] * (len(names) > 10)) or "nothing"
    return f"{folder} has {len(paths) or 'no'} texts for the split {name}: found {found}; expected {_EXPECTED_FILES}"


def _is(name: str, source: Source) -> bool:
    return source == name or (source == Path(name) and not Path(name).exists())


def _bare_names(source: Source) -> str:
    if isinstance(source, str | Path):
        return Path(source).resolve().name  # "." has a name too
    return ", ".join(path.name for path in source)


# --- reading ----------------------------------------------------------------------------------------------

_BLOCK_BYTES = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SPECIAL_WORD = re.compile(r"<(?<!\S<)(?:unk|eos|num)>(?!\S)")  # begins with a sign: the search can run to it


def read_lines(path: Path, tokenizer: str) -> Iterator[list[str]]:
    """The tokens of each line, `<eos>` last.

    A blank line of a pre-tokenised corpus is a line (the published token counts have it so); in raw text it
    is only layout, and skipped.
    """
    line: list[str] = []
    for tokens in _read_tokens(path, tokenizer):
        for token in tokens:
            line.append(token)
            if token == END:
                yield line
                line = []


def _read_tokens(path: Path, tokenizer: str, report: Report | None = None) -> Iterator[list[str]]:
    """All tokens of a text with an `<eos>` for every line, in lists of a convenient size."""
    as_tokenizer(tokenizer)
    blocks = _read_blocks(path, report)
    has_words = False
    for tokens in _raw_tokens(path, blocks) if tokenizer == "words" else _prepared_tokens(blocks):
        has_words = has_words or tokens.count(END) < len(tokens)
        yield tokens
    if not has_words:
        raise CorpusError(f"{path} is empty or has only white space; expected text: give another file")


def _prepared_tokens(blocks: Iterable[tuple[int, str]]) -> Iterator[list[str]]:
    text = ""
    for _, text in blocks:
        yield split_at_ascii_white_space(text.replace("\n", f" {END} "))
    if text and not text.endswith("\n"):
        yield [END]


def _raw_tokens(path: Path, blocks: Iterable[tuple[int, str]]) -> Iterator[list[str]]:
    line_has_words = False
    for first_line, text in blocks:
        _refuse_special_words(path, first_line, text)
        tokens: list[str] = []
        *lines, unfinished = text.split("\n")
        for line in lines:
            words = tokenize(line, "words")
            tokens += words
            if words or line_has_words:
                tokens.append(END)
            line_has_words = False
        words = tokenize(unfinished, "words")
        tokens += words
        line_has_words = line_has_words or bool(words)
        yield tokens
    if line_has_words:
        yield [END]


def _refuse_special_words(path: Path, first_line: int, text: str) -> None:
    if found := _SPECIAL_WORD.search(text):
        line = first_line + text.count("\n", 0, found.start())
        raise CorpusError(
            f"{path}, line {line}: found {found[0]} as a word of raw text; expected no special tokens. If "
            "the text is cut into words already, set corpus.tokenizer to ptb or wikitext; else take it out."
        )


def _read_blocks(path: Path, report: Report | None = None) -> Iterator[tuple[int, str]]:
    """(number of first line, text) of blocks of about a megabyte that end after a space or a line end."""
    size = max(1, stat_text(path).st_size)
    line, done, is_first = 1, 0, True
    held: list[bytes] = []  # what follows the last white space read so far
    with reading(path), path.open("rb") as file:
        while data := file.read(_BLOCK_BYTES):
            cut = max(data.rfind(b"\n"), data.rfind(b" ")) + 1
            if cut:
                text = _decode_block(path, line, b"".join((*held, data[:cut])), is_first)
                held, is_first = [], False
                yield line, text
                line += text.count("\n")
            held.append(data[cut:])
            done += len(data)
            if report:
                report(min(1.0, done / size))
    if rest := b"".join(held):
        yield line, _decode_block(path, line, rest, is_first)


def _decode_block(path: Path, line: int, data: bytes, is_first: bool) -> str:
    if is_first:
        data = data.removeprefix(_BYTE_ORDER_MARK)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line += data.count(b"\n", 0, error.start)
        raise CorpusError(
            f"{path}, line {line}: found bytes that are not UTF-8 ({data[error.start : error.end]!r}); "
            "expected UTF-8: convert the file"
        ) from None


# --- vocabularies -----------------------------------------------------------------------------------------


def build_vocabulary(counts: Mapping[str, int], vocabulary_size: int = 0, minimum_count: int = 1) -> Vocabulary:
    """The words of `select_words`."""
    return Vocabulary(tuple(select_words(counts, vocabulary_size, minimum_count)))


def select_words(counts: Mapping[str, int], vocabulary_size: int = 0, minimum_count: int = 1) -> dict[str, int]:
    """The most frequent words first, ties by the alphabet; `<eos>` and `<unk>` where their counts put them.

    What is cut off counts as `<unk>`. `<eos>` and `<unk>` are always there, `<num>` is never cut off.
    """
    special = {word: counts.get(word, 0) for word in SPECIAL_TOKENS if word != NUMBER or word in counts}
    ordinary = [word for word, count in counts.items() if count >= minimum_count and word not in special]
    if vocabulary_size and len(ordinary) > vocabulary_size - len(special):
        ordinary.sort(key=lambda word: (-counts[word], word))
        del ordinary[vocabulary_size - len(special) :]
    kept = {word: counts[word] for word in ordinary} | special
    kept[UNKNOWN] += sum(counts.values()) - sum(kept.values())
    return {word: kept[word] for word in sorted(kept, key=lambda word: (-kept[word], word))}


def count_words(
    path: Path, tokenizer: str, cache_directory: Path | None = None, progress: Progress | None = None
) -> dict[str, int]:
    """How often each word of a text occurs, `<eos>` included; from the cache where it is there."""
    cache = open_cache(cache_directory)
    file = cache / f"{key(hash_text(path, cache, progress), tokenizer)}.counts.json"
    if (stored := load_json(file)) is not None:
        return stored
    counts: Counter[str] = Counter()
    for tokens in _read_tokens(path, tokenizer, reporter(progress, f"counting {path.name}")):
        counts.update(tokens)
    store_json(file, counts)
    return dict(counts)


def read_vocabulary_with_counts(
    path: Path,
    special_counts: Mapping[str, int] | None = None,
    training_counts: Callable[[], Mapping[str, int]] | None = None,
) -> dict[str, int]:
    """The counts of a vocabulary file: on each line a word and how often the whole training text has it.

    Where the file has no `<eos>` or `<unk>`, their counts are those of `special_counts`. What is not given
    there either is estimated from the training text at hand, which may be a part of the whole one: as many
    for each word of the file as that text has, a word that is not in the file being an `<unk>`.
    """
    counts = _parse_counts(path)
    total = sum(counts.values())
    missing = [word for word in (END, UNKNOWN) if word not in counts]
    counts |= {word: (special_counts or {})[word] for word in missing if word in (special_counts or {})}
    missing = [word for word in missing if word not in counts]
    if missing:
        if training_counts is None:
            raise CorpusError(f"{path} has no count of {' and '.join(missing)}; add it, or set corpus.special_counts")
        counts |= _estimate_special_counts(path, counts, total, missing, training_counts())
    return counts


_LONGEST_COUNT = 18  # digits; Python refuses to read numbers of thousands of them


def _parse_counts(path: Path) -> dict[str, int]:
    counts: dict[str, int] = {}
    text = "".join(text for _, text in _read_blocks(path))
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        match split_at_ascii_white_space(line):
            case [word, count] if count.isdecimal() and len(count) <= _LONGEST_COUNT and word not in counts:
                counts[word] = int(count)
            case found:
                reason = "a word for the second time" if found and found[0] in counts else "no word and count"
                raise CorpusError(
                    f"{path}, line {number}: found {reason} ({line[:80]!r}); expected each word once, a "
                    "space and how often it occurs: correct the line"
                )
    return counts


def _estimate_special_counts(
    path: Path, counts: Mapping[str, int], total: int, missing: Iterable[str], training: Mapping[str, int]
) -> dict[str, int]:
    known = sum(count for word, count in training.items() if word in counts and word not in (END, UNKNOWN))
    if not known:
        raise CorpusError(f"{path} has no word of the training text; expected the vocabulary of the same corpus")
    ends = training.get(END, 0)
    occurrences = {END: ends, UNKNOWN: sum(training.values()) - known - ends}
    return {word: round(occurrences[word] * total / known) for word in missing}


def _vocabulary_counts(
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


# --- ids --------------------------------------------------------------------------------------------------


def encode_split(
    path: Path,
    vocabulary: Vocabulary,
    tokenizer: str,
    *,
    name: str | None = None,
    cache_directory: Path | None = None,
    progress: Progress | None = None,
) -> Split:
    """A text as ids, from the cache where it is there and whole."""
    cache = open_cache(cache_directory)
    file = cache / f"{key(hash_text(path, cache, progress), tokenizer, vocabulary.to_bytes())}.ids"
    if (stored := open_ids(file)) is None:
        tokens = _read_tokens(path, tokenizer, reporter(progress, f"encoding {path.name}"))
        write_ids(file, _encode(tokens, vocabulary), end_id=vocabulary.end_id, unknown_id=vocabulary.unknown_id)
        stored = open_ids(file)
    assert stored is not None, f"{file} was just written"
    return Split(name or path.name, *stored)


def _encode(token_lists: Iterable[list[str]], vocabulary: Vocabulary) -> Iterator[Ids]:
    index, unknown_id = vocabulary.index.get, vocabulary.unknown_id
    for tokens in token_lists:
        yield np.fromiter(map(index, tokens, repeat(unknown_id)), np.int32, len(tokens))


def read_casing(
    path: Path, vocabulary: Vocabulary, cache_directory: Path | None = None, progress: Progress | None = None
) -> dict[str, str]:
    """The usual spelling of words in a raw text; from the cache where it is there."""
    cache = open_cache(cache_directory)
    file = cache / f"{key(hash_text(path, cache, progress), 'words', vocabulary.to_bytes())}.casing.json"
    if (stored := load_json(file)) is not None:
        return stored
    blocks = _read_blocks(path, reporter(progress, f"spelling of {path.name}"))
    casing = collect_casing((line for _, text in blocks for line in text.split("\n")), vocabulary)
    store_json(file, casing)
    return casing
