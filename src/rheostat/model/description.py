"""What a model file must hold: its description, and the tensors it requires. Specified in docs/file-format.md.

Knows keys, types and shapes, and checks them from the header alone; knows nothing of values or bytes. Tensor names come
from `names` and `ModelShape`. Errors say what was found and what was expected; callers put the path first.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias, cast

from rheostat.errors import ModelFileError, show
from rheostat.model.container import FETCH_AGAIN, Stored, parse_json, problem
from rheostat.model.names import (
    CASING,
    COUNTS_COST,
    COUNTS_WEIGHT,
    HIDDEN,
    KNOWN,
    PATH_BOUNDS,
    PATH_COST,
    PATH_WIDTHS,
    VOCABULARY,
    check_name,
    counts_levels,
    counts_rows,
    lower_name,
    moment_tensors,
    point_tensors,
    scale_name,
    scores_name,
    upper_name,
)
from rheostat.model.origin import UNKNOWN_ORIGIN, Origin
from rheostat.model.planes import matrix_sizes
from rheostat.model.shape import CLUSTERS, EMBEDDING, ModelShape
from rheostat.text.known_words import MOST_BYTES as MOST_KNOWN_BYTES
from rheostat.text.tokenizers import TOKENIZERS, Tokenizer

FORMAT_VERSION = 2  # the newest version that is read; a file without its features is written as version 1
ORIGIN_VERSION = 2  # the first with origins
ORDERED_VERSION = 2  # the first with ordered files
RECONSTRUCTION_VERSION = 2  # the first with a reconstruction
COUNTS_VERSION = 2  # the first with counts, hidden and known words
METADATA_KEY = "rheostat"
DEFAULT_TOKENIZER = "ptb"  # for a file that does not state one

_FLOPS_TOLERANCE = 0.01  # between the share that a description states and the share counted from the widths
_MAXIMUM_DEPTH = 64  # of text, recipe, provenance and origins
MAXIMUM_WHOLE_DEPTH = 68  # of any value, keys that are not known included; the core's limit too

MOST_POSITIONS = 1000  # of a path; the core has no limit
COUNTS_ORDERS = range(2, 5)  # lengths of n-grams in counts
MOST_COUNTS_COSTS = 64
MOST_COUNTED_WORDS = 1 << 16  # the vocabulary of a file with counts

_MATRIX_TYPES = ("F32", "F16", "I8")
_VECTOR_TYPES = ("F32", "F16")
_PLANES = "its two planes, .upper and .lower"
_ORDER = "order it: rheostat pack --order"

Tensors: TypeAlias = Mapping[str, Stored]


@dataclass(frozen=True)
class RankingEntry:
    """What the description says about a ranking."""

    name: str
    criterion: str = ""
    seed: int | None = None
    comparable: bool = False
    origin: Origin = UNKNOWN_ORIGIN


@dataclass(frozen=True)
class PointEntry:
    """What the header says about a point. flops_fraction is counted from the widths."""

    name: str
    criterion: str
    flops_fraction: float
    preferred: bool
    widths: tuple[int, ...]
    has_gates: bool
    update_rank: int  # the largest of all layers; 0 without an update
    origin: Origin = UNKNOWN_ORIGIN
    reconstructed: bool = False  # cut with the file's reconstruction


@dataclass(frozen=True)
class ReconstructionEntry:
    """What the description says about the reconstruction. ranking: in whose order its tensors are."""

    ranking: str
    origin: Origin = UNKNOWN_ORIGIN


@dataclass(frozen=True)
class Description:
    """Everything in a model file except its tensors. Keys that a file leaves out are empty here."""

    shape: ModelShape
    text: Mapping[str, Any] = field(default_factory=dict)
    rankings: tuple[RankingEntry, ...] = ()
    points: tuple[PointEntry, ...] = ()
    default_ranking: str | None = None
    recipe: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    origin: Origin = UNKNOWN_ORIGIN  # of the weights
    format_version: int = 1
    ordered: str | None = None  # the ranking in whose order the filters stand: the default one
    positions: int = 0  # of the path; 0 if the file is not ordered
    reconstruction: ReconstructionEntry | None = None
    bits: int | None = None  # 8 or 4: of weights that are stored in planes
    counts_order: int = 0  # the length of the longest n-grams of its counts; 0 without counts

    @property
    def cell(self) -> str:
        return self.shape.cell

    @property
    def tokenizer(self) -> Tokenizer:
        """How text becomes words; "ptb" if the file does not say."""
        return cast(Tokenizer, self.text.get("tokenizer", DEFAULT_TOKENIZER))

    @property
    def trained(self) -> bool:
        """False if the file says it was written before the first step; such a model is only for measuring time."""
        run = self.provenance.get("run")
        return not (isinstance(run, Mapping) and run.get("steps") == 0)


def describe(metadata: Mapping[str, str], tensors: Tensors) -> Description:
    """The description in the metadata, checked against the tensors."""
    if METADATA_KEY not in metadata:
        raise problem(
            f"no '{METADATA_KEY}' in the metadata",
            "the description of a model",
            "this safetensors file is not a Rheostat model: choose another, or train one",
        )
    fields = _object(parse_json(metadata[METADATA_KEY], "a description"), "the description")
    version = _checked_version(fields.get("format_version"))
    free = {key: _object(_present(fields, key, {}), key) for key in ("text", "recipe", "provenance")}
    _check_plain(free.values(), _MAXIMUM_DEPTH)
    _check_plain(fields.values(), MAXIMUM_WHOLE_DEPTH, f"{MAXIMUM_WHOLE_DEPTH} levels in all")
    tokenizer = free["text"].get("tokenizer", DEFAULT_TOKENIZER)
    if tokenizer not in TOKENIZERS:
        raise problem(f"tokenizer {show(tokenizer)}", f"one of {', '.join(TOKENIZERS)}", "use a newer Rheostat")
    shape = _parse_shape(fields)
    ordered = fields.get("ordered") if version >= ORDERED_VERSION else None
    bits = _bits(ordered, shape, tensors)
    known = _check_weights(shape, tensors, bits, is_ordered=ordered is not None)
    if shape.cell != "qrnn" and (fields.get("rankings") or fields.get("points")):
        raise problem(f"rankings or points for cell {shape.cell}", "none: only qrnn has filters to leave out")
    origin = _origin(fields, "the weights", version)
    rankings = tuple(_parse_ranking(entry, shape, tensors, known, version) for entry in _named(fields, "rankings"))
    points = tuple(_parse_point(entry, shape, tensors, known, version) for entry in _named(fields, "points"))
    default = fields.get("default_ranking")
    if default is not None and default not in [entry.name for entry in rankings]:
        raise problem(f"default_ranking {show(default)}", "the name of one of its rankings, or null", "choose another")
    positions = 0 if ordered is None else _check_ordered(ordered, default, shape, tensors, known)
    reconstruction = _parse_reconstruction(fields, [entry.name for entry in rankings], shape, tensors, known, version)
    if reconstruction is None and (lost := [entry.name for entry in points if entry.reconstructed]):
        raise problem(f"point {lost[0]} with 'reconstructed' in a file without a reconstruction", "its tensors")
    counts_order = _check_counts(shape, tensors, known, version)
    if len(known) != len(tensors):
        raise _unexpected_tensor(min(set(tensors) - known))
    free["recipe"] = free["recipe"] or dict(origin.recipe or {})
    return Description(
        shape,
        rankings=rankings,
        points=points,
        default_ranking=default,
        origin=origin,
        format_version=version,
        ordered=ordered,
        positions=positions,
        reconstruction=reconstruction,
        bits=bits,
        counts_order=counts_order,
        **free,
    )


def metadata_of(
    shape: ModelShape,
    *,
    text: Mapping[str, Any] = MappingProxyType({}),
    rankings: Sequence[Mapping[str, Any]] = (),
    default_ranking: str | None = None,
    ordered: str | None = None,
    reconstruction: Mapping[str, Any] = MappingProxyType({}),
    points: Sequence[Mapping[str, Any]] = (),
    recipe: Mapping[str, Any] = MappingProxyType({}),
    provenance: Mapping[str, Any] = MappingProxyType({}),
    origin: Mapping[str, Any] = MappingProxyType({}),
    is_newer: bool = False,
) -> dict[str, str]:
    """The metadata that `describe` reads, without empty keys. rankings, points: their entries.

    is_newer: whether tensors need format version 2: counts, hidden words, known words.
    """
    is_recorded = any(item.get("origin") for item in ({"origin": origin}, *rankings, *points))
    fields: dict[str, Any] = {
        "format_version": FORMAT_VERSION if is_recorded or ordered or reconstruction or is_newer else 1,
        "cell": shape.cell,
        "shape": shape.as_json(),
        "text": dict(text),
        "rankings": [_without_empty(entry) for entry in rankings],
        "default_ranking": default_ranking,
        "ordered": ordered,
        "reconstruction": _without_empty(reconstruction),
        "points": [_without_empty(entry) for entry in points],
        "recipe": {} if recipe == origin.get("recipe") else dict(recipe),  # stored once
        "provenance": dict(provenance),
        "origin": dict(origin),
    }
    try:
        description = json.dumps(_without_empty(fields), ensure_ascii=False, allow_nan=False)
        description.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise problem(
            f"something in text, recipe, provenance or an origin that JSON cannot hold ({str(error)[:100]})",
            "texts, finite numbers, lists and tables",
            "remove it, or convert it to text",
        ) from error
    return {METADATA_KEY: description}


def _without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    # Not by truth value: 0 is a valid seed.
    empty: tuple[object, ...] = (None, "", [], {})
    return {key: value for key, value in fields.items() if value is not False and value not in empty}


def _checked_version(version: object) -> int:
    expected = f"1 to {FORMAT_VERSION}"
    if type(version) is not int or version < 1:
        raise problem(f"format_version {show(version)}", expected)
    if version > FORMAT_VERSION:
        raise problem(f"format_version {show(version)}", expected, "the file is newer than this Rheostat: upgrade it")
    return version


def _parse_shape(fields: Mapping[str, Any]) -> ModelShape:
    sizes = _object(fields.get("shape"), "shape")
    shape = ModelShape(
        sizes.get("vocabulary_size"),  # type: ignore[arg-type]  # check() says what they are
        sizes.get("embedding_size"),  # type: ignore[arg-type]
        _sizes(sizes, "hidden_sizes"),
        _sizes(sizes, "windows"),
        _sizes(sizes, "softmax_splits"),
        _present(fields, "cell", "qrnn"),
    )
    try:
        shape.check()
    except (ValueError, TypeError, RecursionError) as error:
        raise ModelFileError(f"found {error}; the description is not of a valid model: write the file again") from None
    if shape.is_cut and shape.cell == "qrnn":
        raise problem(
            f"a last layer {shape.output_size} wide",
            f"embedding_size {shape.embedding_size}, because input and output share one embedding",
            "a model file holds the whole model, which is cut when it is used",
        )
    return shape


def _sizes(sizes: Mapping[str, Any], key: str) -> tuple[int, ...]:
    value = sizes.get(key)
    if value is not None and type(value) is not list:
        raise problem(f"{key} {show(value)}", "a list of whole numbers")
    return tuple(value) if value else ()


def _bits(ordered: object, shape: ModelShape, tensors: Tensors) -> int | None:
    """The bits of weights that are stored in planes, as those of an ordered int8 file are; None for others."""
    if ordered is None or shape.cell != "qrnn" or upper_name(EMBEDDING) not in tensors:
        return None
    return 8 if lower_name(EMBEDDING) in tensors else 4


def _check_planes(shape: ModelShape, tensors: Tensors, bits: int) -> set[str]:
    known = set()
    for name, sizes in matrix_sizes(shape).items():
        planes = [upper_name(name), lower_name(name)] if bits == 8 or name == CLUSTERS else [upper_name(name)]
        for plane in planes:
            _expect(tensors, plane, ("U8",), sizes.plane_shape)
        _expect(tensors, scale_name(name), ("F32",), (sizes.rows,))
        known |= {*planes, scale_name(name)}
    return known


def _check_weights(shape: ModelShape, tensors: Tensors, bits: int | None, *, is_ordered: bool) -> set[str]:
    """Check weights, vocabulary and casing; returns the names of all tensors found. bits: of planes; None without."""
    sizes = shape.tensor_shapes()
    known = {VOCABULARY}
    if bits is not None:
        known |= _check_planes(shape, tensors, bits)
        sizes = {name: size for name, size in sizes.items() if len(size) == 1}
    known |= set(sizes)
    for name, size in sizes.items():
        stored = tensors.get(name)
        # Nearly all pass; the others are int8 or wrong.
        if stored is None or stored[1] != size or stored[0] not in _VECTOR_TYPES:
            found = _expect(tensors, name, _MATRIX_TYPES if len(size) == 2 else _VECTOR_TYPES, size)
            if is_ordered:
                raise problem(f"tensor {name} stored as {found[0]} in an ordered file", _PLANES, _ORDER)
            known.add(scale := scale_name(name))
            _expect(tensors, scale, ("F32",), size[:1])
    _expect_list(tensors, VOCABULARY, "U8")
    if CASING in tensors:
        known.add(CASING)
        _expect_list(tensors, CASING, "U8")
    if HIDDEN in tensors:
        known.add(HIDDEN)
        _expect_list(tensors, HIDDEN, "U8")
    if KNOWN in tensors:
        known.add(KNOWN)
        if (length := _expect_list(tensors, KNOWN, "U8")) > MOST_KNOWN_BYTES:
            raise problem(f"known words in {length:,} bytes", f"at most {MOST_KNOWN_BYTES:,}")
    return known


def _expect(tensors: Tensors, name: str, types: Sequence[str], size: tuple[int, ...]) -> Stored:
    """The tensor, which must have one of these types and this shape."""
    stored = tensors.get(name)
    if stored is None:
        raise problem(f"no tensor {name}", f"{' or '.join(types)} {list(size)}")
    if stored[0] not in types:
        raise problem(f"tensor {name} stored as {stored[0]}", " or ".join(types))
    if stored[1] != size:
        raise problem(f"tensor {name} of shape {show(list(stored[1]))}", f"{list(size)}")
    return stored


def _expect_list(tensors: Tensors, name: str, dtype: str) -> int:
    """The length of a tensor, which must be one-dimensional."""
    stored = tensors.get(name)
    if stored is None:
        raise problem(f"no tensor {name}", f"a list of {dtype}")
    if stored[0] != dtype or len(stored[1]) != 1:
        raise problem(f"tensor {name} of {stored[0]} {show(list(stored[1]))}", f"a list of {dtype}")
    return stored[1][0]


def _parse_ranking(
    entry: Mapping[str, Any], shape: ModelShape, tensors: Tensors, known: set[str], version: int
) -> RankingEntry:
    name, seed = entry["name"], entry.get("seed")
    if seed is not None and type(seed) is not int:
        raise problem(f"seed {show(seed)} of ranking {name}", "a whole number")
    comparable = _present(entry, "comparable", False)
    if type(comparable) is not bool:
        raise problem(f"comparable {show(comparable)} of ranking {name}", "true or false")
    for layer, size in enumerate(shape.hidden_sizes):
        known.add(scores := scores_name(name, layer))
        _expect(tensors, scores, ("F32",), (size,))
    return RankingEntry(name, _criterion(entry), seed, comparable, _origin(entry, f"ranking {name}", version))


def _parse_point(
    entry: Mapping[str, Any], shape: ModelShape, tensors: Tensors, known: set[str], version: int
) -> PointEntry:
    name, preferred = entry["name"], _present(entry, "preferred", False)
    if type(preferred) is not bool:
        raise problem(f"preferred {show(preferred)} of point {name}", "true or false")
    reconstructed = _present(entry, "reconstructed", False) if version >= RECONSTRUCTION_VERSION else False
    if type(reconstructed) is not bool:
        raise problem(f"reconstructed {show(reconstructed)} of point {name}", "true or false")
    widths = _point_widths(name, shape, tensors, known)
    gated = _check_gates(name, widths, tensors, known)
    ranks = _check_updates(name, shape.with_hidden_sizes(widths), tensors, known)
    fraction = shape.flops_fraction(widths)
    stated = entry.get("flops_fraction", fraction)
    is_share = type(stated) in (int, float) and 0 < stated <= 1
    if not is_share or abs(stated - fraction) > _FLOPS_TOLERANCE:
        raise problem(f"flops_fraction {show(stated)} of point {name}", f"{fraction:.4f}, counted from its widths")
    origin = _origin(entry, f"point {name}", version)
    return PointEntry(name, _criterion(entry), fraction, preferred, widths, gated, ranks, origin, reconstructed)


def _point_widths(name: str, shape: ModelShape, tensors: Tensors, known: set[str]) -> tuple[int, ...]:
    widths = []
    for layer, size in enumerate(shape.hidden_sizes):
        known.add(keep := point_tensors(name, layer).keep)
        width = _expect_list(tensors, keep, "I32")
        if not 1 <= width <= size:
            raise problem(f"{width} filters in tensor {keep}", f"1 to {size}")
        widths.append(width)
    return tuple(widths)


def _check_gates(name: str, widths: Sequence[int], tensors: Tensors, known: set[str]) -> bool:
    gated = False
    for layer, width in enumerate(widths):
        if (gate := point_tensors(name, layer).gate) in tensors:
            known.add(gate)
            _expect(tensors, gate, ("F32",), (width,))
            gated = True
    return gated


def _check_updates(name: str, cut_shape: ModelShape, tensors: Tensors, known: set[str]) -> int:
    """The largest rank among the point's updates; 0 if it has none."""
    largest = 0
    for layer in range(len(cut_shape.hidden_sizes)):
        *_, u, v, bias = point_tensors(name, layer)
        if bias in tensors:
            known.add(bias)
            _expect(tensors, bias, ("F32",), cut_shape.matrix_shape(layer)[:1])
        if u not in tensors and v not in tensors:
            continue
        known |= {u, v}
        rank = next(iter(tensors.get(v, ("", ()))[1]), 0)
        rows, columns = cut_shape.matrix_shape(layer)
        _expect(tensors, v, _VECTOR_TYPES, (max(rank, 1), columns))
        _expect(tensors, u, _VECTOR_TYPES, (rows, rank))
        largest = max(largest, rank)
    return largest


