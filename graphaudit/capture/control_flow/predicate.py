"""A policy's module as one whose decisions on tensors are masks, for as long as it is captured."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from graphaudit.capture.control_flow.aliases import Aliases
from graphaudit.capture.control_flow.alternatives import Either
from graphaudit.capture.control_flow.arrays import tensor_of
from graphaudit.capture.control_flow.calls import convert
from graphaudit.capture.control_flow.classes import adopt, release
from graphaudit.capture.control_flow.entries import Maybe, refusal
from graphaudit.capture.control_flow.grown import Appended
from graphaudit.capture.control_flow.numbers import Number
from graphaudit.capture.control_flow.refusal import Refused
from graphaudit.capture.control_flow.rows import LOOP, AllPasses
from graphaudit.capture.control_flow.session import Regions, Session
from graphaudit.capture.control_flow.writes import MaskedWrites
from graphaudit.graphs.loop_bounds import Bounds
from graphaudit.policy.isolation import other_forward


@contextmanager
def predicated(module: nn.Module, bounds: Bounds, regions: Regions) -> Iterator[Session]:
    """Put transpiled forwards into the module and its parts, and the user's own back afterwards.

    While it lasts, the module's forward returns (result, guards, drawn): tensors in place of numbers, one 0-d bool for
    each loop whose bound may be too low, and one for each branch with draws, which says whether the policy makes them.
    Raises Refused where it meets what masks cannot express.
    """
    session = Session(module, bounds, regions)
    try:
        with session.active(), ExitStack() as forwards:
            for part in module.modules():
                converted = convert(part.forward)
                adopt(type(part), session)
                if part is module or converted is not part.forward:
                    forwards.enter_context(other_forward(part, converted))
            forwards.enter_context(other_forward(module, _outermost(module, session)))
            yield session
    finally:
        release(session)


def _outermost(module: nn.Module, session: Session) -> Any:
    forward = module.forward

    @functools.wraps(forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        session.guards.clear()
        session.masks.clear()
        session.held.clear()
        session.drawn.clear()
        session.one_sided.clear()
        session.aliases = Aliases()
        session.each = None
        session.region_writes.clear()
        session.loops.clear()
        with AllPasses(), MaskedWrites():
            result = forward(*args, **kwargs)
        return pytree.tree_map(as_result, result), [guard.fires for guard in session.guards], [*session.drawn.values()]

    run.__signature__ = inspect.signature(forward)  # type: ignore[attr-defined]  # without the module, which is bound
    return run


def as_result(leaf: Any) -> Any:
    """A number as the tensor that a result of Python's kind becomes: float32, int64 or bool."""
    if isinstance(leaf, Appended):
        raise Refused("a list that grew over a dimension that varies is returned", LOOP)
    if isinstance(leaf, Either):
        raise leaf.refusal
    if isinstance(leaf, Maybe):
        raise refusal("the result holds a list")
    leaf = tensor_of(leaf)
    if not isinstance(leaf, Number):
        return leaf
    return leaf.tensor.to(torch.get_default_dtype()) if leaf.kind is float else leaf.wide
