"""Ordered model files that the core has open, shared by the whole process.

Such a file is opened where it is mapped: nothing of it is copied, and all predictors of one file use one `CoreModel`.
It is closed with the last of them. A file that was replaced is another file. Knows files and the core; operating points
are handled by `engine`.
"""

from __future__ import annotations

import threading
from weakref import WeakValueDictionary

from rheostat.core.binding import CoreModel
from rheostat.errors import ModelFileError
from rheostat.model.file import ModelFile
from rheostat.runtime.precision import Precision

_opened: WeakValueDictionary[tuple[int, ...], CoreModel] = WeakValueDictionary()
_lock = threading.Lock()  # guards _opened, and keeps two threads from opening one file twice


def open_mapped(file: ModelFile, precision: Precision) -> CoreModel | None:
    """The core on the mapped file; None for a file that it does not open as it is in this precision.

    What the core refuses gives None too: the caller then makes bytes for it, and Python's checks say what is wrong.
    """
    if file.ordered is None or file.precision != precision:
        return None
    file.check_scales()
    file.ranking()  # checks that the filters are in its order
    with _lock:
        model = _opened.get(file.identity)
        if model is None:
            try:
                model = CoreModel(file.mapped_bytes())
            except ModelFileError:
                return None
            _opened[file.identity] = model
    file.release()  # the model keeps the mapping
    return model
