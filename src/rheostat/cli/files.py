"""`rheostat inspect` and `rheostat pack`: show what is in a model file, and write a changed copy."""

from __future__ import annotations

import json as json_text
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from rheostat.cli.console import BUNDLED, JSON_HELP, MODEL_HELP, MODEL_OUT_HELP, print_json, print_line
from rheostat.cli.console import results as console
from rheostat.errors import OperatingPointError, counted, visible
from rheostat.model.file import open_model
from rheostat.model.origin import NOT_RECORDED, Origin
from rheostat.model.precision import StoredPrecision
from rheostat.model.summary import summarize

_DAY = len("2026-11-18")  # of a date with its time


def inspect(
    model: Annotated[Path, typer.Argument(help=MODEL_HELP)] = BUNDLED,
    whole: Annotated[
        bool, typer.Option("--all", help="Show every setting and every step of how it was made, too.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Show what is in a model file.

    Shows its shape, sizes, rankings and points, and how each of them was made. What the file does not say is shown as
    "not recorded". The checksums of all tensors are compared, so a large file takes longer than a small one.

    Example: rheostat inspect runs/ptb/model.safetensors
    """
    with open_model(model) as file:
        summary = summarize(file)
    if json:
        print_json(summary)
        return
    for table in _tables(summary, whole):
        console.print(table)
    if not whole:
        print_line("with every setting and digest: --all")


def pack(
    model: Annotated[Path, typer.Argument(help="A model file.")],
    out: Annotated[Path, typer.Option("-o", "--out", help=MODEL_OUT_HELP)],
    precision: Annotated[
        StoredPrecision | None, typer.Option(help="The precision of the stored weights; unchanged by default.")
    ] = None,
    default_ranking: Annotated[str | None, typer.Option(help="The ranking that the knob cuts by.")] = None,
    point: Annotated[
        list[str] | None, typer.Option(help="Keep only this point. May be repeated; points are stored in this order.")
    ] = None,
    drop_point: Annotated[list[str] | None, typer.Option(help="Leave out this point. May be repeated.")] = None,
    drop_ranking: Annotated[list[str] | None, typer.Option(help="Leave out this ranking. May be repeated.")] = None,
    drop_reconstruction: Annotated[
        bool, typer.Option("--drop-reconstruction", help="Leave out the reconstruction and the points that need it.")
    ] = False,
    order: Annotated[
        bool,
        typer.Option(help="Put the filters in the order of the default ranking, and store the path of the knob."),
    ] = False,
    bits: Annotated[
        int | None, typer.Option(help="4: keep only the upper planes of an ordered int8 file, in about half the bytes.")
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(help="The results file of a sweep of this model: store its curve, for the keyboard page."),
    ] = None,
    drop_counts: Annotated[bool, typer.Option("--drop-counts", help="Leave out the counts.")] = False,
    word_list: Annotated[
        list[Path] | None,
        typer.Option(help="A list of correct words: hide misspellings that no such list has. May be repeated."),
    ] = None,
    misspellings: Annotated[
        Path | None, typer.Option(help="A list of misspellings to hide, such as codespell's dictionary.")
    ] = None,
    known_words: Annotated[
        list[Path] | None,
        typer.Option(
            help="A list of correct words: store those that the vocabulary does not have, so that they are not "
            "corrected. May be repeated."
        ),
    ] = None,
    data: Annotated[str | None, typer.Option(help="With --word-list: the training corpus, to count words in.")] = None,
    json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Write a changed copy of a model file.

    Changes the precision, the default ranking, the order of the filters, which words are hidden or known, or which
    points and rankings are stored. Hidden words stay readable and are never suggested; known words are not corrected.
    Everything else stays as it is, including origins. Weights whose precision does not change keep their bytes.

    An ordered file gives the same answers, and the core serves every position of its knob from the mapped file.
    Another default ranking makes it unordered, unless --order puts it in the new order. With --bits 4 it answers
    exactly as the knob at 4 bits does.

    Example: rheostat pack model.safetensors --precision int8 --default-ranking taylor -o small.safetensors
    """
    from rheostat.measure.packing import pack as run

    if order and not drop_reconstruction:
        with open_model(model) as file:
            stored = file.description.reconstruction
        if stored is not None and stored.ranking not in (drop_ranking or ()):
            raise OperatingPointError(
                f"{model} has a reconstruction, so its positions cannot be served in order: leave out --order, or add "
                "--drop-reconstruction"
            )
    summary = run(
        model,
        out,
        precision=precision,
        default_ranking=default_ranking,
        points=point or None,
        drop_points=drop_point or (),
        drop_rankings=drop_ranking or (),
        results=results,
        order=order,
        bits=bits,
        drop_reconstruction=drop_reconstruction,
        drop_counts=drop_counts,
        word_lists=word_list or (),
        misspellings=misspellings,
        known_words=known_words or (),
        data=data,
    )
    if json:
        print_json(summary)
    else:
        print_line(f"wrote {out}: {_in_one_line(summary)}")


def _in_one_line(summary: Mapping[str, Any]) -> str:
    default = f" (default {summary['default_ranking']})" if summary["default_ranking"] else ""
    rankings, points = (counted(len(summary[f"{name}s"]), name) for name in ("ranking", "point"))
    ordered = f", ordered with {counted(summary['path_positions'], 'position')}" if summary["ordered"] else ""
    return f"{summary['precision']}, {summary['file_bytes']:,} bytes, {rankings}{default}, {points}{ordered}"


def _tables(summary: Mapping[str, Any], whole: bool) -> Iterable[Table]:
    facts = {
        "file": f"{summary['path']} ({summary['file_bytes']:,} bytes)",
        "checksums": summary["checksums"],
        "cell": summary["cell"],
        "precision": summary["precision"],
        **{name.replace("_", " "): _plain(value) for name, value in summary["shape"].items()},
        "parameters": f"{summary['parameters']:,}",
        "FLOPs per query": f"{summary['flops']:,}",
        "tokenizer": summary["tokenizer"],
        "trained on": _corpus(summary),
        "default ranking": summary["default_ranking"] or "none",
        "reconstruction": _reconstruction(summary["reconstruction"]),
        "planes": _planes(summary),
        "ordered": f"yes, {summary['path_positions']} positions" if summary["ordered"] else "no",
        "counts": f"up to {summary['counts_order']}-grams" if summary["counts_order"] else "none",
        "hidden words": f"{summary['hidden_words']:,}",
        "known words": _known_words(summary["known_words"]),
    }
    yield _pairs("model", facts)
    yield _parts(summary["bytes_by_part"], summary["flops_by_part"], summary["cost_by_part"])
    if summary["rankings"]:
        yield _rankings(summary["rankings"])
    if summary["points"]:
        yield _points(summary["points"])
    origins = _origins(summary)
    if not whole:
        yield _steps(origins)
        return
    for thing, origin in origins.items():
        if origin.is_recorded:
            yield _pairs("origin", _origin_facts(origin), thing)
    if unknown := {thing: NOT_RECORDED for thing, origin in origins.items() if not origin.is_recorded}:
        yield _pairs("origin", unknown)
    for name in ("text", "recipe", "provenance"):
        if summary[name]:
            yield _pairs(name, {key: _plain(value) for key, value in summary[name].items()})


def _reconstruction(stored: Mapping[str, Any] | None) -> str:
    return f"by ranking {stored['ranking']}, {stored['bytes']:,} bytes" if stored else "none"


def _known_words(stored: Mapping[str, int] | None) -> str:
    return f"{stored['words']:,}, {stored['bytes']:,} bytes" if stored else "none"


def _corpus(summary: Mapping[str, Any]) -> str:
    """The corpus that the weights were trained on: from their origin or, in older files, from the provenance."""
    recorded = summary["provenance"].get("corpus")
    name = summary["origin"].get("corpus") or (recorded.get("name") if isinstance(recorded, dict) else None)
    return name if isinstance(name, str) else NOT_RECORDED


def _origins(summary: Mapping[str, Any]) -> dict[str, Origin]:
    """How each thing in the file was made. The weights' recipe is shown separately."""
    origins = {"weights": Origin.from_json({**summary["origin"], "recipe": None})}
    for kind in ("ranking", "point"):
        origins |= {f"{kind} {entry['name']}": Origin.from_json(entry["origin"]) for entry in summary[f"{kind}s"]}
    if summary["reconstruction"]:
        origins["reconstruction"] = Origin.from_json(summary["reconstruction"]["origin"])
    return origins


def _steps(origins: Mapping[str, Origin]) -> Table:
    """A row for each command that made something, the last one first. What was made by the same ones is named once."""
    named: dict[tuple[Origin, ...], list[str]] = {}
    for thing, origin in origins.items():
        named.setdefault(tuple(_chain(origin)), []).append(thing)
    table = Table("made", "by")
    for column in ("steps", "tokens"):
        table.add_column(column, justify="right")
    table.add_column("on", no_wrap=True)
    for steps, things in named.items():
        for number, step in enumerate(steps):
            shown = step.shown()
            counts = [shown[name].replace(NOT_RECORDED, "") for name in ("steps", "tokens read")]
            made = "before that" if number else ", ".join(things)
            table.add_row(*map(_printable, (made, shown["command"], *counts, (step.date or "")[:_DAY])))
    return table


def _chain(origin: Origin) -> Iterable[Origin]:
    """An origin and those before it, each by itself and without its recipe."""
    step: Origin | None = origin
    while step is not None:
        yield replace(step, recipe=None, before=None)
        step = step.before


def _origin_facts(origin: Origin) -> dict[str, str]:
    """All fields of an origin, and the recorded fields of the origins before it."""
    facts = origin.shown() | ({} if origin.recipe is None else {"recipe": _plain(origin.recipe)})
    prefix, earlier = "", origin.before
    while earlier is not None:
        prefix += "before: "
        facts |= {prefix + fact: value for fact, value in earlier.shown().items() if value != NOT_RECORDED}
        earlier = earlier.before
    return facts


def _pairs(title: str, values: Mapping[str, str], column: str = "") -> Table:
    table = Table(title, column)
    for name, value in values.items():
        table.add_row(_printable(name), _printable(value))
    return table


def _planes(summary: Mapping[str, Any]) -> str:
    """The bytes of each plane, if the weights are stored in planes."""
    sizes = summary["bytes_by_plane"]
    return ", ".join(f"{plane} {size:,} bytes" for plane, size in sizes.items()) or "none"


def _parts(sizes: Mapping[str, int], flops: Mapping[str, int], cost: Mapping[str, float]) -> Table:
    table = Table("part")
    for column in ("bytes", "FLOPs", "cost"):
        table.add_column(column, justify="right")
    for part in sorted(sizes):
        counted = (f"{flops[part]:,}", f"{cost[part]:,.0f}") if part in flops else ("", "")
        table.add_row(part, f"{sizes[part]:,}", *counted)
    return table


def _rankings(entries: Iterable[Mapping[str, Any]]) -> Table:
    table = Table("ranking", "criterion", "seed")
    for entry in entries:
        seed = "" if entry["seed"] is None else str(entry["seed"])
        table.add_row(entry["name"], _printable(entry["criterion"]), seed)
    return table


def _points(entries: Iterable[Mapping[str, Any]]) -> Table:
    table = Table("point", "criterion", "FLOPs", "filters", "gates", "update", "reconstructed", "preferred")
    for entry in entries:
        table.add_row(
            entry["name"],
            _printable(entry["criterion"]),
            f"{entry['flops_fraction']:.2%}",
            _plain(entry["widths"]),
            "yes" if entry["has_gates"] else "",
            f"rank {entry['update_rank']}" if entry["update_rank"] else "",
            "yes" if entry["reconstructed"] else "",
            "yes" if entry["preferred"] else "",
        )
    return table


def _plain(value: Any) -> str:
    """A value of a description as text: lists separated by spaces, tables as JSON."""
    if isinstance(value, list) and all(isinstance(item, int | str) for item in value):
        return " ".join(map(str, value)) or "none"
    return value if isinstance(value, str) else json_text.dumps(value, ensure_ascii=False)


def _printable(text: str) -> Text:
    """Text without markup or control characters, because a file can come from anywhere."""
    return Text(visible(text))
