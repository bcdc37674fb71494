"""`rheostat typing`: keystrokes saved on everyday messages, by a model, n-grams and anyone's own predictor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rheostat.cli.console import (
    BUNDLED,
    JSON_HELP,
    MODEL_HELP,
    RESULTS_OUT_HELP,
    labelled_share,
    print_json,
    print_line,
    shown_even_if_not_written,
)

if TYPE_CHECKING:
    from rheostat.measure.results import TypingResults


def typing(
    model: Annotated[Path, typer.Argument(help=MODEL_HELP)] = BUNDLED,
    data: Annotated[
        str | None,
        typer.Option(help="The training corpus ('talk', or a folder): types its test text and counts n-grams."),
    ] = None,
    aac: Annotated[
        Path | None, typer.Option(help="A folder with dev.txt and test.txt, one message per line: types these too.")
    ] = None,
    split: Annotated[Literal["test", "dev"], typer.Option(help="What to type: test, or dev to tune on.")] = "test",
    knob: Annotated[
        list[float] | None, typer.Option(help="A share of the cost; by default 1, 0.5, 0.25 and 0.15. May be repeated.")
    ] = None,
    order: Annotated[
        list[int] | None,
        typer.Option(
            min=0, help="The length of the longest n-grams; 4, 3 and 1 by default; 0 = none. May be repeated."
        ),
    ] = None,
    words: Annotated[int, typer.Option(min=1, help="Number of words to type of each text of conversations.")] = 5000,
    predictor: Annotated[
        list[str] | None,
        typer.Option(help="Your own predictor with complete(text, k) -> words, as module:object. May be repeated."),
    ] = None,
    misspellings: Annotated[
        Path | None,
        typer.Option(help="A list of misspellings, such as codespell's dictionary: say which of them were suggested."),
    ] = None,
    slips: Annotated[
        bool, typer.Option("--slips", help="Also type the AAC messages with slips, and correct them automatically.")
    ] = False,
    senders: Annotated[
        int,
        typer.Option(
            min=0, max=40, help="Chitchat senders who type with a memory and without, at the first and last knob."
        ),
    ] = 0,
    old: Annotated[
        Path | None,
        typer.Option(help="The model that this one replaces: compare perplexity on shared words, and query time."),
    ] = None,
    page: Annotated[Path | None, typer.Option(help="Also write a page in Markdown to this file.")] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help=RESULTS_OUT_HELP)] = None,
    json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Count the keystrokes that suggestions save in typing.

    Types everyday messages (--aac) and the test conversations of a corpus (--data). Measures the model at several knob
    positions, n-grams of the same training text, and predictors of your own. Intervals are 95 %, by bootstrap;
    differences from the best n-gram are paired. --slips adds typing with slips, --senders a memory.

    Example: rheostat typing model.safetensors --data talk --aac DIR/talk/aac -o results/typing.json
    """
    from rheostat.measure.results import check_results_target, results_json
    from rheostat.measure.typing import KNOBS, ORDERS, find_predictor, measure_typing
    from rheostat.report.typing_page import write_typing_page

    if page is not None:
        check_results_target(page)
    own = {name: find_predictor(name) for name in predictor or ()}

    def show(found: TypingResults) -> None:
        print_json(results_json(found)) if json else print_line("\n".join(_lines(found)))

    with shown_even_if_not_written(show) as keep, labelled_share() as progress:
        found = measure_typing(
            model,
            data=data,
            aac=aac,
            split=split,
            knobs=knob or KNOBS,
            orders=ORDERS if order is None else [one for one in order if one],
            words=words,
            predictors=own,
            misspellings=misspellings,
            slips=slips,
            senders=senders,
            old=old,
            out=out,
            progress=progress,
            on_results=keep,
        )
    if page is not None:
        write_typing_page(found, page)
    for path in (out, page):
        if path is not None and not json:
            print_line(path)


def _lines(found: TypingResults) -> list[str]:
    lines = []
    for text in found.texts:
        lines.append(f"{text.name}, {text.slots} slots, {text.words:,} words: saved · next word · never")
        for predictor in found.predictors:
            row = found.row(text, predictor)
            if row is not None:
                shares = f"{row.saved_share:6.1%} · {row.next_word_share:.1%} · {row.never_share:.1%}"
                over = "" if row.over_ngram is None else f"  ({100 * row.over_ngram:+.1f} points over the best n-gram)"
                lines.append(f"  {predictor.name:<32} {shares}{over}")
    for predictor in found.predictors:
        if predictor.misspelt is not None:
            listed = ", ".join(predictor.misspelt[:10]) or "none"
            lines.append(f"misspellings suggested by {predictor.name}: {len(predictor.misspelt)} ({listed})")
    return lines
