"""A loop as a region of the graph: `torch.ops.higher_order.while_loop`, however often it will run.

The body is traced as one pass, from whatever state the passes before have left. What it changes is carried from pass to
pass; what it only reads comes in from outside. Which is which shows when it is traced: the trace is repeated until it
changes nothing that is not carried yet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch.fx.experimental import proxy_tensor
from torch.fx.traceback import preserve_node_meta
from torch.utils import _pytree as pytree

from graphaudit.capture.control_flow.aliases import Aliases, storage
from graphaudit.capture.control_flow.branches import condition, decides_on_data
from graphaudit.capture.control_flow.forms import Variable
from graphaudit.capture.control_flow.refusal import Refused
from graphaudit.capture.control_flow.select import facts_of, negated
from graphaudit.capture.control_flow.session import Guard, Session, current
from graphaudit.capture.control_flow.world import MISSING, Slot, World, closures
from graphaudit.findings import Place

_TRACES = 16  # each but the last finds something more that is carried

Test = Callable[[], Any]
Step = Callable[[], None]


def run_region(test: Test, body: Step, *functions: Callable[..., Any] | None) -> None:
    """`while test(): body()` as a region; `functions` share its variables. Raises Refused."""
    region = _Region(test, body, functions)
    region.emit(region.settle())
    held = test()
    if decides_on_data(held):  # the loop has ended, so its condition is known to be false
        World(closures(test, body, *functions)).assume(facts_of(negated(condition(held))))


class _Region:
    """One loop while it is captured. What it carries: tensors written in place, guards inside it, variables."""

    def __init__(self, test: Test, body: Step, functions: Sequence[Callable[..., Any] | None]) -> None:
        self._test = test
        self._body = body
        self._before = World([*closures(test, body, *functions), *current().roots()])
        self._known = {storage(t) for v in self._before.slots().values() for t in _tensors(v)}
        self._mask = current().mask
        self._written: dict[int, tuple[torch.Tensor, list[Slot]]] = {}  # storage → tensor from outside, and its names
        self._guards: list[Guard] = []
        self._variables: dict[Slot, Variable] = {}
        self._grown = True
        self._writes: list[tuple[torch.Tensor, Place | None]] = []

    def settle(self) -> fx.GraphModule:
        """Trace the body until all that it changes is carried."""
        for _ in range(_TRACES):
            self._grown = False
            graph = _traced(self._pass, self._first())
            self._find_writes(graph)
            if not self._grown:
                return graph
        raise Refused("the variables of this loop do not settle to one shape and dtype")

    def emit(self, body: fx.GraphModule) -> None:
        """Put the loop into the graph, and what it leaves into the variables."""
        carried = self._first()
        test = _traced(self._condition, carried)
        given = _fresh([*lift([test, body]), *carried], set())
        outer, first = given[: -len(carried)], given[-len(carried) :]
        try:
            with preserve_node_meta():  # so that the operators in both graphs keep the user's lines
                results = iter(torch.ops.higher_order.while_loop(test, body, first, outer))
        except RuntimeError as error:
            raise Refused(f"torch.while_loop does not take this loop: {str(error).partition(chr(10))[0]}") from error
        for tensor, _ in self._written.values():
            tensor.copy_(next(results))
        current().guards += [replace(guard, fires=next(results)) for guard in self._guards]
        self._put(results)

    def _first(self) -> list[torch.Tensor]:
        written = [tensor for tensor, _ in self._written.values()]
        fired = [torch.zeros((), dtype=torch.bool) for _ in self._guards]
        return [*written, *fired, *(t for v in self._variables.values() for t in v.first())]

    def _put(self, tensors: Iterator[torch.Tensor]) -> None:
        for slot, variable in self._variables.items():
            self._before.put(slot, variable.build([next(tensors) for _ in range(variable.count)]))

    def _install(self, tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Let every slot hold what a pass starts from. Returns the tensors written in place, and the guards."""
        given = iter(tensors)
        written = [next(given).clone() for _ in self._written]
        for copy, (_, slots) in zip(written, self._written.values()):
            for slot in slots:
                self._before.put(slot, copy)
        fired = [next(given) for _ in self._guards]
        self._put(given)
        return written, fired

    def _pass(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with _inside(self._before) as session:
            self._writes = session.region_writes
            written, fired = self._install(tensors)
            held = self._test()
            if decides_on_data(held):
                self._before.assume(facts_of(condition(held)))
            started = self._before.now()
            self._body()
            later = self._before.now()
            self._grow(started, later, session.guards)
            if self._grown:
                return ()
            left = later.slots()
            self._check_names(left, written, tensors)
            fired = [torch.logical_or(old, new.fires) for old, new in zip(fired, session.guards)]
            results = [t for slot, v in self._variables.items() for t in v.outputs(left[slot])]
            return _fresh([*written, *fired, *results], {*self._known, *map(storage, tensors)})

    def _grow(self, started: World, later: World, guards: Sequence[Guard]) -> None:
        """Note what is not carried yet."""
        if len(guards) != len(self._guards):
            self._guards, self._grown = list(guards), True
        first = self._before.slots()
        for slot, value in started.differences(later):
            if slot not in self._variables:
                self._variables[slot] = Variable(first.get(slot, MISSING), value)
                self._grown = True
        left = later.slots()
        for slot, variable in self._variables.items():
            self._grown |= variable.widen(left[slot])

    def _condition(self, *tensors: torch.Tensor) -> torch.Tensor:
        with _inside(self._before):
            self._install(tensors)
            started = self._before.now()
            held = self._test()
            if any(True for _ in started.differences(self._before.now())):
                raise Refused("the condition of this loop changes a variable")
            if not decides_on_data(held):
                raise Refused("nothing that changes from pass to pass ends this loop", "loop-bound-unknown")
            running = condition(held).tensor
            if self._mask is not None:
                running = torch.logical_and(self._mask, running)
            return _fresh([running], {storage(t) for t in tensors})[0]

    def _find_writes(self, graph: fx.GraphModule) -> None:
        """Carry the tensors from outside that the pass writes to. Raises Refused where one has several names."""
        outer = {storage(t) for t in constants(graph).values() if not isinstance(t, fx.GraphModule)}
        for written, place in self._writes:
            key = storage(written)
            if key not in outer or key in self._written:
                continue
            slots = {s: v for s, v in self._before.slots().items() if not isinstance(v, list | dict | deque)}
            named = [(s, t, v) for s, v in slots.items() for t in _tensors(v) if storage(t) == key]
            whole = all(value is t and t._base is None for _, t, value in named)
            if len({id(t) for _, t, _ in named}) != 1 or not whole:
                raise Refused.at(
                    place, "this loop writes in place to a tensor that has another name, or is part of another"
                )
            self._written[key] = (named[0][1], [s for s, *_ in named])
            self._grown = True

    def _check_names(self, left: Mapping[Slot, Any], written: Sequence[torch.Tensor], inputs: Iterable[Any]) -> None:
        """Raise Refused where a tensor is written in place and its name is given to another."""
        kept = all(left[s] is copy for copy, (_, slots) in zip(written, self._written.values()) for s in slots)
        started = {storage(t) for t in inputs}
        place = next((p for t, p in self._writes if storage(t) in started), None)
        if not kept or place is not None:
            raise Refused.at(place, "this loop writes in place to a tensor, and gives its name to another")


@contextmanager
def _inside(before: World) -> Iterator[Session]:
    """A session for one pass: it runs under no mask, because it only runs where the loop does."""
    session = current()
    inner = replace(
        session,
        masks=[],
        held=[],
        guards=[],
        aliases=Aliases(),
        region_writes=[],
        loops_around=session.loops_around + 1,
    )
    try:
        with inner.active():
            yield inner
    finally:
        before.restore()


def _traced(function: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> fx.GraphModule:
    """The graph of `function`, as torch's own operators trace theirs (torch/_higher_order_ops/while_loop.py)."""
    tracer: Any = proxy_tensor._CURRENT_MAKE_FX_TRACER
    mode = detect_fake_mode(tensors)
    environment = mode.shape_env if mode is not None else None
    ignored = environment.ignore_fresh_unbacked_symbols() if environment is not None else nullcontext()
    with proxy_tensor.disable_proxy_modes_tracing(), ignored:
        placeholders = [t.clone() for t in tensors]
        for placeholder in placeholders:
            if getattr(placeholder, "constant", None) is not None:
                placeholder.constant = None  # type: ignore[attr-defined]
        graph: fx.GraphModule = tracer.trace_subgraph(function, *placeholders)
    return graph


def constants(graph: fx.GraphModule) -> dict[fx.Node, Any]:
    """What a traced graph holds of the outside: tensors, and the graphs of regions inside it."""
    return {n: getattr(graph, str(n.target)) for n in graph.graph.find_nodes(op="get_attr")}


def lift(graphs: Sequence[fx.GraphModule]) -> list[torch.Tensor]:
    """Let tensors from outside be inputs of all `graphs`, behind their own. Returns them."""
    held = [constants(graph) for graph in graphs]
    outer = {id(t): t for found in held for t in found.values() if isinstance(t, torch.Tensor)}
    for graph, found in zip(graphs, held):
        anchor = [*graph.graph.find_nodes(op="placeholder")][-1]
        places: dict[int, fx.Node] = {}
        for number, (key, tensor) in enumerate(outer.items()):
            with graph.graph.inserting_after(anchor):
                anchor = places[key] = graph.graph.placeholder(f"outer_{number}")
            anchor.meta["val"] = tensor
        for node, value in found.items():
            if isinstance(value, torch.Tensor):
                node.replace_all_uses_with(places[id(value)])
                graph.graph.erase_node(node)
        graph.graph.eliminate_dead_code()
        graph.graph.lint()
        graph.recompile()
    return [t if hasattr(t, "fake_mode") else torch.ops.aten.lift_fresh_copy.default(t) for t in outer.values()]


def _fresh(tensors: Sequence[torch.Tensor], known: set[int]) -> tuple[torch.Tensor, ...]:
    """The tensors, each with memory of its own that is none of `known`: what a loop takes and gives never overlaps."""
    results = []
    for tensor in tensors:
        owned = tensor.clone() if storage(tensor) in known else tensor.contiguous()
        known.add(storage(owned))
        results.append(owned)
    return tuple(results)


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
