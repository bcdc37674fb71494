"""`rheostat export`: one operating point as a folder of ONNX graphs for an application."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from rheostat.cli.console import BUNDLED, MODEL_HELP, HiddenWordsFile, print_json
from rheostat.model import knob as knob_positions
from rheostat.model.file import open_model

if TYPE_CHECKING:
    from rheostat.runtime.onnx.quantization import Precision


def export(
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder to write; an earlier export is replaced.")],
    model: Annotated[Path, typer.Argument(help=MODEL_HELP)] = BUNDLED,
    knob: Annotated[float, typer.Option(help="Share of the FLOPs that may be spent.")] = 1.0,
    criterion: Annotated[str | None, typer.Option(help="Cut by this criterion.")] = None,
    ranking: Annotated[str | None, typer.Option(help="Cut by the ranking of this name.")] = None,
    point: Annotated[str | None, typer.Option(help="Use the stored point of this name.")] = None,
    precision: Annotated[str, typer.Option(help="fp32, int8 or int4.")] = "int8",
    hidden_words: HiddenWordsFile = None,
    json: Annotated[bool, typer.Option("--json", help="Print the manifest as JSON.")] = False,
) -> None:
    """Write one operating point as ONNX graphs with a manifest, for ONNX Runtime on Android, iOS and the web.

    docs/export.md says what is in the folder and how an application drives it.

    Example: rheostat export model.safetensors --knob 0.6 --precision int8 -o out/
    """
    # Here, because it loads onnx, which no other command's help should wait for.
    from rheostat.runtime.onnx.export import export as write_export

    with open_model(model) as file:
        chosen = knob_positions.choose(file, knob, criterion=criterion, ranking=ranking, point=point)
        manifest = write_export(file, chosen, out, cast("Precision", precision), hidden_words)
    if json:
        print_json(manifest)
    else:
        size = sum(manifest["bytes"].values())
        print(
            f"wrote {out}: {chosen.name} at {chosen.flops_fraction:.2%} of the FLOPs, {precision}, "
            f"{len(manifest['bytes'])} files beside the manifest, {size:,} bytes"
        )
