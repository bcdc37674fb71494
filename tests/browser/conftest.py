"""A real server with a small model, and a real browser; tests are skipped if one of them is missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from keyboard_process import PATIENCE_S, FileServer, Serve, Server, ServerProcess, write_small

from rheostat.keyboard.site import write_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

# Turn off everything that uses the network or needs a display; the sandbox needs a user other than root.
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
EXPECTED = "Service Worker registration blocked by Playwright"  # by tests that have to see every request


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small(tmp_path_factory.mktemp("keyboard") / "small.safetensors")


@pytest.fixture(scope="session")
def server(model: Path) -> Iterator[Server]:
    pytest.importorskip("uvicorn", reason="the keyboard extra is not installed: pip install 'rheostat[keyboard]'")
    server = Server(model)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FileServer]:
    """The page with the bundled model, from a plain file server."""
    folder = tmp_path_factory.mktemp("site")
    write_page(folder)
    server = FileServer(folder)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed, of the dev extra")
    path = os.environ.get("RHEOSTAT_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with playwright.sync_playwright() as driver:
        try:
            browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        except playwright.Error as error:
            pytest.skip(f"no Chromium to test with (apt-get install chromium): {str(error).splitlines()[0]}")
        yield browser
        browser.close()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a server for one test. It stops after the test's pages are closed, which ask it from time to time."""
    started: list[ServerProcess] = []

    def serve(server: ServerProcess) -> ServerProcess:
        started.append(server)
        server.start()
        return server

    yield serve
    for server in started:
        server.stop()


@pytest.fixture
def open_page(browser: Browser, server: Server, serve: Serve) -> Iterator[Any]:
    """Open the page. The console must stay free of errors, unless a test says otherwise."""
    errors: list[str] = []
    contexts: list[BrowserContext] = []

    def note(line: ConsoleMessage) -> None:
        if line.type in ("error", "warning") and line.text != EXPECTED:
            errors.append(line.text)

    def open_page(address: str = "", *, may_fail: bool = False, **options: Any) -> Page:
        context = browser.new_context(**({"viewport": {"width": 1120, "height": 820}} | options))
        context.set_default_timeout(PATIENCE_S * 1000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        if not may_fail:
            page.on("console", note)
        page.goto(address or server.address)
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not errors
