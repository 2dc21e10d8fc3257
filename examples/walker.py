"""A legged robot's actor, written the way actors are: normalised observations, gated experts, one softmax by hand.

graphaudit audit   examples/walker.py:build --target ascend-310p
graphaudit rewrite examples/walker.py:build --target ascend-310p --output walker-310p
"""

import torch
from torch import nn

OBSERVATIONS, ACTIONS, EXPERTS = 48, 12, 4


class GatedWalker(nn.Module):
    """Mixture of experts after Yang et al., "Multi-expert learning of adaptive legged locomotion" (2020)."""

    def __init__(self):
        super().__init__()
        self.register_buffer("obs_mean", torch.zeros(OBSERVATIONS))
        self.register_buffer("obs_var", torch.ones(OBSERVATIONS))
        self.register_buffer("default_pose", torch.tensor([0.1, 0.8, -1.5] * 4))
        self.gate = nn.Sequential(nn.Linear(OBSERVATIONS, 64), nn.ELU(), nn.Linear(64, EXPERTS))
        self.encoder = nn.Sequential(nn.Linear(OBSERVATIONS, 256), nn.BatchNorm1d(256), nn.ELU(), nn.Dropout(0.1))
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(256, 128), nn.ELU(), nn.Linear(128, ACTIONS)) for _ in range(EXPERTS)
        )

    def forward(self, obs):
        x = ((obs - self.obs_mean) / torch.sqrt(self.obs_var + 1e-5)).clamp(-5.0, 5.0)
        e = torch.exp(self.gate(x) / 0.05)
        weights = e / e.sum(-1, keepdim=True)
        hidden = self.encoder(x)
        proposals = torch.stack([expert(hidden) for expert in self.experts], dim=1)
        action = (weights.unsqueeze(-1) * proposals).sum(1)
        return self.default_pose + 0.25 * action.clamp(-100.0, 100.0)


def build():
    """The policy as it leaves training: here with random weights and the statistics of a short random walk."""
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    policy = GatedWalker()
    with torch.no_grad():
        policy.obs_mean.copy_(torch.randn(OBSERVATIONS, generator=generator))
        policy.obs_var.copy_(0.2 + torch.rand(OBSERVATIONS, generator=generator))
        for _ in range(20):  # batch norm gathers its statistics
            policy(policy.obs_mean + torch.randn(64, OBSERVATIONS, generator=generator))
    return policy.eval()


def example_inputs():
    return (torch.zeros(2, OBSERVATIONS),)


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    return (3 * torch.randn(1 + seed % 4, OBSERVATIONS, generator=generator),)


dynamic_shapes = ({0: "batch"},)
