"""`rheostat suggest` and `rheostat complete`: suggest the next word, and complete the word being typed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from rheostat.cli.console import (
    BUNDLED,
    JSON_HELP,
    KNOB_HELP,
    MODEL_HELP,
    POINT_HELP,
    PRECISION_HELP,
    THREADS_HELP,
    HiddenWordsFile,
    print_json,
    print_line,
)
from rheostat.errors import RheostatError
from rheostat.model.precision import Precision
from rheostat.runtime.arguments import LARGEST_K

if TYPE_CHECKING:
    from rheostat.runtime.predictor import Predictor
    from rheostat.words.writing import Suggestion

Model: TypeAlias = Annotated[Path, typer.Option(help=MODEL_HELP)]
Count: TypeAlias = Annotated[int, typer.Option("-k", min=1, max=LARGEST_K, help="Number of suggestions.")]
Knob: TypeAlias = Annotated[float, typer.Option(help=KNOB_HELP)]
Point: TypeAlias = Annotated[str | None, typer.Option(help=POINT_HELP)]
Arithmetic: TypeAlias = Annotated[Precision, typer.Option(help=PRECISION_HELP)]
Threads: TypeAlias = Annotated[int, typer.Option(min=0, help=THREADS_HELP)]
Words: TypeAlias = Annotated[Path | None, typer.Option(help="A file of learned words; created if missing.")]
Learn: TypeAlias = Annotated[
    list[str] | None, typer.Option(help="Learn a word first, and store it if --words is given. May be repeated.")
]
MemoryFile: TypeAlias = Annotated[
    Path | None, typer.Option(help="A memory file: counts of what one user writes; created if missing.")
]
NoSlips: TypeAlias = Annotated[bool, typer.Option("--no-slips", help="Take every letter as it was typed.")]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help=JSON_HELP)]


def suggest(
    text: Annotated[str | None, typer.Argument(help="A text of whole words; without it, type in the terminal.")] = None,
    model: Model = BUNDLED,
    prefix: Annotated[str, typer.Option(help="The beginning of the next word.")] = "",
    k: Count = 3,
    knob: Knob = 1.0,
    point: Point = None,
    precision: Arithmetic = "int8",
    threads: Threads = 0,
    words: Words = None,
    hidden_words: HiddenWordsFile = None,
    learn: Learn = None,
    memory: MemoryFile = None,
    no_slips: NoSlips = False,
    json: AsJson = False,
) -> None:
    """Suggest the next word.

    Without a text, type in the terminal and see suggestions, the knob and the time of a query live. If the last word of
    the text is unfinished, use `rheostat complete`.

    Example: rheostat suggest "see you at the" --knob 0.6 --prefix ga
    """
    predictor = _load(model, knob, point, precision, threads, words, hidden_words, learn, memory, not no_slips)
    if text is None:
        _type(predictor)
    else:
        asked = {"text": text, "prefix": prefix}
        executed = partial(predictor.executed_flops, text, k, prefix)
        _answer(predictor, asked, partial(predictor.suggest, text, k, prefix), json, executed)


def complete(
    text: Annotated[str, typer.Argument(help="The text before the cursor; its last word may be unfinished.")],
    model: Model = BUNDLED,
    k: Count = 3,
    knob: Knob = 1.0,
    point: Point = None,
    precision: Arithmetic = "int8",
    threads: Threads = 0,
    words: Words = None,
    hidden_words: HiddenWordsFile = None,
    learn: Learn = None,
    memory: MemoryFile = None,
    no_slips: NoSlips = False,
    finished: Annotated[
        bool, typer.Option("--finished", help="Treat the last word as finished, and say what may have been meant.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Complete the word being typed.

    That is the last word of the text; its letters may have been typed wrong. After a space, the next word is suggested.
    For a text of whole words, use `rheostat suggest`.

    Example: rheostat complete "See you at the ga" --knob 0.6
    """
    predictor = _load(model, knob, point, precision, threads, words, hidden_words, learn, memory, not no_slips)
    query = predictor.correct if finished else predictor.complete
    _answer(predictor, {"text": text}, partial(query, text, k), json)


def _load(
    model: Path,
    knob: float,
    point: str | None,
    precision: Precision,
    threads: int,
    words: Path | None,
    hidden_words: Path | None,
    learn: list[str] | None,
    memory: Path | None,
    slips: bool,
) -> Predictor:
    from rheostat.runtime.predictor import load

    predictor = load(
        model,
        knob,
        point=point,
        precision=precision,
        threads=threads,
        user_words=words,
        hidden_words=hidden_words,
        memory=memory,
        slips=slips,
    )
    for word in learn or ():
        predictor.learn(word)
    return predictor


def _shown(probability: float) -> str:
    """Three decimals; of a small probability two digits, since 0.000 would read as impossible."""
    return f"{probability:.3f}" if probability >= 0.001 else f"{probability:.1e}"


def _answer(
    predictor: Predictor,
    asked: dict[str, Any],
    query: Callable[[], list[Suggestion]],
    as_json: bool,
    executed_flops: Callable[[], int] | None = None,
) -> None:
    start = time.perf_counter()
    suggestions = query()
    query_ms = 1000 * (time.perf_counter() - start)
    if not as_json:
        for suggestion in suggestions:
            note = "" if suggestion.kind == "completion" else f"\t{suggestion.kind}"
            print_line(f"{suggestion.word}\t{_shown(suggestion.probability)}{note}")
        return
    facts = asked | {
        "point": predictor.point.name,
        "knob": predictor.knob,
        "cost": predictor.cost,
        "flops_fraction": predictor.flops_fraction,
        "first_query_ms": query_ms,
        "flops": predictor.point.cut_shape(predictor.shape).flops,
    }
    if executed_flops:
        facts["executed_flops"] = executed_flops()
    facts["suggestions"] = [suggestion._asdict() for suggestion in suggestions]
    print_json(facts)


def _type(predictor: Predictor) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise RheostatError(
            'no text was given, and this is not a terminal to type in; expected a text: rheostat suggest "see you"'
        )
    from rheostat.cli.typing_screen import type_in_terminal

    print_line(type_in_terminal(predictor))
    predictor.close()
