"""Which module may import which, and the light half without torch."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rheostat
from models import write_tiny

PACKAGE = Path(rheostat.__file__).parent
ROOT = Path(__file__).parents[2]
HEAVY_LIBRARIES = {"torch", "lightning_fabric", "numba", "tensorboard"}

# What a part may import besides itself, from the command line down to the errors. Several modules of the part use each
# of these; what only one or two modules need is in ONE_MODULE.
MAY_IMPORT: dict[str, str] = {
    "__init__": "errors governor keyboard measure model pruning report runtime training words",
    "__main__": "cli",
    "errors": "",
    "arguments": "errors",
    "sysfs": "errors",
    "inputs": "",
    "durable": "inputs",
    "provenance": "errors model",
    "metrics": "errors",
    "tables": "errors",
    "recipe": "errors inputs tables",
    "recipes": "",
    "bundled": "errors",
    "text": "errors inputs",
    "model": "arguments errors text",
    "words": "arguments errors inputs text",
    "core": "errors",
    "runtime": "arguments core errors metrics model text words",
    "governor": "errors inputs tables",
    "measure": "arguments errors inputs metrics model runtime sysfs tables text words",
    "report": "arguments durable errors measure model",
    "keyboard": "arguments errors governor model runtime words",
    "training": "arguments errors metrics model tables text",
    "pruning": "arguments errors metrics model provenance text training",
    "cli": "bundled errors measure model pruning recipe report runtime training",
}
# What a single module may import beyond that.
ONE_MODULE: dict[str, str] = {
    "text.mixture": "recipe tables",
    "text.token_cache": "durable",
    "model.container": "durable inputs",
    "model.file": "bundled",
    "model.origin": "tables",
    "words.hidden_words": "bundled",
    "words.user_words": "durable",
    "runtime.export": "provenance",
    "runtime.export_folder": "durable inputs tables",
    "runtime.predictor": "bundled",
    "governor.governor": "arguments",
    "governor.readers": "sysfs",
    "measure.ngram": "durable",
    "measure.ngram_baseline": "recipe",
    "measure.path_search": "durable provenance",
    "measure.results.files": "durable",
    "measure.results.govern": "governor",
    "measure.results.shared": "provenance",
    "report.cost_sections": "governor",
    "report.demo": "bundled runtime tables",
    "report.figures.day": "governor",
    "report.govern": "governor",
    "report.origins": "tables",
    "report.published": "tables",
    "keyboard.facts": "measure tables",
    "keyboard.server": "bundled text",
    "keyboard.site": "bundled core durable",
    "keyboard.governing": "tables",
    "keyboard.page_tables": "core text",
    "training.run": "provenance recipe",
    "training.run_folder": "durable inputs",
    "training.task": "provenance",
    "training.trainer": "tables",
    "pruning.run": "tables",
    "pruning.steps": "recipe",
    "cli.evaluate": "tables",
    "cli.govern": "governor",
    "cli.keyboard": "governor keyboard",
    "cli.learning": "metrics",
    "cli.memory": "words",
    "cli.suggest": "words",
    "cli.train": "text",
    "cli.typing_screen": "words",
}
# Inside a package, a module may import the ones before it.
INSIDE: dict[str, str] = {
    "text": "token_cache vocabulary chat sources mixture tokenizers casing known_words reading word_counts corpus",
    "model": "clusters container flops names counts origin precision shape planes reconstruction description"
    " operating_point cut widths path contents file summary writer knob ordered",
    "core": "build library values pool binding word_tree",
    "words": "hidden_words passage writing completion text_rules slips user_words memory",
    "runtime": "arguments history engine latencies remembering explaining export_folder onnx onnx.format onnx.weights"
    " onnx.operators onnx.graph onnx.graph_files onnx.session onnx.engine export points evaluation reading"
    " suggesting turning predictor",
    "governor": "device cost policy decision readers body trace governor replay",
    "measure": "machine resident_memory ngram texts keystrokes slips personal meters.series meters.meter"
    " meters.power_trace meters.power_supply meters.hwmon meters.pmic meters.rapl meters.watts_up meters.zeus_monitor"
    " meters.choice meters.energy meters results.shared results.sweep results.bench results.ngram results.govern"
    " results.benchmark results.typing results.files results packing evaluation sweep path_search latency bench"
    " ngram_baseline counting succession typing",
    "report": "document published_claims published origins kept_filters control_points typed learned evidence extent"
    " training_free figures figures.style figures.day figures.costs figures.weights govern claims"
    " controls paper_tables sweep_page typing_page summary cost_sections sections writer demo",
    "keyboard": "page_tables governing browser_model positions protection connections facts site server",
    "training": "compiled cross_entropy run_folder adaptive_softmax regularization scan layers language_model machine"
    " evaluation task graded configuration batches optimization trainer session run",
    "pruning": "reconstruction allocation criteria l0 recovery resplit run steps",
    "cli": "console keys bench count evaluate export files govern keyboard learning memory ngram path report resplit"
    " typing_screen demo suggest prune reconstruct recover train typing",
}
HEAVY = {"training", "pruning"}
LIGHT = sorted({part.name.removesuffix(".py") for part in PACKAGE.iterdir()} & set(MAY_IMPORT) - HEAVY - {"__main__"})


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def dotted(path: Path) -> str:
    """The name of a module in the package, like "model.cut"; a sub-package has its own name."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def part_of(path: Path) -> str:
    return dotted(path).partition(".")[0]


