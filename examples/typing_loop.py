"""A typing loop: suggestions while a word is typed, correction when it ends, and a memory of what was sent.

    python examples/typing_loop.py "what are you dping tonight"

Types the text letter by letter, as a user would, and prints what a keyboard would show.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import rheostat


def type_text(predictor: rheostat.Predictor, wanted: str) -> str:
    """Type a text and return what stands on the screen at last."""
    text, watch = "", predictor.watch()  # one watch per text field; watch(private=True) learns nothing
    for letter in wanted:
        if letter == " ":
            found = predictor.correct(text)  # the word is finished
            if found and found[0].advice == "correct":
                print(f"  {text.split()[-1]} → {found[0].word}")
                text = found[0].insert_into(text)
        text += letter
        watch.see(text)
        offered = [suggestion.word for suggestion in predictor.complete(text) if suggestion.advice != "silent"]
        print(f"{text!r:<40} {', '.join(offered)}")
    watch.end(text)  # the message is sent: what stands in it was meant
    return text


if __name__ == "__main__":
    with (
        tempfile.TemporaryDirectory() as folder,  # an app keeps the file of its memory
        rheostat.load(memory=Path(folder) / "memory.json") as predictor,
    ):
        print(type_text(predictor, " ".join(sys.argv[1:]) or "what are you dping tonight "))
