"""pyproject.toml and the Makefile: every dependency is imported, and `make` lists every target."""

from __future__ import annotations

import ast
import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

import lock
from rheostat.core.build import WHEELS, ZIG
from rheostat.model.file import open_model
from rheostat.text.mixture import talk_parts

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
IMPORTED_AS = {"chitchat-dataset": "chitchat_dataset", "lightning-fabric": "lightning_fabric", "pyserial": "serial"}


def packages(requirements: list[str]) -> list[str]:
    return [re.split(r"[<>=\[]", requirement)[0] for requirement in requirements]


def imported_by(folder: Path) -> set[str]:
    """Top-level names of everything that the modules of a folder import, also by import_module("…")."""
    found = set()
    for path in folder.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add((node.module or "").partition(".")[0])
        found |= set(re.findall(r'import_module\("(\w+)', text))
    return found


IMPORTED = imported_by(ROOT / "src" / "rheostat")
DEPENDENCIES = [
    *PROJECT["dependencies"],
    *(wanted for name, extra in PROJECT["optional-dependencies"].items() if name != "dev" for wanted in extra),
]


@pytest.mark.parametrize("package", packages(DEPENDENCIES))
def test_the_package_imports_what_it_depends_on(package: str) -> None:
    assert IMPORTED_AS.get(package, package) in IMPORTED


def test_the_light_environment_has_what_its_tests_import() -> None:
    install = re.search(r"\$\(LIGHT\)/bin/pip .* -e '\.\[onnx\]' (.*)", MAKEFILE)
    assert install
    wanted = install[1].split()
    assert set(wanted) <= set(packages(PROJECT["optional-dependencies"]["dev"]))
    assert {"safetensors", "pytest-cov"} <= set(wanted)


def test_make_lists_every_target() -> None:
    phony = re.search(r"^\.PHONY: (.*)", MAKEFILE, re.MULTILINE)
    assert phony
    listed = re.findall(r"^# make (\S+)", MAKEFILE, re.MULTILINE)
    steps_of_others = {"help", "check", "test-browser"}  # plain make, an alias, and a part of make test
    assert set(phony[1].split()) - steps_of_others == {name for name in listed if name in phony[1].split()}
    assert re.search(r"^help:", MAKEFILE, re.MULTILINE)


