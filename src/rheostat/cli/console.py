"""What commands share: help texts, printing, and progress bars. Bars go to stderr, so stdout has only results."""

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

BUNDLED = Path(DEFAULT_MODEL)  # if no model is named
MODEL_HELP = "A model file, or the name of a bundled one."
MODEL_OUT_HELP = "The model file to write; can be the input file."
DATA_HELP = "A folder with train, valid and test text, one text file, 'chat' or 'talk'."
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
INTERRUPTED = 130  # exit code after Ctrl-C, as in shells
HiddenWordsFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="A file of changes to the words that are never suggested.", envvar="RHEOSTAT_HIDDEN_WORDS"),
]

results = Console()
messages = Console(stderr=True)


def print_json(value: Any) -> None:
    """Print a value as JSON, on one line of stdout."""
    print(json.dumps(value))  # in ASCII, whatever the encoding of stdout


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


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
    """A bar whose label changes with the work. It appears at the first call."""
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
    """A bar that shows the share done."""
    with progress_bar() as bar:
        task = bar.add_task(label, total=1.0)
        yield lambda share: bar.update(task, completed=share)
