"""Custom operators that are written in Python become the ATen operators that they call.

    rl::symexp(x, 0.7), registered with torch.library      →  mul(sign(x), sub(exp(mul(abs(x), 0.7)), 1))

- The kernel that PyTorch would run on the CPU is traced on the node's own shapes and dtypes, sizes that vary included,
  whichever way it was registered: `custom_op`, `Library.impl`, for the CPU or for every device.
- A custom operator that calls another one is followed down to ATen.
- Left alone: kernels that are compiled, whose inside nobody can see; and kernels that leave PyTorch on the way (NumPy,
  `.item()`), of which a trace would keep one call's answer.

The results are exact: the same operators run in the same order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.fx_view import operator_name
from graphaudit.graphs.namespaces import is_custom
from graphaudit.graphs.program import Program
from graphaudit.rewrite.base import PassResult
from graphaudit.rewrite.operator_pass import Function, OperatorPass
from graphaudit.rulebook.target import Target

_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
# The dispatcher takes the first of these that is registered (docs of torch.library, dispatch keys).
_KERNELS = ("CPU", "CompositeExplicitAutograd[alias]", "CompositeImplicitAutograd[alias]")
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
        """The calls of custom operators."""
        for module in program.exported.graph_module.modules():
            for node in module.graph.nodes if isinstance(module, fx.GraphModule) else ():
                if node.op == "call_function" and is_custom(operator_name(node.target)[1]):
                    yield node

    def replacement(self, program: Program, node: fx.Node, target: Target) -> Function | str:
        """The kernel, where it is Python and stays in PyTorch."""
        operator = node.target
        if not isinstance(operator, torch._ops.OpOverload):
            return "it is no operator of PyTorch's dispatcher"
        if operator._schema.is_mutable:
            return "it writes to its arguments"
        file = _kernel_file(operator)
        if file is None:
            return "it has no kernel for the CPU"
        if not file.endswith(".py"):
            return "its kernel is compiled, so what it computes cannot be seen"

        def kernel(*args: object, **kwargs: object) -> object:
            return operator.redispatch(_CPU, *args, **kwargs)

        reason = _why_not_traceable(kernel, node)
        return reason or kernel


def _kernel_file(operator: torch._ops.OpOverload) -> str | None:
    """The source file of the kernel that runs on the CPU; None if there is none."""
    registered = dict(_REGISTERED.findall(torch._C._dispatch_dump(operator._schema.name)))
    return next((registered[key] for key in _KERNELS if key in registered), None)


def _why_not_traceable(kernel: Function, node: fx.Node) -> str:
    """Empty if the kernel runs on tensors without data."""
    values = fx.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    try:
        with torch.no_grad():
            make_fx(lambda: kernel(*values[0], **values[1]), tracing_mode="symbolic", _allow_non_fake_inputs=True)()
    except Exception as error:  # the user's kernel: whatever it raises means that it cannot be traced
        text = str(error).strip().partition("\n")[0]
        return f"its kernel cannot be traced: {type(error).__name__}: {text[:200]}"
    return ""
