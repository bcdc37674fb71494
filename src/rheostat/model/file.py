"""Reading a model file, the single file that holds a model. Specified in docs/file-format.md.

Opening checks all structure without touching the weights; values are checked on first use. Every problem is a
ModelFileError that starts with the path. Knows values; `description` knows which tensors a file needs, `container` the
bytes. `contents` edits what a file holds, `writer` writes it, `summary` summarises it. Knows nothing of how a model is
trained, pruned or run.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from rheostat.arguments import checked
from rheostat.bundled import DEFAULT_MODEL, model_path
from rheostat.errors import ModelFileError, NotCopyable, OperatingPointError, show
from rheostat.model.container import DTYPES, Container, problem
from rheostat.model.description import Description, PointEntry, RankingEntry, describe
from rheostat.model.names import (
    CASING,
    HIDDEN,
    KNOWN,
    PATH_BOUNDS,
    PATH_COST,
    PATH_WIDTHS,
    VOCABULARY,
    is_scale_name,
    lower_name,
    moment_tensors,
    point_tensors,
    scale_name,
    scores_name,
    upper_name,
)
from rheostat.model.operating_point import Floats, OperatingPoint, Ranking, Update
from rheostat.model.origin import Origin, digest_of
from rheostat.model.path import KnobPath, check_path, path_of_tensors
from rheostat.model.planes import from_planes, matrix_sizes
from rheostat.model.precision import (
    LARGEST_INTEGER,
    LARGEST_STORED_SCALE,
    StoredPrecision,
    all_finite,
    decode,
    precision_of,
)
from rheostat.model.shape import ModelShape
from rheostat.text.casing import casing_from_bytes
from rheostat.text.known_words import KnownWords
from rheostat.text.tokenizers import Tokenizer
from rheostat.text.vocabulary import Vocabulary

if TYPE_CHECKING:  # what a suggestion does not need is imported where it is used
    from rheostat.model.contents import Contents
    from rheostat.model.counts import Counts
    from rheostat.model.reconstruction import Reconstruction

Entry = TypeVar("Entry", RankingEntry, PointEntry)


@checked
def open_model(name_or_path: str | Path = DEFAULT_MODEL, *, verify: bool = True) -> ModelFile:
    """Open a model file: its structure is checked, its weights are mapped but not read.

    A bundled model can be opened by name; without a name, the default model is opened.
    verify: compare the checksum of a tensor with its bytes when it is first used, if the file holds checksums.
    """
    path = model_path(name_or_path)
    container = Container(os.fspath(path), verify)
    try:
        return ModelFile(container, describe(container.metadata, container.tensors))
    except ModelFileError as error:
        container.close()
        raise ModelFileError(f"{path}: {error}") from error.__cause__


class ModelFile(NotCopyable):
    """An open model file. Arrays taken from it are read-only and outlive it.

    If `write_model` replaces the file, an open one still shows the old contents.
    """

    def __init__(self, container: Container, description: Description) -> None:
        self._container = container
        self.description = description
        self._checked: set[str] = set()  # tensors whose values have been checked
        self._vocabulary: Vocabulary | None = None
        self._casing: dict[str, str] | None = None
        self._knob_path: KnobPath | None = None

    @cached_property
    def _weight_shapes(self) -> dict[str, tuple[int, ...]]:
        return self.shape.tensor_shapes()

    @property
    def path(self) -> Path:
        return Path(self._container.path)

    @property
    def shape(self) -> ModelShape:
        return self.description.shape

    @property
    def origin(self) -> Origin:
        """How the weights were made; rankings and points have their own origins."""
        return self.description.origin

    @property
    def tokenizer(self) -> Tokenizer:
        return self.description.tokenizer

    @property
    def vocabulary(self) -> Vocabulary:
        if self._vocabulary is None:
            try:
                vocabulary = Vocabulary.from_bytes(self._container.array(VOCABULARY).tobytes())
            except ValueError as error:
                raise self._problem(str(error), "one word per line") from error
            if len(vocabulary) != self.shape.vocabulary_size:
                raise self._problem(f"{len(vocabulary)} words", f"{self.shape.vocabulary_size} as in its shape")
            self._vocabulary = vocabulary
        return self._vocabulary

    @property
    def casing(self) -> Mapping[str, str]:
        """The usual spelling of words that are not written in lower case; empty if the file has none."""
        if self._casing is None:
            try:
                self._casing = casing_from_bytes(self.text_tensors().get(CASING, np.empty(0)).tobytes())
            except ValueError as error:
                raise self._problem(str(error), "one spelling per line") from error
        return self._casing

    @property
    def hidden_words(self) -> tuple[str, ...]:
        """Words that are never suggested: misspellings of others."""
        stored = self.text_tensors().get(HIDDEN)
        try:
            return () if stored is None else tuple(stored.tobytes().decode().split())
        except UnicodeDecodeError:
            raise self._problem("hidden words that are not UTF-8", "one word per line") from None

    @property
    def known_words(self) -> KnownWords | None:
        """Correct words that are not in the vocabulary; None if the file has none."""
        if KNOWN not in self._container.tensors:
            return None
        try:
            return KnownWords(self._container.array(KNOWN).tobytes())
        except ValueError as error:
            raise self._problem(str(error), "a filter as docs/file-format.md describes it") from None

    def counts(self) -> Counts | None:
        """The counts, checked; None if the file has none."""
        if not self.description.counts_order:
            return None
        from rheostat.model.counts import counts_of_tensors

        names = [name for name in self._container.tensors if name.startswith("counts.")]
        counts = counts_of_tensors({name: self._values(name) for name in names})
        with self._naming():
            counts.check(self.shape.vocabulary_size)
        return counts

    @property
    def precision(self) -> StoredPrecision | Literal["mixed"]:
        """The precision in which matrices are stored."""
        matrices = [name for name, size in self._weight_shapes.items() if len(size) == 2]
        if self.description.bits is not None:
            return "int8"
        return precision_of(DTYPES[self._container.tensors[name][0]].name for name in matrices) or "mixed"

    @property
    def ordered(self) -> str | None:
        """The default ranking, if the filters stand in its order; None if the file is not ordered."""
        return self.description.ordered

    def knob_path(self) -> KnobPath:
        """The positions of an ordered file, the whole model first; none if it is not ordered."""
        if self._knob_path is None:
            self._knob_path = self._read_path() if self.ordered is not None else ()
        return self._knob_path

    def _read_path(self) -> KnobPath:
        bounds = self._values(PATH_BOUNDS) if PATH_BOUNDS in self._container.tensors else None
        path = path_of_tensors(self._values(PATH_COST), self._values(PATH_WIDTHS), bounds, self.shape)
        with self._naming():
            check_path(path, self.shape)
        return path

    @cached_property
    def path_costs(self) -> list[float]:
        """The costs of all positions of the path, the smallest first, to look one up."""
        return [position.cost for position in reversed(self.knob_path())]

    def mapped_bytes(self) -> NDArray[np.uint8]:
        """All bytes of the file, mapped and not read: the core opens an ordered file on them."""
        return self._container.mapped_bytes()

    @property
    def has_checksums(self) -> bool:
        """Whether the file holds checksums, and they are compared."""
        return bool(self._container.checksums)

    def verify(self) -> None:
        """Compare all checksums now. A file without any passes; one that does not match is a ModelFileError."""
        self._container.verify()

    def watch_size(self) -> Callable[[], bool]:
        """A function that says whether the file still has its size; it takes a microsecond."""
        return self._container.watch_size()

    def check_unchanged(self) -> None:
        """Raise ModelFileError if the file was written to, or cut short, since it was opened."""
        self._container.check_unchanged()

    @property
    def identity(self) -> tuple[int, ...]:
        """The same for two open files only if they are one file with one content."""
        return self._container.identity

    def tensor(self, name: str) -> Floats:
        """A weight tensor as float32, by its name in `ModelShape.tensor_shapes`; a view if stored as float32."""
        return decode(self.raw(name), self.scale(name))

    def weights(self) -> dict[str, Floats]:
        """All weight tensors as float32."""
        return {name: self.tensor(name) for name in self._weight_shapes}

    def raw(self, name: str) -> NDArray[Any]:
        """A weight tensor as stored: float32, float16 or int8, mapped; a matrix stored in planes is put together."""
        if not isinstance(name, str) or name not in self._weight_shapes:  # callers may not check their types
            raise self._problem(
                f"no weights named {show(name)}", "a name in ModelShape.tensor_shapes", "use one of those"
            )
        if self.description.bits is not None and len(self._weight_shapes[name]) == 2:
            return self._from_planes(name)
        return self._values(name)

    def _from_planes(self, name: str) -> NDArray[np.int8]:
        lower = self._container.array(lower_name(name)) if lower_name(name) in self._container.tensors else None
        integers = from_planes(self._container.array(upper_name(name)), lower, matrix_sizes(self.shape)[name])
        self._check_values(name, integers)
        integers.flags.writeable = False
        return integers

    def scale(self, name: str) -> Floats | None:
        """The row scales of a tensor stored as int8 (w = q · scale); None for any other."""
        scale = scale_name(name)
        return self._values(scale) if scale in self._container.tensors else None

    def check_scales(self) -> None:
        """Check the scales of all int8 tensors without reading the integers, which the core checks itself."""
        for name in self._weight_shapes:
            self.scale(name)

    def stored_weights(self) -> dict[str, NDArray[Any]]:
        """All weight tensors as stored, plus `{name}.scale` for int8. `cut` accepts these too."""
        stored = {name: self.raw(name) for name in self._weight_shapes}
        scales = {scale_name(name): self.scale(name) for name in stored}
        return stored | {name: scale for name, scale in scales.items() if scale is not None}

    def weights_digest(self) -> str:
        """The digest of the stored weights. It distinguishes models with the same name and shape."""
        return digest_of(self.stored_weights())

    def text_tensors(self) -> dict[str, NDArray[Any]]:
        """The bytes of the vocabulary and, if the file has them, of the casing, the hidden and the known words."""
        tensors = self._container.tensors
        return {name: self._container.array(name) for name in (VOCABULARY, CASING, HIDDEN, KNOWN) if name in tensors}

    def ranking(self, name: str | None = None) -> Ranking:
        """A ranking by name; without a name, the default ranking."""
        name = self.description.default_ranking if name is None else name
        return self._read_ranking(self._find("ranking", name, self.description.rankings))

    def rankings(self) -> list[Ranking]:
        return [self._read_ranking(entry) for entry in self.description.rankings]

    def point(self, name: str) -> OperatingPoint:
        """A stored point by name, with its indices and gates checked."""
        return self._read_point(self._find("point", name, self.description.points))

    def points(self) -> list[OperatingPoint]:
        return [self._read_point(entry) for entry in self.description.points]

    @cached_property
    def reconstruction(self) -> Reconstruction | None:
        """What the positions of the knob are cut with; None if the file has none."""
        entry = self.description.reconstruction
        if entry is None:
            return None
        from rheostat.model.reconstruction import LayerMoments, Reconstruction

        by = self.ranking(entry.ranking)
        layers = tuple(
            LayerMoments(*(self._values(name).copy() for name in moment_tensors(layer))) for layer in self._layers
        )
        if not all((layer.spread > 0).all() for layer in layers):
            raise self._problem("a spread that is not above zero in the reconstruction", "positive numbers")
        return Reconstruction(by.name, layers, tuple(by.order(layer) for layer in self._layers), entry.origin)

    def contents(self) -> Contents:
        """Everything in the file, as a value to edit and write. Reads the whole file; weights are views."""
        from rheostat.model.contents import Contents

        about = self.description
        return Contents(
            self.shape,
            self.stored_weights(),
            self.text_tensors(),
            about.text,
            tuple(self.rankings()),
            tuple(self.points()),
            about.default_ranking,
            about.recipe,
            about.provenance,
            about.origin,
            self.ordered,
            self.knob_path(),
            self.reconstruction,
            about.bits or 8,
            self.counts(),
        )

    @property
    def file_bytes(self) -> int:
        return self._container.size

    @property
    def header_bytes(self) -> int:
        return self._container.data_offset

    def tensor_bytes(self) -> dict[str, int]:
        """Size in bytes of every tensor, by name."""
        return {name: end - begin for name, (_, _, begin, end) in self._container.tensors.items()}

    def release(self) -> None:
        """Free the memory used for reading, unless an array still needs it. The file is mapped again when needed."""
        self._container.release()

    def close(self) -> None:
        self._container.close()

    def __repr__(self) -> str:
        shape = self.shape
        return f"<ModelFile {self.path.name}: {shape.cell} {' '.join(map(str, shape.hidden_sizes))}, {self.precision}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _layers(self) -> range:
        return range(len(self.shape.hidden_sizes))

    def _read_ranking(self, entry: RankingEntry) -> Ranking:
        scores = tuple(self._values(scores_name(entry.name, layer)).copy() for layer in self._layers)
        ranking = Ranking(entry.name, entry.criterion, scores, entry.seed, entry.comparable, entry.origin)
        if entry.name == self.ordered:
            with self._naming():
                ranking.check_order()
        return ranking

    def _read_point(self, entry: PointEntry) -> OperatingPoint:
        tensors = [point_tensors(entry.name, layer) for layer in self._layers]
        gates = tuple(self._optional(names.gate) for names in tensors)
        updates = tuple(self._update(names.u, names.v) for names in tensors)
        biases = tuple(self._optional(names.bias) for names in tensors)
        point = OperatingPoint(
            name=entry.name,
            criterion=entry.criterion,
            keep=tuple(self._values(names.keep).astype(np.int32) for names in tensors),
            gates=gates if entry.has_gates else None,
            updates=updates if entry.update_rank else None,
            biases=biases if any(bias is not None for bias in biases) else None,
            flops_fraction=entry.flops_fraction,
            preferred=entry.preferred,
            origin=entry.origin,
            reconstruction=self.reconstruction if entry.reconstructed else None,
        )
        with self._naming():
            point.check(self.shape)
        return point

    @contextlib.contextmanager
    def _naming(self) -> Iterator[None]:
        """Put the path in front of what is wrong with values of the file."""
        try:
            yield
        except (ModelFileError, OperatingPointError) as error:
            raise ModelFileError(f"{self.path}: {error}") from None

    def _values(self, name: str) -> NDArray[Any]:
        """A tensor as stored; its values are checked the first time."""
        array = self._container.array(name)
        if name not in self._checked:
            self._check_values(name, array)
            self._checked.add(name)
        return array

    def _check_values(self, name: str, array: NDArray[Any]) -> None:
        if array.dtype.kind == "f" and not all_finite(array):
            raise self._problem(f"a value in {name} that is not finite", "finite numbers")
        if array.dtype == np.int8 and array.min() < -LARGEST_INTEGER:
            raise self._problem(f"-128 in {name}", f"-{LARGEST_INTEGER} to {LARGEST_INTEGER}")
        if is_scale_name(name) and not ((array >= 0) & (array <= LARGEST_STORED_SCALE)).all():
            raise self._problem(f"a scale below zero or too large in {name}", f"0 to {LARGEST_STORED_SCALE:.0e}")

    def _optional(self, name: str) -> Floats | None:
        return self._values(name).astype(np.float32) if name in self._container.tensors else None

    def _update(self, u_name: str, v_name: str) -> Update | None:
        u, v = self._optional(u_name), self._optional(v_name)
        return None if u is None or v is None else Update(u, v)

    def _problem(self, found: str, expected: str, *remedy: str) -> ModelFileError:
        return ModelFileError(f"{self.path}: {problem(found, expected, *remedy)}")

    def _find(self, what: str, name: str | None, entries: Sequence[Entry]) -> Entry:
        for entry in entries:
            if entry.name == name:
                return entry
        names = ", ".join(entry.name for entry in entries) or "none"
        wanted = f"{what} '{name}'" if name is not None else f"default {what}"
        raise OperatingPointError(
            f"{self.path}: found no {wanted}; the file has: {names}; name one of these, or add it with rheostat prune"
        )
