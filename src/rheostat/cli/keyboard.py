"""`rheostat keyboard` and `rheostat page`: a web page with a keyboard and the knob, served or written as a site."""

from __future__ import annotations

import threading
import webbrowser
from dataclasses import asdict
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
    print_json,
    print_line,
)
from rheostat.governor.policy import DEFAULT
from rheostat.model.precision import Precision

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
    bench: Annotated[
        Path | None,
        typer.Option(help="What queries of this model cost on your device: the file of `rheostat bench -o`."),
    ] = None,
    precision: Annotated[Precision, typer.Option(help=PRECISION_HELP)] = "int8",
    threads: Annotated[int, typer.Option(min=0, help=THREADS_HELP)] = 1,
    hidden_words: HiddenWordsFile = None,
    user_words: Annotated[
        Path | None, typer.Option(help="Keep words learned on the page in this file; otherwise they last until Ctrl-C.")
    ] = None,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = False,
) -> None:
    """Serve a web page with a phone keyboard and the knob.

    Runs until Ctrl-C. With --host 0.0.0.0, phones on the network can open the second address. Nothing you type is
    stored or leaves this computer, except learned words, which are stored in the file of --user-words if you give one.

    Example: rheostat keyboard --open
    """
    from rheostat.keyboard.server import serve_keyboard

    shown: list[str] = []

    def announce(address: str) -> None:
        place = "for other devices, it is at" if shown else "the keyboard is at"
        messages.print(f"{place} {address} (Ctrl-C to stop)", markup=False, highlight=False)
        shown.append(address)
        if open_page and len(shown) == 1:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    serve_keyboard(
        model,
        host=host,
        port=port,
        allowed_hosts=allow_host or (),
        policy=policy,
        results=results,
        bench=bench,
        precision=precision,
        threads=threads,
        hidden_words=hidden_words,
        user_words=user_words,
        announce=announce,
    )


def page(
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write the site to.")],
    model: Annotated[Path, typer.Argument(help=MODEL_HELP)] = BUNDLED,
    policy: Annotated[str, typer.Option(help=POLICY_HELP)] = DEFAULT,
    results: Annotated[
        Path | None, typer.Option(help="The results file of a sweep of this model: show what the knob costs.")
    ] = None,
    bench: Annotated[
        Path | None,
        typer.Option(help="What queries of this model cost on your device: the file of `rheostat bench -o`."),
    ] = None,
    precision: Annotated[Precision, typer.Option(help=PRECISION_HELP)] = "int8",
    hidden_words: HiddenWordsFile = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Write the keyboard page as a static site.

    The model runs in the browser, so any web host will do, or python -m http.server. After the first visit the page
    works offline.

    Example: rheostat page -o site && python -m http.server -d site
    """
    from rheostat.keyboard.site import write_page

    written = write_page(
        out, model, policy=policy, results=results, bench=bench, precision=precision, hidden_words=hidden_words
    )
    if json:
        print_json(asdict(written) | {"folder": str(written.folder)})
    else:
        print_line(f"wrote {written.folder}: {written.files} files, {written.size_bytes / 1e6:.1f} MB")
