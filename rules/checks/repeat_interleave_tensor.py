"""`repeat_interleave` with a tensor of counts has a size that is data.

## What it does

Reports `torch.repeat_interleave` whose counts are a tensor.

## Why it matters

The number of rows is the sum of the counts. With a Python integer it is known, and the operator becomes a reshape.

## Example

```python
def forward(self, teams, sizes):
    return torch.repeat_interleave(self.enc(teams), sizes, dim=0)
```

## Use instead

```python
def forward(self, teams, team_of_player):  # as many players as there can be
    return self.enc(teams)[team_of_player]
```

## References

- torch.repeat_interleave: https://docs.pytorch.org/docs/stable/generated/torch.repeat_interleave.html
- https://github.com/Zhongxu-Wang/ArtSpeech/issues/1
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphaudit.rules.checks._operator import OperatorCheck

if TYPE_CHECKING:
    from graphaudit.graphs.view import Node


class RepeatInterleaveTensor(OperatorCheck):
    code = "GA234"
    name = "repeat-interleave-tensor"
    remedy = "Repeat by a fixed count, or gather with an index of fixed size and a mask."
    operators = ("aten.repeat_interleave",)
    becomes = ("Range", "GatherND")
    effect = "with a tensor of counts its size is data; it becomes cumulative sums and a gather"

    def applies(self, node: Node) -> bool:
        """With a tensor of counts."""
        return node.op in ("aten.repeat_interleave.Tensor", "aten.repeat_interleave.self_Tensor")
