"""`rheostat count`: add a small n-gram model of the training text to a model file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheostat.cli.console import DATA_HELP, JSON_HELP, MODEL_OUT_HELP, labelled_share, print_json, print_line


def count(
    model: Annotated[Path, typer.Argument(help="A model file with a plain softmax.")],
    data: Annotated[str, typer.Option(help=DATA_HELP)],
    out: Annotated[Path, typer.Option("-o", "--out", help=MODEL_OUT_HELP)],
    order: Annotated[int, typer.Option(min=2, max=4, help="The length of the longest n-grams.")] = 4,
    megabytes: Annotated[float, typer.Option(help="Room for the counts in the file.")] = 1.7,
    knob: Annotated[
        list[float] | None,
        typer.Option(help="A position to tune weights for; by default 1, 0.5, 0.25 and 0.15. May be repeated."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Add counts of the training text to a model file.

    Counts are a small n-gram model whose predictions are mixed with the network's, with more weight at the low end of
    the knob. Chooses the n-grams that help this network most, and tunes their weights on validation text. `pack
    --drop-counts` removes them.

    Example: rheostat count model.safetensors --data talk --megabytes 1.7 -o with-counts.safetensors
    """
    from rheostat.measure.counting import KNOBS, add_counts

    with labelled_share() as progress:
        found = add_counts(
            model, out, data=data, order=order, megabytes=megabytes, knobs=knob or KNOBS, progress=progress
        )
    if json:
        print_json(found.as_json())
        return
    ngrams = ", ".join(f"{number:,} {length}-grams" for length, number in enumerate(found.ngrams, 2))
    print_line(f"wrote {out}: counts of {found.size_bytes:,} bytes: {ngrams}")
    for one in found.tuned:
        gain = one.perplexity_with / one.perplexity_without - 1
        weights = " ".join(f"{weight:.2f}" for weight in one.weights)
        figures = f"{one.perplexity_without:.2f} → {one.perplexity_with:.2f} ({gain:+.1%})"
        print_line(
            f"at {one.cost:.0%}: perplexity {figures} on {found.sample:,} tokens of validation text; weights {weights}"
        )
