"""Decisions and loops of one function, and the same function with a probe at each of them.

A probe hands on what it is given: the function computes the very same objects as before.

    if a > b and c:           if P.decide(0, P.compared(0, "gt", a, b)) and P.decide(1, c):
    while c: body             P2 = P.enter(3)
                              while P.decide(2, c): P2.passes(); body
    for i in n: body          for i in P.loop(4, n): body
    f(x)                      P.follow(f)(x)
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass, field
from typing import Any

PROBE = "graphaudit_probe"
_LOOP = "graphaudit_loop_{}"
_SYMBOLS = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}
_SIMPLE = ast.Name | ast.Constant | ast.Attribute

Span = tuple[int, int, int, int]  # first line, last line, first column, end column


@dataclass(eq=False)
class Site:
    """One decision, or one loop, of the source.

    span      of what decides: an operand of a condition, what a loop iterates over
    whole     number of the condition that the operand is part of; one for each condition
    raising   the outcomes after which the policy raises, so that no input can count for them
    loop      `for` or `while`; empty for a decision
    leaves    whether a `break` or `return` may end the loop before its time
    decides   of a `while`: the decisions of its condition
    body      first and last line of a loop
    """

    number: int
    file: str
    span: Span
    text: str
    whole: int
    raising: frozenset[bool] = frozenset()
    loop: str = ""
    leaves: bool = False
    decides: list[Site] = field(default_factory=list)
    body: tuple[int, int] = (0, 0)

    @property
    def line(self) -> int:
        """Where it stands."""
        return self.span[0]


class Sites:
    """All sites met so far, by number."""

    def __init__(self) -> None:
        self.all: list[Site] = []
        self._wholes = 0

    def add(self, file: str, node: ast.expr, whole: int, **more: Any) -> Site:
        """A new site for what `node`, an expression of the source, decides."""
        site = Site(len(self.all), file, span_of(node), ast.unparse(node), whole, **more)
        self.all.append(site)
        return site

    def whole(self) -> int:
        """The number of a condition."""
        self._wholes += 1
        return self._wholes


def span_of(node: Any) -> Span:
    """Where a node of the source stands."""
    return node.lineno, node.end_lineno or node.lineno, node.col_offset, node.end_col_offset or 0


def probed(tree: Any, file: str, sites: Sites) -> Any:
    """A copy of a function's tree with probes in it; its sites join `sites`."""
    made = copy.deepcopy(tree)
    made.decorator_list = []
    return ast.fix_missing_locations(_Prober(file, sites).generic_visit(made))


