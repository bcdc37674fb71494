"""The core as applications build it: other compilers and processors, sanitizers, the example, hostile files."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rheostat.bundled import model_path
from rheostat.core.binding import Choice, CoreModel
from rheostat.core.build import FLAGS, FOLDER, WARNINGS, CompilerError, find_compiler, run_compiler, sources
from rheostat.text.vocabulary import END_OF_LINE, UNKNOWN

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests" / "core"
DATA = ROOT / "tests" / "data" / "core"
ZIG = [sys.executable, "-m", "ziglang", "cc"]
SANITIZERS = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
EXPECTED = sorted(line.split() for line in (DATA / "bits.txt").read_text().splitlines())  # precision, position, hash


def build(out: Path, program: Path, *flags: str, compiler: list[str] | None = None) -> Path:
    arguments = [*FLAGS, *flags, f"-I{FOLDER}", str(program), *sources()]
    return run_compiler(compiler or find_compiler(), arguments, out)


def run(*command: str | Path, timeout: int = 120) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return done.stdout


def fails(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    return done.stderr


def check_bits(*command: str | Path) -> set[str]:
    """Compare every kernel's bits with the committed ones; which kernels there were."""
    seen = set()
    for precision in ("int8", "int4", "fp32"):
        lines = [line.split() for line in run(*command, DATA / f"{precision}.safetensors").splitlines()]
        for kernel in {line[0] for line in lines}:
            found = sorted([precision, position, bits] for name, position, bits in lines if name == kernel)
            assert found == [line for line in EXPECTED if line[0] == precision], kernel
            seen.add(kernel)
    return seen


def with_zig(out: Path, *flags: str) -> Path:
    if not importlib.util.find_spec("ziglang"):
        pytest.skip("needs zig to compile for other processors: pip install ziglang")
    return build(out, PROGRAMS / "bits.c", *flags, compiler=ZIG)


def needed(program: str, package: str) -> str:
    if not (path := shutil.which(program)):
        pytest.skip(f"needs {program}: install Debian's {package}")
    return path


def test_the_system_compiler_gives_the_committed_bits(tmp_path: Path) -> None:
    assert "plain" in check_bits(build(tmp_path / "bits", PROGRAMS / "bits.c", *WARNINGS))


def test_less_optimisation_gives_the_same_bits(tmp_path: Path) -> None:
    assert "plain" in check_bits(build(tmp_path / "bits", PROGRAMS / "bits.c", "-O1"))


def test_neon_gives_the_same_bits(tmp_path: Path) -> None:
    emulator = needed("qemu-aarch64-static", "qemu-user-static")
    program = with_zig(tmp_path / "bits", "-target", "aarch64-linux-musl")
    assert {"neon-dot", "neon"} <= check_bits(emulator, program)
    assert "neon-dot" not in check_bits(emulator, "-cpu", "cortex-a53", program)


def test_webassembly_gives_the_same_bits(tmp_path: Path) -> None:
    node = needed("node", "nodejs")
    module = with_zig(tmp_path / "bits.wasm", "-target", "wasm32-wasi", "-msimd128")
    assert "wasm-simd" in check_bits(node, "--no-warnings", PROGRAMS / "run_wasi.mjs", module)


def test_the_bits_stay_the_same_under_sanitizers(tmp_path: Path) -> None:
    try:
        program = build(tmp_path / "bits", PROGRAMS / "bits.c", *SANITIZERS)
    except CompilerError as error:
        pytest.skip(f"this compiler has no sanitizers: {error}"[:200])
    check_bits(program)


def test_mutated_files_are_opened_or_refused_and_never_crash(tmp_path: Path) -> None:
    try:
        program = build(tmp_path / "mutate", PROGRAMS / "mutate.c", *SANITIZERS)
    except CompilerError as error:
        pytest.skip(f"this compiler has no sanitizers: {error}"[:200])
    count = os.environ.get("RHEOSTAT_MUTATIONS", "2000")
    found = run(program, DATA / "int8.safetensors", count, timeout=3600)
    refused = int(found.split()[0])
    assert int(count) // 4 < refused < int(count)


def test_the_example_completes_a_sentence(tmp_path: Path) -> None:
    program = build(tmp_path / "example", FOLDER / "example.c", *WARNINGS)
    full = run(program, model_path(), "1", "how are y")
    assert full.startswith("100 % of the cost") and "you" in full.split()
    assert run(program, model_path(), "0.2", "how are y").startswith("20 % of the cost")
    assert "cannot be read" in fails(program, tmp_path / "none", "1", "x")
    assert "costs so little" in fails(program, model_path(), "0.1", "x"), "it was graded down to 14 %"


def test_the_example_of_the_page_on_embedding_completes_a_word(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "embedding.md").read_text(encoding="utf-8")
    block, *_ = re.findall(r"^```c\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    whole = """
#include <stdio.h>
int main(int count, char **arguments) {
    FILE *file = fopen(arguments[count - 1], "rb");
    static char bytes[1 << 20];
    size_t size = fread(bytes, 1, sizeof bytes, file);
    int32_t words[3];
    int found = complete(bytes, size, 1, arguments[1], words);
    for (int place = 0; place < found; place++) printf("%d ", (int)words[place]);
    return 0;
}
"""
    (tmp_path / "page.c").write_text(block + whole, encoding="utf-8")
    program = build(tmp_path / "page", tmp_path / "page.c", *WARNINGS)
    core = CoreModel((DATA / "int8.safetensors").read_bytes())
    known, prefix = core.word(20), core.word(30)
    assert known and prefix
    read = [core.find_word(word) for word in (END_OF_LINE, known, UNKNOWN)]
    position = core.position_near(1.0)
    answer = core.predict(position, core.steps(position, core.start(), read))
    best = core.best(answer, 3, Choice(prefix=prefix[:1].encode()))
    found = run(program, f"{known} unheard-of {prefix[:1]}", DATA / "int8.safetensors").split()
    assert found == [str(number) for number in best.ids] and len(found) == 3


def test_the_flags_of_the_page_on_embedding_are_those_of_the_build() -> None:
    for text in ((ROOT / "docs" / "embedding.md").read_text(encoding="utf-8"), (FOLDER / "example.c").read_text()):
        assert f"cc {' '.join(FLAGS)} example.c {' '.join(path.name for path in map(Path, sources()))} -o" in text


def test_the_header_is_cpp_too(tmp_path: Path) -> None:
    compiler = needed("g++", "g++")
    (tmp_path / "app.cpp").write_text('#include "rheostat.h"\nint main() { return rheo_kernel_name(0) == nullptr; }\n')
    objects = [
        run_compiler(find_compiler(), [*FLAGS, "-c", path], tmp_path / f"{Path(path).stem}.o") for path in sources()
    ]
    flags = ["-std=c++17", *WARNINGS, f"-I{FOLDER}", str(tmp_path / "app.cpp"), *map(str, objects)]
    assert run(run_compiler([compiler], flags, tmp_path / "app")) == ""
