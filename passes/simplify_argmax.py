"""An argmax reads the scores themselves, not what merely keeps their order.

    argmax(softmax(x, d), d)                          →  argmax(x, d)                  log_softmax likewise
    argmax(x + c, d), argmax(x - c, d)                →  argmax(x, d)                  c has size 1 along d
    argmax(x * p, d), argmax(x / p, d)                →  argmax(x, d)                  p a positive Python number
    unsqueeze(argmax(x, d), d)                        →  argmax(x, d, keepdim=True)
    stack((argmax(x, d), argmax(y, d), …), d)         →  cat((argmax(x, d, keepdim=True), …), d)
    squeeze or view(argmax(x, d, keepdim=True))       →  argmax(x, d)                  of the shape without d

- The same of `max(x, d)` of which only the indices are read.
- d is the argmax's own dimension; an argmax over everything stays. Shape and dtype of x are those of what is replaced.
- What only the order did not need, such as the value of a dueling network, goes with it.
- Left alone where anything else reads the value too: nothing would be saved. Functions that level off (tanh, sigmoid,
  clamp) stay, because they make ties out of different scores.

Equal wherever two scores differ by more than rounding and none of them is or becomes infinite. Where `x + c` or softmax
rounds different scores to a tie, eager takes the first of them, and this the greatest; a softmax that is NaN throughout
has its first index in eager.
"""

from __future__ import annotations

import math
from typing import Any, TypeGuard

import torch
from torch import fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.program import Program
from graphaudit.rewrite.base import Level, Pass, PassResult, Site
from graphaudit.rewrite.edit import insert_call, replace_node
from graphaudit.rewrite.operator_pass import argument, results_read, shape
from graphaudit.rulebook.target import Target

_aten = torch.ops.aten
_ARGMAX, _MAX = _aten.argmax.default, _aten.max.dim
_SOFTMAX = (_aten.softmax.int, _aten._softmax.default, _aten.log_softmax.int, _aten._log_softmax.default)
_SHIFT = (_aten.add.Tensor, _aten.sub.Tensor)
_SCALE = (_aten.mul.Tensor, _aten.div.Tensor, _aten.mul.Scalar, _aten.div.Scalar)
_RESHAPES = (
    *(_aten.squeeze.dim, _aten.squeeze.dims, _aten.squeeze.default),
    *(_aten.view.default, _aten.reshape.default, _aten._unsafe_view.default),
)


