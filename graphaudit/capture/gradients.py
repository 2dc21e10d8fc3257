"""Policies that take gradients in `forward`: the backward pass becomes operators of the graph.

torch.export traces above autograd, where a backward pass cannot be seen. So forward is traced below it first, by
`make_fx` and with autograd at work, into a graph that holds the formulas of the gradients; that graph then runs in
place of forward, and torch.export traces it as it would trace any forward.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn
from torch._functorch import eager_transforms
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import _DISPATCH_META_HANDLERS
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import stateless
from torch.overrides import _get_current_function_mode_stack, _pop_mode_temporarily
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from graphaudit.capture.backward import FORMULAS
from graphaudit.policy.isolation import other_forward


class TakesGradients(BaseException):
    """Autograd runs inside of the forward that is traced. No error, so that no handler of the policy's catches it."""


@contextmanager
def gradients_refused() -> Iterator[None]:
    """While it lasts, whatever starts autograd raises TakesGradients."""
    # What torch.autograd.grad, Tensor.backward and torch.autograd.functional, then torch.func's transforms start with.
    engine, transforms = importlib.import_module("torch.autograd"), vars(eager_transforms)
    kept = [
        (vars(engine), "_engine_run_backward"),
        (transforms, "grad_increment_nesting"),
        (transforms, "jvp_increment_nesting"),
    ]
    originals = [table[name] for table, name in kept]
    try:
        for table, name in kept:
            table[name] = _refused
        yield
    finally:
        for (table, name), original in zip(kept, originals):
            table[name] = original


def _refused(*_: Any, **__: Any) -> Any:
    raise TakesGradients("autograd runs inside forward")


@contextmanager
def traced_gradients(module: nn.Module) -> Iterator[None]:
    """While it lasts, a traced call of `module` runs the graph of its forward, backward passes included."""
    forward = module.forward

    @functools.wraps(forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        return _through_a_graph(module, forward, args, kwargs)

    with other_forward(module, run):
        yield


def _through_a_graph(module: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    leaves, spec = pytree.tree_flatten((args, kwargs))
    at = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    held = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    leaf_of_autograd = {name for name, p in module.named_parameters() if p.requires_grad}
    results: list[Any] = []

    def flat(*tensors: torch.Tensor) -> list[torch.Tensor]:
        given = list(leaves)
        for index, tensor in zip(at, tensors):
            given[index] = tensor
        parts = {name: _leaf(t, name in leaf_of_autograd) for name, t in zip(held, tensors[len(at) :])}
        own_args, own_kwargs = pytree.tree_unflatten(given, spec)
        with stateless._reparametrize_module(module, parts, tie_weights=True):
            results[:] = pytree.tree_flatten(forward(*own_args, **own_kwargs))
        return [leaf for leaf in results[0] if isinstance(leaf, torch.Tensor)]

    tensors = [*(leaves[i] for i in at), *held.values()]
    graph = _traced(flat, tensors)
    with torch.fx.traceback.preserve_node_meta():
        computed = iter(torch.fx.Interpreter(graph).run(*tensors))
    outputs, out_spec = results
    return pytree.tree_unflatten([next(computed) if isinstance(o, torch.Tensor) else o for o in outputs], out_spec)


def _leaf(tensor: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    """A parameter as a tensor that gradients are taken by; whatever else as it is, since forward may write to it."""
    return tensor.detach().requires_grad_() if requires_grad else tensor


def _traced(function: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> torch.fx.GraphModule:
    """The graph of a function below autograd, apart from the trace that is going on."""
    with ExitStack() as stack:
        stack.enter_context(_disable_current_modes())
        for _ in _get_current_function_mode_stack():  # type: ignore[no-untyped-call]
            stack.enter_context(_pop_mode_temporarily())
        fake = detect_fake_mode(tensors)
        if fake is not None:
            stack.enter_context(fake)  # sizes that vary are known to it
        stack.enter_context(_sizes_as_they_are())
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))  # the other kernels have backward passes of their own
        trace = make_fx(function, _formulas(), _allow_non_fake_inputs=True, record_stack_traces=True)
        graph = trace(*tensors)
    for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten.detach.default):
        node.replace_all_uses_with(node.args[0])  # below autograd it is the tensor itself
        graph.graph.erase_node(node)
    for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten._linalg_check_errors.default):
        graph.graph.erase_node(node)  # it raises where eager does, and gives nothing
    return graph


@contextmanager
def _sizes_as_they_are() -> Iterator[None]:
    """While it lasts, torch.func gets the sizes of this trace where it asks for integers, as it does to see whether a
    size is 1. A graph that they end up in is another at other sizes, which the second capture finds."""
    original = _DISPATCH_META_HANDLERS[torch.ops.aten.size.default]
    _DISPATCH_META_HANDLERS[torch.ops.aten.size.default] = _hints
    try:
        yield
    finally:
        _DISPATCH_META_HANDLERS[torch.ops.aten.size.default] = original


def _hints(args: Any) -> tuple[int, ...]:
    return tuple(size if isinstance(size, int) else int(size.node.hint) for size in args[0].size())


@functools.cache
def _formulas() -> Mapping[Any, Callable[..., Any]]:
    """What operators that only backward passes hold are made of."""
    table: Any = torch._decomp.core_aten_decompositions()
    return {**{op: f for op, f in table.items() if "backward" in str(op)}, **FORMULAS}
