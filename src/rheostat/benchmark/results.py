"""Writing results files: JSON that is replaced as a whole, so that a kill leaves the old file or the new one."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rheostat.errors import RheostatError


def write_results(path: Path, contents: Mapping[str, Any]) -> None:
    temporary = path.with_suffix(".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(contents, file, indent=1, ensure_ascii=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise RheostatError(f"cannot write {path}: {error.strerror}; what it held is intact") from None
