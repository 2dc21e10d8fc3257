"""What eager itself answers when its inputs and parameters move by a few units in the last place.

This is the backward-error argument: an answer that eager gives for inputs that differ from the given ones by less than
they are accurate is as good as eager's own. It decides the elements that miss their bound: a tie between two logits, a
value at a jump, an output that cancels nearly to zero.

Values with at most eight significant bits (0, 1, 0.5, 12, mask constants: whatever bfloat16 holds exactly) are taken
as exact and do not move: a mask has to stay a mask, and rounding 0.5 has one right answer. Parameters move because the
rounding error inside a layer is the exact result for slightly different weights; buffers (statistics, constants) do
not.

Functions that no standard asks to be rounded correctly, such as tanh and exp, move too: two libraries differ in their
last places (log(1 - tanh(x)**2 + 1e-6) shows it, where x may move by units without tanh(x) moving at all). A result
that bfloat16 holds exactly stays, as above, except that 1 and -1 may become the next number inside where the function
only ever approaches them. A sigmoid moves by half a unit of 1 besides: libraries compute it as 1/2 and a rational
function that is cut off (ONNX Runtime's MLAS at -18), so a small one has few right digits.

Equal elements that torch.topk or torch.sort orders are a tie that no nudge breaks where they are exact, as zeros are:
there, eager is run once more with ties broken as ONNX breaks them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from graphaudit.equivalence.eager import Eager
from graphaudit.equivalence.ties import LowestFirst

NUDGES = 8
_ULPS = 4
_POOL = 1 << 16
_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
_LSTM = "aten::mkldnn_rnn_layer"  # its gates are sigmoids; results: output, hy, cy, workspace
_APPROACHING = frozenset({"aten::tanh", "aten::sigmoid", "aten::erf", "aten::softmax", "aten::_softmax"})  # 1, or -1
_INEXACT = _APPROACHING | frozenset(
    f"aten::{name}"
    for name in (
        "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "atan2",
        "sinh", "cosh", "asinh", "acosh", "atanh", "erfc", "erfinv", "lgamma", "digamma", "softplus", "log_softmax",
        "_log_softmax", "log_sigmoid_forward", "logsumexp", "gelu", "mish", "silu", "elu",
    )
)  # fmt: skip


@dataclass(frozen=True)
class Moves:
    """How one output of one sample moves. Shapes as the output's own.

    moved    largest change of a float element over all nudges; 0 where it became NaN or infinite
    answers  the integer results, (nudges, …); None for floats
    tied     the result with ties broken as ONNX breaks them; None where there is no tie
    """

    moved: torch.Tensor
    answers: torch.Tensor | None
    tied: torch.Tensor | None = None


class Sensitivity:
    """Nudged runs of the eager module and of its float64 copy, made when asked for and kept."""

    def __init__(self, eager: Eager, double: Eager | None, dtype: torch.dtype) -> None:
        """`dtype` is the policy's own; parameters move by its units, in the float64 copy too."""
        self._runs = [e for e in (eager, double) if e is not None]
        self._eps = torch.finfo(dtype).eps
        self._known: dict[int, list[Moves]] = {}
        generator = torch.Generator().manual_seed(0)
        ulps = torch.randint(1, _ULPS + 1, (_POOL,), generator=generator).double()
        signs = torch.randint(0, 2, (_POOL,), generator=generator).double() * 2 - 1
        self._pool = (ulps * signs).repeat(2)  # twice, so that every start has a full pool behind it
        self._factors: dict[tuple[torch.dtype, float], torch.Tensor] = {}

    def moves(self, number: int, args: Any, kwargs: Any) -> list[Moves]:
        """For each output of sample `number` with those arguments, how it moves."""
        if number not in self._known:
            runs = [moves for run in self._runs if (moves := self._moves_of(run, number, args, kwargs))]
            self._known[number] = [_join(of_output) for of_output in zip(*runs)]
            tied = self._tied(number, args, kwargs)
            if tied is not None and [t.shape for t in tied] == [m.moved.shape for m in self._known[number]]:
                self._known[number] = [replace(m, tied=t) for m, t in zip(self._known[number], tied)]
        return self._known[number]

    def _tied(self, number: int, args: Any, kwargs: Any) -> list[torch.Tensor] | None:
        try:
            with LowestFirst() as mode:
                outputs = self._runs[0](args, kwargs, seed=number)
        except Exception:  # as in _moves_of
            return None
        return [torch.view_as_real(o) if o.is_complex() else o for o in outputs] if mode.changed else None

    def _moves_of(self, run: Eager, number: int, args: Any, kwargs: Any) -> list[Moves] | None:
        try:
            base = run(args, kwargs, seed=number)
            nudged = [self._nudged(run, number, args, kwargs, nudge) for nudge in range(NUDGES)]
        except Exception:  # the user's forward; the float64 copy need not run on every input
            return None
        if any([o.shape for o in outputs] != [o.shape for o in base] for outputs in nudged):
            return None
        return [_moves_between(b, [outputs[i] for outputs in nudged]) for i, b in enumerate(base)]

    def _nudged(self, run: Eager, number: int, args: Any, kwargs: Any, nudge: int) -> list[torch.Tensor]:
        def move(leaf: Any) -> Any:
            return self._move_inexact(leaf, nudge) if isinstance(leaf, torch.Tensor) else leaf

        args, kwargs = pytree.tree_map(move, (args, kwargs))
        with _Inexact(nudge):
            return run(args, kwargs, seed=number, prepare=lambda module: self._move_parameters(module, nudge))

    def _move_inexact(self, tensor: torch.Tensor, nudge: int) -> torch.Tensor:
        if not tensor.is_floating_point() or not tensor.numel():
            return tensor
        exact = tensor == tensor.to(torch.bfloat16).to(tensor.dtype)
        moved = tensor.clone(memory_format=torch.contiguous_format)
        self._scale(moved, torch.finfo(tensor.dtype).eps, nudge)
        return torch.where(exact | ~tensor.isfinite(), tensor, moved)

    def _move_parameters(self, module: nn.Module, nudge: int) -> None:
        for position, parameter in enumerate(module.parameters()):
            if parameter.is_floating_point() and parameter.numel() and not parameter.is_inference():
                moved = parameter if parameter.is_contiguous() else parameter.contiguous()
                self._scale(moved, self._eps, nudge * 31 + position + 1)
                if moved is not parameter:
                    parameter.copy_(moved)

    def _scale(self, tensor: torch.Tensor, eps: float, number: int) -> None:
        """Multiply a contiguous tensor in place by 1 ± 1…4 eps, fixed by `number`."""
        key = (tensor.dtype, eps)
        if key not in self._factors:
            self._factors[key] = (1 + eps * self._pool).to(tensor.dtype)
        start = (number * 7919) % _POOL
        factors = self._factors[key][start : start + _POOL]
        flat = tensor.view(-1)
        whole = flat.numel() // _POOL * _POOL
        flat[:whole].view(-1, _POOL).mul_(factors)
        flat[whole:].mul_(factors[: flat.numel() - whole])


