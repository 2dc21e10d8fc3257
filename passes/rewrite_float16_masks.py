"""Where the target computes in float16, masks beyond its numbers become the lowest that it has.

    masked_fill(x, m, -1e9)        →  masked_fill(x, m, -65504)
    where(m, x, -1e9)              →  where(m, x, -65504)
    x + k * -1e9                   →  where(k != 0, -65504, x)            k = 1 - m, and its kin: m - 1 with +1e9
    x + c, c a constant with -1e9  →  x + clamp(c, -65504, 65504)

- Any finite number beyond 65504 counts, torch.finfo(torch.float32).min too; likewise +65504 for positive ones.
- Only where softmax, argmax or argmin alone read what was filled, perhaps reshaped, scaled or added to on the way:
  there -65504 is as good as -1e9, because exp of either is 0.
- A factor k has to be, or to be 1 less, something that was cast from booleans or integers, or an input of the policy.
- Left alone: masked numbers that anything else reads, such as an output or log_softmax, whose results would change.
- No candidates on targets that compute in float32; there it does not run.

In float16 -1e9 is -inf. A row that is masked entirely is then NaN, and 0 * -1e9 is NaN where nothing is masked at all.
In float32 the results are equal: where the choice is made along the last dimension, the mask goes 128 below the lowest
logit of the row, if that is less than -65504; a row that is masked entirely is uniform in both. Along another dimension
they are equal as long as logits stay above -65400.

Source: IEEE 754-2019, table 3.2: the largest binary16 is 65504.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.fx_view import view_program
from graphaudit.graphs.program import Program
from graphaudit.graphs.view import GraphView, Node, Value
from graphaudit.graphs.walk import COPIES, RESHAPES, base_op, is_copy, number, operands, origin, producer, reduced_dims
from graphaudit.rewrite.base import INSIDE_REGION, Level, Pass, PassResult
from graphaudit.rewrite.edit import insert_function, replace_node
from graphaudit.rulebook.target import Target

_LARGEST = torch.finfo(torch.float16).max
_CHOOSERS = frozenset({"aten.softmax", "aten._softmax", "aten.argmax", "aten.argmin"})
_STEPS = (
    COPIES
    | RESHAPES
    | {f"aten.{n}" for n in ("expand", "permute", "transpose", "t", "add", "sub", "div", "mul", "where", "masked_fill")}
)
_ELEMENTWISE = COPIES | {"aten.add", "aten.sub", "aten.mul", "aten.div"}
_CASTS = {"aten._to_copy", "aten.to"}


@dataclass(frozen=True)
class _Found:
    """`node` brings a number beyond float16 in; `function` of `inputs` computes it without."""

    node: Node
    inputs: tuple[Value, ...]
    function: Callable[..., Tensor]


class RewriteFloat16Masks(Pass[Program]):
    """Mask values such as -1e9 → the lowest number of float16, on targets that compute in it."""

    name = "rewrite_float16_masks"
    level = Level.FX
    fixes = ("fp16-overflow",)
    target_ops = frozenset({"aten.softmax", "aten._softmax", "aten.argmax", "aten.argmin"})
    runs_after = ("remove_inference_noops", "rewrite_softmax")
    claims = Claim.EQUIVALENT

    @classmethod
    def suits(cls, target: Target) -> bool:
        """Only targets that compute float32 graphs in float16."""
        return target.compute_dtype == "float16"

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Replace every such mask of the main graph."""
        result = PassResult(artifact)
        if not self.suits(target):
            return result
        view = view_program(artifact)
        nodes = {n.name: n for n in artifact.graph.nodes}
        for found in _find(view):
            reason = INSIDE_REGION if found.node.graph else _why_visible(view, found.node)
            if not reason:
                _replace(artifact, found, nodes, _chooses_in_rows(view, found.node))
            result.record(found.node.name, found.node.place, reason)
        if result.changed:
            artifact.finish()
        return result


def _replace(artifact: Program, found: _Found, nodes: dict[str, fx.Node], rows: bool) -> None:
    old = nodes[found.node.name]
    arguments = [artifact.value(nodes[v.name]) if v.is_constant else None for v in found.inputs]
    held = [artifact.add_constant(_bounded(c), "mask") if c is not None else None for c in arguments]
    given = tuple(h if h is not None else nodes[v.name] for h, v in zip(held, found.inputs, strict=True))
    masks = all(h is None for h in held)
    new = insert_function(old, found.function, given, {"rows": rows} if masks else None)
    replace_node(old, new)
    nodes[found.node.name] = new


def _bounded(constant: Tensor) -> Tensor:
    return torch.where(constant.isinf(), constant, constant.clamp(-_LARGEST, _LARGEST))


def _find(view: GraphView) -> Iterator[_Found]:
    for node in view.nodes:
        op = base_op(node)
        if not node.outputs or node.outputs[0].dtype != "float32":
            continue
        found = None
        if op == "aten.masked_fill":
            found = _filled(view, node)
        elif op == "aten.where":
            found = _chosen(view, node)
        elif op in ("aten.add", "aten.sub") and node.attributes.get("alpha", 1) == 1:
            found = _added(view, node)
        if found is not None:
            yield found


def _filled(view: GraphView, node: Node) -> _Found | None:
    value = number(view, node.attributes.get("value", node.inputs[2] if len(node.inputs) > 2 else None))
    x, mask = node.inputs[:2]
    if not _overflows(value) or x is None or mask is None or x.is_constant:
        return None
    return _Found(node, (x, mask), partial(_fill, math.copysign(_LARGEST, value or 0.0)))


