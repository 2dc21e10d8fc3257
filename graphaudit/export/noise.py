"""The noise inputs of a bundle: drawn as PyTorch draws them, or given. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphaudit.errors import BundleError, GuardError
from graphaudit.export.manifest import Input
from graphaudit.graphs import foreign
from graphaudit.runtimes.generator import Generator

Array = NDArray[Any]


class NoiseInputs:
    """The noise among `inputs`, in the order of draws, and the generator that draws it. False where there is none.

    Raises BundleError for noise that does not say what it is.
    """

    def __init__(self, inputs: Sequence[Input], seed: int) -> None:
        self._generator = Generator(seed)
        foreign_names = sorted({i.generator for i in inputs if i.generator is not None})
        self._foreign = {name: foreign.make(name, seed) for name in foreign_names}
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
        return {n.name: self._draw(n, _shape(n, sizes)) for n in self._noise}

    def seed(self, seed: int) -> None:
        """Start every generator over."""
        self._generator.seed(seed)
        self._foreign = {name: foreign.make(name, seed) for name in self._foreign}

    def get_state(self) -> dict[str, Any]:
        """Where the generators stand, as values that JSON holds; PyTorch's, and the others by name."""
        others = {name: foreign.get_state(source) for name, source in self._foreign.items()}
        return self._generator.get_state() | others

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `get_state` returned."""
        self._generator.set_state(state)
        for name, source in self._foreign.items():
            foreign.set_state(source, state[name])

    def _draw(self, entry: Input, shape: list[int]) -> Array:
        if entry.generator is None:
            return self._generator.draw(entry.distribution or "", shape, entry.dtype, entry.parameters or {})
        source = self._foreign[entry.generator]
        return foreign.draw(source, entry.distribution or "", shape, entry.parameters or {}).astype(entry.dtype)

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
