"""What a program computes where every operation is done in float16: each operand and each result is rounded to it.

Sums and matrix products are accumulated in float32 and rounded once, as matrix units do. A chip may round oftener, and
flush subnormal numbers to zero; so this is no copy of any chip, but a number that overflows or vanishes in float16 does
so here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from graphaudit.text import one_line

if TYPE_CHECKING:
    from graphaudit.equivalence.reference import Reference
    from graphaudit.runtimes import Runner

_SHOWN = 3  # inputs that are named
_KEPT = ("eps", "p", "scale")  # parameters of kernels that compute inside in float32


def in_float16(run: Runner) -> Runner:
    """The same runner with float16 arithmetic; its float32 results hold numbers of float16."""

    def rounded(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        with _Half():  # type: ignore[no-untyped-call]
            return list(run([_round(t) for t in inputs]))

    return rounded


def float16_condition(reference: Reference, run: Runner) -> str:
    """What becomes of a program in float16 on the example and the user's own inputs, in one sentence."""
    lost, odd, worst, own = [], 0, 0.0, 0
    narrow = in_float16(run)
    for number, sample in enumerate(reference.samples):
        if not sample.is_own:
            continue
        inputs, outputs, _ = reference.answers(number)
        try:
            results = narrow([t.clone() for t in inputs])
        except Exception as error:  # any operator of the policy may refuse the rounded operands
            return f"not simulated in float16: {type(error).__name__}: {one_line(str(error), 100)}"
        own += 1
        pairs = list(zip(results, outputs))
        floats = [(g.double(), w.double()) for g, w in pairs if w.is_floating_point()]
        lost += [sample.origin] * any(bool((w.isfinite() & ~g.isfinite()).any()) for g, w in floats)
        odd += any(
            not torch.equal(g.long(), w.long()) for g, w in pairs if not (w.is_floating_point() or w.is_complex())
        )
        worst = max([worst, *(_distance(g, w) for g, w in floats)])
    shown = ", ".join(lost[:_SHOWN]) + (f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else "")
    finite = f"not finite on {shown}, where eager is" if lost else "finite wherever eager is"
    agree = f", integers differ on {odd}" if odd else ""
    how = f"simulated in float16, every operation rounded, on {own} of your inputs"
    return f"{how}: {finite}, worst |Δ| {worst:.1e}{agree}"


def _distance(got: torch.Tensor, wanted: torch.Tensor) -> float:
    both = got.isfinite() & wanted.isfinite()
    return float((got - wanted).abs()[both].max()) if bool(both.any()) else 0.0


class _Half(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Rounds float32 tensors and Python floats to float16 before and after every operation."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = dict(kwargs or {})
        names = [a.name for a in func._schema.arguments]
        args = [_operand(value) if name not in _KEPT else value for name, value in zip(names, args)]
        named = {k: _operand(v) if k not in _KEPT else v for k, v in named.items()}
        result = func(*args, **named)
        if any(r.alias_info is not None for r in func._schema.returns):  # a view, or written in place
            return result
        return pytree.tree_map_only(torch.Tensor, _round, result)


def _operand(value: Any) -> Any:
    if isinstance(value, float):
        return float(torch.tensor(value, dtype=torch.float64).half())
    return pytree.tree_map_only(torch.Tensor, _round, value)


def _round(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.half().float() if tensor.dtype is torch.float32 else tensor
