"""`rheostat suggest` and `rheostat demo`: the next word."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from rheostat.cli.console import print_json, results
from rheostat.model_file import ModelFile, open_model
from rheostat.vocabulary import tokenize

STARTS = ("how are you", "i would like to", "what do you think about")


def suggest(
    text: Annotated[str, typer.Argument(help="What has been typed so far.")],
    model: Annotated[Path, typer.Option(help="A model file.")],
    k: Annotated[int, typer.Option("-k", min=1, help="How many suggestions.")] = 3,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Suggest the next word.

    Example: rheostat suggest "see you at the" --model runs/chat/model.safetensors
    """
    with open_model(model) as file:
        suggestions = _suggest(file, [text], k)[0]
    if json:
        print_json({"text": text, "suggestions": [{"word": w, "probability": p} for w, p in suggestions]})
    else:
        for word, probability in suggestions:
            print(f"{word}\t{probability:.3f}")


def demo() -> None:
    """Train the tiny recipe on chat messages and show what it suggests.

    Example: rheostat demo
    """
    from rheostat.cli.train import train

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "tiny"
        train("tiny", out=out)
        with open_model(out / "model.safetensors") as file:
            suggestions = _suggest(file, list(STARTS), 3)
    table = Table("typed so far", "suggestions")
    for start, words in zip(STARTS, suggestions, strict=True):
        table.add_row(start, "   ".join(f"{word} ({probability:.0%})" for word, probability in words))
    results.print(table)
    print("Next: rheostat train chat -o runs/chat    a real model of the same text (rheostat train --help)")


def _suggest(file: ModelFile, texts: list[str], k: int) -> list[list[tuple[str, float]]]:
    from rheostat.training.evaluation import next_words
    from rheostat.training.language_model import LanguageModel

    model, vocabulary = LanguageModel.from_weights(file.shape, file.weights()), file.vocabulary
    never = [vocabulary.unknown_id, vocabulary.end_id]
    answers = []
    for text in texts:
        # A text begins where a line ends.
        ids = [vocabulary.end_id, *vocabulary.encode(tokenize(text, file.tokenizer))]
        answers.append([(vocabulary.words[i], p) for i, p in next_words(model, ids, k, never)])
    return answers
