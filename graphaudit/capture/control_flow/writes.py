"""Writes to tensors under a mask, and draws under a mask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from graphaudit.capture.control_flow.indexing import set_tensor_item
from graphaudit.capture.control_flow.limits import carry
from graphaudit.capture.control_flow.refusal import Refused, refuse_if_left_alone, user_place
from graphaudit.capture.control_flow.safety import made_safe
from graphaudit.capture.control_flow.session import current
from graphaudit.graphs.selection import where

_ASKING = ("__bool__", "__int__", "__float__", "__index__", "item", "tolist", "is_nonzero")
_RESHAPING = ("resize_", "resize_as_", "set_", "t_", "transpose_", "squeeze_", "unsqueeze_", "swapaxes_", "__set__")
_HARMLESS = ("requires_grad_", "detach_", "share_memory_", "retain_grad")
_DRAWS = {
    *("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "multinomial", "bernoulli"),
    *("normal", "poisson", "dropout", "alpha_dropout", "feature_dropout", "gumbel_softmax", "rrelu", "binomial"),
    *("normal_", "uniform_", "random_", "exponential_", "geometric_", "cauchy_", "log_normal_", "bernoulli_"),
    *("_sample_dirichlet", "_standard_gamma", "native_dropout", "dropout1d", "dropout2d", "dropout3d"),
    *("feature_alpha_dropout", "rrelu_", "scaled_dot_product_attention", "multi_head_attention_forward"),
}


class MaskedWrites(TorchFunctionMode):
    """Lets a write in a region change the tensor only where the region is the path taken.

    A draw in a region is marked: where the policy skips it, its later draws are others of the sequence.
    Raises Refused for a change of shape.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        session = current()
        name = getattr(func, "__name__", "")
        if name in _ASKING:
            refuse_if_left_alone(session.left_alone)
        written = _written(func, name, args, kwargs)
        if session.each is not None:
            targets: Sequence[torch.Tensor | None] = written or [None]
            for target in targets:
                session.each.note(func, target, (args, kwargs))
        for tensor in written:
            session.writes += 1
            session.aliases.check_write(tensor, session.roots())
            session.region_writes.append((tensor, user_place()))
        if name in _DRAWS and _really_draws(name, args, kwargs):
            if session.loops_around:
                raise Refused("how many random draws this loop makes depends on data", "draw-in-branch")
            with session.drawing():
                return self._called(func, name, args, kwargs, written)
        return self._called(func, name, args, kwargs, written)

    @classmethod
    def _called(
        cls, func: Callable[..., Any], name: str, args: Any, kwargs: dict[str, Any], written: list[torch.Tensor]
    ) -> Any:
        result = cls._masked(func, name, args, kwargs, written)
        for source in map(current().aliases.source, written):
            if source is not None:  # eager wrote to a view
                copy, target, key = source
                cls._called(set_tensor_item, "", (target, key, copy), {}, [target])
        return result

    @staticmethod
    def _masked(
        func: Callable[..., Any], name: str, args: Any, kwargs: dict[str, Any], written: list[torch.Tensor]
    ) -> Any:
        mask = current().mask
        if mask is None:
            result = func(*args, **kwargs)
            carry(name, args, kwargs, result)
            return result
        args, kwargs = made_safe(func, args, kwargs, mask)
        if not written:
            result = func(*args, **kwargs)
            carry(name, args, kwargs, result)
            return result
        if name in _RESHAPING:
            raise Refused(f"{name.strip('_')} changes a tensor's shape or storage on one side of a branch")
        before = [tensor.clone() for tensor in written]
        result = func(*args, **kwargs)
        for tensor, old in zip(written, before, strict=True):
            tensor.copy_(where(mask, tensor, old))
        return result


def _written(func: Any, name: str, args: Sequence[Any], kwargs: Any) -> list[torch.Tensor]:
    """The tensors that a function of torch's, or a custom operator, writes to."""
    schema = _schema(func)
    if schema is not None:
        given = {a.name: args[i] if i < len(args) else kwargs.get(a.name) for i, a in enumerate(schema.arguments)}
        changed = [given[a.name] for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
        return [leaf for leaf in pytree.tree_leaves(changed) if isinstance(leaf, torch.Tensor)]
    out = kwargs.get("out")
    if isinstance(out, torch.Tensor):
        return [out]
    if not args or not isinstance(args[0], torch.Tensor):
        return []
    in_place = name.endswith("_") and not name.startswith("__") and name not in _HARMLESS
    operator = name in ("__setitem__", "__set__") or (name.startswith("__i") and name not in _QUERIES)
    return [args[0]] if in_place or operator or kwargs.get("inplace") else []


def _schema(func: Any) -> Any:
    """The schema of an operator that is called through `torch.ops`, which says what it writes to."""
    if isinstance(func, torch._ops.OpOverloadPacket):
        names = func.overloads()  # type: ignore[no-untyped-call]
        func = getattr(func, names[0]) if len(names) == 1 else func
    return func._schema if isinstance(func, torch._ops.OpOverload) else None


_QUERIES = ("__invert__", "__index__", "__int__", "__init__", "__iter__", "__init_subclass__")


def _really_draws(name: str, args: Sequence[Any], kwargs: Any) -> bool:
    """Whether a function of `_DRAWS` is asked to: some draw in training alone."""
    if name == "scaled_dot_product_attention":
        return bool(kwargs.get("dropout_p", args[4] if len(args) > 4 else 0.0))
    if name in ("rrelu", "rrelu_", "multi_head_attention_forward"):
        return bool(kwargs.get("training", False))
    return "dropout" not in name or bool(
        kwargs.get("training", kwargs.get("train", args[2] if len(args) > 2 else True))
    )
