"""Which decisions and loops hang on tensors, and which on Python alone.

A decision hangs on tensors where it asked one in which the inputs have a part, where a value in it was read out of one
(in the expression, or in a variable that was assigned from such an expression in the same function), or where it came
out otherwise on an input of the same shape.
"""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from graphaudit.paths.functions import Functions
from graphaudit.paths.recorder import Run
from graphaudit.paths.sites import Site, Span, span_of

_ARITHMETIC = ("int", "float", "bool", "abs", "round", "min", "max", "sum", "len", "range")


class Dependence:
    """What was seen over all runs."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._tensors: set[Any] = set()
        self._reads: dict[str, set[Span]] = {}
        self._first: dict[tuple[Any, Hashable], list[Any]] = {}
        self._varied: set[Any] = set()
        self._counting: set[Any] = set()
        self._numeric: set[Any] = set()
        self._tainted: dict[tuple[int, int], set[str]] = {}

    def add(self, run: Run, shapes: Hashable) -> None:
        """One more run, on inputs of the given shapes."""
        self._tensors |= run.tensors
        for code, instruction in run.reads:
            first, last, start, end = list(code.co_positions())[instruction // 2]
            if first is not None and start is not None:
                self._reads.setdefault(code.co_filename, set()).add((first, last or first, start, end or start))
        for site, outcomes in run.outcomes.items():
            values = [o.values for o in outcomes]
            self._compare(site, shapes, values)
            if any(v != values[0] for v in values):
                self._counting.add(site)
            if all(o.is_numeric for o in outcomes):
                self._numeric.add(site)
        for site, counts in run.counts.items():
            self._compare(site, shapes, [c.number for c in counts])

    def varies(self, site: Site) -> bool:
        """Whether inputs of one shape made a difference to it."""
        return site.number in self._varied

    def counts(self, site: Site) -> bool:
        """Whether what it compares changes in the course of one run, as a counter does."""
        return site.number in self._counting

    def on_data(self, site: Site) -> bool:
        """Whether the decision, or the number of items of the loop, hangs on tensors."""
        if site.number in self._tensors or site.number in self._varied:
            return True
        if not site.loop and site.number not in self._numeric:
            return False  # what kind of object it is, or whether it is there
        reads = self._reads.get(site.file, set())
        if any(_within(read, site.span) for read in reads):
            return True
        names = set(_numbers_in(ast.parse(site.text, mode="eval").body))
        trees = [t for t in self._functions.trees[site.file] if _within(site.span, span_of(t))]
        return any(names & self._variables(tree, reads) for tree in trees)

    def _variables(self, tree: Any, reads: set[Span]) -> set[str]:
        key = (id(tree), len(reads))  # reads are only ever added
        if key not in self._tainted:
            self._tainted[key] = _tainted(tree, reads)
        return self._tainted[key]

    def _compare(self, site: Any, shapes: Hashable, values: Sequence[Any]) -> None:
        first = self._first.setdefault((site, shapes), list(values))
        if any(a != b for a, b in zip(first, values)):
            self._varied.add(site)


def _tainted(tree: Any, reads: set[Span]) -> set[str]:
    """The variables of a function that are assigned from an expression with a read in it, or from such a variable."""
    assigned = list(_assignments(tree))
    tainted: set[str] = set()
    before = -1
    while len(tainted) != before:
        before = len(tainted)
        for targets, value in assigned:
            span = span_of(value)
            if any(_within(read, span) for read in reads) or set(_names(value)) & tainted:
                tainted.update(n for t in targets for n in _names(t))
    return tainted


def _assignments(tree: Any) -> Iterator[tuple[Sequence[ast.expr], ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            yield node.targets, node.value
        elif isinstance(node, ast.AugAssign | ast.NamedExpr) or (isinstance(node, ast.AnnAssign) and node.value):
            yield [node.target], node.value  # type: ignore[misc]
        elif isinstance(node, ast.For | ast.comprehension):
            yield [node.target], node.iter


def _numbers_in(node: ast.AST) -> Iterator[str]:
    """The names whose values a decision is about; not those of which it asks what they are: `x is None`."""
    named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _ARITHMETIC
    if isinstance(node, ast.Name | ast.Attribute):
        yield ast.unparse(node)
    elif (named or not isinstance(node, ast.Call)) and not _asks_identity(node):
        for child in ast.iter_child_nodes(node):
            yield from _numbers_in(child)


def _asks_identity(node: ast.AST) -> bool:
    return isinstance(node, ast.Compare) and any(isinstance(o, ast.Is | ast.IsNot) for o in node.ops)


def _names(node: ast.AST) -> Iterator[str]:
    """Variables, and attributes as `self.mode`."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and inner.id != "self":
            yield inner.id
        elif isinstance(inner, ast.Attribute):
            yield ast.unparse(inner)


def _within(inner: Span, outer: Span) -> bool:
    start, end = (inner[0], inner[2]), (inner[1], inner[3])
    return (outer[0], outer[2]) <= start and end <= (outer[1], outer[3])
