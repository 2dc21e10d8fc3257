"""Calls of a deployed policy: from the policy's own arguments to the model's inputs and back. Imports no torch."""

from __future__ import annotations

import inspect
import sys
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import make_dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphaudit.errors import GuardError
from graphaudit.export.direct import DirectCalls
from graphaudit.export.manifest import Branch, Call, Fixed, Input, Leaf, Number, Tree

Array = NDArray[Any]
Build = Callable[[Sequence[Array], bool], Any]  # from the model's outputs; whether they become torch tensors


class Signature:
    """The policy's own signature; `arrays` turns a call into the model's arguments."""

    def __init__(self, call: Call, inputs: Sequence[Input]) -> None:
        self._call = call
        self._direct = DirectCalls(call, inputs)
        self._inputs = {i.name: i for i in inputs if i.role == "argument"}
        self._defaults = {p.name: p.default for p in call.parameters if p.default is not None}
        self.signature = inspect.Signature(
            [
                inspect.Parameter(p.name, getattr(inspect.Parameter, p.kind), default=_shown(p.default))
                for p in call.parameters
            ]
        )

    def arrays(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Array], bool]:
        """The model's arguments in its order, and whether torch tensors were among them.

        Raises GuardError for a call that does not fit the signature, and for arguments of another structure, dtype or
        shape than the bundle was made for, or with other values where the graph has taken them as constants.
        """
        return self._direct.arrays(args, kwargs) or self._checked_arrays(args, kwargs)

    def _checked_arrays(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[list[Array], bool]:
        found = self._tensors(args, kwargs)
        arrays = {name: _array(name, value) for name, value in found.items() if value is not None}
        self._check(arrays)
        if len(arrays) == len(found):
            self._direct.learn([arrays[name] for name in self._inputs])
        arrays |= {name: self._zeros(name, arrays) for name, value in found.items() if value is None}
        return [arrays[name] for name in self._inputs], any(_is_tensor(v) for v in found.values())

    def _tensors(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """What is given for each input; None where an optional one is left out."""
        given = self._place(args, kwargs)
        found: dict[str, Any] = {}
        for path, tree in self._trees():
            if given.get(path) is None and _is_optional(tree):
                given.pop(path, None)
                found.update(dict.fromkeys(_names(tree)))
            elif path in given:
                found.update(_leaves(given.pop(path), tree, path))
            elif not (isinstance(tree, Fixed) and str(tree) == str(self._default(path))):
                raise GuardError(f"{path} is missing; the bundle was made with it", "Give it as the example did.")
        for path, value in given.items():
            default = self._default(path)
            if default is None or not default.matches(value):
                raise GuardError(
                    f"{path} is given, but the bundle was made without it",
                    "Leave it out, or make the bundle again with an example that has it.",
                )
        return found

    def _place(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The given arguments by the path that they have in the example's call."""
        try:
            bound = self.signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise GuardError(f"the policy is called as policy{self.signature}: {error}") from None
        positional = len(self._call.args)
        placed: dict[str, Any] = {}
        index = 0
        for parameter in self.signature.parameters.values():
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                placed |= {f"args[{index + i}]": v for i, v in enumerate(bound.get(parameter.name, ()))}
            elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
                placed |= {f"kwargs[{k!r}]": v for k, v in bound.get(parameter.name, {}).items()}
            else:
                by_position = parameter.kind is not inspect.Parameter.KEYWORD_ONLY and index < positional
                path = f"args[{index}]" if by_position else f"kwargs[{parameter.name!r}]"
                if parameter.name in bound:
                    placed[path] = bound[parameter.name]
                index += 1
        return placed

    def _trees(self) -> Iterator[tuple[str, Tree]]:
        yield from ((f"args[{i}]", tree) for i, tree in enumerate(self._call.args))
        yield from ((f"kwargs[{key!r}]", tree) for key, tree in self._call.kwargs.items())

    def _default(self, path: str) -> Fixed | None:
        for index, name in enumerate(self.signature.parameters):
            if path in (f"args[{index}]", f"kwargs[{name!r}]"):
                return self._defaults.get(name)
        return None

    def _check(self, arrays: Mapping[str, Array]) -> None:
        sizes: dict[str, tuple[int, str]] = {}
        for name, array in arrays.items():
            wanted = self._inputs[name]
            if array.dtype.name != wanted.dtype:
                raise GuardError(f"{wanted.path} is {array.dtype.name}, the policy takes {wanted.dtype}")
            fits = len(array.shape) == len(wanted.shape)
            for size, dimension in zip(array.shape, wanted.shape):
                if isinstance(dimension, int):
                    fits = fits and size == dimension
                elif sizes.setdefault(dimension, (size, wanted.path or name))[0] != size:
                    known, where = sizes[dimension]
                    raise GuardError(f"{dimension} is {size} in {wanted.path} and {known} in {where}")
            if not fits:
                shape = ", ".join(map(str, wanted.shape))
                raise GuardError(f"{wanted.path} has the shape {array.shape}, the policy takes ({shape})")

    def _zeros(self, name: str, arrays: Mapping[str, Array]) -> Array:
        """What stands for None: zeros, of the sizes that the other inputs have."""
        known = {d: n for key, a in arrays.items() for d, n in zip(self._inputs[key].shape, a.shape, strict=True)}
        wanted = self._inputs[name]
        shape = [d if isinstance(d, int) else known.get(d) for d in wanted.shape]
        if None in shape:
            raise GuardError(f"{wanted.path} is None, and no other input has its sizes", "Give a tensor of zeros.")
        return np.zeros(shape, wanted.dtype)  # type: ignore[arg-type]


def result_builder(tree: Tree, outputs: Sequence[str]) -> Build:
    """Makes the policy's own result structure of the model's outputs; objects become dataclasses of the same name,
    distributions dicts.

    No class of the policy is imported: a bundle is data. Raises ValueError where `tree` names an output that is none of
    `outputs`, or fields that cannot be fields.
    """
    if isinstance(tree, Fixed):
        return lambda _results, _as_tensors: tree.value
    if isinstance(tree, Leaf | Number) and tree.name not in outputs:
        raise ValueError(f"the result names the output {tree.name!r}, which the model does not have")
    if isinstance(tree, Number):
        return _number_builder(outputs.index(tree.name))
    if isinstance(tree, Leaf):
        return _tensor_builder(outputs.index(tree.name))
    builders = [result_builder(item, outputs) for item in tree.items]
    make = _maker(tree)
    return lambda results, as_tensors: make([build(results, as_tensors) for build in builders])


def _tensor_builder(index: int) -> Build:
    def build(results: Sequence[Array], as_tensors: bool) -> Any:
        return sys.modules["torch"].from_numpy(results[index]) if as_tensors else results[index]

    return build


def _number_builder(index: int) -> Build:
    return lambda results, _as_tensors: results[index].item()


def _maker(tree: Branch) -> Callable[[list[Any]], Any]:
    """From the items of a container to the container."""
    if tree.container == "list":
        return lambda items: items
    if tree.container == "tuple":
        return tuple
    if tree.container == "dict":
        return lambda items: dict(zip(tree.keys, items))
    record = _record(tree)
    return lambda items: record(*items)


def _record(tree: Branch) -> Callable[..., Any]:
    return _record_type(tree.container, tree.type.rpartition(".")[2], tuple(map(str, tree.keys)))


@cache
def _record_type(container: str, name: str, fields: tuple[str, ...]) -> Callable[..., Any]:
    """A type of its own for each name and fields. Both makers accept identifiers only; else ValueError."""
    if not name.isidentifier():
        raise ValueError(f"{name!r} is no name for a class")
    try:
        return namedtuple(name, fields) if container == "namedtuple" else make_dataclass(name, fields)
    except TypeError as error:  # make_dataclass's word for a field that is no identifier
        raise ValueError(str(error)) from error


def _leaves(value: Any, tree: Tree, path: str) -> Iterator[tuple[str, Any]]:
    """(name of the input, tensor) for each tensor in `value`, which must have the structure of `tree`."""
    if isinstance(tree, Leaf):
        if tree.number and isinstance(value, bool | int | float):
            value = np.asarray(value, dtype=tree.number)
        if not (_is_tensor(value) or isinstance(value, np.ndarray | np.generic)):
            raise GuardError(f"{path} is a {type(value).__name__}, the policy takes a tensor or a NumPy array there")
        yield tree.name, value
    elif isinstance(tree, Fixed):
        if not tree.matches(value):
            raise GuardError(
                f"{path} is {_brief(value)}, but the bundle was made with {tree}",
                "Make another bundle with an example that has this value.",
            )
    elif isinstance(tree, Branch):
        for step, child, item in _children(value, tree, path):
            yield from _leaves(child, item, path + step)


def _is_optional(tree: Tree) -> bool:
    if isinstance(tree, Branch):
        return bool(tree.items) and all(map(_is_optional, tree.items))
    return isinstance(tree, Leaf) and tree.optional


def _names(tree: Tree) -> Iterator[str]:
    if isinstance(tree, Branch):
        for item in tree.items:
            yield from _names(item)
    elif isinstance(tree, Leaf):
        yield tree.name


def _children(value: Any, tree: Branch, path: str) -> Iterator[tuple[str, Any, Tree]]:
    wrong = GuardError(f"{path} is {_brief(value)}, the policy takes {_describe(tree)} there")
    if tree.container in ("tuple", "list"):
        expected = tuple if tree.container == "tuple" else list
        if not isinstance(value, expected) or len(value) != len(tree.items):
            raise wrong
        yield from ((f"[{i}]", child, item) for i, (child, item) in enumerate(zip(value, tree.items)))
    elif tree.container == "dict":
        if not hasattr(value, "keys") or set(value.keys()) != set(tree.keys):
            raise wrong
        yield from ((f"[{key!r}]", value[key], item) for key, item in zip(tree.keys, tree.items))
    else:
        if not all(hasattr(value, str(key)) for key in tree.keys):
            raise wrong
        yield from ((f".{key}", getattr(value, str(key)), item) for key, item in zip(tree.keys, tree.items))


def _describe(tree: Branch) -> str:
    if tree.container in ("tuple", "list"):
        return f"a {tree.container} of {len(tree.items)}"
    keys = ", ".join(map(str, tree.keys))
    return f"a dict with the keys {keys}" if tree.container == "dict" else f"an object with the fields {keys}"


def _brief(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"a dict with the keys {', '.join(map(str, value))}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    text = repr(value)
    return text if len(text) <= 40 else f"a {type(value).__name__}"


def _shown(default: Fixed | None) -> Any:
    """A default that prints as the policy's own; the value itself is never used."""
    return inspect.Parameter.empty if default is None else _Shown(str(default))


class _Shown(str):
    def __repr__(self) -> str:
        return str(self)


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")  # whoever has a tensor has imported torch
    return torch is not None and isinstance(value, torch.Tensor)


def _array(name: str, value: Any) -> Array:
    if _is_tensor(value):
        try:
            value = value.detach().cpu().resolve_conj().resolve_neg().numpy()
        except TypeError as error:
            raise GuardError(f"{name} is {value.dtype}, which NumPy does not have") from error
    array = np.asarray(value)
    return np.ascontiguousarray(array).reshape(array.shape)  # ascontiguousarray makes 0-d arrays 1-d
