"""Patterns of `match` as conditions."""

from __future__ import annotations

import ast
from typing import Any

from graphaudit.capture.control_flow.nodes import Unsupported, call


class Substituted(ast.NodeTransformer):
    """Puts what a pattern binds in place of its names."""

    def __init__(self, bound: dict[str, ast.expr]) -> None:
        self._bound = bound

    def visit_Name(self, node: ast.Name) -> Any:
        return self._bound.get(node.id, node)


def condition_of(pattern: ast.pattern, subject: ast.expr, bound: dict[str, ast.expr]) -> ast.expr:
    """Whether the subject matches, and what the names of the pattern are then."""
    if isinstance(pattern, ast.MatchValue):
        return ast.Compare(subject, [ast.Eq()], [pattern.value])
    if isinstance(pattern, ast.MatchSingleton):
        return ast.Compare(subject, [ast.Is()], [ast.Constant(pattern.value)])
    if isinstance(pattern, ast.MatchAs):
        inner: ast.expr = ast.Constant(True)
        if pattern.pattern is not None:
            inner = condition_of(pattern.pattern, subject, bound)
        if pattern.name is not None:
            bound[pattern.name] = subject
        return inner
    if isinstance(pattern, ast.MatchOr):
        return ast.BoolOp(ast.Or(), [condition_of(p, subject, bound) for p in pattern.patterns])
    if isinstance(pattern, ast.MatchSequence) and not any(isinstance(p, ast.MatchStar) for p in pattern.patterns):
        kinds = ast.Tuple([ast.Name("list", ast.Load()), ast.Name("tuple", ast.Load())], ast.Load())
        tests: list[ast.expr] = [
            call("isinstance", subject, kinds),
            ast.Compare(call("len", subject), [ast.Eq()], [ast.Constant(len(pattern.patterns))]),
        ]
        for i, inner_pattern in enumerate(pattern.patterns):
            tests.append(condition_of(inner_pattern, ast.Subscript(subject, ast.Constant(i), ast.Load()), bound))
        return ast.BoolOp(ast.And(), tests)
    if isinstance(pattern, ast.MatchClass) and not pattern.patterns:
        tests = [call("isinstance", subject, pattern.cls)]
        for name, inner_pattern in zip(pattern.kwd_attrs, pattern.kwd_patterns):
            tests.append(condition_of(inner_pattern, ast.Attribute(subject, name, ast.Load()), bound))
        return ast.BoolOp(ast.And(), tests) if len(tests) > 1 else tests[0]
    raise Unsupported("this pattern of a match statement", pattern)
