"""Functions of selected rows that are written back are computed for all rows, and a mask says which ones are written.

    y[mask] = f(x[mask])                                     →  where(mask, f(x), y)
    i = nonzero(mask); y[i] = f(x[i])                        →  the same, for index_put and index_copy
    y[i] += f(x[i]); y.index_add(0, i, f(x[i]))              →  y + where(mask, f(x), 0)
    i, j = where(mask); y.index_add(0, i, w[i, j] * f(x[i])) →  y + where(mask, w * f(x), 0).sum(1)

Mixtures of experts route their rows like this. What is computed grows from the selected rows to all of them.

- Only for targets that take no shapes that depend on data (`Target.dynamic_shapes`).
- f works row by row, see `graphaudit.rewrite.rows`. Several selections by one mask may meet in it.
- Positions that another condition replaces by one number (`where(i.numel() > 0, i, 0)`, from a branch) are the
  positions themselves where the condition holds whenever a row is selected.
- Several rows written to one place: the last one stays, as on a CPU; at most 16 rows.
- Comparisons of the number of selected rows with a number read the mask. What asserts that number goes with it.
- Left alone: rows that something else reads, and tensors that the mask does not cover.

The results differ by rounding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.fx_view import operator_name
from graphaudit.graphs.program import Program
from graphaudit.rewrite.base import Level, Pass, PassResult
from graphaudit.rewrite.edit import insert_call, insert_function, is_only_asserted, replace_node
from graphaudit.rewrite.operator_pass import argument
from graphaudit.rewrite.rows import (
    is_by_rows,
    positions_along,
    positions_in,
    read_rows,
    row_axis,
    same_sizes,
    write_rows,
)
from graphaudit.rulebook.target import Target

_aten = torch.ops.aten
_WRITES = (_aten.index_put.default, _aten.index_copy.default, _aten.index_add.default)
_FINDS = (_aten.where.default, _aten.nonzero_numpy.default, _aten.nonzero.default)
_FLATTEN = (_aten.squeeze.dim, _aten.view.default, _aten.reshape.default, _aten.flatten.using_ints)
_LONGEST = 16  # rows written to one place, one after the other


class ConvertRowWrites(Pass[Program]):
    """y[mask] = f(x[mask]) → where(mask, f(x), y)."""

    name = "convert_row_writes"
    level = Level.FX
    fixes = ("bool-mask-index", "index-put", "data-dependent-shape", "dynamic-shape-op")
    target_ops = frozenset({"aten.index_put", "aten.index_copy", "aten.index_add"})
    runs_after = ("remove_inference_noops", "convert_mask_writes", "convert_row_selections")
    only_without = ("dynamic_shapes",)
    claims = Claim.EQUIVALENT

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Replace all that follows from the selections by one mask, or leave all of it."""
        result = PassResult(artifact)
        masks = {node: None for use in artifact.graph.nodes if (node := _mask_of(use)) is not None}
        for mask in masks:
            selected = _Selected(mask)
            reason = selected.follow()
            if not selected.writes:
                continue
            for node in (*selected.starts, *selected.writes):
                result.record(node.name, artifact.place(node), reason)
            if not reason:
                selected.rebuild()
        if result.changed:
            artifact.finish()
        return result


