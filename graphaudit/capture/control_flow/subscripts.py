"""Converters in the manner of malt's: `x[k]` in all its forms, `assert`, `in` and `is` become operators."""

from __future__ import annotations

import ast
from typing import Any

from malt.core import converter
from malt.pyct import templates


class _Subscripts(converter.Base):  # type: ignore[misc]
    def visit_Subscript(self, node: ast.Subscript) -> Any:
        node = self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            return node
        return templates.replace_as_expression("ag__.get_item(target, key)", target=node.value, key=_key(node.slice))

    def visit_Assign(self, node: ast.Assign) -> Any:
        node = self.generic_visit(node)
        if len(node.targets) != 1 or not isinstance(node.targets[0], ast.Subscript):
            return node
        target = node.targets[0]
        return templates.replace(
            "ag__.set_item(target, key, value)", target=target.value, key=_key(target.slice), value=node.value
        )

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        node = self.generic_visit(node)
        if not isinstance(node.target, ast.Subscript):
            return node
        operation = ast.BinOp(ast.Name("old_", ast.Load()), node.op, ast.Name("new_", ast.Load()))
        name = type(node.op).__name__
        return templates.replace(
            "ag__.aug_item(target, key, lambda old_, new_=value: operation, in_place)",
            target=node.target.value,
            key=_key(node.target.slice),
            value=node.value,
            operation=operation,
            in_place=ast.Attribute(ast.Name("ag__", ast.Load()), _IN_PLACE[name], ast.Load()),
        )


_IN_PLACE = {
    "Add": "iadd",
    "Sub": "isub",
    "Mult": "imul",
    "Div": "itruediv",
    "FloorDiv": "ifloordiv",
    "Mod": "imod",
    "Pow": "ipow",
    "BitAnd": "iand",
    "BitOr": "ior",
    "BitXor": "ixor",
    "LShift": "ilshift",
    "RShift": "irshift",
    "MatMult": "imatmul",
}


def _key(key: ast.expr) -> ast.expr:
    """A slice is no expression of its own: it becomes a call of `slice`."""
    if isinstance(key, ast.Slice):
        parts = [part if part is not None else ast.Constant(None) for part in (key.lower, key.upper, key.step)]
        return ast.Call(ast.Attribute(ast.Name("ag__", ast.Load()), "slice", ast.Load()), parts, [])
    if isinstance(key, ast.Tuple):
        return ast.Tuple([_key(item) for item in key.elts], ast.Load())
    return key


class _Asserts(converter.Base):  # type: ignore[misc]
    def visit_Assert(self, node: ast.Assert) -> Any:
        node = self.generic_visit(node)
        message = node.msg if node.msg is not None else ast.Constant("")
        return templates.replace("ag__.assert_stmt(test, lambda: message)", test=node.test, message=message)


class _Comparisons(converter.Base):  # type: ignore[misc]
    """`in` and `is` cannot be overloaded, and sequences ask for the truth of what they compare."""

    def visit_Compare(self, node: ast.Compare) -> Any:
        node = self.generic_visit(node)
        (op,), (right,) = node.ops, node.comparators
        operator = _COMPARISONS.get(type(op))
        if operator is None and type(op) in _ORDERS and any(_is_sequence(side) for side in (node.left, right)):
            operator = f'compared("{_ORDERS[type(op)]}")'
        if operator is None:
            return node
        return templates.replace_as_expression(f"ag__.{operator}(left, right)", left=node.left, right=right)


_COMPARISONS = {ast.In: "contained", ast.NotIn: "not_contained", ast.Is: "is_", ast.IsNot: "is_not"}
_ORDERS = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


def _is_sequence(node: ast.expr) -> bool:
    return isinstance(node, ast.Tuple | ast.List)


def convert_comparisons(node: Any, context: Any) -> Any:
    """`in`, `is` and comparisons of sequences as operators. Chains are taken apart already."""
    return _Comparisons(context).visit(node)


def convert_subscripts(node: Any, context: Any) -> Any:
    """`x[k]`, `x[k] = v` and `x[k] += v` as get_item, set_item and aug_item."""
    return _Subscripts(context).visit(node)


def convert_asserts(node: Any, context: Any) -> Any:
    """`assert` as assert_stmt."""
    return _Asserts(context).visit(node)
