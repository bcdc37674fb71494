"""A document as one HTML page that needs nothing else: pictures are within it, and it asks no server for anything.

Texts come from files that anybody may have written, so everything is escaped; `backticks` become code.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from rheostat.report.document import NOT_MEASURED, Document, Paragraph, Picture, Table
from rheostat.errors import MissingExtraError

TEMPLATE = "report.html.jinja"
CODE = re.compile(r"`([^`\n]+)`")


def html(document: Document, pictures: Mapping[str, Path]) -> str:
    """The page. pictures: an SVG file for the stem of every picture."""
    try:
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup, escape
    except ImportError:
        raise MissingExtraError("report", "Making a page") from None

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
