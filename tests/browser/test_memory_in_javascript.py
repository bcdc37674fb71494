"""The page's memory counts and learns what Python's does, and gives the suggestions that Python gives with it."""

from __future__ import annotations

import json
import math
import random
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from rheostat.bundled import model_path
from rheostat.keyboard.site import write_page
from rheostat.runtime.predictor import Predictor
from rheostat.runtime.remembering import Watch
from rheostat.words import memory as words_memory
from rheostat.words.memory import Memory

HERE = Path(__file__).parent
START_S = 1_800_000_000.0
WORDS = ("see", "you", "soon", "at", "the", "allotment", "Zoë", "don't", "<eos>", "!", "naïve", "ok", "o", "7")


def make_operations(seed: int) -> list[list[Any]]:
    """Words learned, taken back and forgotten, over hours and months."""
    chance, now, found = random.Random(seed), START_S, list[list[Any]]()
    for _ in range(180):
        now += chance.choice((1.0, 30.0, 700.0, 3600.0, 86400.0 * 9))
        found.append(["at", now])
        words = chance.choices(WORDS, k=chance.randint(1, 4))
        before = chance.choices(WORDS, k=chance.randint(0, 3))
        name = chance.choice(("learn",) * 8 + ("unlearn", "forget", "forgetLastHour", "flush", "reopen"))
        arguments = {"learn": [words, before], "unlearn": [words, before], "forget": [words[0]]}.get(name, [])
        is_elsewhere = name not in ("flush", "reopen") and chance.random() < 0.08
        found.append(["elsewhere"] * is_elsewhere + [name, *arguments])
        found.append(["share", chance.choices(WORDS, k=2)])
        found.append(["count", " ".join(words[:2])])
    return [*found, ["flush"], ["phrases"], ["file"], ["clear"], ["phrases"]]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's memory writes its file at once, as JavaScript does, instead of in a thread of its own."""
    start = threading.Thread.start

    def start_others(thread: threading.Thread) -> None:
        if thread.name == "rheostat-memory":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_others)
    monkeypatch.setattr(words_memory, "LOOK_SECONDS", math.inf)  # JavaScript is told by the other tab


class InPython:
    """The same operations on Python's memory. is_meant: "model" asks the bundled model what looks like a slip."""

    def __init__(self, path: Path, limit: int | None, is_meant: str) -> None:
        self.now, self.path, self.is_meant = 0.0, path, is_meant
        self.options: dict[str, Any] = {"clock": lambda: self.now} | ({"limit_bytes": limit} if limit else {})
        self.open()

    def open(self) -> None:
        self.memory = Memory(self.path, **self.options)
        if self.is_meant:
            self.predictor = Predictor(threads=1, memory=self.memory)
        if self.is_meant == "model":
            self.watch = self.predictor.watch()
        else:
            self.watch = Watch(self.memory, "words", lambda text: 1.0, lambda word: True, False)

    def answer(self, name: str, *given: Any) -> Any:
        memory = self.memory
        if name == "elsewhere":  # another process, or another tab
            memory, name, given = Memory(self.path, **self.options), *given[:1], given[1:]
        if name == "at":
            self.now = given[0]
        elif name == "reopen":
            memory.flush()
            self.open()
        elif name == "share":
            share = memory.share(*given)
            return [share.of_model, share.extra]
        elif name == "phrases":
            return [list(one) for one in memory.phrases()]
        elif name == "count":
            return memory.count(*given[0].split(" "))
        elif name == "file":
            return json.loads(memory.to_json())
        elif name == "see":
            self.watch.see(given[0], accepted=len(given) > 1 and given[1])
        elif name == "end":
            return self.watch.end(*given)
        elif name in ("complete", "correct"):
            return [one._asdict() for one in getattr(self.predictor, name)(given[0]["text"], given[0]["k"])]
        else:
            getattr(memory, {"forgetLastHour": "forget_last_hour"}.get(name, name))(*given)
        if memory is not self.memory and name != "reopen":
            memory.flush()
        return None


