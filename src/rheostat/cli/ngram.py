"""`rheostat ngram`: an n-gram baseline, measured like a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rheostat.cli.console import (
    JSON_HELP,
    RESULTS_OUT_HELP,
    labelled_share,
    print_json,
    print_line,
    shown_even_if_not_written,
)
from rheostat.recipe import recipe_names

if TYPE_CHECKING:
    from rheostat.measure.results import NGramResults


def ngram(
    recipe: Annotated[
        str,
        typer.Argument(help=f"The recipe of a model to compare with ({', '.join(recipe_names())}), or a .toml file."),
    ],
    data: Annotated[
        str | None,
        typer.Option(
            help="A folder with train, valid and test text, one text file, which is divided into them, 'chat' or "
            "'talk'; by default the recipe's."
        ),
    ] = None,
    text: Annotated[
        Path | None, typer.Option(help="A text file to measure on in place of the test split; it names the results.")
    ] = None,
    order: Annotated[int, typer.Option(min=2, help="The length of the longest n-grams.")] = 5,
    queries: Annotated[int, typer.Option(min=2, help="Number of timed queries.")] = 350,
    warm_up: Annotated[int, typer.Option(min=0, help="Number of warm-up queries.")] = 20,
    words: Annotated[int, typer.Option(min=1, help="Number of words to type in the typing simulation.")] = 2000,
    arpa: Annotated[Path | None, typer.Option(help="Also write the model to this file, in the ARPA format.")] = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option(help="A vocabulary file with one word and its count per line, as the model's was trained with."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare the test perplexity with kenlm's (needs the ngram extra).")
    ] = False,
    out: Annotated[Path | None, typer.Option("-o", "--out", help=RESULTS_OUT_HELP)] = None,
    json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Build an n-gram baseline and measure it like a model.

    Estimates an n-gram model with modified Kneser–Ney smoothing. Measures perplexity and R@1/3/5 on valid and test,
    keystrokes saved, bytes, and ms per query. The recipe says how text is split into words, so the figures can be
    compared with those of a model trained with that recipe.

    Example: rheostat ngram ptb --data DIR -o results/ptb-ngram.json
    """
    from rheostat.measure.ngram_baseline import measure_ngram
    from rheostat.measure.results import results_json

    def show(found: NGramResults) -> None:
        print_json(results_json(found)) if json else print_line("\n".join(_lines(found)))

    with shown_even_if_not_written(show) as keep, labelled_share() as progress:
        measure_ngram(
            recipe,
            data=data,
            text=text,
            order=order,
            queries=queries,
            warm_up=warm_up,
            words=words,
            check=check,
            out=out,
            arpa=arpa,
            vocabulary=vocabulary,
            progress=progress,
            on_results=keep,
        )
    for path in (out, arpa):
        if path is not None and not json:
            print_line(path)


def _lines(found: NGramResults) -> list[str]:
    lines = [f"{found.name}, {found.subject.megabytes:.1f} MB"]
    for row in found.rows:
        recall = f"R@1 {row.recall_at_1:.2%}  R@3 {row.recall_at_3:.2%}  R@5 {row.recall_at_5:.2%}"
        lines.append(f"{row.split}: perplexity {row.perplexity:.3f}  {recall}  ({row.tokens:,} predictions)")
    if found.kenlm_perplexity is not None:
        lines.append(f"test, by kenlm: perplexity {found.kenlm_perplexity:.3f}")
    typing, latency = found.keystrokes, found.latency
    lines.append(f"{typing.keystrokes_saved_share:.1%} of the keystrokes saved over {typing.words:,} words")
    lines.append(f"{latency.latency_ms:.3g} ms per query (p95 {latency.p95_ms:.3g})")
    return lines
