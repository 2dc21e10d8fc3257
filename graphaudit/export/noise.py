"""The noise inputs of a bundle: drawn as PyTorch draws them, or given. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphaudit.errors import BundleError, GuardError
from graphaudit.export.manifest import HeldGenerator, Input, Manifest
from graphaudit.graphs import foreign
from graphaudit.runtimes.generator import Generator

Array = NDArray[Any]
Stream = Generator | foreign.Source
Run = Callable[[dict[str, Array]], Sequence[Array]]


class NoiseInputs:
    """The noise among a bundle's inputs, in the order of draws, and the generators that draw it. False where there is
    none.

    Raises BundleError for noise that does not say what it is.
    """

    def __init__(self, manifest: Manifest) -> None:
        inputs = manifest.inputs
        self._arguments = [i for i in inputs if i.role == "argument"]
        self._noise = sorted((i for i in inputs if i.role == "noise"), key=lambda i: i.draw or 0)
        self._held = {held.name: held for held in manifest.generators}
        for entry in self._noise:
            if not _is_complete(entry) or entry.generator not in (None, *foreign.GLOBAL, *self._held):
                raise BundleError(f"the manifest does not say how {entry.name} is drawn", "Make the bundle again.")
        self._flags: dict[str | None, int] = {
            o.name: index for index, o in enumerate(manifest.outputs) if o.role == "drawn"
        }
        if any(i.when is not None and i.when not in self._flags for i in self._noise):
            raise BundleError("the manifest names no output that says which draws are made", "Make the bundle again.")
        names = sorted({i.generator for i in self._noise if i.generator in foreign.GLOBAL})
        self._torch = Generator(manifest.seed)
        self._others: dict[str, Stream] = {name: foreign.fresh(name) for name in names}
        self._others |= {held.name: _started(held) for held in self._held.values()}
        self.seed(manifest.seed)

    def __bool__(self) -> bool:
        return bool(self._noise)

    def through(self, feeds: Mapping[str, Array], run: Run) -> Sequence[Array]:
        """The results of a call: `run` with the next draws beside `feeds`, its outputs in the manifest's order.

        Where the policy does not make a draw of a branch, which an output says, that draw is taken back, and what comes
        after it is drawn, and run, again; see `graphaudit.graphs.noise.run_with_noise`. Raises BundleError where the
        outputs never agree with the draws.
        """
        sizes = self._sizes(feeds)
        shapes = {n.name: _shape(n, sizes) for n in self._noise}
        made: dict[str | None, bool] = {n.when: True for n in self._noise if n.when is not None}
        start = self.get_state() if made else {}
        drawn: dict[str, Array] = {}
        results: Sequence[Array] = ()
        for attempt in range(len(made) + 2):
            if attempt:
                self.set_state(start)
            before, drawn = drawn, {n.name: self._next(n, shapes[n.name], made) for n in self._noise}
            kept = [n.name for n in self._noise if made.get(n.when, True)]
            if not attempt or any(not np.array_equal(drawn[name], before[name]) for name in kept):
                results = run({**feeds, **drawn})
            found = {when: bool(results[self._flags[when]].any()) for when in made}
            if found == made:
                return results
            made = found
        raise BundleError("the model's outputs do not settle which draws are made", "Make the bundle again.")

    def seed(self, seed: int, generator: str | None = None) -> None:
        """Start the global generators over, and put those that the policy holds back to where it was handed over;
        with `generator` start that one alone. Raises GuardError for a name that none has."""
        if generator is not None:
            if generator not in self._others:
                known = ", ".join(self._others) or "none but PyTorch's own"
                raise GuardError(f"there is no generator {generator!r} here; the noise is drawn from {known}")
            _begin(self._others[generator], seed)
            return
        self._torch.seed(seed)
        for name, stream in self._others.items():
            if name in self._held:
                self._others[name] = _started(self._held[name])
            else:
                _begin(stream, seed)

    def get_state(self) -> dict[str, Any]:
        """Where the generators stand, as values that JSON holds; PyTorch's, and the others by name."""
        return self._torch.get_state() | {name: _state_of(stream) for name, stream in self._others.items()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what `get_state` returned."""
        self._torch.set_state(state)
        for name, stream in self._others.items():
            _set_state(stream, state[name])

    def _next(self, entry: Input, shape: list[int], made: Mapping[str | None, bool]) -> Array:
        """The next numbers; a draw that is not made leaves its generator where it was."""
        if made.get(entry.when, True):
            return self._draw(entry, shape)
        stream = self._stream(entry)
        before = _state_of(stream)
        drawn = self._draw(entry, shape)
        _set_state(stream, before)
        return drawn

    def _stream(self, entry: Input) -> Stream:
        return self._torch if entry.generator is None else self._others[entry.generator]

    def _draw(self, entry: Input, shape: list[int]) -> Array:
        stream = self._stream(entry)
        if isinstance(stream, Generator):
            return stream.draw(entry.distribution or "", shape, entry.dtype, entry.parameters or {})
        return foreign.draw(stream, entry.distribution or "", shape, entry.parameters or {}).astype(entry.dtype)

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


def _started(held: HeldGenerator) -> Stream:
    """A held generator where the policy was handed over. Raises BundleError for a state that is none."""
    try:
        if held.kind != "torch":
            return foreign.make(held.kind, held.state)
        stream = Generator()
        stream.set_state(held.state)
        return stream
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise BundleError(f"the manifest does not say where {held.name} begins", "Make the bundle again.") from error


def _state_of(stream: Stream) -> Any:
    return stream.get_state() if isinstance(stream, Generator) else foreign.get_state(stream)


def _set_state(stream: Stream, state: Any) -> None:
    if isinstance(stream, Generator):
        stream.set_state(state)
    else:
        foreign.set_state(stream, state)


def _begin(stream: Stream, seed: int) -> None:
    if isinstance(stream, Generator):
        stream.seed(seed)
    else:
        foreign.begin(stream, seed)


def _shape(entry: Input, sizes: Mapping[str, int]) -> list[int]:
    return [sizes[d] if isinstance(d, str) else d for d in entry.shape]


def _is_complete(entry: Input) -> bool:
    needed = {"randint": {"low", "high"}, "permutation": {"n"}, "subset": {"high"}}.get(entry.distribution or "", set())
    return entry.distribution is not None and entry.draw is not None and needed <= set(entry.parameters or {})
