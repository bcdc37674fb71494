"""`rheostat keyboard`: a local page with a keyboard and the knob."""

from __future__ import annotations

import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from rheostat.cli.console import BUNDLED, MODEL_HELP, HiddenWordsFile, messages
from rheostat.governor.policy import DEFAULT
from rheostat.runtime.precision import Precision

PORT = 8017  # the server's default, repeated here because importing the server takes half a second


def keyboard(
    model: Annotated[Path, typer.Argument(help=MODEL_HELP)] = BUNDLED,
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 for the whole network.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 = any free one.")] = PORT,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Also answer to this host name, as behind a proxy; may be repeated.")
    ] = None,
    policy: Annotated[str, typer.Option(help="The battery policy: a .toml file, or a built-in name.")] = DEFAULT,
    results: Annotated[
        Path | None, typer.Option(help="Results of a sweep of this model, for the curve on the page.")
    ] = None,
    precision: Annotated[Precision, typer.Option(help="int8, fp32 or int4.")] = "int8",
    threads: Annotated[int, typer.Option(min=0, help="Threads of ONNX Runtime; 0 = one per physical core.")] = 1,
    hidden_words: HiddenWordsFile = None,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = False,
) -> None:
    """Serve a page with a phone keyboard, suggestions and the knob, until Ctrl+C.

    Nothing that is typed is stored or leaves this computer.

    Example: rheostat keyboard --open
    """
    from rheostat.keyboard.facts import Energy
    from rheostat.keyboard.server import open_service, serve
    from rheostat.measure.meters.estimate import Estimate

    estimate = Estimate()
    energy = Energy("estimate", estimate.covers, lambda flops, size: 1e3 * estimate.energy_j(flops, size))
    service = open_service(
        model,
        policy=policy,
        precision=precision,
        threads=threads,
        hidden_words=hidden_words,
        energy=energy,
        results=results,
    )

    def announce(address: str) -> None:
        messages.print(f"the keyboard is at {address} (Ctrl+C to stop)", markup=False, highlight=False)
        if open_page:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    serve(service, host, port, allow_host or (), announce)
