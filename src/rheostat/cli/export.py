"""`rheostat export`: one operating point as a folder of ONNX graphs for an application."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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


def export(
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder to write. An earlier export in it is replaced.")],
    model: Annotated[Path, typer.Argument(help=MODEL_HELP)] = BUNDLED,
    knob: Annotated[float, typer.Option(help=KNOB_HELP)] = 1.0,
    criterion: Annotated[str | None, typer.Option(help=CRITERION_HELP)] = None,
    ranking: Annotated[str | None, typer.Option(help=RANKING_HELP)] = None,
    point: Annotated[str | None, typer.Option(help=POINT_HELP)] = None,
    precision: Annotated[Precision, typer.Option(help=PRECISION_HELP)] = "int8",
    hidden_words: HiddenWordsFile = None,
    json: Annotated[bool, typer.Option("--json", help="Print the manifest as JSON.")] = False,
) -> None:
    """Write one operating point as ONNX graphs for an application.

    A graph has no 4-bit weights. So --knob cuts by the default ranking, in widths alone, even if the file has a path of
    bits: the graph then costs that share. A stored point stays as it is.

    The folder also has the vocabulary and a manifest. ONNX Runtime runs the graphs on Android, iOS, in C++ and on the
    web. docs/export.md describes the folder and shows how to use it.

    Example: rheostat export model.safetensors --knob 0.6 --precision int8 -o out/
    """
    from rheostat.runtime.onnx import export as onnx_export  # here, since importing onnx is slow

    manifest = onnx_export.export(
        model,
        out,
        knob,
        point=point,
        criterion=criterion,
        ranking=ranking,
        precision=precision,
        hidden_words=hidden_words,
    )
    if json:
        print_json(manifest)
    else:
        size = sum(manifest["bytes"].values())
        chosen, share = manifest["operating_point"], manifest["flops_fraction"]
        by = "in widths alone" if chosen["bounds"] is None else "with its 4-bit rows as int8"
        print_line(
            f"wrote {out}: {chosen['name']}, {by}, at {share:.2%} of the FLOPs, "
            f"{precision}, {len(manifest['bytes'])} files and the manifest, {size:,} bytes"
        )
