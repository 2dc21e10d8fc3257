"""A parameter is recomputed in every call by a parametrisation.

## What it does

Finds parametrised parameters: `torch.nn.utils.parametrize`, with weight norm, spectral norm and orthogonal weights
built on it, and the older hook-based `weight_norm` and `spectral_norm`.

## Why it matters

The recomputation (a norm, a matrix exponential, power iterations) becomes part of the graph and runs at every control
step, although the result is the same each time. Spectral norm in train mode also updates its vectors in each call.

## Example

```python
layer = torch.nn.utils.parametrizations.weight_norm(nn.Linear(64, 64))
```

## Use instead

Bake the weight in before deployment:

```python
torch.nn.utils.parametrize.remove_parametrizations(layer, "weight", leave_parametrized=True)
```

## References

- Parametrisations: https://docs.pytorch.org/tutorials/intermediate/parametrizations.html
- remove_parametrizations:
  https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.parametrize.remove_parametrizations.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class Parametrisation(Check):
    code = "GA009"
    name = "parametrisation"
    severity = Severity.NOTE
    remedy = "Call torch.nn.utils.parametrize.remove_parametrizations on the layer before deployment."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """One finding for each parametrised parameter."""
        if subject.policy is None:
            return
        from torch.nn.utils import parametrize
        from torch.nn.utils.spectral_norm import SpectralNorm
        from torch.nn.utils.weight_norm import WeightNorm

        for name, module in subject.policy.module.named_modules():
            tensors = list(module.parametrizations) if parametrize.is_parametrized(module) else []
            tensors += [h.name for h in module._forward_pre_hooks.values() if isinstance(h, WeightNorm | SpectralNorm)]
            for tensor in tensors:
                path = f"{name}.{tensor}" if name else tensor
                yield self.finding(f"{path} is recomputed in every call by a parametrisation", node=path)
