"""Softmax and log-sum-exp written out by hand become the operators that subtract the maximum first.

    exp(x) / exp(x).sum(d, keepdim=True)              →  softmax(x, d)
    exp(x) * (1 / exp(x).sum(d)).unsqueeze(d)         →  softmax(x, d)
    exp(x - m) / exp(x - m).sum(d, keepdim=True)      →  softmax(x, d)          m = x.amax(d, keepdim=True) and its kin
    exp(x - logsumexp(x, d, keepdim=True))            →  softmax(x, d)
    w = exp(x) * mask; w / w.sum(d, keepdim=True)     →  the same of w = exp(k - k.amax(d, keepdim=True)) * mask,
                                                         k = where(mask != 0, x, -inf)
    p = softmax(x, d) * mask; p / p.sum(d, keepdim=True)  →  the same
    exp(x) / (exp(x).sum(d, keepdim=True) + c)        →  w / (w.sum(d, keepdim=True) + c * exp(-m)),
                                                         w = exp(x - m), m = x.amax(d, keepdim=True).clamp(min=log(c))
    log(softmax(x, d))                                →  log_softmax(x, d)
    log(softmax(x, d).gather(d, i))                   →  log_softmax(x, d).gather(d, i); likewise select, slice, …
    log(exp(x).sum(dims))                             →  logsumexp(x, dims)
    log((exp(x) * mask).sum(dims) + c)                →  m + log((exp(x - m) * mask).sum(dims) + c * exp(-m))
    log(exp(x).mean(dims))                            →  logsumexp(x, dims) - log(n)
    m + log(exp(x - m).sum(dims))                     →  logsumexp(x, dims)

- exp may be one node or several equal ones, and may have other readers; those keep it.
- The sum may be reshaped (unsqueeze, view, expand), as long as it lines up with the dimension it was taken over.
- The sum may be an einsum that drops indices, and a number may bound it from below instead of being added; masked
  exponentials may have either.
- softmax runs over one dimension; over several it becomes exp(x - m) by its sum. The mask may hold weights.
- Left alone: masked exponentials from which a maximum is subtracted already, and sums with something added, where the
  maximum is subtracted and float32 does not round the addition away (from 2**-25 on, because the sum is at least 1).
- An integer x is cast to the dtype that exp gave it.

The results are equal where the original is finite. Where exp overflowed (float32: x > 88.72) or every exp underflowed
(x < -103.98), the original is NaN or infinite, and the result is the one that exact arithmetic gives. One thing
changes: beside a logit of +infinity, exp(x) / sum gives NaN there and 0 elsewhere, softmax gives NaN throughout.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import chain

import torch
from torch import Tensor, fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.exponentials import Match, find_log_softmax, find_logsumexp, find_softmax
from graphaudit.graphs.fx_view import view_program
from graphaudit.graphs.program import Program
from graphaudit.graphs.view import GraphView
from graphaudit.rewrite.base import INSIDE_REGION, Level, Pass, PassResult, Site
from graphaudit.rewrite.edit import cast_call, insert_call, insert_function, replace_node
from graphaudit.rulebook.target import Target

_aten = torch.ops.aten


class RewriteSoftmax(Pass[Program]):
    """Hand-written softmax, log-softmax and log-sum-exp → the stable operators."""

    name = "rewrite_softmax"
    level = Level.FX
    fixes = ("naive-softmax", "naive-logsumexp", "log-of-zero")
    target_ops = frozenset({"aten.exp", "aten.log", "aten.softmax", "aten._softmax"})
    runs_after = ("remove_inference_noops",)
    claims = Claim.WHERE_FINITE

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Rewrite until nothing matches: a softmax found in one round may be the softmax of a log in the next."""
        result = PassResult(artifact)
        written = {n.name for n in artifact.graph.nodes}  # by the policy, not by this pass
        while True:
            matches = list(_matches(view_program(artifact)))
            found = [m for m in matches if not m.reason and not m.node.graph]
            if not found:
                break
            nodes = {n.name: n for n in artifact.graph.nodes}
            for match in found:
                new = _build(match, nodes)
                replace_node(nodes[match.node.name], new)
                nodes[match.node.name] = new
                result.rewritten.append(Site(match.node.name, match.node.place))
            artifact.finish()
        for match in (m for m in matches if m.node.name in written):
            reason = match.reason or INSIDE_REGION
            result.left.append(Site(match.node.name, match.node.place, reason))
        return result


