"""A corpus of several parts: split by conversation, weighted, mixed, and without the senders that are held out."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpora import data_folder
from rheostat.errors import CorpusError, MissingExtraError, RecipeError, RheostatWarning
from rheostat.measure.texts import read_text
from rheostat.recipe import read_recipe
from rheostat.tables import fill
from rheostat.text import mixture
from rheostat.text.chat import chat_texts, read_turns
from rheostat.text.corpus import CorpusConfig, encode_split, load_corpus, load_split, load_training_split
from rheostat.text.mixture import Part, chat_splits, held_out_senders, mix, talk_parts

CHAT = Part("chitchat")
DIALOGUE = Part("dialogue", "dialogue.txt", weight=1.5, source="a shelf")
SENTENCES = Part("sentences", "sentences.txt", conversations=False, weight=2)
PARTS = (CHAT, DIALOGUE, SENTENCES)


def mixture_texts(parts: Sequence[Part], folder: Path | None, seed: int, cache: Path) -> Mapping[str, Path]:
    return mix(parts, folder, seed, cache).texts


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """80 conversations of three lines, and 400 sentences; each line is there once."""
    folder = tmp_path / "texts"
    folder.mkdir()
    talks = [[f"talk {number} line {line}" for line in range(3)] for number in range(80)]
    (folder / "dialogue.txt").write_text("\n\n".join("\n".join(lines) for lines in talks) + "\n")
    (folder / "sentences.txt").write_text("".join(f"Sentence {number}.\n" for number in range(400)))
    (folder / "aac").mkdir()
    (folder / "aac" / "test.txt").write_text("never read this\n")
    return folder


@pytest.fixture(autouse=True)
def few_senders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixture, "SENDERS", 4)
    monkeypatch.setattr(mixture, "WORDS", range(20, 41))


@pytest.fixture(autouse=True)
def small_chat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package in the form of chitchat-dataset: 20 senders with 8 short conversations each, and two who write more."""
    talks = {}
    for number in range(160):
        senders = (f"sender {number % 20}", f"much {number % 2}")
        turns = [[{"text": f"message {number} of {sender}", "sender": sender}] for sender in senders]
        talks[f"chat {number}"] = {"start": f"2018-{1000 - number}", "messages": turns}
    install_chat(tmp_path, monkeypatch, talks)


def install_chat(folder: Path, monkeypatch: pytest.MonkeyPatch, talks: dict[str, Any]) -> None:
    package = folder / "packages" / "chitchat_dataset" / "__init__.py"
    package.parent.mkdir(parents=True)
    package.write_text("")
    (package.parent / "dataset.json").write_text(json.dumps(talks))
    spec = importlib.util.spec_from_file_location("chitchat_dataset", package)
    assert spec is not None
    monkeypatch.setitem(sys.modules, "chitchat_dataset", importlib.util.module_from_spec(spec))


def lines(path: Path) -> list[str]:
    return [line for line in path.read_text().split("\n") if line]


def conversations(path: Path) -> list[str]:
    return path.read_text().removesuffix("\n").split("\n\n")


# --- splits -----------------------------------------------------------------------------------------------


def test_parts_are_split_by_conversation_and_no_test_line_is_trained_on(folder: Path, cache: Path) -> None:
    texts = mixture_texts(PARTS, folder, 1, cache)
    train, valid, test = (set(lines(texts[name])) for name in ("train", "valid", "test"))
    assert not train & valid and not train & test and not valid & test
    assert [len(conversations(texts[f"{split}-dialogue"])) for split in ("valid", "test")] == [2, 2]
    for name in ("train", "valid-dialogue", "test-dialogue"):
        for conversation in conversations(texts[name]):
            if conversation.startswith("talk"):  # whole, in its order, with nothing else in it
                number = conversation.split()[1]
                assert conversation.split("\n") == [f"talk {number} line {line}" for line in range(3)]
    assert train | valid | test >= {f"talk {number} line 0" for number in range(80)}
    assert train | valid | test >= {f"Sentence {number}." for number in range(400)}


def test_a_conversation_that_the_source_has_twice_is_not_measured(folder: Path, cache: Path) -> None:
    twice = (folder / "dialogue.txt").read_text()
    (folder / "dialogue.txt").write_text(twice + "\n" + twice)
    texts = mixture_texts([DIALOGUE], folder, 1, cache)
    assert not set(lines(texts["train"])) & set(lines(texts["valid"]) + lines(texts["test"]))


