"""The interface of a policy: which tensors go in and come out, by name, path, dtype and shape."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from graphaudit.errors import PolicyError
from graphaudit.findings import Place
from graphaudit.structures import register_structures


@dataclass(frozen=True)
class Slot:
    """One tensor of the interface. `shape` holds sizes, or names for the dimensions that may vary."""

    name: str
    path: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class GuardSlot(Slot):
    """A 0-d bool output that is true where the graph is not the policy: why, and what the policy raises there.

    `raises` is empty for the bound of a loop.
    """

    condition: str = ""
    raises: str = ""
    place: Place | None = None


@dataclass(frozen=True)
class Fixed:
    """A Python value among the arguments (a flag, a count, None), or a result that is none of the graph's tensors."""

    path: str
    value: Any


@dataclass(frozen=True)
class State:
    """What forward keeps between calls at `path` (`rnn.h`): an input, the output that feeds it, and its first value.

    `places` are the lines that write to it; `rows` is the axis with one entry for each row of the batch, if any.
    """

    path: str
    input: Slot
    output: Slot
    initial: torch.Tensor = field(compare=False)
    places: tuple[Place, ...] = ()
    rows: int | None = None


@dataclass(frozen=True)
class Interface:
    """How calls map to flat lists of tensors, in the order of the captured graph's inputs and outputs."""

    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    fixed: tuple[Fixed, ...]
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec
    missing_outputs: tuple[Fixed, ...] = ()  # None among the results
    python_outputs: tuple[str, ...] = ()  # paths of results that are numbers of Python's or arrays of NumPy's
    state: tuple[State, ...] = ()  # the last of `inputs` and of `outputs`
    guards: tuple[GuardSlot, ...] = ()  # further outputs of a graph, 0-d bool: true where it is not the policy
    drawn: tuple[Slot, ...] = ()  # the last outputs of a graph, 0-d bool: whether the draws of a branch are made

    def with_state(self, paths: Sequence[tuple[str, torch.Tensor, tuple[int | str, ...]]], keyword: str) -> Interface:
        """The interface of a policy that takes its state, a tuple, as `keyword` and returns (result, state).

        `paths` are path, first value and shape of each part of the state, in order.
        """
        taken = {slot.name for slot in (*self.inputs, *self.outputs)}
        state: list[State] = []
        for index, (path, initial, shape) in enumerate(paths):
            name, dtype = _identifier(path), dtype_name(initial.dtype)
            (given,) = _unique([Slot(name, f"kwargs[{keyword!r}][{index}]", dtype, shape)], taken, "_state")
            (left,) = _unique([Slot(f"{given.name}_next", f"[1][{index}]", dtype, shape)], taken, "_state")
            state.append(State(path, given, left, initial))
        example = (0,) * len(state)
        args, kwargs = pytree.tree_unflatten([0] * self.in_spec.num_leaves, self.in_spec)
        result = pytree.tree_unflatten([0] * self.out_spec.num_leaves, self.out_spec)
        return replace(
            self,
            inputs=(*self.inputs, *(s.input for s in state)),
            outputs=(*self.outputs, *(s.output for s in state)),
            in_spec=pytree.tree_structure((args, {**kwargs, keyword: example})),
            out_spec=pytree.tree_structure((result, example)),
            state=tuple(state),
        )

    def flatten(self, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> list[torch.Tensor]:
        """The tensors among `args` and `kwargs`. Raises PolicyError if their structure is not the example's.

        Dicts may have their keys in another order.
        """
        leaves, spec = pytree.tree_flatten((tuple(args), dict(kwargs or {})))
        if spec != self.in_spec:
            leaves, spec = pytree.tree_flatten(self._in_order((tuple(args), dict(kwargs or {}))))
        if spec != self.in_spec:
            raise PolicyError(
                f"these arguments have the structure {_describe(spec)}, the example has {_describe(self.in_spec)}",
                "Give arguments of the same structure as example_inputs().",
            )
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def flatten_result(self, result: Any) -> list[torch.Tensor]:
        """The results as tensors; NumPy arrays and Python numbers become tensors, None is dropped."""
        register_structures(result)
        return [torch.as_tensor(leaf).detach() for leaf in pytree.tree_leaves(result) if leaf is not None]

    def fixed_values(self, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None) -> list[Any]:
        """The Python values among `args` and `kwargs`, in the order of `fixed`."""
        leaves = pytree.tree_leaves(self._in_order((tuple(args), dict(kwargs or {}))))
        return [leaf for leaf in leaves if not isinstance(leaf, torch.Tensor)]

    def _in_order(self, arguments: Any) -> Any:
        """The arguments with the keys of dicts in the order that the example has them in."""
        return _ordered_like(arguments, pytree.tree_unflatten([None] * self.in_spec.num_leaves, self.in_spec))


def interface_of(
    forward: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], result: Any, dynamic_shapes: Any = None
) -> Interface:
    """The interface of a call `forward(*args, **kwargs)` that returned `result`.

    `dynamic_shapes` has one entry for each positional argument: None, or {dimension: name}, nested like the argument.
    """
    register_structures((args, kwargs), result)
    with_paths, in_spec = pytree.tree_flatten_with_path((tuple(args), dict(kwargs)))
    names = _parameter_names(forward, len(args))
    dims = dict(_dynamic_leaves(args, dynamic_shapes))
    inputs: list[Slot] = []
    fixed: list[Fixed] = []
    for keys, leaf in with_paths:
        path = _path(keys)
        if isinstance(leaf, torch.Tensor):
            inputs.append(Slot(_input_name(keys, names), path, dtype_name(leaf.dtype), _shape(leaf, dims.get(path))))
        else:
            fixed.append(Fixed(path, leaf))
    outputs: list[Slot] = []
    missing: list[Fixed] = []
    python: list[str] = []
    result_paths, out_spec = pytree.tree_flatten_with_path(result)
    for keys, leaf in result_paths:
        path = pytree.keystr(keys)
        if leaf is None:
            missing.append(Fixed(path, None))
            continue
        if not isinstance(leaf, torch.Tensor):
            if not (isinstance(leaf, bool | int | float | complex) or _is_numpy(leaf)):
                raise PolicyError(
                    f"forward returns a {type(leaf).__name__} at result{path}, which no graph can carry",
                    "Return tensors, arrays, numbers, None, and tuples, lists, dicts or dataclasses of them.",
                )
            python.append(path)
        tensor = torch.as_tensor(leaf)
        dtype = torch.float32 if tensor.dtype is torch.bfloat16 else tensor.dtype  # no NumPy array holds bfloat16
        outputs.append(Slot(_output_name(keys), path, dtype_name(dtype), tuple(tensor.shape)))
    taken: set[str] = set()
    return Interface(
        inputs=tuple(_unique(inputs, taken, "_in")),
        outputs=tuple(_unique(outputs, taken, "_out")),
        fixed=tuple(fixed),
        in_spec=in_spec,
        out_spec=out_spec,
        missing_outputs=tuple(missing),
        python_outputs=tuple(python),
    )


