"""Draws of random numbers: those of a graph, and the noise inputs that stand in their place.

A noise input holds what PyTorch's CPU generator gives, before the policy computes with it. Drawn in the order of `draw`
with `run_with_noise`, the inputs are the very numbers that the eager module draws under the same seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import fx

from graphaudit.graphs import foreign
from graphaudit.graphs.held import Held, restore, snapshot, stream
from graphaudit.interface import Slot

Distribution = Literal["uniform", "normal", "exponential", "randint", "permutation", "subset"]

_BLOCK = 16  # from this many elements on, normals are drawn in blocks

DRAWN = "graphaudit_drawn"  # in a draw's node.meta["custom"]: which of the interface's `drawn` says if it is made

_OFF = {"dropout": 0, "dropout_p": 0, "p": 0, "train": False, "training": False}  # arguments that switch drawing off


@dataclass(frozen=True)
class Noise:
    """One noise input. `draw` is its place in the order of draws; names in `shape` are those of the arguments' shapes.

    uniform       in [0, 1)
    normal        mean 0, standard deviation 1; with `serial`, drawn one after the other whatever their number; with
                  `blocks`, whole blocks of 16 first and then the last 16 again, as in half precision
    exponential   rate 1
    randint       whole numbers from `low` up to `high` − 1, int64
    permutation   0 … `n` − 1 in random order, int64
    subset        some of 0 … `high` − 1 without repetition, int64; of Python and NumPy only

    `generator` is whose sequence it is: PyTorch's, the global one of Python or NumPy (see graphs/foreign.py), or one
    that the policy holds. The policy makes the draw where the output `when` is true, and in every call where that is
    None.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    distribution: Distribution
    parameters: Mapping[str, int] = field(default_factory=dict)
    draw: int = 0
    generator: Literal["torch", "python", "numpy-legacy"] | Held = "torch"
    when: str | None = None

    @property
    def slot(self) -> Slot:
        """The input as a slot of the model."""
        return Slot(self.name, "", self.dtype, self.shape)


Run = Callable[[list[torch.Tensor]], Sequence[torch.Tensor]]


