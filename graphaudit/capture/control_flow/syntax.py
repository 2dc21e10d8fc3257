"""Python's syntax that malt's converters do not know, in terms of what they do know.

- for/while … else      a flag that `break` sets
match                 if and elif
name := value         an assignment before the statement; what Python evaluates before it keeps its place
a < f(x) < b          f(x) is evaluated once
raise error           a return whose value the capture knows (operators.raised)
try … except          operators.attempt around the body, where an exception that data decides on may be caught
[e for v in s if c]   operators.filtered, where c may be a tensor
[e for v in s]        operators.listed, where s may be a tensor whose size varies
f"{v}", "%s" % v      operators.text, where v may be a tensor's value
global name           an entry of the function's globals
"""

from __future__ import annotations

import ast
from typing import Any

from graphaudit.capture.control_flow.nodes import (
    Unsupported,
    assign,
    at,
    call,
    children,
    evaluated,
    expressions,
    listed,
    no_arguments,
    of_item,
    operator,
    outside_functions,
    put,
    within,
)
from graphaudit.capture.control_flow.patterns import Substituted, condition_of

GLOBALS = "graphaudit_globals"

# Exceptions that no value of a tensor decides on, or that the capture sees as Python does.
_OF_PYTHON = {
    *("KeyError", "AttributeError", "TypeError", "NameError", "ImportError", "ModuleNotFoundError", "StopIteration"),
    *("NotImplementedError", "OSError", "FileNotFoundError", "UnboundLocalError"),
}


def simplify(node: Any) -> Any:
    """The function or lambda with the above written out. Raises Unsupported."""
    return ast.fix_missing_locations(_Simple(node).visit(node))


