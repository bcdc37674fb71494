"""Makes docs/keyboard.png: a screenshot of the page in Chromium, with the bundled model at half of its compute.

    python benchmarks/keyboard_picture.py -o docs/keyboard.png

Needs the `keyboard` and `dev` extras, and Chromium.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys

from playwright.sync_api import expect, sync_playwright

TYPED = {
    "Hey! How are you doing to": "today",
    "?I wou": "would",
    "like to ": "",
}  # typed text: the suggestion accepted after it
SETTLED_MS = 15_000  # until the time of a query has been measured again with the browser idle
SIZE = {"width": 1120, "height": 1190}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-o", "--out", required=True)
    arguments = parser.parse_args()
    command = [sys.executable, "-m", "rheostat", "keyboard", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            take(find_address(server), arguments.out)
        finally:
            server.terminate()


def find_address(server: subprocess.Popen[str]) -> str:
    for line in server.stdout or ():
        if found := re.search(r"http://[\w.:]+", line):
            return found[0]
    raise SystemExit("the server ended before it printed its address")


def take(address: str, path: str) -> None:
    chromium = os.environ.get("RHEOSTAT_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--headless", "--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport=SIZE)
        page.goto(address)
        page.wait_for_selector("html[data-measured]")
        knob, first = page.locator("#knob"), page.locator("#suggestions button:enabled").first
        knob.focus()
        while knob.get_attribute("aria-valuenow") != "50":
            page.keyboard.press("ArrowLeft")
        page.locator("#text").focus()
        for text, suggestion in TYPED.items():
            if not suggestion:
                page.wait_for_timeout(SETTLED_MS)
            page.keyboard.type(text)
            if suggestion:
                expect(first).to_have_text(suggestion)
                page.keyboard.press("Alt+Digit1")
        page.wait_for_timeout(1000)
        page.screenshot(path=path)
        browser.close()


if __name__ == "__main__":
    main()
