"""ONNX models as bytes: the messages of onnx.proto that the runtime's graphs consist of.

Knows fields and their numbers; knows nothing about operators. The onnx package would write the same bytes, but
importing it takes longer than building a graph and opening its session, so only `export` and the tests import it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from numpy.typing import NDArray

# Kinds of numbers (TensorProto.DataType)
FLOAT, UINT8, INT8, INT32, INT64, BOOL = 1, 2, 3, 6, 7, 9
_KINDS = {"float32": FLOAT, "uint8": UINT8, "int8": INT8, "int32": INT32, "int64": INT64, "bool": BOOL}

Size: TypeAlias = int | str  # of a dimension: a number, or the name of one that is known when the graph runs
Message: TypeAlias = bytes  # two messages of one kind, concatenated, are one message with the fields of both
Option: TypeAlias = int | Sequence[int] | Message  # of a node; a message is a graph, the body of a loop or a branch


def model(graph: Message, *, ir_version: int, opsets: Mapping[str, int], producer: str, version: str) -> Message:
    versions = [(8, _message((1, domain), (2, number))) for domain, number in opsets.items()]
    return _message((1, ir_version), (2, producer), (3, version), (7, graph), *versions)


def graph(name: str, nodes: Iterable[Message], inputs: Iterable[Message], outputs: Iterable[Message]) -> Message:
    """A graph without constants."""
    return _message(*_each(1, nodes), (2, name), *_each(11, inputs), *_each(12, outputs))


def constants(tensors: Iterable[Message]) -> Message:
    """Fields that add constants to a graph."""
    return _message(*_each(5, tensors))


def node(
    operator: str, inputs: Sequence[str], outputs: Sequence[str], name: str, domain: str, options: Mapping[str, Option]
) -> Message:
    attributes = [(5, _attribute(key, value)) for key, value in sorted(options.items())]
    return _message(*_each(1, inputs), *_each(2, outputs), (3, name), (4, operator), *attributes, (7, domain))


def port(name: str, kind: int, size: Sequence[Size]) -> Message:
    """An input or output of a graph."""
    sizes = [(1, _message((2 if isinstance(length, str) else 1, length))) for length in size]
    tensor = _message((1, kind), (2, _message(*sizes)))
    return _message((1, name), (2, _message((1, tensor))))


def tensor(name: str, array: NDArray[Any]) -> Message:
    return _tensor(name, array) + _message((9, array.tobytes()))


def tensor_elsewhere(name: str, array: NDArray[Any]) -> Message:
    """A constant by its name and size; the session is given the values separately."""
    location = _message((1, "location"), (2, "constants"))
    return _tensor(name, array) + _message((13, location), (14, 1))


def _tensor(name: str, array: NDArray[Any]) -> Message:
    return _message(*_each(1, array.shape), (2, _KINDS[array.dtype.name]), (8, name))


def _attribute(name: str, value: Option) -> Message:
    if isinstance(value, int):
        return _message((1, name), (3, value), (20, 2))
    if isinstance(value, bytes):
        return _message((1, name), (6, value), (20, 5))
    return _message((1, name), *_each(8, value), (20, 7))


# The wire format of protobuf: a field is its number and the kind of its value, then the value


def _each(number: int, values: Iterable[int | str | bytes]) -> list[tuple[int, int | str | bytes]]:
    return [(number, value) for value in values]


def _message(*fields: tuple[int, int | str | bytes]) -> Message:
    return b"".join(part for number, value in fields for part in _field(number, value))


def _field(number: int, value: int | str | bytes) -> tuple[bytes, ...]:
    if isinstance(value, int):
        return _whole(number << 3), _whole(value)
    data = value.encode() if isinstance(value, str) else value
    return _whole(number << 3 | 2), _whole(len(data)), data


def _whole(value: int) -> bytes:
    """Seven bits per byte, lowest first; the eighth bit says that more follow."""
    value &= 2**64 - 1  # negative numbers use all 64 bits
    groups = bytearray()
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    groups.append(value)
    return bytes(groups)
