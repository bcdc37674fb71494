"""The core as applications build it: other compilers and processors, sanitizers, the example, hostile files."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import core_fuzzing
import rheostat
from core_fuzzing import SANITIZERS
from models import make_vocabulary, make_weights
from rheostat.bundled import model_path
from rheostat.core.binding import CoreModel
from rheostat.core.build import (
    COMPILED_ONLY,
    FLAGS,
    FOLDER,
    WARNINGS,
    CompilerError,
    compile_for,
    find_compiler,
    library_name,
    run_compiler,
    sources,
)
from rheostat.core.values import Choice
from rheostat.model.counts import Counts, level_of
from rheostat.model.file import open_model
from rheostat.model.knob import choose
from rheostat.model.ordered import ordered_bytes
from rheostat.model.shape import ModelShape
from rheostat.text.vocabulary import END_OF_LINE, UNKNOWN
from rheostat.words.text_rules import describe_text
from rheostat.words.writing import matching_form, split_typed

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests" / "core"
DATA = ROOT / "tests" / "data" / "core"
ZIG = [sys.executable, "-m", "ziglang", "cc"]
# Ordered files small enough to be opened often: planes of 8 and of 4 bits, float32, an adaptive softmax, windows.
FUZZ_SEEDS = (
    *(DATA.parent / f"golden-{name}.safetensors" for name in ("ordered", "4-bits")),
    *(DATA / f"{precision}.safetensors" for precision in ("int8", "int4", "fp32")),
)
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
    for precision in ("int8", "int4", "fp32", "counts"):
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


def test_typing_at_random_is_answered_or_refused_and_never_crashes(tmp_path: Path) -> None:
    try:
        program = build(tmp_path / "letters", PROGRAMS / "letters.c", *SANITIZERS)
    except CompilerError as error:
        pytest.skip(f"this compiler has no sanitizers: {error}"[:200])
    answered, refused = map(int, re.findall(r"\d+", run(program, "300")))
    assert answered > 2000 and refused > 500, "calls that are all refused, or none, test little"


def test_the_file_with_counts_is_the_committed_one(tmp_path: Path) -> None:
    """Its bits are among the committed ones, which have a cache too."""
    assert write_counted(tmp_path / "counts").read_bytes() == (DATA / "counts.safetensors").read_bytes()


OTHER_FLOATS = ("-funsafe-math-optimizations", "-freciprocal-math", "-mfma -ffp-contract=fast")


@pytest.mark.parametrize("flags", OTHER_FLOATS)
def test_a_build_that_computes_other_floats_refuses_to_open(flags: str, tmp_path: Path) -> None:
    try:
        program = build(tmp_path / "bits", PROGRAMS / "bits.c", *flags.split())
    except CompilerError as error:
        pytest.skip(f"the compiler has no such flags: {error}"[:200])
    assert "-ffp-contract=off" in fails(program, DATA / "int8.safetensors")


# With what compilers add to protect the stack.
HARMLESS = re.compile(r"_?_?(mem(cpy|move|set|cmp|chr)|str(len|n?cmp)|getauxval|stack_chk_(fail|guard))$")


def test_the_core_calls_nothing_but_the_functions_that_the_header_names(tmp_path: Path) -> None:
    lister = needed("nm", "binutils")
    own = run_compiler(find_compiler(), [*FLAGS, "-r", "-nostdlib", *sources()], tmp_path / "core.o")
    called = [line.split()[-1] for line in run(lister, "-u", own).splitlines()]
    assert [name for name in called if not HARMLESS.match(name)] == []


def write_counted(path: Path) -> Path:
    """A small ordered file with counts: words after one and after two others."""
    shape, rng = ModelShape(60, 8, (12, 8), (2, 1)), np.random.default_rng(1)
    rows = tuple(np.unique(rng.integers(0, 9, (30, order)), axis=0).astype(np.uint16) for order in (2, 3))
    levels = tuple(level_of(np.full(len(behind), 0.05)) for behind in rows)
    counts = Counts(rows, levels, np.array([1, 0.1], np.float32), np.full((2, 2), 0.3, np.float32))
    path.write_bytes(ordered_bytes(make_weights(shape), shape, make_vocabulary(60), counts=counts).tobytes())
    return path


@pytest.fixture(scope="module")
def opener(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that opens files, mutated or as they are."""
    try:
        return build(tmp_path_factory.mktemp("opener") / "mutate", PROGRAMS / "mutate.c", *SANITIZERS)
    except CompilerError as error:
        pytest.skip(f"this compiler has no sanitizers: {error}"[:200])


