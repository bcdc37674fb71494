"""One operating point as ONNX graphs in files, for an application. Knows files and what the graphs take and give;
`graph` builds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rheostat.errors import ExportError, MissingExtraError
from rheostat.model.file import ModelFile
from rheostat.model.operating_point import OperatingPoint
from rheostat.model.precision import Precision
from rheostat.runtime.export_folder import SEQUENCE, STEP
from rheostat.runtime.onnx.graph import Form, build_graph
from rheostat.runtime.onnx.weights import RuntimeWeights

try:
    import onnx
    from onnx import helper
except ImportError as error:
    raise MissingExtraError("onnx", "exporting ONNX graphs", error) from error

GRAPHS: dict[Form, str] = {"step": STEP, "replay": SEQUENCE}
LARGEST_GRAPH = 2**31 - 1  # bytes of a protobuf

Json = dict[str, Any]


def write_graphs(file: ModelFile, point: OperatingPoint, precision: Precision, folder: Path) -> Json:
    """Write the graphs and return their file names, inputs and outputs."""
    weights, shape = RuntimeWeights(file, precision).of(point), point.cut_shape(file.shape)
    described: Json = {}
    for form, name in GRAPHS.items():
        graph = build_graph(weights, shape, precision, form)
        _check_size(name, graph.weight_bytes)
        model = graph.complete()
        onnx.checker.check_model(model)  # never write a graph that a reader would reject
        (folder / name).write_bytes(model.SerializeToString())
        described[form] = {
            "file": name,
            "inputs": _described(model.graph.input),
            "outputs": _described(model.graph.output),
        }
    return described


def _check_size(name: str, size: int) -> None:
    if size > LARGEST_GRAPH:
        raise ExportError(
            f"{name} would have {size:,} bytes of weights; expected at most {LARGEST_GRAPH:,}: "
            "use int8, or turn the knob down"
        )


def _described(ports: Sequence[onnx.ValueInfoProto]) -> list[Json]:
    """Names, types and shapes; a size given as a name is known only when the graph runs."""
    described = []
    for port in ports:
        kind = port.type.tensor_type
        shape = [size.dim_param or size.dim_value for size in kind.shape.dim]
        described.append({"name": port.name, "type": _type_name(kind.elem_type), "shape": shape})
    return described


def _type_name(kind: int) -> str:
    return str(helper.tensor_dtype_to_np_dtype(kind).name)


def state_of(step: Json) -> list[Json]:
    """Which output of a step becomes which input for the next word; all inputs start as zeros."""
    inputs = [port for port in step["inputs"] if port["name"].startswith("state.")]
    return [
        {"input": port["name"], "output": port["name"].replace("state.", "next.", 1), "shape": port["shape"]}
        for port in inputs
    ]
