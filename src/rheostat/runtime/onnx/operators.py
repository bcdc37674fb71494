"""Writing ONNX graphs: nodes and constants under names, and matrix products in every precision.

Knows operators and arrays; knows nothing about language models. Operators beyond ONNX's own are ONNX Runtime's
(`com.microsoft`), and only those that its builds for Android, iOS and the web have too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rheostat.model.names import scale_name
from rheostat.model.precision import Precision
from rheostat.runtime.onnx import format as onnx_format
from rheostat.runtime.onnx.format import FLOAT, INT32, UINT8, Message, Option, Size
from rheostat.runtime.onnx.weights import Floats, Prepared, transposed

OPSET = 17  # supported by every ONNX Runtime since 1.12
IR_VERSION = 8  # goes with this opset
CONTRIB = "com.microsoft"


@dataclass(frozen=True)
class Port:
    """An input or output of a graph."""

    name: str
    kind: int  # of `onnx_format`
    size: tuple[Size, ...]

    def message(self) -> Message:
        return onnx_format.port(self.name, self.kind, self.size)


@dataclass
class Writer:
    """Collects the nodes of a graph, and its constants by name.

    Every operator returns the name of its output. The body of a loop is a separate Writer that shares the constants.
    """

    constants: dict[str, NDArray[Any]] = field(default_factory=dict)
    read: set[str] = field(default_factory=set)  # names that are inputs of a node
    prefix: str = ""
    nodes: list[Message] = field(default_factory=list)

    def body(self, name: str) -> Writer:
        return Writer(self.constants, self.read, f"{name}/")

    def constant(self, name: str, array: NDArray[Any]) -> str:
        """Add a constant; the same name always means the same array, which is stored once."""
        self.constants.setdefault(name, array)
        return name

    def integers(self, *values: int) -> str:
        return self.constant("integers " + " ".join(map(str, values)), np.array(values, np.int64))

    def number(self, value: float) -> str:
        return self.constant(f"number {value:g}", np.array(value, np.float32))

    def apply(self, operator: str, *inputs: str, names: Sequence[str] = (), domain: str = "", **options: Option) -> str:
        return self.apply_many(operator, *inputs, outputs=1, names=names, domain=domain, **options)[0]

    def apply_many(
        self, operator: str, *inputs: str, outputs: int, names: Sequence[str] = (), domain: str = "", **options: Option
    ) -> list[str]:
        """Add a node. names: of its outputs, if they are outputs of the graph."""
        stem = f"{self.prefix}{operator}_{len(self.nodes)}"
        results = list(names) or [f"{stem}.{place}" for place in range(outputs)]
        self.read.update(inputs)
        self.nodes.append(onnx_format.node(operator, inputs, results, stem, domain, options))
        return results

    def graph(self, name: str, inputs: Iterable[Port], outputs: Iterable[Port]) -> Message:
        """The nodes as a graph, without constants."""
        ports = ([port.message() for port in some] for some in (inputs, outputs))
        return onnx_format.graph(name, self.nodes, *ports)


@dataclass(frozen=True)
class Products:
    """Products with the matrices of one prepared model: y = x Wᵀ + bias, with W [outputs, inputs].

    In 8 bits, each row of x is quantised separately to 0 … 255, as DynamicQuantizeLinear does; for a single row that is
    DynamicQuantizeMatMul, which fuses all of it.
    """

    weights: Prepared
    precision: Precision

    def matrix(self, *names: str, rows: slice = slice(None)) -> Matrix:
        """Some rows of several matrices stacked on top of each other."""
        first = names[0]
        key = first if names == (first,) and rows == slice(None) else f"{'+'.join(names)}[{rows.start}:{rows.stop}]"
        scale = None
        if scale_name(first) in self.weights:
            scale = _stack([self.weights[scale_name(name)] for name in names], rows)
        return Matrix(key, _stack([self.weights[name] for name in names], rows), scale, self.precision)

    def biases(self, *names: str, rows: slice = slice(None)) -> Floats:
        return _stack([self.weights[name] for name in names], rows)


@dataclass(frozen=True)
class Matrix:
    """One matrix of a graph: its values, and how products with it are written."""

    key: str
    values: NDArray[Any]  # [outputs, inputs]
    scale: Floats | None  # [outputs], with int8
    precision: Precision

    def product(self, writer: Writer, x: str, bias: Floats | None, bias_name: str, *, one_row: bool) -> str:
        """x Wᵀ + bias for x [1, inputs] if `one_row`, else x [rows, inputs]."""
        offset = "" if bias is None else writer.constant(bias_name, bias)
        if self.precision == "fp32":
            weight = writer.constant(self.key, self.values)
            return writer.apply("Gemm", x, weight, *([offset] if offset else []), transB=1)
        return self._fused(writer, x, offset) if one_row else self._row_by_row(writer, x, offset)

    def _weight(self, writer: Writer) -> tuple[str, str]:
        """Wᵀ [inputs, outputs] in 8 bits, and the scales of its columns."""
        assert self.scale is not None
        key = f"{self.key}.transposed"
        if key not in writer.constants:
            writer.constant(key, transposed(self.values))
        return key, writer.constant(scale_name(self.key), self.scale)

    def _fused(self, writer: Writer, x: str, offset: str) -> str:
        weight, scale = self._weight(writer)
        optional = ["", offset] if offset else []
        return writer.apply("DynamicQuantizeMatMul", x, weight, scale, *optional, domain=CONTRIB)

    def _row_by_row(self, writer: Writer, x: str, offset: str) -> str:
        """DynamicQuantizeMatMul with a scale and a zero point for each row of x.

        (q - zero) · W = q · W - zero · (sums of W's columns), in whole numbers up to the sum.
        """
        weight, scale = self._weight(writer)
        quantized, row_scale, zero = quantize_rows(writer, x)
        products = writer.apply("MatMulInteger", quantized, weight)
        sums = writer.constant(f"{self.key}.sums", self.values.sum(axis=1, dtype=np.int32))
        whole = writer.apply("Sub", products, writer.apply("Mul", zero, sums))
        scales = writer.apply("Mul", row_scale, scale)
        return _plus(writer, writer.apply("Mul", writer.apply("Cast", whole, to=FLOAT), scales), offset)


def quantize_rows(writer: Writer, x: str) -> tuple[str, str, str]:
    """As DynamicQuantizeLinear, row by row: x as uint8, the scale [rows, 1] and the zero point [rows, 1] int32."""
    nothing, full = writer.number(0), writer.number(255)
    low = writer.apply("Min", writer.apply("ReduceMin", x, axes=[1]), nothing)
    high = writer.apply("Max", writer.apply("ReduceMax", x, axes=[1]), nothing)
    span = writer.apply("Div", writer.apply("Sub", high, low), full)
    scale = writer.apply("Where", writer.apply("Equal", span, nothing), writer.number(1), span)
    distance = writer.apply("Div", writer.apply("Neg", low), scale)
    zero = writer.apply("Round", writer.apply("Clip", distance, nothing, full))
    steps = writer.apply("Round", writer.apply("Div", x, scale))
    inside = writer.apply("Clip", writer.apply("Add", steps, zero), nothing, full)
    return writer.apply("Cast", inside, to=UINT8), scale, writer.apply("Cast", zero, to=INT32)


def _plus(writer: Writer, x: str, offset: str) -> str:
    return writer.apply("Add", x, offset) if offset else x


def _stack(arrays: Sequence[NDArray[Any]], rows: slice) -> NDArray[Any]:
    """`rows` of the first array, followed by the other arrays; the array itself if it is the only one."""
    first = arrays[0][rows]
    return first if len(arrays) == 1 else np.concatenate([first, *arrays[1:]])
