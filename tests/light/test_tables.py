"""Plain tables to frozen dataclasses and back: values round-trip, and an error names the place of a wrong value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from rheostat.errors import RheostatError
from rheostat.tables import from_json, not_stored, to_json


@dataclass(frozen=True)
class Circle:
    kind: Literal["circle"]
    radius: float


@dataclass(frozen=True)
class Square:
    kind: Literal["square"]
    side: int


@dataclass(frozen=True)
class Drawing:
    name: str
    shapes: tuple[Circle | Square, ...]
    place: tuple[float, float] | None
    made: Mapping[str, Any] | Literal["unknown"] = "unknown"
    notes: Mapping[str, int] = field(default_factory=dict)
    path: Path = not_stored(Path())  # noqa: RUF009


DRAWING = Drawing("d", (Circle("circle", 1.5), Square("square", 2)), (0.0, 1.0), {"by": ["hand"]}, {"a": 1}, Path("x"))
STORED = {
    "name": "d",
    "shapes": [{"kind": "circle", "radius": 1.5}, {"kind": "square", "side": 2}],
    "place": [0.0, 1.0],
    "made": {"by": ["hand"]},
    "notes": {"a": 1},
}


def test_stored_fields_round_trip_and_others_are_left_out() -> None:
    assert to_json(DRAWING) == STORED
    found = from_json(Drawing, STORED, "drawing")
    assert found == DRAWING and found.path == Path()


def test_null_is_none_or_the_default() -> None:
    found = from_json(Drawing, {"name": "d", "shapes": [], "place": None, "made": None}, "drawing")
    assert found == Drawing("d", (), None)
    with pytest.raises(RheostatError, match="drawing lacks 'place'"):
        from_json(Drawing, {"name": "d", "shapes": []}, "drawing")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"shapes": [{"kind": "square", "side": 1.5}]}, r"shapes\[0\]\.side is 1\.5; expected a whole number"),
        ({"shapes": [{"kind": "circle", "side": 2}]}, r"shapes\[0\] has an unknown key 'side'"),
        ({"shapes": [{"kind": "circle", "radius": math.inf}]}, r"radius is inf; expected a finite number"),
        ({"place": [1.0]}, r"place is \[1\.0\]; expected a list of 2"),
        ({"made": "guessed"}, r"made is 'guessed'.*expected one of 'unknown'"),
        ({"path": "x"}, "unknown key 'path'"),
    ],
)
def test_a_wrong_value_names_its_place(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(RheostatError, match=rf"drawing.*{message}"):
        from_json(Drawing, STORED | changed, "drawing")
