"""Two names for one tensor: on some paths only, then a write through one of them cannot be a mask, and is refused; and
what was read at an index that is a tensor's value, a view in eager and a copy in a graph."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any

import torch

from graphaudit.capture.control_flow.refusal import Refused
from graphaudit.capture.control_flow.world import contents
from graphaudit.graphs.places import is_engine


class Aliases:
    """Which tensors came out of a selection, or were read at an index, and of which others: storages, by identity."""

    def __init__(self) -> None:
        self._merged: list[tuple[int, frozenset[int]]] = []
        self._read: dict[int, tuple[torch.Tensor, torch.Tensor, Any]] = {}
        self._held: list[torch.Tensor] = []  # a storage's identity is its own as long as a tensor holds it

    def merged(self, result: torch.Tensor, *sources: Any) -> None:
        """`result` stands for one of `sources`, by the path taken."""
        tensors = [s for s in sources if isinstance(s, torch.Tensor)]
        self._held += [result, *tensors]
        self._merged.append((storage(result), frozenset(map(storage, tensors))))

    def read(self, result: torch.Tensor, target: torch.Tensor, key: Any) -> None:
        """`result` is a copy of what stands in `target` at `key`, and a view of it in eager."""
        self._read[storage(result)] = result, target, key

    def source(self, tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, Any] | None:
        """The (copy, target, key) whose copy `tensor` is, or is a view of."""
        return self._read.get(storage(tensor))

    def check_write(self, tensor: torch.Tensor, roots: Iterable[Any]) -> None:
        """Raise Refused where a write to `tensor` would be seen under another name on some paths, and not on others."""
        written = storage(tensor)
        related = [pair for pair in self._merged if written == pair[0] or written in pair[1]]
        if not related:
            return
        named = {storage(t) for t in contents([*roots, *_variables()])}
        for result, sources in related:
            if (written == result and sources & named) or (written in sources and result in named):
                reason = "this writes in place to a tensor that has another name on some paths only"
                raise Refused(reason, "aliased-write")


def _variables() -> list[Any]:
    """The variables of the user's functions that are running."""
    found: list[Any] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and "/torch/export/" not in frame.f_code.co_filename:
        if not is_engine(frame.f_code.co_filename):
            found.extend(frame.f_locals.values())
        frame = frame.f_back
    return found


def storage(tensor: torch.Tensor) -> int:
    """The identity of the memory behind a tensor, which its views share."""
    identity: int = tensor.untyped_storage()._cdata
    return identity
