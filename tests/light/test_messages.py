"""Everyday messages: does the bundled model suggest what anyone would expect?"""

from __future__ import annotations

import re
from pathlib import Path

import rheostat
from messages import MESSAGES

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


def test_the_readme_shows_what_the_program_suggests() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    text, words = re.search(r'^rheostat suggest "([^"]+)" +# ([^;]+);', readme, re.MULTILINE).groups()  # type: ignore[union-attr]
    with rheostat.load() as predictor:
        assert [one.word for one in predictor.suggest(text, k=3)] == words.split(", ")


def test_there_are_twenty_different_messages() -> None:
    assert len(dict(MESSAGES)) == len(MESSAGES) == 20 and set(dict(MESSAGES)) >= MISSED
