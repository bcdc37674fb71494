"""Making a model: torch. Nothing outside `training` and `pruning` imports it, and only when asked to."""

from __future__ import annotations

from rheostat.errors import MissingExtraError

try:
    import torch  # noqa: F401
except ImportError as error:
    raise MissingExtraError("train", "Training, pruning and evaluating") from error
