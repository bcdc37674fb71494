"""Typing with slips: the walk in C against a plain search over all words, and what users see of it."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import rheostat
from models import TINY, make_vocabulary, make_weights
from rheostat.core.binding import CoreModel
from rheostat.core.word_tree import Channel, WordTree
from rheostat.errors import RheostatError
from rheostat.measure.slips import TAP_SPREAD, count_corrections, savings_with_slips, slip_to_neighbour, tap_word
from rheostat.model.ordered import ordered_bytes
from rheostat.words.memory import Memory
from rheostat.words.slips import (
    PRICES,
    KeyLayout,
    Prices,
    drops_negation,
    find_halves,
    find_key_layout,
    is_inflected,
    may_be_corrected,
    read_key_layouts,
)
from rheostat.words.writing import CORRECT_AT, OFFER_AT, Suggestion

QWERTY = find_key_layout("qwerty")
CHANNEL = Channel(QWERTY.keys, PRICES.of_letters())
DOCS = Path(__file__).parents[2] / "docs" / "slips.md"


# --- the walk ----------------------------------------------------------------------------------------------


def price_of(hit: str, meant: str, prices: Prices = PRICES) -> float:
    if hit == meant:
        return 0.0
    one, other = QWERTY.centre(hit), QWERTY.centre(meant)
    if one is None or other is None:
        return prices.far
    squared = math.dist(one, other) ** 2
    return min(prices.neighbour + prices.distance * (squared - 1), prices.far)


def cheapest(typed: str, word: str, whole: bool, prices: Prices = PRICES) -> float:
    """The least price of typing this for a word, or for the beginning of one: every way is tried."""
    infinite = math.inf
    # [letters typed][letters of the word], once before and once after at most one missed letter
    before = [[infinite] * (len(word) + 1) for _ in range(len(typed) + 1)]
    behind = [[infinite] * (len(word) + 1) for _ in range(len(typed) + 1)]
    before[0][0] = 0.0
    for i in range(len(typed) + 1):
        for j in range(len(word) + 1):
            behind[i][j] = min(behind[i][j], before[i][j])
            if j < len(word):
                doubles = j > 0 and word[j] == word[j - 1]
                miss = prices.missed_double if doubles else prices.missed
                miss = prices.missed_apostrophe if word[j] == "'" else miss
                behind[i][j + 1] = min(behind[i][j + 1], before[i][j] + miss)
        for j in range(len(word) + 1):
            if i == len(typed):
                continue
            doubled = i > 0 and typed[i] == typed[i - 1]
            extra = prices.doubled if doubled else prices.extra
            before[i + 1][j] = min(before[i + 1][j], behind[i][j] + extra)
            if j < len(word):
                step = behind[i][j] + price_of(typed[i], word[j])
                before[i + 1][j + 1] = min(before[i + 1][j + 1], step)
            swaps = i + 1 < len(typed) and j + 1 < len(word) and typed[i] != typed[i + 1]
            if swaps and (typed[i], typed[i + 1]) == (word[j + 1], word[j]):
                before[i + 2][j + 2] = min(before[i + 2][j + 2], behind[i][j] + prices.swapped)
    return behind[-1][-1] if whole else min(before[-1])


words_ = st.text("abcnst'", min_size=1, max_size=6)


@given(
    words=st.sets(words_, min_size=1, max_size=30),
    typed=words_,
    whole=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(max_examples=300)
def test_the_walk_finds_what_a_search_over_all_words_finds(words: set[str], typed: str, whole: bool, seed: int) -> None:
    forms = sorted(words)
    scores = np.random.default_rng(seed).uniform(-9, 0, len(forms)).astype(np.float32)
    tree = WordTree(forms, np.arange(len(forms)), len(forms))
    found = tree.typed(object(), lambda: scores).best(CHANNEL, typed, 5, whole=whole)
    costs = [cheapest(typed, word, whole) for word in forms]
    ranked = sorted(range(len(forms)), key=lambda place: (costs[place] - float(scores[place]), place))
    ours = [one.cost - one.log_probability for one in found]
    assert ours == sorted(ours)
    # What is far worse than the best on the way is dropped; what costs less than a few slips never is.
    for one in found:
        assert one.log_probability == scores[one.word]
        assert one.cost >= costs[one.word] - 1e-3 and (costs[one.word] > 6.5 or one.cost <= costs[one.word] + 1e-3)
    assert {place for place in ranked[:5] if costs[place] < 6.5} <= {one.word for one in found}


@given(letters=st.text("abcnst'", min_size=1, max_size=9), seed=st.integers(0, 99))
@settings(max_examples=100)
def test_one_more_letter_gives_what_a_fresh_walk_gives(letters: str, seed: int) -> None:
    chance = random.Random(seed)
    forms = sorted({"".join(chance.choices("abcnst'", k=chance.randrange(1, 7))) for _ in range(200)})
    scores = np.random.default_rng(seed).uniform(-9, 0, len(forms)).astype(np.float32)
    tree = WordTree(forms, np.arange(len(forms)), len(forms))
    text = object()
    for _ in range(3):  # type, delete and change letters at random
        typed = letters[: chance.randrange(1, len(letters) + 1)]
        grown = tree.typed(text, lambda: scores).best(CHANNEL, typed, 5)
        assert grown == tree.typed(object(), lambda: scores).best(CHANNEL, typed, 5)


def test_a_tree_holds_words_in_any_order_and_in_other_scripts() -> None:
    forms = ["straße", "слово", "éclair", "apple", "appls", "apple", "日本"]
    tree = WordTree(forms, np.arange(7), 7)
    typed = tree.typed(object(), lambda: np.zeros(7, np.float32))
    assert [one.word for one in typed.best(CHANNEL, "apple", 2, whole=True)] == [0 + 3, 5]
    for number, word in enumerate(forms):
        assert typed.best(CHANNEL, word, 1, whole=True)[0].cost == 0, word
        assert forms[typed.best(CHANNEL, word, 1, whole=True)[0].word] == forms[number]


@pytest.mark.parametrize("seed", range(5))
def test_clusters_are_opened_only_if_they_can_matter_and_the_words_are_exact(seed: int) -> None:
    shape = TINY["qrnn"]
    vocabulary = make_vocabulary(shape.vocabulary_size)
    model = CoreModel(ordered_bytes(make_weights(shape, seed), shape, vocabulary, "fp32"))
    state = model.step(model.full_position(), model.start(), seed)
    answer, opened = model.predict(model.full_position(), state), model.predict(model.full_position(), state)
    scores = model.log_probabilities(opened)
    forms = [f"{word}s" if place % 2 else word for place, word in enumerate(vocabulary.words)]
    tree = WordTree(forms, np.arange(len(forms)), len(forms))
    lazy = tree.typed(object(), (model, answer)).best(CHANNEL, "word", 1)
    assert lazy == tree.typed(object(), lambda: scores).best(CHANNEL, "word", 1)
    assert model.executed_flops(answer) <= model.executed_flops(opened)
    every = tree.typed(object(), (model, answer)).best(CHANNEL, "wird4", 9)
    assert every == tree.typed(object(), lambda: scores).best(CHANNEL, "wird4", 9)


def test_taps_between_two_keys_leave_both_open() -> None:
    tree = WordTree(["on", "in"], np.arange(2), 2)
    typed = tree.typed(object(), lambda: np.log(np.array([0.4, 0.6], np.float32)))
    centre: Any = QWERTY.centre

    def taps(x: float) -> NDArray[np.float32]:
        return np.array([(x, 0.0), centre("n")], np.float32)

    o, i = centre("o")[0], centre("i")[0]
    assert typed.best(CHANNEL, "on", 1, taps=taps(o))[0].word == 0, "in the middle of the key"
    assert typed.best(CHANNEL, "on", 1, taps=taps((o + i) / 2 + 0.01))[0].word == 1, "near the border the likelier word"
    missing = np.array([(np.nan, np.nan)] * 2, np.float32)
    assert typed.best(CHANNEL, "on", 2, taps=missing) == typed.best(CHANNEL, "on", 2)


# --- keys --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", read_key_layouts().values(), ids=lambda layout: layout.name)
def test_every_layout_has_every_letter_once(layout: KeyLayout) -> None:
    letters = [letter for letter, _, _ in layout.keys]
    assert set("abcdefghijklmnopqrstuvwxyz") <= set(letters) and len(set(letters)) == len(letters)
    assert len({key[1:] for key in layout.keys}) == len(letters), "two keys in one place"
    assert set(layout.above_space) <= set(letters)
    Channel(layout.keys, PRICES.of_letters())
    for letter in letters:
        assert layout.nearest(*(layout.centre(letter) or (0, 0))) == letter


def test_neighbours_are_the_keys_that_touch() -> None:
    assert set(QWERTY.neighbours("g")) == set("ftyhv")
    assert QWERTY.neighbours("'") == []


def test_the_spread_of_taps_puts_as_many_on_another_key_as_it_says() -> None:
    chance = random.Random(3)
    letters = "the quick brown fox jumps over the lazy dog and eats some of its other meals".replace(" ", "") * 300
    hit = sum(tap_word(letter, QWERTY, TAP_SPREAD, chance)[0] != letter for letter in letters) / len(letters)
    assert hit == pytest.approx(0.069, abs=0.006)


def test_halves_are_every_way_to_miss_the_space() -> None:
    assert ("see", "you") in {halves[:2] for halves in find_halves("seeyou", QWERTY)}
    assert ("see", "you") in {halves[:2] for halves in find_halves("seebyou", QWERTY)}
    assert ("see", "you") not in {halves[:2] for halves in find_halves("seekyou", QWERTY)}


# --- suggestions -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def predictor() -> rheostat.Predictor:
    return rheostat.load()


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("what are you dping", "doing"),
        ("what are you diong", "doing"),
        ("what are you doinng", "doing"),
        ("what are you dxoing", "doing"),
        ("What are you doung", "doing"),
        ("i went tothe", "to the"),
        ("i went tobthe", "to the"),
        ("i dontthink", "don't think"),
        ("it doesntwork", "doesn't work"),
        ("i wasntsure", "wasn't sure"),
        ("i cannotsee", "cannot see"),
        ("now imgoing", "I'm going"),
    ],
)
def test_each_kind_of_slip_is_seen_through(predictor: rheostat.Predictor, text: str, word: str) -> None:
    assert predictor.complete(text)[0].word == word
    best = predictor.correct(text)[0]
    assert (best.word, best.kind, best.finished) == (word, "correction", True)
    assert best.insert_into(text).endswith(f" {word}")


@pytest.mark.parametrize("text", ["gopdmorning", "godmorning", "goodmornung", "gopdmornung"])
def test_either_of_two_words_typed_as_one_may_have_slips(predictor: rheostat.Predictor, text: str) -> None:
    best = predictor.correct(text)[0]
    assert (best.word, best.advice) == ("Good morning", "correct")


def test_taps_count_for_both_of_two_words_typed_as_one(predictor: rheostat.Predictor) -> None:
    def probability(word: str, place: tuple[float, float], number: int) -> float:
        taps: Any = [QWERTY.centre(letter) for letter in word]
        taps[number] = place
        found = predictor.correct(f"i {word}", 9, taps=taps)
        return next(one.probability for one in found if one.word == "am not")

    assert probability("qmnot", (0.2, 0.45), 0) > 2 * probability("qmnot", (0.2, 0.4), 0)
    assert probability("amnpt", (8.55, 0.0), 3) > 2 * probability("amnpt", (8.65, 0.0), 3)


def test_a_memory_counts_for_the_second_of_two_words_typed_as_one() -> None:
    memory = Memory()
    predictor = rheostat.load(memory=memory)
    before = predictor.correct("i went tothe")[0].probability
    for _ in range(9):
        memory.learn(["the"], ["went", "to"])
    assert predictor.correct("i went tothe")[0].probability > 1.4 * before


@pytest.mark.parametrize(
    "text", ["i dontthink", "i dontknow", "he didntcome", "i havenotseen", "he isnothere", "i amnotsure", "i canotsee"]
)
def test_a_negation_is_never_dropped_automatically(predictor: rheostat.Predictor, text: str) -> None:
    best = predictor.correct(text)[0]
    assert best.kind == "typed" or "n't" in best.word or "not" in best.word


def test_which_pairs_of_words_drop_a_negation() -> None:
    for typed, words in (
        ("donttell", "do tell"),
        ("isnthere", "is there"),
        ("cantsee", "can see"),
        ("cannotsee", "can see"),
        ("saynever", "say ever"),
        ("willnotgo", "will go"),
    ):
        assert drops_negation(typed, words) and not may_be_corrected(typed, words, starts_sentence=False)
    for typed, words in (
        ("donttell", "don't tell"),
        ("canthink", "can think"),
        ("gonto", "go to"),
        ("donothing", "do nothing"),
        ("saynever", "say never"),
        ("isnt", "isn't"),
        ("thenother", "the other"),
    ):
        assert not drops_negation(typed, words) and may_be_corrected(typed, words, starts_sentence=False)


def test_a_missed_apostrophe_is_offered(predictor: rheostat.Predictor) -> None:
    assert "don't" in [suggestion.word for suggestion in predictor.complete("i dont")]


def test_a_correction_takes_over_capitals(predictor: rheostat.Predictor) -> None:
    assert predictor.complete("Wjat")[0].word == "What"
    assert predictor.complete("WJAT")[0].word == "WHAT"


def test_what_was_typed_is_always_among_the_corrections(predictor: rheostat.Predictor) -> None:
    for text in ("see you at the gane", "hello", "i went tothe", "my Rheostt", "NASA", "a b2b", "don't"):
        for k in (1, 3):
            found = predictor.correct(text, k)
            assert sum(one.kind == "typed" for one in found) == 1 or (k == 1 and found[0].kind == "correction")
        own = next(one.word for one in predictor.correct(text, 5) if one.kind == "typed")
        assert text.lower().endswith(own.lower())


def test_taught_words_have_a_kind_and_a_confidence() -> None:
    predictor = rheostat.load()
    for word in ("teh", "Rheostat"):
        predictor.learn(word)

    def seen(text: str) -> list[tuple[str, str, str, bool]]:
        found = predictor.complete(text)
        shares = [one.confidence for one in found]
        assert shares == sorted(shares, reverse=True) and 0.99 < sum(shares) <= 1.0
        return [(one.word, one.kind, one.source, one.confidence > 0.9) for one in found]

    assert seen("see teh")[0] == ("teh", "typed", "user", True)
    assert seen("my rheost")[0] == ("Rheostat", "completion", "user", True)
    assert seen("my rheostat")[0] == ("Rheostat", "typed", "user", True)
    assert "rheostat" not in {word for word, *_ in seen("my rheostat")}, "one word, as it was taught"
    assert [row[0] for row in seen("my RHEOSTAT")[:2]] == ["Rheostat", "RHEOSTAT"], "capitals were meant"


def test_a_word_that_was_written_often_is_not_changed() -> None:
    memory = Memory()
    predictor = rheostat.load(memory=memory)
    memory.learn(["dping"], ["are", "you"])
    assert predictor.correct("what are you dping")[0].advice == "correct"
    for _ in range(4):
        memory.learn(["dping"], ["are", "you"])
        memory.learn(["teh"], ["are", "you"])  # a misspelling that the model knows
    for text in ("what are you dping", "What are you teh"):
        word = text.split()[-1]
        for found in (predictor.correct(text)[0], predictor.complete(text)[0]):
            assert (found.word, found.kind) == (word, "typed") and found.confidence > 0.9
    found = predictor.complete("what are you dpi")[0]
    assert (found.word, found.kind, found.source) == ("dping", "completion", "user") and found.confidence > 0.9


def test_without_slips_a_finished_word_is_what_was_typed() -> None:
    memory = Memory()
    predictor = rheostat.load(slips=False, memory=memory)
    assert predictor.correct("what are you dping") == [
        Suggestion("dping", 1.0, replaces=5, kind="typed", confidence=1.0, finished=True)
    ]
    for _ in range(3):
        predictor.watch().end("what are you dping")
    assert memory.count("you") > 0 and memory.count("dping") == 0, "a memory looks for slips all the same"


def test_a_taught_word_is_never_changed() -> None:
    predictor = rheostat.load()
    assert predictor.correct("what are you dping")[0].advice == "correct"
    predictor.learn("dping")
    assert [one.kind for one in predictor.correct("what are you dping")] == ["typed"]
    assert predictor.correct("what are you Dping")[0].confidence == 1.0


@pytest.mark.parametrize("word", ["well-knwon", "j.smitj"])
def test_a_taught_word_with_a_sign_is_never_changed(word: str) -> None:
    predictor = rheostat.load()
    predictor.learn(word)
    for text in (f"say {word}", f'say "{word.title()}'):
        assert predictor.correct(text)[0].advice != "correct"
    assert predictor.correct("a well-konwn")[0].advice == "correct", "another word"


def test_words_with_digits_or_capitals_inside_are_left_alone(predictor: rheostat.Predictor) -> None:
    for word in ("b2b", "dPing", "DPING"):
        assert predictor.correct(f"what are you {word}")[0].advice != "correct"


def test_parts_of_addresses_and_tags_are_left_alone(predictor: rheostat.Predictor) -> None:
    for text in ("see www.exampel", "http://goolge", "#thnaks", "@teh", "hello.teh", "$teh", "and/or/teh", "a_teh"):
        found = predictor.correct(text)
        assert [one.kind for one in found] == ["typed"], text
    for text in ('"teh', "say 'teh", "(teh", "one—teh", "a well-knwon", "*goolge"):
        assert predictor.correct(text)[0].advice == "correct", text


def test_ways_of_writing_are_left_alone(predictor: rheostat.Predictor) -> None:
    for text, full in (("where are you Goin", "Going"), ("where are you goin", "going"), ("that will b", "be")):
        found = predictor.correct(text, 5)
        assert found[0].advice != "correct" and full not in [one.word for one in found]


def test_a_hidden_word_is_neither_offered_nor_corrected(predictor: rheostat.Predictor) -> None:
    assert predictor.correct("oh fuck")[0].kind == "typed"
    assert "fuck" not in [one.word for one in predictor.complete("oh fuk", 9)]


STEMS = """
walk try boy run stop occur visit travel come have see be box go true happy dry actual actually
occurred gentle sun basic public fun cloud write quit play quick
"""
ENDED = """
walks walked walking walker boys boy's runs visited visiting traveled traveling seeing being boxes
goes writes writer played playing dryer publicly cloudy quickly trying
"""
MISSPELT = """
trys tryed runing stoped stoping occured comeing haveing boxs walkd walkr walkes truely happyly
actualy gentlely basicly funy writeing quiting
"""


@pytest.mark.parametrize("form", ENDED.split())
def test_a_word_with_an_ending_is_one(form: str) -> None:
    assert is_inflected(form, STEMS.split())


@pytest.mark.parametrize("form", MISSPELT.split())
def test_a_word_with_an_ending_that_changes_its_spelling_is_none(form: str) -> None:
    assert not is_inflected(form, STEMS.split())


@pytest.mark.parametrize(("text", "word"), [("she was runing", "running"), ("it occured", "occurred")])
def test_a_misspelt_ending_is_corrected(predictor: rheostat.Predictor, text: str, word: str) -> None:
    assert predictor.correct(text)[0].word == word


def test_letters_as_typed_rank_as_without_slips(predictor: rheostat.Predictor) -> None:
    plain = rheostat.load(slips=False)
    for text in ("see you at the ga", "I l", "how are y"):
        ours = [one for one in predictor.complete(text, 9) if one.kind != "correction"]
        theirs = {one.word: one.probability for one in plain.complete(text, 9)}
        assert all(one.probability == pytest.approx(theirs[one.word], rel=1e-5) for one in ours if one.word in theirs)
        assert [one.word for one in ours if one.word in theirs] == [w for w in theirs if w in {o.word for o in ours}]


def test_both_engines_find_the_same_words(predictor: rheostat.Predictor) -> None:
    pytest.importorskip("onnxruntime")
    with rheostat.load(engine="onnx", precision="fp32") as other, rheostat.load(precision="fp32") as core:
        for text in ("see you at the gane", "what are you dping", "i went tothe"):
            assert [one.word for one in other.complete(text)] == [one.word for one in core.complete(text)]


def test_taps_are_one_per_letter(predictor: rheostat.Predictor) -> None:
    middle: Any = [QWERTY.centre(letter) for letter in "gane"]
    assert predictor.complete("the gane", taps=middle)
    assert predictor.complete("the gane", taps=[None] * 4) == predictor.complete("the gane")
    for letters in ("µm", "İs", "жe", "don’t"):  # some letters have no key on any layout: then taps do not count
        assert predictor.complete(letters, taps=[(0, 0)] * len(letters)) == predictor.complete(letters)
    for wrong in (middle[:3], "gane", [(1, 2, 3)] * 4, [("a", 1)] * 4, [(math.nan, 1.0)] * 4, 7):
        with pytest.raises(RheostatError, match="one \\(x, y\\) or None per letter"):
            predictor.complete("the gane", taps=wrong)
    with pytest.raises(RheostatError, match="expected one of qwerty, qwertz, azerty, dvorak"):
        predictor.complete("the gane", layout="colemak")


def test_a_word_that_was_not_typed_is_a_correction_wherever_the_finger_came_down(
    predictor: rheostat.Predictor,
) -> None:
    taps: Any = [QWERTY.centre(letter) for letter in "hepp"]
    for place in ((8.6, 0.45), (8.7, 0.3)):  # nearer to "l", which makes it free; nearer to "p"
        taps[2] = place
        best = predictor.correct("i need hepp", taps=taps)[0]
        assert (best.word, best.kind, best.advice) == ("help", "correction", "correct")
        assert predictor.complete("i need hepp", taps=taps)[0].kind == "correction"
        assert [one.word for one in predictor.correct("i need HEPP", taps=taps)] == ["HEPP"], "capitals are left alone"


def test_a_tap_far_from_its_key_does_not_count(predictor: rheostat.Predictor) -> None:
    for far in ((12, 12), (-30.0, 1), (5.0, 3.5)):
        assert predictor.complete("i have a dog", taps=[far] * 3) == predictor.complete("i have a dog")
    for pixels in ((180, 560), (1e300, 1.0), (-1e9, 0)):
        with pytest.raises(RheostatError, match="expected x in key widths and y in key heights"):
            predictor.complete("i have a dog", taps=[pixels] * 3)


def test_a_layout_decides_which_letters_are_near(predictor: rheostat.Predictor) -> None:
    def confidence(layout: str) -> float:
        found = predictor.correct("see you next qeek", layout=layout)
        return next(one.confidence for one in found if one.word == "week")

    assert confidence("qwerty") > confidence("dvorak")


# --- what an app should do ---------------------------------------------------------------------------------


def test_advice_follows_the_thresholds() -> None:
    def advice(kind: Any, confidence: float, finished: bool = True) -> str:
        return Suggestion("word", 0.1, kind=kind, confidence=confidence, finished=finished).advice

    assert advice("correction", CORRECT_AT) == "correct"
    assert advice("correction", CORRECT_AT - 0.01) == "offer"
    assert advice("correction", 1.0, finished=False) == "offer", "an unfinished word is never replaced"
    assert advice("typed", 1.0) == "offer"
    assert advice("completion", OFFER_AT / 2) == "silent"
    assert advice("completion", 0.0, finished=False) == "offer", "a next word"


def test_the_documented_thresholds_and_prices_are_those_of_the_code() -> None:
    page = DOCS.read_text()
    assert f"| `correct` | {CORRECT_AT:g} |" in page and f"| `offer` | {OFFER_AT:g} |" in page
    for name, price in vars(PRICES).items():
        assert f"| `{name}` | {price:g} |" in page, name


# --- the simulated typist ----------------------------------------------------------------------------------


def test_the_typist_slips_on_the_second_letter_of_longer_words() -> None:
    chance = random.Random(1)
    for word in ("there", "don't"):
        slipped = slip_to_neighbour(word, QWERTY, chance)
        assert slipped[1] in QWERTY.neighbours(word[1]) and slipped[0] + slipped[2:] == word[0] + word[2:]
    assert slip_to_neighbour("the", QWERTY, chance) == "the" and slip_to_neighbour("u.s.a", QWERTY, chance) == "u.s.a"


def test_corrections_are_counted_as_they_are_defined(predictor: rheostat.Predictor) -> None:
    counted = count_corrections(
        predictor, ["what", "are", "you", "doing?", "\n", "42"], lambda word: (word.replace("doing", "dping"), None)
    )
    assert (counted.words, counted.slipped, counted.right, counted.changed) == (4, 1, 4, 0)
    left = count_corrections(predictor, ["dping"], lambda word: ("zzzzzz", None))
    assert (left.right_share, left.changed_share) == (0.0, 0.0)


def test_slips_cost_fewer_keystrokes_than_without_help(predictor: rheostat.Predictor) -> None:
    words = ["they", "never", "understand", "anything", "about", "breakfast", "\n", "somebody", "borrowed", "umbrellas"]

    def share(of: rheostat.Predictor) -> float:
        chance = random.Random(1)
        return savings_with_slips(of, words, 5, lambda word: slip_to_neighbour(word, QWERTY, chance)).saved_share

    with rheostat.load(slips=False) as plain:
        assert share(predictor) > share(plain)
