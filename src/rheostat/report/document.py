"""A report as data: sections of paragraphs, tables and pictures, and the Markdown of it.

Knows nothing of what the sections say; `report` fills them, `html` makes a page of them. In texts, `backticks` set off
names of files and commands; a line end within a cell is one on the page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Paragraph:
    text: str


@dataclass(frozen=True)
class Row:
    """mark: what a page sets off, such as "published" or a verdict."""

    cells: tuple[str, ...]
    mark: str = ""


@dataclass(frozen=True)
class Table:
    """align: a letter a column, "l" for words and "r" for numbers.

    folded: what to press for a table that a page shows only when asked. judged: its first column is a verdict.
    """

    header: tuple[str, ...]
    align: str
    rows: tuple[Row, ...]
    folded: str = ""
    judged: bool = False

    def __post_init__(self) -> None:
        assert all(len(row.cells) == len(self.header) == len(self.align) for row in self.rows)


@dataclass(frozen=True)
class Picture:
    """stem: of its files; draw: writes it as PNG or SVG by a path's suffix. alt: what it shows, for who cannot see."""

    stem: str
    alt: str
    caption: str
    draw: Callable[[Path], None]


Block: TypeAlias = Paragraph | Table | Picture


@dataclass(frozen=True)
class Section:
    title: str
    blocks: tuple[Block, ...]
    level: Literal[2, 3] = 2

    @property
    def anchor(self) -> str:
        words = "".join(sign if sign.isalnum() else " " for sign in self.title.lower()).split()
        return "-".join(words)


@dataclass(frozen=True)
class Document:
    title: str
    lead: str
    sections: tuple[Section, ...]
    notes: tuple[str, ...] = field(default=())

    def pictures(self) -> list[Picture]:
        return [block for section in self.sections for block in section.blocks if isinstance(block, Picture)]


def line(cells: Iterable[str]) -> str:
    """A line of a Markdown table; what would end a cell or the line is written otherwise."""
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", "<br>") for cell in cells) + " |"


def table_markdown(table: Table) -> str:
    rules = ["---:" if letter == "r" else "---" for letter in table.align]
    return "\n".join([line(table.header), line(rules), *(line(row.cells) for row in table.rows)])


def markdown(document: Document) -> str:
    parts = [f"# {document.title}", document.lead]
    for section in document.sections:
        parts.append(f"{'#' * section.level} {section.title}")
        parts += [_block_markdown(block) for block in section.blocks]
    if document.notes:
        parts.append("\n".join(f"* {note}" for note in document.notes))
    return "\n\n".join(parts) + "\n"


def _block_markdown(block: Block) -> str:
    match block:
        case Paragraph(text):
            return text
        case Table():
            return table_markdown(block)
        case Picture(stem, alt, caption):
            return f"![{alt}]({stem}.png)\n\n{caption}"


def files(paths: Iterable[Path]) -> str:
    """Names of files, each once, in their order."""
    return ", ".join(dict.fromkeys(f"`{path.name}`" for path in paths))


def rows(cells: Sequence[Sequence[str]]) -> tuple[Row, ...]:
    return tuple(Row(tuple(one)) for one in cells)
