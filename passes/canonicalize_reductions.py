"""Reductions over everything name the dimensions that they run over.

    amax(x)  →  amax(x, (0, 1, …))
    amin(x)  →  amin(x, (0, 1, …))

- An empty list of dimensions means all of them, too; a 0-d x is the result itself.
- Left alone: nothing.

torch's exporter has no translation for the spelling without dimensions. The results are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from torch import Tensor, fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.program import Program
from graphaudit.rewrite.operator_pass import Function, OperatorPass, argument
from graphaudit.rulebook.target import Target


class CanonicalizeReductions(OperatorPass):
    """amax and amin of a whole tensor → over all its dimensions."""

    name = "canonicalize_reductions"
    fixes = ("unsupported-op",)
    target_ops = frozenset({"aten.amax", "aten.amin"})
    runs_after = ("remove_inference_noops", "convert_bool_arithmetic")
    claims = Claim.EQUIVALENT

    def calls(self, program: Program) -> Iterator[fx.Node]:
        """Calls without dimensions."""
        return (node for node in super().calls(program) if not argument(node, "dim"))

    def replacement(self, program: Program, node: fx.Node, target: Target) -> Function | str:
        """The same call with all dimensions."""
        return partial(_whole, node.target, bool(argument(node, "keepdim")))


def _whole(call: Function, keepdim: bool, x: Tensor, *_dims: Any, **_named: Any) -> Tensor:
    return call(x, tuple(range(x.dim())), keepdim) if x.dim() else x.clone()  # type: ignore[no-any-return]
