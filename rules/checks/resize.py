"""`interpolate` becomes `Resize`, on whose details runtimes disagree.

## What it does

Reports `torch.nn.functional.interpolate` and `torch.nn.Upsample`.

## Why it matters

`Resize` has a dozen attributes for how output positions map to input positions and how ties are rounded. Parsers
ignore some: Ascend's never reads `nearest_mode` and `cubic_coeff_a`, and only logs `antialias`.

## Example

```python
def forward(self, image):
    return F.interpolate(image, scale_factor=2, mode="nearest")
```

## Use instead

```python
def forward(self, image):
    return image.repeat_interleave(2, -1).repeat_interleave(2, -2)
```

## References

- interpolate: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.interpolate.html
- ONNX Resize: https://onnx.ai/onnx/operators/onnx__Resize.html
"""

from __future__ import annotations

from graphaudit.rules.checks._operator import OperatorCheck


class Resize(OperatorCheck):
    code = "GA235"
    name = "resize"
    remedy = "Use an integer factor with repeat_interleave, or a transposed convolution; compare on the target."
    operators = (
        "aten.upsample_nearest1d",
        "aten.upsample_nearest2d",
        "aten.upsample_nearest3d",
        "aten.upsample_linear1d",
        "aten.upsample_bilinear2d",
        "aten.upsample_bicubic2d",
        "aten.upsample_trilinear3d",
        "aten._upsample_nearest_exact1d",
        "aten._upsample_nearest_exact2d",
        "aten._upsample_nearest_exact3d",
        "aten._upsample_bilinear2d_aa",
        "aten._upsample_bicubic2d_aa",
    )
    becomes = ("Resize", "GatherND")
    effect = "runtimes disagree on the coordinates and the rounding of Resize"
