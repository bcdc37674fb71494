"""A safetensors file as bytes: reads its header strictly, maps its tensors, and writes a new file atomically.

    8 bytes     length n of the header, little-endian
    n bytes     header: a JSON object, padded with spaces
    the rest    the bytes of the tensors, one after another

Knows nothing of models: `description` says which tensors a model needs. Opening reads the header only; no byte of a
tensor is read before `Container.array` maps the file. A file may hold a checksum of its header and of every tensor:
that of the header is compared when the file is opened, that of a tensor when it is first used. The safetensors library
is not used, because its NumPy reader copies, gives no offsets, and accepts duplicate names.
"""

from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rheostat.durable import READ_ONLY, failure, obstacle, old_file, replacing, try_writing
from rheostat.errors import ModelFileError, NotCopyable, show
from rheostat.inputs import OPEN_FLAGS, kind_of

LINE_BYTES = 64  # of a cache line: planes begin with one
LENGTH_BYTES = 8
MAXIMUM_HEADER_BYTES = 1 << 22  # the core's limit too; the safetensors library reads 100 MB
MAXIMUM_DIMENSIONS = 8
FIRST_READ_BYTES = 4096  # most headers fit, so one call reads them
MAXIMUM_OFFSET = 2**53  # the core's limit too; any reader of JSON has whole numbers up to here exactly
METADATA = "__metadata__"
CHECKSUMS = "crc32"  # in the metadata: of the header with this one as zeros, then of every tensor in file order
_UNSEALED = "0" * 8
_MARK = f'"{CHECKSUMS}":"'.encode()
_ENTRY_KEYS = ("dtype", "shape", "data_offsets")
DTYPES: dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "I32": np.dtype("<i4"),
    "F16": np.dtype("<f2"),
    "U16": np.dtype("<u2"),
    "I8": np.dtype("i1"),
    "U8": np.dtype("u1"),
}
_ITEM_BYTES = {name: dtype.itemsize for name, dtype in DTYPES.items()}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}

FETCH_AGAIN = "the file is damaged: fetch or write it again"

# (dtype, shape, begin, end) of a tensor; offsets count from the end of the header.
Stored: TypeAlias = tuple[str, tuple[int, ...], int, int]