def test_mutated_files_are_opened_or_refused_and_never_crash(opener: Path, tmp_path: Path) -> None:
    count = os.environ.get("RHEOSTAT_MUTATIONS", "2000")  # make fuzz asks for 100,000
    found = run(opener, count, *FUZZ_SEEDS, write_counted(tmp_path / "counts.safetensors"), timeout=3600)
    print(found)
    rounds, refused, opened = map(int, re.findall(r"\d+", found))
    assert rounds == int(count) == refused + opened
    assert refused > rounds // 4 and opened > rounds // 20, "mutations that are all refused, or none, test little"


def test_the_kept_files_are_opened_or_refused_and_never_crash(opener: Path) -> None:
    """Those that led libFuzzer to new lines of the opener, and those that once broke it."""
    kept = sorted(core_fuzzing.KEPT.iterdir())
    count, refused, opened = map(int, re.findall(r"\d+", run(opener, "0", *kept)))
    assert count == len(kept) == refused + opened and refused >= 10 and opened >= 4


def test_a_machine_without_clang_leaves_libfuzzer_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = core_fuzzing.fuzz(tmp_path, 1, 1)
    assert found["faults"] == 0 and "apt install clang" in found["skipped"]


@pytest.mark.parametrize("target", COMPILED_ONLY)
def test_the_library_compiles_for_systems_that_it_was_not_run_on(target: str, tmp_path: Path) -> None:
    """The bytes that a shared library of each system begins with: Mach-O and PE."""
    try:
        library = compile_for(target, tmp_path / library_name(COMPILED_ONLY[target]))
    except CompilerError as error:
        if "pip install" not in str(error):
            raise
        pytest.skip(str(error))
    first = {"darwin": b"\xcf\xfa\xed\xfe", "win32": b"MZ"}[COMPILED_ONLY[target]]
    assert library.read_bytes().startswith(first) and b"rheo_open" in library.read_bytes()


