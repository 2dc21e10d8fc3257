"""Which numbers a value of a captured program can take, as far as the graph alone tells.

Interval arithmetic over the view, one rule for each operator that keeps or makes a bound. Intervals are closed and
allow for rounding: a sigmoid reaches 0 and 1, a softmax 0. A graph input can be anything, NaN aside.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

from graphaudit.graphs.intervals import ANY, INF, UNIT, Interval, even_power, guarded, hull, inverse, product, times
from graphaudit.graphs.view import GraphView, Node, Value
from graphaudit.graphs.walk import (
    COPIES,
    RESHAPES,
    base_op,
    is_same,
    operands,
    producer,
    reduced_dims,
    reduction_behind,
)

_OF_DTYPE = {"bool": UNIT, "uint8": Interval(0, 255), "int8": Interval(-128, 127)}


class Ranges:
    """The interval of every value of `view`."""

    def __init__(self, view: GraphView) -> None:
        self._view = view
        self._known: dict[str, Interval] = {}
        for node in view.nodes:
            rule = _RULES.get(base_op(node))
            found = rule(self, node) if rule is not None else ANY
            if math.isnan(found.low) or math.isnan(found.high):  # an infinite constant minus itself
                found = ANY
            for value in node.outputs:
                narrowed = _of_dtype(value)
                self._known[value.name] = narrowed if found == ANY else found
            if base_op(node) in ("aten.broadcast_tensors", "aten.meshgrid"):
                self._known.update((v.name, self.of(given)) for v, given in zip(node.outputs, node.inputs))
            if base_op(node) in _WITH_INDICES and len(node.outputs) > 1:
                self._known[node.outputs[1].name] = Interval(0, INF)

    def of(self, operand: Value | float | None) -> Interval:
        """The interval of a tensor, or of a Python number."""
        if operand is None:
            return ANY
        if not isinstance(operand, Value):
            return Interval(float(operand), float(operand))
        if operand.name not in self._known:
            self._known[operand.name] = _of_constant(operand) if operand.is_constant else _of_dtype(operand)
        return self._known[operand.name]

    def of_operands(self, node: Node) -> list[Interval]:
        """The intervals that an element-wise binary node combines, in order."""
        return [self.of(o) for o in operands(node)]

    def producer(self, value: Value | None) -> Node | None:
        """The node that computes a value."""
        return self._view.producer(value)

    def is_same(self, left: Value | None, right: Value | None) -> bool:
        """Whether two values hold the same numbers."""
        return is_same(self._view, left, right)

    def first(self, node: Node) -> Interval:
        """The interval of the first input."""
        return self.of(node.inputs[0]) if node.inputs else ANY

    def is_own_bound(self, node: Node) -> bool:
        """Whether a subtraction takes from a tensor its own maximum or log-sum-exp, or the greater of two."""
        parts = operands(node)
        if len(parts) != 2 or not all(isinstance(p, Value) for p in parts):
            return False
        source, subtracted = parts
        assert isinstance(source, Value) and isinstance(subtracted, Value)
        greater = producer(self._view, subtracted)
        if base_op(greater) == "aten.maximum" and greater is not None:
            return any(v is not None and is_same(self._view, v, source) for v in greater.inputs)
        found = reduction_behind(self._view, subtracted, source.shape or ())
        return (
            found is not None
            and found[1]
            and base_op(found[0]) in ("aten.amax", "aten.max", "aten.logsumexp")
            and is_same(self._view, found[0].inputs[0], source)
        )

    def is_square(self, node: Node) -> bool:
        """Whether a product multiplies a tensor with itself."""
        parts = operands(node)
        return len(parts) == 2 and all(isinstance(p, Value) for p in parts) and is_same(self._view, *parts)  # type: ignore[arg-type]


Rule = Callable[[Ranges, Node], Interval]


def _of_dtype(value: Value) -> Interval:
    return _OF_DTYPE.get(value.dtype or "", ANY)


def _of_constant(value: Value) -> Interval:
    array = value.array
    if array is None or not array.size or array.dtype.kind not in "fiub":
        return ANY
    low, high = float(array.min()), float(array.max())
    return ANY if math.isnan(low) or math.isnan(high) else Interval(low, high)


def _monotone(function: Callable[[float], float], low: float = -INF, high: float = INF) -> Rule:
    """An increasing function on [low, high]."""

    def rule(ranges: Ranges, node: Node) -> Interval:
        given = ranges.first(node)
        return Interval(guarded(function, max(given.low, low)), guarded(function, min(max(given.high, low), high)))

    return rule


def _always(low: float, high: float) -> Rule:
    return lambda _ranges, _node: Interval(low, high)


def _same(ranges: Ranges, node: Node) -> Interval:
    return ranges.first(node)


def _add(ranges: Ranges, node: Node) -> Interval:
    a, b = _scaled(ranges, node)
    return Interval(a.low + b.low, a.high + b.high)


def _sub(ranges: Ranges, node: Node) -> Interval:
    a, b = _scaled(ranges, node)
    if ranges.is_own_bound(node):
        return Interval(-INF, 0.0)
    return Interval(a.low - b.high, a.high - b.low)


def _rsub(ranges: Ranges, node: Node) -> Interval:
    a, b = _scaled(ranges, node, first=True)
    return Interval(b.low - a.high, b.high - a.low)


def _scaled(ranges: Ranges, node: Node, first: bool = False) -> tuple[Interval, Interval]:
    """Both operands; `alpha` multiplies the second (for rsub the first)."""
    pair = ranges.of_operands(node)
    if len(pair) != 2:
        return ANY, ANY
    alpha = node.attributes.get("alpha", 1)
    position = 0 if first else 1
    pair[position] = product(pair[position], ranges.of(float(alpha)))
    return pair[0], pair[1]


def _mul(ranges: Ranges, node: Node) -> Interval:
    pair = ranges.of_operands(node)
    if len(pair) != 2:
        return ANY
    if ranges.is_square(node):
        return even_power(pair[0], 2)
    return product(*pair)


def _div(ranges: Ranges, node: Node) -> Interval:
    pair = ranges.of_operands(node)
    if len(pair) != 2 or pair[1].has(0) or node.attributes.get("rounding_mode") is not None:
        return ANY
    return product(pair[0], inverse(pair[1]))


def _reciprocal(ranges: Ranges, node: Node) -> Interval:
    given = ranges.first(node)
    return ANY if given.has(0) else inverse(given)


def _pow(ranges: Ranges, node: Node) -> Interval:
    exponent = node.attributes.get("exponent")
    if not isinstance(exponent, int | float) or exponent <= 0:
        return ANY
    given = ranges.first(node)
    if float(exponent).is_integer() and exponent % 2 == 0:
        return even_power(given, exponent)
    if float(exponent).is_integer():
        return Interval(*(math.copysign(guarded(lambda x: abs(x) ** exponent, end), end) for end in given))
    return even_power(given, exponent) if given.low >= 0 else ANY


def _abs(ranges: Ranges, node: Node) -> Interval:
    return even_power(ranges.first(node), 1)


def _neg(ranges: Ranges, node: Node) -> Interval:
    given = ranges.first(node)
    return Interval(-given.high, -given.low)


def _clamp(ranges: Ranges, node: Node) -> Interval:
    given = ranges.first(node)
    bounds = [node.attributes.get(k) for k in ("min", "max")]
    if base_op(node) == "aten.hardtanh":
        bounds = [node.attributes.get("min_val", -1.0), node.attributes.get("max_val", 1.0)]
    tensors = [ranges.of(v) if v is not None else None for v in (*node.inputs[1:], None, None)]
    if node.op.endswith(".Tensor"):
        low = tensors[0].low if tensors[0] else -INF
        high = tensors[1].high if tensors[1] else INF
    else:
        low, high = (
            float(b) if isinstance(b, int | float) else unknown  # a bound may be a size that varies
            for b, unknown in zip(bounds, (-INF, INF), strict=True)
        )
    return Interval(min(max(given.low, low), high), max(min(given.high, high), low))


def _maximum(ranges: Ranges, node: Node) -> Interval:
    pair = ranges.of_operands(node)
    return Interval(max(i.low for i in pair), max(i.high for i in pair))


def _minimum(ranges: Ranges, node: Node) -> Interval:
    pair = ranges.of_operands(node)
    return Interval(min(i.low for i in pair), min(i.high for i in pair))


def _sum(ranges: Ranges, node: Node) -> Interval:
    given = ranges.first(node)
    dims, source = reduced_dims(node), node.inputs[0]
    sizes = [source.shape[d] for d in dims] if dims is not None and source is not None and source.shape else []
    count = math.prod(s for s in sizes if isinstance(s, int))
    if all(isinstance(s, int) for s in sizes):
        return Interval(times(given.low, count), times(given.high, count))
    return Interval(min(given.low, 0.0) * INF if given.low < 0 else 0.0, INF if given.high > 0 else 0.0)


def _cumsum(ranges: Ranges, node: Node) -> Interval:
    """Sums of one to all elements along the dimension."""
    given, source, dim = ranges.first(node), node.inputs[0], node.attributes.get("dim")
    shape = source.shape if source is not None else None
    if not shape or not isinstance(dim, int) or not isinstance(shape[dim], int):
        return Interval(0.0 if given.low >= 0 else -INF, 0.0 if given.high <= 0 else INF)
    count = int(shape[dim])
    return Interval(min(given.low, times(given.low, count)), max(given.high, times(given.high, count)))


def _index_of(ranges: Ranges, node: Node) -> Interval:  # noqa: ARG001
    """The place of an extreme value along a dimension, or in all of the tensor."""
    source, dim = node.inputs[0], node.attributes.get("dim")
    shape = source.shape if source is not None and source.shape is not None else (INF,)
    size = shape[dim] if isinstance(dim, int) and shape else math.prod(s if isinstance(s, int) else INF for s in shape)
    return Interval(0.0, max(size - 1.0, 0.0) if isinstance(size, int | float) else INF)


def _einsum(ranges: Ranges, node: Node) -> Interval:
    """A product of all operands; where it is summed as well, only its sign is known."""
    found = reduce(product, [ranges.of(v) for v in node.inputs if v is not None], Interval(1.0, 1.0))
    given, arrow, result = str(node.attributes.get("equation", "")).replace(" ", "").partition("->")
    if arrow and "." not in given and set(given) - {","} == set(result):
        return found
    return Interval(0.0 if found.low >= 0 else -INF, 0.0 if found.high <= 0 else INF)


def _extreme(ranges: Ranges, node: Node) -> Interval:
    return _maximum(ranges, node) if node.op.endswith(".other") and base_op(node) == "aten.max" else ranges.first(node)


def _any_input(ranges: Ranges, node: Node) -> Interval:
    return hull([ranges.of(v) for v in node.inputs if v is not None])


def _masked_fill(ranges: Ranges, node: Node) -> Interval:
    value = node.attributes.get("value", node.inputs[2] if len(node.inputs) > 2 else None)
    return hull([ranges.first(node), ranges.of(value)])


def _where(ranges: Ranges, node: Node) -> Interval:
    guarded = _without_zero(ranges, node)
    return guarded or hull(
        ranges.of_operands(node)[1:] if "self" not in node.attributes else _where_scalar(ranges, node)
    )


def _without_zero(ranges: Ranges, node: Node) -> Interval | None:
    """`where(x == 0, c, x)` of an x that is never negative, and a positive c: above zero."""
    if len(node.inputs) < 2 or "other" in node.attributes:
        return None
    x, test = node.inputs[-1], ranges.producer(node.inputs[0])
    given, put = ranges.of(x), ranges.of(node.attributes.get("self", node.inputs[1]))
    if test is None or base_op(test) != "aten.eq" or test.attributes.get("other") != 0 or given.low < 0 or put.low <= 0:
        return None
    if not ranges.is_same(test.inputs[0], x):
        return None
    return Interval(max(given.low, min(_ABOVE_ZERO, put.low)), max(put.high, given.high))


def _where_scalar(ranges: Ranges, node: Node) -> list[Interval]:
    others = [ranges.of(v) for v in node.inputs[1:]]
    return [ranges.of(node.attributes[k]) for k in ("self", "other") if k in node.attributes] + others


def _cast(ranges: Ranges, node: Node) -> Interval:
    return UNIT if node.outputs and node.outputs[0].dtype == "bool" else ranges.first(node)


def _full(ranges: Ranges, node: Node) -> Interval:
    given = node.attributes.get("fill_value", node.attributes.get("value", node.attributes.get("s")))
    return ranges.of(float(given)) if isinstance(given, int | float) else ANY


def _arange(_ranges: Ranges, node: Node) -> Interval:
    start, end = node.attributes.get("start", 0), node.attributes.get("end")
    low = float(start) if isinstance(start, int | float) else -INF
    return Interval(low, float(end) if isinstance(end, int | float) else INF) if low >= 0 else ANY


def _remainder(ranges: Ranges, node: Node) -> Interval:
    pair = ranges.of_operands(node)
    return Interval(0.0, pair[1].high) if len(pair) == 2 and pair[1].low > 0 else ANY


def _softplus_of(x: float) -> float:
    return x if x > 40 else math.log1p(guarded(math.exp, x))


_ABOVE_ZERO = 2.0**-126  # the smallest normal number stands for "above zero"
_ELU_LOW = -1.7581  # the lowest value of selu; elu with its default alpha and the others end above
_WITH_INDICES = frozenset({"aten.max", "aten.min", "aten.topk", "aten.sort"})
_MOVES = COPIES | RESHAPES | frozenset(
    f"aten.{name}"
    for name in (
        "expand", "permute", "transpose", "t", "select", "slice", "index_select", "gather", "flip", "roll", "repeat",
        "unfold", "split", "split_with_sizes", "chunk", "unbind", "index", "diagonal", "dropout", "movedim", "squeeze",
        "mean", "amax", "amin", "median", "cummax", "cummin", "topk", "sort", "embedding", "take_along_dim", "tril",
        "repeat_interleave", "flatten", "max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d", "adaptive_avg_pool2d",
    )
)  # fmt: skip


def _rules() -> dict[str, Rule]:
    rules: dict[str, Rule] = dict.fromkeys((*_MOVES, "operator.getitem"), _same)
    named: dict[str, Rule] = {
        "exp": _monotone(math.exp),
        "expm1": _monotone(math.expm1),
        "log": _monotone(lambda x: math.log(x) if x > 0 else -INF, low=0.0),
        "log1p": _monotone(lambda x: math.log1p(x) if x > -1 else -INF, low=-1.0),
        "sqrt": _monotone(math.sqrt, low=0.0),
        "tanh": _monotone(math.tanh),
        "sigmoid": _monotone(lambda x: 1 / (1 + guarded(math.exp, -x))),
        "relu": _monotone(lambda x: max(x, 0.0)),
        "softplus": _monotone(_softplus_of),
        "floor": _monotone(lambda x: x if math.isinf(x) else math.floor(x)),
        "ceil": _monotone(lambda x: x if math.isinf(x) else math.ceil(x)),
        "round": _monotone(lambda x: x if math.isinf(x) else round(x)),
        "trunc": _monotone(lambda x: x if math.isinf(x) else math.trunc(x)),
        "elu": _always(_ELU_LOW, INF),
        "silu": _always(-0.2785, INF),
        "gelu": _always(-0.1701, INF),
        "abs": _abs, "neg": _neg, "pow": _pow, "square": lambda r, n: even_power(r.first(n), 2),
        "add": _add, "sub": _sub, "rsub": _rsub, "mul": _mul, "div": _div, "reciprocal": _reciprocal,
        "clamp": _clamp, "clamp_min": _clamp, "clamp_max": _clamp, "hardtanh": _clamp,
        "maximum": _maximum, "minimum": _minimum, "max": _extreme, "min": _extreme,
        "einsum": _einsum,
        "sum": _sum, "cat": _any_input, "stack": _any_input, "masked_fill": _masked_fill, "where": _where,
        "_to_copy": _cast, "to": _cast, "full": _full, "full_like": _full, "scalar_tensor": _full, "fill": _full,
        "arange": _arange, "cumsum": _cumsum, "argmax": _index_of, "argmin": _index_of, "remainder": _remainder,
        "zeros": _always(0, 0), "zeros_like": _always(0, 0), "ones": _always(1, 1), "ones_like": _always(1, 1),
        "one_hot": _always(0, 1), "rand": _always(0, 1), "rand_like": _always(0, 1), "bernoulli": _always(0, 1),
        "exponential": _always(_ABOVE_ZERO, INF),  # torch draws from (0, inf)
        "linalg_vector_norm": _always(0, INF), "linalg_norm": _always(0, INF), "norm": _always(0, INF),
        "cdist": _always(0, INF), "std": _always(0, INF), "var": _always(0, INF),
    }  # fmt: skip
    rules.update({f"aten.{name}": rule for name, rule in named.items()})
    for name in ("softmax", "_softmax", "_safe_softmax", "hardsigmoid"):
        rules[f"aten.{name}"] = _always(0, 1)
    for name in ("log_softmax", "_log_softmax", "log_sigmoid", "log_sigmoid_forward"):
        rules[f"aten.{name}"] = _always(-INF, 0)
    for name in ("sin", "cos", "erf", "sign", "heaviside"):
        rules[f"aten.{name}"] = _always(-1, 1)
    for name in ("atan", "asin", "atan2"):
        rules[f"aten.{name}"] = _always(-math.pi, math.pi)
    for name in ("argsort", "bincount", "bucketize", "searchsorted"):
        rules[f"aten.{name}"] = _always(0, INF)
    return rules


_RULES = _rules()