class Container(NotCopyable):
    """An open safetensors file. Arrays taken from it outlive `close` and the replacement of the file."""

    __slots__ = (
        "_data",
        "_descriptor",
        "_seen",
        "_unchecked",
        "checksums",
        "data_offset",
        "identity",
        "metadata",
        "path",
        "size",
        "tensors",
    )

    def __init__(self, path: str, verify: bool = True) -> None:
        """verify: compare checksums, if the file holds them."""
        self._descriptor = -1
        self._data: mmap.mmap | None = None
        self.path = path
        self.checksums: dict[str, int] = {}  # of the tensors; empty if the file holds none, or they are not compared
        try:
            self._open(verify)
        except ModelFileError as error:
            self.close()
            raise ModelFileError(f"{path}: {error}") from error.__cause__

    def _open(self, verify: bool) -> None:
        self._descriptor, status = _open_file(self.path)
        self.size = status.st_size
        self.identity = _identity(status)
        self._seen = status.st_mtime_ns, status.st_ctime_ns
        header = _read_header(self._descriptor, self.size)
        self.data_offset = LENGTH_BYTES + len(header)
        self.metadata, self.tensors, data_bytes = parse_header(header)
        _check_data(data_bytes, self.size - self.data_offset)
        if verify:
            self.checksums = _read_checksums(header, self.metadata, self.tensors)
        self._unchecked = set(self.checksums)

    def array(self, name: str) -> NDArray[Any]:
        """The tensor as stored: a read-only view of the mapped file. Its checksum is compared the first time."""
        if name in self._unchecked:
            self._verify(name)
        dtype, shape, begin, _ = self.tensors[name]
        return np.ndarray(shape, DTYPES[dtype], self._mapping(), self.data_offset + begin)

    def mapped_bytes(self) -> NDArray[np.uint8]:
        """The whole file: a read-only view of it, mapped. The checksums of all tensors are compared the first time."""
        self.verify()
        return np.frombuffer(self._mapping(), np.uint8)

    def verify(self) -> None:
        """Compare the checksums of all tensors that were not used yet."""
        for name in sorted(self._unchecked):
            self._verify(name)

    def _verify(self, name: str) -> None:
        _, _, begin, end = self.tensors[name]
        with memoryview(self._mapping()) as view:
            found = zlib.crc32(view[self.data_offset + begin : self.data_offset + end])
        if found != self.checksums[name]:
            expected = f"{self.checksums[name]:08x} as when it was written"
            raise ModelFileError(f"{self.path}: {problem(f'the checksum {found:08x} of {name}', expected)}")
        self._unchecked.discard(name)

    def watch_size(self) -> Callable[[], bool]:
        """A function that says whether the file still has its size, in a microsecond: for every query on the mapping.

        Reading a mapping beyond the end of its file would end the program. A mapping of the first page asks the system
        in half the time of `os.fstat`, and it has a descriptor of its own, which another thread cannot close meanwhile.
        """
        try:
            page = mmap.mmap(self._descriptor, 1, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise ModelFileError(f"{self.path}: {problem(reason(error), 'a file to map')}") from error
        size_now, size = page.size, self.size
        return lambda: size_now() == size

    def check_unchanged(self) -> None:
        """Raise ModelFileError if the file was written to, or cut short, since it was opened.

        A file that another one replaced under its name is not changed: what was opened is the old one, and it is whole.
        Nor is one that was only touched, if it holds checksums.
        """
        try:
            status = os.fstat(self._descriptor)
        except OSError:  # closed, maybe by another thread
            return
        if (status.st_size == self.size and self._is_as_seen(status)) or self._descriptor < 0:
            return
        raise ModelFileError(
            f"{self.path}: found that the file was written to while it was in use; expected it to stay as it was: "
            "load it again, and replace files by renaming"
        )

    def _is_as_seen(self, status: os.stat_result) -> bool:
        """Whether the file has its old content, by its times or else by its checksums."""
        times = status.st_mtime_ns, status.st_ctime_ns
        if times == self._seen:
            return True
        if not self.checksums:  # renaming a file changes the second time, too
            return times[0] == self._seen[0]
        was_mapped, self._unchecked = self._data is not None, set(self.checksums)
        try:
            self.verify()
        except ModelFileError:
            return False
        finally:
            if not was_mapped:
                self.release()
        self._seen = times
        return True

    def _mapping(self) -> mmap.mmap:
        data = self._data  # a name of its own: another thread may release it
        if data is None:
            data = self._data = self._map()
        return data

    def _map(self) -> mmap.mmap:
        if self._descriptor < 0:
            raise ModelFileError(f"{self.path}: the model file is closed; open it again")
        if not self.checksums or os.fstat(self._descriptor).st_size != self.size:
            self.check_unchanged()  # checksums show the rest at first use
        try:
            return mmap.mmap(self._descriptor, self.size, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            cause = problem(reason(error), f"{self.size} bytes to map")
            raise ModelFileError(f"{self.path}: {cause}") from error

    def release(self) -> None:
        """Let the mapping and its memory be freed once no array uses it."""
        self._data = None

    def close(self) -> None:
        """Also close the file."""
        self.release()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    __del__ = close


def problem(found: str, expected: str, remedy: str = FETCH_AGAIN) -> ModelFileError:
    """An error in the form all messages have: found, expected, what to do. Callers that know the path put it first."""
    return ModelFileError(f"found {found}; expected {expected}; {remedy}")


def parse_json(text: str, what: str, decoder: json.JSONDecoder | None = None) -> Any:
    """JSON read more strictly than Python does: no duplicate keys, no NaN, no lone surrogates."""
    try:
        value, end = (decoder or _DECODER).raw_decode(text)
        if text[end:].strip(" "):
            raise ValueError(f"something follows at character {end}")
        if "\\" in text and "\\u" in text:  # could be a lone surrogate, which cannot be printed or stored
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise problem(f"{what} nested too deeply to read", "a few levels") from None
    except ValueError as error:
        raise problem(f"{what} that is not proper JSON ({str(error)[:100]})", "a JSON object") from None
    return value


def arrange(tensors: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Tensors in file order: planes, which are whole cache lines; wide items, so that all are aligned; then by name."""
    names = sorted(tensors, key=lambda name: (not _is_plane(tensors[name]), -tensors[name].dtype.itemsize, name))
    return {name: np.ascontiguousarray(tensors[name]) for name in names}


def header_bytes(metadata: Mapping[str, str], tensors: Mapping[str, NDArray[Any]]) -> bytes:
    """The header of a file that holds `tensors` one after another."""
    entries: dict[str, object] = {METADATA: dict(metadata)}
    position = 0
    for name, array in tensors.items():
        end = position + array.nbytes
        entries[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [position, end],
        }
        position = end
    header = json.dumps(entries, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    alignment = LINE_BYTES if any(map(_is_plane, tensors.values())) else LENGTH_BYTES
    header += b" " * (-(LENGTH_BYTES + len(header)) % alignment)
    if len(header) > MAXIMUM_HEADER_BYTES:
        raise problem(f"a header of {len(header):,} bytes", f"at most {MAXIMUM_HEADER_BYTES:,}", "drop some points")
    return header


def header_with_checksums(metadata: Mapping[str, str], tensors: Mapping[str, NDArray[Any]]) -> bytes:
    """The header with checksums: of every tensor, and of itself."""
    sums = {name: zlib.crc32(array.data if array.size else b"") for name, array in tensors.items()}
    plain = parse_header(header_bytes(metadata, tensors))[1]
    listed = " ".join([_UNSEALED, *(f"{sums[name]:08x}" for name in _in_file_order(plain))])
    header = header_bytes({CHECKSUMS: listed, **metadata}, tensors)
    place = header.index(_MARK) + len(_MARK)
    return header[:place] + f"{zlib.crc32(header):08x}".encode() + header[place + len(_UNSEALED) :]


def _is_plane(array: NDArray[Any]) -> bool:
    return array.ndim == 3


# Reading


def _open_file(path: str) -> tuple[int, os.stat_result]:
    """A descriptor of the file, and what the system says of it."""
    try:
        descriptor = os.open(path, OPEN_FLAGS)
    except (OSError, ValueError) as error:
        raise problem(reason(error).lower(), "a model file that can be read", "check the path") from error
    status = os.fstat(descriptor)
    if found := kind_of(status.st_mode):
        os.close(descriptor)
        raise problem(found, "a model file", "name the file itself")
    return descriptor, status


def _identity(status: os.stat_result) -> tuple[int, ...]:
    """The same only for one file with one content, as far as the system notes changes."""
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def _in_file_order(tensors: Mapping[str, Stored]) -> list[str]:
    return [name for _, _, name in sorted((begin, end, name) for name, (_, _, begin, end) in tensors.items())]


def _read_checksums(header: bytes, metadata: Mapping[str, str], tensors: Mapping[str, Stored]) -> dict[str, int]:
    """The checksums of all tensors; none if the file holds none. That of the header is compared here."""
    listed = metadata.get(CHECKSUMS)
    pattern = re.compile(f"[0-9a-f]{{8}}( [0-9a-f]{{8}}){{{len(tensors)}}}")
    if listed is None:
        if damaged := next((key for key, value in metadata.items() if pattern.fullmatch(value)), None):
            raise problem(f"checksums under the name {show(damaged)}", CHECKSUMS)
        return {}
    if not pattern.fullmatch(listed):
        raise problem(f"{show(listed)} for {CHECKSUMS}", f"{len(tensors) + 1} numbers of eight hexadecimal digits")
    own, *sums = listed.split()
    place = header.index(_MARK) + len(_MARK) if _MARK in header else 0
    found = f"{zlib.crc32(header[:place] + _UNSEALED.encode() + header[place + len(own) :]):08x}"
    if found != own:
        raise problem(f"the checksum {found} of the header", f"{own} as when it was written")
    return {name: int(one, 16) for name, one in zip(_in_file_order(tensors), sums, strict=True)}


def _read_header(descriptor: int, size: int) -> bytes:
    start = _read_bytes(descriptor, FIRST_READ_BYTES)
    length = int.from_bytes(start[:LENGTH_BYTES], "little")
    longest = min(size - LENGTH_BYTES, MAXIMUM_HEADER_BYTES)
    if longest < 2:
        why = "this is none, or only the beginning of one: name another" if size else "it is empty: fetch it again"
        raise problem(f"a file of {size} bytes", "a model file", why)
    if not 2 <= length <= longest:
        raise problem(
            f"a header length of {length} in a file of {size} bytes",
            f"2 to {longest}",
            "this is not a safetensors file, or only the beginning of one: fetch it again",
        )
    end = LENGTH_BYTES + length
    if end > len(start):
        start += _read_bytes(descriptor, end - len(start))
    return start[LENGTH_BYTES:end]


def _read_bytes(descriptor: int, count: int) -> bytes:
    try:
        return os.read(descriptor, count)  # for a regular file, all `count` bytes or up to its end
    except OSError as error:
        raise problem(reason(error), "a model file that can be read", "check the disk") from error


def parse_header(header: bytes) -> tuple[dict[str, str], dict[str, Stored], int]:
    """Metadata, tensors, and the size of all tensors in bytes. Tensors must be contiguous."""
    if header[:1] != b"{":
        raise problem(f"a header that starts with {show(header[:8])}", "'{'", "this is not a safetensors file")
    try:
        text = header.decode()
    except UnicodeDecodeError as error:
        raise problem(f"a header that is not UTF-8 (byte {error.start})", "UTF-8 text") from None
    entries = _as_object(parse_json(text, "a header", _PAIRS_DECODER), "the header")
    metadata = _as_object(entries.pop(METADATA, ()), METADATA)
    for key, value in metadata.items():
        if type(value) is not str:
            raise problem(f"{show(value)} for {show(key)} in {METADATA}", "a text")
    tensors, data_bytes = _parse_entries(entries)
    return metadata, tensors, data_bytes


def _parse_entries(entries: Mapping[str, Any]) -> tuple[dict[str, Stored], int]:
    tensors = {name: _parse_entry(name, entry) for name, entry in entries.items()}
    position = 0
    for begin, end, name in sorted([(begin, end, name) for name, (_, _, begin, end) in tensors.items()]):
        if begin != position:
            relation = "overlaps" if begin < position else "leaves a gap after"
            raise problem(
                f"tensor {show(name)} at offset {begin}, which {relation} the one before",
                f"offset {position}",
            )
        position = end
    return tensors, position


def _parse_entry(name: str, value: Any) -> Stored:
    entry = _as_object(value, f"tensor {show(name)}")
    if set(entry) != set(_ENTRY_KEYS):
        raise problem(f"the keys {show(sorted(entry))} for tensor {show(name)}", ", ".join(_ENTRY_KEYS))
    dtype, shape, offsets = (entry[key] for key in _ENTRY_KEYS)
    if type(dtype) is not str or dtype not in DTYPES:
        raise problem(f"tensor {show(name)} stored as {show(dtype)}", f"one of {', '.join(DTYPES)}")
    if not _are_sizes(shape) or len(shape) > MAXIMUM_DIMENSIONS:
        raise problem(f"shape {show(shape)} of tensor {show(name)}", f"up to {MAXIMUM_DIMENSIONS} whole numbers")
    if not _are_sizes(offsets) or len(offsets) != 2:
        raise problem(f"data_offsets {show(offsets)} of tensor {show(name)}", "two whole numbers")
    begin, end = offsets
    count = math.prod(shape) * _ITEM_BYTES[dtype]
    if end - begin != count:
        raise problem(f"{end - begin} bytes for tensor {show(name)}", f"{show(count)} for {show(shape)} of {dtype}")
    return dtype, tuple(shape), begin, end


def _are_sizes(numbers: Any) -> bool:
    return type(numbers) is list and all(type(n) is int and 0 <= n <= MAXIMUM_OFFSET for n in numbers)


def _check_data(described_bytes: int, data_bytes: int) -> None:
    if described_bytes > data_bytes:
        raise problem(
            f"{data_bytes} bytes of tensors",
            f"{described_bytes} by the header",
            "the file was cut short: fetch or write it again",
        )
    if described_bytes < data_bytes:
        raise problem(f"{data_bytes - described_bytes} bytes after the last tensor", "none")


def _as_object(pairs: Any, what: str) -> dict[str, Any]:
    """A dict from the pairs that `_PAIRS_DECODER` returns for an object: a tuple, while a JSON list is a list."""
    if type(pairs) is not tuple:
        raise problem(f"{show(pairs)} for {what}", "an object")
    try:
        return _unique(pairs)
    except ValueError as error:
        raise problem(f"{error} in {what}", "each once") from None


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = sorted(key for key, _ in pairs)
        doubled = next(first for first, second in pairwise(keys) if first == second)
        raise ValueError(f"the key {show(doubled)} twice")
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant)
_PAIRS_DECODER = json.JSONDecoder(object_pairs_hook=tuple, parse_constant=_refuse_constant)


# Writing


def write_container(path: Path, header: bytes, arrays: Iterable[NDArray[Any]], *, alone: bool = False) -> None:
    """Write the file, or leave the old one untouched. alone: as for `durable.replacing`."""
    with _replacing(path, alone) as file:
        file.write(len(header).to_bytes(LENGTH_BYTES, "little"))
        file.write(header)
        for array in arrays:
            file.write(array.data)


@contextlib.contextmanager
def _replacing(path: Path, alone: bool) -> Iterator[BinaryIO]:
    """A file that replaces `path` when the block ends, and is removed if the block fails."""
    target = _checked_target(path)
    with _writing(target), replacing(target, alone=alone) as file:
        yield file


def check_target(path: Path) -> None:
    """Raise an error if no file can be written to this path; tries to create one beside it."""
    target = _checked_target(path)
    with _writing(target):
        try_writing(target)


def _checked_target(path: Path) -> Path:
    """The path that would be written, links resolved; an error if it clearly cannot be written."""
    with _writing(path):
        target = Path(os.path.realpath(path))
        if found := obstacle(target):
            remedies = {"a folder": "add a file name", READ_ONLY: "choose another name, or make it writable"}
            expected = "one that may be written" if found == READ_ONLY else "a regular file or an unused name"
            raise problem(found, expected, remedies.get(found, "choose another name"))
        if not target.parent.is_dir():
            raise problem(f"no folder {target.parent}", "an existing folder", "create it first")
        return target


@contextlib.contextmanager
def _writing(target: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise problem(
            f"an error while writing ({failure(target, error) if isinstance(error, OSError) else error})",
            "a writable folder with enough space",
            f"free some space or choose another folder{old_file(target)}",
        ) from error


def reason(error: Exception) -> str:
    """The system's message, without the error number and the path."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
