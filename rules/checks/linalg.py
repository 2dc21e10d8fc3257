"""Solvers and factorisations do not exist in ONNX.

## What it does

Reports `torch.linalg` operators: solve, inv, cholesky, qr, svd, eigh, lstsq and their older names. Norms and products
are fine and not reported.

## Why it matters

torch's exporter has no translation for them except the determinant. On accelerators they run on the host even in eager
mode, and in half precision they are not worth running.

## Example

```python
def forward(self, obs):
    gain = torch.linalg.solve(self.r, self.b.T @ self.p)
    return -obs @ gain.T
```

## Use instead

```python
def __init__(self, r, b, p):
    super().__init__()
    self.register_buffer("gain", torch.linalg.solve(r, b.T @ p))  # constant after training

def forward(self, obs):
    return -obs @ self.gain.T
```

## References

- torch.linalg: https://docs.pytorch.org/docs/stable/linalg.html
- https://github.com/pytorch/pytorch/issues/107948
- https://github.com/pytorch/pytorch/issues/103571
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.rules.checks._operator import OperatorCheck, operator_of

if TYPE_CHECKING:
    from graphaudit.graphs.view import GraphView, Node

_SOLVERS = {"cholesky_solve", "triangular_solve", "lu_solve", "lstsq", "inverse", "cholesky_inverse", "pinverse"}
_OLDER = {"cholesky", "det", "logdet", "slogdet", "svd", "qr", "matrix_exp", *_SOLVERS}
_NORMS = {"linalg_vector_norm", "linalg_matrix_norm", "linalg_norm"}
_FINE = {"linalg_cross", "linalg_diagonal", "linalg_matmul", "linalg_multi_dot", "linalg_vecdot", *_NORMS}


class Linalg(OperatorCheck):
    code = "GA227"
    name = "linalg"
    remedy = "Compute it before deployment, or write the closed form of the small case out."
    becomes = ("Det", "ReduceL2")
    effect = "ONNX has matrix products and determinants, and no solvers or factorisations"

    def candidates(self, graph: GraphView) -> Iterator[Node]:
        """Operators of torch.linalg, and the older names of some."""
        for node in graph.nodes:
            name = operator_of(node)
            if node.domain == "aten" and (name in _OLDER or (name.startswith("linalg_") and name not in _FINE)):
                yield node
