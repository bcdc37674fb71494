"""Reading a text file as tokens, block by block, so that a whole text is never in memory.

Knows bytes, lines and tokens; knows nothing of splits, ids or counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from rheostat.errors import CorpusError
from rheostat.inputs import open_input
from rheostat.text.token_cache import Report, reading, stat_text
from rheostat.text.tokenizers import as_tokenizer, split_at_ascii_white_space, tokenize
from rheostat.text.vocabulary import END_OF_LINE

BLOCK_BYTES = 1 << 20

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_SPECIAL_WORD = re.compile(r"<(?<!\S<)(?:unk|eos|num)>(?!\S)")  # starting with a fixed character makes the search fast


def read_tokens(path: Path, tokenizer: str, report: Report | None = None) -> Iterator[list[str]]:
    """All tokens of a text, with an `<eos>` for every line, in lists of convenient size.

    A blank line in a pre-tokenised corpus counts as a line, as in the published token counts. In raw text it is only
    spacing and is skipped.
    """
    as_tokenizer(tokenizer)
    blocks = read_blocks(path, report)
    has_words = False
    for tokens in _raw_tokens(path, blocks) if tokenizer == "words" else _prepared_tokens(blocks):
        has_words = has_words or tokens.count(END_OF_LINE) < len(tokens)
        yield tokens
    if not has_words:
        raise CorpusError(f"{path} is empty or has only white space; expected text: give another file")


def _prepared_tokens(blocks: Iterable[tuple[int, str]]) -> Iterator[list[str]]:
    text = ""
    for _, text in blocks:
        yield split_at_ascii_white_space(text.replace("\n", f" {END_OF_LINE} "))
    if text and not text.endswith("\n"):
        yield [END_OF_LINE]


def _raw_tokens(path: Path, blocks: Iterable[tuple[int, str]]) -> Iterator[list[str]]:
    line_has_words = False
    for first_line, text in blocks:
        _refuse_special_words(path, first_line, text)
        tokens: list[str] = []
        *lines, unfinished = text.split("\n")
        for line in lines:
            words = tokenize(line, "words")
            tokens += words
            if words or line_has_words:
                tokens.append(END_OF_LINE)
            line_has_words = False
        words = tokenize(unfinished, "words")
        tokens += words
        line_has_words = line_has_words or bool(words)
        yield tokens
    if line_has_words:
        yield [END_OF_LINE]


def _refuse_special_words(path: Path, first_line: int, text: str) -> None:
    if found := _SPECIAL_WORD.search(text):
        line = first_line + text.count("\n", 0, found.start())
        raise CorpusError(
            f"{path}, line {line}: found {found[0]} as a word of raw text; expected no special tokens. If "
            "the text is already split into words, set corpus.tokenizer to ptb or wikitext; otherwise remove it."
        )


def read_blocks(path: Path, report: Report | None = None) -> Iterator[tuple[int, str]]:
    """(number of its first line, text) of each block: about a megabyte, ending after a space or a line end."""
    size = max(1, stat_text(path).st_size)
    line, done, is_first = 1, 0, True
    held: list[bytes] = []  # the bytes after the last white space read so far
    with reading(path), open_input(path) as file:
        while data := file.read(BLOCK_BYTES):
            cut = max(data.rfind(b"\n"), data.rfind(b" ")) + 1
            if cut:
                text = _decode_block(path, line, b"".join((*held, data[:cut])), is_first)
                held, is_first = [], False
                yield line, text
                line += text.count("\n")
            held.append(data[cut:])
            done += len(data)
            if report:
                report(min(1.0, done / size))
    if rest := b"".join(held):
        yield line, _decode_block(path, line, rest, is_first)


def _decode_block(path: Path, line: int, data: bytes, is_first: bool) -> str:
    if is_first:
        data = data.removeprefix(_BYTE_ORDER_MARK)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line += data.count(b"\n", 0, error.start)
        raise CorpusError(
            f"{path}, line {line}: found bytes that are not UTF-8 ({data[error.start : error.end]!r}); "
            "expected UTF-8: convert the file"
        ) from None
