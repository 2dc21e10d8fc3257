"""rewrite_float16_masks: the same choice in float32, and in float16 no infinity and no NaN."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphaudit.equivalence.half import in_float16
from graphaudit.passes.rewrite_float16_masks import RewriteFloat16Masks
from graphaudit.rulebook.target import Target
from tests.helpers import make_program
from tests.passes.helpers import Function, Unary, reasons, run_pass

NARROW = Target(name="npu", summary="computes in float16", opset=18, max_opset=18, compute_dtype="float16")
X = torch.tensor([[1.0, -2.0, 0.5, 3.0], [-1.0, -1.0, -2.0, -0.5], [0.1, 0.2, 5.0, 8.0]])
LOWEST = torch.finfo(torch.float32).min


def _mask(x):
    return (x > 0).float()


FIRES = {
    "masked_fill": lambda x: torch.softmax(x.masked_fill(x < 0, -1e9), -1),
    "lowest of float32": lambda x: torch.softmax(x.masked_fill(x < 0, LOWEST), -1),
    "where": lambda x: torch.softmax(torch.where(x > 0, x, -1e9), -1),
    "where, the other way": lambda x: torch.where(x <= 0, torch.full_like(x, -1e8), x).argmax(-1),
    "added": lambda x: torch.softmax(x + (1 - _mask(x)) * -1e9, -1),
    "subtracted": lambda x: torch.softmax(x - 1e9 * (1 - _mask(x)), -1),
    "reshaped": lambda x: torch.softmax(x[:, None] + (1 - _mask(x))[:, None, :] * -1e9, -1),
    "one less": lambda x: torch.softmax(x + (_mask(x) - 1) * 1e9, -1),
    "on the way": lambda x: (torch.softmax(x.masked_fill(x < 0, -1e9).unsqueeze(1), -1) @ x.T).squeeze(1),
}


@pytest.mark.parametrize("spelling", FIRES)
def test_the_same_in_float32_and_finite_in_float16(spelling):
    module = Unary(FIRES[spelling])
    result = run_pass(RewriteFloat16Masks, module, (X,), ({0: "batch"},), target=NARROW)
    assert len(result.rewritten) == 1 and not result.left
    (got,) = result.artifact.runner()([X])
    torch.testing.assert_close(got, module(X), rtol=1e-6, atol=1e-7)  # the second row is masked entirely
    if spelling not in ("on the way", "reshaped"):
        far = X[::2] * 1e6 - 2e6  # below what float16 holds
        torch.testing.assert_close(result.artifact.runner()([far])[0], module(far), rtol=1e-6, atol=1e-7)
    (half,) = in_float16(result.artifact.runner())([X])
    torch.testing.assert_close(half.to(got.dtype), module(X), rtol=5e-3, atol=2e-2)


def test_as_written_float16_fails():
    for spelling in ("masked_fill", "added"):
        _, program = make_program(Unary(FIRES[spelling]), (X,))
        assert in_float16(program.runner())([X])[0].isnan().any()


def test_a_float_mask_among_the_inputs():
    module = Function(lambda x, mask: torch.softmax(x + (1.0 - mask) * -1e9, -1))
    mask = torch.tensor([[1.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    program = run_pass(RewriteFloat16Masks, module, (X, mask), target=NARROW).artifact
    torch.testing.assert_close(program.runner()([X, mask])[0], module(X, mask), rtol=1e-6, atol=1e-7)
    assert in_float16(program.runner())([X, mask])[0].isfinite().all()


class Causal(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("bias", torch.triu(torch.full((4, 4), -1e9), 1))

    def forward(self, x):
        return torch.softmax(x @ x.transpose(-1, -2) + self.bias, -1) @ x


def test_a_constant():
    module, x = Causal(), torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    program = run_pass(RewriteFloat16Masks, module, (x,), target=NARROW).artifact
    torch.testing.assert_close(program.runner()([x])[0], module(x), rtol=0, atol=0)
    assert (module.bias == -1e9).any(), "the policy's own buffer stays"
    assert not any(abs(v).max() > 65504 for n in program.graph.nodes if (v := program.value(n)) is not None)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x.masked_fill(x < 0, -1e9), ["the masked numbers are an output"]),
        (lambda x: torch.log_softmax(x.masked_fill(x < 0, -1e9), -1), ["log_softmax reads the masked numbers"]),
        (lambda x: torch.softmax(x.masked_fill(x < 0, -1e4), -1), []),
        (lambda x: torch.softmax(x.masked_fill(x < 0, float("-inf")), -1), []),
        (lambda x: torch.softmax(x + torch.sin(x) * -1e9, -1), []),
    ],
)
def test_what_stays(function, reason):
    result = run_pass(RewriteFloat16Masks, Unary(function), (X,), target=NARROW)
    assert not result.changed and reasons(result) == reason
