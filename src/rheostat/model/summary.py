"""A summary of a model file from its header, for `inspect` and other programs. All tensors are read once, to compare
their checksums.
"""

from __future__ import annotations

from typing import Any

from rheostat.arguments import checked
from rheostat.model.file import ModelFile
from rheostat.model.flops import cost_by_part, flops_by_part
from rheostat.model.names import KNOWN, part_of, plane_of


@checked
def summarize(file: ModelFile) -> dict[str, Any]:
    """Everything known about a file without reading weights, ready for JSON."""
    description, shape = file.description, file.shape
    return {
        "path": str(file.path),
        "format_version": description.format_version,
        "file_bytes": file.file_bytes,
        "checksums": _compared_checksums(file),
        "cell": shape.cell,
        "precision": file.precision,
        "shape": shape.as_json(),
        "parameters": shape.parameters,
        "flops": shape.flops,
        "flops_by_part": flops_by_part(shape),
        "cost_by_part": _cost_by_part(file),
        "bytes_by_part": bytes_by_part(file),
        "bits": description.bits,
        "bytes_by_plane": bytes_by_plane(file),
        "tokenizer": file.tokenizer,
        "text": dict(description.text),
        "origin": description.origin.as_json(),
        "default_ranking": description.default_ranking,
        "ordered": description.ordered,
        "path_positions": description.positions,
        "reconstruction": _reconstruction(file),
        "counts_order": description.counts_order,
        "hidden_words": len(file.hidden_words),
        "known_words": _known_words(file),
        "rankings": [vars(entry) | {"origin": entry.origin.as_json()} for entry in description.rankings],
        "points": [
            vars(entry) | {"widths": list(entry.widths), "origin": entry.origin.as_json()}
            for entry in description.points
        ],
        "recipe": dict(description.recipe),
        "provenance": dict(description.provenance),
    }


def _compared_checksums(file: ModelFile) -> str:
    """What comparing the checksums shows; a file that does not match is an error. Reads the whole file."""
    file.verify()
    return "all match" if file.has_checksums else "none stored"


def _reconstruction(file: ModelFile) -> dict[str, Any] | None:
    entry = file.description.reconstruction
    if entry is None:
        return None
    size = bytes_by_part(file)["reconstruction"]
    return {"ranking": entry.ranking, "bytes": size, "origin": entry.origin.as_json()}


def _known_words(file: ModelFile) -> dict[str, int] | None:
    stored = file.known_words
    return None if stored is None else {"words": stored.count, "bytes": bytes_by_part(file)[KNOWN]}


def bytes_by_part(file: ModelFile) -> dict[str, int]:
    """Bytes in each part of the file; they add up to its size."""
    sizes = {"header": file.header_bytes}
    for name, size in file.tensor_bytes().items():
        part = part_of(name)
        sizes[part] = sizes.get(part, 0) + size
    return sizes


def _cost_by_part(file: ModelFile) -> dict[str, float]:
    """FLOPs of the whole model weighted by the bits that the file has."""
    is_half = file.description.bits == 4
    if file.shape.cell != "qrnn":
        return dict(flops_by_part(file.shape))
    return cost_by_part(file.shape, (0,) * (len(file.shape.hidden_sizes) + 1) if is_half else None)


def bytes_by_plane(file: ModelFile) -> dict[str, int]:
    """Bytes of the upper and of the lower planes; empty if weights are not stored in planes."""
    sizes: dict[str, int] = {}
    for name, size in file.tensor_bytes().items() if file.description.bits else ():
        if plane := plane_of(name):
            sizes[plane] = sizes.get(plane, 0) + size
    return dict(sorted(sizes.items(), reverse=True))
