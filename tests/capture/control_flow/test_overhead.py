"""A policy without control flow on tensors is captured as torch.export captures it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphaudit.capture.calls import example_call
from graphaudit.capture.frontend import _FRONT_ENDS, _export
from graphaudit.policy import Policy


class Actor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.ELU(), nn.Linear(16, 16), nn.LayerNorm(16), nn.Tanh())
        self.heads = nn.ModuleDict({"mean": nn.Linear(16, 2), "std": nn.Linear(16, 2)})
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, obs: torch.Tensor, deterministic: bool = True) -> dict[str, torch.Tensor]:
        hidden = self.body((obs - self.mean).clamp(-5, 5))
        results = {name: head(hidden) for name, head in self.heads.items()}
        if not deterministic:
            results["mean"] = results["mean"] + results["std"].exp() * torch.randn_like(results["mean"])
        return results


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 8)

    def forward(self, x: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        for step in x.unbind(0):
            h = self.cell(step, h)
        return h.sum(-1) if h.dim() > 1 else h, h


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        scores = self.layer(tokens)
        return scores[:, -1] * max(1, len(self.layer.self_attn.in_proj_weight) // 48)


POLICIES = [
    Policy("actor", Actor().eval(), (torch.ones(3, 8),)),
    Policy("sampling", Actor().eval(), (torch.ones(3, 8), False)),
    Policy("recurrent", Recurrent().eval(), (torch.ones(5, 2, 4), torch.zeros(2, 8))),
    Policy("attention", Attention().eval(), (torch.ones(2, 5, 16),)),
]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda p: p.name)
def test_the_graph_is_the_very_same(policy: Policy) -> None:
    plain, *_, masked = _FRONT_ENDS
    call = example_call(policy)
    codes = [_export(policy, call, seed=0, front_end=f)[0].graph_module.code for f in (plain, masked)]
    assert codes[0] == codes[1]
