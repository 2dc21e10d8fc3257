"""Which Python statement a line of the user's source belongs to. Imports nothing heavy."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType

_BUILTINS = {"max", "min", "sum", "any", "all", "sorted", "abs", "round", "range", "len", "enumerate"}
_PLACED = ast.stmt | ast.expr | ast.excepthandler | ast.pattern | ast.arg | ast.keyword | ast.alias


@dataclass(frozen=True)
class Span:
    """A range of one file: lines from 1, columns from 0, the end exclusive."""

    file: str
    line: int
    end_line: int
    column: int
    end_column: int


@dataclass(frozen=True)
class Context:
    """The statement or expression that decides: see `Event.statement` and `Event.inside`."""

    statement: str = ""
    inside: frozenset[str] = frozenset()


def span_of(frame: FrameType) -> Span:
    """What the frame is executing right now, to the column (PEP 657)."""
    code = frame.f_code
    positions = list(code.co_positions())
    line, end_line, column, end_column = positions[frame.f_lasti // 2]
    line = line or frame.f_lineno
    return Span(code.co_filename, line, end_line or line, column or 0, end_column or 0)


def locate(span: Span) -> tuple[Span, Context]:
    """`span` narrowed to the deciding expression, and the innermost deciding construct around it."""
    chain = list(_enclosing(span))
    if chain and isinstance(chain[0][1], ast.If | ast.While | ast.Assert | ast.IfExp | ast.For):
        # A jump, assertion or iteration carries the position of its whole statement; what decides is one expression.
        whole = chain[0][1]
        test = whole.iter if isinstance(whole, ast.For) else whole.test
        chain.insert(0, (whole, test))
        span = Span(span.file, test.lineno, test.end_lineno or test.lineno, test.col_offset, test.end_col_offset or 0)
    elif chain and isinstance(chain[0][1], ast.Call) and chain[0][1].args:
        chain.insert(0, (chain[0][1], chain[0][1].args[0]))
    statement, decided = "", None
    for parent, child in chain:
        kind = _kind(parent, child)
        if kind and (not statement or statement.startswith("call:") or statement in ("and", "or", "not")):
            statement, decided = kind, parent
        if isinstance(parent, ast.stmt):
            break
    return span, Context(statement, frozenset(_inside(decided, [p for p, _ in chain])))


def is_literal_call(span: Span) -> bool:
    """Whether the call at `span` is made of literals, attributes of `self` and modules' names alone."""
    call = next((child for _, child in _enclosing(span)), None)
    if not isinstance(call, ast.Call):
        return False
    names = [n for a in (*call.args, *(k.value for k in call.keywords)) for n in ast.walk(a) if isinstance(n, ast.Name)]
    return all(n.id in ("self", "math", "np", "numpy", "torch", "th") for n in names)


def assignments(file: str, attribute: str) -> list[int]:
    """Lines that assign to, or call a method of, an attribute of that name (`self.NAME = …`, `self.NAME.append(…)`)."""
    lines = []
    for node in ast.walk(_tree(file) or ast.Module([], [])):
        if isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.ctx, ast.Store):
            lines.append(node.lineno)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            if isinstance(owner, ast.Attribute) and owner.attr == attribute:
                lines.append(node.lineno)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            owner = node.value
            if isinstance(owner, ast.Attribute) and owner.attr == attribute:
                lines.append(node.lineno)
    return sorted(set(lines))


def _kind(parent: ast.AST, child: ast.AST) -> str:
    match parent:
        case ast.If(test=test) if test is child:
            return "if"
        case ast.While(test=test) if test is child:
            return "while"
        case ast.Assert(test=test) if test is child:
            return "assert"
        case ast.IfExp(test=test) if test is child:
            return "ifexp"
        case ast.For(iter=it) if it is child:
            return "for"
        case ast.comprehension(iter=it) if it is child:
            return "for"
        case ast.comprehension():
            return "if"
        case ast.BoolOp(op=ast.And()):
            return "and"
        case ast.BoolOp(op=ast.Or()):
            return "or"
        case ast.UnaryOp(op=ast.Not()):
            return "not"
        case ast.Subscript(slice=index) if index is child:
            return "index"
        case ast.Call(func=ast.Name(id=name)) if name in _BUILTINS and parent.func is not child:
            return f"call:{name}"
    return ""


def _inside(decided: ast.AST | None, parents: list[ast.AST]) -> Iterator[str]:
    """What the deciding statement's body does to the control flow around it."""
    if isinstance(decided, ast.If | ast.While | ast.For):
        for node in _walk_body(decided):
            if isinstance(node, ast.Break):
                yield "break"
            elif isinstance(node, ast.Continue):
                yield "continue"
            elif isinstance(node, ast.Return):
                yield "return"
    if any(isinstance(p, ast.For | ast.While) and p is not decided for p in parents):
        yield "loop"


def _walk_body(statement: ast.AST) -> Iterator[ast.AST]:
    stack: list[ast.AST] = [*getattr(statement, "body", []), *getattr(statement, "orelse", [])]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            stack.extend(ast.iter_child_nodes(node))


def _enclosing(span: Span) -> Iterator[tuple[ast.AST, ast.AST]]:
    """(parent, child) pairs around `span`, innermost first."""
    tree = _tree(span.file)
    if tree is None:
        return
    chain: list[ast.AST] = [tree]
    while True:
        inner = next((c for c in ast.iter_child_nodes(chain[-1]) if _covers(c, span)), None)
        if inner is None:
            break
        chain.append(inner)
    for index in range(len(chain) - 1, 0, -1):
        yield chain[index - 1], chain[index]


def _covers(node: ast.AST, span: Span) -> bool:
    if isinstance(node, ast.comprehension):
        return any(_covers(c, span) for c in ast.iter_child_nodes(node))
    if not isinstance(node, _PLACED) or node.end_lineno is None or node.end_col_offset is None:
        return False
    start, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
    return start <= (span.line, span.column) and (span.end_line, span.end_column) <= end


@cache
def _tree(file: str) -> ast.Module | None:
    try:
        return ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None
