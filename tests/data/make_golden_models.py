"""Write the golden model files again. Only for a new format version: old files must stay readable forever.

PYTHONPATH=src python tests/data/make_golden_models.py
"""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path.append(str(FOLDER.parent))

from models import make_golden, make_golden_ordered  # noqa: E402
from rheostat.model.precision import STORED_PRECISIONS  # noqa: E402

for precision in STORED_PRECISIONS:
    make_golden(FOLDER / f"golden-{precision}.safetensors", precision)
make_golden(FOLDER / "golden-version-2.safetensors", "int8", version=2)
make_golden_ordered(FOLDER / "golden-ordered.safetensors")
make_golden_ordered(FOLDER / "golden-4-bits.safetensors", bits=4)
