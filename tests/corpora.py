"""Where the tests find real corpora. None is in the repository; without them, their tests are skipped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def data_folder(name: str) -> Path:
    """A corpus in `$RHEOSTAT_DATA` (by default ../shared/data); skips the test if it is missing."""
    data = ROOT / os.environ.get("RHEOSTAT_DATA", "../shared/data")
    if not (data / name).is_dir():
        pytest.skip(f"no folder {name} in {data}; RHEOSTAT_DATA names the folder of the corpora")
    return data / name
