"""The short way into a call, for arguments that need no conversion. Imports no torch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphaudit.export.manifest import Branch, Call, Fixed, Input, Leaf, Parameter, Tree

Array = NDArray[Any]
Values = list[Any]
Take = Callable[[Any, Values], bool]  # adds the tensors in a value; False where the value needs the long way

_SIZES_KEPT = 64
_ABSENT = object()
_CONTAINERS: dict[str, type[Any]] = {"tuple": tuple, "list": list, "dict": dict}


class DirectCalls:
    """Recognises calls that differ from an earlier one in nothing but the numbers.

    The earlier one went the long way, with all its checks, and `learn` noted its sizes. For every other call `arrays`
    gives None: the long way takes it, or refuses it and says why.
    """

    def __init__(self, call: Call, inputs: Sequence[Input]) -> None:
        trees = [_tree(call, index, parameter) for index, parameter in enumerate(call.parameters)]
        self._takes = [_argument(tree, p.default) for tree, p in zip(trees, call.parameters)]
        self._names = ["" if p.kind == "POSITIONAL_ONLY" else p.name for p in call.parameters]
        self._most = sum(p.kind != "KEYWORD_ONLY" for p in call.parameters)  # positional arguments
        self._all_tensors = self._most == len(trees) and all(isinstance(tree, Leaf) for tree in trees)
        found = [name for tree in trees for name in _names(tree)]
        arguments = [i for i in inputs if i.role == "argument"]
        self._dtypes = [np.dtype(i.dtype) for i in arguments]
        varies = any(p.kind.startswith("VAR") for p in call.parameters)
        self._usable = not varies and bool(found) and found == [i.name for i in arguments]
        self._sizes: set[tuple[tuple[int, ...], ...]] = set()

    def arrays(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Array], bool] | None:
        """The model's arguments in its order, and whether torch tensors were among them; None for the long way."""
        if self._all_tensors and not kwargs and len(args) == len(self._dtypes):
            values = args
        else:
            values = self._values(args, kwargs)
        arrays, as_tensors = [], False
        for value, dtype in zip(values, self._dtypes):
            if type(value) is not np.ndarray:
                value, as_tensors = _memory(value), True
            if value is None or value.dtype != dtype:
                return None
            arrays.append(value)
        known = tuple([array.shape for array in arrays]) in self._sizes  # which is empty unless `learn` was called
        return (arrays, as_tensors) if known else None

    def learn(self, arrays: Sequence[Array]) -> None:
        """Note the sizes of a call that passed every check."""
        if self._usable:
            if len(self._sizes) == _SIZES_KEPT:
                self._sizes.clear()
            self._sizes.add(tuple([array.shape for array in arrays]))

    def _values(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """The tensors in the order of the inputs; nothing where a call has to go the long way."""
        if len(args) > self._most:
            return ()
        values: Values = []
        given = 0
        for index, take in enumerate(self._takes):
            if index < len(args):
                value = args[index]
            else:
                value = kwargs.get(self._names[index], _ABSENT)
                given += value is not _ABSENT
            if not take(value, values):
                return ()
        return values if given == len(kwargs) else ()


def _tree(call: Call, index: int, parameter: Parameter) -> Tree | None:
    """What the example gave for a parameter."""
    if parameter.kind != "KEYWORD_ONLY" and index < len(call.args):
        return call.args[index]
    return call.kwargs.get(parameter.name)


def _names(tree: Tree | None) -> Iterator[str]:
    if isinstance(tree, Leaf):
        yield tree.name
    elif isinstance(tree, Branch):
        for item in tree.items:
            yield from _names(item)


def _argument(tree: Tree | None, default: Fixed | None) -> Take:
    """The taker of one argument, which may be left out where the example did so, or gave the default."""
    inner = None if tree is None else _taker(tree)
    may_be_absent = tree is None or (isinstance(tree, Fixed) and str(tree) == str(default))

    def take(value: Any, values: Values) -> bool:
        if value is _ABSENT:
            return may_be_absent
        return inner is not None and inner(value, values)

    return take


def _taker(tree: Tree) -> Take:
    if isinstance(tree, Leaf):
        return _take_tensor
    if isinstance(tree, Fixed):
        return lambda value, _values: tree.matches(value)
    if isinstance(tree, Branch) and tree.container in _CONTAINERS:
        return _container_taker(tree)
    return lambda _value, _values: False


def _take_tensor(value: Any, values: Values) -> bool:
    values.append(value)
    return True


def _container_taker(tree: Branch) -> Take:
    kind, count = _CONTAINERS[tree.container], len(tree.items)
    keys = tree.keys if kind is dict else range(count)
    entries = [(key, _taker(item)) for key, item in zip(keys, tree.items)]

    def take(value: Any, values: Values) -> bool:
        if type(value) is not kind or len(value) != count:
            return False
        try:
            return all(inner(value[key], values) for key, inner in entries)
        except KeyError:
            return False

    return take


def _memory(value: Any) -> Array | None:
    """The memory of a torch tensor as an array, where PyTorch gives it without conversion."""
    torch = sys.modules.get("torch")  # whoever has a tensor has imported torch
    if torch is None or type(value) is not torch.Tensor:
        return None
    try:
        array: Array = value.numpy()
    except (RuntimeError, TypeError):  # elsewhere than on the CPU, lazily conjugated, of a dtype unknown to NumPy, …
        return None
    return array