def test_the_test_text_of_a_mixture_is_that_of_its_parts(folder: Path, cache: Path) -> None:
    texts = mixture_texts(PARTS, folder, 1, cache)
    for split in ("valid", "test"):
        parts = [line for part in PARTS for line in lines(texts[f"{split}-{part.name}"])]
        assert lines(texts[split]) == parts and parts


def test_test_conversations_of_chitchat_are_those_of_the_corpus_chat(folder: Path, cache: Path) -> None:
    test = lines(mixture_texts(PARTS, folder, 7, cache)["test-chitchat"])
    assert test == lines(chat_texts(cache, 0, 1)["test"])


def test_sorted_sentences_are_shuffled_in_blocks_among_the_rest(folder: Path, cache: Path) -> None:
    train = mixture_texts(PARTS, folder, 1, cache)["train"]
    sizes = [len(text.split("\n")) for text in conversations(train) if text.startswith("Sentence")]
    assert set(sizes) == {20} and sum(sizes) == 2 * 380
    numbers = [int(line.split()[1].strip(".")) for line in lines(train) if line.startswith("Sentence")]
    assert abs(np.corrcoef(numbers, np.arange(len(numbers)))[0, 1]) < 0.3
    kinds = [line.split()[0] for line in lines(train)]
    assert all(len(set(kinds[start : start + 200])) == 3 for start in range(0, len(kinds) - 200, 200))


# --- weights ----------------------------------------------------------------------------------------------


def test_weights_say_how_often_a_conversation_is_read(folder: Path, cache: Path) -> None:
    counts = Counter(lines(mixture_texts(PARTS, folder, 1, cache)["train"]))
    repeats = {
        kind: Counter(count for line, count in counts.items() if line.startswith(kind))
        for kind in ("message", "talk", "Sentence")
    }
    assert set(repeats["message"]) == {1}
    assert repeats["talk"] == {1: 38 * 3, 2: 38 * 3}
    assert repeats["Sentence"] == {2: 380}


def test_a_weight_below_one_reads_a_part_of_the_conversations(folder: Path, cache: Path) -> None:
    train = mixture_texts([Part("dialogue", "dialogue.txt", weight=0.25)], folder, 1, cache)["train"]
    assert len(conversations(train)) == len(set(conversations(train))) == 19


def test_overused_names_are_thinned_out(folder: Path, cache: Path) -> None:
    names = "".join(f"Tom says {number}.\nTomatoes {number}.\n" for number in range(1000))
    (folder / "sentences.txt").write_text(names)
    part = Part("sentences", "sentences.txt", conversations=False, thin=("Tom",), thin_to=0.2)
    texts = mixture_texts([part], folder, 1, cache)
    kept = Counter(line.split()[0] for split in ("train", "valid", "test") for line in lines(texts[split]))
    assert kept["Tomatoes"] == 1000 and 150 < kept["Tom"] < 250


# --- senders that are held out ----------------------------------------------------------------------------


def test_held_out_senders_are_in_no_training_text(folder: Path, cache: Path) -> None:
    held = held_out_senders()
    assert len(held.messages) == 4 and not any(sender.startswith("much") for sender in held.messages)
    texts = mixture_texts(PARTS, folder, 1, cache)
    read = set(lines(texts["train"])) | set(lines(texts["valid"]))
    turns, splits = read_turns(), chat_splits(read_turns())
    for name, conversation in turns.items():
        takes_part = any(turn.sender in held.messages for turn in conversation)
        assert (name in held.conversations) == (takes_part and splits[name] != "test")
        for turn in conversation:
            assert (turn.message in read) == (not takes_part and splits[name] != "test")


def test_a_held_out_senders_messages_come_oldest_first(folder: Path) -> None:
    for sender, chats in held_out_senders().messages.items():
        numbers = [int(message.split()[1]) for chat in chats for message in chat]
        assert numbers == sorted(numbers, reverse=True)  # the fixture's last conversation is its oldest
        assert all(message.endswith(sender) for chat in chats for message in chat)


def test_held_out_senders_are_always_the_same() -> None:
    turns = read_turns()
    shuffled = dict(sorted(turns.items(), key=lambda item: item[0][::-1]))
    assert set(held_out_senders(turns).messages) == set(held_out_senders(shuffled).messages)


