"""The state of a bundle: its first values, and how it goes from one call to the next. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphaudit.errors import BundleError, GuardError
from graphaudit.export.manifest import Input, Output

Array = NDArray[Any]


class CarriedState:
    """The state inputs among `inputs`, each fed by one of `outputs`. False where there are none.

    `first` holds the arrays of state.npz. Raises BundleError where these do not fit together.
    """

    def __init__(self, inputs: Sequence[Input], outputs: Sequence[Output], first: Mapping[str, Array]) -> None:
        self._arguments = [i for i in inputs if i.role == "argument"]
        self._inputs = {i.name: i for i in inputs if i.role == "state"}
        self._sources = {o.name: o.feeds or "" for o in outputs if o.role == "state"}
        if sorted(self._sources.values()) != sorted(self._inputs):
            raise BundleError("the manifest does not say which output feeds each state", "Make the bundle again.")
        self._first = {i.name: first.get(i.initial or "") for i in self._inputs.values()}
        for name, entry in self._inputs.items():
            array = self._first[name]
            if array is None or array.dtype.name != entry.dtype or not _fits(array.shape, entry.shape):
                raise BundleError(f"state.npz does not hold the first value of {name}", "Make the bundle again.")
        self._values: dict[str, Array] | None = None

    def __bool__(self) -> bool:
        return bool(self._inputs)

    def feeds(self, arguments: Mapping[str, Array]) -> dict[str, Array]:
        """The state for a call with `arguments`, by input. Raises GuardError where it belongs to other sizes."""
        sizes = {
            name: size
            for entry in self._arguments
            for name, size in zip(entry.shape, arguments[entry.name].shape)
            if isinstance(name, str)
        }
        if self._values is None:
            self._values = {name: self._initial(name, sizes) for name in self._inputs}
        for name, entry in self._inputs.items():
            for size, dimension in zip(self._values[name].shape, entry.shape):
                if sizes.get(str(dimension), size) != size:
                    raise GuardError(
                        f"{dimension} is {sizes[str(dimension)]}, and the episode has {size}",
                        "Call reset() before an episode with another size.",
                    )
        return self._values

    def carry(self, results: Mapping[str, Array]) -> None:
        """Take the state that a call left."""
        if self._sources:
            self._values = {given: results[source] for source, given in self._sources.items()}

    def reset(self, rows: Sequence[int] | None = None) -> None:
        """Back to the first values, everywhere or in some rows of the batch. Raises GuardError for state without rows,
        and for rows that are not there."""
        if rows is None:
            self._values = None
            return
        if self._values is None:
            return
        changed = {name: self._with_first_rows(name, value, rows) for name, value in self._values.items()}
        self._values = changed

    def get(self) -> dict[str, Any] | None:
        """The state as values that JSON holds; None at the start of an episode."""
        return None if self._values is None else {name: value.tolist() for name, value in self._values.items()}

    def set(self, values: Mapping[str, Any] | None) -> None:
        """Go on from what `get` returned, or from arrays by name. Raises GuardError where they do not fit."""
        if values is None:
            self._values = None
            return
        if set(values) != set(self._inputs):
            raise GuardError(f"state has {', '.join(sorted(values)) or 'nothing'}; it is {', '.join(self._inputs)}")
        arrays = {name: np.asarray(values[name], dtype=entry.dtype) for name, entry in self._inputs.items()}
        for name, entry in self._inputs.items():
            if not _fits(arrays[name].shape, entry.shape):
                raise GuardError(f"state {name} has the shape {arrays[name].shape}; it is {tuple(entry.shape)}")
        self._values = arrays

    def _initial(self, name: str, sizes: Mapping[str, int]) -> Array:
        array = self._first[name]
        assert array is not None
        for axis, dimension in enumerate(self._inputs[name].shape):
            if isinstance(dimension, str) and dimension in sizes:
                array = np.take(array, np.arange(sizes[dimension]) % array.shape[axis], axis)
        return array.copy()

    def _with_first_rows(self, name: str, value: Array, rows: Sequence[int]) -> Array:
        entry = self._inputs[name]
        sizes = {d: n for d, n in zip(entry.shape, value.shape) if isinstance(d, str)}
        initial = self._initial(name, sizes)
        if entry.rows is None:
            batch = {i.shape[0] for i in self._arguments if i.shape}
            if batch == {1} and list(rows) == [0]:
                return initial
            raise GuardError(f"state {name} is one for all rows of the batch", "Call reset() without rows.")
        count = value.shape[entry.rows]
        wrong = [r for r in rows if not -count <= r < count]
        if wrong:
            raise GuardError(f"there is no row {wrong[0]}: state {name} has {count}")
        mixed = value.copy()
        index = (slice(None),) * entry.rows + (np.asarray(rows, dtype=np.int64),)
        mixed[index] = initial[index]
        return mixed


def _fits(shape: Sequence[int], wanted: Sequence[int | str]) -> bool:
    return len(shape) == len(wanted) and all(isinstance(w, str) or s == w for s, w in zip(shape, wanted))
