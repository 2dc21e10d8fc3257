"""Softplus written out by hand becomes the operator that cannot overflow.

    log(1 + exp(x))   →  softplus(x)
    log1p(exp(x))     →  softplus(x)

- exp may have other readers; those keep it.
- An integer x is cast to the dtype that exp gave it.
- softplus returns x itself above its threshold: 20 for float32 and shorter dtypes, where log(1 + exp(x)) and x differ
  by less than half a unit in the last place (2.1e-9 against 9.5e-7), and 37 for float64 (8.5e-17 against 3.6e-15).

The results are equal where the original is finite. Above 88.72 in float32 (11.09 in float16, 709.78 in float64) the
original is infinite and the result is x, as the exact value is. Below -16.6 the original in float32 is exactly 0 when
it is written with log(1 + …), and the result is exp(x), at most 6e-8.
"""

from __future__ import annotations

import torch

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.exponentials import find_softplus
from graphaudit.graphs.fx_view import view_program
from graphaudit.graphs.program import Program
from graphaudit.rewrite.base import INSIDE_REGION, Level, Pass, PassResult, Site
from graphaudit.rewrite.edit import cast_call, insert_call, replace_node
from graphaudit.rulebook.target import Target


class RewriteSoftplus(Pass[Program]):
    """Hand-written softplus → `aten.softplus`."""

    name = "rewrite_softplus"
    level = Level.FX
    fixes = ("naive-softplus",)
    target_ops = frozenset({"aten.exp"})
    runs_after = ("remove_inference_noops", "rewrite_softmax")
    claims = Claim.WHERE_FINITE

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Replace every log(1 + exp(x)) of the main graph."""
        result = PassResult(artifact)
        nodes = {n.name: n for n in artifact.graph.nodes}
        for match in find_softplus(view_program(artifact)):
            site = Site(match.node.name, match.node.place, match.reason)
            if match.reason or match.node.graph:
                result.left.append(Site(site.node, site.place, match.reason or INSIDE_REGION))
                continue
            old = nodes[match.node.name]
            dtype = old.meta["val"].dtype
            source = cast_call(old, nodes[match.input.name], dtype)
            threshold = 37.0 if dtype is torch.float64 else 20.0
            new = insert_call(old, torch.ops.aten.softplus.default, (source, 1.0, threshold))
            replace_node(old, new)
            nodes[match.node.name] = new
            result.rewritten.append(site)
        if result.changed:
            artifact.finish()
        return result
