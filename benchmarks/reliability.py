"""Tries what can go wrong, and writes docs/reliability.md: what was tried, how often, what failed, with the commands.

    python benchmarks/reliability.py                                    every part, in full (hours)
    python benchmarks/reliability.py faults kills --kills 40            only these parts; the others stay as they are
    python benchmarks/reliability.py --only-page                        the page, from the results

Results are kept in results/reliability.json, each part with its own date and machine, and only what was run is stated.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import faults
from kills import kill_all
from rheostat.measure.results import BenchmarkResults, Provenance, read_results, write_results

ROOT = Path(__file__).parents[1]
Part = dict[str, Any]
KEY_S = 0.3  # between two keys of a typist
PRIVACY = ("tests/light/test_privacy.py", "tests/heavy/test_training_privacy.py")


def try_core(asked: argparse.Namespace) -> Part:
    """Mutated model files through the C opener, under sanitizers, and used if they open."""
    command = [sys.executable, "-m", "pytest", "-q", "-rP", "tests/light/test_core_builds.py", "-k", "mutated"]
    done = _run(command, RHEOSTAT_MUTATIONS=str(asked.mutations))
    found = re.search(r"(\d+) refused\D+(\d+)", done)
    refused, opened = map(int, found.groups()) if found else (0, 0)
    return {
        "what": "mutated model files opened by the core in C, under address and undefined-behaviour sanitizers",
        "tried": asked.mutations,
        "failed": 0 if " passed" in done and "failed" not in done else 1,
        "detail": f"{refused:,} refused, {opened:,} opened and used at every position",
        "command": f"make fuzz COUNT={asked.mutations} MINUTES=0",
    }


def try_inputs(asked: argparse.Namespace) -> Part:
    """Damaged inputs of every kind through Python."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "fuzz.json"
        command = [sys.executable, "scripts/fuzz.py", "--minutes", str(asked.minutes), "-o", str(out)]
        _run(command, check=False)
        found = json.loads(out.read_text())["targets"]
    inputs = {one["target"]: one["inputs"] or 0 for one in found}
    faults_found = sum(one["faults"] for one in found)
    return {
        "what": f"damaged inputs: {', '.join(inputs)} (core: the opener in C, under libFuzzer and sanitizers)",
        "tried": sum(inputs.values()),
        "failed": faults_found,
        "by_target": inputs,
        "detail": ", ".join(f"{name} {count:,}" for name, count in inputs.items()),
        "command": f"python scripts/fuzz.py --minutes {asked.minutes:g}",
    }


def try_model_files(asked: argparse.Namespace) -> Part:
    """A counted number of damaged model files through Python."""
    from fuzz_targets import TARGETS
    from mutations import Random

    problems: list[str] = []
    accepted = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(asked.mutations):
            target = TARGETS["container" if number % 2 else "description"]
            content = target.damaged(Random(f"reliability {number}"), _corpus(target))
            try:
                accepted += target.accepts(content, Path(folder))
            except Exception as error:  # anything but a RheostatError is what is looked for
                problems.append(f"file {number}: {type(error).__name__}: {error!s:.100}")
    return {
        "what": "mutated model files read whole, cut and ranked in Python",
        "tried": asked.mutations,
        "failed": len(problems),
        "problems": problems[:20],
        "detail": f"{asked.mutations - accepted - len(problems):,} refused in one line, {accepted:,} read",
        "command": f"python benchmarks/reliability.py python --mutations {asked.mutations}",
    }


_corpora: dict[str, list[bytes]] = {}


def _corpus(target: Any) -> list[bytes]:
    if target.name not in _corpora:
        _corpora[target.name] = target.corpus()
    return _corpora[target.name]


