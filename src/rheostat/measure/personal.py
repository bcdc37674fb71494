"""What a memory is worth: senders that no training text contains type their messages, with a memory and without.

Knows senders, messages and keystrokes; `words.memory` is what is measured.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from rheostat.measure.keystrokes import KeystrokeCount, as_plain, offered, signs_and_word, simulate
from rheostat.measure.slips import first_correction, slip_at_random
from rheostat.runtime.predictor import Predictor
from rheostat.words.memory import NEW_WORD_COUNT
from rheostat.words.slips import KeyLayout

FIRST_WORDS = (100, 500, 2000)
SLOTS = 3


def type_messages(predictor: Predictor, messages: Sequence[str]) -> dict[int, KeystrokeCount]:
    """Keystrokes for the first words of a sender; with a memory, it learns every message that was sent.

    Each message is typed from its start, after the ones before it were sent.
    """
    found: dict[int, KeystrokeCount] = {}
    typed = needed = words = taken = 0
    for message in messages:
        pieces = message.split()
        room = FIRST_WORDS[-1] - words
        count = simulate(pieces[:room], lambda text: offered(predictor, text, SLOTS))
        typed, needed = typed + count.typed, needed + count.needed
        words, taken = words + count.words, taken + count.taken
        for first in FIRST_WORDS:
            if words >= first and first not in found:
                found[first] = KeystrokeCount(typed, needed, words, taken)
        if words >= FIRST_WORDS[-1]:
            break
        predictor.watch().end(message)
    return found


def count_typos_learned(
    predictor: Predictor, messages: Sequence[str], layout: KeyLayout, seed: int, limit: int
) -> tuple[int, int]:
    """Slipped words that the memory learned as something else than was meant, and the words that were typed.

    The typist slips at the rates of `measure.slips`, lets the keyboard correct what it corrects automatically, notices
    nothing and sends every message as it stands. A word is learned once the memory can suggest it: a word that the
    model does not know, when it was written twice.
    """
    chance, wrong, words = random.Random(seed), 0, 0
    for message in messages:
        text, meant = "", list[str | None]()  # of each piece of the text: what was meant, if it was slipped
        for piece in message.split():
            before, wanted, after = signs_and_word(piece)
            keys, slip = slip_at_random(wanted, layout, chance) if wanted else ("", None)
            typed = text + before + keys
            best = first_correction(predictor, typed, keys, None) if keys else None
            shown = best.insert_into(typed)[len(text + before) :] if best else keys
            text += before + shown + after + " "
            meant += [as_plain(piece) if slip else None] * len((before + shown + after).split())
            words += 1
        learned = predictor.watch().end(text)
        wrong += sum(
            wanted is not None and as_plain(piece) != wanted and _can_suggest(predictor, found)
            for piece, wanted, found in zip(text.split(), meant, learned, strict=False)
        )
        if words >= limit:
            break
    return wrong, words


def _can_suggest(predictor: Predictor, learned: Sequence[str]) -> bool:
    """Whether the memory of a predictor can suggest one of these words, which it has just learned."""
    memory, known = predictor.memory, predictor.vocabulary.index
    return any(word in known or (memory is not None and memory.count(word) >= NEW_WORD_COUNT) for word in learned)
