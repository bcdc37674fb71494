"""What commands share: options, printing, and progress bars (on stderr, so that stdout holds results only)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from rheostat.bundled import DEFAULT_MODEL

MODEL_HELP = "A model file, or the name of a bundled one."
BUNDLED = Path(DEFAULT_MODEL)  # if no model is named
INTERRUPTED = 130  # exit code after Ctrl-C, as in shells
HiddenWordsFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="A file of changes to the words that are never suggested.", envvar="RHEOSTAT_HIDDEN_WORDS"),
]

results = Console()
messages = Console(stderr=True)


def print_json(value: Any) -> None:
    """One JSON object on one line of stdout."""
    print(json.dumps(value))  # in ASCII, whatever the encoding of stdout


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def progress_bar() -> Progress:
    """A bar with a label, the share done and the time left; disappears when it is done."""
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
    """One bar whose label changes with the work; it appears with the first report."""
    bar = progress_bar()
    task = bar.add_task("", total=1.0)

    def show(label: str, share: float) -> None:
        bar.start()
        bar.update(task, description=label, completed=share)

    try:
        yield show
    finally:
        if bar.live.is_started:
            bar.stop()


@contextmanager
def shares(label: str) -> Iterator[Callable[[float], None]]:
    """A bar that is set to the share done."""
    with progress_bar() as bar:
        task = bar.add_task(label, total=1.0)
        yield lambda share: bar.update(task, completed=share)