def _check_ordered(
    ordered: object, default_ranking: object, shape: ModelShape, tensors: Tensors, known: set[str]
) -> int:
    """How many positions the path of an ordered file has."""
    if ordered != default_ranking:
        raise problem(
            f"ordered {show(ordered)}",
            f"the default ranking, {show(default_ranking)}",
            _ORDER,
        )
    known |= {PATH_COST, PATH_WIDTHS}
    count = _expect_list(tensors, PATH_COST, "F32")
    if not 1 <= count <= MOST_POSITIONS:
        raise problem(f"a path of {count} positions", f"1 to {MOST_POSITIONS}")
    _expect(tensors, PATH_WIDTHS, ("I32",), (count, len(shape.hidden_sizes)))
    if PATH_BOUNDS in tensors:
        known.add(PATH_BOUNDS)
        _expect(tensors, PATH_BOUNDS, ("I32",), (count, len(shape.hidden_sizes) + 1))
    return count


def _parse_reconstruction(
    fields: Mapping[str, Any],
    rankings: Sequence[str],
    shape: ModelShape,
    tensors: Tensors,
    known: set[str],
    version: int,
) -> ReconstructionEntry | None:
    stored = fields.get("reconstruction") if version >= RECONSTRUCTION_VERSION else None
    if stored is None or stored == {}:
        return None
    from rheostat.model.reconstruction import packed_size  # here, since few files have one

    entry = _object(stored, "reconstruction")
    ranking = entry.get("ranking")
    if ranking not in rankings:
        raise problem(f"a reconstruction in the order of ranking {show(ranking)}", "the name of one of its rankings")
    for layer, size in enumerate(shape.hidden_sizes):
        names = moment_tensors(layer)
        known.update(names)
        _expect(tensors, names.mean, ("F32",), (size,))
        _expect(tensors, names.spread, ("F32",), (size,))
        _expect(tensors, names.factor, ("F16",), (packed_size(size),))
    return ReconstructionEntry(cast(str, ranking), _origin(entry, "the reconstruction", version))


