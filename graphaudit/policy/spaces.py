"""Observations drawn from a Gymnasium space, as batched tensors."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch

# A bound beyond this stands for "none" (older CartPole gives float32's maximum); uniform draws there overflow.
_UNBOUNDED = 1e6


def sample(space: Any, seed: int, batch: int) -> Any:
    """`batch` observations, stacked along dimension 0 in the space's dtype; a dict of tensors for a Dict space."""
    drawn = _finite(space)
    drawn.seed(seed)
    return _stack([drawn.sample() for _ in range(batch)], drawn)


def batch_names(space: Any) -> Any:
    """{0: "batch"} for each tensor, nested like the observation."""
    if hasattr(space, "spaces"):
        return {key: batch_names(child) for key, child in space.spaces.items()}
    return {0: "batch"}


def _finite(space: Any) -> Any:
    """A copy of the space from which finite, moderate numbers come."""
    if hasattr(space, "spaces"):
        return type(space)({key: _finite(child) for key, child in space.spaces.items()})
    if not hasattr(space, "low") or not np.issubdtype(space.dtype, np.floating):
        return copy.deepcopy(space)
    low = np.where(np.abs(space.low) >= _UNBOUNDED, -np.inf, space.low).astype(space.dtype)
    high = np.where(np.abs(space.high) >= _UNBOUNDED, np.inf, space.high).astype(space.dtype)
    return type(space)(low, high, dtype=space.dtype)


def _stack(observations: list[Any], space: Any) -> Any:
    if hasattr(space, "spaces"):
        return {key: _stack([o[key] for o in observations], child) for key, child in space.spaces.items()}
    return torch.from_numpy(np.stack([np.asarray(o) for o in observations]))