# --- the cache, and what may be missing -------------------------------------------------------------------


def test_the_same_parts_and_seed_give_the_same_texts(folder: Path, tmp_path: Path) -> None:
    first, second = (mixture_texts(PARTS, folder, 1, tmp_path / name) for name in "ab")
    assert all(first[name].read_bytes() == second[name].read_bytes() for name in first)
    other = mixture_texts(PARTS, folder, 2, tmp_path / "a")
    assert other["train"].parent != first["train"].parent
    assert other["train"].read_bytes() != first["train"].read_bytes()


def test_texts_are_written_once_and_again_for_another_input(folder: Path, cache: Path) -> None:
    train = mixture_texts(PARTS, folder, 1, cache)["train"]
    written = train.stat().st_mtime_ns
    assert mixture_texts(PARTS, folder, 1, cache)["train"].stat().st_mtime_ns == written
    lighter = (CHAT, DIALOGUE, Part("sentences", "sentences.txt", conversations=False))
    assert mixture_texts(lighter, folder, 1, cache)["train"].parent != train.parent
    with (folder / "sentences.txt").open("a") as file:
        file.write("One more.\n")
    assert mixture_texts(PARTS, folder, 1, cache)["train"].parent != train.parent


def test_a_damaged_text_is_written_again(folder: Path, cache: Path) -> None:
    train = mixture_texts(PARTS, folder, 1, cache)["train"]
    whole = train.read_bytes()
    for damaged in (b"cut sho", whole.replace(b"talk", b"walk")):
        train.write_bytes(damaged)
        assert mixture_texts(PARTS, folder, 1, cache)["train"].read_bytes() == whole


def test_missing_files_are_named_with_their_source_and_left_out(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RHEOSTAT_DATA", str(tmp_path / "nothing"))
    with pytest.warns(
        RheostatWarning, match=r"talk lacks dialogue\.txt \(a shelf\), sentences\.txt; .*only chitchat"
    ) as told:
        texts = mixture_texts(PARTS, None, 1, cache)
    assert len(told) == 1 and "\n" not in str(told[0].message)
    assert set(texts) == {"train", "valid", "test", "valid-chitchat", "test-chitchat"}
    assert all(line.startswith("message") for line in lines(texts["train"]))


def test_a_folder_that_was_given_must_have_every_part(folder: Path, cache: Path) -> None:
    (folder / "dialogue.txt").unlink()
    with pytest.raises(CorpusError, match=r"lacks dialogue\.txt \(a shelf\); expected a file for each part"):
        mixture_texts(PARTS, folder, 1, cache)


def test_without_chitchat_the_error_names_the_extra(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "chitchat_dataset", None)
    with pytest.raises(MissingExtraError, match=r"rheostat\[chat\]"):
        mixture_texts(PARTS, folder, 1, cache)


def test_texts_for_measuring_are_never_read(folder: Path, cache: Path) -> None:
    texts = mixture_texts(PARTS, folder, 1, cache)
    assert not any("never read this" in path.read_text() for path in texts.values())
    with pytest.raises(ValueError, match="bare name"):
        Part("aac", "aac/test.txt")
    assert not any("aac" in part.name + part.file for part in talk_parts())


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"name": "a/b"}, "expected a word"),
        ({"name": "a", "weight": 0}, "above 0"),
        ({"name": "a", "thin_to": 2}, "from 0 to 1"),
        ({"name": "a", "thin": ["Tom"]}, "conversations = false"),
        ({"name": "a", "wieght": 1}, "did you mean 'weight'"),
    ],
)
def test_a_part_that_makes_no_sense_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        fill(CorpusConfig, {"parts": [keys]}, "corpus")


def test_two_parts_of_one_name_are_refused(folder: Path, cache: Path) -> None:
    with pytest.raises(CorpusError, match="two parts have the same name"):
        mixture_texts([DIALOGUE, DIALOGUE], folder, 1, cache)


# --- as a corpus ------------------------------------------------------------------------------------------


