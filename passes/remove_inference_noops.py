"""Steps that do nothing in inference are removed; what they read takes their place.

    clone(x), alias(x), detach(x), contiguous(x), lift_fresh_copy(x)         →  x
    dropout(x, p, train=False)                                              →  x
    _to_copy(x, dtype)           x has that dtype and stays on its device    →  x
    _to_copy(_to_copy(x, wider), dtype)      x has that dtype, wider holds it →  x
    view(x, s), reshape, squeeze, unsqueeze, expand(x, s)   x has shape s    →  x      (symbolic sizes by name)
    broadcast_tensors(x, y)[0]   x has that shape                            →  x
    slice(x, d, 0, end)          end reaches the end of the dimension        →  x
    x * 1, x / 1                 dtype and shape stay                        →  x
    x - 0.0, x + (-0.0)          dtype and shape stay                        →  x
    x + 0                        integer x, dtype and shape stay             →  x
    copy(y, x)                   y and x have one dtype and shape            →  x
    slice_scatter(y, x, …)       the slice is all of y                       →  x
    select_scatter(y, x, d, i)   dimension d of y has size 1                 →  unsqueeze(x, d)
    _assert_async(c), _assert_scalar(c), _assert_tensor_metadata(x)          →  (nothing)

- A copy that changes the strides stays, because a view after it may need them; ONNX has no strides and drops it.
- x + 0.0 stays: it turns -0.0 into 0.0. So does x * 0, which is NaN where x is infinite.
- An active dropout stays, and is reported.
- An output may become the same value as an input or as another output: the graph is functional, so nobody can tell.

Every result is the same to the last bit, NaN, infinities and the sign of zero included.
"""

from __future__ import annotations

import math

import torch
from torch import fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.fx_view import view_program
from graphaudit.graphs.program import Program
from graphaudit.graphs.view import GraphView, Node, Value
from graphaudit.graphs.walk import base_op, is_copy, is_full_slice, number, operands
from graphaudit.rewrite.base import Level, Pass, PassResult, Site
from graphaudit.rewrite.edit import insert_call, replace_node
from graphaudit.rulebook.target import Target

_ASSERTS = frozenset(
    f"aten.{name}"
    for name in ("_assert_async", "_assert_scalar", "_assert_tensor_metadata", "_functional_assert_async")
)

# Which dtypes hold every number of a dtype, so that a cast there and back changes nothing.
_HOLDS = {
    "float32": ("float64",),
    "float16": ("float32", "float64"),
    "bfloat16": ("float32", "float64"),
    "int32": ("int64", "float64"),
    "uint8": ("int16", "int32", "int64", "float16", "float32", "float64"),
    "bool": ("uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"),
}


class RemoveInferenceNoops(Pass[Program]):
    """Copies, eval-mode dropout, identities and asserts → nothing."""

    name = "remove_inference_noops"
    level = Level.FX
    claims = Claim.EQUIVALENT

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """One walk in graph order is enough: what a step reads has been settled before the step."""
        result = PassResult(artifact)
        view = view_program(artifact)
        nodes = {n.name: n for n in artifact.graph.nodes}
        for step in view.nodes:
            if step.graph:
                continue
            old = nodes[step.name]
            site = Site(step.name, step.place)
            if base_op(step) in _ASSERTS and not old.users:
                artifact.graph.erase_node(old)
                result.rewritten.append(site)
                continue
            same = _same_as(view, step)
            new = nodes[same.name] if same is not None else None
            if new is None and base_op(step) == "aten.select_scatter" and _has_one_row(step):
                new = insert_call(old, torch.ops.aten.unsqueeze.default, (old.args[1], step.attributes["dim"]))
            reason = _why_not(step, old, new)
            if new is None or reason:
                if new is not None and not new.users:
                    artifact.graph.erase_node(new)
                if reason:
                    result.left.append(Site(step.name, step.place, reason))
                continue
            replace_node(old, new)
            nodes[step.name] = new
            result.rewritten.append(site)
        if result.changed:
            artifact.finish()
        return result


