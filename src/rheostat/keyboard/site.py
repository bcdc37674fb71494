"""The page as files: what it consists of, and writing it as a site that needs no server of ours.

`rheostat page` writes the page, the core as WebAssembly, a model and its facts into a folder. Any web host serves it,
or `python -m http.server`. `rheostat keyboard` serves the same files. Knows files; `facts` and `browser_model` produce
the contents of two of them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from rheostat.arguments import checked
from rheostat.bundled import DEFAULT_MODEL
from rheostat.core.build import FOLDER, WEB_MODULE
from rheostat.durable import obstacle, replacing
from rheostat.errors import RheostatError, encode_text
from rheostat.governor.policy import DEFAULT, read_policy
from rheostat.keyboard.browser_model import NAME, browser_model
from rheostat.keyboard.facts import curve_of, device_energy, model_facts, ngram_of
from rheostat.model.file import open_model
from rheostat.model.precision import Precision, check_precision
from rheostat.words.completion import complete_without
from rheostat.words.hidden_words import HiddenWords

STATIC = Path(__file__).parent / "static"
FACTS = "model.json"


@dataclass(frozen=True)
class WrittenPage:
    """A site that was written. files: how many; size_bytes: of all of them."""

    folder: Path
    files: int
    size_bytes: int


def page_files() -> dict[str, Path]:
    """The files of the page by name, without those that depend on the model."""
    files = [path for path in STATIC.iterdir() if path.is_file()]
    return {path.name: path for path in sorted([*files, FOLDER / "rheostat.js", WEB_MODULE])}


@checked
def write_page(
    out: str | Path,
    model: str | Path = DEFAULT_MODEL,
    *,
    policy: str | Path = DEFAULT,
    results: Path | None = None,
    bench: str | Path | None = None,
    precision: Precision = "int8",
    hidden_words: HiddenWords = None,
) -> WrittenPage:
    """Write the keyboard page as a static site. An existing folder must be empty or an earlier page of ours.

    results: a sweep of the model, for the curve. Other arguments are those of `serve_keyboard`.
    """
    folder = Path(out)
    _check_folder(folder)
    with open_model(model) as file:
        check_precision(precision)
        browser = browser_model(file, precision)
        if browser is None:
            raise RheostatError(
                f"{file.path.name} is a {file.shape.cell} in {precision}, which a browser cannot run; "
                "expected a qrnn in int8 or fp32"
            )
        completion = complete_without(file.vocabulary, file.tokenizer, hidden_words, file.hidden_words)
        facts = model_facts(
            file,
            precision,
            read_policy(policy),
            device_energy(bench, file, precision),
            curve_of(file, results),
            browser,
            completion,
            ngram=ngram_of(file, results),
            server=False,
        )
        contents = {name: path.read_bytes() for name, path in page_files().items()}
        contents |= {FACTS: encode_text(json.dumps(facts, ensure_ascii=False)), NAME: browser.contents.tobytes()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in contents.items():
            with replacing(folder / name) as stream:
                stream.write(data)
    except OSError as error:
        found = f"{error.filename or folder}: {error.strerror}"
        raise RheostatError(f"cannot write {found}; expected a folder that can be written: choose another") from None
    return WrittenPage(folder, len(contents), sum(map(len, contents.values())))


def _check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise RheostatError(f"{folder} is a file; expected a folder for the page: choose another")
    names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    ours = {*page_files(), FACTS, NAME}
    if blocked := next((path for path in map(folder.joinpath, sorted(names & ours)) if obstacle(path)), None):
        raise RheostatError(
            f"{blocked} is {obstacle(blocked)}; expected a file of an earlier page: choose another folder"
        )
    # A page that a crash left half written has only files of ours.
    strangers = {name for name in names - ours if not name.endswith(".partial")}
    if strangers and not {FACTS, "rheostat.wasm"} <= names:
        raise RheostatError(
            f"{folder} holds other files; expected a new or empty folder, or an earlier page: choose another"
        )
