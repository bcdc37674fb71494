"""A single text file as a training corpus: its lines are divided into train, valid and test by a fixed rule.

Lines are grouped into blocks, since neighbouring lines often belong together. Of every 20 consecutive blocks, one goes
to valid and one to test; a hash of the seed decides which. So the parts have about 90, 5 and 5 % of the lines, and
every command divides the same text in the same way. Knows lines and the cache; knows nothing of words.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from rheostat.errors import CorpusError
from rheostat.text.sources import SPLITS
from rheostat.text.token_cache import (
    CACHE_VERSION,
    Progress,
    hash_text,
    load_json,
    open_cache,
    reading,
    store_json,
    whole_file,
)

SEED = 1  # part of the rule, so that no command trains on text that another tests on
CYCLE = 20  # blocks, of which one is for validation and one for testing
MOST_LINES = 100  # per block
BLOCKS = 200  # a text with this many blocks or more is divided evenly enough


@dataclass(frozen=True)
class DividedText:
    """The parts of a text as three files in one folder, which is itself a corpus."""

    folder: Path
    rule: str

    @property
    def paths(self) -> dict[str, Path]:
        return {name: self.folder / f"{name}.txt" for name in SPLITS}


def divide(text: Path, cache_directory: Path | None = None, progress: Progress | None = None) -> DividedText:
    """The parts of a text file, written to the cache if missing."""
    cache = open_cache(cache_directory)
    folder = cache / f"divided-{hash_text(text, cache, progress)}-{CACHE_VERSION}"
    known = load_json(folder / "division.json") or {}
    divided = DividedText(folder, str(known.get("rule", "")))
    sizes = {name: path.stat().st_size for name, path in divided.paths.items() if path.is_file()}
    return divided if known.get("sizes") == sizes and sizes else _write(text, open_cache(folder))


def _write(text: Path, folder: Path) -> DividedText:
    lines = _count_lines(text)
    if lines < CYCLE:
        raise CorpusError(
            f"{text} has {lines} lines, too few to divide into train, valid and test; expected at least {CYCLE}: "
            "break it into lines, or give three files"
        )
    block = max(1, min(lines // BLOCKS, MOST_LINES))
    rule = f"blocks of {block} lines: of every {CYCLE}, one is for valid and one for test (seed {SEED})"
    divided = DividedText(folder, rule)
    with ExitStack() as stack, reading(text), text.open("rb") as file:
        outputs = {name: stack.enter_context(whole_file(path)) for name, path in divided.paths.items()}
        names = assignments()
        for number, line in enumerate(file):
            if number % block == 0:
                output = outputs[next(names)]
            output.write(line if line.endswith(b"\n") else line + b"\n")
    sizes = {name: path.stat().st_size for name, path in divided.paths.items()}
    store_json(folder / "division.json", {"rule": rule, "sizes": sizes})
    return divided


def assignments(seed: int = SEED) -> Iterator[str]:
    """The split of each block, in an endless sequence."""
    cycle = 0
    while True:
        draw = int.from_bytes(blake2b(f"{seed} {cycle}".encode(), digest_size=8).digest(), "little")
        valid, step = draw % CYCLE, 1 + draw // CYCLE % (CYCLE - 1)
        special = {valid: "valid", (valid + step) % CYCLE: "test"}
        yield from (special.get(place, "train") for place in range(CYCLE))
        cycle += 1


def _count_lines(text: Path) -> int:
    with reading(text), text.open("rb") as file:
        return sum(1 for _ in file)
