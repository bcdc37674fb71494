"""`rheostat ngram`: the baseline without a network, measured like a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rheostat.cli.console import labelled_share, print_json
from rheostat.corpus import CorpusConfig, load_corpus
from rheostat.errors import RecipeError
from rheostat.recipe import fill, read_recipe, recipe_names


def ngram(
    recipe: Annotated[
        str, typer.Argument(help=f"The recipe of a model on the same words ({', '.join(recipe_names())}), or a .toml.")
    ],
    data: Annotated[
        str | None,
        typer.Option(help="A folder with train, valid and test text, 'chat' or 'talk'; else the recipe's own."),
    ] = None,
    order: Annotated[int, typer.Option(min=2, help="The longest n-grams.")] = 5,
    queries: Annotated[int, typer.Option(min=2, help="Counted queries.")] = 350,
    warm_up: Annotated[int, typer.Option(min=0, help="Queries before anything counts.")] = 20,
    words: Annotated[int, typer.Option(min=1, help="How many words of the test text are typed.")] = 2000,
    arpa: Annotated[Path | None, typer.Option(help="Also write the model, in the ARPA format.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Ask kenlm for the test perplexity too (needs the ngram extra).")
    ] = False,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The results file to write.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Estimate a 5-gram model with modified Kneser–Ney smoothing, and measure it as models are measured.

    Perplexity and R@1/3/5 on valid and test, keystrokes saved, bytes, and ms of a query. The recipe tells how text
    becomes words, so that the figures stand beside those of a model that was trained by it.

    Example: rheostat ngram ptb --data DIR -o results/ptb-ngram.json
    """
    from rheostat.benchmark.ngram import write_arpa
    from rheostat.benchmark.ngram_baseline import NGramConfig, measure
    from rheostat.benchmark.results import write_results
    from rheostat.benchmark.texts import read_text

    tables = read_recipe(recipe)
    source = data or tables.get("data")
    if not source:
        raise RecipeError("no corpus: the recipe names none, so --data must; a folder, 'chat' or 'talk'")
    with labelled_share() as progress:
        words_as = fill(CorpusConfig, tables.get("corpus", {}), "corpus")
        corpus = load_corpus(source, words_as, progress=progress)
        text = read_text(source, words_as.tokenizer, max(words, queries + warm_up))
        config = NGramConfig(order, queries, warm_up, words, check)
        model, contents = measure(corpus, text, config, progress)
    if json:
        print_json(contents)
    else:
        for line in _lines(contents):
            print(line)
    # Last: what was measured is not lost with a file that cannot be written.
    if out is not None:
        write_results(out, contents)
    if arpa is not None:
        write_arpa(model, corpus.vocabulary.words, arpa)
    for path in (out, arpa):
        if path is not None and not json:
            print(path)


def _lines(contents: dict[str, Any]) -> list[str]:
    subject, latency, typing = contents["subject"], contents["latency"], contents["keystrokes"]
    lines = [f"{subject['model']}, {subject['smoothing']}, {subject['size_bytes'] / 1e6:.1f} MB"]
    for row in contents["rows"]:
        recall = "  ".join(f"R@{k} {row[f'recall_at_{k}']:.2%}" for k in (1, 3, 5))
        lines.append(f"{row['split']}: perplexity {row['perplexity']:.3f}  {recall}  ({row['tokens']:,} predictions)")
    if "kenlm_perplexity" in contents:
        lines.append(f"test, by kenlm: perplexity {contents['kenlm_perplexity']:.3f}")
    lines.append(f"{typing['keystrokes_saved_share']:.1%} of the keystrokes saved over {typing['words']:,} words")
    lines.append(f"{latency['latency_ms']:.3g} ms a query (p95 {latency['p95_ms']:.3g})")
    return lines
