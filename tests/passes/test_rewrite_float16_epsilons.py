"""rewrite_float16_epsilons: nothing moves in float32, and in float16 the epsilon is there again."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from graphaudit.equivalence.half import in_float16
from graphaudit.passes.rewrite_float16_epsilons import RewriteFloat16Epsilons
from graphaudit.rulebook.target import Target
from tests.helpers import make_program
from tests.passes.helpers import Unary, reasons, run_pass

NARROW = Target(name="npu", summary="computes in float16", opset=18, max_opset=18, compute_dtype="float16")
X = torch.tensor([[0.5, -2.0, 3.0, 1.0], [0.0, 0.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]])
FIRES = {
    "log": lambda x: torch.log(torch.relu(x) + 1e-8),
    "log of a clamp": lambda x: torch.log(torch.softmax(x * 50, -1).clamp(min=1e-10)),
    "sqrt": lambda x: x / torch.sqrt((x * x).sum(-1, keepdim=True) + 1e-8),
    "rsqrt": lambda x: x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-8),
    "norm": lambda x: x / (x.norm(dim=-1, keepdim=True) + 1e-8),
    "normalize": lambda x: F.normalize(x, dim=-1),
    "standardised": lambda x: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-8),
    "masked mean": lambda x: (x * (x > 0).float()).sum(-1) / ((x > 0).float().sum(-1) + 1e-8),
}


@pytest.mark.parametrize("spelling", FIRES)
def test_float32_is_the_same_and_float16_finite(spelling):
    module = Unary(FIRES[spelling])
    _, before = make_program(module, (X,), ({0: "batch"},))
    assert not in_float16(before.runner())([X])[0].isfinite().all()
    result = run_pass(RewriteFloat16Epsilons, module, (X,), ({0: "batch"},), target=NARROW)
    assert len(result.rewritten) == 1 and not result.left
    for x in (X, X[1:2], X * 1e3, X * 1e-3):
        assert torch.equal(result.artifact.runner()([x])[0], module(x))
    (got,) = in_float16(result.artifact.runner())([X])
    torch.testing.assert_close(got, module(X), rtol=5e-3, atol=5e-3)


def test_it_does_not_run_for_float32():
    wide = Target(name="cpu", summary="", opset=18, max_opset=18)
    assert not RewriteFloat16Epsilons.suits(wide) and RewriteFloat16Epsilons.suits(NARROW)
    assert not run_pass(RewriteFloat16Epsilons, Unary(FIRES["log"]), (X,), target=wide).changed


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: torch.log(torch.relu(x) + 1e-4), []),
        (lambda x: torch.log(x + 1e-8), []),  # x can be negative
        (lambda x: torch.relu(x) + 1e-8, []),
        (lambda x: torch.sin(torch.relu(x) + 1e-8), ["sin reads it"]),
        (
            lambda x: (x + 1) / (x.norm(dim=-1, keepdim=True) + 1e-8),
            ["the numerator need not be 0 where the denominator is"],
        ),
    ],
)
def test_what_stays(function, reason):
    result = run_pass(RewriteFloat16Epsilons, Unary(function), (X,), target=NARROW)
    assert not result.changed and reasons(result) == reason
