"""Teaches torch's pytrees the result types that policies return: dataclasses and distributions.

Tuples, lists, dicts, named tuples, `TensorDict` and the transformers' outputs are known to torch or register
themselves. A distribution becomes its parameters, found through `arg_constraints`
(https://docs.pytorch.org/docs/stable/distributions.html), so that the deployed policy returns those.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import distributions
from torch.utils import _pytree as pytree


def register_structures(*values: Any) -> None:
    """Register every dataclass and distribution type found inside `values` as a pytree node. Idempotent."""
    stack = list(values)
    while stack:
        value = stack.pop()
        if isinstance(value, distributions.Distribution):
            _register_distribution(type(value))
            stack.extend(_children(value).values())
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            if type(value) not in pytree.SUPPORTED_NODES:
                torch.export.register_dataclass(type(value))
            stack.extend(getattr(value, f.name) for f in dataclasses.fields(value))
        elif isinstance(value, dict):
            stack.extend(value.values())
        elif isinstance(value, list | tuple):
            stack.extend(value)


def _register_distribution(cls: type[distributions.Distribution]) -> None:
    if cls in pytree.SUPPORTED_NODES:
        return

    def flatten(value: distributions.Distribution) -> tuple[list[Any], Any]:
        children = _children(value)
        return list(children.values()), (tuple(children), _context(value))

    def unflatten(values: Any, context: Any) -> distributions.Distribution:
        keys, rest = context
        return _build(cls, dict(zip(keys, values, strict=True)), rest)

    def flatten_with_keys(value: distributions.Distribution) -> tuple[list[Any], Any]:
        children = _children(value)
        keyed = [(pytree.GetAttrKey(k), v) for k, v in children.items()]
        return keyed, (tuple(children), _context(value))

    pytree.register_pytree_node(
        cls,
        flatten,
        unflatten,
        serialized_type_name=f"graphaudit.{cls.__module__}.{cls.__qualname__}",
        flatten_with_keys_fn=flatten_with_keys,
    )


def _children(value: distributions.Distribution) -> dict[str, Any]:
    if isinstance(value, distributions.Independent | distributions.TransformedDistribution):
        return {"base_dist": value.base_dist}
    names = [n for n in value.arg_constraints if n in value.__dict__]
    # Categorical and its kin hold probs or logits and compute the other on demand; either one is enough.
    if "probs" in names and "logits" in names:
        names.remove("probs")
    return {n: getattr(value, n) for n in names}


def _context(value: distributions.Distribution) -> Any:
    if isinstance(value, distributions.Independent):
        return value.reinterpreted_batch_ndims
    if isinstance(value, distributions.TransformedDistribution):
        return tuple(value.transforms)
    return None


def _build(cls: type[distributions.Distribution], children: dict[str, Any], context: Any) -> distributions.Distribution:
    if issubclass(cls, distributions.Independent):
        return cls(children["base_dist"], context, validate_args=False)
    if issubclass(cls, distributions.TransformedDistribution):
        built = cls.__new__(cls)
        distributions.TransformedDistribution.__init__(built, children["base_dist"], list(context), validate_args=False)
        return built
    return cls(**children, validate_args=False)
