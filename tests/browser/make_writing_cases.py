"""Write writing_cases.json: texts, and the answers of rheostat.words.writing.

    python tests/browser/make_writing_cases.py

The page has the same rules in JavaScript, for a browser without a server. The Python modules are the definition. Both
are tested with this file: by `test_writing_cases.py` in Python and in Node.js, and by the browser tests in a browser.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

from rheostat.text.tokenizers import tokenize
from rheostat.words.writing import at_sentence_start, compose, split_typed

PATH = Path(__file__).with_name("writing_cases.json")
END = 24  # characters
MIXED = 40  # texts
TOKENIZERS = ("words", "ptb", "wikitext")
CASING = {"monday": "Monday", "iphone": "iPhone", "usa": "USA", "paris": "Paris"}
WORDS = ("the", "i'm", "monday", "iphone", "n't", "'ll", "'Brien", "ßig", "ǆep")

TEXTS = (
    "", " ", "h", "How are y", "How are you", "How are you ", "how are you?", "how are you? ", "hi.\n",
    "hi.\n\n\nthere ", "I'", "I'm", "i’m", "don't", "don’", "DON'", "do n", "can't ", "cannot ", "it's",
    "James'", "James' ", "'tis", "the '90s", "O'Bri", "rock 'n' roll", "well-kn", "AT&", "AT&T ",
    "either/o", "1,000", "7:30 ", "3rd", "90s", "90's ", "5 %", "£5 ", "$ 5", "No. 5", "no. ", "Mr. ",
    "Mr. S", "the U.S. ", "in the U.S. and", "e.g. ", "I. ", "Wait... ", "wait…", "so -- ", "(", "(th",
    "\"Hell", "he said \"", "he said, \"he", "¿Qu", "¡hola", "snake_ca", "a_b_c ", "mail@exam", "#tag",
    "C++ ", "naïve caf", "cafe\u0301 ", "Straße", "ΣΊΣΥΦΟΣ", "σίσυφος", "İstan", "ＦＵＬＬ", "हिन्दी में",
    "नमस्ते। ", "مرحبا؟ ", "你好。", "你好", "ქართ", "👍", "👍🏽 ok", "👨‍👩‍👧 ", "🇩🇪🇫🇷", "1️⃣ ", "❤️ y",
    "zero\u200bwidth ", "soft\u00adhyphen", "می\u200cخواهم", "no\u00a0break", "tab\there", "line\u2028sep",
    "\x1ccontrol", "a\x85b", "²", "½ cup", "Ⅷ ", "x² + y", "²x", "ʼn", "ſt 1ſt 2ſ", "K 300K", "THE END",
    "ALL CAPS d", "Th", "tH", "IPh", "…", ". . .", "?!", "hello!\" ", "hello!) T", "*bold* ", "<unk> ",
    "@-@", "a.b.c",
)  # fmt: skip


def typed_case(text: str, tokenizer: str) -> dict[str, Any]:
    typed = split_typed(text, tokenizer)
    return {
        "text": text,
        "tokenizer": tokenizer,
        "tokens": tokenize(text, tokenizer),
        "typed": typed._asdict(),
        "starts_sentence": at_sentence_start(text),
        "suggestions": [_suggestion(word, text, tokenizer) for word in WORDS],
    }


def _suggestion(word: str, text: str, tokenizer: str) -> list[Any]:
    """[the word shown, how many characters it replaces, the end of the text with it]"""
    suggestion = compose(word, 0.5, split_typed(text, tokenizer), CASING, tokenizer=tokenizer)
    return [suggestion.word, suggestion.replaces, suggestion.insert_into(text)[-END:]]


def mixed_texts(count: int, seed: int = 1) -> list[str]:
    """Pieces of the texts in all orders, to test combinations of rules."""
    choice = random.Random(seed)
    pieces = [text[:12] for text in TEXTS if text]
    return ["".join(choice.choices(pieces, k=choice.randint(2, 6))) for _ in range(count)]


def long_text() -> str:
    """More words than are read, so it matters where reading starts."""
    return " ".join(f"word{number % 97}" for number in range(1500)) + " an"


def make_cases(mixed: int = MIXED) -> dict[str, Any]:
    texts = [*TEXTS, *mixed_texts(mixed)]
    cases = [typed_case(text, tokenizer) for tokenizer in TOKENIZERS for text in texts]
    cases.append(typed_case(long_text(), "words"))
    return {"casing": CASING, "words": list(WORDS), "cases": cases}


if __name__ == "__main__":
    cases = make_cases(int(sys.argv[1]) if len(sys.argv) > 1 else MIXED)
    out = Path(sys.argv[2]) if len(sys.argv) > 2 else PATH
    out.write_text(json.dumps(cases, ensure_ascii=True, separators=(",", ":")).replace('{"text"', '\n{"text"') + "\n")