def try_faults(asked: argparse.Namespace) -> Part:
    """Every call of every writer, failing once in each way."""
    with tempfile.TemporaryDirectory() as folder:
        how = {"whole": asked.whole, "requests": asked.requests, "jobs": asked.jobs, "kept": asked.kept}
        found = faults.run(Path(folder), list(reversed(faults.WRITERS)), **how)[::-1]  # those that take long first
    tried = sum(sum(one["tried"].values()) for one in found)
    calls: dict[str, int] = {}
    for one in found:
        calls[one["writer"]] = calls.get(one["writer"], 0) + one["calls"]
    problems = [problem for one in found for problem in one["problems"]]
    kinds = ", ".join(faults.KINDS.values())
    memory = sum(one["tried"].get(faults.NO_MEMORY, 0) for one in found)
    partly = [one for one in found if one["tried"].get(faults.NO_MEMORY, 0) < one["requests"]]
    fewer = ", of {writer} with {start} {tried[no memory]:,} of {requests:,}"
    return {
        "what": f"faults of writers, one after another: every call of {', '.join(calls)} ({kinds}), and no memory",
        "tried": tried,
        "failed": len(problems),
        "problems": problems[:20],
        "detail": f"{sum(calls.values())} calls, replacing a file and starting with none; {memory:,} of "
        f"{sum(one['requests'] for one in found):,} requests for memory, once "
        f"modules are loaded{''.join(fewer.format(**one) for one in partly)}",
        "command": f"python benchmarks/reliability.py faults --requests {asked.requests}"
        f"{' --whole' if asked.whole else ''}",
    }


def try_kills(asked: argparse.Namespace) -> Part:
    """Commands that write, killed at random moments."""
    found = kill_all(asked.kills, 1)
    return {
        "what": f"kills of commands that write: {', '.join(found['by_command'])}",
        "tried": found["killed"],
        "failed": len(found["problems"]),
        "problems": found["problems"][:20],
        "detail": f"{found['started']} started; the others had ended before. Killed at random moments and just after "
        "files changed",
        "command": f"python benchmarks/kills.py --count {asked.kills}",
    }


def _load(what: str, *options: str) -> Part:
    with tempfile.TemporaryDirectory() as folder:
        out, model = Path(folder) / "load.json", "src/rheostat/bundled/chat.safetensors"
        _run([sys.executable, "benchmarks/keyboard_load.py", "--model", model, *options, "-o", str(out)])
        results = read_results(out)
    assert isinstance(results, BenchmarkResults)
    figures = results.figures
    sizes = figures["memory_mb"]
    return {
        "what": what,
        "tried": figures["answers"],
        "failed": figures["lost"] + figures["wrong"],
        "figures": {key: value for key, value in figures.items() if key != "targets"},
        "detail": f"{figures['lost']} lost, {figures['wrong']} of {figures['checked']:,} compared wrong; 99 % within "
        f"{figures['answer_s']['p99']:.2f} s; memory {sizes['start']:.0f} MB at first, "
        f"{sizes['second_quarter']:.0f} MB in the second quarter of the time, "
        f"{sizes['last_quarter']:.0f} MB in the last",
        "command": f"python benchmarks/keyboard_load.py --model {model} {' '.join(options)}",
    }


def try_clients(asked: argparse.Namespace) -> Part:
    """Many clients over many positions."""
    what = f"answers to 500 clients over 18 positions of the knob, for {asked.seconds:g} s"
    return _load(what, "--clients", "500", "--positions", "18", "--for", f"{asked.seconds:g}")


def try_typists(asked: argparse.Namespace) -> Part:
    """200 typists, for an hour in the full run."""
    what = f"answers to 200 typists, each with a key every {KEY_S:g} s on average, for {asked.typists_seconds:g} s"
    options = ("--clients", "200", "--positions", "3", "--pause", f"{KEY_S:g}", "--for", f"{asked.typists_seconds:g}")
    return _load(what, *options)


def try_egress(asked: argparse.Namespace) -> Part:
    """What typing, serving and training send and write."""
    present = [path for path in PRIVACY if (ROOT / path).exists()]
    done = _run([sys.executable, "-m", "pytest", "-q", *present], check=False)
    passed, failed = (sum(map(int, re.findall(rf"(\d+) {word}", done))) for word in ("passed", r"(?:failed|error)"))
    return {
        "what": "typing, commands, serving and training, watched: no socket but the listener, no file but those named",
        "tried": passed + failed,
        "failed": failed,
        "detail": "tests",
        "command": f"python -m pytest {' '.join(present)}",
    }