MODULES = {dotted(path): path for path in modules()}


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
    """The statements that run on import: no functions, and nothing only for type checkers."""

    def runs(node: ast.stmt) -> bool:
        typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        return not (typing_only or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))

    return ast.Module([node for node in tree.body if runs(node)], [])


def imported_modules(module: str) -> set[str]:
    """The modules of the package that a module imports, by their dotted names."""
    found = set()
    for name in imports(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        root, _, inside = name.partition(".")
        while root == "rheostat" and inside not in MODULES and inside:
            inside = inside.rpartition(".")[0]
        if root == "rheostat" and inside:
            found.add(inside)
    return found - {module}


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_follow_the_direction_of_the_data(module: str) -> None:
    part = module.partition(".")[0]
    allowed = {part, *MAY_IMPORT[part].split(), *ONE_MODULE.get(module, "").split()}
    assert {name for name in imported_modules(module) if name.partition(".")[0] not in allowed} == set()


@pytest.mark.parametrize("part", sorted(INSIDE))
def test_inside_a_package_imports_go_one_way(part: str) -> None:
    order = [f"{part}.{name}" for name in INSIDE[part].split()]
    assert set(order) == {name for name in MODULES if name.startswith(f"{part}.")}
    for place, module in enumerate(order):
        assert {name for name in imported_modules(module) if name.startswith(f"{part}.")} <= set(order[:place]), module


def test_every_allowance_is_used() -> None:
    used: dict[str, set[str]] = {}
    for module in MODULES:
        own = ONE_MODULE.get(module, "").split()
        parts = {name.partition(".")[0] for name in imported_modules(module)}
        assert set(own) <= parts, f"{module} no longer imports {set(own) - parts}"
        used.setdefault(module.partition(".")[0], set()).update(parts - set(own))
    for part, allowed in MAY_IMPORT.items():
        assert set(allowed.split()) <= used[part], f"nothing in {part} imports {set(allowed.split()) - used[part]}"
    assert set(ONE_MODULE) <= set(MODULES)
    assert set(MAY_IMPORT) == {module.partition(".")[0] for module in MODULES}


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_torch_appears_only_where_models_are_made(path: Path) -> None:
    if part_of(path) in HEAVY:
        return
    names = set(imports(ast.parse(path.read_text(encoding="utf-8"))))
    assert not {name.partition(".")[0] for name in names} & HEAVY_LIBRARIES


PROGRAMS = sorted(path for folder in ("benchmarks", "scripts", "examples") for path in (ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("path", [*modules(), *PROGRAMS], ids=lambda path: f"{path.parent.name}/{path.name}")
def test_onnx_runtime_is_imported_only_where_its_telemetry_is_turned_off(path: Path) -> None:
    if path.is_relative_to(PACKAGE / "runtime" / "onnx"):
        return
    names = set(imports(ast.parse(path.read_text(encoding="utf-8"))))
    assert not {name.partition(".")[0] for name in names} & {"onnx", "onnxruntime"}


def test_onnx_runtime_leaves_no_file_in_the_home_folder(tmp_path: Path) -> None:
    """Since 1.29, its wheels put a device id and a database of events there when they are imported."""
    pytest.importorskip("onnxruntime")
    home = tmp_path / "home"
    home.mkdir()
    # It reports nothing on a build server, so the test must look like a user's machine.
    hidden = {"CI", "GITHUB_ACTIONS", "TF_BUILD", "ORT_DISABLE_TELEMETRY"}
    folders = {"HOME": home, "USERPROFILE": home, "XDG_CACHE_HOME": home / "cache", "XDG_DATA_HOME": home / "data"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {name: str(folder) for name, folder in folders.items()}
    script = """
import sys, rheostat
rheostat.load(sys.argv[1], threads=1, engine="onnx").suggest("the")
assert "onnxruntime" in sys.modules
"""
    command = [sys.executable, "-c", script, str(write_tiny(tmp_path / "tiny.safetensors"))]
    subprocess.run(command, check=True, timeout=60, env=environment)
    assert list(home.rglob("*")) == []


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
    """Importing any of these takes longer than a suggestion, and megabytes."""
    script = """
import sys, numpy
before = set(sys.modules)  # old versions of NumPy import numpy.random and hashlib themselves
import rheostat
rheostat.load(sys.argv[1], threads=1).suggest("the")
print([m for m in ("onnx", "numpy.random", "psutil", "rich", "typer", "hashlib") if m in set(sys.modules) - before])
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


def test_the_base_install_does_without_onnx(tmp_path: Path) -> None:
    """Predicting, completing, turning the knob, evaluating and exporting for the core need the core alone."""
    script = """
import sys
for name in ("onnx", "onnxruntime"):
    sys.modules[name] = None
import numpy, rheostat
predictor = rheostat.load(sys.argv[1])
predictor.suggest("the")
predictor.complete("th")
predictor.turn(0.6)
rheostat.evaluate(sys.argv[1], data=sys.argv[2], precision="int8")
rheostat.export(sys.argv[1], sys.argv[3], engine="core")
try:
    rheostat.load(sys.argv[1], engine="onnx")
except rheostat.MissingExtraError as error:
    print(error)
"""
    text = tmp_path / "text.txt"
    text.write_text("the old boat\nlay in the harbour\n")
    model = write_tiny(tmp_path / "tiny.safetensors")
    command = [sys.executable, "-c", script, str(model), str(text), str(tmp_path / "out")]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert answer.returncode == 0, answer.stderr
    assert "pip install 'rheostat[onnx]'" in answer.stdout