def test_a_machine_without_a_compiler_gets_a_remedy_in_one_line(tmp_path: Path) -> None:
    """Nothing is on PATH, and there are no site-packages that could hold zig."""
    done = subprocess.run(
        [sys.executable, "-S", "-I", FOLDER / "build.py", tmp_path / "librheostat.so"],
        capture_output=True,
        text=True,
        env={"PATH": str(tmp_path)},
    )
    assert done.returncode == 1 and done.stdout == ""
    assert re.fullmatch(
        r"rheostat: no C compiler was found.*apt install gcc.*xcode-select --install.*pip install ziglang\n",
        done.stderr,
    )


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("program") / "example", FOLDER / "example.c", *WARNINGS)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundled model, as an app on the core gets it."""
    folder = tmp_path_factory.mktemp("exported") / "chat"
    rheostat.export("chat", folder, engine="core")
    return folder


def test_the_example_completes_a_sentence(program: Path, exported: Path, tmp_path: Path) -> None:
    full = run(program, exported, "1", "how are y")
    assert full.startswith("100 % of the cost") and "you" in full.split()
    with open_model(model_path()) as file:
        cost = choose(file, 0.2).cost
    assert run(program, exported, "0.2", "how are y").startswith(f"{cost:.0%}".replace("%", " % of the cost"))
    assert "cannot be read" in fails(program, tmp_path, "1", "x")
    assert "cannot be read" in fails(program, "x" * 5000, "1", "x")
    shutil.copytree(exported, tmp_path / "other")
    (tmp_path / "other" / "suggestible.bin").write_bytes(b"\1" * 9)
    assert "of another model" in fails(program, tmp_path / "other", "1", "x")
    assert len((FOLDER / "example.c").read_text().splitlines()) < 100
    assert "costs so little" in fails(program, exported, "0.01", "x"), "its path ends above that"


def suggested(core: CoreModel, text: str, mask: NDArray[np.bool_]) -> list[str]:
    """The three best words of a mask after a text, at the whole model."""
    typed, position = split_typed(text, "words"), core.position_near(1.0)
    unknown = core.find_word(UNKNOWN)
    ids = [unknown if (place := core.find_word(word)) < 0 else place for word in typed.words]
    best = core.best(core.predict(position, core.steps(position, core.start(), ids)), 3, Choice(mask=mask))
    return [core.word(place) or "" for place in best.ids.tolist()]


def test_the_example_suggests_what_a_predictor_may(program: Path, exported: Path) -> None:
    """No misspelling that the file lists, and no slur of the package's list, where they would be the best words."""
    core, left_out = CoreModel(model_path().read_bytes()), 0
    with rheostat.load() as predictor:
        completion, words = predictor.completion, predictor.vocabulary.words
        hidden = [words[place] for place in np.flatnonzero(~completion.allowed_mask()) if words[place].isalpha()]
        assert {"definetely", "beleive"} < set(hidden)
        for text in ("def", "i belei", "how are ", "well, ", *(word[:-1] for word in hidden[::20])):
            prefix = matching_form(split_typed(text, "words").prefix)
            found = run(program, exported, "1", text).splitlines()[-1].split()
            assert found == suggested(core, text, completion.allowed_mask(prefix)), text
            assert not set(found) & set(hidden)
            every = suggested(core, text, np.array([word.startswith(prefix) for word in words]))
            left_out += bool(set(every) & set(hidden))
    assert left_out >= 10


def test_the_example_reads_a_text_as_the_model_does(program: Path, exported: Path) -> None:
    with open_model(model_path()) as file:
        known = file.vocabulary.index
    vectors = describe_text("words", {})["vectors"]

    def read(text: str) -> tuple[list[str], str]:
        _, words, _ = run(program, exported, "1", text).split("\n", 2)
        before, _, prefix = words.rpartition("| ")
        return [END_OF_LINE, *before.split()], prefix

    def as_read(words: list[str]) -> list[str]:
        return [word if word in known else UNKNOWN for word in words]

    tried = []
    for vector in (*vectors["typed"], *({**one, "text": one["text"] + " ", "prefix": ""} for one in vectors["words"])):
        # C has no Unicode: beyond ASCII it knows two signs, and takes the rest for letters in lower case.
        if all(one.isascii() or one in "’…" or (one.isalpha() and one.islower()) for one in vector["text"]):
            assert read(vector["text"]) == (as_read(vector["words"]), matching_form(vector["prefix"])), vector["text"]
            tried.append(vector["text"])
    assert len(tried) >= 34


