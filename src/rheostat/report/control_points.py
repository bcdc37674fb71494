"""Which measured points are controls: made only to be compared with one other point.

They belong in "What makes the difference" and nowhere else: in a claim, a table or a picture they would stand for the
method that they vary. Recognised by the names that reproduce.toml gives files and points; `controls` compares them.
"""

from __future__ import annotations

import re

AT = "-at-"  # in the name of a point with the widths of another one: random-at-l0-0.8
# Whole files: rankings that are reconstructed elsewhere, cut alone; other seeds, other ways to train an update, and the
# same training budget spent in other ways.
CONTROL_FILE = re.compile(
    r".*-(controls|cut-alone|paper-update|continued|continued-taught|one-width|graded-reconstructed|seed-\d+)"
)
CONTROL_POINT = re.compile(r".*-(seed-\d+|bias|gate|untaught|paper)")
SEED = re.compile(r"-seed-\d+$")


def is_control_file(stem: str) -> bool:
    """Whether all points of a results file are controls. stem: its name without the ending."""
    return CONTROL_FILE.fullmatch(stem) is not None


def is_control_point(name: str) -> bool:
    """Whether a point is a control whatever file it is in."""
    return CONTROL_POINT.fullmatch(name) is not None


def has_borrowed_widths(name: str) -> bool:
    """Whether a point has the widths of another method's point."""
    return AT in name


def is_of_another_seed(stem: str, name: str) -> bool:
    """Whether a point was made again with another seed: by its own name, or by that of its file."""
    return bool(SEED.search(stem) or SEED.search(name))


def without_seed(name: str) -> str:
    """The name that all seeds of a point have in common."""
    return SEED.sub("", name)
