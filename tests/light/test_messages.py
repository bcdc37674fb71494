"""Everyday messages: does the bundled model suggest what anyone would expect?"""

from __future__ import annotations

import rheostat
from messages import MESSAGES

# What the bundled model does not have among its three, exactly. A better model empties this list.
MISSED = {
    "Happy",
    "Congratulations on the new",
    "I'm on my",
    "The train is running",
    "See you",
    "What would you like to",
    "Can you pick up some",
    "Do you want to go out for",
    "Sorry I'm",
    "What time does the movie",
    "Good luck with your",
    "I can't wait to see",
    "Are you free this",
}


def test_the_bundled_model_suggests_the_next_word_of_everyday_messages() -> None:
    with rheostat.load() as predictor:
        missed = {
            text for text, word in MESSAGES if word not in {one.word.lower() for one in predictor.suggest(text, k=3)}
        }
    assert missed == MISSED


def test_there_are_twenty_different_messages() -> None:
    assert len(dict(MESSAGES)) == len(MESSAGES) == 20 and set(dict(MESSAGES)) >= MISSED
