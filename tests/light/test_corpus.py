"""From text files to ids: splits, lines, vocabularies, and a cache that can be lost or damaged at any time."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from corpora import data_folder
from rheostat.errors import CorpusError, MissingExtraError
from rheostat.text import corpus as corpus_module
from rheostat.text import sources
from rheostat.text.chat import clean_message, split_conversations
from rheostat.text.corpus import CorpusConfig, encode_split, load_corpus, load_split, load_training_split
from rheostat.text.reading import read_tokens
from rheostat.text.sources import find_split, find_splits
from rheostat.text.token_cache import default_cache_directory, store_json, write_ids
from rheostat.text.tokenizers import tokenize
from rheostat.text.vocabulary import END_OF_LINE, NUMBER, SPECIAL_TOKENS, UNKNOWN, Vocabulary
from rheostat.text.word_counts import count_words, read_vocabulary_with_counts, select_words

needs_chat = pytest.mark.skipif(
    importlib.util.find_spec("chitchat_dataset") is None,
    reason="chitchat-dataset is not installed: rheostat[chat]",
)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def write(path: Path, text: str | bytes, age_s: float = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    changed = path.stat().st_mtime - age_s
    os.utime(path, (changed, changed))
    return path


def three_texts(folder: Path, train: str, valid: str = "a b\n", test: str = "b\n", age_s: float = 60) -> Path:
    for name, text in (("train", train), ("valid", valid), ("test", test)):
        write(folder / f"{name}.txt", text, age_s)
    return folder


def read_lines(path: Path, tokenizer: str) -> list[list[str]]:
    """The tokens of each line, without its `<eos>`."""
    lines: list[list[str]] = [[]]
    for token in chain(*read_tokens(path, tokenizer)):
        if token == END_OF_LINE:
            lines.append([])
        else:
            lines[-1].append(token)
    assert lines.pop() == [], "the last line has its <eos> too"
    return lines


def ascii_words(line: str) -> list[str]:
    return [word.decode() for word in line.encode().split()]


def lines_of(path: Path, tokenizer: str) -> list[str]:
    return [" ".join([*line, END_OF_LINE]) for line in read_lines(path, tokenizer)]


# --- finding splits


@pytest.mark.parametrize(
    "names",
    [
        ("train.txt", "valid.txt", "test.txt"),
        ("ptb.train.txt", "ptb.valid.txt", "ptb.test.txt"),
        ("wiki.train.tokens", "wiki.valid.tokens", "wiki.test.tokens"),
        ("wiki.train.raw", "wiki.validation.raw", "wiki.test.raw"),
        ("Train.TXT", "dev.txt", "my-test.text"),
        ("train", "val", "test"),
    ],
)
def test_splits_are_found_under_their_usual_names(tmp_path: Path, names: tuple[str, str, str]) -> None:
    for name in (
        *names,
        "vocabulary-with-counts.txt",
        "README.md",
        "latest.txt",
        "train.json",
        "._train.txt",
    ):
        write(tmp_path / name, "a\n")
    (tmp_path / "test.raw").mkdir()
    found = find_splits(tmp_path)
    assert [found[split].name for split in ("train", "valid", "test")] == list(names)
    assert find_split(tmp_path, "valid") == found["valid"]


def test_three_files_are_train_valid_test(tmp_path: Path) -> None:
    files = [write(tmp_path / name, "a\n") for name in ("x", "y", "z")]
    assert find_splits(files) == dict(zip(("train", "valid", "test"), files, strict=True))
    assert find_split(files, "test") == files[2]


def test_a_sources_is_used_for_one_split(tmp_path: Path) -> None:
    file = write(tmp_path / "letters.txt", "a\n")
    assert find_split(file, "test") == file
    with pytest.raises(CorpusError, match=r"letters.txt is one file; expected a folder with one file each"):
        find_splits(file)


def numbered(lines: int) -> str:
    return "".join(f"line {number}\n" for number in range(lines))


@pytest.mark.parametrize(("lines", "block"), [(20, 1), (999, 4), (30_000, 100)])
def test_one_file_is_divided_into_blocks_of_lines(tmp_path: Path, cache: Path, lines: int, block: int) -> None:
    text = write(tmp_path / "letters.txt", numbered(lines).removesuffix("\n"), age_s=60)
    divided = sources.divide(text, cache)
    assert divided.rule == f"blocks of {block} lines: of every 20, one is for valid and one for test (seed 1)"
    parts = {name: path.read_text().splitlines() for name, path in divided.paths.items()}
    order = [int(line.removeprefix("line ")) for part in parts.values() for line in part]
    assert sorted(order) == list(range(lines)) and order != sorted(order)
    for name, share in (("train", 0.9), ("valid", 0.05), ("test", 0.05)):
        assert len(parts[name]) == pytest.approx(share * lines, abs=block)
        homes = {int(line.removeprefix("line ")) // block for line in parts[name]}
        others = {int(line.removeprefix("line ")) // block for other in parts if other != name for line in parts[other]}
        assert not homes & others  # whole blocks
    same_text = sources.divide(write(tmp_path / "copy.txt", text.read_bytes()), tmp_path / "other-cache")
    assert [path.read_bytes() for path in same_text.paths.values()] == [
        path.read_bytes() for path in divided.paths.values()
    ]


def test_the_division_is_seeded() -> None:
    def first(seed: int) -> list[str]:
        return list(islice(sources.assignments(seed), 200))

    assert first(1) == first(1) != first(2)
    assert [first(1)[start : start + 20].count("test") for start in range(0, 200, 20)] == [1] * 10


def test_a_corpus_of_one_file_says_how_it_was_divided(tmp_path: Path, cache: Path) -> None:
    text = write(tmp_path / "letters.txt", numbered(400), age_s=60)
    corpus = load_corpus(text, CorpusConfig("ptb"), cache_directory=cache)
    summary = corpus.summary()
    assert corpus.name == "letters" and summary["source"] == "letters.txt"
    assert summary["split_rule"].startswith("blocks of 2 lines")
    assert {name: split["tokens"] for name, split in summary["splits"].items()} == {
        "train": 1080,
        "valid": 60,
        "test": 60,
    }
    assert corpus.divided_in is not None
    for name, split in corpus.splits.items():
        learned = load_training_split(text, name, CorpusConfig("ptb"), corpus.vocabulary, cache_directory=cache)
        given = load_split(corpus.divided_in, name, CorpusConfig("ptb"), corpus.vocabulary, cache_directory=cache)
        assert learned.ids.tolist() == split.ids.tolist() == given.ids.tolist()
    whole = load_split(text, "test", CorpusConfig("ptb"), corpus.vocabulary, cache_directory=cache)
    assert whole.tokens == 1200  # evaluated as it is
    folder = three_texts(tmp_path / "text", "a b\n")
    assert "split_rule" not in load_corpus(folder, CorpusConfig("ptb"), cache_directory=cache).summary()


def test_a_file_too_short_to_divide_is_refused(tmp_path: Path, cache: Path) -> None:
    text = write(tmp_path / "letters.txt", numbered(19))
    with pytest.raises(CorpusError, match=r"letters.txt has 19 lines, too few .*; expected at least 20: break it"):
        load_corpus(text, CorpusConfig("ptb"), cache_directory=cache)


def test_a_damaged_division_is_made_again(tmp_path: Path, cache: Path) -> None:
    text = write(tmp_path / "letters.txt", numbered(40), age_s=60)
    divided = sources.divide(text, cache)
    before = divided.paths["valid"].read_bytes()
    for damaged in (b"", before.replace(b"line", b"lone")):
        divided.paths["valid"].write_bytes(damaged)
        assert sources.divide(text, cache) == divided and divided.paths["valid"].read_bytes() == before
    divided.paths["valid"].unlink()
    assert sources.divide(text, cache) == divided and divided.paths["valid"].read_bytes() == before


def test_a_missing_split_names_folder_and_files(tmp_path: Path) -> None:
    write(tmp_path / "train.txt", "a\n")
    write(tmp_path / "notes.txt", "a\n")
    expected = f"{tmp_path} has no texts for the split valid: found notes.txt, train.txt; expected one file each"
    with pytest.raises(CorpusError, match=re.escape(expected)):
        find_splits(tmp_path)
    assert find_split(tmp_path, "train").name == "train.txt"
    with pytest.raises(CorpusError, match=r"no texts for the split test.* Rename the files\.$"):
        find_split(tmp_path, "test")  # a command that needs one split cannot take three files


def test_two_candidates_for_a_split_are_an_error(tmp_path: Path) -> None:
    three_texts(tmp_path, "a\n")
    write(tmp_path / "wiki.valid.tokens", "a\n")
    with pytest.raises(CorpusError, match=r"has 2 texts for the split valid: found valid.txt, wiki.valid.tokens"):
        find_splits(tmp_path)


def test_impossible_sources_are_errors(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="absent does not exist; expected a text file, or a folder with"):
        find_splits(tmp_path / "absent")
    if sys.platform != "win32":
        with pytest.raises(CorpusError, match="null is a device or a pipe; expected a text file"):
            find_split(Path("/dev/null"), "test")
    with pytest.raises(CorpusError, match="got 2 files"):
        find_splits([tmp_path, tmp_path])
    with pytest.raises(CorpusError, match="is not a file"):
        find_splits([tmp_path, tmp_path, tmp_path])
    with pytest.raises(CorpusError, match="'dev' is not known; expected one of train, valid, test"):
        find_split(tmp_path, "dev")


def test_an_impossible_path_is_an_error_with_the_systems_reason(tmp_path: Path) -> None:
    impossible = tmp_path / ("x" * 300)
    for find in (find_splits, lambda source: find_split(source, "test"), lambda source: find_splits([source] * 3)):
        with pytest.raises(CorpusError, match=r"cannot be read \(.*too long\)"):
            find(impossible)


def test_an_unreadable_folder_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", forbidden)  # permissions do not stop root
    with pytest.raises(CorpusError, match=r"cannot be read \(Permission denied\)"):
        find_splits(tmp_path)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="a file that opens and cannot be read is a Linux thing")
def test_an_unreadable_text_is_an_error(cache: Path) -> None:
    with pytest.raises(CorpusError, match="cannot be read"):
        list(read_tokens(Path("/proc/self/mem"), "ptb"))
    with pytest.raises(CorpusError, match="cannot be read"):
        count_words(Path("/proc/self/mem"), "ptb", cache)


# --- reading


@pytest.mark.parametrize("tokenizer", ["ptb", "wikitext", "words"])
@pytest.mark.parametrize("text", ["a b\nc\n", "a b\nc", "\ufeffa b\r\nc\r\n", " a  b \n\tc "])
def test_every_line_ends_with_eos(tmp_path: Path, text: str, tokenizer: str) -> None:
    assert lines_of(write(tmp_path / "text", text), tokenizer) == ["a b <eos>", "c <eos>"]


def test_blank_lines_count_in_prepared_text_only(tmp_path: Path) -> None:
    path = write(tmp_path / "text", "\na\n \n\nb\n")
    assert lines_of(path, "wikitext") == ["<eos>", "a <eos>", "<eos>", "<eos>", "b <eos>"]
    assert lines_of(path, "words") == ["a <eos>", "b <eos>"]


def test_lines_end_at_newlines_only(tmp_path: Path) -> None:
    path = write(tmp_path / "text", "a\u2028b\x1cc\x85d\u00a0e f\n")
    assert lines_of(path, "wikitext") == ["a\u2028b\x1cc\x85d\u00a0e f <eos>"]
    assert lines_of(path, "words") == ["a b c d e f <eos>"]


TEXTS = st.text(st.sampled_from("ab é\u3000\u2028\x1c\n\n  \r'\ufeff")) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="<")
)


@pytest.mark.parametrize("tokenizer", ["wikitext", "words"])
@given(text=TEXTS, block=st.integers(1, 9))
@example(text="aé \nb", block=2)
@example(text="\ufeffa b", block=1)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_blocks_make_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokenizer: str, text: str, block: int
) -> None:
    path = write(tmp_path / "text", text)
    lines = text.removeprefix("\ufeff").split("\n")
    expected = [tokenize(line, "words") if tokenizer == "words" else ascii_words(line) for line in lines]
    if not text.removeprefix("\ufeff").rpartition("\n")[2]:
        expected.pop()
    if tokenizer == "words":
        expected = [line for line in expected if line]
    monkeypatch.setattr("rheostat.text.reading.BLOCK_BYTES", block)
    try:
        found = read_lines(path, tokenizer)
    except CorpusError as error:
        assert "only white space" in str(error) and not any(expected)
    else:
        assert found == expected


@pytest.mark.parametrize("text", ["", "\n", " \n\t\r\n ", "\ufeff"])
@pytest.mark.parametrize("tokenizer", ["ptb", "words"])
def test_an_empty_text_is_an_error(tmp_path: Path, text: str, tokenizer: str) -> None:
    path = write(tmp_path / "empty.txt", text)
    with pytest.raises(CorpusError, match=r"empty.txt is empty or has only white space"):
        list(read_tokens(path, tokenizer))


@pytest.mark.parametrize("tokenizer", ["ptb", "words"])
def test_bytes_that_are_not_utf8_are_an_error_with_file_and_line(tmp_path: Path, tokenizer: str) -> None:
    path = write(tmp_path / "latin.txt", "a\nb\ncafé\n".encode("latin-1"))
    with pytest.raises(CorpusError, match=r"latin.txt, line 3: found bytes that are not UTF-8 \(b'\\xe9'\)"):
        list(read_tokens(path, tokenizer))


@pytest.mark.parametrize("token", SPECIAL_TOKENS)
def test_a_special_token_in_raw_text_is_an_error_with_file_and_line(tmp_path: Path, token: str) -> None:
    path = write(tmp_path / "raw.txt", f"a\n\nb {token} c\n")
    with pytest.raises(CorpusError, match=rf"raw.txt, line 3: found {token} as a word of raw text"):
        list(read_tokens(path, "words"))
    assert lines_of(write(path, f"a{token} <{token}>\n"), "words")  # only a whole word is suspicious
    assert lines_of(write(path, f"a {UNKNOWN} b\n"), "ptb") == [f"a {UNKNOWN} b <eos>"]


def test_a_missing_file_is_a_corpus_error(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="is not a file"):
        list(read_tokens(tmp_path / "absent.txt", "ptb"))


# --- vocabularies


def test_words_are_sorted_by_count_then_alphabet() -> None:
    counts = {"b": 5, "a": 5, "c": 9, END_OF_LINE: 7, UNKNOWN: 5, "z": 1}
    assert tuple(select_words(counts)) == ("c", END_OF_LINE, UNKNOWN, "a", "b", "z")


def test_words_cut_off_count_as_unknown() -> None:
    counts = {"a": 9, "b": 5, "c": 4, "d": 4, END_OF_LINE: 6, NUMBER: 1}
    assert tuple(select_words(counts)) == ("a", END_OF_LINE, "b", "c", "d", NUMBER, UNKNOWN)
    assert tuple(select_words(counts, vocabulary_size=5)) == ("a", UNKNOWN, END_OF_LINE, "b", NUMBER)
    assert tuple(select_words(counts, minimum_count=5)) == ("a", UNKNOWN, END_OF_LINE, "b", NUMBER)


@given(st.dictionaries(st.text("abcdef", min_size=1), st.integers(1, 50)), st.integers(4, 40), st.integers(1, 20))
def test_the_cap_holds_and_nothing_more_frequent_is_cut(counts: dict[str, int], size: int, least: int) -> None:
    kept = tuple(select_words({**counts, END_OF_LINE: 3}, size, least))
    assert len(kept) <= size and {END_OF_LINE, UNKNOWN} <= set(kept)
    rarest = min((counts[word] for word in kept if word in counts), default=0)
    for word in set(counts) - set(kept):
        assert counts[word] < least or (len(kept) == size and counts[word] <= rarest)


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ({"vocabulary_size": 3}, "vocabulary_size is 3"),
        ({"vocabulary_size": -1}, "vocabulary_size is -1"),
        ({"minimum_count": 0}, "minimum_count is 0"),
        ({"conversations": 19}, "conversations is 19"),
        ({"tokenizer": "bpe"}, "'bpe' is not known"),
        ({"special_counts": {"<pad>": 1}}, "<pad> = 1"),
        ({"special_counts": {END_OF_LINE: -1}}, "<eos> = -1"),
    ],
)
def test_impossible_configurations_are_refused(keys: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        CorpusConfig(**keys)  # type: ignore[arg-type]


def test_special_counts_come_from_the_file_then_the_recipe_then_the_text(tmp_path: Path) -> None:
    path = write(tmp_path / "counts.txt", "the 60\na\u00a0b 40\n")
    training = {"the": 6, "a\u00a0b": 4, "rare": 2, UNKNOWN: 1, END_OF_LINE: 5}
    assert read_vocabulary_with_counts(path, {}, lambda: training) == {
        "the": 60,
        "a\u00a0b": 40,
        END_OF_LINE: 50,
        UNKNOWN: 30,
    }
    assert read_vocabulary_with_counts(path, {END_OF_LINE: 7}, lambda: training)[END_OF_LINE] == 7
    assert read_vocabulary_with_counts(path, {END_OF_LINE: 7, UNKNOWN: 8})[UNKNOWN] == 8  # the text is not even read
    write(path, f"the 60\n{END_OF_LINE} 3\n{UNKNOWN} 2\n")
    assert read_vocabulary_with_counts(path, {END_OF_LINE: 7, UNKNOWN: 8}) == {"the": 60, END_OF_LINE: 3, UNKNOWN: 2}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("the 5\nword\n", "line 2: found no word and count"),
        ("the 5\ncat -3\n", "line 2: found no word and count"),
        ("the 5\ncat 1.5\n", "line 2: found no word and count"),
        ("the 5\n\ncat 1\n", "line 2: found no word and count"),
        ("a b 5\n", "line 1: found no word and count"),
        (f"the {'9' * 5000}\n", "line 1: found no word and count"),
        ("the 5\nthe 4\n", "line 2: found a repeated word"),
        ("", "line 1: found no word and count"),
    ],
)
def test_bad_lines_of_a_vocabulary_file_are_errors_with_file_and_line(
    tmp_path: Path, text: str, complaint: str
) -> None:
    path = write(tmp_path / "counts.txt", text)
    with pytest.raises(CorpusError, match=rf"counts.txt, {complaint}"):
        read_vocabulary_with_counts(path, {END_OF_LINE: 1, UNKNOWN: 1})


def test_a_vocabulary_file_of_another_corpus_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "counts.txt", "the 5\n")
    with pytest.raises(CorpusError, match="shares no word with the training text"):
        read_vocabulary_with_counts(path, {}, lambda: {"le": 5, END_OF_LINE: 1})
    with pytest.raises(CorpusError, match="has no count of <eos> and <unk>"):
        read_vocabulary_with_counts(path)


# --- corpora


def test_a_corpus_of_prepared_text(tmp_path: Path, cache: Path) -> None:
    folder = three_texts(tmp_path / "tiny", "b b a <unk>\nb\n", valid="b z\n\n", test="a")
    corpus = load_corpus(folder, CorpusConfig("wikitext"), cache_directory=cache)
    assert corpus.vocabulary.words == ("b", END_OF_LINE, UNKNOWN, "a")
    assert corpus.splits["train"].ids.tolist() == [0, 0, 3, 2, 1, 0, 1]
    assert corpus.splits["valid"].ids.tolist() == [0, 2, 1, 1]
    assert corpus.splits["test"].ids.tolist() == [3, 1]
    assert corpus.casing == {}
    assert json.loads(json.dumps(corpus.summary())) == {
        "name": "tiny",
        "source": "tiny",
        "tokenizer": "wikitext",
        "vocabulary_size": 4,
        "words_with_casing": 0,
        "splits": {
            "train": {"tokens": 7, "words": 5, "unknown_rate": 0.2},
            "valid": {"tokens": 4, "words": 2, "unknown_rate": 0.5},
            "test": {"tokens": 2, "words": 1, "unknown_rate": 0.0},
        },
    }


def test_a_summary_has_the_name_of_its_source_but_not_the_path(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = three_texts(tmp_path / "tiny", "a b\n")
    files = [write(tmp_path / name, "a b\n") for name in ("a.txt", "b.txt", "c.txt")]
    monkeypatch.chdir(folder)
    sources = {folder: "tiny", str(folder): "tiny", Path(): "tiny", tuple(files): "a.txt, b.txt, c.txt"}
    for source, name in sources.items():
        summary = load_corpus(source, CorpusConfig("ptb"), cache_directory=cache).summary()
        assert summary["source"] == name
        assert str(tmp_path) not in json.dumps(summary)


def test_a_corpus_of_raw_text_has_casing(tmp_path: Path, cache: Path) -> None:
    folder = three_texts(tmp_path / "raw", "Yes, I saw 2 in Rome.\n\n" * 3 + "and odd\n")
    config = CorpusConfig(minimum_count=2)
    corpus = load_corpus(str(folder), config, cache_directory=cache)
    assert corpus.vocabulary.words == (
        END_OF_LINE,
        *sorted([",", ".", NUMBER, "i", "in", "rome", "saw", "yes"]),
        UNKNOWN,
    )
    assert corpus.casing == {"i": "I", "rome": "Rome"}
    assert load_corpus(folder, config, cache_directory=cache).casing == corpus.casing


def test_a_model_keeps_its_own_vocabulary(tmp_path: Path, cache: Path) -> None:
    vocabulary = Vocabulary(("b", UNKNOWN, END_OF_LINE))
    folder = three_texts(tmp_path / "text", "a b\n")
    corpus = load_corpus(folder, CorpusConfig("ptb"), vocabulary=vocabulary, cache_directory=cache)
    assert corpus.vocabulary is vocabulary
    assert corpus.splits["train"].ids.tolist() == [1, 0, 2]
    with pytest.raises(CorpusError, match="expected one: leave the file out"):
        load_corpus(folder, CorpusConfig("ptb"), vocabulary=vocabulary, vocabulary_file=folder / "train.txt")


def test_one_split_is_loaded_alone(tmp_path: Path, cache: Path) -> None:
    vocabulary = Vocabulary(("b", UNKNOWN, END_OF_LINE))
    folder = three_texts(tmp_path / "text", "")  # the empty training text is not read
    split = load_split(folder, "valid", CorpusConfig("ptb"), vocabulary, cache_directory=cache)
    assert (split.name, split.ids.tolist(), split.unknown_rate) == ("valid", [1, 0, 2], 0.5)
    single = load_split(folder / "test.txt", "test", CorpusConfig("ptb"), vocabulary, cache_directory=cache)
    assert single.ids.tolist() == [0, 2]


def test_limits_apply_to_a_vocabulary_file_too(tmp_path: Path, cache: Path) -> None:
    folder = three_texts(tmp_path / "text", "a b c\n")
    file = write(tmp_path / "counts.txt", f"a 9\nb 8\nc 7\nd 1\n{END_OF_LINE} 2\n{UNKNOWN} 0\n")
    config = CorpusConfig("ptb", vocabulary_size=4)
    corpus = load_corpus(folder, config, vocabulary_file=file, cache_directory=cache)
    assert corpus.vocabulary.words == ("a", UNKNOWN, "b", END_OF_LINE)


def test_progress_is_reported_as_a_share(tmp_path: Path, cache: Path) -> None:
    told: list[tuple[str, float]] = []
    folder = three_texts(tmp_path / "text", "a b\n" * 5)
    load_corpus(folder, CorpusConfig(), cache_directory=cache, progress=lambda *what: told.append(what))
    assert ("encoding train.txt", 1.0) in told and ("counting train.txt", 1.0) in told
    assert all(0 < fraction <= 1 for _, fraction in told)
    told.clear()
    load_corpus(folder, CorpusConfig(), cache_directory=cache, progress=lambda *what: told.append(what))
    assert told == []  # all of it came from the cache


# --- the cache


def test_ids_are_a_read_only_memory_map(tmp_path: Path, cache: Path) -> None:
    folder = three_texts(tmp_path / "text", "a b\n")
    ids = load_corpus(folder, CorpusConfig("ptb"), cache_directory=cache).splits["train"].ids
    assert isinstance(ids, np.memmap) and ids.dtype == np.int32 and not ids.flags.writeable


def test_a_second_start_reads_only_the_ends_of_texts(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = three_texts(tmp_path / "text", "Yes, I see\n")
    first = load_corpus(folder, CorpusConfig(), cache_directory=cache)
    open_file = Path.open

    def open_ends(path: Path, *arguments: Any, **options: Any) -> Any:
        opened = open_file(path, *arguments, **options)
        if folder in path.parents:  # the ends are a few kilobytes; all of it would be asked for in megabytes
            read = opened.read
            opened = MagicMock(wraps=opened)
            opened.__enter__.return_value = opened
            opened.read = lambda count: read(count) if count <= 4096 else pytest.fail(f"{path} was read again")
        return opened

    monkeypatch.setattr(Path, "open", open_ends)
    second = load_corpus(folder, CorpusConfig(), cache_directory=cache)
    assert second.vocabulary == first.vocabulary and second.summary() == first.summary()
    assert second.splits["train"].ids.tolist() == first.splits["train"].ids.tolist()


@pytest.mark.parametrize("age_s", [0, 60])
def test_changed_text_is_noticed(tmp_path: Path, cache: Path, age_s: float) -> None:
    folder = three_texts(tmp_path / "text", "a b\n", age_s=age_s)
    assert load_corpus(folder, CorpusConfig("ptb"), cache_directory=cache).vocabulary.index["a"] == 1
    before = (folder / "train.txt").stat().st_mtime_ns
    write(folder / "train.txt", "c b\n")
    if age_s == 0:  # same size, and the same time as far as the clock can tell
        os.utime(folder / "train.txt", ns=(before, before))
    assert "a" not in load_corpus(folder, CorpusConfig("ptb"), cache_directory=cache).vocabulary.index


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1],
        lambda data: data + b"\0\0\0\0",
        lambda data: b"",
        lambda data: bytes(len(data)),
    ],
    ids=["half", "a byte less", "four bytes more", "empty", "zeros"],
)
@pytest.mark.parametrize("pattern", ["*.ids", "*.json", "*"])
def test_a_damaged_cache_is_rebuilt(tmp_path: Path, cache: Path, damage: object, pattern: str) -> None:
    assert callable(damage)
    folder = three_texts(tmp_path / "text", "Yes, I see\n" * 9)
    whole = load_corpus(folder, CorpusConfig(), cache_directory=cache)
    expected = {name: split.ids.tolist() for name, split in whole.splits.items()}
    del whole
    for file in cache.glob(pattern):
        file.write_bytes(damage(file.read_bytes()))
    again = load_corpus(folder, CorpusConfig(), cache_directory=cache)
    assert {name: split.ids.tolist() for name, split in again.splits.items()} == expected
    assert again.casing == {"i": "I"}


@pytest.mark.parametrize("pattern", ["*.ids", "*.counts.json", "*.casing.json", "hashes.json"])
def test_a_flipped_bit_in_the_cache_changes_nothing(tmp_path: Path, cache: Path, pattern: str) -> None:
    folder, chance = three_texts(tmp_path / "text", "Yes, I see\nno Paris no\n" * 9), Random(0)

    def load() -> tuple[Any, ...]:
        corpus = load_corpus(folder, CorpusConfig(), cache_directory=cache)
        ids = {name: split.ids.tolist() for name, split in corpus.splits.items()}
        return corpus.vocabulary, corpus.counts, corpus.casing, ids, corpus.summary()

    whole = load()
    for file in cache.glob(pattern):
        content = file.read_bytes()
        for _ in range(30):
            damaged = bytearray(content)
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
            file.write_bytes(damaged)
            assert load() == whole


def test_ids_of_no_word_are_made_again(tmp_path: Path, cache: Path) -> None:
    """A cache that another program wrote, or one of another vocabulary under this name."""
    path = write(tmp_path / "text", "a b\n")
    for wrong in (-1, 4, 2**31 - 1):
        split = encode_split(path, Vocabulary((UNKNOWN, END_OF_LINE, "a", "b")), "ptb", cache_directory=cache)
        assert split.ids.tolist() == [2, 3, 1]
        (file,) = cache.glob("*.ids")
        write_ids(file, [np.array([2, wrong, 1], np.int32)], end_id=1, unknown_id=0)


@pytest.mark.parametrize("how", ["in place", "by renaming"])
def test_a_text_replaced_by_one_of_the_same_size_and_time_is_noticed(tmp_path: Path, cache: Path, how: str) -> None:
    padding = "x\n" * 9000  # so that the beginning and the end stay the same
    folder = three_texts(tmp_path / "text", f"{padding}a b\n{padding}", age_s=60)
    train = folder / "train.txt"
    assert "a" in load_corpus(folder, CorpusConfig("ptb"), cache_directory=cache).vocabulary.index
    before = train.stat()
    new = train if how == "in place" else tmp_path / "new"
    write(new, f"{padding}c b\n{padding}")
    os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
    new.replace(train)
    after = train.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert "a" not in load_corpus(folder, CorpusConfig("ptb"), cache_directory=cache).vocabulary.index


def test_a_text_that_changes_while_it_is_read_is_an_error_and_not_stored(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, vocabulary = write(tmp_path / "text", "a b\n"), Vocabulary((UNKNOWN, END_OF_LINE, "a", "b"))
    read = corpus_module.read_tokens

    def changing(*given: Any) -> Iterator[list[str]]:
        write(path, "b a\n")
        return read(*given)

    monkeypatch.setattr(corpus_module, "read_tokens", changing)
    with pytest.raises(CorpusError, match="was changed while it was read"):
        encode_split(path, vocabulary, "ptb", cache_directory=cache)
    assert not list(cache.glob("*.ids"))


def test_a_corrupt_hash_file_does_no_harm(tmp_path: Path, cache: Path) -> None:
    folder = three_texts(tmp_path / "text", "a b\n")
    cache.mkdir()
    for nonsense in (5, [], [4, 5], [4, 5, 6], "x", None):
        entries = {str((folder / name).resolve()): nonsense for name in ("train.txt", "valid.txt")}
        store_json(cache / "hashes.json", entries)
        assert load_corpus(folder, CorpusConfig("ptb"), cache_directory=cache).splits["train"].tokens == 3


def test_nothing_half_written_stays_behind(tmp_path: Path, cache: Path) -> None:
    vocabulary = Vocabulary((UNKNOWN, END_OF_LINE))
    path = write(tmp_path / "text.txt", b"a\n" * 10 + b"\xff")
    with pytest.raises(CorpusError, match="line 11"):
        encode_split(path, vocabulary, "ptb", cache_directory=cache)
    assert [file for file in cache.iterdir() if file.suffix != ".json"] == []


def test_different_texts_vocabularies_and_tokenizers_do_not_mix(tmp_path: Path, cache: Path) -> None:
    one, two = write(tmp_path / "one", "I don't\n"), write(tmp_path / "two", "don't I\n")
    small, large = Vocabulary((UNKNOWN, END_OF_LINE, "i")), Vocabulary((UNKNOWN, END_OF_LINE, "i", "don't", "I"))
    asked = [(path, words, name) for path in (one, two) for words in (small, large) for name in ("ptb", "words")]
    for _ in range(2):
        found = [encode_split(*what, cache_directory=cache).ids.tolist() for what in asked]
        assert found == [
            [0, 0, 1],
            [2, 0, 1],
            [4, 3, 1],
            [2, 3, 1],
            [0, 0, 1],
            [0, 2, 1],
            [3, 4, 1],
            [3, 2, 1],
        ]


def test_two_processes_at_once_are_fine(tmp_path: Path, cache: Path) -> None:
    folder = three_texts(tmp_path / "text", "a b c d\n" * 20_000)
    program = (
        "import sys; from pathlib import Path; from rheostat.text.corpus import *\n"
        "corpus = load_corpus(Path(sys.argv[1]), CorpusConfig('ptb'), cache_directory=Path(sys.argv[2]))\n"
        "print(corpus.splits['train'].tokens, int(corpus.splits['train'].ids.sum()))"
    )
    command = [sys.executable, "-c", program, str(folder), str(cache)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert outputs[0] == outputs[1] and outputs[0].startswith("100000 ")
    assert not list(cache.glob("*.partial"))


def test_the_cache_folder_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RHEOSTAT_CACHE", str(tmp_path / "elsewhere"))
    assert default_cache_directory() == tmp_path / "elsewhere"
    path = write(tmp_path / "text", "a\n")
    assert count_words(path, "ptb") == {"a": 1, END_OF_LINE: 1}
    assert list((tmp_path / "elsewhere").iterdir())
    monkeypatch.delenv("RHEOSTAT_CACHE")
    assert default_cache_directory().name == "rheostat"


def test_a_cache_that_cannot_be_written_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    path = write(tmp_path / "text", "a\n")
    with pytest.raises(CorpusError, match=r"cannot be written .*set RHEOSTAT_CACHE"):
        count_words(path, "ptb", cache_directory=path / "below-a-file")


# --- real corpora: the figures of their README


@pytest.mark.parametrize(
    ("name", "tokenizer", "vocabulary_size", "tokens", "unknown_percent"),
    [
        ("ptb", "ptb", 10_000, (929_589, 73_760, 82_430), (5.07, 4.95, 6.09)),
        ("wikitext-2", "wikitext", 33_278, (2_088_628, 217_646, 245_569), (2.66, 5.48, 6.31)),
    ],
)
def test_published_figures_of_a_corpus(
    cache: Path,
    name: str,
    tokenizer: str,
    vocabulary_size: int,
    tokens: tuple[int, ...],
    unknown_percent: tuple[float, ...],
) -> None:
    config = CorpusConfig(tokenizer)  # type: ignore[arg-type]
    corpus = load_corpus(data_folder(name), config, cache_directory=cache)
    assert len(corpus.vocabulary) == vocabulary_size
    assert tuple(split.tokens for split in corpus.splits.values()) == tokens
    assert tuple(round(100 * split.unknown_rate, 2) for split in corpus.splits.values()) == unknown_percent


def test_published_figures_of_wikitext_103_with_its_vocabulary_file(cache: Path) -> None:
    folder = data_folder("wikitext-103-part")
    file = folder / "vocabulary-with-counts.txt"
    config = CorpusConfig("wikitext", special_counts={END_OF_LINE: 1_801_350, UNKNOWN: 441_959})
    corpus = load_corpus(folder, config, vocabulary_file=file, cache_directory=cache)
    assert len(corpus.vocabulary) == 267_735
    assert [split.tokens for split in corpus.splits.values()] == [2_088_628, 217_646, 245_569]
    assert [round(100 * corpus.splits[name].unknown_rate, 2) for name in ("valid", "test")] == [0.77, 1.03]
    training = count_words(folder / "wiki.train.tokens", "wikitext", cache)
    estimated = read_vocabulary_with_counts(file, {}, lambda: training)
    assert sum({**estimated, **config.special_counts}.values()) == 103_227_021
    # The part is a fair sample: its counts put <eos> and <unk> in the same places.
    for word, count in config.special_counts.items():
        place = corpus.vocabulary.index[word]
        above, below = (estimated[corpus.vocabulary.words[place + step]] for step in (-1, 1))
        assert above > estimated[word] > below and above > count > below


# --- the chat corpus


def test_the_split_of_conversations_never_changes() -> None:
    conversations = {f"talk {number}": [f"message {number}"] for number in range(200)}
    texts: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    for split, messages in split_conversations(conversations, seed=1):
        texts[split] += messages
    assert [len(texts[split]) for split in ("train", "valid", "test")] == [180, 10, 10]
    assert sorted(chain(*texts.values())) == sorted(chain(*conversations.values()))
    for split, messages in split_conversations(conversations, seed=1, first=60):
        assert set(messages) <= set(texts[split])  # a part of the corpus is a part of each split
    other = [messages for _, messages in split_conversations(conversations, seed=2)]
    assert other != [messages for _, messages in split_conversations(conversations, seed=1)]


def test_messages_nobody_typed_are_left_out() -> None:
    turns = [
        "look http://a.b/c?d here",
        "aww www.x.org",
        "ewwww. ok",
        "lost [?][?]",
        "a <unk> b",
        "long " * 500,
        "  ",
    ]
    cleaned = [clean_message([{"text": turn}, {"text": " and\n more "}]) for turn in turns]
    assert cleaned[:5] == [
        "look here and more",
        "aww and more",
        "ewwww. ok and more",
        "lost and more",
        "a b and more",
    ]
    assert cleaned[5:] == ["", "and more"]


def test_without_the_chat_extra_the_error_names_it(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "chitchat_dataset", None)
    with pytest.raises(MissingExtraError, match=r"rheostat\[chat\]"):
        load_corpus("chat", CorpusConfig(), cache_directory=cache)


def test_chat_is_raw_text(cache: Path) -> None:
    with pytest.raises(CorpusError, match=r"chat is raw text; found corpus\.tokenizer = 'ptb'"):
        load_corpus("chat", CorpusConfig("ptb"), cache_directory=cache)


@pytest.fixture
def small_chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with the name and the form of chitchat-dataset: 40 conversations and an empty one."""
    by = {"sender": "a"}
    turns = [
        [[{"text": "So I say", **by}, {"text": "word\n" * (count + 1), **by}], [{"text": " ", **by}]]
        for count in range(40)
    ]
    talks = {f"talk {number}": {"start": "2018", "messages": turn} for number, turn in enumerate([*turns, []])}
    package = write(tmp_path / "packages" / "chitchat_dataset" / "__init__.py", "")
    write(package.parent / "dataset.json", json.dumps(talks))
    spec = importlib.util.spec_from_file_location("chitchat_dataset", package)
    assert spec is not None
    monkeypatch.setitem(sys.modules, "chitchat_dataset", importlib.util.module_from_spec(spec))


