"""From a model file to the numbers that a graph computes with: the one path that weights take to an engine.

The whole model is prepared first and cut afterwards, so that all points of a file round alike. Layers that a point
changes (gates folded in, an update added) come out of the cut as floats and are prepared once more. Knows files and
points; nothing after this module prepares weights again: graphs and engines take `Prepared` ones.
"""

from __future__ import annotations

import threading

from rheostat.model.cut import cut
from rheostat.model.file import ModelFile
from rheostat.model.operating_point import OperatingPoint
from rheostat.runtime.onnx.quantization import Prepared, prepare
from rheostat.runtime.precision import Precision


class RuntimeWeights:
    """The weights of a file in one precision, cut to any point. Safe to use from several threads.

    The prepared model is kept from its second use on: a device that never turns the knob holds its one point only,
    and a program that does turn it does not read the whole file again. With `keep`, it is kept from the first use on.
    """

    def __init__(self, file: ModelFile, precision: Precision, *, keep: bool = False) -> None:
        self._file, self._precision = file, precision
        self._whole: Prepared | None = None
        self._keeps = keep
        self._lock = threading.Lock()

    def of(self, point: OperatingPoint) -> Prepared:
        """The weights of the model that is cut to `point`; its shape is `point.cut_shape(file.shape)`."""
        small, _ = cut(self._prepared(), self._file.shape, point)
        return prepare(small, self._precision)

    def _prepared(self) -> Prepared:
        with self._lock:
            if self._whole is not None:
                return self._whole
            weights = prepare(self._file.stored_weights(), self._precision)
            # Biases are copied: a view of one would keep everything that was read of the file in memory.
            whole = Prepared({name: array.copy() if array.ndim == 1 else array for name, array in weights.items()})
            self._file.release()
            if self._keeps:
                self._whole = whole
            self._keeps = True
            return whole