def _check_counts(shape: ModelShape, tensors: Tensors, known: set[str], version: int) -> int:
    """The length of the longest n-grams of the counts; 0 if the file has none."""
    if COUNTS_COST not in tensors or version < COUNTS_VERSION:
        return 0
    if shape.softmax_splits or shape.cell != "qrnn" or shape.vocabulary_size > MOST_COUNTED_WORDS:
        most = f"a qrnn with a plain softmax and at most {MOST_COUNTED_WORDS} words"
        raise problem("counts in a model that cannot have them", most, "leave them out: rheostat pack --drop-counts")
    count = _expect_list(tensors, COUNTS_COST, "F32")
    if not 1 <= count <= MOST_COUNTS_COSTS:
        raise problem(f"{count} costs of counts", f"1 to {MOST_COUNTS_COSTS}")
    orders = [order for order in COUNTS_ORDERS if counts_rows(order) in tensors]
    if not orders:
        raise problem("counts without n-grams", f"a tensor {counts_rows(COUNTS_ORDERS[0])} or longer")
    for order in orders:
        rows = next(iter(tensors[counts_rows(order)][1]), 0)
        _expect(tensors, counts_rows(order), ("U16",), (max(rows, 1), order))
        _expect(tensors, counts_levels(order), ("U8",), (rows,))
        known |= {counts_rows(order), counts_levels(order)}
    _expect(tensors, COUNTS_WEIGHT, ("F32",), (count, orders[-1] - 1))
    known |= {COUNTS_COST, COUNTS_WEIGHT}
    return orders[-1]


