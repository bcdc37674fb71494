"""Words that the user taught, and their file."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheostat.errors import RheostatError
from rheostat.words.memory import Memory
from rheostat.words.user_words import DOUBLING_SECONDS, FORMAT, LONGEST_WORD, UserWord, UserWords, UserWordsError
from rheostat.words.writing import matching_form

needs_posix = pytest.mark.skipif(os.name != "posix", reason="Windows has other permissions")


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "words.json"


def spelled(words: list[UserWord]) -> list[str]:
    return [word.word for word in words]


def content_of(*entries: Any, **changes: Any) -> bytes:
    return json.dumps({"format": FORMAT, "format_version": 1, "words": list(entries)} | changes).encode()


# --- learning and suggesting


def test_a_learned_word_is_suggested_at_once_as_it_was_spelled() -> None:
    words = UserWords()
    words.learn("Rheostat")
    assert spelled(words.with_prefix("rh")) == spelled(words.with_prefix("RHEO")) == ["Rheostat"]
    assert words.with_prefix("x") == []
    assert "Rheostat" in words
    assert "rheostat" not in words


def test_apostrophes_of_all_kinds_match() -> None:
    words = UserWords()
    words.learn("O’Brien")
    assert spelled(words.with_prefix("o'b")) == ["O’Brien"]


def test_learning_again_counts() -> None:
    words = UserWords(clock=Clock())
    words.learn("hi")
    assert words.learn("hi") == UserWord("hi", 2, 1_000_002.0)
    assert len(words) == 1


def test_recent_and_often_used_words_come_first() -> None:
    clock = Clock()
    words = UserWords(clock=clock)
    words.learn("wold")
    for _ in range(7):
        words.learn("woften")
    words.learn("wnew")
    assert spelled(words.with_prefix("w")) == ["woften", "wnew", "wold"]
    assert spelled(words.with_prefix("w", limit=1)) == ["woften"]
    assert spelled(words.with_prefix("")) == spelled(words.words()) == ["woften", "wnew", "wold"]
    clock.now += 4 * DOUBLING_SECONDS
    words.learn("wlater")
    assert spelled(words.with_prefix("w"))[0] == "wlater"


def test_a_forgotten_word_is_gone(path: Path) -> None:
    words = UserWords(path)
    words.learn("secret")
    assert words.forget("secret")
    assert not words.forget("secret")
    assert words.with_prefix("s") == []
    assert "secret" not in path.read_text(encoding="utf-8")


@given(
    st.lists(st.text(st.sampled_from("abAB'’"), min_size=1, max_size=3)), st.text(st.sampled_from("abA’"), max_size=2)
)
def test_prefixes_find_the_same_words_as_a_full_search(learned: list[str], prefix: str) -> None:
    words = UserWords(clock=Clock())
    for word in learned:
        words.learn(word)
    form = matching_form(prefix)
    expected = [word for word in words.words() if matching_form(word.word).startswith(form)]
    assert words.with_prefix(prefix, limit=100) == expected
    assert set(spelled(words.words())) == set(learned)


def test_beyond_the_limit_the_least_recently_used_words_are_dropped(path: Path) -> None:
    words = UserWords(path, limit=3, clock=Clock())
    for word in ("a", "b", "c", "a", "d"):
        words.learn(word)
    assert set(spelled(words.words())) == {"a", "c", "d"}
    assert set(spelled(UserWords(path).words())) == {"a", "c", "d"}


def test_a_new_word_is_kept_even_if_the_clock_was_set_back() -> None:
    clock = Clock()
    words = UserWords(limit=2, clock=clock)
    words.learn("a")
    words.learn("b")
    clock.now = 0
    assert words.learn("c").word == "c"
    assert set(spelled(words.words())) == {"b", "c"}


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        ("", "empty"),
        ("two words", "white space"),
        ("tab\t", "white space"),
        ("non\u00a0breaking", "white space"),
        ("line\n", "white space"),
        ("bell\x07", "control character"),
        ("half\ud800", "control character"),
        ("\u202edesrever", "control character"),
        ("x" * (LONGEST_WORD + 1), "characters; expected at most"),
    ],
)
def test_text_that_is_not_a_word_is_refused(path: Path, word: str, complaint: str) -> None:
    words = UserWords(path)
    with pytest.raises(UserWordsError, match=complaint) as refused:
        words.learn(word)
    assert isinstance(refused.value, RheostatError)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 200
    assert not path.exists()


@pytest.mark.parametrize(
    "word", ["naïve", "Zoë", "مرحبا", "می\u200cخواهم", "👩\u200d👧", "C++", "don't", "x" * LONGEST_WORD]
)
def test_words_of_all_scripts_survive_storing(path: Path, word: str) -> None:
    UserWords(path).learn(word)
    assert spelled(UserWords(path).words()) == [word]


# --- the file


def test_words_survive_a_restart(path: Path) -> None:
    words = UserWords(path, clock=Clock())
    words.learn("Rheostat")
    words.learn("Zoë")
    assert UserWords(path).words() == words.words()
    assert json.loads(path.read_bytes()) == json.loads(words.to_json())


def test_no_file_is_written_before_there_is_a_word(path: Path) -> None:
    assert UserWords(path).words() == []
    assert not UserWords(path).forget("x")
    assert not path.exists()


@needs_posix
def test_only_the_owner_can_read_the_file(path: Path) -> None:
    UserWords(path).learn("secret")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    UserWords(path).learn("again")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    UserWords(path).export(path.with_name("export.json"))
    assert stat.S_IMODE(path.with_name("export.json").stat().st_mode) == 0o600


def test_a_folder_is_not_a_file_of_words(tmp_path: Path) -> None:
    for kind, message in ((UserWords, r"found a folder, .*; name a file"), (Memory, r"is a folder, .*: name a file")):
        with pytest.raises(UserWordsError, match=message) as caught:
            kind(tmp_path)
        assert "permission" not in str(caught.value)


def test_folders_are_created_when_the_first_word_is_stored(tmp_path: Path) -> None:
    words = UserWords(tmp_path / "a" / "b" / "words.json")
    assert not (tmp_path / "a").exists()
    words.learn("x")
    assert spelled(UserWords(tmp_path / "a" / "b" / "words.json").words()) == ["x"]


@needs_posix
def test_a_link_to_the_file_stays_a_link(path: Path) -> None:
    link = path.with_name("link.json")
    link.symlink_to(path)
    UserWords(link).learn("x")
    assert link.is_symlink()
    assert spelled(UserWords(path).words()) == ["x"]


GOOD = {"word": "a", "count": 1, "last_used": 5}


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "not JSON"),
        (content_of(GOOD)[:-9], "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a file of words"),
        (content_of(format="other"), "not a file of words"),
        (content_of(format_version=2), "format version 2; expected 1; update"),
        (content_of(format_version=True), "format version True"),
        (content_of(words={}), 'no list "words"'),
        (content_of("a"), "as entry 1"),
        (content_of(GOOD, GOOD), "2 entries for 1 words"),
        (content_of(GOOD, GOOD | {"word": "b c"}), "entry 2: found white space"),
        (content_of(GOOD | {"count": 0}), "as entry 1"),
        (content_of(GOOD | {"count": True}), "as entry 1"),
        (content_of(GOOD | {"count": 1.5}), "as entry 1"),
        (content_of(GOOD | {"count": 10**400}), "as entry 1"),
        (content_of(GOOD | {"last_used": float("nan")}), "as entry 1"),
        (content_of(GOOD | {"last_used": None}), "as entry 1"),
    ],
    ids=range(18),
)
def test_a_damaged_file_is_an_error_and_never_overwritten(path: Path, data: bytes, complaint: str) -> None:
    words = UserWords(path)
    path.write_bytes(data)
    for attempt in (lambda: UserWords(path), lambda: words.learn("new"), words.clear, words.load):
        with pytest.raises(UserWordsError, match=complaint) as found:
            attempt()
        assert str(path) in str(found.value)
        assert "\n" not in str(found.value)
    assert path.read_bytes() == data


def test_an_unusable_path_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(UserWordsError, match=f"{re.escape(str(tmp_path))}: found a folder"):
        UserWords(tmp_path)
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(UserWordsError, match="file"):
        UserWords(tmp_path / "file" / "words.json").learn("x")


def test_a_write_that_fails_leaves_the_old_words(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = UserWords(path)
    words.learn("old")

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full_disk)
        with pytest.raises(UserWordsError, match="No space left"):
            words.learn("new")
    assert spelled(words.words()) == spelled(UserWords(path).words()) == ["old"]
    assert [found.name for found in path.parent.iterdir() if found.name.endswith(".partial")] == []


def test_leftovers_of_a_crash_do_no_harm(path: Path) -> None:
    UserWords(path).learn("old")
    path.with_name(f".{path.name}.partial").write_bytes(b'{"format": "rheo')
    words = UserWords(path)
    words.learn("new")
    assert set(spelled(UserWords(path).words())) == {"old", "new"}
    assert not path.with_name(f".{path.name}.partial").exists()


# --- several at once


def test_two_users_of_a_file_keep_each_others_words(path: Path) -> None:
    first, second = UserWords(path), UserWords(path)
    first.learn("one")
    second.learn("two")
    assert set(spelled(second.words())) == {"one", "two"}
    first.load()
    assert set(spelled(first.words())) == {"one", "two"}


def test_a_word_that_one_forgets_is_not_brought_back_by_another(path: Path) -> None:
    first, second = UserWords(path), UserWords(path)
    first.learn("secret")
    second.load()
    first.forget("secret")
    second.learn("other")
    assert spelled(second.words()) == spelled(UserWords(path).words()) == ["other"]


def test_threads_lose_no_word(path: Path) -> None:
    words = UserWords(path)
    threads = [threading.Thread(target=words.learn, args=(f"word{number}",)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(words) == len(UserWords(path)) == 20


def test_processes_lose_no_word(path: Path) -> None:
    script = """
import sys
from rheostat.words.user_words import UserWords
words = UserWords(sys.argv[1])
for number in range(15):
    words.learn(f"{sys.argv[2]}{number}")
"""
    command = [sys.executable, "-c", script, str(path)]
    processes = [subprocess.Popen([*command, name]) for name in ("a", "b", "c")]
    assert [process.wait(timeout=60) for process in processes] == [0, 0, 0]
    assert len(UserWords(path)) == 45


# --- export and merge


def test_exported_words_can_be_merged_again_and_again(path: Path) -> None:
    clock = Clock()
    words = UserWords(path, clock=clock)
    words.learn("one")
    words.learn("two")
    copy = path.with_name("export.json")
    words.export(copy)
    other = UserWords(clock=clock)
    for _ in range(3):
        other.learn("two")
    assert other.merge(copy) == 1
    assert other.merge(copy) == 0
    assert {word.word: word.count for word in other.words()} == {"one": 1, "two": 3}
    with pytest.raises(UserWordsError, match="no such file"):
        other.merge(path.with_name("missing.json"))


def test_clearing_forgets_all(path: Path) -> None:
    words = UserWords(path)
    words.learn("one")
    words.clear()
    assert words.words() == UserWords(path).words() == []