class _Simple(ast.NodeTransformer):
    def __init__(self, root: ast.AST) -> None:
        self._taken = {n.id for n in ast.walk(root) if isinstance(n, ast.Name)}
        self._count = 0
        self._globals: list[set[str]] = []
        self._handlers = 0

    def _fresh(self, word: str) -> str:
        self._count += 1
        name = f"{word}_{self._count}_"
        return name if name not in self._taken else self._fresh(word)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        own = [n for s in node.body for n in within(s, ast.FunctionDef | ast.Lambda | ast.ClassDef)]
        self._globals.append({name for n in own if isinstance(n, ast.Global) for name in n.names})
        kept, self._handlers = self._handlers, 0
        node = self.generic_visit(node)  # type: ignore[assignment]
        self._globals.pop()
        self._handlers = kept
        return node

    def visit_Global(self, node: ast.Global) -> Any:
        return ast.copy_location(ast.Pass(), node)

    def visit_Name(self, node: ast.Name) -> Any:
        if not any(node.id in names for names in self._globals):
            return node
        entry = ast.Subscript(ast.Name(GLOBALS, ast.Load()), ast.Constant(node.id), node.ctx)
        return at(entry, node)

    # Loops with else

    def visit_For(self, node: ast.For) -> Any:
        return self._without_else(self.generic_visit(node))

    def visit_While(self, node: ast.While) -> Any:
        if not _named(node.test):
            return self._without_else(self.generic_visit(node))
        stop = ast.If(ast.UnaryOp(ast.Not(), node.test), [*node.orelse, ast.Break()], [])
        if any(isinstance(n, ast.Break | ast.Continue) for s in node.orelse for n in ast.walk(s)):
            raise Unsupported("a while with := in its condition, and a break in its else", node)
        looped = ast.While(ast.Constant(True), [at(stop, node), *node.body], [])
        return self.visit(at(looped, node))

    def _without_else(self, loop: Any) -> Any:
        if not loop.orelse:
            return loop
        flag = self._fresh("broke")
        loop.body = [s for statement in loop.body for s in _Breaks(flag).listed(statement)]
        after = ast.If(ast.UnaryOp(ast.Not(), ast.Name(flag, ast.Load())), loop.orelse, [])
        loop.orelse = []
        return [at(assign(flag, ast.Constant(False)), loop), loop, at(after, loop)]

    # match

    def visit_Match(self, node: ast.Match) -> Any:
        subject = self._fresh("subject")
        rest: list[ast.stmt] = []
        for case in reversed(node.cases):
            bound: dict[str, ast.expr] = {}
            test = condition_of(case.pattern, ast.Name(subject, ast.Load()), bound)
            if case.guard is not None:
                test = ast.BoolOp(ast.And(), [test, Substituted(bound).visit(case.guard)])
            body = [assign(name, value) for name, value in bound.items()] + case.body
            rest = [at(ast.If(test, [at(s, case.pattern) for s in body], rest), case.pattern)]
        first = at(assign(subject, node.subject), node)
        return self._block([first, *rest])

    # raise, try

    def visit_Raise(self, node: ast.Raise) -> Any:
        if node.exc is None or self._handlers:
            return self.generic_visit(node)
        error = ast.Lambda(no_arguments(), node.exc)
        return self._statement(at(ast.Return(operator("raised", error)), node))

    def visit_Try(self, node: ast.Try) -> Any:
        caught = any(_catches_data(h.type) for h in node.handlers)
        node.body = self._block(node.body)
        node.orelse, node.finalbody = self._block(node.orelse), self._block(node.finalbody)
        self._handlers += 1
        node.handlers = [self.visit(h) for h in node.handlers]
        self._handlers -= 1
        if caught:
            node.body = [at(ast.With([ast.withitem(operator("attempt"))], node.body), node.body[0])]
        return node

    def _block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        return [s for statement in statements for s in listed(self.visit(statement))]

    # Expressions

    def visit_ListComp(self, node: ast.ListComp) -> Any:
        return self._of_items(node, "list")

    def visit_SetComp(self, node: ast.SetComp) -> Any:
        return self.generic_visit(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> Any:
        return self._of_items(node, "")

    def _of_items(self, node: Any, kind: str) -> Any:
        node = self.generic_visit(node)
        if len(node.generators) != 1 or node.generators[0].is_async:
            return node
        (loop,) = node.generators
        as_list = ast.Constant(kind == "list")
        if not loop.ifs:
            return at(operator("listed", loop.iter, of_item(self._fresh("item"), loop.target, node.elt), as_list), node)
        test = loop.ifs[0] if len(loop.ifs) == 1 else ast.BoolOp(ast.And(), loop.ifs)
        item = self._fresh("item")
        functions = [of_item(item, loop.target, body) for body in (test, node.elt)]
        return at(operator("filtered", loop.iter, *functions, as_list), node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Any:
        node = self.generic_visit(node)  # type: ignore[assignment]
        parts: list[ast.expr] = []
        for value in node.values:
            if not isinstance(value, ast.FormattedValue):
                parts.append(value)
                continue
            shown: Any = value.value
            if value.conversion in (ord("r"), ord("s"), ord("a")):
                shown = call({"r": "repr", "s": "str", "a": "ascii"}[chr(value.conversion)], shown)
            parts.append(ast.Tuple([shown, value.format_spec or ast.Constant("")], ast.Load()))
        return at(operator("text", *parts), node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> Any:
        node.value = self.visit(node.value)
        if node.format_spec is not None:
            node.format_spec = self.visit(node.format_spec)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        node = self.generic_visit(node)  # type: ignore[assignment]
        if isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant) and isinstance(node.left.value, str):
            return at(operator("percent", node.left, node.right), node)
        return node

    # Assignments inside expressions

    def visit(self, node: ast.AST) -> Any:
        if not isinstance(node, ast.stmt) or isinstance(node, ast.While):
            return super().visit(node)
        parts = evaluated(node)
        if any(_is_chain(n) for part in parts for n in outside_functions(part)):
            return self._block(self._unchained(node))
        if any(_names_inside(part) for part in parts):
            return self._block(self._hoisted(node))
        return super().visit(node)

    def _statement(self, node: ast.stmt) -> Any:
        return super().visit(node)

    def _unchained(self, node: Any) -> list[ast.stmt]:
        transformer = _Chains(self)
        for name, value in list(expressions(node)):
            setattr(node, name, transformer.visit(value))
        return self._hoisted(node)

    def _hoisted(self, node: Any) -> list[ast.stmt]:
        """The statement without `:=`, after the assignments that it holds."""
        before: list[ast.stmt] = []
        parts = list(expressions(node))
        last = max(i for i, (_, value) in enumerate(parts) if _names_inside(value))
        for i, (name, value) in enumerate(parts):
            lowered = self._lowered(value, before) if _names_inside(value) else value
            setattr(node, name, self._kept(lowered, before) if i < last else lowered)
        return [*(at(s, node) for s in before), node]

    def _kept(self, value: Any, before: list[ast.stmt]) -> Any:
        """A name for what is evaluated before an assignment that comes after it."""
        if isinstance(value, ast.Constant | ast.Starred | ast.keyword) or not isinstance(value, ast.expr):
            return value
        name = self._fresh("kept")
        before.append(assign(name, value))
        return ast.Name(name, ast.Load())

    def _lowered(self, node: Any, before: list[ast.stmt]) -> Any:
        """The expression, with the assignments in it appended to `before`."""
        if not _names_inside(node):
            return node
        if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            raise Unsupported("an assignment with := in a comprehension or lambda", node)
        if isinstance(node, ast.NamedExpr):
            before.append(assign(node.target.id, self._lowered(node.value, before)))
            return ast.Name(node.target.id, ast.Load())
        if isinstance(node, ast.BoolOp | ast.IfExp):
            return self._branching(node, before)
        parts = [(f, i, c) for f, v in ast.iter_fields(node) for i, c in children(v)]
        last = max(k for k, (_, _, c) in enumerate(parts) if _names_inside(c))
        for k, (name, index, child) in enumerate(parts):
            lowered = self._lowered(child, before)
            put(node, name, index, self._kept(lowered, before) if k < last else lowered)
        return node

    def _branching(self, node: Any, before: list[ast.stmt]) -> ast.expr:
        """`and`, `or` and conditional expressions whose later parts assign: as an `if` that sets a name."""
        name = self._fresh("value")
        if isinstance(node, ast.IfExp):
            sides = []
            test = self._lowered(node.test, before)
            for side in (node.body, node.orelse):
                inner: list[ast.stmt] = []
                value = self._lowered(side, inner)
                sides.append([*inner, assign(name, value)])
            before.append(ast.If(test, *sides))
            return ast.Name(name, ast.Load())
        before.append(assign(name, self._lowered(node.values[0], before)))
        body = before
        for value in node.values[1:]:
            test = ast.Name(name, ast.Load())
            inner = []
            going = test if isinstance(node.op, ast.And) else ast.UnaryOp(ast.Not(), test)
            body.append(ast.If(going, inner, []))
            lowered = self._lowered(value, inner)
            inner.append(assign(name, lowered))
            body = inner
        return ast.Name(name, ast.Load())


class _Chains(ast.NodeTransformer):
    """`a < f(x) < b` as `a < (t := f(x)) and t < b`."""

    def __init__(self, names: _Simple) -> None:
        self._names = names

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_Lambda  # type: ignore[assignment]

    def visit_Compare(self, node: ast.Compare) -> Any:
        node = self.generic_visit(node)  # type: ignore[assignment]
        if not _is_chain(node):
            return node
        left = node.left
        tests: list[ast.expr] = []
        for position, (op, right) in enumerate(zip(node.ops, node.comparators)):
            again = right
            if position < len(node.ops) - 1 and not isinstance(right, ast.Name | ast.Constant):
                name = self._names._fresh("middle")
                right, again = ast.NamedExpr(ast.Name(name, ast.Store()), right), ast.Name(name, ast.Load())
            tests.append(ast.Compare(left, [op], [right]))
            left = again
        return at(ast.BoolOp(ast.And(), tests), node)


class _Breaks(ast.NodeTransformer):
    """Sets a flag before each `break` of one loop."""

    def __init__(self, flag: str) -> None:
        self._flag = flag

    def listed(self, node: ast.stmt) -> list[ast.stmt]:
        return listed(self.visit(node))

    def visit_Break(self, node: ast.Break) -> Any:
        return [at(assign(self._flag, ast.Constant(True)), node), node]

    def visit_For(self, node: Any) -> Any:
        node.orelse = [s for statement in node.orelse for s in self.listed(statement)]
        return node

    visit_While = visit_For

    def visit_FunctionDef(self, node: Any) -> Any:
        return node


def _catches_data(kind: ast.expr | None) -> bool:
    """Whether an `except` of this kind may catch what the value of a tensor raises."""
    if kind is None:
        return True
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return any(not (isinstance(k, ast.Name) and k.id in _OF_PYTHON) for k in kinds)


def _named(node: ast.AST) -> bool:
    """Whether an expression has to be written out before its statement."""
    return _names_inside(node) or any(_is_chain(n) for n in outside_functions(node))


def _names_inside(node: Any) -> bool:
    return isinstance(node, ast.AST) and any(isinstance(n, ast.NamedExpr) for n in ast.walk(node))


def _is_chain(node: ast.AST) -> bool:
    """A chained comparison with a call in its middle, which must not run twice."""
    if not isinstance(node, ast.Compare) or len(node.ops) < 2:
        return False
    return any(isinstance(inner, ast.Call) for c in node.comparators[:-1] for inner in ast.walk(c))
