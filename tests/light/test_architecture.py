"""Which part may import which, and the light half without torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rheostat
from models import write_tiny

PACKAGE = Path(rheostat.__file__).parent
HEAVY_LIBRARIES = {"torch", "lightning_fabric", "numba", "tensorboard"}

# A part may import itself and what stands here; nothing else of the package.
DATA = {
    "errors",
    "bundled",
    "durable",
    "shape",
    "splits",
    "vocabulary",
    "metrics",
    "corpus",
    "operating_point",
    "precision",
    "model_file",
    "recipe",
    "provenance",
    "knob",
}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "bundled": {"errors"},
    "models": set(),
    "durable": set(),
    "shape": set(),
    "splits": set(),
    "metrics": {"errors"},
    "vocabulary": {"errors"},
    "recipe": {"errors"},
    "recipes": set(),
    "provenance": set(),
    "token_cache": {"durable", "errors"},
    "chat": {"errors", "token_cache", "vocabulary"},
    "held_out": {"chat"},
    "mixture": {"chat", "errors", "held_out", "recipe", "token_cache"},
    "corpus": {"chat", "errors", "mixture", "token_cache", "vocabulary"},
    "operating_point": {"errors", "shape"},
    "container": {"durable", "errors"},
    "precision": {"container"},
    "description": {"container", "errors", "operating_point", "shape", "vocabulary"},
    "model_file": {
        "bundled",
        "container",
        "description",
        "errors",
        "operating_point",
        "precision",
        "shape",
        "vocabulary",
    },
    "knob": {"errors", "model_file", "operating_point"},
    "training": DATA,
    "pruning": DATA | {"training"},
    "runtime": DATA,
    "benchmark": DATA | {"runtime"},
    "keyboard": DATA | {"runtime"},
    "cli": DATA | {"benchmark", "keyboard", "pruning", "runtime", "training"},
    "__init__": {"errors", "model_file", "operating_point", "runtime"},
    "__main__": {"cli"},
}
HEAVY = {"training", "pruning"}
LIGHT = sorted({part.name.removesuffix(".py") for part in PACKAGE.iterdir()} & set(MAY_IMPORT) - HEAVY - {"__main__"})


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[str]:
    """Dotted names of everything imported below this node."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert not node.level, "imports are absolute"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def top_level(tree: ast.Module) -> ast.Module:
    """The statements that run on import: neither functions nor what is only for type checkers."""

    def runs(node: ast.stmt) -> bool:
        typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        return not (typing_only or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))

    return ast.Module([node for node in tree.body if runs(node)], [])


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_follow_the_direction_of_the_data(path: Path) -> None:
    part = part_of(path)
    known = {name.removesuffix(".py") for name in (entry.name for entry in PACKAGE.iterdir())}
    for name in imports(ast.parse(path.read_text(encoding="utf-8"))):
        root, _, rest = name.partition(".")
        imported = rest.partition(".")[0]
        if root == "rheostat" and imported in known and imported != part:
            assert imported in MAY_IMPORT[part], f"{path.name} may not import rheostat.{imported}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_torch_appears_only_where_models_are_made(path: Path) -> None:
    if part_of(path) in HEAVY:
        return
    names = set(imports(ast.parse(path.read_text(encoding="utf-8"))))
    assert not {name.partition(".")[0] for name in names} & HEAVY_LIBRARIES


@pytest.mark.parametrize("path", sorted((PACKAGE / "cli").glob("*.py")), ids=lambda path: path.name)
def test_commands_import_the_heavy_half_only_when_they_run(path: Path) -> None:
    names = imports(top_level(ast.parse(path.read_text(encoding="utf-8"))))
    assert not [name for name in names if name.startswith(("rheostat.training", "rheostat.pruning"))]


def test_light_half_imports_with_torch_blocked() -> None:
    script = f"""
import sys
for name in {sorted(HEAVY_LIBRARIES)}:
    sys.modules[name] = None
import importlib
for part in {LIGHT}:
    importlib.import_module("rheostat" if part == "__init__" else f"rheostat.{{part}}")
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_importing_rheostat_imports_nothing_heavy() -> None:
    script = (
        "import sys, rheostat; print([m for m in ('torch', 'numba', 'onnx', 'rich', 'matplotlib') if m in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    assert answer.stdout.strip() == "[]"


def test_a_first_suggestion_imports_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    """Each of these takes longer to import than a suggestion takes, and megabytes."""
    script = """
import sys, rheostat
rheostat.load(sys.argv[1], threads=1).suggest("the")
print([m for m in ("onnx", "numpy.random", "psutil", "rich", "typer", "hashlib") if m in sys.modules])
"""
    command = [sys.executable, "-c", script, str(write_tiny(tmp_path / "tiny.safetensors"))]
    answer = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert answer.stdout.strip() == "[]"


def test_training_without_torch_names_the_extra() -> None:
    script = """
import sys
sys.modules["torch"] = None
from rheostat.errors import MissingExtraError
try:
    import rheostat.training
except MissingExtraError as error:
    print(error)
"""
    answer = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    assert "pip install 'rheostat[train]'" in answer.stdout


def test_every_module_says_what_it_is_for() -> None:
    silent = [path.name for path in modules() if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))]
    assert not silent
