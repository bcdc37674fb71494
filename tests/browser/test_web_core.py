"""The core as WebAssembly: the committed module, and the same bits as Python in Node.js and in a browser."""

from __future__ import annotations

import ctypes
import json
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from keyboard_process import FileServer, Serve

import rheostat
from rheostat.bundled import model_path
from rheostat.core import library
from rheostat.core.binding import CoreModel
from rheostat.core.build import FOLDER, WEB_MODULE, CompilerError, compile_web_module, web_digest, web_stamp
from rheostat.core.values import Choice
from rheostat.model.file import open_model
from rheostat.text.vocabulary import UNKNOWN
from rheostat.words.text_rules import describe_text
from rheostat.words.writing import compose, split_typed

if TYPE_CHECKING:
    from playwright.sync_api import Page

HERE = Path(__file__).parent
FLIPPED = 100  # bits, one at a time
REMEDY = "compile it again: python -m rheostat.core.build --wasm"
CASES = [
    [[1.0, 1], [1.0, 17], [0.5, 300], [0.5, 42], [0.2, 5], [1.0, 9999]],  # the knob turns in the middle of a sentence
    [[0.14, 1], [0.9, 2], [0.33, 3], [0.14, 1]],
]


def hash_of(bits: bytes) -> int:
    """FNV-1a, as in check_core.mjs."""
    found = 0x811C9DC5
    for byte in bits:
        found = (found ^ byte) * 0x01000193 & 0xFFFFFFFF
    return found


def wanted(core: CoreModel, cases: list[list[list[Any]]]) -> list[list[list[Any]]]:
    """What Python answers after each word of each case."""
    answers = []
    for steps in cases:
        words: list[int] = []
        rows = []
        for share, word in steps:
            words.append(word)
            position = core.position_near(share)
            answer = core.predict(position, core.steps(position, core.start(), words))
            best = core.best(answer, 5)
            every = hash_of(core.log_probabilities(answer).tobytes())
            rows.append([every, best.ids.tolist(), hash_of(best.log_probabilities.tobytes())])
        answers.append(rows)
    return answers


