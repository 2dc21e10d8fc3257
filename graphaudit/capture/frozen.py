"""Finds values that a capture made constant although they vary, by comparing two captures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from graphaudit.capture.events import Frozen
from graphaudit.graphs.places import place_in_trace

_SYMBOL = re.compile(r"\b[su]\d+\b")


def compare_captures(first: ExportedProgram, second: ExportedProgram, cause: str) -> list[Frozen]:
    """What differs between two captures of one policy: arguments of nodes, constants, or the graphs themselves."""
    ours, theirs = list(first.graph.nodes), list(second.graph.nodes)
    for one, other in zip(ours, theirs):
        if one.op != other.op or str(one.target) != str(other.target):
            return [Frozen(_place(one) or _place(other), one.name, cause, _describe(one), _describe(other))]
    if len(ours) != len(theirs):
        longer = ours if len(ours) > len(theirs) else theirs
        extra = longer[min(len(ours), len(theirs))]
        return [Frozen(_place(extra), extra.name, cause, f"{len(ours)} operations", f"{len(theirs)} operations")]
    found = [*_arguments(ours, theirs, cause), *_constants(first, second, cause)]
    return list({(f.place, f.was): f for f in found}.values())


def _arguments(ours: list[fx.Node], theirs: list[fx.Node], cause: str) -> Iterator[Frozen]:
    for one, other in zip(ours, theirs):
        mine, its = _plain(one), _plain(other)
        if mine != its and one.op != "output":
            was, became = next((a, b) for a, b in zip([*mine, None], [*its, None]) if a != b)
            yield Frozen(_place(one), one.name, cause, str(was), str(became))


def _constants(first: ExportedProgram, second: ExportedProgram, cause: str) -> Iterator[Frozen]:
    for one, other in zip(first.graph_signature.input_specs, second.graph_signature.input_specs):
        if one.kind is not InputKind.CONSTANT_TENSOR or other.kind is not InputKind.CONSTANT_TENSOR:
            continue
        was, became = first.constants.get(one.target), second.constants.get(other.target)
        if isinstance(was, FakeTensor) or isinstance(became, FakeTensor):
            yield Frozen(None, one.arg.name, cause, "a value of the trace", "another")
        elif isinstance(was, torch.Tensor) and isinstance(became, torch.Tensor) and not _equal(was, became):
            user = next((u for n in first.graph.nodes if n.name == one.arg.name for u in n.users), None)
            place = _place(user) if user is not None else None
            yield Frozen(place, one.arg.name, cause, _short(was), _short(became))


def _plain(node: fx.Node) -> list[Any]:
    """The node's arguments without names: nodes by nothing at all, symbols by one token."""
    leaves = pytree.tree_leaves((node.args, node.kwargs))
    return [_SYMBOL.sub("s", str(v)) for v in leaves if not isinstance(v, fx.Node)]


def _describe(node: fx.Node) -> str:
    return f"{node.op} {node.target}" if node.op != "output" else "the end of the graph"


def _place(node: fx.Node) -> Any:
    return place_in_trace(node.meta.get("stack_trace"))


def _equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    return left.shape == right.shape and left.dtype == right.dtype and torch.allclose(left, right, 0, 0, equal_nan=True)


def _short(tensor: torch.Tensor) -> str:
    values = tensor.flatten()[:3].tolist()
    return f"{values[0]}" if tensor.numel() == 1 else f"{values}"[:-1] + (", …]" if tensor.numel() > 3 else "]")