def embedding_blocks(language: str) -> list[str]:
    page = (ROOT / "docs" / "embedding.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def test_the_blocks_of_the_page_on_embedding_compile(tmp_path: Path) -> None:
    for number, block in enumerate(embedding_blocks("c")):
        (tmp_path / f"{number}.c").write_text(block, encoding="utf-8")
        flags = [*FLAGS, *WARNINGS, "-Wno-unused-function", f"-I{FOLDER}", "-c", str(tmp_path / f"{number}.c")]
        run_compiler(find_compiler(), flags, tmp_path / f"{number}.o")


def test_the_example_of_the_page_on_embedding_completes_a_word(tmp_path: Path) -> None:
    block, *_ = embedding_blocks("c")
    whole = """
#include <stdio.h>
int main(int count, char **arguments) {
    FILE *file = fopen(arguments[count - 1], "rb");
    static char bytes[1 << 20];
    size_t size = fread(bytes, 1, sizeof bytes, file);
    static uint8_t mask[1 << 10];
    memset(mask, 1, sizeof mask);
    mask[atoi(arguments[1])] = 0;
    int32_t words[3];
    const char *const *before = (const char *const *)arguments + 2;
    int found = complete(bytes, size, mask, 1, before, count - 4, arguments[count - 2], words);
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
    hidden, *best = core.best(answer, 4, Choice(prefix=prefix[:1].encode())).ids.tolist()
    found = run(program, str(hidden), known, "unheard-of", prefix[:1], DATA / "int8.safetensors").split()
    assert found == [str(number) for number in best] and len(found) == 3


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_the_commands_of_the_page_on_embedding_run(tmp_path: Path) -> None:
    block = embedding_blocks("sh")[0]
    assert "/tmp/example" in block and "/tmp/chat" in block
    commands = block.replace("/tmp/", f"{tmp_path}/").replace("rheostat export", f"{sys.executable} -m rheostat export")
    found = subprocess.run(["sh", "-ec", commands], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    shown = block.strip().rpartition("# ")[2]
    assert found.strip().endswith(shown)


def test_the_flags_of_the_page_on_embedding_are_those_of_the_build() -> None:
    for text in ((ROOT / "docs" / "embedding.md").read_text(encoding="utf-8"), (FOLDER / "example.c").read_text()):
        assert f"cc {' '.join(FLAGS)} example.c {' '.join(path.name for path in map(Path, sources()))} -o" in text


def test_the_page_on_embedding_names_every_source_file() -> None:
    page = (ROOT / "docs" / "embedding.md").read_text(encoding="utf-8")
    names = [Path(path).name for path in sources()]
    assert f"add_library(rheostat SHARED {' '.join(names)} bridge.cpp)" in page
    assert all(f"| `{name}` |" in page for name in names)


JNI = """
#pragma once
#include <cstdint>
#include <string>
#define JNIEXPORT
#define JNICALL
using jlong = int64_t; using jint = int32_t; using jsize = jint; using jfloat = float; using jbyte = signed char;
using jobject = std::string *; using jbyteArray = std::string *;
struct JNIEnv {
    void *GetDirectBufferAddress(jobject buffer) { return &(*buffer)[0]; }
    jlong GetDirectBufferCapacity(jobject buffer) { return static_cast<jlong>(buffer->size()); }
    jsize GetArrayLength(jbyteArray bytes) { return static_cast<jsize>(bytes->size()); }
    jbyteArray NewByteArray(jsize size) { return new std::string(static_cast<size_t>(size), '.'); }
    void GetByteArrayRegion(jbyteArray bytes, jsize from, jsize size, jbyte *to) {
        bytes->copy(reinterpret_cast<char *>(to), static_cast<size_t>(size), static_cast<size_t>(from));
    }
    void SetByteArrayRegion(jbyteArray bytes, jsize from, jsize size, const jbyte *with) {
        bytes->replace(static_cast<size_t>(from), static_cast<size_t>(size), reinterpret_cast<const char *>(with),
                       static_cast<size_t>(size));
    }
};
"""
# Two texts, one after the other: FOLDER PREFIX WORD… -- PREFIX WORD…
BRIDGE_USER = """
#include "bridge.cpp"
#include <fstream>
#include <iostream>
#include <iterator>
static std::string contents(const std::string &path) {
    std::ifstream stream(path, std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
}
int main(int count, char **arguments) {
    JNIEnv env;
    std::string folder(arguments[1]), file = contents(folder + "/model.safetensors");
    std::string suggestible = contents(folder + "/suggestible.bin");
    std::string none("no model"), prefix;
    if (Java_com_example_Keyboard_open(&env, nullptr, &none, &suggestible, 1)) return 1;
    if (Java_com_example_Keyboard_open(&env, nullptr, &file, &none, 1)) return 1;
    jlong handle = Java_com_example_Keyboard_open(&env, nullptr, &file, &suggestible, 1);
    for (int place = 2; place < count; place++) {
        Java_com_example_Keyboard_start(&env, nullptr, handle);
        for (prefix = arguments[place++]; place < count && std::string(arguments[place]) != "--"; place++) {
            std::string word(arguments[place]);
            Java_com_example_Keyboard_read(&env, nullptr, handle, &word);
        }
        std::string *lines = Java_com_example_Keyboard_complete(&env, nullptr, handle, &prefix);
        std::cout << *lines;
        delete lines;
    }
    Java_com_example_Keyboard_free(&env, nullptr, handle);
    return 0;
}
"""


def test_the_bridge_for_android_completes_words(exported: Path, tmp_path: Path) -> None:
    """With a stand-in for jni.h: it shows that the bridge does what Kotlin expects, not that it runs on a phone."""
    compiler = needed("g++", "g++")
    (block,) = embedding_blocks("cpp")
    for name, text in (("jni.h", JNI), ("bridge.cpp", block), ("main.cpp", BRIDGE_USER)):
        (tmp_path / name).write_text(text)
    objects = [
        run_compiler(find_compiler(), [*FLAGS, "-O1", "-c", path], tmp_path / f"{Path(path).stem}.o")
        for path in sources()
    ]
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{FOLDER}", f"-I{tmp_path}", *map(str, objects)]
    program = run_compiler([compiler], [*flags, str(tmp_path / "main.cpp")], tmp_path / "main")
    texts = {"how are y": ["<eos>", "how", "are"], "zorblax is ": ["<eos>", "zorblax", "is"], "i belei": ["<eos>", "i"]}
    with rheostat.load() as predictor:
        core, wanted, given = CoreModel(model_path().read_bytes()), list[str](), list[str]()
        for text, words in texts.items():
            prefix = split_typed(text, "words").prefix
            wanted += suggested(core, text, predictor.completion.allowed_mask(prefix))
            given += ["--", prefix, *words]
    found = run(program, exported, *given[1:]).splitlines()
    assert found == wanted and found[0] == "you" and len(found) == 6, "of misspellings, none"


def test_the_sketch_for_android_declares_the_functions_of_the_bridge() -> None:
    (bridge,) = embedding_blocks("cpp")
    native = r"JNIEXPORT (\w+) JNICALL Java_com_example_Keyboard_(\w+)\(JNIEnv \*\w*, jobject ?\w*, (.*?)\) \{"
    kinds = {"ByteBuffer": "jobject", "ByteArray": "jbyteArray", "Long": "jlong", "Float": "jfloat", "": "void"}
    offered = {
        name: (result, [one.split()[0] for one in given.split(", ")])
        for result, name, given in re.findall(native, re.sub(r",\n +", ", ", bridge))
    }
    sketch = (ROOT / "examples" / "Keyboard.kt").read_text(encoding="utf-8")
    declared = {
        name: (kinds[result], [kinds[one.split(": ")[1]] for one in given.split(", ")])
        for name, given, result in re.findall(r"external fun (\w+)\((.*?)\)(?:: )?(\w*)\n", sketch)
    }
    assert declared == offered and len(offered) == 5
    body = sketch.split("external fun free(handle: Long)")[1]
    assert all(f"{name}(" in body for name in ("start", "read", "complete", "free")), "and it calls them"


def test_the_header_is_cpp_too(tmp_path: Path) -> None:
    compiler = needed("g++", "g++")
    (tmp_path / "app.cpp").write_text('#include "rheostat.h"\nint main() { return rheo_kernel_name(0) == nullptr; }\n')
    objects = [
        run_compiler(find_compiler(), [*FLAGS, "-c", path], tmp_path / f"{Path(path).stem}.o") for path in sources()
    ]
    flags = ["-std=c++17", *WARNINGS, f"-I{FOLDER}", str(tmp_path / "app.cpp"), *map(str, objects)]
    assert run(run_compiler([compiler], flags, tmp_path / "app")) == ""
