"""Generating the constants and tables that the page's JavaScript shares with Python.

    python -m rheostat.keyboard.page_tables

writes `static/tables.js`. The tables are defined in Python; the scripts import them instead of repeating them, and a
test checks that the file is up to date. Knows which tables the page needs; their own modules explain them.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rheostat.core import word_tree
from rheostat.governor import decision, device
from rheostat.runtime import engine, explaining, reading, remembering
from rheostat.runtime.arguments import DEFAULT_LAYOUT
from rheostat.text import casing, known_words, tokenizers, vocabulary
from rheostat.words import completion, memory, passage, slips, user_words, writing

PATH = Path(__file__).parent / "static" / "tables.js"
_HEADING = "// Generated from the Python sources by: python -m rheostat.keyboard.page_tables. Do not edit.\n"


def tables() -> dict[str, Any]:
    """Every table by its name in JavaScript."""
    return {
        "UNKNOWN": vocabulary.UNKNOWN,
        "END_OF_LINE": vocabulary.END_OF_LINE,
        "NUMBER": vocabulary.NUMBER,
        "SPECIAL_TOKENS": vocabulary.SPECIAL_TOKENS,
        "PTB_NUMBER": tokenizers.PTB_NUMBER,
        "PTB_SIGNS": tokenizers.PTB_SIGNS,
        "WIKITEXT_JOINTS": tokenizers.WIKITEXT_JOINTS,
        "FOLDED_CHARACTERS": tokenizers.FOLDED_CHARACTERS,
        "ABBREVIATIONS": tokenizers.ABBREVIATIONS,
        "CLITICS": tokenizers.CLITICS,
        "PTB_CLITICS": tokenizers.PTB_CLITICS,
        "AFTER_APOSTROPHE": tokenizers.AFTER_APOSTROPHE,
        "NEGATED": tokenizers.NEGATED,
        "SENTENCE_ENDS": casing.SENTENCE_ENDS,
        "CONTEXT_LIMIT": passage.CONTEXT_LIMIT,
        "CHARACTERS_PER_WORD": passage.CHARACTERS_PER_WORD,
        "BLOCK": passage.BLOCK,
        "LONGEST_WORD": writing.LONGEST_WORD,
        "SENTENCE_LOOK_BACK": writing.SENTENCE_LOOK_BACK,
        "NUMBER_SIGNS": passage.NUMBER_SIGNS,
        "APOSTROPHES": writing.APOSTROPHES,
        "INSIDE": writing.INSIDE,
        "UNFINISHED": writing.UNFINISHED,
        "BETWEEN_SENTENCES": writing.BETWEEN_SENTENCES,
        "NO_SPACE_BEHIND": writing.NO_SPACE_BEHIND,
        "WHOLE": completion.WHOLE,
        "PART": completion.PART,
        "SPARE": writing.SPARE,
        "REMEMBERED": reading.REMEMBERED,
        "RIVALS": explaining.RIVALS,
        "SHORTEST_PAIR": explaining.SHORTEST_PAIR,
        "BEST_PAIR": explaining.BEST_PAIR,
        "PAIRS": explaining.PAIRS,
        "FIRSTS": explaining.FIRSTS,
        "REACH": explaining.REACH,
        "MAX_TYPED": word_tree.MAX_TYPED,
        "MAX_EXPLAINED": word_tree.MAX_EXPLAINED,
        "PRICES": asdict(slips.PRICES),
        "LETTER_PRICES": list(slips.PRICES.of_letters().values()),
        "ENDINGS": slips.ENDINGS,
        "DOUBLING": slips.DOUBLING,
        "DOUBLED": slips.DOUBLED,
        "SOMETIMES_DOUBLED": slips.SOMETIMES_DOUBLED,
        "CAN_BE_NEGATED": slips.CAN_BE_NEGATED,
        "NEGATIONS": slips.NEGATIONS,
        "HYPHENS": slips.HYPHENS,
        "HASH_SEEDS": known_words.SEEDS,
        "KNOWN_HEADER_BYTES": known_words.HEADER_BYTES,
        "LEAST_KNOWN_LETTERS": known_words.LEAST_LETTERS,
        "POSSESSIVE": known_words.POSSESSIVE,
        "DEFAULT_LAYOUT": DEFAULT_LAYOUT,
        "KEY_LAYOUTS": {
            name: {"keys": layout.keys, "above_space": layout.above_space}
            for name, layout in slips.read_key_layouts().items()
        },
        "CORRECT_AT": writing.CORRECT_AT,
        "OFFER_AT": writing.OFFER_AT,
        "CACHE_DEFAULTS": asdict(engine.Cache()),
        "SETTLED": remembering.SETTLED,
        "MOST_AT_ONCE": remembering.MOST_AT_ONCE,
        "PIECES_BEFORE": remembering.PIECES_BEFORE,
        "LEARN_AT": remembering.LEARN_AT,
        "LEARN_AGAIN_AT": remembering.LEARN_AGAIN_AT,
        "CLOSING_SIGNS": remembering.CLOSING_SIGNS,
        "CORRECTED_AFTER": remembering.CORRECTED_AFTER,
        "MOST_CORRECTED": remembering.MOST_CORRECTED,
        "LONGEST_PHRASE": memory.LONGEST_PHRASE,
        "MEMORY_BYTES": memory.LIMIT_BYTES,
        "HALF_LIFE_SECONDS": memory.HALF_LIFE_SECONDS,
        "RECENT_MINUTES": memory.RECENT_MINUTES,
        "SETTLE_SECONDS": memory.SETTLE_SECONDS,
        "FLUSH_WORDS": memory.FLUSH_WORDS,
        "LEAST_COUNT": memory.LEAST_COUNT,
        "NEW_WORD_COUNT": memory.NEW_WORD_COUNT,
        "MOST_DOUBTFUL": memory.MOST_DOUBTFUL,
        "SHARES": memory.SHARES,
        "HALF_TRUSTED": memory.HALF_TRUSTED,
        "BYTES_PER_PHRASE": memory.BYTES_PER_PHRASE,
        "BYTES_PER_MINUTE": memory.BYTES_PER_MINUTE,
        "DOUBLING_SECONDS": user_words.DOUBLING_SECONDS,
        "MOST_USER_WORDS": user_words.DEFAULT_LIMIT,
        "LONGEST_USER_WORD": user_words.LONGEST_WORD,
        "HEATS": device.HEATS,
        "MOST_DOUBLINGS": decision.MOST_DOUBLINGS,
        "KNOB_UNIT": decision.KNOB_UNIT,
        "BUDGET_UNIT": decision.BUDGET_UNIT,
        "BUDGET_LOW": decision.BUDGET_LOW,
        "BUDGET_HIGH": decision.BUDGET_HIGH,
        "LARGEST_FACTOR": decision.LARGEST_FACTOR,
        "SMOOTHING": decision.SMOOTHING,
        "TINY": decision.TINY,
    }


def script() -> str:
    """The text of `static/tables.js`, in ASCII."""
    lines = (f"export const {name} = {_as_script(value)};\n" for name, value in tables().items())
    return _HEADING + "".join(lines)


def _as_script(value: Any) -> str:
    return f"new Set({json.dumps(sorted(value))})" if isinstance(value, frozenset) else json.dumps(value)


if __name__ == "__main__":
    PATH.write_text(script(), encoding="utf-8")
    print(f"wrote {PATH}")
