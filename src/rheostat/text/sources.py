"""Finding the texts of a corpus: which file holds the training, the validation and the test text.

A single file as a training corpus is divided by a fixed rule. Its lines are grouped into blocks, since neighbouring
lines often belong together. Of every 20 consecutive blocks, one goes to valid and one to test; a hash of the seed
decides which. So the parts have about 90, 5 and 5 % of the lines, and every command divides the same text in the same
way. Knows files, folders and lines; knows nothing of words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from rheostat.errors import CorpusError, visible
from rheostat.inputs import open_input
from rheostat.text.token_cache import (
    CACHE_VERSION,
    Progress,
    checksum_texts,
    hash_text,
    load_json,
    open_cache,
    reading,
    store_json,
    whole_file,
)

SPLITS = ("train", "valid", "test")
CHAT = "chat"
TALK = "talk"
Source = str | Path | Sequence[Path]

_SPLIT_NAMES = {
    "train": "train", "training": "train",
    "valid": "valid", "validation": "valid", "val": "valid", "dev": "valid",
    "test": "test",
}  # fmt: skip

_SPLIT_FILE = re.compile(rf"(?:.*[._-])?({'|'.join(_SPLIT_NAMES)})(?:\.(?:txt|text|tokens|raw))?", re.IGNORECASE)

_EXPECTED_FILES = "one file each for train, valid and test, named like train.txt, ptb.valid.txt or wiki.test.tokens"


def find_splits(source: Source) -> dict[str, Path]:
    """The train, valid and test text in a folder, or three files in that order."""
    if not isinstance(source, str | Path):
        return _three_files(source)
    folder = Path(source)
    candidates = _candidates(folder)
    for name, paths in candidates.items():
        if len(paths) != 1:
            remedy = "Rename the files, or give the three files in the order train, valid, test."
            raise CorpusError(f"{_wrong_candidates(folder, name, paths)}. {remedy}")
    return {name: paths[0] for name, paths in candidates.items()}


def is_one_file(source: Source) -> bool:
    """Whether a source is a single text file: divided for training (`divide`), taken whole for evaluation."""
    if not isinstance(source, str | Path) or is_named(source):
        return False
    with reading(Path(source)):
        return Path(source).is_file()


def find_split(source: Source, name: str) -> Path:
    """The text of one split; a single file is used whole."""
    check_split_name(name)
    if not isinstance(source, str | Path):
        return _three_files(source)[name]
    with reading(Path(source)):
        if Path(source).is_file():
            return Path(source)
    paths = _candidates(Path(source))[name]
    if len(paths) != 1:
        raise CorpusError(f"{_wrong_candidates(Path(source), name, paths)}. Rename the files.")
    return paths[0]


def check_split_name(name: str) -> None:
    if name not in SPLITS:
        raise CorpusError(f"the split {name!r} is not known; expected one of {', '.join(SPLITS)}")


def _three_files(paths: Sequence[Path]) -> dict[str, Path]:
    if len(paths) != len(SPLITS):
        raise CorpusError(f"got {len(paths)} files ({', '.join(map(str, paths))}); expected three: train, valid, test")
    for path in paths:
        with reading(path):
            if not path.is_file():
                raise CorpusError(f"{path} is not a file; expected three texts in the order train, valid, test")
    return dict(zip(SPLITS, paths, strict=True))


def _candidates(folder: Path) -> dict[str, list[Path]]:
    candidates: dict[str, list[Path]] = {name: [] for name in SPLITS}
    with reading(folder):
        if folder.is_file():
            raise CorpusError(f"{folder} is one file; expected a folder with {_EXPECTED_FILES}, or three files")
        if not folder.exists():
            raise CorpusError(f"{folder} does not exist; expected a text file, or a folder with {_EXPECTED_FILES}")
        if not folder.is_dir():
            raise CorpusError(f"{folder} is a device or a pipe; expected a text file, or a folder with text")
        for path in sorted(folder.iterdir()):
            match = _SPLIT_FILE.fullmatch(path.name)
            if match and path.is_file() and not path.name.startswith("."):
                candidates[_SPLIT_NAMES[match[1].lower()]].append(path)
    return candidates


def _wrong_candidates(folder: Path, name: str, paths: Sequence[Path]) -> str:
    names = [path.name for path in paths] or sorted(path.name for path in folder.iterdir())
    found = ", ".join(names[:10] + ["…"] * (len(names) > 10)) or "nothing"
    return f"{folder} has {len(paths) or 'no'} texts for the split {name}: found {found}; expected {_EXPECTED_FILES}"


def is_named(source: Source) -> bool:
    """Whether a source is the name of a corpus that this program writes itself."""
    return is_chat(source) or is_talk(source)


def is_chat(source: Source) -> bool:
    return _is_name(CHAT, source)


def is_talk(source: Source) -> bool:
    return _is_name(TALK, source)


def _is_name(name: str, source: Source) -> bool:
    return source == name or (source == Path(name) and not Path(name).exists())


def bare_names(source: Source) -> str:
    if isinstance(source, str | Path):
        return visible(Path(source).resolve().name)  # "." has a name too
    return visible(", ".join(path.name for path in source))


# A single file

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
    """The parts of a text file, written to the cache if missing or damaged."""
    cache = open_cache(cache_directory)
    folder = cache / f"divided-{hash_text(text, cache, progress)}-{CACHE_VERSION}"
    known = load_json(folder / "division.json") or {}
    divided = DividedText(folder, str(known.get("rule", "")))
    is_intact = known.get("checksums") == checksum_texts(divided.paths)
    return divided if is_intact else _write(text, open_cache(folder))


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
    with ExitStack() as stack, reading(text), open_input(text) as file:
        outputs = {name: stack.enter_context(whole_file(path)) for name, path in divided.paths.items()}
        names = assignments()
        for number, line in enumerate(file):
            if number % block == 0:
                output = outputs[next(names)]
            output.write(line if line.endswith(b"\n") else line + b"\n")
    store_json(folder / "division.json", {"rule": rule, "checksums": checksum_texts(divided.paths)})
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
    with reading(text), open_input(text) as file:
        return sum(1 for _ in file)
