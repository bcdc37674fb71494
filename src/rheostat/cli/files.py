"""`rheostat inspect` and `rheostat pack`: what is in a model file, and writing it again with changes."""

from __future__ import annotations

import json as json_text
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from rheostat.cli.console import BUNDLED, MODEL_HELP, print_json
from rheostat.cli.console import results as console
from rheostat.model.contents import convert, drop_points, drop_rankings, keep_points, set_default_ranking
from rheostat.model.file import ModelFile, open_model
from rheostat.model.ordered import order_filters
from rheostat.model.origin import NOT_RECORDED, Origin
from rheostat.model.precision import PRECISIONS, Precision
from rheostat.model.summary import summarize
from rheostat.model.writer import check_target, write_model


def inspect(
    model: Annotated[Path, typer.Argument(help=MODEL_HELP)] = BUNDLED,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Show what is in a model file: shape, sizes, rankings, points, and how each of them came about.

    Reads the header only, so it takes no longer for a large model than for a small one. What the file does not say of
    its origin is shown as "not recorded".

    Example: rheostat inspect runs/ptb/model.safetensors
    """
    with open_model(model) as file:
        summary = summarize(file)
    if json:
        print_json(summary)
    else:
        for table in _tables(summary):
            console.print(table)


def pack(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Where the new model file goes.")],
    precision: Annotated[
        Precision | None, typer.Option(help=f"Store the weights as {', '.join(PRECISIONS)}; else as they are.")
    ] = None,
    default_ranking: Annotated[str | None, typer.Option(help="The ranking that the knob uses.")] = None,
    point: Annotated[
        list[str] | None, typer.Option(help="Keep only this point; may be repeated, in the order to store them in.")
    ] = None,
    drop_point: Annotated[list[str] | None, typer.Option(help="Leave out this point; may be repeated.")] = None,
    drop_ranking: Annotated[list[str] | None, typer.Option(help="Leave out this ranking; may be repeated.")] = None,
    order: Annotated[
        bool,
        typer.Option(help="Put the filters in the order of the default ranking, and store the path of the knob."),
    ] = False,
    results: Annotated[
        Path | None, typer.Option(help="Results of a sweep of this model: store its curve, for the keyboard page.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Write a model file again with another precision, another default ranking, ordered filters, or fewer points.

    Everything else stays as it is, origins included; weights of the same precision keep their bytes. An ordered file
    answers as before, and the core runs it as it is: every position of the knob is served from the mapped file.
    Another default ranking makes it unordered, unless --order puts it in the new order.

    Example: rheostat pack model.safetensors --precision int8 --default-ranking taylor -o small.safetensors
    """
    check_target(out)
    with open_model(model) as source:
        contents = source.contents()
        if precision:
            contents = convert(contents, precision)
        if default_ranking:
            contents = set_default_ranking(contents, default_ranking)
        contents = drop_rankings(contents, drop_ranking or ())
        contents = drop_points(keep_points(contents, point) if point else contents, drop_point or ())
        if results:
            contents = replace(contents, provenance=_with_curve(source, results))
        if order:
            contents = order_filters(contents)
        write_model(out, contents)
    with open_model(out.absolute()) as packed:  # a bare name could be that of a bundled model
        if json:
            print_json(summarize(packed))
        else:
            print(f"wrote {out}: {_in_one_line(packed)}")


def _with_curve(file: ModelFile, results: Path) -> dict[str, Any]:
    """The file's provenance and what a sweep measured along its default ranking."""
    from rheostat.measure.results import read_sweep

    criteria = {entry.name: entry.criterion for entry in file.description.rankings}
    curve = read_sweep(results).test_figures(criteria.get(file.description.default_ranking or "", ""))
    return {**file.description.provenance, "curve": [asdict(one) for one in curve]}


def _in_one_line(file: ModelFile) -> str:
    description = file.description
    default = f" (default {description.default_ranking})" if description.default_ranking else ""
    ordered = f", ordered with {description.positions} positions" if description.ordered else ""
    return (
        f"{file.precision}, {file.file_bytes:,} bytes, "
        f"{len(description.rankings)} rankings{default}, {len(description.points)} points{ordered}"
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
        "trained on": _corpus(summary),
        "default ranking": summary["default_ranking"] or "none",
        "ordered": f"yes, {summary['path_positions']} positions" if summary["ordered"] else "no",
    }
    yield _pairs("model", facts)
    yield _parts(summary["bytes_by_part"], summary["flops_by_part"])
    if summary["rankings"]:
        yield _rankings(summary["rankings"])
    if summary["points"]:
        yield _points(summary["points"])
    yield from _origins(summary)
    for name in ("text", "recipe", "provenance"):
        if summary[name]:
            yield _pairs(name, {key: _plain(value) for key, value in summary[name].items()})


def _corpus(summary: Mapping[str, Any]) -> str:
    """The corpus that the weights were trained on, from the origin or, in files without one, the provenance."""
    recorded = summary["provenance"].get("corpus")
    name = summary["origin"].get("corpus") or (recorded.get("name") if isinstance(recorded, dict) else None)
    return name if isinstance(name, str) else NOT_RECORDED


def _origins(summary: Mapping[str, Any]) -> Iterable[Table]:
    """A table for each origin, and one that lists what has none. The weights' recipe has a table of its own."""
    origins = {"weights": Origin.from_json({**summary["origin"], "recipe": None})}
    for kind in ("ranking", "point"):
        origins |= {f"{kind} {entry['name']}": Origin.from_json(entry["origin"]) for entry in summary[f"{kind}s"]}
    for thing, origin in origins.items():
        if origin.is_recorded:
            yield _pairs("origin", _origin_facts(origin), thing)
    if unknown := {thing: NOT_RECORDED for thing, origin in origins.items() if not origin.is_recorded}:
        yield _pairs("origin", unknown)


def _origin_facts(origin: Origin) -> dict[str, str]:
    """All fields of an origin, and what is recorded of those behind it."""
    facts = origin.shown() | ({} if origin.recipe is None else {"recipe": _plain(origin.recipe)})
    prefix, behind = "", origin.before
    while behind is not None:
        prefix += "before: "
        facts |= {prefix + fact: value for fact, value in behind.shown().items() if value != NOT_RECORDED}
        behind = behind.before
    return facts


def _pairs(title: str, values: Mapping[str, str], column: str = "") -> Table:
    table = Table(title, column)
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
