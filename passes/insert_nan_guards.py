"""Maxima, minima and bounds keep NaN on a target whose kernels may lose it.

    amax(x, dims)      →  amax(c, dims) + sum(where(isnan(x), nan, 0), dims)        c = where(isnan(x), -inf, x)
    argmax(x, dim)     →  argmax(where(any(isnan(x), dim), isnan(x), c), dim)       torch: the first NaN
    max(x, dim)        →  both of these
    maximum(x, y)      →  where(isnan(x) | isnan(y), nan, maximum(c, d))
    max_pool2d(x, …)   →  where(max_pool2d(isnan(x), …) > 0, nan, max_pool2d(c, …))
    clamp(x, …)        →  where(isnan(x), x, clamp(c, …)); relu and hardtanh likewise

- And the same of amin, min, argmin, minimum, max_pool1d and max_pool3d; c is then +inf where x is NaN, for bounds 0.
- Only where NaN can reach: see `graphs/nans.py`. A policy that says nothing of NaN stays as it is.
- Driven by the rulebook: `keeps_nan` names the operators of ONNX whose kernels keep NaN. ONNX promises it for none.
- Left alone: calls inside branches and loops, max-pooling that returns indices, and bounds that are tensors.

The results are eager's own, NaN included; on numbers nothing changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.fx_view import operator_name, view_program
from graphaudit.graphs.nans import Nans
from graphaudit.graphs.program import Program
from graphaudit.rewrite.base import PassResult
from graphaudit.rewrite.operator_pass import Function, OperatorPass
from graphaudit.rulebook.target import Target


class InsertNanGuards(OperatorPass):
    """NaN is led around operators that may lose it."""

    name = "insert_nan_guards"
    fixes = ("nan-semantics",)
    runs_after = (  # what they rewrite no longer divides 0 by 0
        *("rewrite_softmax", "rewrite_softplus", "rewrite_log_sigmoid", "rewrite_variance"),
        *(
            "rewrite_squash_correction",
            "rewrite_zero_divisions",
            "rewrite_masked_rows",
            "rewrite_entropy",
            "rewrite_atanh",
        ),
        *("remove_inference_noops", "decompose_cumulative", "decompose_median", "hoist_noise"),
    )
    claims = Claim.EQUIVALENT

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Guard every call of the main graph that NaN can reach and whose kernel is not known to keep it."""
        view = view_program(artifact)
        nans = Nans(view)
        self._reached = {n.name for n in view.nodes if not n.graph and any(nans.reach(v) for v in n.inputs)}
        self._kept = frozenset(target.keeps_nan)
        return super().run(artifact, target)

    def calls(self, program: Program) -> Iterator[fx.Node]:
        """The calls to guard."""
        for node in program.graph.nodes:
            if node.op == "call_function" and node.name in self._reached:
                way = _WAYS.get(operator_name(node.target)[0])
                if way is not None and not set(way[0]) <= self._kept:
                    yield node

    def replacement(self, program: Program, node: fx.Node, target: Target) -> Function | str:
        """The same call between guards."""
        guard = _WAYS[operator_name(node.target)[0]][1]
        return partial(guard, node.target)


def _poison(x: Tensor) -> Tensor:
    """NaN where `x` is NaN, else 0: what a sum does not lose."""
    return torch.where(x.isnan(), x, 0.0)


def _without_nan(x: Any, instead: float) -> Any:
    return x.masked_fill(x.isnan(), instead) if isinstance(x, Tensor) and x.is_floating_point() else x


def _extreme(worst: float, call: Function, x: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    dims = dim or tuple(range(x.dim()))
    return call(_without_nan(x, worst), dims, keepdim) + _poison(x).sum(dims, keepdim)  # type: ignore[no-any-return]


def _whole_extreme(worst: float, call: Function, x: Tensor) -> Tensor:
    return call(_without_nan(x, worst)) + _poison(x).sum()  # type: ignore[no-any-return]


def _extreme_with_index(worst: float, call: Function, x: Tensor, dim: int, keepdim: bool = False) -> Any:
    found = call(_without_nan(x, worst), dim, keepdim)[0]
    at = torch.ops.aten.argmax if worst < 0 else torch.ops.aten.argmin
    return found + _poison(x).sum(dim, keepdim), _index(worst, at.default, x, dim, keepdim)


def _index(worst: float, call: Function, x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    if dim is None and not keepdim:
        return _index(worst, call, x.reshape(-1), 0)
    any_nan = _poison(x).sum(dim, dim is not None).isnan()
    marks = (x.isnan() if worst < 0 else ~x.isnan()).to(x.dtype)
    return call(torch.where(any_nan, marks, _without_nan(x, worst)), dim, keepdim)  # type: ignore[no-any-return]


def _of_two(worst: float, call: Function, x: Tensor, y: Tensor) -> Tensor:
    found = call(_without_nan(x, worst), _without_nan(y, worst))
    return found.masked_fill(x.isnan() | y.isnan(), math.nan)  # type: ignore[no-any-return]


def _pool(worst: float, call: Function, x: Tensor, *window: Any) -> Tensor:
    found = call(_without_nan(x, worst), *window)
    return found.masked_fill(call(x.isnan().to(x.dtype), *window) > 0, math.nan)  # type: ignore[no-any-return]


def _bound(call: Function, x: Tensor, *bounds: Any, **named: Any) -> Tensor:
    return torch.where(x.isnan(), x, call(_without_nan(x, 0.0), *bounds, **named))


def _ways() -> dict[str, tuple[tuple[str, ...], Callable[..., Any]]]:
    """ATen operator → the ONNX operators that it becomes, and its guard."""
    ways: dict[str, tuple[tuple[str, ...], Callable[..., Any]]] = {}
    for ends, word, worst in (("max", "Max", -math.inf), ("min", "Min", math.inf)):
        reduction, index = f"Reduce{word}", f"Arg{word}"
        ways |= {
            f"aten.a{ends}.default": ((reduction,), partial(_extreme, worst)),
            f"aten.{ends}.default": ((reduction,), partial(_whole_extreme, worst)),
            f"aten.{ends}.dim": ((reduction, index), partial(_extreme_with_index, worst)),
            f"aten.arg{ends}.default": ((index,), partial(_index, worst)),
            f"aten.{ends}imum.default": ((word,), partial(_of_two, worst)),
            f"aten.{ends}.other": ((word,), partial(_of_two, worst)),
        }
    for name in ("max_pool1d", "max_pool2d", "max_pool3d"):
        ways[f"aten.{name}.default"] = (("MaxPool",), partial(_pool, -math.inf))
    for name in ("clamp", "clamp_min", "clamp_max", "hardtanh", "relu6"):
        ways[f"aten.{name}.default"] = (("Clip",), _bound)
    ways["aten.relu.default"] = (("Relu",), _bound)
    return ways


_WAYS = _ways()
