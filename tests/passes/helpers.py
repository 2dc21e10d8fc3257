"""Running one pass on a policy, and comparing with the eager module and its float64 copy."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from graphaudit.graphs.program import Program
from graphaudit.rewrite.base import Pass, PassResult
from graphaudit.rewrite.structure import find_malformation
from graphaudit.rulebook.target import Target
from tests.helpers import make_program

TARGET = Target(name="onnx", summary="any ONNX runtime", opset=18, max_opset=23)


class Function(nn.Module):
    """A policy without parameters."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


class Unary(Function):
    """As `Function`, of one tensor, so that its dimensions can be dynamic."""

    def forward(self, x: torch.Tensor) -> Any:  # type: ignore[override]
        return self.function(x)


def run_pass(
    cls: type[Pass[Program]],
    module: nn.Module,
    args: tuple[Any, ...],
    dynamic_shapes: Sequence[Any] | None = None,
    target: Target = TARGET,
) -> PassResult[Program]:
    """The result on a copy; it is well formed, the program it came from is untouched, a second run changes nothing."""
    _, program = make_program(module, args, dynamic_shapes)
    before = str(program.graph)
    result = cls().run(program.copy(), target)
    assert str(program.graph) == before
    assert find_malformation(program, result.artifact) is None
    again = cls().run(result.artifact.copy(), target)
    assert not again.changed, f"a second run rewrote {[s.node for s in again.rewritten]}"
    places = {n.name: program.place(n) for n in program.graph.nodes}
    assert all(site.place == places.get(site.node, site.place) for site in result.rewritten)
    return result


def ops(program: Program) -> list[str]:
    """The operators of the graph in order, without namespace and overload."""
    return [n.target.__name__.split(".")[0] for n in program.graph.nodes if n.op == "call_function"]


def reasons(result: PassResult[Program]) -> list[str]:
    return [site.reason for site in result.left]


def assert_equivalent_where_finite(module: nn.Module, program: Program, *args: torch.Tensor) -> None:
    """Within 16·eps·scale + 8·|eager - float64| of eager where eager is finite; like eager or like
    float64 where it is not.

    `scale` is the largest finite magnitude of the float64 output, at least 1; eps is that of the output's dtype.
    """
    module = module.eval()
    exact = copy.deepcopy(module).double()
    widened = [a.double() if a.is_floating_point() else a for a in args]
    with torch.no_grad():
        eager, reference = module(*args), exact(*widened)
    results = program.runner()(list(args))
    for got, want, truth in zip(results, _tuple(eager), _tuple(reference), strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        if not want.is_floating_point():
            assert torch.equal(got, want)
            continue
        truth, finite = truth.double(), want.isfinite()
        ours, theirs = got.double(), want.double()
        scale = max(1.0, float(truth[truth.isfinite()].abs().max()) if truth.isfinite().any() else 1.0)
        bound = 16 * torch.finfo(want.dtype).eps * scale
        tolerance = bound + 8 * (theirs - truth).abs().nan_to_num(0, 0, 0)
        assert got[finite].isfinite().all()
        assert ((ours - theirs).abs() <= tolerance)[finite].all()
        unchanged = (ours == theirs) | (ours.isnan() & theirs.isnan())
        settled = ~finite & truth.isfinite() & ~unchanged
        assert ((ours - truth).abs() <= bound)[settled].all()
        unsettled = ~finite & ~truth.isfinite() & ~unchanged
        assert torch.equal(ours[unsettled].isnan(), truth[unsettled].isnan())


def assert_repaired(module: nn.Module, program: Program, *args: torch.Tensor, value: float | None = None) -> int:
    """The very numbers of eager where eager is finite; finite, and `value` if given, where eager is NaN or infinite.

    Returns how many elements were repaired.
    """
    with torch.no_grad():
        eager = _tuple(module.eval()(*args))
    repaired = 0
    for got, want in zip(program.runner()(list(args)), eager, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        finite = want.isfinite()
        assert torch.equal(got[finite], want[finite])
        assert got[~finite].isfinite().all() and (value is None or (got[~finite] == value).all())
        repaired += int((~finite).sum())
    return repaired


def _tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
