"""The inputs that a check runs on: the example, the user's `inputs(seed)`, and more drawn by the tool."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from graphaudit.equivalence.draws import Mode, Seen
from graphaudit.equivalence.eager import seeded
from graphaudit.errors import PolicyError
from graphaudit.graphs.places import place_of
from graphaudit.interface import Interface
from graphaudit.policy import Policy
from graphaudit.structures import register_structures

# A dynamic dimension is tried at these sizes and at the example's: 1 and 2 are the ones that specialise.
DYNAMIC_SIZES = (1, 2, 3, 5)
# At least this many of the user's own inputs, or a third of all, whichever is more.
LEAST_USER_INPUTS = 20


@dataclass(frozen=True)
class Sample:
    """One call's arguments. `origin` is `example`, `inputs(3)` for the user's seed 3, or `drawn(17, x1000)`,
    or `path(3, walker.py:41)` for an input made to take a certain way through the policy.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    origin: str
    mode: Mode | None = None  # how a drawn sample was drawn

    @property
    def family(self) -> str:
        """`example`, `inputs`, `drawn` or `path`."""
        return self.origin.partition("(")[0]

    @property
    def is_own(self) -> bool:
        """Whether it is the user's, not made by the tool."""
        return self.family in ("example", "inputs")

    @property
    def is_far(self) -> bool:
        """Whether the values lie far outside of what was seen."""
        return self.mode in (Mode.TENFOLD, Mode.THOUSANDFOLD)

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The tensors among the arguments, in the order of the interface."""
        return [leaf for leaf in pytree.tree_leaves((self.args, self.kwargs)) if isinstance(leaf, torch.Tensor)]


def collect(policy: Policy, count: int = 128, seed: int = 0) -> list[Sample]:
    """`count` samples, the same for the same `seed`; the global random generators stay as they are.

    Drawn samples keep the Python values of the example. Raises PolicyError when `inputs(seed)` fails, or the module
    does on the example.
    """
    own = own_samples(policy, count, seed)
    if len(own) >= count:
        return own
    drawer = Drawer(policy, own, seed)
    return own + [drawer.draw(number) for number in range(count - len(own))]


def own_samples(policy: Policy, count: int = 128, seed: int = 0) -> list[Sample]:
    """The example and, of `count` samples, the user's share. Raises PolicyError when `inputs(seed)` fails."""
    register_structures(policy.example_args, dict(policy.example_kwargs))
    samples = [Sample(tuple(policy.example_args), dict(policy.example_kwargs), "example")]
    if policy.inputs is not None:
        share = min(count - 1, max(LEAST_USER_INPUTS, count // 3))
        samples += [_user_sample(policy, seed + number) for number in range(share)]
    return samples


def example_interface(policy: Policy) -> Interface:
    """The policy's interface. Raises PolicyError with the user's line when forward raises on the example."""
    try:
        with seeded(0):
            return policy.interface
    except Exception as error:  # the user's forward
        raise run_error("the example", error) from error


def run_error(origin: str, error: Exception, what: str = "forward") -> PolicyError:
    """The PolicyError for a call of the user's code that raised `error`, with the user's line where there is one."""
    if isinstance(error, PolicyError):
        return error
    frames = ((f.filename, f.lineno or 0) for f in traceback.extract_tb(error.__traceback__))
    place = place_of(frames)
    where = f" at {place}" if place else ""
    text = str(error).strip().partition("\n")[0]
    return PolicyError(
        f"{what} raises {type(error).__name__} on {origin}{where}: {text}",
        "The module has to run on its own inputs before it can be checked.",
    )


def _user_sample(policy: Policy, seed: int) -> Sample:
    assert policy.inputs is not None
    with seeded(seed):
        try:
            args: Any = policy.inputs(seed)
        except Exception as error:  # the user's function: whatever it raises is said in one line
            raise run_error(f"seed {seed}", error, what="inputs()") from error
    if not isinstance(args, tuple | list):
        args = (args,)
    register_structures(list(args))
    return Sample(tuple(args), dict(policy.example_kwargs), f"inputs({seed})")


class Drawer:
    """Draws samples that are like the ones seen, then zero, negative, large, or other combinations of seen values."""

    def __init__(self, policy: Policy, own: list[Sample], seed: int) -> None:
        slots = example_interface(policy).inputs
        self._leaves, self._spec = pytree.tree_flatten((own[0].args, own[0].kwargs))
        self._generator = torch.Generator().manual_seed(seed)
        tensors = [s.tensors for s in own]
        tensors = [t for t in tensors if len(t) == len(slots)]
        self.seen = [Seen([t[i] for t in tensors], slot.shape) for i, slot in enumerate(slots)]
        self._sizes = self._dynamic_sizes(own[0].tensors)

    def draw(self, number: int) -> Sample:
        """The sample of that number; draws must be made in order, because they share one generator."""
        mode = Mode.of(number)
        sizes = {
            # Names step through their sizes at different rates, so that their combinations differ.
            name: options[(number + position * (number // len(options))) % len(options)]
            for position, (name, options) in enumerate(self._sizes.items())
        }
        drawn = [seen.draw(mode, sizes, self._generator) for seen in self.seen]
        return self.sample(drawn, f"drawn({number}, {mode.value})", mode)

    def sample(self, tensors: Sequence[torch.Tensor], origin: str, mode: Mode | None = None) -> Sample:
        """The example's structure and Python values, with other tensors."""
        rest = iter(tensors)
        leaves = [next(rest) if isinstance(leaf, torch.Tensor) else leaf for leaf in self._leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self._spec)
        return Sample(args, kwargs, origin, mode)

    def _dynamic_sizes(self, example: list[torch.Tensor]) -> dict[str, list[int]]:
        sizes: dict[str, list[int]] = {}
        for tensor, seen in zip(example, self.seen):
            for size, name in zip(tensor.shape, seen.shape):
                if isinstance(name, str) and name not in sizes:
                    sizes[name] = list(dict.fromkeys((size, *DYNAMIC_SIZES)))
        return sizes
