"""Typing with slips in JavaScript: the words, kinds and confidences of Python, in Node.js and in a browser."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from keyboard_process import FileServer, write_clustered

from rheostat.bundled import model_path
from rheostat.keyboard.site import write_page
from rheostat.measure.slips import TAP_SPREAD, slip_at_random, slip_to_neighbour, tap_word
from rheostat.runtime.engine import Cache
from rheostat.runtime.predictor import Predictor
from rheostat.words.slips import find_key_layout, read_key_layouts
from rheostat.words.user_words import UserWords
from rheostat.words.writing import Suggestion

if TYPE_CHECKING:
    from playwright.sync_api import Page

HERE = Path(__file__).parent
PERCENTS = (100, 40, 15)
TAUGHT = ("Hogwarts", "falafel", "Zugspitze", "well-knwon", "teh")
ODD = (
    "seeyou", "i went tothe", "whatbis", "Teh", "TEH", "dont", "don’", "i'", "im ", "ca", "xqzzq", "9th", "naïv", "ΣΊΣ",
    "straß", "Zugs", "hogwart", "at paris i wlil", "a" * 70, "mon", "See you on Mpn", "", " ", "hello. teh", "é", "µm",
    "i went to teh", "I love yuo", "that is definetly", "thats", "see you tommorow", "becuase",
    "www.exampel", "#thnaks", 'say "teh', "(teh", "one—teh", "a_teh", "a well-knwon", "a well-konwn",
    "i dontthink", "i havenotseen", "i cantsee", "gopdmorning", "godmorning", "imgoing", "they saynever", "isnthere",
    "hogwarts", "HOGWARTS", "where are you goin", "where are you Goin", "that will b", "it's gonna rsin",
)  # fmt: skip
Case = dict[str, Any]


def lines() -> list[str]:
    text = model_path().with_name("chat-test.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if len(line.split()) > 3]


def make_cases(count: int, seed: int = 7) -> list[Case]:
    """Texts whose last word was begun or finished, with slips of all kinds, at several positions and layouts."""
    chance, cases = random.Random(seed), list[Case]()
    layouts = list(read_key_layouts())
    while len(cases) < count:
        words = chance.choice(lines()).split()
        place = chance.randrange(len(words))
        layout = find_key_layout(chance.choice(layouts))
        before = " ".join(words[max(0, place - 12) : place])
        how = chance.randrange(4)
        taps: Any = None
        if how == 0 and words[place].isalpha():
            typed, taps = tap_word(words[place], layout, TAP_SPREAD, chance)
        elif how == 1:
            typed = slip_to_neighbour(words[place], layout, chance)
        else:
            typed, _ = slip_at_random(words[place], layout, chance)
        method = chance.choice(("complete", "complete", "correct"))
        length = chance.randint(0, len(typed)) if method == "complete" else len(typed)
        case = {"method": method, "text": f"{before} {typed[:length]}", "percent": chance.choice(PERCENTS)}
        cases.append({**case, "k": chance.choice((3, 5)), "layout": layout.name, "taps": taps and taps[:length]})
    cases += [{"method": m, "text": t, "percent": 100, "k": 3} for t in ODD for m in ("complete", "correct")]
    beside = [
        {"text": text, "taps": [[3.6, 0.4]] * len(text)} for text in ("µm", "don’t", "İs", "naïve", "Straß", "TEH")
    ]
    cases += [{"method": "complete", "percent": 100, "k": 3, **one} for one in beside]
    hepp: list[Any] = [[5.5, 1.0], [2.0, 0.0], [8.6, 0.45], [9.0, 0.0]]  # the third is nearer to "l" than to "p"
    pair: list[Any] = [[4.5, 1.0], [8.0, 0.0], [8.5, 0.1], [2.5, 1.0], [4.0, 0.0], [8.5, 0.0]]  # "go" and "sto"
    odd = [
        ("a gopdto", pair),
        ("i need hepp", hepp),
        ("i need HEPP", hepp),
        ("a dog", [[12, 12]] * 3),
        ("a dog", [[2, 1], [30, 0], None]),
    ]
    return cases + [
        {"method": method, "percent": 100, "k": 3, "text": text, "taps": taps}
        for text, taps in odd
        for method in ("complete", "correct")
    ]


def in_python(predictor: Predictor, case: Case) -> list[Suggestion]:
    predictor.turn(case["percent"] / 100)
    method = getattr(predictor, case["method"])
    options = {name: case[name] for name in ("layout", "taps") if case.get(name)}
    return list(method(case["text"], case["k"], **options))


def differences(cases: list[Case], found: list[list[Any]], predictor: Predictor) -> list[Any]:
    """Where the answers differ in more than the last digits of a probability."""
    wrong = []
    for case, answer in zip(cases, found, strict=True):
        wanted = [one._asdict() for one in in_python(predictor, case)]
        same = len(wanted) == len(answer) and all(
            {**one, "probability": 0, "confidence": 0} == {**other, "probability": 0, "confidence": 0}
            and one["probability"] == pytest.approx(other["probability"], rel=1e-6, abs=1e-12)
            and one["confidence"] == pytest.approx(other["confidence"], rel=1e-6, abs=1e-9)
            for one, other in zip(wanted, answer, strict=True)
        )
        if not same:
            wrong.append((case, wanted, answer))
    return wrong


def in_node(site: Path, cases: list[Case], folder: Path) -> Any:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node: install Debian's nodejs")
    (folder / "cases.json").write_text(json.dumps(cases))
    command = [node, "--no-warnings", HERE / "check_typing.mjs", site, folder / "cases.json"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(tmp_path_factory.mktemp("site")).folder


def test_node_types_as_python_does(folder: Path, tmp_path: Path) -> None:
    cases = make_cases(400)
    with Predictor(threads=1) as predictor:
        found = in_node(folder, cases, tmp_path)
        assert differences(cases, found, predictor) == []
    kinds = {one["kind"] for answer in found for one in answer}
    assert kinds == {"completion", "correction", "typed"}
    assert any(one["finished"] and one["confidence"] > 0.8 and one["kind"] == "correction" for a in found for one in a)


def test_taught_words_and_the_cache_count_as_in_python(folder: Path, tmp_path: Path) -> None:
    words = UserWords()
    for word in TAUGHT:
        words.learn(word)
    stored = [{"word": one.word, "count": one.count, "last_used": one.last_used} for one in words.words()]
    cases = [{**case, "userWords": stored, "cache": True} for case in make_cases(120, seed=8)]
    with Predictor(threads=1, user_words=words, cache=Cache()) as predictor:
        assert differences(cases, in_node(folder, cases, tmp_path), predictor) == []


def test_clusters_are_opened_as_in_python(tmp_path: Path) -> None:
    """A model with an adaptive softmax, whose words are not in order of their letters."""
    model = write_clustered(tmp_path / "model.safetensors")
    site = write_page(tmp_path / "site", model).folder
    texts = ("how are y", "the mornimg", "thqnks", "i wsnt", "seeyou", "go hom", "peolpe", "nigt", "goingto", "w")
    cases = [{"method": m, "text": t, "percent": 100, "k": 3} for t in texts for m in ("complete", "correct")]
    with Predictor(model, threads=1) as predictor:
        assert differences(cases, in_node(site, cases, tmp_path), predictor) == []


def test_the_browser_types_as_python_does(open_page: Callable[..., Page], site: FileServer) -> None:
    cases = make_cases(200, seed=9)
    check = (HERE / "check_typing.mjs").read_text(encoding="utf-8").partition("\nif (")[0].replace("export ", "")
    page = open_page(site.address)
    found = page.evaluate(
        f"""async (cases) => {{
            {check}
            const bytes = async (name) => new Uint8Array(await (await fetch(`/${{name}}`)).arrayBuffer());
            const typist = await openTypist(await import("/rheostat.js"), await import("/typist.js"), bytes);
            return answers(typist, cases);
        }}""",
        cases,
    )
    with Predictor(threads=1) as predictor:
        assert differences(cases, found, predictor) == []
