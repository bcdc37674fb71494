"""Origins: known fields survive JSON, unknown ones are "not recorded"."""

from __future__ import annotations

import json
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

from models import TINY, make_ranking
from rheostat.errors import ModelFileError, RheostatError
from rheostat.measure.results.shared import origin_json
from rheostat.model.origin import LONGEST_CHAIN, NOT_RECORDED, UNKNOWN_ORIGIN, Origin
from rheostat.model.widths import select
from rheostat.provenance import command_line, new_origin

TRAINED = Origin(
    command="rheostat train ptb",
    recipe={"train": {"epochs": 2, "rates": [0.1, 30]}},
    steps=1400,
    tokens_read=3_802_440,
    seed=0,
    corpus="ptb",
    corpus_digest="0011",
    made_from="2233",
    version="0.1",
    date="2026-11-16T05:54:38+00:00",
    before=Origin(command="rheostat train chat", steps=7),
)


def test_an_origin_survives_json() -> None:
    stored = json.loads(json.dumps(TRAINED.as_json(), allow_nan=False))
    assert Origin.from_json(stored) == TRAINED
    assert set(stored) == {item.name for item in fields(Origin)}


def test_only_what_is_recorded_is_stored() -> None:
    assert UNKNOWN_ORIGIN.as_json() == {} and not UNKNOWN_ORIGIN.is_recorded
    assert Origin(seed=0).as_json() == {"seed": 0} and Origin(seed=0).is_recorded
    assert Origin.from_json({}) == Origin.from_json(None) == Origin.from_json({"steps": None}) == UNKNOWN_ORIGIN


def test_keys_of_later_versions_are_ignored() -> None:
    assert Origin.from_json({"steps": 3, "carbon": 1.5}) == Origin(steps=3)


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ("yesterday", "origin is 'yesterday'; expected an object"),
        ({"steps": "many"}, "origin.steps is 'many'; expected a whole number"),
        ({"steps": True}, "origin.steps is True; expected a whole number"),
        ({"command": 3}, "origin.command is 3; expected a text"),
        ({"recipe": [1]}, r"origin.recipe is \[1\]; expected a table"),
        ({"before": {"seed": "x"}}, "origin.before.seed is 'x'; expected a whole number"),
    ],
)
def test_an_invalid_origin_is_an_error(stored: object, message: str) -> None:
    with pytest.raises(RheostatError, match=message):
        Origin.from_json(stored)
    with pytest.raises(ModelFileError, match="origin of point a"):
        Origin.from_json(stored, "origin of point a", ModelFileError)


def test_unknown_fields_are_shown_as_not_recorded() -> None:
    assert set(UNKNOWN_ORIGIN.shown().values()) == {NOT_RECORDED}
    shown = TRAINED.shown()
    assert (shown["steps"], shown["tokens read"], shown["seed"]) == ("1,400", "3,802,440", "0")
    assert NOT_RECORDED not in shown.values()


def test_fields_known_to_be_absent_are_shown_as_none() -> None:
    origin = Origin(made_from="", tokens_read=0, corpus="")
    assert origin.as_json() == {"made_from": "", "tokens_read": 0, "corpus": ""}
    shown = origin.shown()
    assert (shown["made from weights"], shown["tokens read"], shown["corpus"]) == ("none", "0", "none")


def test_an_origin_links_to_the_origin_before_it() -> None:
    recovered = Origin(command="rheostat recover").after(TRAINED)
    assert recovered.before == TRAINED
    assert recovered.after(UNKNOWN_ORIGIN).before is None


def test_a_chain_of_origins_stays_short() -> None:
    origin = Origin(steps=0)
    for step in range(1, 100):
        origin = Origin(steps=step).after(origin)
    chain = [origin]
    while chain[-1].before is not None:
        chain.append(chain[-1].before)
    assert [link.steps for link in chain] == list(range(99, 99 - LONGEST_CHAIN, -1))


def test_a_point_cut_by_a_ranking_has_its_origin() -> None:
    ranking = replace(make_ranking(TINY["qrnn"]), origin=TRAINED)
    assert select(ranking, TINY["qrnn"], 0.6).origin is TRAINED


def test_a_new_origin_has_what_the_process_knows_and_no_more() -> None:
    origin = new_origin()
    assert origin.command and origin.version and origin.date
    assert set(origin.as_json()) == {"command", "version", "date"}


def test_a_recorded_command_says_nothing_about_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "work" / "main"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    near, far = folder.parent / "data", Path("/home/somebody/corpora/ptb")
    given = ["sweep", str(folder / "model"), "--data", str(near), "--aac", str(far), "--list", "/usr/share/dict/words"]
    monkeypatch.setattr(sys, "argv", ["/opt/bin/rheostat", *given])
    assert command_line() == "rheostat sweep model --data ../data --aac .../ptb --list /usr/share/dict/words"


def test_an_origin_in_a_results_file_says_nothing_about_the_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Model files from before paths were shortened have those of their machine."""
    monkeypatch.chdir(tmp_path)
    first = Origin(command="rheostat train ptb --data /home/someone/far/away/ptb", version="1", date="today")
    origin = replace(first, command=f"rheostat prune {tmp_path}/model -o 'my model'", before=first)
    found = origin_json(origin)
    assert isinstance(found, dict)
    assert found["command"] == "rheostat prune model -o 'my model'"
    assert found["before"]["command"] == "rheostat train ptb --data .../ptb"
    assert origin_json(replace(first, command="rheostat 'open"))["command"] == "rheostat 'open"  # type: ignore[index]
