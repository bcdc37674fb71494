"""Twenty everyday messages: births, trains, food, plans, thanks, apologies.

Each is a beginning and the word that anyone would expect among three suggestions. None is from a test text.

By git, they were written after the base's first run and its first continuation, and before its last two continuations
and the graded run. They were not changed since.
"""

from __future__ import annotations

MESSAGES: tuple[tuple[str, str], ...] = (
    ("Happy", "birthday"),
    ("Congratulations on the new", "baby"),
    ("I'm on my", "way"),
    ("The train is running", "late"),
    ("I'll be there in five", "minutes"),
    ("See you", "tomorrow"),
    ("Thank you so", "much"),
    ("How are", "you"),
    ("Let me", "know"),
    ("What would you like to", "eat"),
    ("Can you pick up some", "milk"),
    ("Do you want to go out for", "dinner"),
    ("I'm so", "sorry"),
    ("Sorry I'm", "late"),
    ("What time does the movie", "start"),
    ("Have a great", "day"),
    ("I miss you so", "much"),
    ("Good luck with your", "exam"),
    ("I can't wait to see", "you"),
    ("Are you free this", "weekend"),
)
