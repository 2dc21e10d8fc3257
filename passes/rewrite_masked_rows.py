"""A row of logits that is masked entirely gets a distribution instead of NaN.

    softmax(x, d)      →  where(max(x, d) == -inf, 0, softmax(x, d))
    log_softmax(x, d)  →  where(max(x, d) == -inf, -inf, log_softmax(x, d))

- Only where the graph shows -inf getting into x under a mask that varies: masked_fill, where, or the log of a mask.
- With the option `rows=uniform` such a row gets 1 / n, and -log(n), instead.
- Left alone: a softmax behind which the policy asks whether the result is NaN, because it has an answer of its own.
- Finite masks such as -1e9 need nothing: a row that is masked entirely is uniform up to rounding.

The results are the same, to the last bit, wherever the original is finite. Where every entry of a row is -inf the
original is NaN throughout. Zeros are what torch's own attention gives such a row since version 2.5
(aten::_safe_softmax), and make it drop out of any weighted sum; argmax of either is 0, as argmax of NaN is in torch.

Source: https://github.com/pytorch/pytorch/issues/131060
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.fx_view import view_program
from graphaudit.graphs.masks import is_masked, varying
from graphaudit.graphs.program import Program
from graphaudit.graphs.view import GraphView, Node
from graphaudit.graphs.walk import base_op, number, reduced_dims
from graphaudit.rewrite.base import Level, Pass, PassOptions, PassResult
from graphaudit.rewrite.edit import insert_function, replace_node
from graphaudit.rewrite.repair import why_left
from graphaudit.rulebook.target import Target

_SOFTMAX = ("aten.softmax", "aten._softmax", "aten.log_softmax", "aten._log_softmax")


class Options(PassOptions, frozen=True, kw_only=True):
    """`rows` is what a row gets whose every entry is masked."""

    rows: Literal["zeros", "uniform"] = "zeros"


class RewriteMaskedRows(Pass[Program]):
    """Rows masked entirely with -inf: zeros (or uniform) instead of NaN."""

    name = "rewrite_masked_rows"
    level = Level.FX
    fixes = ("softmax-all-masked",)
    target_ops = frozenset({"aten.softmax", "aten._softmax", "aten.log_softmax", "aten._log_softmax"})
    runs_after = ("remove_inference_noops", "rewrite_softmax", "rewrite_entropy")
    claims = Claim.WHERE_FINITE
    Options = Options

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Guard every softmax of the main graph that -inf can get into."""
        del target
        result = PassResult(artifact)
        view = view_program(artifact)
        names = varying(view)
        nodes = {n.name: n for n in artifact.graph.nodes}
        for node in view.select(*_SOFTMAX):
            dims = reduced_dims(node)
            if not dims or not is_masked(view, node.inputs[0], names) or _is_guarded(view, node):
                continue
            reason = why_left(view, node)
            if not reason:
                old = nodes[node.name]
                function = partial(_guarded, old.target, dims[0], self.options.rows == "uniform", "log" in node.op)
                nodes[node.name] = new = insert_function(old, function, old.args, old.kwargs)
                replace_node(old, new)
            result.record(node.name, node.place, reason)
        if result.changed:
            artifact.finish()
        return result


def _guarded(call: Any, dim: int, uniform: bool, logarithm: bool, x: Tensor, *rest: Any, **named: Any) -> Tensor:
    lost = x.amax(dim, keepdim=True) == -math.inf
    found = call(x, *rest, **named)
    if not uniform:
        return torch.where(lost, -math.inf if logarithm else 0.0, found)
    even = torch.ones_like(found) / x.shape[dim]
    return torch.where(lost, even.log() if logarithm else even, found)


def _is_guarded(view: GraphView, node: Node) -> bool:
    """Whether a where by max(x) == -inf reads the result, and nothing else."""
    readers = view.consumers(node.outputs[0])
    tests = [view.producer(r.inputs[0]) for r in readers if base_op(r) == "aten.where"]
    same = [
        t
        for t in tests
        if t is not None and base_op(t) == "aten.eq" and number(view, t.attributes.get("other")) == -math.inf
    ]
    return bool(readers) and len(same) == len(readers)
