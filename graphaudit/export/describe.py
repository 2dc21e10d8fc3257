"""From a policy and its model to the records of the manifest: signature, structures, inputs and outputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from graphaudit.errors import OutputError
from graphaudit.export.manifest import (
    Branch,
    Call,
    Fixed,
    HeldGenerator,
    Input,
    Leaf,
    Number,
    Output,
    Parameter,
    Tree,
)
from graphaudit.graphs.held import Held
from graphaudit.graphs.noise import Noise
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.interface import Interface, dtype_name
from graphaudit.policy import Policy

MakeLeaf = Callable[[str, Any], Tree]


def describe_call(policy: Policy, interface: Interface) -> Call:
    """The policy's own signature and the structures of the example's arguments and result."""
    arguments = {slot.path: slot.name for slot in interface.inputs}
    results = {slot.path: slot.name for slot in interface.outputs}

    def argument(path: str, value: Any) -> Tree:
        if not isinstance(value, torch.Tensor):
            return Fixed.of(value)
        number = dtype_name(value.dtype) if path in policy.numbers else None
        return Leaf(arguments[path], number, path in policy.optional)  # type: ignore[arg-type]

    def result(path: str, value: Any) -> Tree:
        if value is None:
            return Fixed()
        return Leaf(results[path]) if isinstance(value, torch.Tensor) else Number(results[path])

    returned = policy.working(*policy.example_args, **policy.example_kwargs)
    return Call(
        parameters=_parameters(policy.module.forward),
        args=[_tree(value, f"args[{i}]", argument) for i, value in enumerate(policy.example_args)],
        kwargs={key: _tree(value, f"kwargs[{key!r}]", argument) for key, value in policy.example_kwargs.items()},
        result=_tree(returned, "", result),
    )


def describe_inputs(interface: Interface, model: OnnxModel) -> list[Input]:
    """The arguments and the state, with the shapes that the model declares, and the noise."""
    shapes = _shapes(model.proto.graph.input)
    state = {s.input.name for s in interface.state}
    arguments = [
        Input(name=s.name, role="argument", dtype=s.dtype, shape=_known(shapes[s.name], s.shape), path=s.path)
        for s in interface.inputs
        if s.name not in state
    ]
    kept = [
        Input(
            name=s.input.name,
            role="state",
            dtype=s.input.dtype,
            shape=_known(shapes[s.input.name], s.input.shape),
            path=s.path,
            initial=s.input.name,
            rows=s.rows,
        )
        for s in interface.state
    ]
    return [*arguments, *kept] + [
        Input(
            name=n.name,
            role="noise",
            dtype=n.dtype,
            shape=list(n.shape),
            distribution=n.distribution,
            parameters=dict(n.parameters),
            draw=n.draw,
            generator=_generator(n),
            when=n.when,
        )
        for n in model.noise
    ]


def describe_generators(model: OnnxModel) -> list[HeldGenerator]:
    """Those that the policy holds and the noise comes from, each once."""
    held = dict.fromkeys(n.generator for n in model.noise if isinstance(n.generator, Held))
    return [HeldGenerator(name=g.name, kind=g.kind, state=g.state) for g in held]


def _generator(noise: Noise) -> str | None:
    if isinstance(noise.generator, Held):
        return noise.generator.name
    return None if noise.generator == "torch" else noise.generator


def describe_outputs(interface: Interface, model: OnnxModel) -> list[Output]:
    """The results and the state, with the shapes that the model declares, the guards, and which draws are made."""
    shapes = _shapes(model.proto.graph.output)
    feeds = {s.output.name: s.input.name for s in interface.state}
    results = [
        Output(name=s.name, role="result", dtype=s.dtype, shape=shapes[s.name], path=s.path)
        for s in interface.outputs
        if s.name not in feeds
    ]
    kept = [
        Output(name=s.output.name, role="state", dtype=s.output.dtype, shape=shapes[s.output.name], feeds=s.input.name)
        for s in interface.state
    ]
    guards = [Output(name=s.name, role="guard", dtype=s.dtype, shape=[], condition=s.condition) for s in model.guards]
    return [
        *results,
        *kept,
        *guards,
        *(Output(name=s.name, role="drawn", dtype=s.dtype, shape=[]) for s in model.drawn),
    ]


def _parameters(forward: Callable[..., Any]) -> list[Parameter]:
    return [
        Parameter(
            name=p.name,
            kind=p.kind.name,  # type: ignore[arg-type]  # inspect's five names are the Literal's
            default=None if p.default is inspect.Parameter.empty else Fixed.of(p.default),
        )
        for p in inspect.signature(forward).parameters.values()
    ]


def _tree(value: Any, path: str, leaf: MakeLeaf) -> Tree:
    """The structure of `value` as torch's pytrees see it, one level at a time."""
    level, _ = pytree.tree_flatten_with_path(value, is_leaf=lambda v: v is not value)
    if len(level) == 1 and not level[0][0]:
        return leaf(path, value)
    keys = [keys[0] for keys, _ in level]
    items = [_tree(child, path + pytree.keystr((key,)), leaf) for key, (_, child) in zip(keys, level)]
    cls = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return Branch(container="namedtuple", items=items, keys=list(value._fields), type=cls)
    if isinstance(value, tuple):
        return Branch(container="tuple", items=items)
    names = [_name(key, path) for key in keys]
    if isinstance(value, Mapping) or any(isinstance(key, pytree.MappingKey) for key in keys):
        return Branch(container="dict", items=items, keys=names, type="" if type(value) is dict else cls)
    if any(isinstance(key, pytree.GetAttrKey) for key in keys):
        return Branch(container="object", items=items, keys=names, type=cls)
    return Branch(container="list", items=items)


def _name(key: Any, path: str) -> Any:
    name = getattr(key, "key", getattr(key, "name", None))
    if isinstance(key, pytree.MappingKey) and not isinstance(name, bool | int | str):
        raise OutputError(f"{path or 'the result'} has the key {name!r}, and a manifest holds strings and integers")
    return name


def _known(shape: Sequence[int | str | None], declared: Sequence[int | str]) -> list[int | str]:
    return [d if m is None else m for m, d in zip(shape, declared)]


def _shapes(values: Any) -> dict[str, list[int | str | None]]:
    return {
        v.name: [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in v.type.tensor_type.shape.dim]
        for v in values
    }
