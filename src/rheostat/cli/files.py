"""`rheostat inspect` and `rheostat pack`: what is in a model file, and writing it anew with changes."""

from __future__ import annotations

import json as json_text
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.table import Table
from rich.text import Text

from rheostat.cli.console import BUNDLED, MODEL_HELP, print_json
from rheostat.cli.console import results as console
from rheostat.model.file import PRECISIONS, ModelFile, Precision, open_model, repack


def inspect(
    model: Annotated[Path, typer.Argument(help=MODEL_HELP)] = BUNDLED,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Show what is in a model file: shape, sizes, rankings, points, recipe and provenance.

    Reads the header only, so it takes no longer for a large model than for a small one.

    Example: rheostat inspect runs/ptb/model.safetensors
    """
    with open_model(model) as file:
        summary = file.summary()
    if json:
        print_json(summary)
    else:
        for table in _tables(summary):
            console.print(table)


def pack(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Where the new model file goes.")],
    precision: Annotated[
        str | None, typer.Option(help=f"Store the weights as {', '.join(PRECISIONS)}; else as they are.")
    ] = None,
    default_ranking: Annotated[str | None, typer.Option(help="The ranking that the knob uses.")] = None,
    point: Annotated[
        list[str] | None, typer.Option(help="Keep only this point; repeat it to keep several, in this order.")
    ] = None,
    drop_point: Annotated[list[str] | None, typer.Option(help="Leave out this point.")] = None,
    drop_ranking: Annotated[list[str] | None, typer.Option(help="Leave out this ranking.")] = None,
    results: Annotated[
        Path | None, typer.Option(help="Results of a sweep of this model: store its curve, for the keyboard page.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write a model file anew: other precision, other default ranking, fewer points or another order of them.

    Example: rheostat pack model.safetensors --precision int8 --default-ranking taylor -o small.safetensors
    """
    with open_model(model) as source:
        repack(
            source,
            out,
            precision=cast(Precision | None, precision),  # repack says which there are
            default_ranking=default_ranking,
            points=point or None,
            drop_points=drop_point or (),
            drop_rankings=drop_ranking or (),
            provenance=_with_curve(source, results) if results else None,
        )
    with open_model(out.absolute()) as packed:  # a bare name could be that of a bundled model
        if json:
            print_json(packed.summary())
        else:
            print(f"wrote {out}: {_in_one_line(packed)}")


def _with_curve(file: ModelFile, results: Path) -> dict[str, Any]:
    """The file's provenance and what a sweep measured along its default ranking."""
    from rheostat.measure.results import read_sweep

    criteria = {entry.name: entry.criterion for entry in file.description.rankings}
    curve = read_sweep(results).test_figures(criteria.get(file.description.default_ranking or "", ""))
    return {**file.description.provenance, "curve": curve}


def _in_one_line(file: ModelFile) -> str:
    description = file.description
    default = f" (default {description.default_ranking})" if description.default_ranking else ""
    return (
        f"{file.precision}, {file.file_bytes:,} bytes, "
        f"{len(description.rankings)} rankings{default}, {len(description.points)} points"
    )


def _tables(summary: Mapping[str, Any]) -> Iterable[Table]:
    facts = {
        "file": f"{summary['path']} ({summary['file_bytes']:,} bytes)",
        "cell": summary["cell"],
        "precision": summary["precision"],
        **{name.replace("_", " "): _plain(value) for name, value in summary["shape"].items()},
        "parameters": f"{summary['parameters']:,}",
        "FLOPs per query": f"{summary['flops']:,}",
        "tokenizer": summary["tokenizer"],
        "default ranking": summary["default_ranking"] or "none",
    }
    yield _pairs("model", facts)
    yield _parts(summary["bytes_by_part"], summary["flops_by_part"])
    if summary["rankings"]:
        yield _rankings(summary["rankings"])
    if summary["points"]:
        yield _points(summary["points"])
    for name in ("text", "recipe", "provenance"):
        if summary[name]:
            yield _pairs(name, {key: _plain(value) for key, value in summary[name].items()})


def _pairs(title: str, values: Mapping[str, str]) -> Table:
    table = Table(title, "", title_justify="left")
    for name, value in values.items():
        table.add_row(_printable(name), _printable(value))
    return table


def _parts(sizes: Mapping[str, int], flops: Mapping[str, int]) -> Table:
    table = Table("part")
    table.add_column("bytes", justify="right")
    table.add_column("FLOPs", justify="right")
    for part in sorted(sizes):
        table.add_row(part, f"{sizes[part]:,}", f"{flops[part]:,}" if part in flops else "")
    return table


def _rankings(entries: Iterable[Mapping[str, Any]]) -> Table:
    table = Table("ranking", "criterion", "seed")
    for entry in entries:
        seed = "" if entry["seed"] is None else str(entry["seed"])
        table.add_row(entry["name"], _printable(entry["criterion"]), seed)
    return table


def _points(entries: Iterable[Mapping[str, Any]]) -> Table:
    table = Table("point", "criterion", "FLOPs", "filters", "gates", "update", "preferred")
    for entry in entries:
        table.add_row(
            entry["name"],
            _printable(entry["criterion"]),
            f"{entry['flops_fraction']:.2%}",
            _plain(entry["widths"]),
            "yes" if entry["has_gates"] else "",
            f"rank {entry['update_rank']}" if entry["update_rank"] else "",
            "yes" if entry["preferred"] else "",
        )
    return table


def _plain(value: Any) -> str:
    """A value of a description as text: lists with spaces, tables as JSON."""
    if isinstance(value, list) and all(isinstance(item, int | str) for item in value):
        return " ".join(map(str, value)) or "none"
    return value if isinstance(value, str) else json_text.dumps(value, ensure_ascii=False)


def _printable(text: str) -> Text:
    """Text without markup, and without signs that would steer the terminal: files come from anywhere."""
    return Text("".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text))
