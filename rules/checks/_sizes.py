"""Which expressions of forward are sizes of its arguments, and which of those sizes may vary.

`x.shape[0]`, `x.size(1)`, `len(x)`, `b, t = x.shape[:2]` and `int(...)` of them are followed; sizes of intermediate
tensors are not, so what is reported is certain and what is not reported may still be there.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from graphaudit.findings import Place
from graphaudit.rules.checks._source import Function, functions

if TYPE_CHECKING:
    from graphaudit.policy import Policy

Shape = tuple[int | str, ...]


class Sizes:
    """The sizes that the policy's own forward reads from its tensor arguments."""

    def __init__(self, function: Function, shapes: dict[str, Shape]) -> None:
        self.function = function
        self.shapes: dict[str, Shape] = {}
        self.values: dict[str, int | str] = {}
        self._tensors = shapes
        self._rebound: dict[str, int] = {}  # argument → the line from which its name stands for something else
        assignments = [n for n in ast.walk(function.tree) if isinstance(n, ast.Assign) and len(n.targets) == 1]
        for node in sorted(assignments, key=lambda n: n.lineno):
            self._assign(node.targets[0], node.value)

    def size(self, node: ast.AST) -> int | str | None:
        """The size that an expression stands for: an int, the name of a dimension that may vary, or None."""
        match node:
            case ast.Name(id=name):
                return self.values.get(name)
            case ast.Call(func=ast.Name(id="int"), args=[inner]):
                return self.size(inner)
            case ast.Call(func=ast.Name(id="len"), args=[of]):
                return _at(self.tensor(of), 0)
            case ast.Call(func=ast.Attribute(value=of, attr="size"), args=[ast.Constant(value=int(k))]):
                return _at(self.tensor(of), k)
            case ast.Subscript(value=of, slice=index):
                return _at(self.shape(of), _integer(index))
        return None

    def shape(self, node: ast.AST) -> Shape | None:
        """The shape that an expression stands for."""
        match node:
            case ast.Name(id=name):
                return self.shapes.get(name)
            case ast.Attribute(value=of, attr="shape"):
                return self.tensor(of)
            case ast.Call(func=ast.Attribute(value=of, attr="size"), args=[]):
                return self.tensor(of)
            case ast.Subscript(value=of, slice=ast.Slice(lower=lower, upper=upper, step=None)):
                whole = self.shape(of)
                return None if whole is None else whole[slice(_integer(lower), _integer(upper))]
        return None

    def tensor(self, node: ast.AST) -> Shape | None:
        """The shape of the argument that a name stands for at its line."""
        if not isinstance(node, ast.Name) or node.lineno > self._rebound.get(node.id, node.lineno):
            return None
        return self._tensors.get(node.id)

    def varying(self, node: ast.AST) -> list[str]:
        """Names of the dimensions that may vary among the sizes in an expression."""
        return list(dict.fromkeys(s for n in ast.walk(node) if isinstance(s := self.size(n), str)))

    def _assign(self, target: ast.AST, value: ast.AST) -> None:
        if isinstance(target, ast.Name):
            size, shape = self.size(value), self.shape(value)
            if size is not None:
                self.values[target.id] = size
            elif shape is not None:
                self.shapes[target.id] = shape
            self._rebound.setdefault(target.id, target.lineno)
        elif isinstance(target, ast.Tuple) and (shape := self.shape(value)) and len(shape) == len(target.elts):
            self.values |= {t.id: s for t, s in zip(target.elts, shape) if isinstance(t, ast.Name)}


def sizes(policy: Policy | None) -> Sizes | None:
    """The sizes that the policy's forward reads; None where its source or its interface is not there."""
    if policy is None:
        return None
    root = next((f for f in functions(policy) if f.owner is policy.module and f.name == "forward"), None)
    if root is None:
        return None
    names = [a.arg for a in (*root.tree.args.posonlyargs, *root.tree.args.args)][1:]
    shapes = {s.path: s.shape for s in policy.interface.inputs}
    paths = [(name, path) for i, name in enumerate(names) for path in (f"args[{i}]", f"kwargs['{name}']")]
    return Sizes(root, {name: shapes[path] for name, path in paths if path in shapes})


def _at(shape: Shape | None, index: int | None) -> int | str | None:
    if shape is None or index is None or not -len(shape) <= index < len(shape):
        return None
    return shape[index]


def _integer(node: ast.AST | None) -> int | None:
    match node:
        case ast.Constant(value=int(k)):
            return k
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(k))):
            return -k
    return None


def python_sizes(policy: Policy | None) -> list[tuple[Place, str]]:
    """Where forward makes a Python number of a size that may vary, `int(x.shape[0])`: place and dimension."""
    known = sizes(policy)
    if known is None:
        return []
    calls = (c for c in known.function.calls() if known.function.resolve(c.func) is int and len(c.args) == 1)
    found = ((known.function.place(c), known.size(c.args[0])) for c in calls)
    return [(place, size) for place, size in found if isinstance(size, str)]
