"""`forward` draws random numbers.

## What it does

Reports every draw: from torch's generator, from a `torch.Generator`, from Python's `random`, from `numpy.random`.

## Why it matters

A sampling policy is a function of its input and of a stream of draws. Exported as it is, the stream changes: ONNX has
its own random operators with their own generators, `multinomial` without replacement turns into one that replaces,
ONNX Runtime's `Bernoulli` draws 1 with probability 1 − p at opsets 15, 17 and 21, and equal `RandomNormal` nodes can be
merged into one by simplifiers, so that independent draws become the same. A seed that reproduced a failure in training
reproduces nothing on the target.

`rewrite` therefore makes noise inputs of the draws that PyTorch computes from a known number of random words. Gamma,
Beta, Dirichlet and Poisson are drawn by rejection: how much they draw depends on what they drew.

## Example

```python
def forward(self, obs):
    mean = self.net(obs)
    return mean + self.std * torch.randn_like(mean)
```

## Use instead

Noise is an input: the caller draws, the policy is a function.

```python
def forward(self, obs, noise):
    return self.net(obs) + self.std * noise
```

Or deploy the mode: `return self.net(obs)`.

## References

- ONNX RandomNormal and its seed: https://onnx.ai/onnx/operators/onnx__RandomNormal.html
- Reproducibility in PyTorch: https://docs.pytorch.org/docs/stable/notes/randomness.html
- Seen with torch 2.13, onnx 1.23, ONNX Runtime 1.32, onnxsim 0.8: 2,000 draws at p = 0.1, 0.5 and 0.9 for Bernoulli
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._events import DRAWS, draw_severity, events, operator, same_line

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject
    from graphaudit.capture import Event

_REJECTION = ("standard_gamma", "sample_dirichlet", "poisson", "binomial")
_REJECTING_OBJECTS = ("VonMises",)  # the loop is written in Python, out of uniform draws
_INSTEAD = "Deploy the distribution's mean or its mode, or sample outside of the policy and pass the sample to forward."
_FOREIGN = {"python-random": "Python's random draws here", "numpy-random": "numpy.random draws here"}


class RandomOp(Check):
    code = "GA401"
    name = "random-op"
    severity = Severity.ERROR
    remedy = "Give the noise to forward as an argument, or deploy the policy's mode."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Every draw: an error where another seed changes the result, a note where it does not."""
        for event in sorted(events(subject, *DRAWS), key=lambda e: not _rejects(subject, e)):
            severity = draw_severity(subject, event.place, Severity.NOTE)
            source = "a torch.Generator" if event.kind.value == "generator" else "torch's generator"
            message = _FOREIGN.get(event.kind.value, f"{operator(event)} draws from {source}")
            if _rejects(subject, event):
                message += " by rejection, which no fixed noise input replays"
            if severity is Severity.NOTE:
                message += "; the result is the same under every seed tried"
            remedy = _INSTEAD if _rejects(subject, event) else None
            yield self.finding(message, place=event.place, severity=severity, remedy=remedy)


def _rejects(subject: Subject, event: Event) -> bool:
    """Whether how much is drawn depends on what was drawn."""
    if operator(event) in _REJECTION:
        return True
    made = events(subject, "distribution")
    return any(same_line(e.place, event.place) and e.detail in _REJECTING_OBJECTS for e in made)