def test_ci_runs_what_a_newcomer_runs() -> None:
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()[-1] == "make test"
    recipe = re.search(r"^test: (.*)\n\t(.*)", MAKEFILE, re.MULTILINE)
    assert recipe and {"lint", "test-light", "test-browser"} <= set(recipe[1].split()) and "pytest" in recipe[2]


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The build hook of a wheel, on a machine without a C compiler."""
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    return module.CoreBuildHook(str(ROOT), {}, None, None, "", "wheel")


def test_a_build_without_a_compiler_asks_for_the_pinned_zig(hook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hook.dependencies() == [ZIG]
    monkeypatch.setenv("CC", "cc")
    assert hook.dependencies() == []


def test_a_wheel_for_another_platform_is_compiled_by_zig(hook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "cc")
    monkeypatch.setenv("RHEOSTAT_WHEEL", next(iter(WHEELS)))
    assert hook.dependencies() == [ZIG]


def test_an_unknown_platform_of_a_wheel_is_refused_in_one_line(hook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RHEOSTAT_WHEEL", "vax")
    with pytest.raises(
        SystemExit, match=r"^rheostat: RHEOSTAT_WHEEL is 'vax'; expected one of manylinux_2_17_x86_64, .*$"
    ):
        hook.initialize("standard", {"artifacts": [], "force_include": {}})


def test_a_built_wheel_carries_every_notice_and_address(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    notices = [ROOT / "LICENSE", ROOT / "THIRD-PARTY.md", *(ROOT / "models" / "LICENSES").iterdir()]
    assert len(notices) > 5
    with zipfile.ZipFile(wheel) as archive:
        stored = {name.partition(".dist-info/licenses/")[2]: name for name in archive.namelist()}
        for notice in notices:
            assert archive.read(stored[notice.relative_to(ROOT).as_posix()]) == notice.read_bytes()
        assert "rheostat/bundled/chat.safetensors" in archive.namelist()
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        addresses = re.findall(r"^Project-URL: (.+), (https://\S+)$", archive.read(metadata).decode(), re.MULTILINE)
        assert dict(addresses) == PROJECT["urls"] and len(addresses) >= 2


LOWEST = dict(
    line.split("==")
    for line in (ROOT / "requirements-lowest.txt").read_text(encoding="utf-8").splitlines()
    if "==" in line and not line.startswith("#")
)


FOR_USERS = sorted(PROJECT["optional-dependencies"].keys() - {"dev", "ngram"})


@pytest.mark.parametrize("extra", ["", *FOR_USERS])
def test_the_lowest_versions_are_those_that_are_promised(extra: str) -> None:
    wanted = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    for requirement in wanted:
        name, version = re.split("[>=]=", requirement)
        assert LOWEST[name] == version or LOWEST[name].startswith(f"{version}."), requirement


def test_the_lock_has_a_hash_for_every_package_and_no_place() -> None:
    lines = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8").splitlines()
    packages_locked = [line for line in lines if not line.startswith("#")]
    assert len(packages_locked) > 50
    for line in packages_locked:
        assert re.fullmatch(r"[a-z0-9.-]+==[\w.+!]+ --hash=sha256:[0-9a-f]{64}", line), line
    locked = {line.partition("==")[0] for line in packages_locked}
    every = packages([*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]])
    assert {name.lower() for name in every} <= locked


def test_the_lock_says_which_extras_it_has_and_which_not() -> None:
    extras = {name: packages(wanted) for name, wanted in PROJECT["optional-dependencies"].items()}
    assert set(lock.EXTRAS) | set(lock.LEFT_OUT) == set(extras) and not set(lock.EXTRAS) & set(lock.LEFT_OUT)
    lines = (ROOT / "requirements-dev.lock").read_text(encoding="utf-8").splitlines()
    said = " ".join(line.removeprefix("# ") for line in lines if line.startswith("#"))
    assert f"the extras {', '.join(lock.EXTRAS)}" in said and f"{' and '.join(lock.LEFT_OUT)} are not in it" in said
    place = re.search(r"for Python (\S+ on \S+ \S+):", said)
    assert place and lines[:5] == lock.heading(place[1])
    locked = {line.partition("==")[0] for line in lines if not line.startswith("#")}
    for extra, wanted in extras.items():
        only_there = set(wanted) - {one for other in lock.EXTRAS for one in extras[other]} - {"torch"}
        assert not only_there & locked if extra in lock.LEFT_OUT else set(wanted) - {"torch"} <= locked, extra
    assert {"zeus", "kenlm"}.isdisjoint(locked)


def test_make_test_lowest_covers_everything_that_users_install() -> None:
    install = re.search(r"\$\(LOWEST\)/bin/pip .* -e '\.\[(.*)\]'", MAKEFILE)
    assert install and sorted(install[1].split(",")) == FOR_USERS
    kenlm = re.search(r"KENLM := kenlm==(\S+)", MAKEFILE)
    assert kenlm and PROJECT["optional-dependencies"]["ngram"] == [f"kenlm>={kenlm[1].removesuffix('.0')}"]


def test_starlette_is_not_one_with_the_range_denial_of_service() -> None:
    (wanted,) = (one for one in PROJECT["optional-dependencies"]["keyboard"] if one.startswith("starlette"))
    assert tuple(map(int, wanted.partition(">=")[2].split("."))) >= (0, 49, 1)


def test_the_notices_name_the_data_of_the_bundled_model() -> None:
    """Of every part that its weights, or the weights they were made from, were trained on."""
    assert "THIRD-PARTY.md" in PROJECT["license-files"]
    notices = (ROOT / "THIRD-PARTY.md").read_text(encoding="utf-8")
    with open_model() as file:
        recipes, origin = [file.description.recipe], file.origin
        while origin is not None and origin.is_recorded:
            recipes.append(origin.recipe or {})
            origin = origin.before
    parts = [part for recipe in recipes for part in recipe.get("corpus", {}).get("parts", ())]
    attributions = {part.name: part.attribution for part in talk_parts()}
    assert {part["name"] for part in parts} == set(attributions)
    assert all(attribution in notices for attribution in attributions.values())
    assert "Copyright (c) 2019 Perception, Control and Cognition Lab" in notices
