"""`rheostat export`: a model as a folder for an application."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rheostat.cli.console import (
    BUNDLED,
    CRITERION_HELP,
    KNOB_HELP,
    MODEL_HELP,
    POINT_HELP,
    PRECISION_HELP,
    RANKING_HELP,
    HiddenWordsFile,
    print_json,
    print_line,
)
from rheostat.model.precision import Precision
from rheostat.runtime.engine import EngineName


def export(
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder to write. An earlier export in it is replaced.")],
    model: Annotated[Path, typer.Argument(help=MODEL_HELP)] = BUNDLED,
    engine: Annotated[
        EngineName, typer.Option(help="What the app runs: core, which is embedded, or onnx for ONNX Runtime.")
    ] = "onnx",
    knob: Annotated[float, typer.Option(help=KNOB_HELP)] = 1.0,
    criterion: Annotated[str | None, typer.Option(help=CRITERION_HELP)] = None,
    ranking: Annotated[str | None, typer.Option(help=RANKING_HELP)] = None,
    point: Annotated[str | None, typer.Option(help=POINT_HELP)] = None,
    precision: Annotated[Precision, typer.Option(help=PRECISION_HELP)] = "int8",
    hidden_words: HiddenWordsFile = None,
    json: Annotated[bool, typer.Option("--json", help="Print the manifest as JSON.")] = False,
) -> None:
    """Write a model as a folder for an application.

    The folder has what an engine runs, the words and a manifest. An app embeds the C core, or ONNX Runtime.

    --engine core writes a model file with the whole knob, for the core. It takes no position and needs no extra.
    --engine onnx writes one operating point as ONNX graphs, which ONNX Runtime runs on Android, iOS, in C++ and on the
    web.

    A graph has no 4-bit weights. So --knob cuts by the default ranking, in widths alone, even if the file has a path of
    bits: the graph then costs that share. A stored point stays as it is.

    docs/export.md describes the folder and shows how to use it.

    Example: rheostat export model.safetensors --engine core -o out/
    """
    from rheostat.runtime import export as runtime_export

    manifest = runtime_export.export(
        model,
        out,
        knob,
        point=point,
        criterion=criterion,
        ranking=ranking,
        precision=precision,
        hidden_words=hidden_words,
        engine=engine,
    )
    if json:
        print_json(manifest)
    else:
        size = sum(manifest["bytes"].values())
        contents = _knob_of(manifest) if engine == "core" else _point_of(manifest)
        print_line(
            f"wrote {out}: {contents}, {precision}, {len(manifest['bytes'])} files and the manifest, {size:,} bytes"
        )


def _knob_of(manifest: dict[str, Any]) -> str:
    positions = manifest["positions"]
    return f"{len(positions)} positions of the knob, down to {positions[-1]['cost']:.2%} of the cost"


def _point_of(manifest: dict[str, Any]) -> str:
    chosen, share = manifest["operating_point"], manifest["flops_fraction"]
    by = "in widths alone" if chosen["bounds"] is None else "with its 4-bit rows as int8"
    return f"{chosen['name']}, {by}, at {share:.2%} of the FLOPs"