def _same_as(view: GraphView, step: Node) -> Value | None:
    """The value that `step` returns unchanged, or None."""
    if not step.outputs or not step.inputs or step.inputs[0] is None:
        return None
    op, result = base_op(step), step.outputs[0]
    if is_copy(step):
        return step.inputs[0]
    if op == "aten._to_copy":
        wide = view.producer(step.inputs[0])
        source = wide.inputs[0] if wide is not None and base_op(wide) == "aten._to_copy" else None
        fits = source is not None and step.inputs[0].dtype in _HOLDS.get(source.dtype or "", ())
        return source if source is not None and fits and _alike(source, result) else None
    if op == "operator.getitem":
        made = view.producer(step.inputs[0])
        source = made.inputs[step.attributes["index"]] if made and base_op(made) == "aten.broadcast_tensors" else None
        return source if source is not None and _alike(source, result) else None
    if op in ("aten.copy", "aten.slice_scatter"):
        target, source = step.inputs[0], step.inputs[1]
        whole = op == "aten.copy" or is_full_slice(step)
        return source if whole and source is not None and _alike(source, target) else None
    if op in ("aten.mul", "aten.div", "aten.sub", "aten.add"):
        return _identity_operand(view, step, result)
    return None


def _identity_operand(view: GraphView, step: Node, result: Value) -> Value | None:
    op, parts = base_op(step), operands(step)
    if len(parts) != 2 or step.attributes.get("rounding_mode") is not None:
        return None
    orders = (parts, parts[::-1]) if op in ("aten.mul", "aten.add") else (parts,)
    for kept, neutral in orders:
        value = number(view, neutral)
        if isinstance(kept, Value) and value is not None and _alike(kept, result) and _is_neutral(op, value, kept):
            return kept
    return None


def _is_neutral(op: str, value: float, kept: Value) -> bool:
    """Whether `kept op value` is `kept` to the last bit, for every number that `kept` can hold."""
    if op in ("aten.mul", "aten.div"):
        return value == 1.0
    if value != 0.0:
        return False
    if (kept.dtype or "").startswith(("int", "uint")):
        return True
    negative = math.copysign(1.0, value) < 0
    return negative if op == "aten.add" else not negative


def _alike(one: Value, other: Value | None) -> bool:
    return other is not None and one.shape is not None and one.shape == other.shape and one.dtype == other.dtype


def _has_one_row(step: Node) -> bool:
    target, source = step.inputs[0], step.inputs[1]
    if target is None or source is None or target.shape is None or target.dtype != source.dtype:
        return False
    return target.shape[int(step.attributes["dim"]) % len(target.shape)] == 1


def _why_not(step: Node, old: fx.Node, new: fx.Node | None) -> str:
    op = base_op(step)
    if new is not None:
        before, after = old.meta.get("val"), new.meta.get("val")
        if before is None or after is None or before.device != after.device:
            return "it moves the tensor to another device"
        settled = _layout(before) == _layout(after) or not _reaches_view(old)
        return "" if settled else "it lays the tensor out anew, which a later view may need"
    if op in ("aten.dropout", "aten.native_dropout") and step.attributes.get("train"):
        return "dropout is active: the policy was captured in training mode"
    return "the copy also changes dtype or shape" if op == "aten.copy" else ""


def _reaches_view(node: fx.Node) -> bool:
    """Whether an operator that depends on strides reads `node`, directly or through others."""
    seen, pending = {node}, [node]
    while pending:
        for user in pending.pop().users:
            if str(user.target).startswith(("aten.view", "aten._unsafe_view", "aten.as_strided")):
                return True
            if user not in seen:
                seen.add(user)
                pending.append(user)
    return False


def _layout(tensor: torch.Tensor) -> list[str]:
    """The strides that matter. As text, because comparing symbolic ones would add a guard to the graph."""
    return [str(stride) for stride, size in zip(tensor.stride(), tensor.shape) if str(size) != "1"]
