"""An ONNX node gives a tensor whose size depends on values, and the target plans all sizes ahead.

## What it does

Reports `NonZero`, `Unique`, `Compress` and `NonMaxSuppression`, and nodes that take a size computed from values of the
input (`Range`, `Expand`, `Reshape`, `Tile`, `ConstantOfShape`, `TopK`, `OneHot`), for targets that compile static
shapes. Sizes computed from the shape of the input are no data, and not reported.

## Why it matters

A compiler that lays out memory ahead of time needs every size. Ascend's ATC refuses its dynamic-shape options for
graphs with such nodes; other compilers put the rest of the graph on the host.

## Example

```python
def forward(self, entities, alive):
    return self.net(entities[alive]).mean(0)  # NonZero, then GatherND
```

## Use instead

All rows, with a mask:

```python
def forward(self, entities, alive):
    weight = alive.unsqueeze(-1).float()
    return (self.net(entities) * weight).sum(0) / weight.sum(0)
```

## References

- ONNX NonZero: https://onnx.ai/onnx/operators/onnx__NonZero.html
- ONNX Unique: https://onnx.ai/onnx/operators/onnx__Unique.html
- ATC, dynamic dimensions: hicann/ge, docs/zh/user_guides/atc_tools/CLI_options/--dynamic_dims.md
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._nodes import takes_size_from_data

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject
    from graphaudit.graphs.view import GraphView, Node

_ALWAYS = ("NonZero", "Unique", "Compress", "NonMaxSuppression")
# operator → the inputs that decide the size of what it gives
_SIZES = {
    "Range": (0, 1, 2),
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "Reshape": (1,),
    "Tile": (1,),
    "OneHot": (1,),
    "TopK": (1,),
}
_SHAPES = ("Shape", "Size")  # what they give depends on no value


class DynamicShapeOp(Check):
    code = "GA205"
    name = "dynamic-shape-op"
    severity = Severity.ERROR
    remedy = "Keep every element and carry a mask, or take a fixed number with torch.topk."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every node whose result's size is data."""
        graph = subject.judged
        if graph is None or subject.rulebook is None or subject.rulebook.target.dynamic_shapes:
            return
        for node in _dynamic(graph):
            yield self.finding(
                f"the size of what {node.op} gives depends on values, and {subject.target} takes no such shapes",
                place=node.place,
                node=node.name,
                evidence=subject.rulebook.evidence("dynamic_shapes"),
            )


def _dynamic(graph: GraphView) -> Iterator[Node]:
    """Nodes are in topological order, so one pass finds every value that depends on values of an input."""
    produced = {v.name for n in graph.nodes for v in n.outputs}
    data: set[str] = set()
    for node in graph.nodes:
        for value in node.inputs:
            # Neither computed nor constant: an input of the graph or of a subgraph.
            if value is not None and not value.is_constant and value.name not in produced:
                data.add(value.name)
        depends = [v is not None and v.name in data for v in node.inputs]
        if any(depends) and node.op not in _SHAPES:
            data.update(v.name for v in node.outputs)
        sizes = _SIZES.get(node.op, ())
        if node.domain:
            continue
        cut = node.op == "Slice" and takes_size_from_data(node)
        if cut or (node.op in _ALWAYS and any(depends)) or any(depends[i] for i in sizes if i < len(depends)):
            yield node
