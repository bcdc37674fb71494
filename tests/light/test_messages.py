"""Everyday messages: does the bundled model suggest what anyone would expect?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rheostat
from messages import MESSAGES

ROOT = Path(__file__).parents[2]
NUMBERS = {8: "eight", 9: "nine", 10: "ten", 20: "twenty"}

# What the bundled model does not have among its three, exactly. A better model empties this list.
MISSED = {
    "Happy",
    "Congratulations on the new",
    "The train is running",
    "See you",
    "What would you like to",
    "Can you pick up some",
    "Do you want to go out for",
    "Sorry I'm",
    "Good luck with your",
}


def test_the_bundled_model_suggests_the_next_word_of_everyday_messages() -> None:
    with rheostat.load() as predictor:
        missed = {
            text for text, word in MESSAGES if word not in {one.word.lower() for one in predictor.suggest(text, k=3)}
        }
    assert missed == MISSED


@pytest.mark.parametrize(
    ("page", "names_all"), [("src/rheostat/bundled/chat.md", True), ("docs/default-model.md", False)]
)
def test_the_card_and_the_page_say_how_many_messages_are_missed(page: str, names_all: bool) -> None:
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    (said,) = re.findall(r"Of (\w+) everyday messages, it misses (\w+):(.*)", text)
    assert said[:2] == (NUMBERS[len(MESSAGES)], NUMBERS[len(MISSED)])
    named = set(re.findall(r'"([^"]+)" \(\*(\w+)\*\)', said[2]))
    missed = {(beginning, word) for beginning, word in MESSAGES if beginning in MISSED}
    assert named == missed if names_all else {("Happy", "birthday"), ("See you", "tomorrow")} <= named <= missed


def test_the_readme_shows_what_the_program_suggests() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    text, words = re.search(r'^rheostat suggest "([^"]+)" +# ([^;]+);', readme, re.MULTILINE).groups()  # type: ignore[union-attr]
    with rheostat.load() as predictor:
        assert [one.word for one in predictor.suggest(text, k=3)] == words.split(", ")


def test_there_are_twenty_different_messages() -> None:
    assert len(dict(MESSAGES)) == len(MESSAGES) == 20 and set(dict(MESSAGES)) >= MISSED
