"""Operators that have two names get the first: torch.multiply is torch.mul, and that is what rules and passes know.

Source: torch/csrc/jit/passes/normalize_ops.cpp lists PyTorch's operator aliases.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from graphaudit.graphs.program import Program

_SYNONYMS = {
    "absolute": "abs", "negative": "neg", "fix": "trunc", "clip": "clamp", "multiply": "mul", "divide": "div",
    "true_divide": "div", "subtract": "sub", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le",
    "not_equal": "ne", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan",
    "arctanh": "atanh", "arctan2": "atan2", "concat": "cat", "concatenate": "cat", "moveaxis": "movedim",
    "special_expit": "sigmoid", "special_exp2": "exp2", "special_expm1": "expm1", "special_erf": "erf",
    "special_erfc": "erfc", "special_erfinv": "erfinv", "special_gammaln": "lgamma", "special_psi": "digamma",
    "special_digamma": "digamma", "special_log1p": "log1p", "special_logit": "logit",
    "special_logsumexp": "logsumexp", "special_sinc": "sinc", "special_i0": "i0", "ger": "outer",
    "special_multigammaln": "mvlgamma", "special_polygamma": "polygamma",
}  # fmt: skip


def with_first_names(program: Program) -> Program:
    """The program with one name for each operator. Changes it in place."""
    changed = False
    for module in program.exported.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, fx.GraphModule) else ():
            first = _first(node.target) if node.op == "call_function" else None
            if first is not None:
                node.target = first
                changed = True
    return program.finish() if changed else program


def _first(target: Any) -> Any:
    """The overload of the first name that takes the same arguments; None for an operator with one name."""
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return None
    packet = getattr(torch.ops.aten, _SYNONYMS.get(target._schema.name.removeprefix("aten::"), ""), None)
    found = getattr(packet, target._overloadname, None)
    if found is None or [a.name for a in found._schema.arguments] != [a.name for a in target._schema.arguments]:
        return None
    return found
