"""How keystrokes saved are shown: with the sample that was typed, the most that could be saved, and the protocol.

Knows figures of results files; `measure.keystrokes` does the typing.
"""

from __future__ import annotations

from collections.abc import Sequence

from rheostat.measure.results.shared import KeystrokeFigures

OLDER = "older protocol"
OLDER_SENTENCE = (
    f"“{OLDER.capitalize()}”: a space before a line end was charged, and the most that could be saved was not counted; "
    "measure again to compare with other rows."
)


def saved_text(typed: Sequence[KeystrokeFigures]) -> str:
    """The share of keystrokes saved, mean over seeds; empty if nothing was typed."""
    if not typed:
        return ""
    share = f"{sum(one.keystrokes_saved_share for one in typed) / len(typed):.1%}"
    return f"{share} ({OLDER})" if any(is_older(one) for one in typed) else share


def limit_text(typed: KeystrokeFigures) -> str:
    """The most that any suggestions could save."""
    limit = typed.count.limit_share
    return OLDER if limit is None else f"{limit:.1%}"


def is_older(typed: KeystrokeFigures) -> bool:
    """Whether it was typed before the limit was counted and line ends were charged without a space."""
    return typed.keystrokes_fewest is None


def sample_sentence(typed: Sequence[KeystrokeFigures]) -> str:
    """How much was typed, and the most that could be saved; empty if nothing was typed."""
    if not typed:
        return ""
    words = " or ".join(f"{count:,}" for count in sorted({one.words for one in typed}))
    sentence = f"Keystrokes saved are over the first {words} words of the test text"
    limits = sorted({limit_text(one) for one in typed if not is_older(one)})
    if limits:
        sentence += f"; at most {' or '.join(limits)} could be saved, every word being taken with its first keystroke"
    return f"{sentence}." + (f" {OLDER_SENTENCE}" if any(map(is_older, typed)) else "")
