"""From a model file to the numbers that a graph computes with: the only path of weights to an engine.

The whole model is prepared first and cut afterwards, so all points of a file are rounded the same way. Layers that a
point changes (gates folded in, an update added) are floats after the cut and are prepared once more. Knows files and
points. Graphs and engines take `Prepared` weights and never prepare them again.
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

    The prepared model is kept from its second use on. So a device that never turns the knob holds only its one point,
    and a program that turns it does not read the whole file again. With `keep`, it is kept from the first use on.
    """

    def __init__(self, file: ModelFile, precision: Precision, *, keep: bool = False) -> None:
        self._file, self._precision = file, precision
        self._whole: Prepared | None = None
        self._keeps = keep
        self._lock = threading.Lock()

    def of(self, point: OperatingPoint) -> Prepared:
        """The weights of the model that is cut to `point`; its shape is `point.cut_shape(file.shape)`."""
        # Bits are those of the stored integers, so rows are read in 4 bits before anything is rounded for a graph.
        whole = self._file.stored_weights() if point.bounds else self._prepared()
        small, _ = cut(whole, self._file.shape, point)
        return prepare(small, self._precision)

    def _prepared(self) -> Prepared:
        with self._lock:
            if self._whole is not None:
                return self._whole
            weights = prepare(self._file.stored_weights(), self._precision)
            # Biases are copied: a view of one would keep the whole mapped file in memory.
            whole = Prepared({name: array.copy() if array.ndim == 1 else array for name, array in weights.items()})
            self._file.release()
            if self._keeps:
                self._whole = whole
            self._keeps = True
            return whole