def test_a_mixture_is_a_corpus_like_any_other(folder: Path, cache: Path) -> None:
    config = CorpusConfig(parts=PARTS, vocabulary_size=8)
    corpus = load_corpus(str(folder), config, cache_directory=cache)
    assert corpus.name == corpus.source == "texts"
    assert corpus.parts == PARTS
    assert corpus.summary()["parts"] == {"chitchat": 1.0, "dialogue": 1.5, "sentences": 2}
    assert len(corpus.vocabulary) == 8 and sum(corpus.counts) == corpus.splits["train"].tokens
    test = load_split(str(folder), "test", config, corpus.vocabulary, cache_directory=cache)
    assert np.array_equal(test.ids, corpus.splits["test"].ids)
    assert (test.corpus, test.digest) == ("texts", corpus.splits["test"].digest)
    train = load_training_split(folder, "train", config, corpus.vocabulary, cache_directory=cache)
    assert np.array_equal(train.ids, corpus.splits["train"].ids)
    three = [folder / "dialogue.txt"] * 3
    with pytest.raises(CorpusError, match="expected the one folder"):
        load_corpus(three, config, cache_directory=cache)
    with pytest.raises(CorpusError, match=r"dialogue\.txt lacks dialogue\.txt"):
        load_corpus(three[0], config, cache_directory=cache)


def test_the_test_text_of_a_mixture_can_be_typed(folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RHEOSTAT_CACHE", str(cache))
    text = read_text(str(folder), CorpusConfig(parts=PARTS), 10_000)
    assert (text.name, text.tokenizer, text.prepared) == ("texts", "words", False)
    assert list(text.lines) == lines(mixture_texts(PARTS, folder, 1, cache)["test"])
    with pytest.raises(CorpusError, match="no texts for the split test"):
        read_text(str(folder), "words", 10_000)


def test_curly_apostrophes_become_plain_ones(folder: Path, cache: Path) -> None:
    (folder / "sentences.txt").write_text("".join(f"I don’t know {n}. That’s ‘it’.\n" for n in range(80)))
    part = Part("sentences", "sentences.txt", conversations=False)
    corpus = load_corpus(folder, CorpusConfig(parts=(part,)), cache_directory=cache)
    assert {"don't", "that's"} < set(corpus.vocabulary.words)
    assert not any("’" in word or "‘" in word for word in corpus.vocabulary.words)


def test_talk_means_the_parts_of_its_recipe(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = read_recipe("talk")
    assert recipe["data"] == "talk"
    config = fill(CorpusConfig, recipe["corpus"], "corpus")
    assert config.parts == talk_parts()
    assert [(part.name, part.weight) for part in config.parts if not part.file] == [("chitchat", 1.5)]
    assert all(part.source and part.licence and part.attribution for part in config.parts)
    monkeypatch.setenv("RHEOSTAT_DATA", str(tmp_path))
    with pytest.warns(RheostatWarning, match="only chitchat"):
        named = load_corpus("talk", config, cache_directory=cache)
    with pytest.warns(RheostatWarning, match="only chitchat"):
        test = load_split("talk", "test", CorpusConfig(), named.vocabulary, cache_directory=cache)
    assert named.name == "talk" and np.array_equal(test.ids, named.splits["test"].ids)


# --- the real texts ---------------------------------------------------------------------------------------


@pytest.fixture
def real_talk(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.undo()  # the small package, and the few senders
    if importlib.util.find_spec("chitchat_dataset") is None:
        pytest.skip("chitchat-dataset is not installed: rheostat[chat]")
    return data_folder("talk")


def test_the_real_talk_corpus(real_talk: Path, cache: Path) -> None:
    held = held_out_senders()
    assert len(held.messages) == 40
    assert 100_000 < held.words < 160_000
    texts = mixture_texts(talk_parts(), real_talk, 1, cache)
    assert lines(texts["test-chitchat"]) == lines(chat_texts(cache, 0, 1)["test"])
    train = set(conversations(texts["train"]))
    measured = {text for name, path in texts.items() if name != "train" for text in conversations(path)}
    assert all(text.count("\n") < 3 for text in train & measured)  # chitchat has some short ones twice
    turns = read_turns()
    for name in held.conversations:
        text = "\n".join(turn.message for turn in turns[name])
        assert text.count("\n") < 3 or text not in train
    shares = {}
    config = fill(CorpusConfig, read_recipe("talk")["corpus"], "corpus")
    vocabulary = load_corpus(real_talk, config, cache_directory=cache).vocabulary
    for part in talk_parts():
        shares[part.name] = encode_split(
            texts[f"test-{part.name}"], vocabulary, "words", cache_directory=cache
        ).unknown_rate
    assert len(vocabulary) == 20_000
    assert all(share < 0.02 for name, share in shares.items() if name != "common-voice")