class _Prober(ast.NodeTransformer):
    def __init__(self, file: str, sites: Sites) -> None:
        self._file = file
        self._sites = sites

    def visit_If(self, node: ast.If) -> Any:
        node.test = self._condition(node.test, _raises(node.body), _raises(node.orelse))
        return self._rest(node, "body", "orelse")

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        node.test = self._condition(node.test)
        return self._rest(node, "body", "orelse")

    def visit_Assert(self, node: ast.Assert) -> Any:
        node.test = self._condition(node.test, otherwise_raises=True)
        return self._rest(node, "msg")

    def visit_While(self, node: ast.While) -> Any:
        first = len(self._sites.all)
        whole, test = self._sites.whole(), copy.deepcopy(node.test)
        node.test = self._truth(node.test, whole, frozenset())
        decides = [s for s in self._sites.all[first:] if s.whole == whole]
        site = self._sites.add(self._file, test, whole, loop="while", leaves=_leaves(node), decides=decides)
        site.body = (node.lineno, node.end_lineno or node.lineno)
        node = self._rest(node, "body", "orelse")
        name = _LOOP.format(site.number)
        count = _at(node, ast.Expr(ast.Call(ast.Attribute(_name(name), "passes", ast.Load()), [], [])))
        node.body = [count, *node.body]
        entered = ast.Assign([ast.Name(name, ast.Store())], _probe("enter", ast.Constant(site.number)))
        return [_at(node, entered), node]

    def visit_For(self, node: ast.For) -> Any:
        node.iter = self._iterated(node.iter, _leaves(node), node)
        return self._rest(node, "target", "body", "orelse")

    def visit_comprehension(self, node: ast.comprehension) -> Any:
        node.iter = self._iterated(node.iter, False, node.iter)
        node.ifs = [self._condition(test) for test in node.ifs]
        return node

    def visit_match_case(self, node: ast.match_case) -> Any:
        if node.guard is not None:
            node.guard = self._condition(node.guard)
        return self._rest(node, "body")

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        whole = self._sites.whole()
        node.values = [self._leaf("operand", v, whole) for v in node.values[:-1]] + [self.visit(node.values[-1])]
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        return self._condition(node) if isinstance(node.op, ast.Not) else self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        if len(node.ops) == 1 and type(node.ops[0]) in _SYMBOLS:
            return self._leaf("noted", node, self._sites.whole())
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return self.generic_visit(node)
        if _is_bool_call(node):
            return self._condition(node)
        func = node.func
        node = self._rest(node, "func", "args", "keywords")
        node.func = _at(func, _probe("follow", node.func))
        return node

    def visit_arguments(self, node: ast.arguments) -> Any:
        return node

    def _rest(self, node: Any, *fields: str) -> Any:
        for name in fields:
            value = getattr(node, name)
            if isinstance(value, list):
                made = [self.visit(item) for item in value]
                setattr(node, name, [s for item in made for s in (item if isinstance(item, list) else [item])])
            elif value is not None:
                setattr(node, name, self.visit(value))
        return node

    def _iterated(self, node: ast.expr, leaves: bool, loop: ast.For | ast.expr) -> Any:
        body = (loop.lineno, loop.end_lineno or loop.lineno)
        site = self._sites.add(self._file, node, self._sites.whole(), loop="for", leaves=leaves, body=body)
        return _at(node, _probe("loop", ast.Constant(site.number), self.visit(node)))

    def _condition(self, test: ast.expr, raises: bool = False, otherwise_raises: bool = False) -> Any:
        raising = _forcing(test, True) if raises else frozenset()
        raising |= _forcing(test, False) if otherwise_raises else frozenset()
        return self._truth(test, self._sites.whole(), raising)

    def _truth(self, node: Any, whole: int, raising: frozenset[tuple[ast.expr, bool]]) -> Any:
        """`node` where only its truth matters."""
        if isinstance(node, ast.Constant):
            return node
        if isinstance(node, ast.BoolOp):
            node.values = [self._truth(v, whole, raising) for v in node.values]
            return node
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            node.operand = self._truth(node.operand, whole, raising)
            return node
        if _is_bool_call(node):
            made = self._truth(node.args[0], whole, raising)
            return made if isinstance(made, ast.Call) else _at(node, ast.Call(_name("bool"), [made], []))
        if isinstance(node, ast.Compare) and len(node.ops) > 1 and all(map(_is_simple, node.comparators[:-1])):
            pairs = zip([node.left, *node.comparators], node.ops, node.comparators)
            parts = [_at(node, ast.Compare(copy.deepcopy(a), [op], [b])) for a, op, b in pairs]
            return _at(node, ast.BoolOp(ast.And(), [self._leaf("decide", p, whole, raising, node) for p in parts]))
        return self._leaf("decide", node, whole, raising)

    def _leaf(
        self,
        probe: str,
        node: Any,
        whole: int,
        raising: frozenset[tuple[ast.expr, bool]] = frozenset(),
        of: ast.expr | None = None,
    ) -> Any:
        ends = frozenset(outcome for leaf, outcome in raising if leaf is (of or node))
        number = ast.Constant(self._sites.add(self._file, node, whole, raising=ends).number)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _SYMBOLS:
            symbol = ast.Constant(_SYMBOLS[type(node.ops[0])])
            made: Any = _probe("compared", number, symbol, self.visit(node.left), self.visit(node.comparators[0]))
        else:
            made = self.visit(node)
        return _at(node, _probe(probe, number, _at(node, made)))


def _forcing(node: ast.expr, truth: bool) -> frozenset[tuple[ast.expr, bool]]:
    """The outcomes of operands after which the whole condition is certain to be `truth`."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _forcing(node.operand, not truth)
    if isinstance(node, ast.BoolOp):
        decisive = isinstance(node.op, ast.Or) is truth
        return frozenset().union(*(_forcing(v, truth) for v in (node.values if decisive else node.values[-1:])))
    if _is_bool_call(node):
        return _forcing(node.args[0], truth)  # type: ignore[attr-defined]
    return frozenset({(node, truth)})


def _raises(body: list[ast.stmt]) -> bool:
    return any(isinstance(statement, ast.Raise) for statement in body)


def _leaves(loop: ast.For | ast.While) -> bool:
    stack: list[ast.AST] = list(loop.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Break | ast.Return):
            return True
        if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            stack.extend(ast.iter_child_nodes(node))
    return False


def _is_bool_call(node: Any) -> bool:
    named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "bool"
    return named and len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], ast.Starred)


def _is_simple(node: ast.expr) -> bool:
    return isinstance(node, _SIMPLE)


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _probe(method: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(_name(PROBE), method, ast.Load()), list(arguments), [])


def _at(origin: Any, node: Any) -> Any:
    """`node` and what was made for it at the place of `origin`."""
    for inner in ast.walk(node):
        if "lineno" in inner._attributes and not hasattr(inner, "lineno"):
            ast.copy_location(inner, origin)
    return node
