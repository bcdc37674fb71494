"""The opener in C under libFuzzer (tests/core/fuzz_open.c): how it is compiled and run, and the files that are kept."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

from fuzz_targets import CORPUS, ROOT
from models import GOLDEN
from rheostat.core.build import FLAGS, FOLDER, CompilerError, run_compiler, sources

NAME = "core"
KEPT = CORPUS / NAME
PROGRAM = ROOT / "tests" / "core" / "fuzz_open.c"
# Ordered files small enough to be opened often: planes of 8 and of 4 bits.
SEEDS = tuple(GOLDEN / f"golden-{name}.safetensors" for name in ("ordered", "4-bits"))
SANITIZERS = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
FUZZER = "-fsanitize=fuzzer"
MOST_BYTES = 16 << 10  # of a file
MOST_MEMORY_MB = 2048
LONGEST_S = 20


def fuzz(folder: Path, seconds: float, seed: int) -> dict[str, Any]:
    """Look for files that break the opener, for some seconds. What breaks it is kept, where `make test` finds it."""
    result: dict[str, Any] = {"target": NAME, "inputs": None, "accepted": None, "faults": 0, "kinds": []}
    try:
        arguments = [*FLAGS, *SANITIZERS, FUZZER, f"-I{FOLDER}", str(PROGRAM), *sources()]
        program = run_compiler(["clang"], arguments, folder / "fuzz_open")
    except (CompilerError, OSError) as error:
        why = f"{error}".splitlines()[0][:100]
        return {**result, "skipped": f"needs clang with libFuzzer ({why}): apt install clang libclang-rt-dev"}
    found = folder / "found"
    found.mkdir()
    KEPT.mkdir(parents=True, exist_ok=True)
    before = set(KEPT.iterdir())
    limits = [f"-max_len={MOST_BYTES}", f"-rss_limit_mb={MOST_MEMORY_MB}", f"-timeout={LONGEST_S}", f"-seed={seed}"]
    limits += [f"-max_total_time={max(1, round(seconds))}", f"-artifact_prefix={KEPT}/", "-print_final_stats=1"]
    for number, path in enumerate(SEEDS):
        (found / f"seed-{number}").write_bytes(path.read_bytes())
    command = [str(program), *limits, str(found), str(KEPT)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    inputs = re.search(r"number_of_executed_units:\s*(\d+)", done.stderr)
    result["inputs"] = int(inputs[1]) if inputs else None
    result["guided_by_coverage"] = True
    if done.returncode:
        new = sorted(str(path.relative_to(ROOT)) for path in set(KEPT.iterdir()) - before)
        what = re.search(r"(SUMMARY: .*)|(.*runtime error.*)", done.stderr)
        message = what[0][:200] if what else done.stderr[-200:]
        result |= {"faults": 1, "kinds": [{"type": "crash", "message": message, "input": new[0] if new else ""}]}
    return result
