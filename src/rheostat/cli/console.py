"""What commands share: help texts, printing, and progress bars. Bars go to stderr, so stdout has only results."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

import typer
from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.control import Control
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from rheostat.bundled import DEFAULT_MODEL
from rheostat.errors import visible

BUNDLED = Path(DEFAULT_MODEL)  # if no model is named
MODEL_HELP = "A model file, or the name of a bundled one."
MODEL_OUT_HELP = "The model file to write; can be the input file."
DATA_HELP = "A folder with train, valid and test text, one text file, which is divided into them, 'chat' or 'talk'."
TEST_DATA_HELP = "A folder with a test text, one text file, 'chat' or 'talk'; a bundled text by default."
KNOB_HELP = "Share of the cost (FLOPs, weighted by bits) that a query may spend."
CRITERION_HELP = "Cut by the ranking of this criterion."
RANKING_HELP = "Cut by the ranking with this name."
POINT_HELP = "Use the stored point with this name."
PRECISION_HELP = "fp32 is exact; int8 is rounded, as on a device."
ENGINE_HELP = "core, or onnx for ONNX Runtime; the core by default if it can run the model."
THREADS_HELP = "Threads per query; 0 = one for a small model, more for a large one."
POLICY_HELP = "The battery policy: a .toml file, or the name of a bundled one."
RESULTS_OUT_HELP = "The results file to write."
JSON_HELP = "Print the result as JSON."
LINE_SECONDS = 30.0  # between lines of progress, if there is no terminal for a bar
INTERRUPTED = 130  # exit code after Ctrl-C, as in shells
Found = TypeVar("Found")
HiddenWordsFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="A file of changes to the words that are never suggested.", envvar="RHEOSTAT_HIDDEN_WORDS"),
]


class _Escaped:
    """Anything rich renders, with control characters in its texts shown as escapes; rich's own colour codes stay."""

    def __init__(self, shown: ConsoleRenderable) -> None:
        self._shown = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._shown, options):
            yield segment if segment.control else segment._replace(text=_visible_lines(segment.text))


class _EscapeControlCharacters(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [one if isinstance(one, Control) else _Escaped(one) for one in renderables]


def safe_console(**options: Any) -> Console:
    """A console to which no text from a file can send an escape sequence."""
    console = Console(**options)
    console.push_render_hook(_EscapeControlCharacters())
    return console


def _visible_lines(text: str) -> str:
    return text if text.isprintable() else re.sub(r"[^\n\t]+", lambda part: visible(part[0]), text)


results = safe_console()
messages = safe_console(stderr=True)


def print_line(text: object, end: str = "\n") -> None:
    """Print a result on stdout; commands do not call `print`. The text may have several lines, or tabs."""
    print(_visible_lines(str(text)), end=end)


def print_json(value: Any) -> None:
    """Print a value as JSON, on one line of stdout."""
    print(json.dumps(value))  # in ASCII, whatever the encoding of stdout


def one_line(error: BaseException) -> str:
    return visible(" ".join(str(error).split()))


def progress_bar() -> Progress:
    """A bar with a label, the share done and the time left. It disappears at the end."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=messages,
        transient=True,
        disable=not messages.is_terminal,
        redirect_stdout=False,  # results are printed to stdout, even while a bar is shown
    )


@contextmanager
def labelled_share() -> Iterator[Callable[[str, float], None]]:
    """A bar whose label changes with the work. It appears at the first call. Without a terminal, lines."""
    bar, last_line = progress_bar(), time.monotonic()
    task = bar.add_task("", total=1.0)

    def show(label: str, share: float) -> None:
        nonlocal last_line
        bar.start()
        bar.update(task, description=label, completed=share)
        if not messages.is_terminal and time.monotonic() - last_line > LINE_SECONDS:
            last_line = time.monotonic()
            messages.print(f"{label} {share:.0%}", markup=False, highlight=False, soft_wrap=True)

    try:
        yield show
    finally:
        if bar.live.is_started:
            bar.stop()


@contextmanager
def shown_even_if_not_written(show: Callable[[Found], object]) -> Iterator[Callable[[Found], None]]:
    """Takes what was measured, and shows it after the block: nothing is lost if it cannot be written."""
    measured: list[Found] = []
    try:
        yield measured.append
    finally:
        for found in measured:
            show(found)


@contextmanager
def shares(label: str) -> Iterator[Callable[[float], None]]:
    """A bar that shows the share done."""
    with progress_bar() as bar:
        task = bar.add_task(label, total=1.0)
        yield lambda share: bar.update(task, completed=share)