def _unexpected_tensor(name: str) -> ModelFileError:
    """An unexpected tensor is refused, because it could change what the model computes."""
    return problem(
        f"tensor {show(name)}, which the description does not mention",
        "only the tensors of a model file",
        "write the file again without it, or use the program that wrote it",
    )


def _object(value: Any, what: str) -> dict[str, Any]:
    if type(value) is not dict:
        raise problem(f"{show(value)} for {what}", "an object")
    return value


def _present(fields: Mapping[str, Any], key: str, empty: Any) -> Any:
    """The value of a key; `empty` if it is absent or null."""
    value = fields.get(key)
    return empty if value is None else value


def _named(fields: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """The entries of a list of named objects; each name must be valid and unique."""
    entries = fields.get(key)
    if entries is None or entries == []:
        return []
    if type(entries) is not list:
        raise problem(f"{show(entries)} for {key}", "a list of objects")
    names: set[str] = set()
    for entry in entries:
        name = check_name(_object(entry, f"an entry of {key}").get("name"), key)
        if name in names:
            raise problem(f"the name {name} twice in {key}", "each name once", "rename one of them")
        names.add(name)
    return entries


def _origin(entry: Mapping[str, Any], what: str, version: int) -> Origin:
    """The origin in a description entry; version 1 has none."""
    stored = entry.get("origin")
    if version < ORIGIN_VERSION or stored is None:
        return UNKNOWN_ORIGIN
    _check_plain([stored], _MAXIMUM_DEPTH)
    try:
        return Origin.from_json(stored, f"origin of {what}", ModelFileError)
    except ModelFileError as error:
        raise ModelFileError(f"found {error}; {FETCH_AGAIN}") from None


def _criterion(entry: Mapping[str, Any]) -> str:
    criterion = _present(entry, "criterion", "")
    if type(criterion) is not str or len(criterion) > 80 or not criterion.isprintable():
        raise problem(f"criterion {show(criterion)} of {entry['name']}", "a short text")
    return criterion


def _check_plain(values: Iterable[Any], levels: int, most: str = f"{_MAXIMUM_DEPTH} levels") -> None:
    """Refuse values that could not be printed or written back: nested too deeply, or infinite."""
    for value in values:
        if type(value) is float and math.isinf(value):
            raise problem("a number that is too large", "finite numbers")
        inner = value.values() if type(value) is dict else value if type(value) is list else None
        if inner is not None:
            if not levels:
                raise problem("a description nested too deeply", f"at most {most}")
            _check_plain(inner, levels - 1, most)
