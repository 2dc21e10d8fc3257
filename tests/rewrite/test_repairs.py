"""Repairs from end to end: what was not finite is named, marked as fixed, and finite in the bundle."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

import graphaudit
from graphaudit.policy import Policy


class Seeker(nn.Module):
    """Walks to a goal that it may have reached, among actions of which none may be legal."""

    def __init__(self) -> None:
        super().__init__()
        self.actor = nn.Linear(4, 4)

    def forward(self, goal: torch.Tensor, legal: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        direction = goal / goal.norm(dim=-1, keepdim=True)
        logits = self.actor(direction)
        probabilities = torch.softmax(
            logits.masked_fill(legal < 0.5, -1e9),
            -1,
        )
        entropy = -(legal * torch.log(legal)).sum(-1)
        return probabilities, entropy


def _inputs(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    goal = torch.randn(3, 4, generator=generator)
    goal[0] = 0.0
    legal = (torch.rand(3, 4, generator=generator) > 0.3).float()
    legal[2] = 0.0
    return goal, legal


def _policy() -> Policy:
    torch.manual_seed(0)
    return Policy("Seeker", Seeker().eval(), _inputs(0), inputs=_inputs, dynamic_shapes=({0: "batch"}, {0: "batch"}))


def test_repairs_from_end_to_end(tmp_path):
    report = graphaudit.rewrite(_policy(), target="ascend-310p", output=tmp_path / "bundle", inputs=24)
    assert report.fit == {"ascend-310p": True} and report.certificate is not None
    assert report.certificate.claim == "equivalent where finite"
    fixed = {f.name: f.fixed_by for f in report.findings}
    assert fixed["divide-by-zero"] == "rewrite_zero_divisions"
    assert fixed["log-of-zero"] == "rewrite_entropy"
    assert fixed["fp16-overflow"] == "rewrite_float16_masks"
    last = report.certificate.verdicts[-1]
    assert "example" in last.not_finite_on and "inputs(1)" in last.not_finite_on
    simulated = [c for c in report.certificate.conditions if c.startswith("simulated in float16")]
    assert len(simulated) == 1 and "finite wherever eager is" in simulated[0]
    goal, legal = _inputs(5)
    probabilities, entropy = graphaudit.load(tmp_path / "bundle")(goal.numpy(), legal.numpy())
    assert np.isfinite(probabilities).all() and np.isfinite(entropy).all()
    np.testing.assert_allclose(probabilities[2], 0.25, rtol=1e-6)  # masked entirely
