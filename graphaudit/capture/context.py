"""What has to hold while torch.export traces a policy."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from traceback import StackSummary
from typing import Any

import torch
import torch._inductor.config
from torch.distributions import Distribution
from torch.fx.proxy import TracerBase
from torch.overrides import TorchFunctionMode

from graphaudit.graphs.open_sizes import open_sizes
from graphaudit.graphs.places import is_engine
from graphaudit.graphs.recurrent import whole_recurrent_layers
from graphaudit.policy.seeds import preserved_generators, seed_generators
from graphaudit.quiet import quiet

_TRACE_ENTRY = "/torch/export/_trace.py"
_GET_DATA = torch.Tensor.data.__get__  # type: ignore[attr-defined]
_SET_DATA = torch.Tensor.data.__set__  # type: ignore[attr-defined]


@contextmanager
def tracing(seed: int) -> Iterator[None]:
    """Seeded generators, every draw kept, no validation of distributions, no warnings; all put back afterwards."""
    with ExitStack() as stack:
        stack.enter_context(preserved_generators())
        stack.enter_context(_unvalidated_distributions())
        stack.enter_context(_whole_stack_traces())
        stack.enter_context(whole_recurrent_layers())
        stack.enter_context(_draws_of_generators())
        stack.enter_context(open_sizes())
        # Draws that nothing reads stay in the graph: those after them would be others without them.
        stack.enter_context(torch._inductor.config.patch(fallback_random=True))
        stack.enter_context(quiet())
        seed_generators(seed)
        yield


@contextmanager
def decisions_on_sizes() -> Iterator[list[str]]:
    """The files in which code of the user's asks for the truth of a condition on sizes that vary.

    torch.export answers with what the example's size gives, and at a size of 1 with what larger ones give.
    """
    seen: list[str] = []
    original: Callable[[torch.SymBool], bool] = torch.SymBool.__bool__

    def noted(condition: torch.SymBool) -> bool:
        file = sys._getframe(1).f_code.co_filename
        if not is_engine(file):
            seen.append(file)
        return original(condition)

    torch.SymBool.__bool__ = noted  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        torch.SymBool.__bool__ = original  # type: ignore[method-assign]


class DataAsAlias(TorchFunctionMode):
    """`x.data` is an alias of x, and `x.data = y` copies y into x: what eager does, in operators of a graph.

    torch.export cannot follow either, and its strict form takes what the example gives for a constant (torch 2.13).
    Raises ValueError where y has another shape.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func == _GET_DATA:
            return args[0].detach()
        if func == _SET_DATA:
            given, value = args
            if value.shape != given.shape:
                raise ValueError(f"data of shape {tuple(value.shape)} for a tensor of shape {tuple(given.shape)}")
            given.detach().copy_(value)
            return None
        return func(*args, **(kwargs or {}))


@contextmanager
def _unvalidated_distributions() -> Iterator[None]:
    """Validation reads tensor values, so no graph can hold it; alone it makes torch.export refuse PPO and SAC of
    Stable-Baselines3. `set_default_validate_args` does not reach a policy that asks for validation explicitly."""
    original = Distribution.__init__

    def without_validation(self: Distribution, *args: Any, **kwargs: Any) -> None:
        if len(args) > 2:
            args = (*args[:2], False)
        else:
            kwargs["validate_args"] = False
        original(self, *args, **kwargs)

    Distribution.__init__ = without_validation  # type: ignore[method-assign]
    try:
        yield
    finally:
        Distribution.__init__ = original  # type: ignore[method-assign]


@contextmanager
def _draws_of_generators() -> Iterator[None]:
    """torch (2.13) does not trace some draws, which are written here as what their kernels compute: with a generator
    `exponential_`, whose decomposition in torch/_refs refuses one, and those of a size that varies; and `random_`
    between two limits, whose overload is called like a keyword of Python's."""
    exponential, random = torch.Tensor.exponential_, torch.Tensor.random_
    rand, randn, randint = torch.rand, torch.randn, torch.randint

    def exponential_(x: torch.Tensor, lambd: float = 1.0, *, generator: torch.Generator | None = None) -> torch.Tensor:
        if generator is None:
            return exponential(x, lambd)
        uniform = torch.empty(x.shape, dtype=torch.float64).uniform_(generator=generator)
        return x.copy_(-torch.log1p(-uniform) / lambd)

    def random_(x: torch.Tensor, *limits: Any, **options: Any) -> torch.Tensor:
        if len(limits) < 2:
            return random(x, *limits, **options)
        return random(x, limits[1] - limits[0], **options).add_(limits[0])

    def sized(original: Callable[..., torch.Tensor], fill: str) -> Callable[..., torch.Tensor]:
        def draw(*args: Any, **kwargs: Any) -> torch.Tensor:
            given = kwargs.get("size", args[-1:] if fill == "random_" else args)
            sizes = given[0] if len(given) == 1 and isinstance(given[0], list | tuple) else given
            if kwargs.get("generator") is None or not any(isinstance(size, torch.SymInt) for size in sizes):
                return original(*args, **kwargs)
            limits = (args if "size" in kwargs else args[:-1]) if fill == "random_" else ()
            options: dict[str, Any] = {"dtype": torch.int64} if fill == "random_" else {}
            options |= {name: value for name, value in kwargs.items() if name not in ("size", "generator")}
            drawn: torch.Tensor = getattr(torch.empty(tuple(sizes), **options), fill)(
                *limits, generator=kwargs["generator"]
            )
            return drawn

        return functools.wraps(original)(draw)

    torch.Tensor.exponential_, torch.Tensor.random_ = exponential_, random_  # type: ignore[method-assign,assignment]
    torch.rand, torch.randn = sized(rand, "uniform_"), sized(randn, "normal_")
    torch.randint = sized(randint, "random_")
    try:
        yield
    finally:
        torch.Tensor.exponential_, torch.Tensor.random_ = exponential, random  # type: ignore[method-assign]
        torch.rand, torch.randn, torch.randint = rand, randn, randint


@contextmanager
def _whole_stack_traces() -> Iterator[None]:
    """torch.export keeps the frames of methods called `forward` alone; keep the policy's helpers as well, so that a
    node's place is the line that computes it. torch offers the method below for that purpose."""
    original = TracerBase._filter_traceback_frames

    def keep(self: TracerBase, summary: StackSummary) -> StackSummary:
        traced = max((i for i, frame in enumerate(summary) if frame.filename.endswith(_TRACE_ENTRY)), default=-1)
        if traced < 0:
            return original(self, summary)
        inner = list(summary)[traced + 1 :]
        return StackSummary.from_list([f for f in inner if f.name == "forward" or not is_engine(f.filename)])

    TracerBase._filter_traceback_frames = keep  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        TracerBase._filter_traceback_frames = original  # type: ignore[method-assign]
