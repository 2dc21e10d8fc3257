"""A layer takes its inference fast path, in eager or in the graph.

## What it does

Reports where `nn.TransformerEncoderLayer`, `nn.TransformerEncoder` and `nn.MultiheadAttention` call their fused
operators, as they do in eval mode without gradients.

## Why it matters

The fast path is one fused operator that has no ONNX translation and no kernel outside PyTorch, so a graph holds the
separate operators in its place, or cannot leave PyTorch. It rounds otherwise than they do, and gives zeros at padded
positions where they give numbers.

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
from graphaudit.rules.checks._events import events

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject

_FUSED = ("aten._transformer_encoder_layer_fwd", "aten._native_multi_head_attention")


class FastPathSpecialisation(Check):
    code = "GA606"
    name = "fast-path-specialisation"
    severity = Severity.WARNING
    remedy = "Call torch.backends.mha.set_fastpath_enabled(False) before the policy is captured."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Fused fast-path operators in the captured graph, and where eager alone calls them."""
        held = list(subject.fx.select(*_FUSED)) if subject.fx else []
        for node in held:
            yield self.finding(f"the graph holds the fused operator {node.op}", place=node.place, node=node.name)
        for event in events(subject, "fast-path") if not held else ():
            message = f"eager calls the fused {event.detail.strip('_')} here, the graph the operators it is made of"
            yield self.finding(message, place=event.place, severity=Severity.NOTE)
