"""rewrite_entropy: 0 * log(0) is 0, and nothing else moves by a bit."""

from __future__ import annotations

import pytest
import torch

from graphaudit.passes.rewrite_entropy import RewriteEntropy
from tests.passes.helpers import Unary, assert_repaired, reasons, run_pass
from tests.passes.translated import assert_runs_alike

P = torch.tensor([[0.5, 0.25, 0.25, 0.0], [1.0, 0.0, 0.0, 0.0], [0.1, 0.2, 0.3, 0.4]])


def _masked(x):
    return x.masked_fill(x <= 0, float("-inf"))


def _own_log(x):
    logp = torch.log_softmax(_masked(x), -1)
    return -(logp.exp() * logp).sum(-1)


FIRES = {
    "entropy": lambda p: -(p * torch.log(p)).sum(-1),
    "negated": lambda p: (-p * torch.log2(p)).sum(-1),
    "log first": lambda p: (torch.log(p) * p).sum(-1),
    "divergence": lambda p: (p * (torch.log(p) - torch.log(p + 1))).sum(-1),
    "divergence of a quotient": lambda p: (p * torch.log(p / (p + 1))).sum(-1),
    "coin": lambda p: (1 - p) * torch.log1p(-p),
    "masked logits": lambda x: -(torch.softmax(_masked(x), -1) * torch.log_softmax(_masked(x), -1)).sum(-1),
    "exponential": _own_log,
}


@pytest.mark.parametrize("spelling", FIRES)
def test_zero_times_minus_infinity_is_zero(spelling):
    module = Unary(FIRES[spelling])
    result = run_pass(RewriteEntropy, module, (P,), ({0: "batch"},))
    assert len(result.rewritten) == 1 and not result.left
    assert assert_repaired(module, result.artifact, P)
    for p in (P[1:2], P[2:]):
        assert_repaired(module, result.artifact, p)


def test_in_onnxruntime():
    for spelling in ("divergence", "exponential"):
        program = run_pass(RewriteEntropy, Unary(FIRES[spelling]), (P,), ({0: "batch"},)).artifact
        assert_runs_alike(program, (P,), (P[1:2],), rtol=1e-6, atol=1e-6)


def test_it_is_what_entr_gives_and_nan_stays():
    program = run_pass(RewriteEntropy, Unary(lambda p: -(p * p.log())), (P,)).artifact
    p = torch.tensor([[0.0, 0.5, float("nan"), -0.5]])
    (got,) = program.runner()([p])
    torch.testing.assert_close(got[:, :3], torch.special.entr(p)[:, :3], equal_nan=True)
    assert got[0, 3].isnan()  # no probability


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda p: p * torch.log(p + 1e-8), []),
        (lambda p: p * torch.log(1 - p), []),
        (lambda p: torch.sigmoid(p) * torch.log(p), []),
        (lambda p: torch.softmax(p, -1) * torch.log_softmax(p, -1), []),
        (lambda p: p.clamp(min=1e-6) * p.clamp(min=1e-6).log(), []),
        (
            lambda p: torch.nan_to_num(p * p.log()),
            ["the policy asks whether the result is finite, and answers that itself"],
        ),
    ],
)
def test_what_stays(function, reason):
    result = run_pass(RewriteEntropy, Unary(function), (P,))
    assert not result.changed and reasons(result) == reason
