"""`lgamma` has no ONNX translation.

## What it does

Reports `torch.lgamma`, `torch.digamma` and `torch.polygamma`.

## Why it matters

The export stops there. They come from the densities of Beta, Gamma, Dirichlet and Student-t distributions: a policy
that returns `log_prob` carries them, one that returns actions does not.

## Example

```python
def forward(self, obs):
    dist = Beta(*self.params(obs))
    action = dist.mean
    return action, dist.log_prob(action)
```

## Use instead

```python
def forward(self, obs):
    return Beta(*self.params(obs)).mean
```

## References

- torch.lgamma: https://docs.pytorch.org/docs/stable/generated/torch.lgamma.html
- https://github.com/microsoft/onnxruntime/issues/15016
"""

from __future__ import annotations

from graphaudit.rules.checks._operator import OperatorCheck


class Lgamma(OperatorCheck):
    code = "GA226"
    name = "lgamma"
    remedy = "Leave log-probabilities out of the deployed policy; actions do not need them."
    operators = ("aten.lgamma", "aten.digamma", "aten.polygamma", "aten.mvlgamma")
    effect = "torch's ONNX exporter has no translation for it"
