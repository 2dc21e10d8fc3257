"""Where -infinity gets into logits under a mask that depends on the inputs."""

from __future__ import annotations

from graphaudit.graphs.view import GraphView, Node, Value
from graphaudit.graphs.walk import RESHAPES, base_op, is_copy, number, origin

_LINEAR_STEPS = ("aten.add", "aten.mul", "aten.div", "aten.sub")
_MOVES = RESHAPES | {"aten.expand", "aten.permute", "aten.transpose", "aten.t", "aten.numpy_T", "aten.slice"}
_DEPTH = 6  # steps from the mask to the softmax


def is_masked(view: GraphView, value: Value | None, varies: set[str], depth: int = _DEPTH) -> bool:
    """Whether -infinity gets into `value` under a mask whose name is among those that `varies` holds."""
    value = origin(view, value, lambda n: is_copy(n) or base_op(n) in _MOVES)
    node = view.producer(value)
    if node is None or depth == 0:
        return False
    op = base_op(node)
    if op in ("aten.masked_fill", "aten.where"):
        mask = node.inputs[1 if op == "aten.masked_fill" else 0]
        fills: list[Value | float | None] = [node.attributes.get(k) for k in ("value", "self", "other")]
        fills += [v for v in node.inputs if v is not None and v is not mask]
        if mask is not None and mask.name in varies and any(number(view, f) == float("-inf") for f in fills):
            return True
    if op in _LINEAR_STEPS or op == "aten.where":
        return any(is_masked(view, v, varies, depth - 1) for v in node.inputs if v is not None)
    return _is_log_of_mask(view, node, varies)


def varying(view: GraphView) -> set[str]:
    """Names of the values that depend on an input of the graph, or on a draw."""
    constant: set[str] = set()
    names: set[str] = {v.name for v in view.inputs}
    for node in view.nodes:
        shape_only = node.op.rpartition(".")[0].endswith(("ones_like", "zeros_like", "full_like"))
        read = all(v is None or v.is_constant or v.name in constant for v in node.inputs)
        fixed = shape_only or (read and not _draws(node))
        (constant if fixed else names).update(v.name for v in node.outputs)
    return names


def _draws(node: Node) -> bool:
    return any(part in node.op for part in ("rand", "bernoulli", "multinomial", "normal", "exponential", "uniform"))


def _is_log_of_mask(view: GraphView, node: Node, varies: set[str]) -> bool:
    """Whether `node` is log(mask): 0 where a boolean mask is true, -infinity elsewhere."""
    source = origin(view, node.inputs[0], lambda n: base_op(n) in ("aten._to_copy", "aten.to")) if node.inputs else None
    is_log = base_op(node) == "aten.log" and source is not None
    return is_log and source.dtype == "bool" and source.name in varies  # type: ignore[union-attr]
