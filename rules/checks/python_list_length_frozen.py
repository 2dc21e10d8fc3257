"""A list among the arguments has another length in other calls.

## What it does

Compares the lists in the example's arguments with those that `inputs(seed)` draws.

## Why it matters

A model has a fixed number of inputs, one for each tensor in the example's list. A call with more or fewer entities has
no way in.

## Example

```python
def forward(self, entities: list[Tensor]):
    return self.head(torch.stack([self.enc(e) for e in entities]).amax(0))
```

## Use instead

One tensor, padded to the largest number, with a mask:

```python
def forward(self, entities, valid):
    h = self.enc(entities).masked_fill(~valid.unsqueeze(-1), -1e4)
    return self.head(h.amax(0))
```

## References

- torch.nn.utils.rnn.pad_sequence:
  https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.rnn.pad_sequence.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from graphaudit.audit.check import Check
from graphaudit.findings import Finding, Severity
from graphaudit.rules.checks._inputs import drawn

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject


class PythonListLengthFrozen(Check):
    code = "GA602"
    name = "python-list-length-frozen"
    severity = Severity.ERROR
    remedy = "Pass one padded tensor and a mask."

    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Lists whose length differs between the example and the drawn inputs."""
        if subject.policy is None:
            return
        example = dict(_lists(tuple(subject.policy.example_args), "args"))
        reported: set[str] = set()
        for args in drawn(subject.policy):
            for path, length in _lists(args, "args"):
                if path in example and example[path] != length and path not in reported:
                    reported.add(path)
                    message = f"{path} has {example[path]} tensors in the example and {length} in inputs(seed)"
                    yield self.finding(message, node=path)


def _lists(value: Any, path: str) -> Iterator[tuple[str, int]]:
    """Path and length of every list inside a value."""
    if isinstance(value, list):
        yield path, len(value)
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _lists(item, f"{path}[{key!r}]")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _lists(item, f"{path}[{index}]")
