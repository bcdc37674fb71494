"""`rheostat memory`: see, export and forget what was learned from a user's writing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rheostat.cli.console import JSON_HELP, print_json, print_line
from rheostat.errors import RheostatError


def memory(
    file: Annotated[Path, typer.Argument(help="A memory file, as given to suggest and complete by --memory.")],
    forget: Annotated[
        list[str] | None, typer.Option(help="Forget a word and every phrase that contains it. May be repeated.")
    ] = None,
    last_hour: Annotated[bool, typer.Option("--last-hour", help="Forget what was learned in the last hour.")] = False,
    everything: Annotated[bool, typer.Option("--everything", help="Forget everything.")] = False,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Export the counts to this file.")] = None,
    limit: Annotated[int, typer.Option("-n", min=1, help="Number of phrases to list.")] = 20,
    json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """See, export and forget what was learned.

    A memory file counts the words and phrases that one user writes. Without options, the most frequent ones are listed.

    Example: rheostat memory my-memory.json --forget rheostat
    """
    from rheostat.words.memory import Memory, show_phrase

    if not file.exists():
        raise RheostatError(f"there is no memory file {file}; expected one: check the path")
    learned = Memory(file)
    forgotten = sum(learned.forget(word) for word in forget or ())
    if last_hour:
        forgotten += learned.forget_last_hour()
    if everything:
        forgotten += len(learned)
        learned.clear()
    if out is not None:
        learned.export(out)
    phrases = learned.phrases()
    asked = bool(forget) or last_hour or everything
    if json:
        facts = {"file": str(file), "phrases": len(phrases), "bytes": file.stat().st_size}
        listed = [{"phrase": phrase, "count": round(count, 3)} for phrase, count in phrases[:limit]]
        print_json(facts | ({"forgotten": forgotten} if asked else {}) | {"most_frequent": listed})
        return
    if asked:
        print_line(f"{forgotten} phrases forgotten, {len(phrases)} left")
    if out is not None:
        print_line(out)
    if not asked and out is None:
        for phrase, count in phrases[:limit]:
            print_line(f"{show_phrase(phrase)}\t{count:.1f}")
