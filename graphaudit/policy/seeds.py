"""The three global generators a policy may draw from: torch's, Python's and NumPy's."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def seed_generators(seed: int) -> None:
    """Seed all three."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)  # it is the legacy global generator that policies use


@contextmanager
def preserved_generators() -> Iterator[None]:
    """Leave the caller's random state as it was."""
    torch_state, python_state, numpy_state = torch.get_rng_state(), random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        torch.set_rng_state(torch_state)
        random.setstate(python_state)
        np.random.set_state(numpy_state)


def moved_since(seed: int) -> bool:
    """Whether Python's or NumPy's generator no longer stands where `seed_generators(seed)` put it."""
    python, numpy = random.getstate(), np.random.mtrand._rand._bit_generator.state
    fresh = np.random.RandomState(seed)._bit_generator.state
    return python != random.Random(seed).getstate() or repr(numpy) != repr(fresh)
