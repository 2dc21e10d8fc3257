"""Softmax, log-softmax, log-sum-exp and softplus written out by hand, found in a captured program.

The checks that report them and the passes that rewrite them share these matchers, so a finding and its fix never
disagree. A candidate that cannot be rewritten is still a match; its `reason` says why not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from graphaudit.graphs.view import GraphView, Node, Value
from graphaudit.graphs.walk import (
    RESHAPES,
    aligned,
    base_op,
    is_copy,
    is_same,
    is_sum,
    kept_shape,
    number,
    operands,
    origin,
    producer,
    reduced_dims,
    reduction_behind,
)

# What picks or reorders elements of its first input, and computes nothing.
_MOVES = RESHAPES | {
    f"aten.{name}"
    for name in (
        *("gather", "select", "slice", "index_select", "take_along_dim", "expand", "permute", "transpose", "t", "flip"),
        *("diagonal", "squeeze", "flatten", "index"),
    )
}


@dataclass(frozen=True)
class Match:
    """`node` computes the function `kind` of `input` over `dims`: softmax, masked_softmax, log_softmax, logsumexp or
    softplus.

    stable     whether the maximum is subtracted before exp, so that nothing overflows as written
    exponent   the exp as written, for the message
    keepdim    for logsumexp: whether the reduced dimensions stay, with size 1
    mean       for logsumexp: whether it is the log of the mean, not of the sum
    mask       for masked_softmax: what the exponentials are multiplied by before they are summed
    moves      for log_softmax: what picks elements of it or reshapes it, in order
    epsilon    what is added to the sum, or (`bounded`) what bounds it from below
    reason     why the node cannot be replaced; empty if it can
    """

    kind: str
    node: Node
    input: Value
    dims: tuple[int, ...] = ()
    stable: bool = False
    exponent: Node | None = None
    keepdim: bool = False
    mean: bool = False
    reason: str = ""
    mask: Value | None = None
    moves: tuple[Node, ...] = ()
    epsilon: float = 0.0
    bounded: bool = False


def find_softmax(view: GraphView) -> Iterator[Match]:
    """`exp(x) / sum(exp(x))` and `exp(x - logsumexp(x))`."""
    for node in view.nodes:
        op = base_op(node)
        match = None
        if op in ("aten.div", "aten.mul"):
            match = _quotient(view, node)
        elif op == "aten.exp":
            match = _exp_of_difference(view, node)
        if match is not None:
            yield match


def find_log_softmax(view: GraphView) -> Iterator[Match]:
    """`log(softmax(x))`, of some of its elements too: `log(softmax(x).gather(-1, action))`."""
    for node in view.select("aten.log"):
        moves: list[Node] = []
        source = view.producer(node.inputs[0])
        while source is not None and (is_copy(source) or base_op(source) in _MOVES):
            moves.insert(0, source)
            source = view.producer(source.inputs[0])
        if source is None or source.op not in ("aten.softmax.int", "aten._softmax.default"):
            continue
        given = source.inputs[0]
        dims = reduced_dims(source)
        if given is not None and dims:
            reason = _dtype_reason(given, node)
            moved = tuple(moves)
            yield Match("log_softmax", node, given, dims, stable=False, exponent=source, reason=reason, moves=moved)


def find_logsumexp(view: GraphView) -> Iterator[Match]:
    """`log(sum(exp(x)))`, `log(mean(exp(x)))`, and `max + log(sum(exp(x - max)))`."""
    inside: set[str] = set()
    logs = {n.name: m for n in view.select("aten.log") if (m := _log_of_sum(view, n)) is not None}
    for node in view.select("aten.add"):
        for part, rest in _both_ways(node):
            log = producer(view, part) if isinstance(part, Value) else None
            match = logs.get(log.name) if log is not None else None
            if match is not None and match.stable and isinstance(rest, Value):
                whole = _maximum_added_back(view, node, match, rest)
                if whole is not None:
                    inside.add(match.node.name)
                    yield whole
                    break
    for name, match in logs.items():
        if name not in inside:
            reason = match.reason or ("the maximum is subtracted already" if match.stable else "")
            yield replace(match, reason=reason)


def find_softplus(view: GraphView) -> Iterator[Match]:
    """`log(1 + exp(x))` and `log1p(exp(x))`."""
    for node in view.select("aten.log", "aten.log1p"):
        inner = producer(view, node.inputs[0])
        if base_op(node) == "aten.log":
            if base_op(inner) != "aten.add" or inner is None or inner.attributes.get("alpha", 1) != 1:
                continue
            pairs = [(a, b) for a, b in _both_ways(inner) if isinstance(a, Value) and number(view, b) == 1.0]
            inner = producer(view, pairs[0][0]) if pairs and isinstance(pairs[0][0], Value) else None
        if inner is not None and base_op(inner) == "aten.exp" and inner.inputs[0] is not None:
            reason = _dtype_reason(inner.inputs[0], node)
            if not reason and inner.inputs[0].shape != node.outputs[0].shape:
                reason = "adding the 1 changes the shape"
            yield Match("softplus", node, inner.inputs[0], exponent=inner, reason=reason)


def _quotient(view: GraphView, node: Node) -> Match | None:
    """`e / sum(e)` or `e * reciprocal(sum(e))`, where `e` is an exp or a product with one."""
    if node.attributes.get("rounding_mode") is not None or len(operands(node)) != 2:
        return None  # the number that a Python scalar divides by is a size or comes from .item()
    for numerator, denominator in _both_ways(node) if base_op(node) == "aten.mul" else [operands(node)]:
        if not isinstance(numerator, Value) or not isinstance(denominator, Value):
            continue
        if base_op(node) == "aten.mul":
            inverted = _inverted(view, denominator)
            if inverted is None:
                continue
            denominator = inverted
        match = _over_sum(view, node, numerator, denominator)
        if match is not None:
            return match
    return None


def _inverted(view: GraphView, value: Value) -> Value | None:
    """`s` if `value` is 1 / s, which is captured as a reciprocal, often times 1."""
    node = producer(view, value)
    if node is not None and base_op(node) == "aten.mul":
        tensors = [a for a, b in _both_ways(node) if isinstance(a, Value) and number(view, b) == 1.0]
        node = producer(view, tensors[0]) if tensors else None
    return node.inputs[0] if node is not None and base_op(node) == "aten.reciprocal" else None


def _over_sum(view: GraphView, node: Node, numerator: Value, denominator: Value) -> Match | None:
    total, epsilon, bounded = _without_epsilon(view, denominator)
    found = reduction_behind(view, total, numerator.shape or ())
    if found is None or not is_same(view, found[0].inputs[0], numerator):
        return None
    if not is_sum(found[0]) and not (_is_sum_of_sizes(found[0]) and base_op(producer(view, numerator)) == "aten.exp"):
        return None
    if total is not denominator:
        kept = kept_shape(numerator.shape or (), reduced_dims(found[0]) or ())
        outer = origin(view, denominator, lambda n: is_copy(n) or base_op(n) == "aten.expand")
        found = found[0], outer is not None and aligned(outer.shape or ()) == aligned(kept)
    total_node, lines_up = found
    renormalised = _renormalised(view, node, numerator, found, epsilon)
    if renormalised is not None:
        return renormalised
    exponential, mask = _exp_behind(view, numerator)
    if exponential is None or exponential.inputs[0] is None:
        return None
    dims = reduced_dims(total_node) or ()
    argument, stable = _without_maximum(view, exponential.inputs[0], dims)
    reason = ""
    if mask is not None and (stable or mask.dtype not in ("bool", numerator.dtype)):
        reason = "the exponentials are multiplied by something before they are summed"
    elif not lines_up:
        reason = "the sum is not broadcast along the dimension it was taken over"
    elif len(dims) != 1 and mask is None and stable:
        reason = f"the sum runs over {len(dims)} dimensions, softmax over one"
    elif epsilon and stable and not (abs(epsilon) <= 2.0**-25 and numerator.dtype == "float32"):
        # With the maximum subtracted the sum is at least 1, and float32 rounds 1 + 2**-25 to 1.
        reason = f"{epsilon:g} is added to the sum"
    elif epsilon < 0:
        reason = "the sum is made smaller"
    elif numerator.shape != node.outputs[0].shape:
        reason = "the division changes the shape"
    elif total_node.attributes.get("dtype") is not None:
        reason = "the sum is taken in another dtype"
    kind, reason = "softmax" if mask is None else "masked_softmax", reason or _dtype_reason(argument, node)
    match = Match(kind, node, argument, dims, stable, exponential, reason=reason, mask=mask)
    return match if stable else replace(match, epsilon=epsilon, bounded=bounded)


def _renormalised(
    view: GraphView, node: Node, numerator: Value, total: tuple[Node, bool], epsilon: float
) -> Match | None:
    """`p * m / sum(p * m)`, p a softmax over the same dimension: its own sum cancels."""
    product, dims = producer(view, numerator), reduced_dims(total[0]) or ()
    for part, mask in _both_ways(product) if product is not None and base_op(product) == "aten.mul" else ():
        softmax = producer(view, part) if isinstance(part, Value) else None
        if base_op(softmax) not in ("aten.softmax", "aten._softmax") or softmax is None or not isinstance(mask, Value):
            continue
        given = softmax.inputs[0]
        if given is None or reduced_dims(softmax) != dims or mask.dtype not in ("bool", numerator.dtype):
            continue
        if epsilon or not total[1] or numerator.shape != node.outputs[0].shape or given.shape != numerator.shape:
            return None
        reason = _dtype_reason(given, node)
        return Match("masked_softmax", node, given, dims, True, softmax, reason=reason, mask=mask)
    return None


def _exp_of_difference(view: GraphView, node: Node) -> Match | None:
    difference = producer(view, node.inputs[0])
    if difference is None or base_op(difference) != "aten.sub" or difference.attributes.get("alpha", 1) != 1:
        return None
    tensors = _two_tensors(difference)
    if tensors is None:
        return None
    source, subtracted = tensors
    found = reduction_behind(view, subtracted, source.shape or ())
    if found is None or base_op(found[0]) != "aten.logsumexp" or not is_same(view, found[0].inputs[0], source):
        return None
    dims = reduced_dims(found[0]) or ()
    if not found[1]:
        reason = "the logsumexp is not broadcast along the dimension it was taken over"
    elif len(dims) != 1:
        reason = f"the logsumexp runs over {len(dims)} dimensions, softmax over one"
    else:
        reason = _dtype_reason(source, node)
    return Match("softmax", node, source, dims, stable=True, exponent=node, reason=reason)


def _log_of_sum(view: GraphView, node: Node) -> Match | None:
    if node.inputs[0] is None:
        return None
    sum_, epsilon, bounded = _without_epsilon(view, node.inputs[0])
    total = producer(view, sum_)
    # Reshaping between the sum and the log is harmless, but then the result has another shape than logsumexp's.
    if sum_.shape != node.outputs[0].shape or epsilon < 0:
        return None
    if total is None or not (is_sum(total) or base_op(total) == "aten.mean"):
        return None
    exponential, mask = _exp_behind(view, total.inputs[0])
    if exponential is None or exponential.inputs[0] is None:
        return None
    dims = reduced_dims(total) or ()
    argument = exponential.inputs[0]
    _, stable = _without_maximum(view, argument, dims)
    mean = base_op(total) == "aten.mean"
    if (mask is not None or epsilon) and (stable or mean or not _fits(exponential, total, mask)):
        return None
    if total.attributes.get("dtype") is not None:
        reason = "the sum is taken in another dtype"
    elif mean and not all(isinstance((argument.shape or ())[d], int) for d in dims):
        reason = "the mean runs over a dimension of unknown size"
    elif not dims:
        reason = "the sum runs over no dimension"
    else:
        reason = _dtype_reason(argument, node)
    keepdim = bool(total.attributes.get("keepdim", False))
    kept = (mask, (), epsilon, bounded)
    return Match("logsumexp", node, argument, dims, stable, exponential, keepdim, mean, reason, *kept)


def _fits(exponential: Node, total: Node, mask: Value | None) -> bool:
    """Whether a mask neither broadens the exponentials nor changes their dtype."""
    source, summed = exponential.outputs[0], total.inputs[0]
    return mask is None or (
        summed is not None and summed.shape == source.shape and mask.dtype in ("bool", source.dtype)
    )


def _maximum_added_back(view: GraphView, node: Node, log: Match, rest: Value) -> Match | None:
    """`m + log(sum(exp(x - m)))` as one logsumexp of x, if `rest` is that m."""
    source, _ = _without_maximum(view, log.input, log.dims)
    found = reduction_behind(view, rest, source.shape or ())
    if (
        found is None
        or base_op(found[0]) not in ("aten.amax", "aten.max")
        or not is_same(view, found[0].inputs[0], source)
    ):
        return None
    if reduced_dims(found[0]) != log.dims or node.attributes.get("alpha", 1) != 1:
        return None
    reason = log.reason
    if not reason and not rest.shape == log.node.outputs[0].shape == node.outputs[0].shape:
        reason = "the maximum is added back in another shape"
    return replace(log, node=node, input=source, reason=reason)


def _without_maximum(view: GraphView, argument: Value, dims: tuple[int, ...]) -> tuple[Value, bool]:
    """`x` and True if `argument` is `x` minus its maximum over `dims`, else `argument` and False."""
    difference = producer(view, argument)
    if difference is None or base_op(difference) != "aten.sub" or difference.attributes.get("alpha", 1) != 1:
        return argument, False
    tensors = _two_tensors(difference)
    if tensors is None:
        return argument, False
    source, subtracted = tensors
    bound = producer(view, subtracted)
    if bound is not None and base_op(bound) in ("aten.clamp", "aten.clamp_min") and bound.inputs[0] is not None:
        subtracted = bound.inputs[0]
    found = reduction_behind(view, subtracted, source.shape or ())
    if found is None or not found[1] or not is_same(view, found[0].inputs[0], source):
        return argument, False
    subtracts_bound = base_op(found[0]) in ("aten.amax", "aten.max", "aten.logsumexp")
    if subtracts_bound and reduced_dims(found[0]) == dims and source.shape == argument.shape:
        return source, True
    return argument, False


def _exp_behind(view: GraphView, value: Value | None) -> tuple[Node | None, Value | None]:
    """The exp that `value` is, or is a product with; and the other factor of such a product."""
    node = producer(view, value)
    if base_op(node) == "aten.exp":
        return node, None
    if node is not None and base_op(node) == "aten.mul":
        for part, other in _both_ways(node):
            inner = producer(view, part) if isinstance(part, Value) else None
            if base_op(inner) == "aten.exp" and isinstance(other, Value):
                return inner, other
    return None, None


def _without_epsilon(view: GraphView, value: Value) -> tuple[Value, float, bool]:
    """`value` without a small number that is added to it, that number (0.0 if there is none), and if it is a bound."""
    inner = origin(view, value, lambda n: is_copy(n) or base_op(n) in RESHAPES | {"aten.expand"})
    node = view.producer(inner)
    if node is not None and base_op(node) == "aten.add" and node.attributes.get("alpha", 1) == 1:
        for part, rest in _both_ways(node):
            added = number(view, rest)
            if isinstance(part, Value) and added is not None and abs(added) < 1e-2:
                return part, added, False
    clamp = node if node is not None and base_op(node) in ("aten.clamp", "aten.clamp_min") else None
    if clamp is not None and clamp.attributes.get("min") and clamp.inputs[0] is not None:
        return clamp.inputs[0], float(clamp.attributes["min"]), True
    return value, 0.0, False


def _is_sum_of_sizes(node: Node) -> bool:
    """Whether a node is the 1-norm, which of exponentials is their sum."""
    return base_op(node) == "aten.linalg_vector_norm" and node.attributes.get("ord") == 1


def _two_tensors(node: Node) -> tuple[Value, Value] | None:
    first, second = operands(node) if len(operands(node)) == 2 else (0.0, 0.0)
    return (first, second) if isinstance(first, Value) and isinstance(second, Value) else None


def _both_ways(node: Node) -> Iterator[tuple[Value | float, Value | float]]:
    parts = operands(node)
    if len(parts) == 2:
        yield parts[0], parts[1]
        yield parts[1], parts[0]


def _dtype_reason(argument: Value, node: Node) -> str:
    """Integers become the result's dtype on the way; any other change of dtype is left alone."""
    result = node.outputs[0].dtype
    if argument.dtype == result or not (argument.dtype or "").startswith(("float", "bfloat", "complex")):
        return ""
    return f"the input is {argument.dtype} and the result {result}"
