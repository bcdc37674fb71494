"""The digest of arrays, which distinguishes weights, points and texts with the same name.

Digests are stored in files and results, so the same arrays must give the same digest forever. Knows types, shapes
and bytes; knows nothing of what the arrays mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIGEST_BYTES = 8


def digest_of(arrays: Iterable[NDArray[Any]] | Mapping[str, NDArray[Any]]) -> str:
    """A hexadecimal digest of the arrays in order; for a mapping, their names are included."""
    from hashlib import blake2b  # here, because a suggestion does not need it

    hash = blake2b(digest_size=DIGEST_BYTES)
    named = arrays.items() if isinstance(arrays, Mapping) else (("", array) for array in arrays)
    for name, array in named:
        hash.update(f"{name} {array.dtype.str} {array.shape} ".lstrip().encode())
        hash.update(np.ascontiguousarray(array).data)
    return hash.hexdigest()