def run_with_noise(
    noise: Sequence[Noise],
    inputs: Sequence[torch.Tensor],
    slots: Sequence[Slot],
    drawn: Sequence[Slot],
    run: Run,
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """All noise of one call, in order, from the generators that are running, and what `run` makes of it.

    Sizes are those of `inputs`, in `slots`. The last outputs of `run` are `drawn`; they are not among the results.

    Whether a draw of a branch is made is known when the policy has run, and decides where in the sequence the draws
    after it stand. So all are made at first; where an output says otherwise, the generator goes back to before that
    draw, and what comes after it is drawn, and run, again. Of the conditions that are wrong, each time at least the
    first becomes right: those before it hang on draws that were right.
    """
    sizes = {
        name: size
        for slot, tensor in zip(slots, inputs)
        for name, size in zip(slot.shape, tensor.shape)
        if isinstance(name, str)
    }
    shapes = [[sizes[d] if isinstance(d, str) else d for d in n.shape] for n in noise]
    made: dict[str | None, bool] = {n.when: True for n in noise if n.when is not None}
    sources = {id(source): source for source in map(_source, noise)} if made else {}
    start = {key: snapshot(source) for key, source in sources.items()}
    values: list[torch.Tensor] | None = None
    while True:
        for key, state in start.items():
            restore(sources[key], state)
        before, values = values, [_drawn(n, shape, made) for n, shape in zip(noise, shapes)]
        kept = [made.get(n.when, True) for n in noise]
        if before is None or any(k and not torch.equal(v, b) for k, v, b in zip(kept, values, before)):
            outputs = list(run(values))
        results, flags = outputs[: len(outputs) - len(drawn)], outputs[len(outputs) - len(drawn) :]
        found: dict[str | None, bool] = {s.name: bool(flag) for s, flag in zip(drawn, flags) if s.name in made}
        if found == made:
            return values, results
        made = found


def draws(node: fx.Node) -> bool:
    """Whether a node draws random numbers. An operator that only may (dropout in inference) does not."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    given = bound(node)
    is_dropout = any("dropout" in word for word in (str(target), *given)) or "train" in given or "training" in given
    return not (is_dropout and any(key in given and given[key] == off for key, off in _OFF.items()))


def draws_anew(graph: fx.Graph) -> bool:
    """Whether a graph draws from PyTorch's own generator, and uses what it draws."""
    return any(n.users and draws(n) and bound(n).get("generator") is None for n in graph.nodes)


def bound(node: fx.Node) -> dict[str, Any]:
    """The arguments of an operator's call by name, defaults included."""
    target = node.target
    assert isinstance(target, torch._ops.OpOverload)
    given: dict[str, Any] = {}
    for position, argument in enumerate(target._schema.arguments):
        if position < len(node.args) and not argument.kwarg_only:
            given[argument.name] = node.args[position]
        else:
            given[argument.name] = node.kwargs.get(argument.name, argument.default_value)
    return given


def _source(noise: Noise) -> Any:
    """The generator behind a noise input; of those that the policy holds, the stream that runs."""
    if isinstance(noise.generator, Held):
        return stream(noise.generator)
    return torch.default_generator if noise.generator == "torch" else foreign.global_source(noise.generator)


def _drawn(noise: Noise, shape: list[int], made: Mapping[str | None, bool]) -> torch.Tensor:
    """The next numbers; one that is not made leaves its generator where it was."""
    source = _source(noise)
    if made.get(noise.when, True):
        return _draw(noise, source, shape)
    before = snapshot(source)
    try:
        return _draw(noise, source, shape)
    finally:
        restore(source, before)


def _draw(noise: Noise, source: Any, shape: list[int]) -> torch.Tensor:
    dtype = getattr(torch, noise.dtype)
    if not isinstance(source, torch.Generator):
        return torch.from_numpy(foreign.draw(source, noise.distribution, shape, noise.parameters)).to(dtype)
    if noise.distribution == "uniform":
        return torch.rand(shape, dtype=dtype, generator=source)
    if noise.distribution == "normal":
        if noise.parameters.get("serial"):
            return _serial(shape, dtype, source)
        if noise.parameters.get("blocks"):
            return _blocks(shape, dtype, source)
        return torch.randn(shape, dtype=dtype, generator=source)
    if noise.distribution == "exponential":
        return torch.empty(shape, dtype=dtype).exponential_(generator=source)
    if noise.distribution == "randint":
        return torch.randint(noise.parameters["low"], noise.parameters["high"], shape, generator=source)
    return torch.randperm(noise.parameters["n"], generator=source)


def _serial(shape: list[int], dtype: torch.dtype, source: torch.Generator) -> torch.Tensor:
    """Normals in runs of 8: PyTorch draws fewer than 16 one after the other."""
    left = math.prod(shape)
    runs = [torch.randn(min(8, left - first), dtype=dtype, generator=source) for first in range(0, left, 8)]
    return torch.cat([torch.empty(0, dtype=dtype), *runs]).reshape(shape)


def _blocks(shape: list[int], dtype: torch.dtype, source: torch.Generator) -> torch.Tensor:
    """Normals that PyTorch draws block by block in half precision, before they are rounded."""
    count = math.prod(shape)
    if count < _BLOCK:
        return torch.randn(shape, dtype=dtype, generator=source)
    drawn = torch.empty(count, dtype=dtype)
    whole = count - count % _BLOCK
    drawn[:whole] = torch.randn(whole, dtype=dtype, generator=source)
    if whole < count:
        drawn[-_BLOCK:] = torch.randn(_BLOCK, dtype=dtype, generator=source)
    return drawn.reshape(shape)
