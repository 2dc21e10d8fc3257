"""Scales and shifts by constants go into the weights of the layer after or before them, or become fewer steps.

    linear((x - m) / s, W, b)        →  linear(x, W / s, b - W·(m / s))
    conv(x / 255, W, b)              →  conv(x, W / 255, b)
    linear(x, W, b) * s + t          →  linear(x, W·s, b·s + t)             convolutions likewise
    (x + 1) * h + low                →  x * h + (h + low)                   each left out where it does nothing

- A step is add, sub, mul, div or neg of a tensor in float32 or float64 and a number or constant tensor; steps that
  nothing else reads form a chain. A constant may be computed from others, such as sqrt(var + eps).
- For a linear layer the constants differ by feature only, for a convolution by channel only, in front of one with
  groups not at all. Transposed convolutions take up only what follows them.
- A shift in front of a convolution stays if that pads, because its zeros are not shifted.
- Left alone where a shift in front of a layer is larger than `max_shift` (64): x - m loses few digits where x is near
  m, and products of the large x and m would lose more. So are layers whose weights are used elsewhere too.

New weights are computed in float64 and rounded once. The results differ from the original by rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import torch
from msgspec import Meta
from torch import Tensor, fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.program import Program
from graphaudit.rewrite.base import Level, Pass, PassOptions, PassResult, Site
from graphaudit.rewrite.constants import Constants
from graphaudit.rewrite.edit import insert_call, replace_node
from graphaudit.rewrite.layers import (
    LINEAR,
    channels_back,
    channels_first,
    groups,
    is_layer,
    is_transposed,
    parameters,
    replace_layer,
)
from graphaudit.rewrite.operator_pass import argument, shape
from graphaudit.rulebook.target import Target

_aten = torch.ops.aten
_ADD, _SUB, _MUL, _DIV = _aten.add.Tensor, _aten.sub.Tensor, _aten.mul.Tensor, _aten.div.Tensor
_NEG, _RSUB = _aten.neg.default, _aten.rsub.Scalar


class FoldAffineStepsOptions(PassOptions, frozen=True):
    """`max_shift`: how large a shift of a layer's input may be, in units of what the layer was given."""

    max_shift: Annotated[float, Meta(gt=0)] = 64.0


@dataclass(frozen=True)
class _Step:
    """`result` is source * scale + shift, in float64; the constants broadcast to the source."""

    source: fx.Node
    scale: Tensor
    shift: Tensor


@dataclass(frozen=True)
class _Chain(_Step):
    """Steps one after the other: the first and the last node, and how many they are."""

    last: fx.Node
    length: int


