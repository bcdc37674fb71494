"""Known words in JavaScript: the page finds the words that Python finds, and types as Python does with them."""

from __future__ import annotations

import base64
import json
import random
import shutil
import string
import subprocess
from pathlib import Path

import pytest
from test_typing_in_javascript import differences, in_node, make_cases

from rheostat.bundled import model_path
from rheostat.keyboard.site import STATIC, write_page
from rheostat.measure.packing import pack
from rheostat.model.file import open_model
from rheostat.runtime.predictor import Predictor
from rheostat.text.known_words import KnownWords
from rheostat.words.slips import ENDINGS, is_inflected

HERE = Path(__file__).parent
KNOWN = ("rumbling", "wavelength", "latte", "irritates", "tommorow", "xqzzq", "dping")
ODD = ["", "a", "ab", "'s", "abc's", "naïve", "ΣΊΣ", "straße", "o'clock", "日本語", "😀😀😀", "😀😀"]


def test_both_find_the_same_words(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node: install Debian's nodejs")
    chance = random.Random(5)
    words = ["".join(chance.choices(string.ascii_lowercase + "'é", k=chance.randint(3, 14))) for _ in range(3000)]
    filters = [KnownWords.of(words[:count]) for count in (1, 7, 1000)]
    cases = [[base64.b64encode(known.to_bytes()).decode(), words + ODD] for known in filters] + [[None, words]]
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    shutil.copytree(STATIC, tmp_path / "static")
    command = [node, "--no-warnings", HERE / "check_known_words.mjs", tmp_path / "static", tmp_path / "cases.json"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found[:-1] == [[word in known for word in words + ODD] for known in filters]
    assert not any(found[-1]), "without known words, none is known"


def test_both_know_the_same_endings(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node: install Debian's nodejs")
    with open_model(model_path()) as file:
        vocabulary = list(file.vocabulary.index)
    stems = random.Random(6).sample(vocabulary, 1500)
    forms = [stem + ending for stem in [*stems, "naïve", "😀"] for ending in (*ENDINGS, "gy", "ning")]
    (tmp_path / "cases.json").write_text(json.dumps({"vocabulary": vocabulary, "forms": forms}))
    shutil.copytree(STATIC, tmp_path / "static")
    command = [node, "--no-warnings", HERE / "check_endings.mjs", tmp_path / "static", tmp_path / "cases.json"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    known = set(vocabulary)
    expected = [is_inflected(form, known) for form in forms]
    assert json.loads(done.stdout) == expected and 3000 < sum(expected) < len(forms) - 3000


def test_node_types_as_python_does_with_known_words(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("\n".join(KNOWN))
    model = tmp_path / "model.safetensors"
    pack(model_path(), model, known_words=[tmp_path / "list"])
    texts = [f"it was {word}" for word in (*KNOWN, "latte's", "lattr", "cant")]
    cases = [{"method": m, "text": t, "percent": 100, "k": 3} for t in texts for m in ("complete", "correct")]
    cases += make_cases(60, seed=12)
    site = write_page(tmp_path / "site", model).folder
    with Predictor(model, threads=1) as predictor:
        assert differences(cases, in_node(site, cases, tmp_path), predictor) == []
