"""A tensor is written through a view of it.

## What it does

Finds in-place writes whose target is a view: `y[0][1] = …`, and `row = y[1]` followed by a write to `row`.

## Why it matters

The write changes the base tensor and every other view of it. Functionalisation in `torch.export` follows that. The
legacy ONNX exporter loses writes through chained and transposed views, and an index with a tensor (`y[idx]`) makes a
copy instead of a view, so that the same-looking line writes nothing at all.

## Example

```python
def forward(self, obs):
    y = self.net(obs)
    row = y[1]
    row[2:] = 0.0
    return y
```

## Use instead

```python
def forward(self, obs):
    return self.net(obs) * self.keep  # a buffer: 0 where row 1 is cut
```

## References

- Tensor views: https://docs.pytorch.org/docs/stable/tensor_view.html
- torch.onnx (TorchScript exporter), in-place indexing: https://docs.pytorch.org/docs/stable/onnx.html
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import events
from graphaudit.rules.checks._source import Function, functions

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject

_VIEWS = frozenset(
    {"view", "transpose", "permute", "narrow", "select", "diagonal", "expand", "unsqueeze", "squeeze", "movedim"}
    | {"swapaxes", "chunk", "split", "unbind", "unfold", "t"}
)


class ViewAliasing(Check):
    code = "GA512"
    name = "view-aliasing"
    severity = Severity.NOTE
    remedy = "Nothing to do after torch.export; write to the base tensor where the legacy exporter is used."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """In-place writes whose target is a view of another tensor."""
        own = functions(subject.policy)
        for event in events(subject, "in-place", "write-input"):
            for function in own:
                statement = function.statement(event.place) if event.place and function.covers(event.place) else None
                if statement is not None and _writes_view(function, statement):
                    yield self.finding("this write goes through a view of another tensor", place=event.place)


def _writes_view(function: Function, statement: ast.stmt) -> bool:
    target = _target(statement)
    if isinstance(target, ast.Subscript):
        # `y[i] = v` writes y itself; what is indexed may again be a view.
        target = target.value
        if isinstance(target, ast.Subscript):
            return True
    return isinstance(target, ast.Name) and any(_is_view(v) for v in _values(function, target.id, statement.lineno))


def _target(statement: ast.stmt) -> ast.AST | None:
    match statement:
        case ast.Assign(targets=[target]) | ast.AugAssign(target=target):
            return target
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=value, attr=method))) if method.endswith("_"):
            return value
    return None


def _values(function: Function, name: str, line: int) -> list[ast.AST]:
    """What was last assigned to a local name above a line."""
    found = [
        node
        for node in ast.walk(function.tree)
        if isinstance(node, ast.Assign) and node.lineno < line
        if any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    ]
    return [max(found, key=lambda n: n.lineno).value] if found else []


def _is_view(value: ast.AST) -> bool:
    """Whether an expression is a view by its form: an index of numbers and slices, or a view method."""
    match value:
        case ast.Subscript(slice=index):
            parts = index.elts if isinstance(index, ast.Tuple) else [index]
            return all(isinstance(p, ast.Constant | ast.Slice | ast.UnaryOp) for p in parts)
        case ast.Call(func=ast.Attribute(attr=method)):
            return method in _VIEWS
    return False
