"""Training a model, with torch. Only `training`, `pruning` and commands that need them import it."""

from __future__ import annotations

from rheostat.errors import MissingExtraError

try:
    import torch  # noqa: F401
except ImportError as error:
    raise MissingExtraError("train", "Training, pruning and evaluating", error) from error
