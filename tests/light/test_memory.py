"""A user's memory: what is counted, what is forgotten, what is learned, and a file that survives anything."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rheostat
from rheostat.errors import UserWordsError
from rheostat.runtime.remembering import LEARN_AGAIN_AT, LEARN_AT, MOST_CORRECTED, Corrections, Watch
from rheostat.words import memory as words_memory
from rheostat.words.memory import FLUSH_WORDS, MOST_DOUBTFUL, Memory
from rheostat.words.writing import Suggestion


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def test_phrases_up_to_three_words_are_counted() -> None:
    memory = Memory()
    memory.learn(["see", "you", "soon"], before=["<eos>"])
    found = dict(memory.phrases())
    assert found["soon"] == found["you soon"] == found["see you soon"] == found["<eos> see"] == 1.0
    assert "<eos>" not in found and all(len(phrase.split()) <= 3 for phrase in found)


def test_the_shares_of_all_words_add_up_to_one() -> None:
    memory = Memory()
    memory.learn(list("abcabdabc"))
    for before in (["a", "b"], ["b"], [], ["z", "a"]):
        share = memory.share(before)
        assert share.of_model + sum(share.extra.values()) == pytest.approx(1.0)
    assert memory.share(["a", "b"]).extra["c"] > memory.share(["a", "b"]).extra["d"]
    assert Memory().share(["a"]).of_model == 1.0


@given(words=st.lists(st.sampled_from("abcd"), max_size=12), cut=st.integers(0, 12))
@settings(max_examples=50)
def test_what_is_taken_back_was_never_there(words: list[str], cut: int) -> None:
    memory, expected = Memory(), Memory()
    memory.learn(words)
    memory.unlearn(words[cut:], words[:cut])
    expected.learn(words[:cut])
    assert memory.phrases() == expected.phrases()
    for before in ([], ["a"], ["a", "b"]):
        assert memory.share(before).extra == pytest.approx(expected.share(before).extra)


def test_counts_decay_and_the_last_hour_can_be_forgotten(tmp_path: Path) -> None:
    clock = Clock()
    memory = Memory(tmp_path / "m.json", clock=clock)
    memory.learn(["old"])
    clock.now += 2 * 3600
    memory.learn(["new"])
    assert memory.forget_last_hour() == 1
    assert [phrase for phrase, _ in memory.phrases()] == ["old"]
    clock.now += 60 * 24 * 3600
    assert memory.count("old") == pytest.approx(0.5, rel=0.01)
    assert memory.share([]).counts == pytest.approx([0.5], rel=0.01)
    clock.now += 600 * 24 * 3600
    memory.flush()
    memory.learn(["now"])
    memory.flush()
    assert memory.count("old") == 0.0


def test_a_word_is_forgotten_with_every_phrase_that_has_it(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "m.json")
    memory.learn(["see", "you", "soon"])
    memory.flush()
    assert memory.forget("you") == 4
    assert "you" not in (tmp_path / "m.json").read_text()
    memory.clear()
    assert not len(Memory(tmp_path / "m.json"))


@pytest.mark.parametrize(("learned", "named"), [("don't", "Don’t"), ("café", "cafe\u0301"), ("cafe\u0301", "CAFÉ")])
def test_a_word_is_forgotten_in_any_spelling(learned: str, named: str) -> None:
    memory = Memory()
    memory.learn(["i", learned, "know"])
    assert memory.forget(named) == 4 and learned not in str(memory.phrases())


def test_the_file_is_private_bounded_and_holds_only_counts(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    memory = Memory(path, limit_bytes=5000)
    memory.learn([f"word{number}" for number in range(500)])
    memory.learn(["often"] * 5)
    memory.flush()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_size <= 5000 and memory.count("often") == 5.0
    assert set(json.loads(path.read_text())["phrases"][0]) == {"words", "count", "time", "recent"}
    memory.export(tmp_path / "copy.json")
    assert Memory(tmp_path / "copy.json").phrases() == memory.phrases()
    assert stat.S_IMODE((tmp_path / "copy.json").stat().st_mode) == 0o600


def _learn_often(path: str, word: str, times: int) -> None:
    memory = Memory(path)
    for _ in range(times):
        memory.learn([word])
        memory.flush()


def test_two_processes_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    path = str(tmp_path / "m.json")
    writers = [context.Process(target=_learn_often, args=(path, word, 30)) for word in ("one", "two")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    memory = Memory(path)
    assert memory.count("one") == memory.count("two") == 30.0


def test_what_another_process_has_not_written_is_forgotten_with_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    typing, other = Memory(path), Memory(path)
    typing.learn(["my", "secret"])
    other.clear()
    typing.close()
    assert typing.count("secret") == 0 and not Memory(path).phrases()
    typing.learn(["see", "you"])
    typing.close()
    assert Memory(path).count("see", "you") == 1, "what is learned later is kept"


@pytest.mark.parametrize("act", ["clear", "forget_last_hour", "forget"])
def test_what_another_process_forgets_is_soon_no_longer_suggested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    monkeypatch.setattr(words_memory, "LOOK_SECONDS", 0.0)
    path = tmp_path / "m.json"
    typing = Memory(path)
    typing.learn(["my", "secret"])
    typing.flush()
    typing.learn(["not", "written"])
    getattr(Memory(path), act)(*(["secret"] if act == "forget" else []))
    for _ in range(200):
        if "secret" not in typing.share(["my"]).single:
            break
        time.sleep(0.02)
    assert "secret" not in typing.share(["my"]).single
    assert typing.count("written") == 0, "it may have been what was to be forgotten"


def test_what_another_process_learns_is_read_and_nothing_of_ones_own_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words_memory, "LOOK_SECONDS", 0.0)
    path = tmp_path / "m.json"
    typing, other = Memory(path), Memory(path)
    typing.learn(["own"])
    other.learn(["theirs"])
    other.close()
    for _ in range(200):
        if "theirs" in typing.share([]).single:
            break
        time.sleep(0.02)
    assert typing.count("own") == typing.count("theirs") == 1
    assert Memory(path).count("own") == 0, "looking at a file does not write it"
    typing.close()
    assert Memory(path).count("own") == Memory(path).count("theirs") == 1


def test_forgetting_one_word_keeps_what_was_learned_here_and_not_written_yet(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "m.json")
    memory.learn(["see", "you", "secret"])
    memory.forget("secret")
    assert memory.count("see", "you") == Memory(memory.path).count("see", "you") == 1
    assert memory.count("secret") == 0


def test_a_kill_leaves_a_whole_file(tmp_path: Path) -> None:
    path, context = tmp_path / "m.json", multiprocessing.get_context("spawn")
    writer = context.Process(target=_learn_often, args=(str(path), "word", 10**6))
    writer.start()
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(writer.pid or 0, signal.SIGKILL)
    writer.join()
    assert Memory(path).count("word") >= 1.0


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"format": "rheostat-memory"}',
        '{"format": "rheostat-memory", "format_version": 2, "phrases": []}',
        '{"format": "rheostat-memory", "format_version": 1, "phrases": [{"words": "a b c d", "count": 1, "time": 1}]}',
        '{"format": "rheostat-memory", "format_version": 1, "phrases": '
        '[{"words": "a", "count": NaN, "time": 1, "recent": []}]}',
    ],
)
def test_a_broken_file_is_an_error_and_is_not_changed(tmp_path: Path, content: str) -> None:
    path = tmp_path / "m.json"
    path.write_text(content)
    with pytest.raises(UserWordsError, match=r"expected"):
        Memory(path)
    assert path.read_text() == content


# --- what was meant ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model() -> rheostat.Predictor:
    return rheostat.load()


def watched(model: rheostat.Predictor) -> tuple[rheostat.Predictor, Any]:
    predictor = rheostat.load(memory=Memory())
    return predictor, predictor.memory


def write(watch: Watch, text: str, after: str = "") -> None:
    """Type a text letter by letter."""
    for end in range(1, len(text) + 1):
        watch.see(after + text[:end])


def test_a_word_is_learned_once_two_more_follow_it(model: rheostat.Predictor) -> None:
    predictor, memory = watched(model)
    watch = predictor.watch()
    for text in ("I", "I like", "I like pasta", "I like pasta "):
        watch.see(text)
        assert not memory.count("like")
    watch.see("I like pasta very")
    assert memory.count("i", "like") == 1.0 and not memory.count("pasta")
    watch.end("I like pasta very much.")
    assert memory.count("like", "pasta", "very") == memory.count("much") == 1.0


def test_an_accepted_suggestion_is_learned_at_once_and_a_deleted_word_is_taken_back(model: rheostat.Predictor) -> None:
    predictor, memory = watched(model)
    watch = predictor.watch()
    watch.see("Hello ", accepted=True)
    assert memory.count("hello") == 1.0
    watch.see("")
    assert memory.count("hello") == 0.0 and not memory.phrases()


def test_an_accepted_suggestion_does_not_wait_for_the_words_before_it(model: rheostat.Predictor) -> None:
    predictor, memory = watched(model)
    watch = predictor.watch()
    write(watch, "see you at the ")
    watch.see("see you at the allotment ", accepted=True)
    assert memory.count("allotment") == 1.0 and not memory.count("the", "allotment"), "the word before is not settled"
    watch.see("see you at the allotment t")
    assert memory.count("at", "the", "allotment") == memory.count("allotment") == 1.0
    watch.see("see you at the ")
    assert memory.count("allotment") == 0.0 and memory.count("see", "you") == 1.0
    watch.see("")
    assert not memory.phrases()


def test_a_phrase_is_counted_once_whatever_is_changed_before_it(model: rheostat.Predictor) -> None:
    predictor, memory = watched(model)
    watch = predictor.watch()
    write(watch, "see you at the allotment tonight my friend ")
    watch.see("see you in the allotment tonight my friend ")
    assert memory.count("in", "the", "allotment") == memory.count("allotment") == 1.0
    assert not memory.count("at") and not memory.count("at", "the")
    written = memory.phrases()
    watch.see("")  # the cursor goes to the start, and back to the end
    watch.see("see you in the allotment tonight my friend ")
    assert memory.phrases() == written


def test_pasted_text_is_not_learned_and_what_is_written_around_it_is(model: rheostat.Predictor) -> None:
    predictor, memory = watched(model)
    watch = predictor.watch()
    write(watch, "she wrote this to me: ")
    pasted = "she wrote this to me: the winter was long and cold "
    watch.see(pasted)
    write(watch, "and I like it", after=pasted)
    watch.end(pasted + "and I like it")
    words = {phrase for phrase, _ in memory.phrases() if " " not in phrase}
    assert words == {"she", "wrote", "this", "to", "me", "and", "i", "like", "it"}
    assert memory.count("and", "i") == 1.0 and not memory.count("me", "and"), "no phrase reaches over it"
    predictor.watch().end("the winter was long")
    assert memory.count("winter") == 1.0, "an app may show only what was sent"


def test_a_corrected_word_is_not_learned(model: rheostat.Predictor) -> None:
    predictor, memory = watched(model)
    watch = predictor.watch()
    write(watch, "what are you dping today my")
    watch.end("what are you doing today my friend")
    assert memory.count("dping") == 0.0 and memory.count("doing") == 1.0
    watch.end("what are you dping today my friend")
    assert memory.count("dping") == 0.0, "it looks like a mistake, even if it was sent"


def test_no_phrase_holds_a_word_that_was_not_learned(model: rheostat.Predictor) -> None:
    predictor, memory = watched(model)
    watch = predictor.watch()
    write(watch, "what are you dping today my friend")
    phrases = [phrase for phrase, _ in memory.phrases()]
    assert "today" in phrases and not any("dping" in phrase or "you today" in phrase for phrase in phrases)
    assert "<eos> today" not in phrases, "the text does not begin behind a slip"
    watch.see("what are you doing today my friend")
    assert memory.count("you", "doing", "today") == memory.count("today") == 1.0, "what followed is counted once"
    watch.see("")
    assert not memory.phrases()


def test_nothing_is_learned_in_a_private_field_or_without_a_memory(model: rheostat.Predictor) -> None:
    predictor, memory = watched(model)
    watch = predictor.watch(private=True)
    watch.see("my secret is here", accepted=True)
    watch.end("my secret is here")
    assert not memory.phrases()
    model.watch().end("nothing is kept")
    assert model.memory is None


def test_what_was_written_is_suggested_with_and_without_a_prefix(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    with rheostat.load(memory=path) as predictor:
        for _ in range(3):
            predictor.watch().end("my dog Zorblax loves pasta")
        assert predictor.complete("Zorblax loves ")[0].word == "pasta"
        assert predictor.complete("my dog Zor")[0].word == "zorblax"
        assert predictor.complete("Zorblax loves psa")[0].word == "pasta"
    with rheostat.load(memory=path) as again:
        assert again.complete("zorblax loves ")[0].word == "pasta"
        assert again.memory is not None and again.memory.count("zorblax") == pytest.approx(3.0)
        again.memory.clear()
        assert [s.word for s in again.complete("I like ")] == [s.word for s in rheostat.load().complete("I like ")]


def test_answers_while_learning_are_those_of_a_memory_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "copy.json"
    memory = Memory(tmp_path / "m.json", clock=Clock())
    with rheostat.load("chat", threads=1, memory=memory) as predictor:
        for word in ("see", "you", "at", "the", "allotment", "at", "the", "allotment", "see", "you"):
            memory.learn([word], before=["the"])
            found = predictor.complete("see you at the ", 5), predictor.complete("at the all", 5)
            memory.export(path)
            with rheostat.load("chat", threads=1, memory=Memory(path, clock=Clock())) as other:
                assert found == (other.complete("see you at the ", 5), other.complete("at the all", 5))


def test_a_doubtful_word_is_learned_when_it_is_written_again() -> None:
    memory = Memory()
    sure = {"gave": (LEARN_AT + LEARN_AGAIN_AT) / 2, "its": 0.95, "yq": 0.5}
    for _ in range(2):
        watch = Watch(
            memory, "words", lambda text: sure.get(text.split()[-1], 1.0), lambda word: word != "zorblax", private=False
        )
        watch.end("I gave it zorblax its yq")
    assert (memory.count("gave"), memory.count("it"), memory.count("zorblax")) == (1.0, 2.0, 1.0)
    assert memory.count("its") == memory.count("yq") == 0.0
    assert memory.count("i", "gave", "it") == 1.0
    memory.clear()
    assert not memory.was_seen(["gave"]) and memory.was_seen(["gave"])
    for number in range(MOST_DOUBTFUL):
        memory.was_seen([f"word{number}"])
    assert not memory.was_seen(["gave"])  # long ago


def test_a_word_that_the_keyboard_put_there_is_as_sure_as_its_correction() -> None:
    """Nobody typed it; if the correction is wrong and nobody notices, it is not learned as if it had been typed."""
    memory = Memory()
    with rheostat.load(memory=memory, threads=1) as predictor:
        best = predictor.correct("what are you dping")[0]
        assert best.word == "doing" and LEARN_AT > best.confidence >= 0.8
        predictor.watch().end("what are you doing")
        assert memory.count("you") == 1 and memory.count("doing") == 0
        predictor.watch().end("i saw what she was doing")
        assert memory.count("doing") == 1, "typed elsewhere, it is learned"


def test_both_words_of_a_correction_were_corrected() -> None:
    corrections = Corrections()
    corrections.note("i went tothe", Suggestion("to the", 0.5, "model", 5, "correction", 0.9, True))
    assert corrections.limit("we went to", 1.0) == 1.0, "after other words"
    assert corrections.limit("i went to", 1.0) == corrections.limit("i went to the", 1.0) == 0.9
    assert corrections.limit("i went", 1.0) == 1.0
    for number in range(2 * MOST_CORRECTED):
        corrections.note(f"{number} tothe", Suggestion("to", 0.5, "model", 5, "correction", 0.9, True))
    assert corrections.limit("i went to the", 1.0) == 1.0, "the oldest are dropped"


def test_a_contraction_without_its_last_letter_is_not_learned(model: rheostat.Predictor) -> None:
    predictor, memory = watched(model)
    predictor.watch().end('she said it\' and "that is it"')
    assert memory.count("it") == memory.count("is") == 1.0


def test_a_word_that_is_not_known_to_be_correct_is_learned_when_it_is_written_again(model: rheostat.Predictor) -> None:
    predictor, memory = watched(model)
    for count in (0.0, 1.0):
        predictor.watch().end("I want a zorblaxian/dog")
        assert memory.count("zorblaxian") == memory.count("dog") == count


def test_learned_words_reach_the_file_without_closing(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "m.json")
    for number in range(FLUSH_WORDS):
        memory.learn([f"word{number % 3}"])
    wait_for_writer()
    assert Memory(tmp_path / "m.json").count("word1") > 0


def wait_for_writer() -> None:
    for thread in threading.enumerate():
        if thread.name == "rheostat-memory":
            thread.join()


def test_words_are_learned_while_the_file_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, written = Memory(tmp_path / "m.json"), threading.Event()
    write = words_memory.write_private

    def write_slowly(path: Path, text: str) -> None:
        assert written.wait(60)
        write(path, text)

    monkeypatch.setattr(words_memory, "write_private", write_slowly)
    memory.learn(["see", "you"] * FLUSH_WORDS)
    memory.learn(["soon"], before=["see", "you"])
    assert memory.count("see", "you", "soon") == 1.0 and "soon" in memory.share([]).extra
    assert not (tmp_path / "m.json").exists()
    written.set()
    wait_for_writer()
    assert memory.count("see", "you", "soon") == 1.0 and "soon" in memory.share([]).extra
    assert Memory(tmp_path / "m.json").count("see") == FLUSH_WORDS
    memory.close()
    assert Memory(tmp_path / "m.json").phrases() == memory.phrases()
    assert memory.count("soon") == 1.0 and memory.count("see") == FLUSH_WORDS


def test_a_write_that_fails_loses_nothing_and_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory(tmp_path / "m.json")

    def fail(path: Path, text: str) -> None:
        raise UserWordsError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(words_memory, "write_private", fail)
        with pytest.warns(rheostat.RheostatWarning, match="no space; what was learned is kept"):
            memory.learn(["one"] * FLUSH_WORDS)
            wait_for_writer()
        memory.learn(["two"])
        with pytest.raises(UserWordsError, match="no space"):
            memory.close()
    memory.close()
    assert Memory(tmp_path / "m.json").count("one") == FLUSH_WORDS
    assert Memory(tmp_path / "m.json").count("two") == 1.0


def test_a_memory_exported_to_its_own_file_is_written(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "m.json")
    memory.learn(["one"] * 5)
    memory.export(tmp_path / "m.json")
    memory.close()
    assert Memory(tmp_path / "m.json").count("one") == 5.0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_process_can_be_copied_while_the_file_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, write = Memory(tmp_path / "m.json"), words_memory.write_private

    def write_slowly(path: Path, text: str) -> None:
        time.sleep(0.2)
        write(path, text)

    monkeypatch.setattr(words_memory, "write_private", write_slowly)
    memory.learn(["one"] * FLUSH_WORDS)
    memory.learn(["two"])

    def learn_more() -> None:
        memory.learn(["three"])
        memory.close()

    child = multiprocessing.get_context("fork").Process(target=learn_more)
    child.start()
    child.join(60)
    assert child.exitcode == 0
    memory.close()
    found = Memory(tmp_path / "m.json")
    assert [found.count(word) for word in ("one", "two", "three")] == [FLUSH_WORDS, 1.0, 1.0]


@pytest.mark.parametrize(
    "learn",
    [
        "import threading; some = threading.Thread(target=learn, daemon=True); some.start(); some.join()",
        "import atexit; atexit.register(learn)",
    ],
    ids=["from a thread that ends with the program", "at the program's end"],
)
def test_words_reach_the_file_however_a_program_ends(learn: str, tmp_path: Path) -> None:
    script = f"""
from rheostat.words.memory import Memory
memory = Memory({str(tmp_path / "m.json")!r})
learn = lambda: memory.learn(["one"] * {FLUSH_WORDS})
{learn}
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    assert Memory(tmp_path / "m.json").count("one") == FLUSH_WORDS


def test_memory_works_without_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    Memory(tmp_path / "m.json").learn(["one"] * FLUSH_WORDS)
    assert Memory(tmp_path / "m.json").count("one") == FLUSH_WORDS