class FoldAffineSteps(Pass[Program]):
    """Constant scales and shifts → weights."""

    name = "fold_affine_steps"
    level = Level.FX
    runs_after = ("remove_inference_noops", "fold_batch_norm", "simplify_argmax")
    claims = Claim.EQUIVALENT
    Options = FoldAffineStepsOptions

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Fold each chain forwards if possible, else backwards, else shorten it."""
        result = PassResult(artifact)
        constants = Constants(artifact)
        for node in list(artifact.graph.nodes):
            chain = _chain(constants, node)
            if chain is None:
                continue
            site = Site(node.name, artifact.place(node))
            reason = _fold(artifact, chain, self.options.max_shift)
            if not reason:
                result.rewritten.append(site)
            elif is_layer(_reader(chain.last)) or is_layer(chain.source):
                result.left.append(Site(site.node, site.place, reason))
        if result.changed:
            artifact.finish()
        return result


def _chain(constants: Constants, last: fx.Node) -> _Chain | None:
    """The steps that end in `last`, none of them read elsewhere; None where it ends none, or is not the last."""
    step = _step(constants, last)
    if step is None:
        return None
    reader = _reader(last)
    if reader is not None and (after := _step(constants, reader)) is not None and after.source is last:
        return None
    source, scale, shift, length = step.source, step.scale, step.shift, 1
    while _reader(source) is not None and (before := _step(constants, source)) is not None:
        source, length = before.source, length + 1
        scale, shift = before.scale * scale, before.shift * scale + shift
    return _Chain(source, scale, shift, last, length)


def _reader(node: fx.Node) -> fx.Node | None:
    """The one node that reads `node`."""
    return next(iter(node.users)) if len(node.users) == 1 else None


def _step(constants: Constants, node: fx.Node) -> _Step | None:
    if node.op != "call_function" or node.target not in (_ADD, _SUB, _MUL, _DIV, _NEG, _RSUB):
        return None
    if constants.value(node) is not None:
        return None
    one, zero = torch.ones((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    first = node.args[0]
    if node.target is _NEG:
        return _Step(first, -one, zero) if _is_alike(first, node) else None
    second = node.args[1]
    if node.target is _RSUB:
        value = _operand(constants, second)
        return (
            _Step(first, -one * argument(node, "alpha"), value)
            if value is not None and _is_alike(first, node)
            else None
        )
    for source, other, reversed_ in ((first, second, False), (second, first, True)):
        value = _operand(constants, other)
        if value is None or not _is_alike(source, node):
            continue
        if node.target is _MUL:
            return _Step(source, value, zero)
        if node.target is _DIV:
            return None if reversed_ or not value.all() else _Step(source, 1 / value, zero)
        factor = argument(node, "alpha") * (-1 if node.target is _SUB else 1)
        return _Step(source, one * factor, value) if reversed_ else _Step(source, one, value * factor)
    return None


def _is_alike(source: object, node: fx.Node) -> bool:
    if not isinstance(source, fx.Node) or not isinstance(source.meta.get("val"), Tensor):
        return False
    before, after = source.meta["val"], node.meta["val"]
    sizes = [[str(size) for size in shape(n)] for n in (source, node)]  # as text: comparing symbols would add guards
    return before.dtype == after.dtype and after.dtype in (torch.float32, torch.float64) and sizes[0] == sizes[1]


def _operand(constants: Constants, operand: object) -> Tensor | None:
    """A number or constant in float64."""
    if isinstance(operand, int | float):
        return torch.tensor(float(operand), dtype=torch.float64)
    value = constants.value(operand)
    return None if value is None or value.is_complex() or not value.isfinite().all() else value.double()


def _fold(program: Program, chain: _Chain, max_shift: float) -> str:
    """Empty, or why the chain stays."""
    reasons = []
    reader = _reader(chain.last)
    if reader is not None and is_layer(reader) and reader.args[0] is chain.last:
        reasons.append(_fold_forwards(program, chain, reader, max_shift))
    if is_layer(chain.source) and (not reasons or reasons[-1]):
        reasons.append(_fold_backwards(program, chain))
    if not reasons or reasons[-1]:
        reasons.append(_shorten(program, chain))
    return "" if not reasons[-1] else reasons[0]


def _fold_forwards(program: Program, chain: _Chain, layer: fx.Node, max_shift: float) -> str:
    if is_transposed(layer):
        return f"{layer.name} is a transposed convolution"
    found = _numbers(program, chain, layer)
    if isinstance(found, str):
        return found
    scale, shift, weight, bias = found
    if groups(layer) != 1 and (scale.numel() > 1 or shift.numel() > 1):
        return f"{layer.name} has groups"
    if shift.any() and layer.target is not LINEAR and _pads(layer):
        return f"{layer.name} pads with zeros, which are not shifted"
    if float(shift.abs().max()) > max_shift:
        return f"it shifts by up to {float(shift.abs().max()):.3g}, where products would lose digits"
    kernel = (1,) * (weight.dim() - 2)
    inner = tuple(range(1, weight.dim()))
    new_bias = bias + (weight * shift.reshape(-1, *kernel)).sum(inner)
    return replace_layer(program, layer, layer, chain.source, weight * scale.reshape(-1, *kernel), new_bias)


def _fold_backwards(program: Program, chain: _Chain) -> str:
    layer = chain.source
    if _reader(layer) is None:
        return f"{layer.name} is read elsewhere too"
    found = _numbers(program, chain, layer)
    if isinstance(found, str):
        return found
    scale, shift, weight, bias = found
    rows = channels_first(layer, weight)
    scaled = rows * scale.reshape(-1, *(1,) * (rows.dim() - 1))
    new_weight = channels_back(layer, scaled, weight)
    return replace_layer(program, layer, chain.last, layer.args[0], new_weight, bias * scale + shift)


def _numbers(program: Program, chain: _Chain, layer: fx.Node) -> tuple[Tensor, Tensor, Tensor, Tensor] | str:
    """Scale and shift, each of one number or one a feature of `layer`; its weight and bias. Or why they stay."""
    found = parameters(program, layer)
    if isinstance(found, str):
        return found
    weight, bias = found
    if len(layer.args[1].users) > 1:  # type: ignore[union-attr]
        return f"the weights of {layer.name} are used elsewhere too"
    rank = chain.last.meta["val"].dim()
    axis = rank - 1 if layer.target is LINEAR else rank - (weight.dim() - 1)
    flat = []
    for value in (chain.scale, chain.shift):
        sizes = (1,) * (rank - value.dim()) + tuple(value.shape)
        if any(size != 1 for place, size in enumerate(sizes) if place != axis):
            return f"what it scales or shifts by differs within a feature of {layer.name}"
        flat.append(value.reshape(-1))
    return flat[0], flat[1], weight, bias


def _pads(layer: fx.Node) -> bool:
    padding: Any = argument(layer, "padding")
    return padding != "valid" if isinstance(padding, str) else any(padding)


def _shorten(program: Program, chain: _Chain) -> str:
    """As one product and one sum, or less."""
    dtype = chain.last.meta["val"].dtype
    scale, shift = chain.scale.to(dtype), chain.shift.to(dtype)
    steps = [(_MUL, scale)] if not (scale == 1).all() else []
    steps += [(_ADD, shift)] if shift.any() else []
    if len(steps) >= chain.length:
        return "it has no fewer steps otherwise"
    if not (scale.isfinite().all() and shift.isfinite().all()):
        return "its constants together are not finite"
    value = chain.source
    for target, operand in steps:
        other = float(operand) if not operand.dim() else program.add_constant(operand, chain.last.name)
        value = insert_call(chain.last, target, (value, other))
    replace_node(chain.last, value)
    return ""
