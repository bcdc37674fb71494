"""The token cache, which can be deleted at any time: hashes of texts, JSON objects, ids as memory maps.

Knows files, bytes and ids; knows nothing of splits, vocabularies or how text becomes ids. A file is named after the
hash of its inputs, and is either complete or absent. Files hold checksums: a damaged one is made again. A corpus stores
these files here:

    {text, tokenizer}.counts.json             how often each word of a training text occurs
    {text, tokenizer, vocabulary}.ids         a text as ids: a header, then one int32 per token
    {text, tokenizer, vocabulary}.casing.json the usual spelling of words, for raw text
    chat-…/                                   the chat corpus as three text files
    mixture-…/                                a corpus of several parts: three text files, and each part's own
    divided-{text}-…/                         one text file as three: train, valid and test
    hashes.json                               the hashes of texts by path and identity: see `identify_text`
"""

from __future__ import annotations

import json
import os
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from rheostat.durable import replacing
from rheostat.errors import CorpusError, encode_text
from rheostat.inputs import open_input

CACHE_VERSION = 2  # raise it whenever tokenisation or the format of a cache file changes

Progress = Callable[[str, float], None]  # called from time to time with a label and the share done
Report = Callable[[float], None]  # the same, for one label
Ids = npt.NDArray[np.int32]
Item = TypeVar("Item")


def default_cache_directory() -> Path:
    """`$RHEOSTAT_CACHE` if set, else a folder where the platform keeps caches."""
    if given := os.environ.get("RHEOSTAT_CACHE"):
        return Path(given)
    if sys.platform == "win32":
        place = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        place = Path.home() / "Library" / "Caches"
    else:
        place = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(place) / "rheostat"


def open_cache(directory: Path | None = None) -> Path:
    """The cache folder, created if missing; by default the platform's."""
    directory = directory or default_cache_directory()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable_cache(directory, error) from error
    return directory


def _unusable_cache(directory: Path, error: OSError) -> CorpusError:
    return CorpusError(
        f"the cache folder {directory} cannot be written ({error.strerror or error}); "
        f"set RHEOSTAT_CACHE to a writable folder with enough space"
    )


# --- hashes -----------------------------------------------------------------------------------------------

_HASH_BLOCK_BYTES = 1 << 22
_END_BYTES = 1 << 12  # of the beginning and the end of a text that identify it
_SETTLED_NS = 2_000_000_000  # a text modified more recently could change again without a new time stamp


def key(*parts: str | bytes) -> str:
    """The name of the cache file for these inputs."""
    digest = blake2b(digest_size=16)
    for part in (str(CACHE_VERSION), *parts):
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def hash_text(path: Path, cache: Path, progress: Progress | None) -> str:
    """Hash of a text's bytes. Hashes are stored, so that gigabytes of unchanged text are not read again."""
    place, stamp = str(path.resolve()), identify_text(path)
    memory = cache / "hashes.json"
    known = load_json(memory) or {}
    match known.get(place):
        case [*remembered, str(text_hash)] if remembered == stamp:
            return text_hash
    text_hash = _hash_bytes(path, reporter(progress, f"checking {path.name}"))
    if identify_text(path) == stamp and time.time_ns() - stat_text(path).st_mtime_ns > _SETTLED_NS:
        with suppress(CorpusError):  # a read-only cache is still useful
            store_json(memory, known | {place: [*stamp, text_hash]})
    return text_hash


def identify_text(path: Path) -> list[int]:
    """Numbers that change when a text is changed or replaced, also by one of the same size and time.

    Size, time of change, the time of the last change of its status, which no program can set, device, inode, and a
    checksum of its beginning and end.
    """
    found = stat_text(path)
    with reading(path), open_input(path) as file:
        ends = zlib.crc32(file.read(_END_BYTES))
        file.seek(max(0, found.st_size - _END_BYTES))
        ends = zlib.crc32(file.read(_END_BYTES), ends)
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_dev, found.st_ino, ends]


def while_unchanged(path: Path, identity: list[int], blocks: Iterable[Item]) -> Iterator[Item]:
    """What is read from a text; an error at the end if the text was changed meanwhile, so that it is not stored."""
    yield from blocks
    if identify_text(path) != identity:
        raise CorpusError(f"{path} was changed while it was read; expected it to stay as it was: run this again")


def _hash_bytes(path: Path, report: Report | None) -> str:
    digest = blake2b(digest_size=16)
    size, done = max(1, path.stat().st_size), 0
    with reading(path), open_input(path) as file:
        while data := file.read(_HASH_BLOCK_BYTES):
            digest.update(data)
            done += len(data)
            if report:
                report(min(1.0, done / size))
    return digest.hexdigest()