class _Inexact(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Moves the results of functions by up to `_ULPS` units in their last place; equal results stay equal."""

    def __init__(self, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seed = seed

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.name().partition(".")[0]
        function = name.removesuffix("_")
        if function == _LSTM:
            return (*(self._moved(t, False, True) for t in result[:3]), *result[3:])
        if function not in _INEXACT:
            return result
        tensor = result[0] if isinstance(result, tuple) else result
        moved = self._moved(tensor, function in _APPROACHING, function == "aten::sigmoid")
        if function != name:
            return tensor.copy_(moved)
        return (moved, *result[1:]) if isinstance(result, tuple) else moved

    def _moved(self, tensor: torch.Tensor, approaching: bool, absolute: bool) -> torch.Tensor:
        if not tensor.is_floating_point() or not tensor.numel():
            return tensor
        change = torch.finfo(tensor.dtype).eps * self._ulps(tensor)
        exact = (tensor == tensor.to(torch.bfloat16).to(tensor.dtype)) | ~tensor.isfinite()
        moved = torch.where(exact, tensor, tensor * (1 + change) + (change / (2 * _ULPS) if absolute else 0.0))
        inside = tensor * (1 - change.abs() / 2)
        return torch.where(tensor.abs() == 1, inside, moved.clamp(-1, 1)) if approaching else moved

    def _ulps(self, tensor: torch.Tensor) -> torch.Tensor:
        """-4 to 4 without 0, made of the bits of each element."""
        bits = tensor.contiguous().view(_BITS[tensor.element_size()]).long() + 0x9E3779B1 * (self._seed + 1)
        mixed = (bits ^ (bits >> 16)) * 0x85EBCA6B >> 13
        return ((mixed >> 1) % _ULPS + 1).to(tensor.dtype) * ((mixed & 1) * 2 - 1).to(tensor.dtype)


def _moves_between(base: torch.Tensor, nudged: Sequence[torch.Tensor]) -> Moves:
    if base.is_complex():
        base, nudged = torch.view_as_real(base), [torch.view_as_real(n) for n in nudged]
    if not base.is_floating_point():
        return Moves(torch.zeros(base.shape, dtype=torch.float64), torch.stack([n.long() for n in nudged]))
    moved = torch.zeros(base.shape, dtype=torch.float64)
    for n in nudged:
        change = (n.double() - base.double()).abs()
        moved = torch.maximum(moved, torch.where(change.isfinite(), change, 0.0))
    return Moves(moved, None)


def _join(moves: Sequence[Moves]) -> Moves:
    moved = torch.stack([m.moved for m in moves]).amax(0)
    answers = [m.answers for m in moves if m.answers is not None]
    return Moves(moved, torch.cat(answers) if answers else None)
