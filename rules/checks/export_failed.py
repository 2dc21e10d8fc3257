"""There is no ONNX model that runs, and no single operator is to blame.

## What it does

Reports, in one line each, that torch's exporter gave up on a captured policy, or that ONNX Runtime could not load what
it exported. Where the fault is an operator without a translation or without a kernel, `unsupported-op` names it
instead.

## Why it matters

Every step of a rewrite is checked by running it. A model that ONNX Runtime cannot load cannot be compared with the
policy, so no bundle is written, even for a target that might take the model.

## Example

```python
def forward(self, spectrum):
    return torch.fft.fft(spectrum)  # complex results: ONNX has no complex tensors
```

## Use instead

```python
def forward(self, spectrum):
    return torch.view_as_real(torch.fft.fft(spectrum))
```

## References

- torch.onnx: https://docs.pytorch.org/docs/stable/onnx_export.html
- ONNX Runtime, compatibility with opsets: https://onnxruntime.ai/docs/reference/compatibility.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject

_SAID = {"export": "torch.onnx cannot export this policy", "runtime": "ONNX Runtime does not run the exported model"}


class ExportFailed(Check):
    code = "GA207"
    name = "export-failed"
    severity = Severity.ERROR
    remedy = "Simplify the part that the message names, or choose a target that does not go through ONNX."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """A refusal that names no node."""
        refusal = subject.refusal
        if refusal is not None and not refusal.missing:
            yield self.finding(f"{_SAID[refusal.stage]}: {refusal.reason}", place=refusal.place)
