"""Counting the words of a training text, and choosing a vocabulary by their counts.

Knows words and how often they occur; knows nothing of ids or splits. All distinct words of a text are in memory while
it is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from rheostat.errors import CorpusError
from rheostat.text.reading import read_blocks, read_tokens
from rheostat.text.token_cache import Progress, hash_text, key, load_json, open_cache, reporter, store_json
from rheostat.text.tokenizers import split_at_ascii_white_space
from rheostat.text.vocabulary import END_OF_LINE, NUMBER, SPECIAL_TOKENS, UNKNOWN


def select_words(counts: Mapping[str, int], vocabulary_size: int = 0, minimum_count: int = 1) -> dict[str, int]:
    """The words to keep, most frequent first, ties in alphabetical order; `<eos>` and `<unk>` are sorted by count too.

    Dropped words count as `<unk>`. `<eos>` and `<unk>` are always kept, and so is `<num>` if it occurs.
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
    """How often each word of a text occurs, including `<eos>`; read from the cache if possible."""
    cache = open_cache(cache_directory)
    file = cache / f"{key(hash_text(path, cache, progress), tokenizer)}.counts.json"
    if (stored := load_json(file)) is not None:
        return stored
    counts: Counter[str] = Counter()
    for tokens in read_tokens(path, tokenizer, reporter(progress, f"counting {path.name}")):
        counts.update(tokens)
    store_json(file, counts)
    return dict(counts)


def read_vocabulary_with_counts(
    path: Path,
    special_counts: Mapping[str, int] | None = None,
    training_counts: Callable[[], Mapping[str, int]] | None = None,
) -> dict[str, int]:
    """The counts in a vocabulary file: each line has a word and how often it occurs in the whole training text.

    If the file lacks `<eos>` or `<unk>`, their counts are taken from `special_counts`. If they are missing there too,
    they are estimated from the training text at hand, which can be only a part of the whole: in proportion to the words
    in the file, with every other word counted as `<unk>`.
    """
    counts = _parse_counts(path)
    total = sum(counts.values())
    missing = [word for word in (END_OF_LINE, UNKNOWN) if word not in counts]
    counts |= {word: (special_counts or {})[word] for word in missing if word in (special_counts or {})}
    missing = [word for word in missing if word not in counts]
    if missing:
        if training_counts is None:
            raise CorpusError(f"{path} has no count of {' and '.join(missing)}; add it, or set corpus.special_counts")
        counts |= _estimate_special_counts(path, counts, total, missing, training_counts())
    return counts


_LONGEST_COUNT = 18  # digits; Python refuses to parse numbers with thousands of digits


def _parse_counts(path: Path) -> dict[str, int]:
    counts: dict[str, int] = {}
    text = "".join(text for _, text in read_blocks(path))
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        match split_at_ascii_white_space(line):
            case [word, count] if count.isdecimal() and len(count) <= _LONGEST_COUNT and word not in counts:
                counts[word] = int(count)
            case found:
                reason = "a repeated word" if found and found[0] in counts else "no word and count"
                raise CorpusError(
                    f"{path}, line {number}: found {reason} ({line[:80]!r}); expected each word once, followed by a "
                    "space and its count: correct the line"
                )
    return counts


def _estimate_special_counts(
    path: Path, counts: Mapping[str, int], total: int, missing: Iterable[str], training: Mapping[str, int]
) -> dict[str, int]:
    known = sum(count for word, count in training.items() if word in counts and word not in (END_OF_LINE, UNKNOWN))
    if not known:
        raise CorpusError(f"{path} shares no word with the training text; expected the vocabulary of the same corpus")
    ends = training.get(END_OF_LINE, 0)
    occurrences = {END_OF_LINE: ends, UNKNOWN: sum(training.values()) - known - ends}
    return {word: round(occurrences[word] * total / known) for word in missing}
