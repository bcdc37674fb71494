"""What a memory is worth: senders that no training text contains type their messages, with a memory and without.

Knows senders, messages and keystrokes; `words.memory` is what is measured.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from rheostat.measure.keystrokes import KeystrokeCount, as_plain, offered, signs_and_word, simulate
from rheostat.measure.slips import first_correction, slip_at_random
from rheostat.runtime.predictor import Predictor
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
    """Words that the memory learned although they were slips, and the words that were typed.

    The typist slips at the rates of `measure.slips`, lets the keyboard correct what it corrects by itself, notices
    nothing and sends every message as it stands.
    """
    chance, wrong, words = random.Random(seed), 0, 0
    for message in messages:
        text, wanted_pieces = "", []
        for piece in message.split():
            before, wanted, after = signs_and_word(piece)
            keys = slip_at_random(wanted, layout, chance)[0] if wanted else ""
            typed = text + before + keys
            best = first_correction(predictor, typed, keys, None) if keys else None
            shown = best.insert_into(typed)[len(text + before) :] if best else keys
            text += before + shown + after + " "
            wanted_pieces += [as_plain(piece)] * len((before + shown + after).split())
            words += 1
        pieces = text.split()
        learned = predictor.watch().end(text)
        wrong += sum(
            bool(found) and as_plain(piece) != wanted
            for piece, wanted, found in zip(pieces, wanted_pieces, learned, strict=False)
        )
        if words >= limit:
            break
    return wrong, words
