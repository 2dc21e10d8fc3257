"""`grid_sample` needs opset 16, and few targets have it.

## What it does

Reports `torch.nn.functional.grid_sample`.

## Why it matters

Ascend registers `GridSample` for opset 11 and for 16 to 18. Positions near the border fall inside or outside by
rounding, so half precision moves whole pixels.

## Example

```python
def forward(self, world, grid):
    return F.grid_sample(world, grid, align_corners=False)
```

## Use instead

```python
def forward(self, world):
    return world[..., self.top : self.top + 8, self.left : self.left + 8]
```

## References

- grid_sample: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.grid_sample.html
- ONNX GridSample: https://onnx.ai/onnx/operators/onnx__GridSample.html
- https://github.com/pytorch/pytorch/issues/41957
"""

from __future__ import annotations

from graphaudit.rules.checks._operator import OperatorCheck


class GridSample(OperatorCheck):
    code = "GA223"
    name = "grid-sample"
    remedy = "Crop with slices where the grid is regular, or gather the four neighbours."
    operators = ("aten.grid_sampler", "aten.grid_sampler_2d", "aten.grid_sampler_3d")
    becomes = ("GridSample",)
    effect = "ONNX has GridSample from opset 16 on, for images; volumes came with opset 20"
