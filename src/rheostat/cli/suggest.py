"""`rheostat suggest`: the next word."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rheostat.cli.console import BUNDLED, MODEL_HELP, HiddenWordsFile, print_json
from rheostat.errors import RheostatError
from rheostat.runtime.onnx.quantization import Precision

if TYPE_CHECKING:
    from rheostat.runtime.predictor import Predictor

LARGEST_K = 100


def suggest(
    text: Annotated[
        str | None, typer.Argument(help="What has been typed so far; without it, type in the terminal.")
    ] = None,
    model: Annotated[Path, typer.Option(help=MODEL_HELP)] = BUNDLED,
    prefix: Annotated[str, typer.Option(help="What has been typed of the next word.")] = "",
    k: Annotated[int, typer.Option("-k", min=1, max=LARGEST_K, help="How many suggestions.")] = 3,
    knob: Annotated[float, typer.Option(help="Share of the FLOPs that may be spent.")] = 1.0,
    point: Annotated[str | None, typer.Option(help="Use the stored point of this name.")] = None,
    precision: Annotated[Precision, typer.Option(help="int8, fp32 or int4.")] = "int8",
    threads: Annotated[int, typer.Option(min=0, help="Processor threads; 0: one a physical core.")] = 0,
    words: Annotated[Path | None, typer.Option(help="A file of words that you taught; made if absent.")] = None,
    hidden_words: HiddenWordsFile = None,
    learn: Annotated[list[str] | None, typer.Option(help="Teach a word first; repeat it; kept with --words.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Suggest the next word. Without a text, type in the terminal and see suggestions, knob and ms/query live.

    Example: rheostat suggest "see you at the" --knob 0.6 --prefix ga
    """
    from rheostat.runtime.predictor import Predictor

    predictor = Predictor(
        model,
        knob,
        point=point,
        precision=precision,
        threads=threads,
        user_words=words,
        hidden_words=hidden_words,
    )
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
