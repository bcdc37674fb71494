"""Compiling the core: the one place that knows its files, its compiler and its flags.

Used by the build of the package, by tests and by `make`. Imports nothing of the package, so that the build can run it
before the package is installed. Modules are imported where they are used: loading the library needs none of them. The
compiler is `$CC`, else the system's, else `zig cc` if the package ziglang is installed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
SOURCES = ("model.c", "network.c", "mixing.c", "kernels.c", "typing.c")
HEADERS = ("rheostat.h", "core.h", "kernels.h")
POOL = ("pool.c", "pool.h")  # threads: in the library, and in apps that want them; not in browsers
# Contraction would change bits from one processor to the next; the note about vectors concerns calls that are inlined.
FLAGS = ("-std=c11", "-O3", "-ffp-contract=off", "-Wno-psabi")
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Werror")
VISIBLE = '-DRHEO_API=__attribute__((visibility("default")))'
SHARED = ("-shared", "-fPIC", "-fvisibility=hidden", VISIBLE)
# Without what only debuggers read. Apple's linker calls -s obsolete.
SMALL = ("-fno-asynchronous-unwind-tables", *(() if sys.platform == "darwin" else ("-s",)))
ZIG = "ziglang==0.17.0"  # a C compiler from PyPI, for machines without one
# Wheels that scripts/wheels.py builds: the name of the platform, and zig's target. A wheel named manylinux_2_17 runs
# with glibc 2.17 and later.
WHEELS = {
    "manylinux_2_17_x86_64": "x86_64-linux-gnu.2.17",
    "manylinux_2_17_aarch64": "aarch64-linux-gnu.2.17",
}
# Further targets for which a test compiles the library, and its name there. It was not run on them.
COMPILED_ONLY = {"x86_64-macos": "darwin", "aarch64-macos": "darwin", "x86_64-windows-gnu": "win32"}
# The module for browsers. It imports nothing: the wasi target only supplies string.h and the mem… functions.
WEB_MODULE = FOLDER / "rheostat.wasm"
WEB_FLAGS = ("-target", "wasm32-wasi", "-mexec-model=reactor", "-msimd128", "-fvisibility=hidden")
WEB_LINKING = ("-Wl,--export-dynamic", "-Wl,--export=__heap_base", "-Wl,--strip-all")
REMEDY = "install a C compiler (Debian: apt install gcc; macOS: xcode-select --install), or: pip install ziglang"


class CompilerError(Exception):
    """There is no compiler, or it failed."""


def library_name(platform: str = sys.platform) -> str:
    """The file name of the shared library."""
    return {"win32": "rheostat.dll", "darwin": "librheostat.dylib"}.get(platform, "librheostat.so")


def find_compiler() -> list[str]:
    """The command of a C compiler."""
    import importlib.util
    import shlex
    import shutil

    if given := os.environ.get("CC"):
        return shlex.split(given)
    for name in ("cc", "gcc", "clang"):
        if path := shutil.which(name):
            return [path]
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc"]
    raise CompilerError(f"no C compiler was found, and the core has to be compiled; {REMEDY}")


def compile_library(out: Path, compiler: list[str] | None = None, *flags: str) -> Path:
    """Compile the shared library to `out`, threads included."""
    for_windows = "windows" in "".join(flags) if "-target" in flags else sys.platform == "win32"
    threads = () if for_windows else ("-pthread",)
    files = [*sources(), str(FOLDER / POOL[0])]
    return run_compiler(compiler or find_compiler(), [*FLAGS, *SHARED, *threads, *flags, *files], out)


def compile_for(target: str, out: Path) -> Path:
    """Compile the shared library for another platform, with the pinned zig: the same bytes on every machine."""
    return compile_library(out, pinned_zig("the library for other platforms"), *SMALL, "-target", target)


def compile_web_module(out: Path = WEB_MODULE) -> Path:
    """Compile the module for browsers, with the pinned zig: any other compiler gives other bytes."""
    arguments = [*FLAGS, *WEB_FLAGS, *WEB_LINKING, VISIBLE, *sources()]
    return run_compiler(pinned_zig("the module for browsers"), arguments, out)


def pinned_zig(what: str) -> list[str]:
    """The command of zig, in the one version that compiles `what`."""
    import importlib.metadata

    pinned = ZIG.partition("==")[2]
    try:
        found = importlib.metadata.version("ziglang")
    except importlib.metadata.PackageNotFoundError:
        found = "none"
    if found != pinned:
        raise CompilerError(f"ziglang is {found}; {what} is compiled by {pinned}: pip install {ZIG}")
    return [sys.executable, "-m", "ziglang", "cc"]


def write_web_module() -> Path:
    """Compile the module for browsers in its place, with the digest of what it was compiled from beside it."""
    compile_web_module().chmod(0o644)  # linkers mark it as a program
    web_stamp().write_text(web_digest() + "\n")
    return WEB_MODULE


def web_stamp() -> Path:
    """The file that says what the module for browsers was compiled from."""
    return WEB_MODULE.with_name(f"{WEB_MODULE.name}.digest")


def web_digest() -> str:
    """A digest that shows, without a compiler, whether the module for browsers was compiled from these files."""
    return source_digest((*FLAGS, *WEB_FLAGS, *WEB_LINKING, ZIG), (*SOURCES, *HEADERS))


def sources() -> list[str]:
    return [str(FOLDER / name) for name in SOURCES]


def run_compiler(compiler: list[str], arguments: list[str], out: Path) -> Path:
    """Run a compiler, and move its result to `out` atomically."""
    import subprocess

    partial = out.with_name(f".{out.name}.partial")
    command = [*compiler, *arguments, "-o", str(partial)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise CompilerError(f"the C compiler failed: {' '.join(command)}\n{done.stderr.strip()}")
    partial.replace(out)
    return out


def source_digest(flags: tuple[str, ...] = FLAGS, names: tuple[str, ...] = (*SOURCES, *HEADERS, *POOL)) -> str:
    """A digest that shows whether a library was compiled from these files with these flags."""
    import hashlib

    digest = hashlib.blake2b(repr(flags).encode(), digest_size=8)
    for name in names:
        digest.update((FOLDER / name).read_bytes())
    return digest.hexdigest()


def ensure_library(folder: Path = FOLDER) -> Path:
    """The shared library in this folder, compiled if it is missing or older than its sources."""
    library, stamp = folder / library_name(), folder / f"{library_name()}.digest"
    if not library.exists() or not stamp.exists() or stamp.read_text() != source_digest():
        compile_library(library, None, *SMALL)
        stamp.write_text(source_digest())
    return library


def _main(arguments: list[str]) -> Path:
    """Without arguments: the library of this package. --wasm: the module for browsers. OUT FLAGS…: another library."""
    if arguments == ["--wasm"]:
        return write_web_module()
    return compile_library(Path(arguments[0]), None, *arguments[1:]) if arguments else ensure_library()


if __name__ == "__main__":
    try:
        print(_main(sys.argv[1:]))
    except CompilerError as error:
        sys.exit(f"rheostat: {error}")
