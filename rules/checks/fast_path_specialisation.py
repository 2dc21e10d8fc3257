"""A layer took its inference fast path, and the graph holds that path.

## What it does

Reports the fused operators that `nn.TransformerEncoderLayer`, `nn.TransformerEncoder` and `nn.MultiheadAttention` call
in eval mode without gradients.

## Why it matters

The fast path is one fused operator that has no ONNX translation and no kernel outside PyTorch. It also rounds otherwise
than the separate operators that ran in training.

## Example

```python
layer = nn.TransformerEncoderLayer(64, 4, batch_first=True).eval()
with torch.no_grad():
    exported = torch.export.export(layer, (torch.zeros(2, 8, 64),))
```

## Use instead

```python
torch.backends.mha.set_fastpath_enabled(False)
```

## References

- torch.backends.mha: https://docs.pytorch.org/docs/stable/backends.html#module-torch.backends.mha
- TransformerEncoderLayer, "fast path":
  https://docs.pytorch.org/docs/stable/generated/torch.nn.TransformerEncoderLayer.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject

_FUSED = ("aten._transformer_encoder_layer_fwd", "aten._native_multi_head_attention")


class FastPathSpecialisation(Check):
    code = "GA606"
    name = "fast-path-specialisation"
    severity = Severity.WARNING
    remedy = "Call torch.backends.mha.set_fastpath_enabled(False) before the policy is captured."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Fused fast-path operators in the captured graph."""
        for node in subject.fx.select(*_FUSED) if subject.fx else ():
            yield self.finding(f"the graph holds the fused operator {node.op}", place=node.place, node=node.name)