def rounded(value: Any) -> Any:
    """Numbers with nine digits, phrases in order."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in sorted(value.items())}
    if isinstance(value, list):
        rows = [rounded(one) for one in value]
        return (
            sorted(rows, key=lambda row: row["words"])
            if rows and isinstance(rows[0], dict) and "words" in rows[0]
            else rows
        )
    return float(f"{value:.6g}") if isinstance(value, int | float) and not isinstance(value, bool) else value


ANSWERED = {"share", "phrases", "count", "file", "end", "complete", "correct"}


def compare(cases: list[dict[str, Any]], folder: Path) -> list[Any]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node: install Debian's nodejs")
    site = write_page(folder / "site").folder
    (folder / "cases.json").write_text(json.dumps(cases))
    command = [node, "--no-warnings", HERE / "check_memory.mjs", site, folder / "cases.json"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for number, case in enumerate(cases):
        python = InPython(folder / f"memory-{number}.json", case.get("limit"), case.get("isMeant", ""))
        answers = [(operation, python.answer(*operation)) for operation in case["operations"]]
        wanted = [(operation, answer) for operation, answer in answers if operation[0] in ANSWERED]
        for (operation, answer), other in zip(wanted, found[number], strict=True):
            assert rounded(other) == rounded(json.loads(json.dumps(answer))), operation
    return found


def test_the_counts_are_those_of_python(tmp_path: Path) -> None:
    cases = [{"operations": make_operations(seed)} for seed in range(6)]
    cases += [{"operations": make_operations(seed), "limit": 4000} for seed in range(6, 9)]
    found = compare(cases, tmp_path)
    sizes = [len(answers[-2]["phrases"]) for answers in found]
    assert min(sizes[:6]) > 60 and max(sizes[6:]) < 60, "the limit drops phrases"


def test_words_left_unchanged_or_accepted_are_learned(tmp_path: Path) -> None:
    text = "See you at home tomorow, or not! don't know 7 ok"
    typing: list[list[Any]] = [["at", START_S]]
    typing += [["see", text[:end]] for end in range(1, len(text) + 1)]
    typing += [["see", text[: text.index("not")]], ["see", f"{text} allotment ", True], ["phrases"], ["end", text]]
    typing += [
        ["phrases"],
        ["see", "allotment ", True],
        ["phrases"],
        ["see", ""],
        ["phrases"],
        ["reopen"],
        ["file"],
    ]
    cases = [{"operations": typing, "isMeant": kind} for kind in ("model", "always")]
    model, always = compare(cases, tmp_path)
    assert "tomorow" in dict(always[0]) and "tomorow" not in dict(model[0]), "a slip is not learned"
    assert "or not" in dict(model[0]) and not any("tomorow" in phrase for phrase in dict(model[0])), "nor in a phrase"
    assert "home" in dict(model[0]) and "allotment" in dict(model[3]) and "allotment" not in dict(model[4])


def test_accepted_pasted_and_changed_text_is_learned_as_in_python(tmp_path: Path) -> None:
    def write(text: str, after: str = "") -> list[list[Any]]:
        return [["see", after + text[:end]] for end in range(1, len(text) + 1)]

    accepted = "see you at the allotment "
    pasted = f"{accepted}tonight: Zoë wrote that it was cold "
    sent = f"{pasted}and I like it".replace("at", "in", 1)
    typing: list[list[Any]] = [["at", START_S], *write("see you at the "), ["see", accepted, True], ["phrases"]]
    typing += [*write("tonight: ", accepted), ["phrases"], ["see", pasted], ["phrases"]]
    typing += [*write("and I like it", pasted), ["phrases"], ["see", sent], ["phrases"]]
    typing += [["see", ""], ["phrases"], ["see", sent], ["phrases"], ["see", accepted], ["end", sent], ["phrases"]]
    cases = [{"operations": typing, "isMeant": kind} for kind in ("model", "always")]
    for found in compare(cases, tmp_path):
        at_once, settled, as_pasted, written, changed, nothing = map(dict, found[:6])
        assert at_once["allotment"] == settled["the allotment"] == 1 and "the allotment" not in at_once
        assert as_pasted.keys() - settled.keys() <= {"tonight", "allotment tonight", "the allotment tonight"}
        assert "cold" not in written and "and i" in written and changed["you in the"] == 1 and not nothing


def test_a_word_is_forgotten_in_any_spelling(tmp_path: Path) -> None:
    learned = [["at", START_S], ["learn", ["i", "don't", "like", "cafe\u0301", "σοφός", "İ"], []]]
    forgetting = [[["forget", word], ["phrases"]] for word in ("Don’t", "CAFÉ", "ΣΟΦΌΣ", "i\u0307")]
    (found,) = compare([{"operations": [*learned, *(one for pair in forgetting for one in pair)]}], tmp_path)
    assert [phrase for phrase, _ in found[-1]] == ["i", "like"]


def test_suggestions_with_a_memory_are_those_of_python(tmp_path: Path) -> None:
    lines = model_path().with_name("chat-test.txt").read_text(encoding="utf-8").splitlines()[:12]
    operations: list[list[Any]] = [["at", START_S]]
    for line in lines:
        operations += [["end", f"{line} zumsteg allotment"]]
    texts = (
        "see you at the allot",
        "zum",
        "a zumsteg",
        "a zumsetg",
        "atthe",
        "ihave",
        "zumstegalotment",
        "I have ",
        "what is yo",
        "zumsteg ",
        "teh alotmemt",
        "how dp y",
        "embarased",
    )
    operations += [[name, {"text": text, "percent": 100, "k": 5}] for text in texts for name in ("complete", "correct")]
    (found,) = compare([{"operations": operations, "isMeant": "always"}], tmp_path)
    assert "zumsteg" in {one["word"] for answer in found[12:] for one in answer if isinstance(one, dict)}


def test_a_word_that_was_corrected_automatically_is_as_sure_as_its_correction(tmp_path: Path) -> None:
    operations: list[list[Any]] = [["at", START_S]]
    for typed, sent in (("what are you dping", "what are you doing"), ("i went tothe", "i went to the allotment")):
        operations += [["correct", {"text": typed, "percent": 100, "k": 3}], ["end", sent], ["phrases"]]
    operations += [["end", "i saw what she was doing"], ["phrases"]]
    (found,) = compare([{"operations": operations, "isMeant": "model"}], tmp_path)
    assert found[1][3] == [] and found[6][5] == ["doing"], "learned where it was typed only"
