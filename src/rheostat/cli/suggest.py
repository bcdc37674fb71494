"""`rheostat suggest` and `rheostat demo`: the next word."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from rheostat.cli.console import print_json, results
from rheostat.errors import RheostatError
from rheostat.runtime.quantization import Precision

if TYPE_CHECKING:
    from rheostat.runtime.predictor import Predictor

LARGEST_K = 100
STARTS = ("how are you", "i would like to", "what do you think about")


def suggest(
    model: Annotated[Path, typer.Option(help="A model file.")],
    text: Annotated[
        str | None, typer.Argument(help="What has been typed so far; without it, type in the terminal.")
    ] = None,
    prefix: Annotated[str, typer.Option(help="What has been typed of the next word.")] = "",
    k: Annotated[int, typer.Option("-k", min=1, max=LARGEST_K, help="How many suggestions.")] = 3,
    knob: Annotated[float, typer.Option(help="Share of the FLOPs that may be spent.")] = 1.0,
    point: Annotated[str | None, typer.Option(help="Use the stored point of this name.")] = None,
    precision: Annotated[Precision, typer.Option(help="int8, fp32 or int4.")] = "int8",
    threads: Annotated[int, typer.Option(min=0, help="Processor threads; 0: one a physical core.")] = 0,
    words: Annotated[Path | None, typer.Option(help="A file of words that you taught; made if absent.")] = None,
    learn: Annotated[list[str] | None, typer.Option(help="Teach a word first; repeat it; kept with --words.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Suggest the next word. Without a text, type in the terminal and see suggestions, knob and ms/query live.

    Example: rheostat suggest "see you at the" --model model.safetensors --knob 0.6 --prefix ga
    """
    from rheostat.runtime.predictor import Predictor

    predictor = Predictor(model, knob, point=point, precision=precision, threads=threads, user_words=words)
    for word in learn or ():
        predictor.learn(word)
    if text is None:
        _type(predictor)
        return
    start = time.perf_counter()
    suggestions = predictor.suggest(text, k, prefix)
    query_ms = 1000 * (time.perf_counter() - start)
    if json:
        facts = {"text": text, "prefix": prefix, "point": predictor.point.name, "knob": predictor.knob}
        facts |= {"flops_fraction": predictor.flops_fraction, "first_query_ms": query_ms}
        facts |= {"flops": predictor.point.cut_shape(predictor.shape).flops}
        facts |= {"executed_flops": predictor.executed_flops(text, k, prefix)}
        offered = [{"word": s.word, "probability": s.probability, "source": s.source} for s in suggestions]
        print_json(facts | {"suggestions": offered})
    else:
        for suggestion in suggestions:
            print(f"{suggestion.word}\t{suggestion.probability:.3f}")


def _type(predictor: Predictor) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise RheostatError("no text was given, and this is not a terminal to type in; expected a text")
    from rheostat.cli.typing_screen import type_in_terminal

    print(type_in_terminal(predictor))


def demo() -> None:
    """Train the tiny recipe on chat messages and show what it suggests.

    Example: rheostat demo
    """
    from rheostat.cli.train import train
    from rheostat.runtime.predictor import Predictor

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "tiny"
        train("tiny", out=out)
        predictor = Predictor(out / "model.safetensors")
        table = Table("typed so far", "suggestions")
        for start in STARTS:
            table.add_row(start, "   ".join(f"{s.word} ({s.probability:.0%})" for s in predictor.suggest(start)))
    results.print(table)
    print("Next: rheostat train chat -o runs/chat    a real model of the same text (rheostat train --help)")
