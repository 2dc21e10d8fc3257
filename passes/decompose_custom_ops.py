"""Custom operators become ATen operators: those of their plain version, or those that their Python kernels call.

    rl::symexp(x, 0.7), registered with torch.library      →  mul(sign(x), sub(exp(mul(abs(x), 0.7)), 1))

- The kernel that PyTorch would run on the CPU is traced on the node's own shapes and dtypes, sizes that vary included,
  whichever way it was registered: `custom_op`, `Library.impl`, for the CPU or for every device.
- An operator that is registered with `graphaudit.register_custom_op` becomes its plain version, whatever its kernel is;
  for a target that takes it as a node of its own (`onnx=OnnxNode(...)`), it stays.
- A custom operator that calls another one is followed down to ATen. Writes inside the kernel are made functional.
- An operator that writes to its arguments (`mutates_args`) writes to a copy, which is read from then on.
- Left alone without a plain version: kernels that are compiled, whose inside nobody can see; and kernels that leave
  PyTorch on the way (NumPy, `.item()`), of which a trace would keep one call's answer.

Of a kernel the results are exact: the same operators run in the same order. A plain version was compared with the
operator when it was registered, and is again by the check of this pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import fx

from graphaudit.custom_ops import find
from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.fx_view import operator_name
from graphaudit.graphs.namespaces import is_custom
from graphaudit.graphs.program import Program
from graphaudit.rewrite.base import PassResult
from graphaudit.rewrite.edit import trace_function
from graphaudit.rewrite.operator_pass import Function, OperatorPass
from graphaudit.rulebook.target import Target

_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
# The dispatcher takes the first of these that is registered (docs of torch.library, dispatch keys).
_KERNELS = ("CPU", "CompositeExplicitAutograd[alias]", "CompositeImplicitAutograd[alias]")
_REGISTER = "a plain version of it can be registered with graphaudit.register_custom_op"
_REGISTERED = re.compile(r"^(\S+): registered at (.*):\d+ ::", re.MULTILINE)


class DecomposeCustomOps(OperatorPass):
    """Custom operators → what their Python kernels compute."""

    name = "decompose_custom_ops"
    fixes = ("custom-op", "unsupported-op")
    runs_after = ()
    runs_before = ("fold_seeded_draws", "hoist_noise", "remove_inference_noops")
    claims = Claim.EQUIVALENT

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Replace every call, and those that come up with it, until none can be replaced."""
        result = latest = super().run(artifact, target)
        while latest.changed:
            latest = super().run(artifact, target)
            result.left = latest.left
        return result

    def calls(self, program: Program) -> Iterator[fx.Node]:
        """The calls of custom operators, those that write to their arguments included."""
        for module in program.exported.graph_module.modules():
            for node in module.graph.nodes if isinstance(module, fx.GraphModule) else ():
                if node.op == "call_function" and is_custom(operator_name(_operator(node))[1]):
                    yield node

    def replacement(self, program: Program, node: fx.Node, target: Target) -> Function | str:
        """The kernel, where it is Python and stays in PyTorch."""
        operator = _operator(node)
        if not isinstance(operator, torch._ops.OpOverload):
            return "it is no operator of PyTorch's dispatcher"
        custom = find(operator._schema.name)
        node_kept = custom.node_for(target.name) if custom else None
        if node_kept is not None and not _has_sizes(node):
            return f"it becomes the node {node_kept}"
        if custom is not None and custom.plain is not None:
            return _functional(custom.run_plain, node)
        file = _kernel_file(operator)
        if file is None:
            return "it has no kernel for the CPU"
        if not file.endswith(".py"):
            return "its kernel is compiled, so what it computes cannot be seen; " + _REGISTER
        kernel: Function = partial(operator.redispatch, _CPU)
        if operator is not node.target:
            names = [a.name for a in operator._schema.arguments if a.alias_info and a.alias_info.is_write]
            if any(f"_{name}_base_index" not in node.kwargs or f"_{name}_size" in node.kwargs for name in names):
                return "it writes to a list of tensors, or to a part that is no slice"
            kernel = partial(_written, kernel, names)
        made = _functional(kernel, node)
        return f"{made}; {_REGISTER}" if isinstance(made, str) else made


def _has_sizes(node: fx.Node) -> bool:
    """Whether a number among its arguments is a size that varies, which no attribute of an ONNX node can hold."""
    return any(not isinstance(n.meta.get("val"), torch.Tensor) for n in node.all_input_nodes)


def _functional(kernel: Function, node: fx.Node) -> Function | str:
    """`kernel` without writes, or why it cannot be traced on what `node` is given."""

    def functional(*args: object, **kwargs: object) -> object:
        return torch.func.functionalize(kernel)(*args, **kwargs)

    # NumPy would read the memory behind a functional tensor; the plain trace has none, and raises.
    return _why_not_traceable(kernel, node) or _why_not_traceable(functional, node) or functional


def _operator(node: fx.Node) -> object:
    """The operator that a node calls; one that writes to its arguments is wrapped by torch.export."""
    wrapped = str(node.target) == "auto_functionalized_v2" and isinstance(node.args[0], torch._ops.OpOverload)
    return node.args[0] if wrapped else node.target


def _written(kernel: Function, names: list[str], _: object, /, **kwargs: Any) -> tuple[object, ...]:
    """What torch's wrapper returns: the kernel's results, then each tensor that it wrote to."""
    bases = [tensor.clone() for tensor in kwargs.pop("_all_bases")]
    given = {name: _part(bases[kwargs.pop(f"_{name}_base_index")], name, kwargs) for name in names}
    results = kernel(**given, **kwargs)
    return (*(results if isinstance(results, tuple) else (results,)), *bases)


def _part(base: torch.Tensor, name: str, kwargs: dict[str, Any]) -> torch.Tensor:
    """The view of `base` that the argument `name` is; takes out of `kwargs` what the wrapper says of it."""
    if kwargs.pop(f"_{name}_alias", False) or f"_{name}_slice_dim" not in kwargs:
        return base
    dim, start, end = (kwargs.pop(f"_{name}_slice_{key}") for key in ("dim", "start", "end"))
    return torch.ops.aten.slice.Tensor(base, dim, start, end)


def _kernel_file(operator: torch._ops.OpOverload) -> str | None:
    """The source file of the kernel that runs on the CPU; None if there is none."""
    registered = dict(_REGISTERED.findall(torch._C._dispatch_dump(operator._schema.name)))
    return next((registered[key] for key in _KERNELS if key in registered), None)


def _why_not_traceable(kernel: Function, node: fx.Node) -> str:
    """Empty if the kernel runs on tensors without data."""
    try:
        trace_function(kernel, node.args, node.kwargs)
    except Exception as error:  # the user's kernel: whatever it raises means that it cannot be traced
        text = str(error).strip().partition("\n")[0]
        return f"its kernel cannot be traced: {type(error).__name__}: {text[:200]}"
    return ""
