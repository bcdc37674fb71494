"""`rheostat keyboard`: serve a local web page with a keyboard and the knob."""

from __future__ import annotations

import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from rheostat.cli.console import (
    BUNDLED,
    MODEL_HELP,
    POLICY_HELP,
    PRECISION_HELP,
    THREADS_HELP,
    HiddenWordsFile,
    messages,
)
from rheostat.governor.policy import DEFAULT
from rheostat.runtime.precision import Precision

PORT = 8017  # the server's default, repeated here because importing the server takes half a second


def keyboard(
    model: Annotated[Path, typer.Argument(help=MODEL_HELP)] = BUNDLED,
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 for the whole network.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 = any free one.")] = PORT,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Also answer to this host name, for example behind a proxy. May be repeated."),
    ] = None,
    policy: Annotated[str, typer.Option(help=POLICY_HELP)] = DEFAULT,
    results: Annotated[
        Path | None, typer.Option(help="The results file of a sweep of this model: show its curve on the page.")
    ] = None,
    precision: Annotated[Precision, typer.Option(help=PRECISION_HELP)] = "int8",
    threads: Annotated[int, typer.Option(min=0, help=THREADS_HELP)] = 1,
    hidden_words: HiddenWordsFile = None,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = False,
) -> None:
    """Serve a web page with a phone keyboard and the knob.

    Runs until Ctrl-C. Nothing you type is stored or leaves this computer.

    Example: rheostat keyboard --open
    """
    from rheostat.keyboard.server import serve_keyboard

    def announce(address: str) -> None:
        messages.print(f"the keyboard is at {address} (Ctrl-C to stop)", markup=False, highlight=False)
        if open_page:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    serve_keyboard(
        model,
        host=host,
        port=port,
        allowed_hosts=allow_host or (),
        policy=policy,
        results=results,
        precision=precision,
        threads=threads,
        hidden_words=hidden_words,
        announce=announce,
    )
