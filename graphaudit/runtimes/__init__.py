"""Who can run an artifact. A runner takes the flat inputs of an interface and returns its flat outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    Runner = Callable[[Sequence[torch.Tensor]], list[torch.Tensor]]
