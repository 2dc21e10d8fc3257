"""The noise inputs of a bundle: drawn as PyTorch draws them, or given. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphaudit.errors import BundleError, GuardError
from graphaudit.export.manifest import Input
from graphaudit.runtimes.generator import Generator

Array = NDArray[Any]


class NoiseInputs:
    """The noise among `inputs`, in the order of draws, and the generator that draws it. False where there is none.

    Raises BundleError for noise that does not say what it is.
    """

    def __init__(self, inputs: Sequence[Input], seed: int) -> None:
        self.generator = Generator(seed)
        self._arguments = [i for i in inputs if i.role == "argument"]
        self._noise = sorted((i for i in inputs if i.role == "noise"), key=lambda i: i.draw or 0)
        for entry in self._noise:
            if not _is_complete(entry):
                raise BundleError(f"the manifest does not say how {entry.name} is drawn", "Make the bundle again.")

    def __bool__(self) -> bool:
        return bool(self._noise)

    def draw(self, arguments: Mapping[str, Array]) -> dict[str, Array]:
        """The next draws for a call with `arguments`, by name."""
        sizes = self._sizes(arguments)
        return {
            n.name: self.generator.draw(n.distribution or "", _shape(n, sizes), n.dtype, n.parameters or {})
            for n in self._noise
        }

    def check(self, given: Mapping[str, Any], arguments: Mapping[str, Array]) -> dict[str, Array]:
        """The noise that a caller gives, as arrays. Raises GuardError where it is not what the model takes."""
        names = {n.name for n in self._noise}
        if set(given) != names:
            raise GuardError(f"noise has {', '.join(sorted(given)) or 'nothing'}; it takes {', '.join(sorted(names))}")
        sizes = self._sizes(arguments)
        arrays = {name: np.ascontiguousarray(value) for name, value in given.items()}
        for entry in self._noise:
            array, shape = arrays[entry.name], _shape(entry, sizes)
            if array.dtype.name != entry.dtype or list(array.shape) != shape:
                found = f"{array.dtype.name} of shape {list(array.shape)}"
                raise GuardError(f"noise {entry.name} is {found}; it is {entry.dtype} of shape {shape}")
        return arrays

    def _sizes(self, arguments: Mapping[str, Array]) -> dict[str, int]:
        return {
            name: size
            for entry in self._arguments
            for name, size in zip(entry.shape, arguments[entry.name].shape)
            if isinstance(name, str)
        }


def _shape(entry: Input, sizes: Mapping[str, int]) -> list[int]:
    return [sizes[d] if isinstance(d, str) else d for d in entry.shape]


def _is_complete(entry: Input) -> bool:
    needed = {"randint": {"low", "high"}, "permutation": {"n"}}.get(entry.distribution or "", set())
    return entry.distribution is not None and entry.draw is not None and needed <= set(entry.parameters or {})