def stat_text(path: Path) -> os.stat_result:
    """Size and modification time of a text; an error if it is not a file."""
    with reading(path):
        if not path.is_file():
            raise CorpusError(f"{path} is not a file; expected a text file")
        return path.stat()


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Within the block, system errors become a CorpusError in one line."""
    try:
        yield
    except OSError as error:
        raise CorpusError(
            f"{path} cannot be read ({error.strerror or error}); expected text: check its name and permissions"
        ) from error


def reporter(progress: Progress | None, label: str) -> Report | None:
    """A function that reports progress under this label; None if nobody listens."""
    return None if progress is None else lambda fraction: progress(label, fraction)


# --- whole files ------------------------------------------------------------------------------------------


def load_json(file: Path) -> dict[str, Any] | None:
    """A JSON object from the cache; None if missing or damaged."""
    try:
        with open_input(file) as stream:
            checksum, _, data = stream.read().partition(b"\n")
        stored = json.loads(data) if checksum == _checksum(data) else None
    except (OSError, ValueError, RecursionError):
        return None
    return stored if isinstance(stored, dict) else None


def store_json(file: Path, stored: Mapping[str, Any]) -> None:
    """A JSON object after a line with its checksum."""
    data = encode_text(json.dumps(stored, ensure_ascii=False))
    with whole_file(file) as output:
        output.write(_checksum(data) + b"\n" + data)


def checksum_texts(paths: Mapping[str, Path]) -> dict[str, str]:
    """The checksum of each text that is in the cache, by its name; empty for one that cannot be read.

    Whoever writes texts stores their checksums beside them, and writes the texts again if these differ.
    """
    return {name: _checksum_file(path) for name, path in paths.items() if path.is_file()}


def _checksum_file(path: Path) -> str:
    checksum = 0
    try:
        with path.open("rb") as file:
            while data := file.read(_HASH_BLOCK_BYTES):
                checksum = zlib.crc32(data, checksum)
    except OSError:
        return ""
    return f"{checksum:08x}"


def _checksum(data: bytes) -> bytes:
    return f"{zlib.crc32(data):08x}".encode()


@contextmanager
def whole_file(file: Path) -> Iterator[BinaryIO]:
    """A file that appears under its name only when complete, even if other processes write it at the same time."""
    written = False
    try:
        with replacing(file) as output:
            written = True
            yield output
    except OSError as error:
        if written and isinstance(error, PermissionError) and file.exists():
            return  # Windows: another process has it open. Files with this name always have the same content.
        raise _unusable_cache(file.parent, error) from error


# --- ids --------------------------------------------------------------------------------------------------

_IDS_MAGIC = b"rheo-ids"
_IDS_HEADER = struct.Struct("<8sQQQI28x")  # magic, tokens, words, unknown, checksum of the ids and these; 64 bytes
_IDS_TYPE = np.dtype("<i4")


class StoredIds(NamedTuple):
    """A text as ids. words: number of ids other than `<eos>`; unknown: number of `<unk>`."""

    ids: Ids
    words: int
    unknown: int


def write_ids(file: Path, blocks: Iterable[Ids], *, end_id: int, unknown_id: int) -> None:
    """Write all blocks to one file, and count their tokens."""
    tokens = words = unknown = checksum = 0
    with whole_file(file) as output:
        output.seek(_IDS_HEADER.size)
        for ids in blocks:
            data = ids.astype(_IDS_TYPE, copy=False).data
            output.write(data)
            checksum = zlib.crc32(data, checksum) if len(ids) else checksum
            tokens += len(ids)
            words += len(ids) - int(np.count_nonzero(ids == end_id))
            unknown += int(np.count_nonzero(ids == unknown_id))
        output.seek(0)
        checksum = zlib.crc32(f"{tokens} {words} {unknown}".encode(), checksum)
        output.write(_IDS_HEADER.pack(_IDS_MAGIC, tokens, words, unknown, checksum))


def open_ids(file: Path, vocabulary_size: int) -> StoredIds | None:
    """The ids in a cache file, memory-mapped; None if missing, incomplete or damaged, or if an id is of no word."""
    try:
        with open_input(file) as stream:
            header = stream.read(_IDS_HEADER.size)
            size = os.fstat(stream.fileno()).st_size
    except OSError:
        return None
    if len(header) < _IDS_HEADER.size:
        return None
    magic, tokens, words, unknown, checksum = _IDS_HEADER.unpack(header)
    if magic != _IDS_MAGIC or not tokens or size != _IDS_HEADER.size + tokens * _IDS_TYPE.itemsize:
        return None
    ids = np.memmap(file, _IDS_TYPE, mode="r", offset=_IDS_HEADER.size, shape=(tokens,))
    found = zlib.crc32(f"{tokens} {words} {unknown}".encode(), zlib.crc32(ids.data))
    if found != checksum or ids.min() < 0 or ids.max() >= vocabulary_size:
        return None
    return StoredIds(ids, words, unknown)
