"""The command line: one sub-command per step. It reads arguments, calls the package and prints; no arithmetic.

Results go to stdout, progress and messages to stderr. Exit codes: 0 = success; 1 = a `RheostatError` or a system error,
printed in one line; 2 = wrong usage; 130 = stopped by Ctrl-C.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import typer
import typer.core

import rheostat
from rheostat.cli import (
    bench,
    count,
    demo,
    evaluate,
    export,
    files,
    govern,
    keyboard,
    memory,
    ngram,
    path,
    prune,
    reconstruct,
    recover,
    report,
    resplit,
    suggest,
    train,
    typing,
)
from rheostat.cli.console import INTERRUPTED, messages, one_line, print_line
from rheostat.errors import RheostatError, RheostatWarning, visible

WRONG_USAGE = 2
# What pydantic says about a value, which newer versions of typer repeat, in fewer words.
_SHORTER = {
    r"Input should be a valid number\b.*": "expected a number",
    r"Input should be a valid integer\b.*": "expected a whole number",
    r"Input should be greater than or equal to (\S+)": r"expected at least \1",
    r"Value error, ": "",
    r"Input should be less than or equal to (\S+)": r"expected at most \1",
}


class _Commands(typer.core.TyperGroup):
    """All commands. Those that can be resumed handle Ctrl-C themselves; for the others, it is handled here."""

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with _one_line_for_wrong_usage():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: Any) -> object:
        try:
            with _one_line_for_wrong_usage():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            messages.print("stopped", style="yellow")
            raise typer.Exit(INTERRUPTED) from None


@contextlib.contextmanager
def _one_line_for_wrong_usage() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        # By its attributes: the class is click's or typer's own, depending on typer's version.
        is_usage = getattr(error, "exit_code", 0) == WRONG_USAGE and hasattr(error, "format_message")
        if not is_usage or type(error).__name__ == "NoArgsIsHelpError":
            raise
        _print_error(_wrong_usage(error))
        raise typer.Exit(WRONG_USAGE) from None


def _wrong_usage(error: Any) -> str:
    """What is wrong with the arguments, and where to look them up, in one line."""
    said = " ".join(error.format_message().split()).removesuffix(".")
    for pattern, shorter in _SHORTER.items():
        said = re.sub(pattern, shorter, said)
    return visible(f"{said} (see {error.ctx.command_path if error.ctx else 'rheostat'} -h)")


def _print_error(said: str) -> None:
    messages.print(f"error: {said}", style="bold red", markup=False, highlight=False, soft_wrap=True)


app = typer.Typer(
    cls=_Commands,
    name="rheostat",
    help="A power knob for neural language models.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _help(command: Callable[..., None]) -> str:
    """The docstring, with its example on one line that can be copied: click breaks lines except after a backspace."""
    return inspect.cleandoc(command.__doc__ or "").replace("\n\nExample: ", "\n\n\b\nExample: ")


for _command in (
    train.train,
    evaluate.evaluate,
    prune.prune,
    reconstruct.reconstruct,
    recover.recover,
    resplit.resplit,
    path.path,
    evaluate.sweep,
    count.count,
    bench.bench,
    ngram.ngram,
    typing.typing,
    report.report,
    files.inspect,
    files.pack,
    suggest.suggest,
    suggest.complete,
    memory.memory,
    export.export,
    govern.govern,
    keyboard.keyboard,
    keyboard.page,
    demo.demo,
):
    app.command(help=_help(_command))(_command)

_debug = False


def _show_version(wanted: bool) -> None:
    if wanted:
        print_line(f"rheostat {rheostat.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the full traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    global _debug
    _debug = debug


_NO_MEMORY = "there is not enough memory; files are as they were: close other programs, or use a smaller model or text"


def main() -> None:
    """Run the command line; the console script."""
    warnings.showwarning = _show_warning
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what a terminal cannot show is better than a traceback
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # here, so a full disk is still reported in one line
    except BrokenPipeError:  # `rheostat … | head`
        _close_broken_stdout()
        sys.stderr.close()
        sys.exit(1)
    except (RheostatError, OSError, MemoryError, UnicodeError) as error:
        _close_broken_stdout()
        if _debug:
            raise
        _print_error(_said(error))
        sys.exit(1)


def _said(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return _NO_MEMORY
    if isinstance(error, UnicodeError):
        return f"a name or a text is not UTF-8 ({one_line(error)}); expected one that is: rename or correct it"
    return one_line(error)


def _close_broken_stdout() -> None:
    """Close stdout if it cannot be written; otherwise Python would try again on exit and print a traceback."""
    try:
        sys.stdout.flush()
    except OSError:
        with contextlib.suppress(OSError):
            sys.stdout.close()


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    if issubclass(category, RheostatWarning):
        messages.print(f"note: {message}", style="yellow", markup=False, highlight=False, soft_wrap=True)
