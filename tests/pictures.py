"""Figures for the tests: the figure that a function draws, instead of its file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def drawn(monkeypatch: pytest.MonkeyPatch, draw: Callable[..., None], *subject: object) -> Any:
    matplotlib = pytest.importorskip("matplotlib.figure")
    found: list[Any] = []
    with monkeypatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(matplotlib.Figure, "savefig", lambda self, *path, **how: found.append(self))
        draw(*subject, Path(folder, "unused.png"))
    return found[0]


def legend_lines(figure: Any) -> list[Any]:
    """The labels in the legend of the first panel."""
    handles: list[Any] = figure.axes[0].get_legend_handles_labels()[0]
    return handles
