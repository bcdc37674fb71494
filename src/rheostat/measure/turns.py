"""In which order several take turns."""

from __future__ import annotations


def rotated(count: int, first: int) -> list[int]:
    """0 … count - 1 from another beginning each time, so that nobody always comes after the largest point."""
    return [(first + number) % count for number in range(count)]