class SimplifyArgmax(Pass[Program]):
    """Steps before an argmax that keep the order go; steps after it become its own `keepdim`."""

    name = "simplify_argmax"
    level = Level.FX
    target_ops = frozenset({"aten.argmax", "aten.max"})
    runs_after = ("remove_inference_noops", "rewrite_softmax", "hoist_noise")
    runs_before = ("insert_nan_guards",)
    claims = Claim.EQUIVALENT

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Every argmax of the main graph, whatever the target."""
        result = PassResult(artifact)
        for node in [n for n in artifact.graph.nodes if _dimension(n) is not None]:
            site = Site(node.name, artifact.place(node))
            scores, reason = _scores(node)
            shorter = scores is not node.args[0]
            node.update_arg(0, scores)
            if _absorb_readers(node) or shorter:
                result.rewritten.append(site)
            elif reason:
                result.left.append(Site(site.node, site.place, reason))
        for node in artifact.graph.find_nodes(op="call_function", target=_aten.stack.default):
            if _stacks_argmaxes(node):
                result.rewritten.append(Site(node.name, artifact.place(node)))
                _concatenate(node)
        if result.changed:
            artifact.finish()
        return result


def _dimension(node: fx.Node) -> int | None:
    """The dimension along which a call looks for the greatest index, counted from the front; None for other nodes."""
    if node.op != "call_function" or node.target not in (_ARGMAX, _MAX):
        return None
    source, dim = node.args[0], argument(node, "dim")
    if dim is None or not isinstance(source, fx.Node) or not source.meta["val"].dim():
        return None
    if node.target is _MAX and results_read(node) != {1}:
        return None
    return int(dim) % source.meta["val"].dim()


def _scores(node: fx.Node) -> tuple[fx.Node, str]:
    """The furthest value before `node` that has its order, and why not one before that."""
    dim = _dimension(node)
    scores = node.args[0]
    assert isinstance(scores, fx.Node) and dim is not None
    while True:
        before = _ordered_alike(scores, dim)
        if before is None:
            return scores, ""
        if len(scores.users) > 1:
            return scores, f"{scores.name} is read elsewhere too"
        scores = before


def _ordered_alike(call: fx.Node, dim: int) -> fx.Node | None:
    """An operand of `call` that is in the same order along `dim`."""
    if call.op != "call_function":
        return None
    first = call.args[0] if call.args else None
    if call.target in _SOFTMAX:
        alike = int(argument(call, "dim")) % call.meta["val"].dim() == dim
        return first if alike and _is_alike(first, call) else None
    if call.target in _SCALE:
        return first if _is_positive(call.args[1]) and _is_alike(first, call) else None
    if call.target in _SHIFT:
        second = call.args[1]
        if _is_alike(first, call) and _is_constant_along(second, dim, call):
            return first
        reversible = call.target is _aten.add.Tensor and argument(call, "alpha") == 1
        return second if reversible and _is_alike(second, call) and _is_constant_along(first, dim, call) else None
    return None


def _is_alike(operand: object, call: fx.Node) -> TypeGuard[fx.Node]:
    if not isinstance(operand, fx.Node):
        return False
    before, after = operand.meta["val"], call.meta["val"]
    return _sizes(operand) == _sizes(call) and before.dtype == after.dtype and before.is_floating_point()


def _is_positive(operand: object) -> bool:
    return isinstance(operand, int | float) and 0 < operand < math.inf


def _is_constant_along(operand: object, dim: int, call: fx.Node) -> bool:
    """Whether an operand has one number for each row of the result along `dim`."""
    if not isinstance(operand, fx.Node):
        return isinstance(operand, int | float) and math.isfinite(operand)
    place = dim - (call.meta["val"].dim() - operand.meta["val"].dim())
    return place < 0 or _sizes(operand)[place] == "1"


def _absorb_readers(node: fx.Node) -> bool:
    """Let an argmax keep or drop its dimension itself, as often as its one reader does nothing else."""
    absorbed = False
    while node.target is _ARGMAX and len(node.users) == 1:
        reader = next(iter(node.users))
        keep = _keepdim_after(node, reader)
        if keep is None:
            break
        new = insert_call(reader, _ARGMAX, (node.args[0], _dimension(node), keep), source=node)
        replace_node(reader, new)
        node.graph.erase_node(node)
        node, absorbed = new, True
    return absorbed


def _keepdim_after(node: fx.Node, reader: fx.Node) -> bool | None:
    """The `keepdim` with which `node` gives what `reader` makes of its result; None where there is none."""
    dim = _dimension(node)
    assert dim is not None
    sizes = _sizes(node.args[0])  # type: ignore[arg-type]
    if argument(node, "keepdim"):
        dropped = [*sizes[:dim], *sizes[dim + 1 :]]
        return False if reader.target in _RESHAPES and _sizes(reader) == dropped else None
    if reader.target is _aten.unsqueeze.default and int(reader.args[1]) % len(sizes) == dim:  # type: ignore[arg-type]
        return True
    return None


def _stacks_argmaxes(stack: fx.Node) -> bool:
    """Whether everything that is stacked is an argmax along the very dimension of the stack, and read by it alone."""
    parts = stack.args[0]
    assert isinstance(parts, list | tuple)
    dim = int(argument(stack, "dim")) % stack.meta["val"].dim()
    return all(
        p.target is _ARGMAX and len(p.users) == 1 and _dimension(p) == dim and not argument(p, "keepdim") for p in parts
    )


def _concatenate(stack: fx.Node) -> None:
    parts: Any = stack.args[0]
    dim = _dimension(parts[0])
    kept = {p: insert_call(p, _ARGMAX, (p.args[0], dim, True)) for p in parts}
    replace_node(stack, insert_call(stack, _aten.cat.default, ([kept[p] for p in parts], dim)))


def _sizes(node: fx.Node) -> list[str]:
    """Sizes as text, because comparing symbolic ones would add a guard to the graph."""
    return [str(size) for size in shape(node)]
