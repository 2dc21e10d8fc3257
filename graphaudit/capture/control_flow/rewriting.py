"""The syntax tree before malt's converters and after them."""

from __future__ import annotations

import ast
from types import CodeType
from typing import Any

from malt.pyct import anno

from graphaudit.capture.control_flow.nodes import Unsupported
from graphaudit.capture.control_flow.refusal import GENERATOR
from graphaudit.capture.control_flow.syntax import simplify

# No function of these runs its body when it is called, and so none is a part of the graph.
_REFUSED = {
    ast.Yield: GENERATOR,
    ast.YieldFrom: GENERATOR,
    ast.Await: "await",
    ast.AsyncFor: "an async for",
    ast.AsyncWith: "an async with",
}


def prepare(node: Any, code: CodeType) -> Any:
    """Drop annotations and defaults, write `super()`, private names and unknown syntax out. Raises Unsupported."""
    for inner in ast.walk(node):
        if type(inner) in _REFUSED:
            raise Unsupported(_REFUSED[type(inner)], inner)
    if isinstance(node, ast.FunctionDef):
        node.decorator_list = []
    node.args.defaults = [ast.copy_location(ast.Constant(None), d) for d in node.args.defaults]
    node.args.kw_defaults = [d and ast.copy_location(ast.Constant(None), d) for d in node.args.kw_defaults]
    return simplify(_Plain(code).visit(node))


class _Plain(ast.NodeTransformer):
    def __init__(self, code: CodeType) -> None:
        self._first = code.co_varnames[0] if code.co_varnames else ""
        parts = [p for p in code.co_qualname.split(".") if p != "<locals>"]
        self._class = parts[-2].lstrip("_") if len(parts) > 1 else ""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> Any:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return self.generic_visit(ast.copy_location(ast.Assign([node.target], node.value), node))

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if node.attr.startswith("__") and not node.attr.endswith("__") and self._class:
            node.attr = f"_{self._class}{node.attr}"
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            names = [ast.Name("__class__", ast.Load()), ast.Name(self._first, ast.Load())]
            node.args = [ast.copy_location(n, node) for n in names]
        return self.generic_visit(node)


def finish(module: ast.Module, line: int) -> ast.Module:
    """Give every node its context and the line of the user's statement that it came from."""
    for statement in module.body:
        _locate(statement, line)
    _Contexts().visit(module)
    return ast.fix_missing_locations(module)


def _locate(node: Any, line: int) -> None:
    origin = anno.getanno(node, anno.Basic.ORIGIN, default=None)
    if origin is not None:
        line = origin.loc.lineno
    if "lineno" in node._attributes:
        node.lineno = node.end_lineno = line
        node.col_offset = node.end_col_offset = 0
    for child in ast.iter_child_nodes(node):
        _locate(child, line)


class _Contexts(ast.NodeVisitor):
    """Templates leave Load where a target stands; the compiler wants Store."""

    def visit(self, node: ast.AST) -> Any:
        if hasattr(node, "ctx"):
            node.ctx = ast.Load()
        self.generic_visit(node)
        for target in _targets(node):
            _store(target, ast.Del() if isinstance(node, ast.Delete) else ast.Store())


def _targets(node: ast.AST) -> list[Any]:
    if isinstance(node, ast.Assign | ast.Delete):
        return list(node.targets)
    if isinstance(node, ast.For | ast.AugAssign | ast.comprehension):
        return [node.target]
    if isinstance(node, ast.withitem):
        return [node.optional_vars] if node.optional_vars is not None else []
    return []


def _store(node: Any, context: ast.expr_context) -> None:
    node.ctx = context
    if isinstance(node, ast.Tuple | ast.List):
        for item in node.elts:
            _store(item, context)
    elif isinstance(node, ast.Starred):
        _store(node.value, context)