def in_node(model: Path, cases: list[list[list[Any]]], folder: Path) -> Any:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node: install Debian's nodejs")
    (folder / "cases.json").write_text(json.dumps(cases))
    command = [node, "--no-warnings", HERE / "check_core.mjs", FOLDER, model, folder / "cases.json"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_module_is_of_these_sources_and_small() -> None:
    assert web_stamp().read_text().strip() == web_digest(), f"rheostat.wasm is of other C sources; {REMEDY}"
    assert WEB_MODULE.stat().st_size <= 120_000


def test_the_module_is_compiled_byte_for_byte(tmp_path: Path) -> None:
    try:
        found = compile_web_module(tmp_path / "rheostat.wasm")
    except CompilerError as error:
        if "ziglang is" not in str(error):
            raise
        pytest.skip(str(error))
    assert found.read_bytes() == WEB_MODULE.read_bytes(), REMEDY


def test_flipped_bits_are_noticed_by_the_page(tmp_path: Path) -> None:
    """The file is read through JavaScript's checksums, which Python wrote; every bit counts, in header and weights."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node: install Debian's nodejs")
    model = HERE.parent / "data" / "golden-ordered.safetensors"
    command = [node, "--no-warnings", HERE / "check_sums.mjs", FOLDER, model, FLIPPED]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["whole"] is None and found["opened"] == 0 and found["refused"] == FLIPPED
    assert found["unverified"] > FLIPPED // 3, "most flipped bits would be run with"
    assert any("a checksum is not as when it was written" in message for message in found["messages"])


def test_node_gives_the_bits_of_python_with_the_bundled_model(tmp_path: Path) -> None:
    found = in_node(model_path(), CASES, tmp_path)
    assert found["kernel"] == "wasm-simd"
    assert found["readings"] == wanted(CoreModel(model_path().read_bytes()), CASES)


@pytest.mark.parametrize("precision", ["int8", "fp32"])
def test_node_gives_the_bits_of_python_with_clusters(tmp_path: Path, precision: str) -> None:
    model = HERE.parent / "data" / "core" / f"{precision}.safetensors"
    core = CoreModel(model.read_bytes())
    smallest, choice = core.position_at(core.config.positions - 1).cost, random.Random(7)
    cases = [
        [[choice.uniform(smallest, 1), choice.randrange(core.config.vocabulary_size)] for _ in range(6)]
        for _ in range(4)
    ]
    assert in_node(model, cases, tmp_path)["readings"] == wanted(core, cases)


def test_the_browser_gives_the_bits_of_python(open_page: Callable[..., Page], site: FileServer) -> None:
    check = (HERE / "check_core.mjs").read_text(encoding="utf-8").partition("\nif (")[0].replace("export ", "")
    page = open_page(site.address)
    found = page.evaluate(
        f"""async (cases) => {{
            {check}
            const {{ loadCore, openModel }} = await import("/rheostat.js");
            const bytes = async (name) => new Uint8Array(await (await fetch(name)).arrayBuffer());
            const model = openModel(await loadCore(await bytes("/rheostat.wasm")), await bytes("/model.safetensors"));
            return {{ kernel: model.kernel, readings: readings(model, cases) }};
        }}""",
        CASES,
    )
    assert found == {"kernel": "wasm-simd", "readings": wanted(CoreModel(model_path().read_bytes()), CASES)}


def test_a_broken_file_gets_the_message_of_the_core(tmp_path: Path) -> None:
    (tmp_path / "broken").write_bytes(model_path().read_bytes()[:1000])
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node: install Debian's nodejs")
    (tmp_path / "cases.json").write_text("[]")
    command = [node, "--no-warnings", HERE / "check_core.mjs", FOLDER, tmp_path / "broken", tmp_path / "cases.json"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60)
    with pytest.raises(Exception) as refused:
        CoreModel((tmp_path / "broken").read_bytes())
    assert done.returncode == 1 and str(refused.value) in done.stderr


def test_the_sizes_in_javascript_cover_those_of_the_header() -> None:
    script = (FOLDER / "rheostat.js").read_text(encoding="utf-8")
    sizes = {name: int(value) for name, value in re.findall(r"const ([A-Z_]+) = (\d+);", script)}
    assert sizes["POSITION_BYTES"] >= library.POSITION_BYTES
    assert sizes["ERROR_BYTES"] == ctypes.sizeof(library.ErrorText)
    assert sizes["COST_AT"] == 4 * (2 * library.MAX_LAYERS + 1)
    assert sizes["MOST_WORDS"] == library.MAX_BEST


@pytest.fixture
def example(open_page: Callable[..., Page], serve: Serve, tmp_path: Path) -> Iterator[Page]:
    """examples/web, with the files that it says it needs."""
    page = HERE.parents[1] / "examples" / "web" / "index.html"
    shutil.copy(page, tmp_path)
    commands = re.findall(r"^ +((?:cp|rheostat) .* examples/web\S*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["rheostat", "cp", "cp"]
    for command in commands:
        here = command.replace("examples/web", str(tmp_path)).replace("rheostat ", f"{sys.executable} -m rheostat ", 1)
        subprocess.run(["bash", "-c", here], cwd=HERE.parents[1], check=True)
    server = serve(FileServer(tmp_path))
    yield open_page(server.address)
    server.stop()


@pytest.fixture(scope="module")
def predictor() -> Iterator[rheostat.Predictor]:
    with rheostat.load() as loaded:
        yield loaded


def suggestions_of(predictor: rheostat.Predictor, text: str, share: float) -> list[str]:
    """What the example has to show: the best words that a predictor may suggest, in their usual spelling."""
    core = CoreModel(model_path().read_bytes())
    typed, position = split_typed(text, "words"), core.position_near(share)
    unknown, words = core.find_word(UNKNOWN), predictor.vocabulary.words
    ids = [unknown if (place := core.find_word(word)) < 0 else place for word in typed.words]
    mask = predictor.completion.allowed_mask(typed.prefix)
    best = core.best(core.predict(position, core.steps(position, core.start(), ids)), 3, Choice(mask=mask))
    with open_model() as file:
        casing = file.casing
    return [compose(words[place], 0.0, typed, casing, tokenizer="words").word for place in best.ids.tolist()]


def test_the_example_suggests_words_and_turns_its_knob(example: Page, predictor: rheostat.Predictor) -> None:
    assert len((HERE.parents[1] / "examples" / "web" / "index.html").read_text(encoding="utf-8").splitlines()) < 100
    text, shown = example.locator("#text"), example.locator("#words button")
    text.fill("How are y")
    assert shown.first.text_content() == "you"
    shown.first.click()
    assert text.input_value() == "How are you "
    assert shown.all_text_contents() == suggestions_of(predictor, "How are you ", 1.0)
    example.locator("#knob").fill("20")
    assert example.locator("#cost").text_content() == "20 % of the cost"
    assert shown.all_text_contents() == suggestions_of(predictor, "How are you ", 0.2)


def test_the_example_shows_no_hidden_word_and_usual_spellings(example: Page, predictor: rheostat.Predictor) -> None:
    text, shown = example.locator("#text"), example.locator("#words button")
    for typed, hidden in (("def", "definetely"), ("i belei", "beleive")):
        assert hidden in predictor.vocabulary.index
        text.fill(typed)
        assert shown.all_text_contents() == suggestions_of(predictor, typed, 1.0)
        assert hidden not in [word.lower() for word in shown.all_text_contents()]
    text.fill("we met in Lond")
    assert shown.first.text_content() == "London"
    text.fill("see you on mond")
    assert shown.first.text_content() == "Monday"


def test_the_example_reads_a_text_as_the_model_does(example: Page, predictor: rheostat.Predictor) -> None:
    vectors = describe_text("words", {})["vectors"]
    for given in [one["text"] for one in vectors["typed"]] + [one["text"] + " " for one in vectors["words"]]:
        text = given.replace("\r\n", "\n").replace("\r", "\n")  # a text area has no other line ends
        example.locator("#text").fill(text)
        assert example.locator("#words button").all_text_contents() == suggestions_of(predictor, text, 1.0), text