def resize(tensor: torch.Tensor, shape: Sequence[int | str], sizes: Mapping[str, int]) -> torch.Tensor:
    """The tensor at other `sizes` of the dimensions that `shape` names: cut, or repeated from the start."""
    for dim, name in enumerate(shape):
        if isinstance(name, str) and name in sizes and tensor.shape[dim] != sizes[name] and tensor.shape[dim]:
            tensor = tensor.index_select(dim, torch.arange(sizes[name]) % tensor.shape[dim])
    return tensor


def dtype_name(dtype: torch.dtype) -> str:
    """`torch.float32` → `float32`."""
    return str(dtype).removeprefix("torch.")


def _describe(spec: pytree.TreeSpec) -> str:
    filled = pytree.tree_unflatten(["·"] * spec.num_leaves, spec)
    args, kwargs = filled
    return ", ".join([*(str(a) for a in args), *(f"{k}={v}" for k, v in kwargs.items())]).replace("'·'", "·")


def _path(keys: Sequence[Any]) -> str:
    root = "args" if keys[0].idx == 0 else "kwargs"
    return root + pytree.keystr(tuple(keys[1:]))


def _parameter_names(forward: Callable[..., Any], count: int) -> list[str]:
    try:
        parameters = list(inspect.signature(forward).parameters.values())
    except ValueError:  # compiled code, a TorchScript method say, has none
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][:count]
    return names + [f"arg{i}" for i in range(len(names), count)]


