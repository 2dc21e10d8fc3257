"""Parts of Python's syntax trees: what is in them, and new ones."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any


class Unsupported(Exception):
    """A construct that the converters do not know, or whose meaning they would change."""

    def __init__(self, what: str, node: ast.AST) -> None:
        super().__init__(what)
        self.line: int = getattr(node, "lineno", 0)


def expressions(node: ast.stmt) -> Iterator[tuple[str, Any]]:
    """The expressions that a statement evaluates itself, in order, by field."""
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Return | ast.Expr) and node.value is not None:
        yield "value", node.value
    elif isinstance(node, ast.If | ast.Assert | ast.While):
        yield "test", node.test
    elif isinstance(node, ast.For):
        yield "iter", node.iter
    elif isinstance(node, ast.Match):
        yield "subject", node.subject
    elif isinstance(node, ast.Raise) and node.exc is not None:
        yield "exc", node.exc


def evaluated(node: ast.stmt) -> list[Any]:
    """The expressions that a statement evaluates itself, in order."""
    return [value for _, value in expressions(node)]


def outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that are evaluated with `node`: none of a function or comprehension inside it."""
    return within(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp)


def within(node: ast.AST, barrier: Any) -> Iterator[ast.AST]:
    """The nodes of a tree, down to those of the classes `barrier`."""
    yield node
    if not isinstance(node, barrier):
        for child in ast.iter_child_nodes(node):
            yield from within(child, barrier)


def children(value: Any) -> Iterable[tuple[int | None, Any]]:
    """(index, node) of a field that holds one node or a list."""
    if isinstance(value, list):
        return enumerate(value)
    return [(None, value)]


def put(node: Any, name: str, index: int | None, value: Any) -> None:
    """Replace what `children` found in a field."""
    if index is None:
        setattr(node, name, value)
    else:
        getattr(node, name)[index] = value


def listed(result: Any) -> list[Any]:
    """What a transformer returned, as a list of statements."""
    if result is None:
        return []
    return result if isinstance(result, list) else [result]


def of_item(item: str, target: ast.expr, body: ast.expr) -> ast.Lambda:
    """`lambda item: body`, with the names of a comprehension's target."""
    arguments = no_arguments()
    arguments.args = [ast.arg(item)]
    if isinstance(target, ast.Name):
        arguments.args = [ast.arg(target.id)]
        return ast.Lambda(arguments, body)
    single = ast.Tuple([ast.Name(item, ast.Load())], ast.Load())
    listed = ast.ListComp(body, [ast.comprehension(target, single, [], 0)])
    return ast.Lambda(arguments, ast.Subscript(listed, ast.Constant(0), ast.Load()))


def assign(name: str, value: Any) -> ast.stmt:
    """`name = value`."""
    return ast.Assign([ast.Name(name, ast.Store())], value)


def call(name: str, *arguments: ast.expr) -> ast.Call:
    """`name(arguments)`."""
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def operator(name: str, *arguments: ast.expr) -> ast.Call:
    """A call of one of our operators."""
    return ast.Call(ast.Attribute(ast.Name("ag__", ast.Load()), name, ast.Load()), list(arguments), [])


def no_arguments() -> ast.arguments:
    """The arguments of a function that takes none."""
    return ast.arguments([], [], None, [], [], None, [])


def at(node: Any, place: ast.AST) -> Any:
    """The node, and whatever in it has no place yet, at the place of another."""
    for inner in ast.walk(node):
        if "lineno" in inner._attributes and getattr(inner, "lineno", None) is None:
            ast.copy_location(inner, place)
    return node