def _matches(view: GraphView) -> Iterator[Match]:
    return chain(find_softmax(view), find_log_softmax(view), find_logsumexp(view))


def _build(match: Match, nodes: dict[str, fx.Node]) -> fx.Node:
    old = nodes[match.node.name]
    source = cast_call(old, nodes[match.input.name], old.meta["val"].dtype)
    if match.kind in ("softmax", "masked_softmax") and (match.epsilon or (match.mask is None and len(match.dims) > 1)):
        others = (nodes[match.mask.name],) if match.mask is not None else ()
        guarded = partial(_guarded_softmax, match.dims, match.epsilon, match.bounded)
        return insert_function(old, guarded, (source, *others))  # type: ignore[no-any-return]
    if match.kind == "softmax":
        return insert_call(old, _aten.softmax.int, (source, match.dims[0]))
    if match.kind == "masked_softmax":
        assert match.mask is not None
        function = partial(_masked_softmax, match.dims)
        return insert_function(old, function, (source, nodes[match.mask.name]))  # type: ignore[no-any-return]
    if match.kind == "log_softmax":
        new = insert_call(old, _aten.log_softmax.int, (source, match.dims[0]))
        for move in (nodes[m.name] for m in match.moves):
            new = insert_call(old, move.target, (new, *move.args[1:]), move.kwargs)  # type: ignore[arg-type]
        return new
    if match.epsilon or match.mask is not None:
        others = (nodes[match.mask.name],) if match.mask is not None else ()
        summed = partial(_guarded_logsumexp, match.dims, match.keepdim, match.epsilon, match.bounded)
        return insert_function(old, summed, (source, *others))  # type: ignore[no-any-return]
    total = insert_call(old, _aten.logsumexp.default, (source, list(match.dims), match.keepdim))
    if not match.mean:
        return total
    count = math.prod(int((match.input.shape or ())[d]) for d in match.dims)
    return insert_call(old, _aten.sub.Tensor, (total, math.log(count)))


def _guarded_softmax(
    dims: tuple[int, ...], epsilon: float, bounded: bool, x: Tensor, mask: Tensor | None = None
) -> Tensor:
    """What is added to the sum of exp(x) shrinks with the maximum that is subtracted; the sum is then at least 1."""
    weights, total, _ = _scaled(dims, epsilon, bounded, x, mask)
    return weights / total


def _guarded_logsumexp(
    dims: tuple[int, ...], keepdim: bool, epsilon: float, bounded: bool, x: Tensor, mask: Tensor | None = None
) -> Tensor:
    """The logarithm of the sum, to which the maximum is added back."""
    _, total, largest = _scaled(dims, epsilon, bounded, x, mask)
    result = largest + total.log()
    return result if keepdim else result.squeeze(dims)


def _scaled(
    dims: tuple[int, ...], epsilon: float, bounded: bool, x: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """exp(x - m) times the mask, its sum with what is added to it, and m, the maximum of what the mask lets pass."""
    kept = torch.where(mask != 0, x, -math.inf) if mask is not None else x
    lowest = math.log(epsilon) if epsilon else torch.finfo(x.dtype).min
    largest = kept.amax(dims, keepdim=True).clamp(min=lowest)
    weights = (kept - largest).exp() if mask is None else (kept - largest).exp() * mask
    total = weights.sum(dims, keepdim=True)
    if not epsilon:
        return weights, total, largest
    least = (math.log(epsilon) - largest).exp()
    return weights, torch.maximum(total, least) if bounded else total + least, largest


def _masked_softmax(dims: tuple[int, ...], x: Tensor, mask: Tensor) -> Tensor:
    """The maximum of what the mask lets pass; one of all logits could leave nothing but underflow."""
    weights, total, _ = _scaled(dims, 0.0, False, x, mask)
    return weights / total