def _input_name(keys: Sequence[Any], parameters: Sequence[str]) -> str:
    root, first, *rest = keys
    head = parameters[first.idx] if root.idx == 0 else str(first.key)
    return _identifier("_".join([head, *(_key(k) for k in rest)]))


def _output_name(keys: Sequence[Any]) -> str:
    parts = [_key(k) for k in keys]
    if not parts:
        return "output"
    return _identifier("_".join(["output", *parts] if parts[0].isdigit() else parts))


def _key(key: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def _identifier(text: str) -> str:
    name = re.sub(r"\W+", "_", text).strip("_") or "value"
    return f"_{name}" if name[0].isdigit() else name


def _unique(slots: Iterable[Slot], taken: set[str], suffix: str) -> Iterable[Slot]:
    for slot in slots:
        name, number = slot.name, 1
        while name in taken:
            name = f"{slot.name}{suffix}" if number == 1 else f"{slot.name}{suffix}{number}"
            number += 1
        taken.add(name)
        yield Slot(name, slot.path, slot.dtype, slot.shape)


def _ordered_like(value: Any, example: Any) -> Any:
    if type(value) is dict and isinstance(example, dict) and value.keys() == example.keys():
        return {key: _ordered_like(value[key], item) for key, item in example.items()}
    if type(value) in (tuple, list) and isinstance(example, tuple | list) and len(value) == len(example):
        return type(value)(_ordered_like(v, e) for v, e in zip(value, example))
    return value


def _is_numpy(leaf: Any) -> bool:
    """Whether a leaf is an array or a number of NumPy's."""
    return isinstance(leaf, np.ndarray | np.generic) and leaf.dtype.kind in "biufc"


def _shape(tensor: torch.Tensor, dims: Mapping[int, str] | None) -> tuple[int | str, ...]:
    named = {d % tensor.dim(): name for d, name in (dims or {}).items()}
    return tuple(named.get(d, size) for d, size in enumerate(tensor.shape))


def _dynamic_leaves(args: Sequence[Any], dynamic_shapes: Any) -> Iterable[tuple[str, Mapping[int, str]]]:
    """(path, {dimension: name}) for each tensor with dimensions that may vary. Raises PolicyError on a misfit."""
    if not dynamic_shapes:
        return
    if len(dynamic_shapes) != len(args):
        raise PolicyError(
            f"dynamic_shapes has {len(dynamic_shapes)} entries for {len(args)} arguments",
            "Give one entry for each positional argument: None, or {dimension: name}.",
        )
    for index, (arg, entry) in enumerate(zip(args, dynamic_shapes, strict=True)):
        yield from _dynamic_under(arg, entry, f"args[{index}]")


def _dynamic_under(value: Any, entry: Any, path: str) -> Iterable[tuple[str, Mapping[int, str]]]:
    if entry is None:
        return
    if isinstance(value, torch.Tensor):
        if not (isinstance(entry, dict) and all(isinstance(d, int) and isinstance(n, str) for d, n in entry.items())):
            raise PolicyError(f"dynamic_shapes for {path} is {entry!r}", "Write {dimension: name}, say {0: 'batch'}.")
        wrong = [d for d in entry if not -value.dim() <= d < value.dim()]
        if wrong:
            raise PolicyError(f"dynamic_shapes names dimension {wrong[0]} of {path}, which has {value.dim()}")
        yield path, entry
    elif isinstance(value, Mapping) and isinstance(entry, Mapping):
        for key, child in entry.items():
            if key not in value:
                raise PolicyError(f"dynamic_shapes names {path}[{key!r}], which the example does not have")
            yield from _dynamic_under(value[key], child, f"{path}[{key!r}]")
    elif isinstance(value, list | tuple) and isinstance(entry, list | tuple) and len(value) == len(entry):
        fields = getattr(value, "_fields", None)
        for i, (item, child) in enumerate(zip(value, entry, strict=True)):
            yield from _dynamic_under(item, child, f"{path}.{fields[i]}" if fields else f"{path}[{i}]")
    else:
        raise PolicyError(f"dynamic_shapes for {path} does not have the structure of the argument")
