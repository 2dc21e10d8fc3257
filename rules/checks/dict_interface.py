"""An argument of `forward` is a dictionary.

## What it does

Names arguments that are dictionaries or `TensorDict`s of tensors.

## Why it matters

A model has flat inputs, one for each entry. graphaudit keeps the path of each (`args[0]['image']`) in the manifest, and
`graphaudit.load` takes the dictionary again; whoever feeds the model file directly needs the names. The order of
entries is theirs in the example. `torch.onnx.export` takes a dictionary in the last place for keyword arguments, so the
stock exporter needs an empty one behind it.

## Example

```python
def forward(self, obs: dict[str, Tensor]):
    return self.head(torch.cat([self.cnn(obs["image"]), obs["speed"]], -1))
```

## Use instead

Nothing needs to change. For a model that is fed directly, separate arguments name themselves:

```python
def forward(self, image, speed):
    return self.head(torch.cat([self.cnn(image), speed], -1))
```

## References

- torch.onnx.export, `args`: https://docs.pytorch.org/docs/stable/onnx_export.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._structure import arguments, containers, is_mapping

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class DictInterface(Check):
    code = "GA608"
    name = "dict-interface"
    severity = Severity.NOTE
    remedy = "Nothing to do: the manifest keeps the path of each input."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """One finding for each argument that is, or holds, a dictionary."""
        if subject.policy is None:
            return
        for index, spec in enumerate(arguments(subject.policy.interface.in_spec)):
            kind = next((k for k in containers(spec) if is_mapping(k)), None)
            if kind is not None:
                message = f"argument {index} is a {kind.__name__}; the model has one input for each of its tensors"
                yield self.finding(message, node=f"args[{index}]")
