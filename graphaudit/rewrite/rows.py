"""Operators that work row by row on rows that a mask selects, and the same for all rows that the mask covers.

The rows lie along the one dimension of a tensor whose size no input fixes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true

from graphaudit.graphs.fx_view import operator_name
from graphaudit.graphs.selection import where
from graphaudit.rewrite.operator_pass import argument

_aten = torch.ops.aten
ELEMENTWISE = frozenset(
    f"aten.{name}"
    for name in (
        *("abs", "add", "clamp", "cos", "div", "elu", "exp", "gelu", "leaky_relu", "log", "maximum", "minimum", "mul"),
        *("neg", "pow", "relu", "rsub", "sigmoid", "silu", "sin", "softplus", "sqrt", "square", "sub", "tanh"),
        *("_to_copy", "clone", "dropout", "hardtanh", "reciprocal", "rsqrt", "expm1", "log1p", "sign", "mish", "selu"),
        *("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_not", "logical_or", "bitwise_not", "hardswish"),
    )
)
_ALONG_A_DIMENSION = frozenset(
    {"aten.softmax.int", "aten.log_softmax.int", "aten.select.int", "aten.squeeze.dim", "aten.slice.Tensor"}
)
_REDUCTIONS = frozenset({"aten.sum.dim_IntList", "aten.mean.dim", "aten.amax.default", "aten.amin.default"})


def row_axis(node: fx.Node) -> int | None:
    """The dimension along which the selected rows lie; None where there is not one."""
    value = node.meta.get("val")
    if not isinstance(value, Tensor):
        return None
    axes = [axis for axis, size in enumerate(value.shape) if free_unbacked_symbols(size)]
    return axes[0] if len(axes) == 1 else None


def is_by_rows(node: fx.Node, is_rows: Callable[[object], bool]) -> bool:
    """Whether each row that an operator gives follows from the same row of what it reads, and nothing else does."""
    axis = row_axis(node) if node.op == "call_function" else None
    sources = [source for source in node.all_input_nodes if is_rows(source)]
    if axis is None or not sources or not all(isinstance(n.meta["val"], Tensor) for n in node.all_input_nodes):
        return False
    name, first = operator_name(node.target)[0], node.args[0]
    if name.rpartition(".")[0] in ELEMENTWISE or name in ("aten.where.self", "aten.where.ScalarOther"):
        return _is_broadcast_by_rows(node, axis, is_rows)
    if name == "aten.embedding.default":
        return not is_rows(first)
    if name == "aten.cat.default":
        return len(sources) == len(set(first)) and argument(node, "dim") % node.meta["val"].dim() != axis  # type: ignore[arg-type]
    if not is_rows(first) or len(sources) > 1:
        return False
    return _is_by_rows_of_one(node, name, first.meta["val"], row_axis(first))  # type: ignore[union-attr,arg-type]


def _is_by_rows_of_one(node: fx.Node, name: str, rows: Tensor, axis: int | None) -> bool:
    if axis is None:
        return False
    if name == "aten.linear.default":
        return axis < rows.dim() - 1
    if name == "aten.layer_norm.default":
        return axis < rows.dim() - len(node.args[1])  # type: ignore[arg-type]
    if name in ("aten.unsqueeze.default", "aten.permute.default", "aten.transpose.int"):
        return True
    if name in ("aten.view.default", "aten.reshape.default"):
        viewed, to = node.meta["val"].shape, row_axis(node) or 0
        kept = statically_known_true(viewed[to] == rows.shape[axis])
        return kept and all(statically_known_true(size == 1) for size in (*rows.shape[:axis], *viewed[:to]))
    if name in _ALONG_A_DIMENSION:
        return bool(argument(node, "dim") % rows.dim() != axis)
    dims = argument(node, "dim") if name in _REDUCTIONS else None
    return bool(dims) and axis not in [dim % rows.dim() for dim in dims]  # type: ignore[union-attr]


def _is_broadcast_by_rows(node: fx.Node, axis: int, is_rows: Callable[[object], bool]) -> bool:
    behind = node.meta["val"].dim() - axis  # counted from the last dimension, as broadcasting counts
    for source in node.all_input_nodes:
        value = source.meta["val"]
        if is_rows(source):
            if value.dim() - (row_axis(source) or 0) != behind or row_axis(source) is None:
                return False
        elif value.dim() >= behind and not statically_known_true(value.shape[-behind] == 1):
            return False
    return True


def positions_in(node: fx.Node, mask: fx.Node, positions: Mapping[fx.Node, int]) -> tuple[int, tuple[int, ...]] | None:
    """Where a tensor is indexed by a mask or by positions of its elements: the first such dimension of the tensor, and
    the dimensions of the mask to which that one and those after it belong. None for any other index."""
    if node.target in (_aten.index.Tensor, _aten.index_put.default):
        indices = list(node.args[1])  # type: ignore[arg-type]
        first = next(i for i, index in enumerate(indices) if index is not None)
    elif node.target in (_aten.index_select.default, _aten.index_copy.default, _aten.index_add.default):
        first, indices = node.args[1] % node.args[0].meta["val"].dim(), [node.args[2]]  # type: ignore[union-attr]
        indices = [None] * first + indices
    else:
        return None
    given = indices[first:]
    while given[-1] is None:
        given.pop()
    if given == [mask] and mask.meta["val"].dtype == torch.bool:
        return first, tuple(range(mask.meta["val"].dim()))
    dims = [positions[index] for index in given if index in positions]
    return (first, tuple(dims)) if len(set(dims)) == len(given) else None


def same_sizes(source: object, mask: fx.Node, first: int, dims: tuple[int, ...]) -> bool:
    """Whether a tensor has the sizes of the mask in the dimensions that `positions_in` names."""
    sizes, covered = source.meta["val"].shape[first:], mask.meta["val"].shape  # type: ignore[attr-defined]
    return all(statically_known_true(sizes[i] == covered[dim]) for i, dim in enumerate(dims))


def positions_along(dim: int) -> Callable[[Tensor], Tensor]:
    """The position along one of its dimensions of every element of the mask, in its order."""

    def positions(mask: Tensor) -> Tensor:
        along = torch.arange(mask.shape[dim]).reshape(-1, *(1,) * (mask.dim() - dim - 1))
        return along.expand(mask.shape).reshape(-1)

    return positions


def read_rows(first: int, dims: tuple[int, ...]) -> Callable[[Tensor, Tensor], Tensor]:
    """What a tensor holds for every element of the mask, in its order, along dimension `first`."""

    def read(x: Tensor, mask: Tensor) -> Tensor:
        ordered = [first + dims.index(dim) for dim in sorted(dims)]
        others = [dim for dim in range(x.dim()) if dim not in ordered]
        rest = [x.shape[dim] for dim in others]
        covered = [size if dim in dims else 1 for dim, size in enumerate(mask.shape)]
        spread = x.permute(*ordered, *others).reshape(*covered, *rest).expand(*mask.shape, *rest)
        return spread.reshape(-1, *rest).movedim(0, first)

    return read


def write_rows(
    dims: tuple[int, ...], *, by_rows: bool, adds: bool, scale: float
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """A tensor after values have been written or added at its positions `dims` of the mask's elements."""

    def write(into: Tensor, mask: Tensor, values: Tensor) -> Tensor:
        others = [dim for dim in range(mask.dim()) if dim not in dims]
        order, places = [*dims, *others], [mask.shape[dim] for dim in dims]
        turns = math.prod(mask.shape[dim] for dim in others)  # rows that may be written to one place
        keep = (mask != 0).permute(order).reshape(*places, turns, *(1,) * (into.dim() - len(dims)))
        if by_rows:
            rest = values.shape[1:]
            values = values.reshape(*mask.shape, *rest).permute(*order, *range(mask.dim(), mask.dim() + len(rest)))
            values = values.reshape(*places, turns, *rest)
        else:
            values = values.expand(*places, turns, *into.shape[len(dims) :])
        values = values.to(into.dtype)
        if adds:
            counted = torch.where(keep, values * scale, torch.zeros((), dtype=into.dtype))
            return into + counted.sum(len(dims), dtype=into.dtype)
        for turn in range(turns):
            into = where(keep.select(len(dims), turn), values.select(len(dims), turn), into)
        return into

    return write