@pytest.mark.usefixtures("small_chat")
def test_a_message_of_the_chat_corpus_is_a_line(cache: Path) -> None:
    corpus = load_corpus("chat", CorpusConfig(), cache_directory=cache)
    assert corpus.vocabulary.words == ("word", END_OF_LINE, "i", "say", "so", UNKNOWN)
    assert corpus.casing == {"i": "I"}
    assert [split.tokens - split.words for split in corpus.splits.values()] == [36, 2, 2]
    assert sum(split.words for split in corpus.splits.values()) == 40 * 3 + sum(range(41))
    assert corpus.summary()["source"] == corpus.name == "chat"


@pytest.mark.usefixtures("small_chat")
def test_the_chat_texts_are_written_once_and_again_if_damaged(cache: Path) -> None:
    config = CorpusConfig(conversations=20)
    corpus = load_corpus("chat", config, cache_directory=cache)
    [folder] = cache.glob("chat-*")
    written = (folder / "train.txt").stat().st_mtime_ns
    test = load_split("chat", "test", config, corpus.vocabulary, cache_directory=cache)
    assert np.array_equal(test.ids, corpus.splits["test"].ids)
    assert (folder / "train.txt").stat().st_mtime_ns == written
    for damaged in (b"cut sho", (folder / "test.txt").read_bytes().replace(b"say", b"yes")):
        write(folder / "test.txt", damaged)
        again = load_split("chat", "test", config, corpus.vocabulary, cache_directory=cache)
        assert np.array_equal(again.ids, corpus.splits["test"].ids)


@needs_chat
def test_the_real_chat_corpus(cache: Path) -> None:
    corpus = load_corpus("chat", CorpusConfig(vocabulary_size=2000, conversations=400), cache_directory=cache)
    assert len(corpus.vocabulary) == 2000
    assert corpus.casing["i"] == "I" and corpus.casing["i'm"] == "I'm"
    train, valid, test = (split.tokens for split in corpus.splits.values())
    assert train > 5 * (valid + test) > 0
    assert 0 < corpus.splits["test"].unknown_rate < 0.2
