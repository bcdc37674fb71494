"""Student's t distribution, for the confidence interval of a mean."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

LEVEL = 0.95  # of every interval: the probability that it contains the mean


def confidence_interval(values: Sequence[float]) -> tuple[float, float]:
    """The confidence interval of the mean of at least two independent values."""
    mean = statistics.fmean(values)
    error = statistics.stdev(values) / math.sqrt(len(values))
    reach = quantile((1 + LEVEL) / 2, len(values) - 1) * error
    return mean - reach, mean + reach


def quantile(probability: float, degrees: int) -> float:
    """The quantile of the t distribution with these degrees of freedom, for a probability above one half."""
    low, high = 0.0, 1.0
    while central(high, degrees) < 2 * probability - 1:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if central(middle, degrees) < 2 * probability - 1 else (low, middle)
    return (low + high) / 2


def central(t: float, degrees: int) -> float:
    """P(|T| < t), by the finite sums of Abramowitz and Stegun 26.7.3 and 26.7.4."""
    theta = math.atan(t / math.sqrt(degrees))
    cosine, odd = math.cos(theta), degrees % 2
    term, total = (cosine if odd else 1.0), 0.0
    for step in range(2 + odd, degrees + 1, 2):
        total += term
        term *= cosine**2 * (step - 1) / step
    if odd:
        return 2 / math.pi * (theta + math.sin(theta) * total)
    return math.sin(theta) * total
