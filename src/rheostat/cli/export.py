"""`rheostat export`: one operating point as a folder of ONNX graphs for an application."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheostat.cli.console import BUNDLED, MODEL_HELP, HiddenWordsFile, print_json
from rheostat.runtime.precision import Precision


def export(
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder to write; replaces an earlier export.")],
    model: Annotated[Path, typer.Argument(help=MODEL_HELP)] = BUNDLED,
    knob: Annotated[float, typer.Option(help="Share of the FLOPs that may be spent.")] = 1.0,
    criterion: Annotated[str | None, typer.Option(help="Cut by this criterion.")] = None,
    ranking: Annotated[str | None, typer.Option(help="Cut by the ranking with this name.")] = None,
    point: Annotated[str | None, typer.Option(help="Use the stored point with this name.")] = None,
    precision: Annotated[Precision, typer.Option(help="int8, fp32 or int4.")] = "int8",
    hidden_words: HiddenWordsFile = None,
    json: Annotated[bool, typer.Option("--json", help="Print the manifest as JSON.")] = False,
) -> None:
    """Write one operating point as ONNX graphs with a manifest, for ONNX Runtime on Android, iOS and the web.

    docs/export.md says what is in the folder and how an application drives it.

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
        print(
            f"wrote {out}: {manifest['operating_point']['name']} at {manifest['flops_fraction']:.2%} of the FLOPs, "
            f"{precision}, {len(manifest['bytes'])} files and the manifest, {size:,} bytes"
        )