@dataclass
class _Selected:
    """What follows from the rows that `mask` selects."""

    mask: fx.Node
    starts: list[fx.Node] = field(default_factory=list)
    positions: dict[fx.Node, int] = field(default_factory=dict)  # and the dimension of the mask
    rows: dict[fx.Node, None] = field(default_factory=dict)
    counts: set[fx.Node] = field(default_factory=set)  # numbers that follow from how many rows are selected
    tests: set[fx.Node] = field(default_factory=set)  # tensors that say how such a number compares
    dead: set[fx.Node] = field(default_factory=set)
    writes: list[fx.Node] = field(default_factory=list)

    def follow(self) -> str:
        """Sort all that reads the rows, in the order of the graph; empty, or why they stay."""
        reason = ""
        for node in self.mask.graph.nodes:
            if _mask_of(node) is self.mask:
                self.starts.append(node)
            if self._is_write(node):
                self.writes.append(node)
                reason = reason or self._why_not_written(node)
            elif _mask_of(node) is self.mask or any(s in self._all() for s in node.all_input_nodes):
                reason = reason or self._sort(node)
        return reason if self.starts else "nothing is selected"

    def _all(self) -> set[fx.Node]:
        return {*self.rows, *self.positions, *self.counts, *self.dead}

    def _is_write(self, node: fx.Node) -> bool:
        if node.target not in _WRITES:
            return False
        index = node.args[1] if node.target is _aten.index_put.default else node.args[2:3]
        return any(i is self.mask or i in self.positions for i in index)  # type: ignore[union-attr]

    def _sort(self, node: fx.Node) -> str:
        """Put a node that reads the rows in its place; empty, or why they stay."""
        if node.target in _FINDS or node.target is _aten._assert_tensor_metadata.default:
            self.dead.add(node)
        elif (dimension := self._dimension(node)) is not None:
            self.positions[node] = dimension
        elif node.target is _aten.sym_size.int or self.counts.issuperset(node.all_input_nodes):
            return self._sort_count(node)
        elif node.target is _aten.index.Tensor or node.target is _aten.index_select.default:
            self.rows[node] = None
            return self._why_not_read(node)
        elif is_by_rows(node, self._is_rows):
            self.rows[node] = None
        elif not self.counts.isdisjoint(node.all_input_nodes):
            return "the number of selected rows is used"
        else:
            name = operator_name(node.target)[0] if node.op == "call_function" else node.op
            return f"{name} reads the selected rows, and does not work row by row"
        return ""

    def _is_rows(self, node: object) -> bool:
        return node in self.rows or node in self.positions

    def _sort_count(self, node: fx.Node) -> str:
        if _comparison(node) is not None:
            self.tests.add(node)
            return ""
        self.counts.add(node)
        known = node.target in (_aten.sym_size.int, _aten._assert_scalar.default) or is_only_asserted(node)
        compared = all(_comparison(user) is not None for user in node.users)
        return "" if known or compared else "the number of selected rows is used"

    def _dimension(self, node: fx.Node) -> int | None:
        """Of the mask, whose positions a node gives."""
        source: Any = node.args[0] if node.args else None
        if node.target is _aten.where.ScalarOther and node.args[1] in self.positions and self._holds(source):
            return self.positions[node.args[1]]  # type: ignore[index]
        if source not in self.dead or source.target not in _FINDS:
            return None
        dims: int = self.mask.meta["val"].dim()
        if source.target is not _aten.nonzero.default:
            return int(node.args[1])  # type: ignore[arg-type]
        if node.target is _aten.select.int and node.args[1] in (1, -1):
            return int(node.args[2]) % dims  # type: ignore[arg-type]
        return 0 if node.target in _FLATTEN and node.meta["val"].dim() == dims == 1 else None

    def _holds(self, condition: Any) -> bool:
        """Whether a condition is sure to hold where a row is selected."""
        if condition.target is _aten.any.default:
            return condition.args[0] is self.mask
        negated = condition.target is _aten.logical_not.default
        test = condition.args[0] if negated else condition
        if test not in self.tests:
            return False
        sure = {("eq", 0), ("lt", 1), ("le", 0)} if negated else {("gt", 0), ("ne", 0), ("ge", 1)}
        return _comparison(test) in sure

    def _why_not_read(self, node: fx.Node) -> str:
        if node.args[0] in self._all():
            return "rows of selected rows are read"
        found = positions_in(node, self.mask, self.positions)
        if not found:
            return "other rows than the selected ones are read"
        return "" if same_sizes(node.args[0], self.mask, *found) else "the mask does not cover what is read"

    def _why_not_written(self, node: fx.Node) -> str:
        into, value = node.args[0], node.args[2 if node.target is _aten.index_put.default else 3]
        found = positions_in(node, self.mask, self.positions)
        if into in self._all() or not found or found[0] or not same_sizes(into, self.mask, *found):
            return "the mask does not cover what is written to"
        behind = into.meta["val"].dim() - len(found[1])  # type: ignore[union-attr]
        written = value.meta["val"]  # type: ignore[union-attr]
        if value in self.rows:
            if row_axis(value) != 0 or written.dim() != behind + 1:  # type: ignore[arg-type]
                return "the values do not lie row by row"
        elif value in self._all() or written.dim() > behind:
            return "the values do not come from the selected rows"
        others = [size for d, size in enumerate(self.mask.meta["val"].shape) if d not in found[1]]
        if not _adds(node) and not all(isinstance(size, int) for size in others):
            return "how many rows may be written to one place varies"
        if not _adds(node) and torch.Size(others).numel() > _LONGEST:
            return f"more than {_LONGEST} rows may be written to one place"
        return ""

    def rebuild(self) -> None:
        """Compute all rows, and write the selected ones."""
        new: dict[fx.Node, Any] = {}
        members = [n for n in self.mask.graph.nodes if n in self._all() or n in self.tests or n in self.writes]
        for node in members:
            if node in self.writes:
                self._rebuild_write(node, new)
            elif node in self.tests:
                new[node] = insert_function(node, _count_test(*_comparison(node)), (self.mask,))  # type: ignore[misc]
                node.replace_all_uses_with(new[node])
            elif node in self.positions:
                new[node] = insert_function(node, positions_along(self.positions[node]), (self.mask,))
            elif node in self.rows:
                new[node] = self._rebuild_rows(node, new)
        for node in reversed(members):
            if node not in self.writes:
                node.graph.erase_node(node)

    def _rebuild_rows(self, node: fx.Node, new: dict[fx.Node, Any]) -> fx.Node:
        found = positions_in(node, self.mask, self.positions)
        if found:
            read: fx.Node = insert_function(node, read_rows(*found), (node.args[0], self.mask))
            return read
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: new.get(n, n))
        return insert_call(node, node.target, args, kwargs)  # type: ignore[arg-type]

    def _rebuild_write(self, node: fx.Node, new: dict[fx.Node, Any]) -> None:
        value = node.args[2 if node.target is _aten.index_put.default else 3]
        _, dims = positions_in(node, self.mask, self.positions)  # type: ignore[misc]
        scale = argument(node, "alpha") if node.target is _aten.index_add.default else 1
        write = write_rows(dims, by_rows=value in self.rows, adds=_adds(node), scale=scale)
        given = (node.args[0], self.mask, new.get(value, value))  # type: ignore[arg-type]
        replace_node(node, insert_function(node, write, given))