def _chosen(view: GraphView, node: Node) -> _Found | None:
    sides = [node.attributes.get(k) for k in ("self", "other")]
    rest = list(node.inputs[1:])
    parts = [side if side is not None else (rest.pop(0) if rest else None) for side in sides]
    for at, other in ((0, 1), (1, 0)):
        value, x, mask = number(view, parts[at]), parts[other], node.inputs[0]
        if _overflows(value) and isinstance(x, Value) and mask is not None and x.shape == node.outputs[0].shape:
            return _Found(node, (x, mask), partial(_choose, math.copysign(_LARGEST, value or 0.0), at == 0))
    return None


def _added(view: GraphView, node: Node) -> _Found | None:
    """x + k * v, x - k * v, or x + c of a constant c."""
    parts = operands(node)
    if len(parts) != 2 or not all(isinstance(p, Value) for p in parts):
        return None
    sign = -1.0 if base_op(node) == "aten.sub" else 1.0
    for x, mask in (parts, parts[::-1]) if sign > 0 else (parts,):
        assert isinstance(x, Value) and isinstance(mask, Value)
        if mask.is_constant and not x.is_constant:
            array = mask.array
            beyond = array is not None and array.dtype == "float32" and bool((abs(array) > _LARGEST).any())
            if beyond:
                return _Found(node, (x, mask), torch.add if sign > 0 else torch.sub)
            continue
        product = producer(view, mask)
        pairs = [operands(product), operands(product)[::-1]] if product and base_op(product) == "aten.mul" else []
        for k, v in (p for p in pairs if len(p) == 2):
            value = number(view, v)
            if isinstance(k, Value) and _overflows(value) and _is_flag(view, k) and x.shape == node.outputs[0].shape:
                below = (value or 0.0) * sign * (-1.0 if _is_negative(view, k) else 1.0)
                return _Found(node, (x, k), partial(_mask, math.copysign(_LARGEST, below)))
    return None


def _fill(value: float, x: Tensor, mask: Tensor, rows: bool = False) -> Tensor:
    return torch.where(mask, _below(value, x, rows), x)


def _choose(value: float, first: bool, x: Tensor, mask: Tensor, rows: bool = False) -> Tensor:
    below = _below(value, x, rows)
    return torch.where(mask, below, x) if first else torch.where(mask, x, below)


def _mask(value: float, x: Tensor, k: Tensor, rows: bool = False) -> Tensor:
    return torch.where(k != 0, _below(value, x, rows), x)


def _below(value: float, x: Tensor, rows: bool) -> Tensor | float:
    """-65504, or less where a row of logits goes down to that: exp of 128 less than the lowest is 0 in float32."""
    if not rows or value > 0:
        return value
    low = x.amin(-1, keepdim=True) - 128
    return torch.where(low < value, low, value)  # NaN in the row does not get into the mask


def _overflows(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and abs(value) > _LARGEST


def _reshaped(view: GraphView, value: Value) -> Node | None:
    """The node that computes a value, looking through copies and reshapes."""
    return view.producer(origin(view, value, lambda n: is_copy(n) or base_op(n) in RESHAPES | {"aten.expand"}))


def _is_flag(view: GraphView, value: Value) -> bool:
    """Whether a value is 0 or 1 (or -1): cast from booleans or integers, an input, or 1 less such a value."""
    node = _reshaped(view, value)
    if base_op(node) in ("aten.sub", "aten.rsub") and node is not None and len(operands(node)) == 2:
        flags = [p for p in operands(node) if isinstance(p, Value) and number(view, p) is None]
        ones = [p for p in operands(node) if number(view, p) == 1.0]
        return len(flags) == len(ones) == 1 and _is_flag(view, flags[0])
    source = origin(view, value, lambda n: base_op(n) in _CASTS | RESHAPES | COPIES | {"aten.expand", "aten.slice"})
    assert source is not None
    return not (source.dtype or "").startswith("float") or source.name in {v.name for v in view.inputs}


def _is_negative(view: GraphView, value: Value) -> bool:
    """Whether a flag is m - 1, which is -1 where it masks."""
    node = _reshaped(view, value)
    return base_op(node) == "aten.sub" and node is not None and number(view, operands(node)[-1]) == 1.0


def _chooses_in_rows(view: GraphView, node: Node) -> bool:
    """Whether what chooses by the masked numbers does so along their last dimension, which stays in its place."""
    for reader in (r for v in node.outputs for r in view.consumers(v)):
        if base_op(reader) in _CHOOSERS:
            source = reader.inputs[0]
            if source is None or reduced_dims(reader) != (len(source.shape or ()) - 1,):
                return False
        elif base_op(reader) not in _ELEMENTWISE or not _chooses_in_rows(view, reader):
            return False
    return True


def _why_visible(view: GraphView, node: Node) -> str:
    """Why the masked numbers must stay: something reads them that is no choice by their order."""
    outputs = {v.name for v in view.outputs}
    pending, seen, chosen = [node], {node.name}, False
    while pending:
        current = pending.pop()
        if any(v.name in outputs for v in current.outputs):
            return "the masked numbers are an output"
        for reader in (r for v in current.outputs for r in view.consumers(v)):
            if base_op(reader) in _CHOOSERS:
                chosen = True
            elif base_op(reader) not in _STEPS:
                return f"{base_op(reader).rpartition('.')[2]} reads the masked numbers"
            elif reader.name not in seen:
                seen.add(reader.name)
                pending.append(reader)
    return "" if chosen else "nothing chooses by the masked numbers"
