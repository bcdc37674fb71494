"""`rheostat ngram`: the baseline without a network, measured like a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rheostat.cli.console import labelled_share, print_json
from rheostat.recipe import recipe_names

if TYPE_CHECKING:
    from rheostat.measure.results import NGramResults


def ngram(
    recipe: Annotated[
        str, typer.Argument(help=f"The recipe of a model on the same words ({', '.join(recipe_names())}), or a .toml.")
    ],
    data: Annotated[
        str | None,
        typer.Option(help="A folder with train, valid and test text, 'chat' or 'talk'; the recipe's own by default."),
    ] = None,
    order: Annotated[int, typer.Option(min=2, help="The length of the longest n-grams.")] = 5,
    queries: Annotated[int, typer.Option(min=2, help="Number of timed queries.")] = 350,
    warm_up: Annotated[int, typer.Option(min=0, help="Warm-up queries, which are not timed.")] = 20,
    words: Annotated[int, typer.Option(min=1, help="Number of words of the test text to type.")] = 2000,
    arpa: Annotated[Path | None, typer.Option(help="Also write the model, in the ARPA format.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Compare the test perplexity with kenlm's (needs the ngram extra).")
    ] = False,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The results file to write.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Estimate a 5-gram model with modified Kneser–Ney smoothing, and measure it as models are measured.

    Perplexity and R@1/3/5 on valid and test, keystrokes saved, bytes, and ms per query. The recipe says how text is
    split into words, so that the figures can be compared with those of a model that was trained by it.

    Example: rheostat ngram ptb --data DIR -o results/ptb-ngram.json
    """
    from rheostat.measure.ngram_baseline import measure_ngram
    from rheostat.measure.results import results_json

    measured: list[NGramResults] = []
    try:
        with labelled_share() as progress:
            measure_ngram(
                recipe,
                data=data,
                order=order,
                queries=queries,
                warm_up=warm_up,
                words=words,
                check=check,
                out=out,
                arpa=arpa,
                progress=progress,
                on_results=measured.append,
            )
    finally:  # what was measured is shown even if it cannot be written
        for found in measured:
            print_json(results_json(found)) if json else print("\n".join(_lines(found)))
    for path in (out, arpa):
        if path is not None and not json:
            print(path)


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