def _mask_of(node: fx.Node) -> fx.Node | None:
    """What a node selects rows by, where it does."""
    if node.target in _FINDS:
        return node.args[0]  # type: ignore[return-value]
    if node.target is not _aten.index.Tensor:
        return None
    indices: Any = node.args[1]
    first = indices[0]
    is_mask = isinstance(first, fx.Node) and first.meta["val"].dtype == torch.bool and not any(indices[1:])
    return first if is_mask else None


def _adds(node: fx.Node) -> bool:
    if node.target is _aten.index_put.default:
        return bool(argument(node, "accumulate"))
    return node.target is _aten.index_add.default


def _comparison(test: fx.Node) -> tuple[str, int] | None:
    """How a tensor of one element compares a number with another one that does not vary."""
    compared = test.args[0] if test.target is _aten.scalar_tensor.default else None
    if not isinstance(compared, fx.Node) or getattr(compared.target, "__module__", "") != "_operator":
        return None
    name = compared.target.__name__  # type: ignore[union-attr]
    number = compared.args[1] if len(compared.args) == 2 else None
    return (name, number) if name in ("eq", "ne", "lt", "le", "gt", "ge") and type(number) is int else None


def _count_test(compare: str, number: int) -> Any:
    return lambda mask: getattr((mask != 0).sum(), compare)(number)