PARTS: dict[str, Callable[[argparse.Namespace], Part]] = {
    "core": try_core,
    "python": try_model_files,
    "inputs": try_inputs,
    "faults": try_faults,
    "kills": try_kills,
    "clients": try_clients,
    "typists": try_typists,
    "egress": try_egress,
}


def _run(command: list[str], check: bool = True, **settings: str) -> str:
    import os

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **settings}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    if check and done.returncode:
        raise SystemExit(f"{' '.join(command)} failed: {(done.stdout + done.stderr)[-500:]}")
    return done.stdout


def page(results: BenchmarkResults) -> str:
    lines = [
        "# Reliability",
        "",
        "Generated by `benchmarks/reliability.py` from `results/reliability.json`. Each row is one run: what was",
        "tried, how often, and how often it went wrong. The page lists only what was actually run. The command in the",
        "second table repeats a run, and larger numbers in it try more cases. These count as wrong: an input that is",
        "neither accepted nor refused with a one-line message; a file that is neither the old one nor the new one,",
        "byte for byte except for dates; an answer that is lost, or that differs from the answer a single client gets.",
        "",
        "| what was tried | times | failed | |",
        "|---|---:|---:|---|",
    ]
    for _, part in _in_order(results.figures):
        lines.append(f"| {part['what']} | {part['tried']:,} | {part['failed']:,} | {part['detail']} |")
    lines += ["", "| part | command | date | commit | processor |", "|---|---|---|---|---|"]
    for name, part in _in_order(results.figures):
        made = f"{part['date'][:10]} | {part['commit'] or 'unknown'} | {part['processor']}"
        lines.append(f"| {name} | `{part['command']}` | {made} |")
    problems = [problem for _, part in _in_order(results.figures) for problem in part.get("problems", [])]
    if problems:
        lines += ["", "## What failed", "", *(f"* {problem}" for problem in problems)]
    machine = results.provenance.machine
    lines += ["", f"All on machines with {machine.cores} cores, {machine.system}."]
    return "\n".join(lines) + "\n"


def _in_order(figures: Mapping[str, Any]) -> list[tuple[str, Part]]:
    return [(name, figures[name]) for name in PARTS if name in figures]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("parts", nargs="*", help=f"default: all of {', '.join(PARTS)}")
    parser.add_argument("--mutations", type=int, default=100_000, help="model files for core and python, each")
    parser.add_argument("--minutes", type=float, default=60.0, help="of damaged inputs")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0, help="of 500 clients")
    parser.add_argument("--typists-seconds", type=float, default=3600.0, help="of 200 typists")
    parser.add_argument("--whole", action="store_true", help="faults: whole pages and pictures too (minutes)")
    parser.add_argument(
        "--requests", type=int, default=faults.REQUESTS, help="faults: for memory, at most, per writer; 0 = all"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="faults: writers tried side by side")
    parser.add_argument("--kept", type=Path, help="faults: folder of finished entries; a stopped run goes on from it")
    parser.add_argument("--only-page", action="store_true", help="write the page from the results there are")
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "results" / "reliability.json")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "reliability.md")
    asked = parser.parse_args()
    if unknown := sorted(set(asked.parts) - set(PARTS)):
        sys.exit(f"no part {unknown[0]}; expected some of {', '.join(PARTS)}")
    for name in [] if asked.only_page else asked.parts or list(PARTS):
        print(f"reliability: {name}", file=sys.stderr)
        made = PARTS[name](asked)
        before = read_results(asked.out) if asked.out.exists() else None
        figures = dict(before.figures) if isinstance(before, BenchmarkResults) else {}
        now = Provenance.of_this_process()
        figures[name] = {**made, "date": now.date, "commit": now.commit, "processor": now.machine.processor}
        write_results(asked.out, BenchmarkResults(now, "reliability", figures))
    results = read_results(asked.out)
    assert isinstance(results, BenchmarkResults)
    asked.page.write_text(page(results), encoding="utf-8")


if __name__ == "__main__":
    main()
