"""A report as data (sections of paragraphs, tables and pictures), written as Markdown and as a single HTML page.

Knows nothing of what the sections say; `sections` fills them. In texts, `backticks` mark names of files and commands; a
line end within a cell is a line end on the page. The HTML page contains its pictures and loads nothing from a server.
Its texts come from files that anyone could have written, so everything is escaped.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeAlias

from rheostat.durable import file_name
from rheostat.errors import MissingExtraError, visible

NOT_MEASURED = "not measured"
TEMPLATE = "report.html.jinja"
CODE = re.compile(r"`([^`\n]+)`")
# An escaped character; backticks, with the code on this line that they begin, if any; a tag; a link or its address.
_MARKUP = re.compile(r"\\[^\n]|(`+)((?!`)[^\n]*?[^`\n]\1(?!`))?|<|\](?=[(:])")


@dataclass(frozen=True)
class Paragraph:
    text: str


@dataclass(frozen=True)
class TableRow:
    """mark: how a page highlights the row, such as "published" or a verdict."""

    cells: tuple[str, ...]
    mark: str = ""


@dataclass(frozen=True)
class Table:
    """align: one letter per column, "l" for words and "r" for numbers.

    folded: the title to click on, for a table that starts closed. judged: whether its first column is a verdict.
    """

    header: tuple[str, ...]
    align: str
    rows: tuple[TableRow, ...]
    folded: str = ""
    judged: bool = False

    def __post_init__(self) -> None:
        assert all(len(row.cells) == len(self.header) == len(self.align) for row in self.rows)


@dataclass(frozen=True)
class Picture:
    """stem: of its file names. draw: writes it as PNG or SVG, by the path's suffix. alt: a description in words."""

    stem: str
    alt: str
    caption: str
    draw: Callable[[Path], None]

    def __post_init__(self) -> None:
        object.__setattr__(self, "stem", file_name(self.stem))  # names from results files are parts of it


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
    """summary: a few lines before everything else."""

    title: str
    lead: str
    sections: tuple[Section, ...]
    summary: tuple[str, ...] = field(default=())
    notes: tuple[str, ...] = field(default=())

    def pictures(self) -> list[Picture]:
        return [block for section in self.sections for block in section.blocks if isinstance(block, Picture)]


def prose(text: str) -> str:
    """Text for a Markdown page. Names from results files may be in it, so HTML and links are escaped.

    Backticks without code are escaped too: otherwise Markdown could pair them with those of another name.
    """
    return _MARKUP.sub(_without_markup, text)


def _without_markup(found: re.Match[str]) -> str:
    text, ticks, code = found[0], found[1], found[2]
    if ticks:
        return text if code else "\\`" * len(ticks)
    return {"<": "&lt;", "]": "]\\"}.get(text, text)


def line(cells: Iterable[str]) -> str:
    """A line of a Markdown table, with characters escaped that would end a cell or the line."""
    return "| " + " | ".join(prose(cell).replace("|", "\\|").replace("\n", "<br>") for cell in cells) + " |"


def table_markdown(table: Table) -> str:
    rules = ["---:" if letter == "r" else "---" for letter in table.align]
    return "\n".join([line(table.header), line(rules), *(line(row.cells) for row in table.rows)])


def markdown(document: Document) -> str:
    parts = [
        f"# {prose(document.title)}",
        *([_list(document.summary)] if document.summary else []),
        prose(document.lead),
    ]
    for section in document.sections:
        parts.append(f"{'#' * section.level} {prose(section.title)}")
        parts += [_block_markdown(block) for block in section.blocks]
    if document.notes:
        parts.append(_list(document.notes))
    return "\n\n".join(parts) + "\n"


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"* {prose(one)}" for one in lines)


def _block_markdown(block: Block) -> str:
    match block:
        case Paragraph(text):
            return prose(text)
        case Table():
            return table_markdown(block)
        case Picture(stem, alt, caption):
            return f"![{prose(alt)}]({stem}.png)\n\n{prose(caption)}"


def unique_labels(labels: Sequence[str], details: Sequence[str]) -> list[str]:
    """Labels for a table's rows. A label that occurs twice gets its detail too, and a number if still not unique."""
    doubled = Counter(labels)
    found = [f"{one} ({detail})" if doubled[one] > 1 else one for one, detail in zip(labels, details, strict=True)]
    seen: Counter[str] = Counter()
    for at, one in enumerate(found):
        seen[one] += 1
        found[at] = f"{one}, {seen[one]}" if seen[one] > 1 else one
    return found


def files(paths: Iterable[Path]) -> str:
    """Names of files in order, without repetition."""
    return ", ".join(dict.fromkeys(f"`{visible(path.name)}`" for path in paths))


def rows(cells: Sequence[Sequence[str]]) -> tuple[TableRow, ...]:
    return tuple(TableRow(tuple(one)) for one in cells)


def html(document: Document, pictures: Mapping[str, Path]) -> str:
    """The HTML page. pictures: an SVG file for every picture, by stem."""
    try:
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup, escape
    except ImportError as error:
        raise MissingExtraError("report", "Making a page", error) from None

    def inline(text: str) -> Any:
        marked = CODE.sub(r"<code>\1</code>", str(escape(text)))
        return Markup(marked.replace("\n", "<br>"))

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["inline"] = inline
    environment.filters["slug"] = lambda text: text.replace(" ", "-")
    environment.tests["table"] = lambda block: isinstance(block, Table)
    environment.tests["picture"] = lambda block: isinstance(block, Picture)
    environment.tests["paragraph"] = lambda block: isinstance(block, Paragraph)
    source = resources.files("rheostat.report") / "templates" / TEMPLATE
    images = {stem: _data_address(path) for stem, path in pictures.items()}
    template = environment.from_string(source.read_text(encoding="utf-8"))
    return template.render(document=document, images=images, not_measured=NOT_MEASURED)


def _data_address(path: Path) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode("ascii")
