"""A value of one pass of a loop that runs over a dimension that varies: it stands for the values of all passes.

What torch does with it is done for all passes at once: by `torch.vmap`, or by a rule of its own below, where vmap's
would fix the size at the example's (functorch's rules for concatenation, normalisation, convolution and gathering do).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode, get_default_nowrap_functions
from torch.utils import _pytree as pytree

from graphaudit.capture.control_flow.refusal import Refused

LOOP = "loop-over-dynamic-dim"


class Row(Tensor):
    """One pass's tensor. `rows` holds the tensors of all passes, along a dimension 0 of its own."""

    rows: Tensor

    @staticmethod
    def __new__(cls, rows: Tensor) -> Row:
        made: Row = Tensor._make_wrapper_subclass(cls, rows.shape[1:], dtype=rows.dtype, device=rows.device)
        made.rows = rows
        return made

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        del tensor_contents
        return f"Row(shape={tuple(self.shape)})"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _handle(func, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise Refused(f"{func} cannot be done for all passes of this loop at once", LOOP)


class AllPasses(TorchFunctionMode):
    """Does what is asked of rows. A mode, because torch.export follows vmap only where its own modes are in force:
    they are while a mode above them is handled, and not while a subclass is."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        leaves = pytree.tree_leaves((args, kwargs))
        if not any(isinstance(leaf, Row) for leaf in leaves):
            return func(*args, **kwargs)
        other = next((v for v in leaves if hasattr(v, "__torch_function__") and not isinstance(v, Tensor)), None)
        if other is None:
            return _handle(func, args, kwargs)
        with self:  # a number, say: it asks again, with tensors
            return type(other).__torch_function__(func, (), args, kwargs)


def _handle(func: Any, args: Any, kwargs: Any) -> Any:
    if func in METADATA:
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    rule = _RULES.get(func)
    result = rule(*args, **kwargs) if rule is not None else NotImplemented
    return _for_all(func, args, kwargs) if result is NotImplemented else result


def rows_of(value: Tensor, count: Any) -> Tensor:
    """The tensors of all passes; one that is the same on every pass is repeated."""
    return value.rows if isinstance(value, Row) else value.unsqueeze(0).expand(count, *value.shape)


def _count(*values: Any) -> Any:
    return next(v.rows.shape[0] for v in pytree.tree_leaves(values) if isinstance(v, Row))


def _for_all(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    leaves, spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Row)]
    name = getattr(func, "__name__", "")
    writes = name == "__setitem__" or (name.endswith("_") and not name.endswith("__")) or name.startswith("__i")
    if writes and name not in ("__invert__", "__index__", "__int__") and not isinstance(args[0], Row):
        raise Refused("every pass of this loop changes a tensor that the other passes see", LOOP)
    shape: list[Any] = []

    def once(*values: Tensor) -> tuple[Tensor, ...]:
        filled = list(leaves)
        for place, value in zip(places, values, strict=True):
            filled[place] = value
        given, named = pytree.tree_unflatten(filled, spec)
        results, structure = pytree.tree_flatten(func(*given, **named))
        shape[:] = [structure, [None if isinstance(r, Tensor) else r for r in results]]
        return tuple(r for r in results if isinstance(r, Tensor)) or (values[0],)

    try:
        made = torch.vmap(once, randomness="error")(*(leaves[i].rows for i in places))
    except RuntimeError as error:
        text = str(error).strip().partition("\n")[0]
        raise Refused(f"{name} cannot be done for all passes of this loop at once: {text}", LOOP) from error
    if writes and isinstance(args[0], Row):
        return args[0]
    tensors = iter(made)
    structure, others = shape
    return pytree.tree_unflatten([Row(next(tensors)) if o is None else o for o in others], structure)


# Rules. Each takes the arguments of the function that it stands for, and may say NotImplemented.


def _cat(tensors: Sequence[Tensor], dim: int = 0, **kwargs: Any) -> Any:
    count = _count(tensors)
    return Row(torch.cat([rows_of(t, count) for t in tensors], dim if dim < 0 else dim + 1, **kwargs))


def _stack(tensors: Sequence[Tensor], dim: int = 0, **kwargs: Any) -> Any:
    count = _count(tensors)
    return Row(torch.stack([rows_of(t, count) for t in tensors], dim if dim < 0 else dim + 1, **kwargs))


def _plainly(*functions: Callable[..., Any]) -> dict[Any, Callable[..., Any]]:
    """Functions that work on the last dimensions of their first argument, and take the others as they are."""

    def rule(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(x: Any, *rest: Any, **kwargs: Any) -> Any:
            if not isinstance(x, Row) or _holds_rows((rest, kwargs)):
                return NotImplemented
            return Row(function(x.rows, *rest, **kwargs))

        return call

    return {function: rule(function) for function in functions}


def _folded(function: Callable[..., Any], arguments: int, dims: int | None) -> Callable[..., Any]:
    """Functions whose first `arguments` have a batch first: the passes become part of it.

    With `dims`, an argument of so many dimensions has no batch, and the passes are the batch.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        if _holds_rows((args[arguments:], kwargs)):
            return NotImplemented
        count = _count(args)
        unbatched = dims is not None and args[0].dim() == dims
        given = pytree.tree_map(lambda t: rows_of(t, count), args[:arguments])
        if not unbatched:
            given = pytree.tree_map(lambda t: t.flatten(0, 1), given)
        result = function(*given, *args[arguments:], **kwargs)
        batch = 1 if unbatched else args[0].shape[0]
        return pytree.tree_map(lambda t: Row(t if unbatched else t.unflatten(0, (count, batch))), result)

    return call


def _gather(x: Tensor, dim: int, index: Tensor, **kwargs: Any) -> Any:
    count = _count(x, index)
    return Row(torch.gather(rows_of(x, count), dim if dim < 0 else dim + 1, rows_of(index, count), **kwargs))


def _scatter(x: Tensor, dim: int, index: Tensor, src: Any) -> Any:
    count = _count(x, index, src)
    values = rows_of(src, count) if isinstance(src, Tensor) else src
    return Row(torch.scatter(rows_of(x, count), dim if dim < 0 else dim + 1, rows_of(index, count), values))


def _index_select(x: Tensor, dim: int, index: Tensor) -> Any:
    dim = dim % x.dim()
    if not isinstance(x, Row):
        count, width = index.rows.shape  # type: ignore[attr-defined]
        picked = torch.index_select(x, dim, index.rows.flatten())  # type: ignore[attr-defined]
        split: Tensor = picked.unflatten(dim, (count, width))  # type: ignore[no-untyped-call]
        return Row(split.movedim(dim, 0))
    if not isinstance(index, Row):
        return Row(torch.index_select(x.rows, dim + 1, index))
    count, width = index.rows.shape
    wide = index.rows.reshape([count, *(width if d == dim else 1 for d in range(x.dim()))])
    wide = wide.expand([count, *(width if d == dim else size for d, size in enumerate(x.rows.shape[1:]))])
    return Row(torch.gather(x.rows, dim + 1, wide))


def _matmul(one: Tensor, other: Tensor) -> Any:
    a, b = (t.rows if isinstance(t, Row) else t for t in (one, other))
    a = a.unsqueeze(-2) if one.dim() == 1 else a
    b = b.unsqueeze(-1) if other.dim() == 1 else b
    # matmul aligns dimensions at their end, so those of the passes have to be the first of both.
    rank = max(t.dim() + (not isinstance(given, Row)) for given, t in ((one, a), (other, b)))
    a, b = (
        t.reshape([t.shape[0], *[1] * (rank - t.dim()), *t.shape[1:]]) if isinstance(given, Row) else t
        for given, t in ((one, a), (other, b))
    )
    result = torch.matmul(a, b)
    result = result.squeeze(-1) if other.dim() == 1 else result
    return Row(result.squeeze(-1 if other.dim() == 1 else -2) if one.dim() == 1 else result)


def _holds_rows(value: Any) -> bool:
    return any(isinstance(leaf, Row) for leaf in pytree.tree_leaves(value))


# Descriptors, which torch declares as the values that they give.
_ATTRIBUTES: tuple[Any, ...] = (
    Tensor.shape,
    Tensor.ndim,
    Tensor.dtype,
    Tensor.device,
    Tensor.requires_grad,
    Tensor.layout,
)

METADATA = {
    *get_default_nowrap_functions(),
    *(Tensor.dim, Tensor.size, Tensor.numel, Tensor.__len__, Tensor.is_floating_point, Tensor.is_complex),
    *(Tensor.is_signed, Tensor.element_size, Tensor.get_device, Tensor.ndimension, Tensor.__hash__, Tensor.nelement),
    *(torch.is_floating_point, torch.is_complex, torch.numel, torch.is_tensor, Tensor.__repr__),
    *(p.__get__ for p in _ATTRIBUTES),
}

_RULES: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys((torch.cat, torch.concat, torch.concatenate), _cat),
    torch.stack: _stack,
    **dict.fromkeys((torch.gather, Tensor.gather), _gather),
    **dict.fromkeys((torch.scatter, Tensor.scatter), _scatter),
    **dict.fromkeys((torch.index_select, Tensor.index_select), _index_select),
    **dict.fromkeys((torch.matmul, Tensor.matmul, Tensor.__matmul__), _matmul),
    Tensor.__rmatmul__: lambda other, one: _matmul(one, other),
    Tensor.untyped_storage: lambda x: x.rows.untyped_storage(),
    **_plainly(F.linear, F.layer_norm, F.embedding),
    **{f: _folded(f, 1, 2 + n) for n, f in enumerate((torch.conv1d, torch.conv2d, torch.conv3d))},
    **{f: _folded(f, 1, None) for f in (F.batch_norm, F.group_norm, F.instance_norm)},
    **{f: _folded(f, 2, None) for f in (torch.gru_cell, torch.lstm_cell, torch.rnn_tanh_cell, torch.rnn_relu_cell)},
}
