"""The policy that is measured: an MLP of the size that legged robots run, 235-512-256-128-12 (286,604 parameters)."""

from itertools import pairwise

import torch
from torch import nn

WIDTHS = (235, 512, 256, 128, 12)


def build():
    """The actor, with seeded weights."""
    torch.manual_seed(0)
    layers = []
    for fan_in, fan_out in pairwise(WIDTHS):
        layers += [nn.Linear(fan_in, fan_out), nn.ELU()]
    return nn.Sequential(*layers[:-1]).eval()


def example_inputs():
    return (torch.zeros(2, WIDTHS[0]),)


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(1 + seed % 4, WIDTHS[0], generator=generator),)


dynamic_shapes = ({0: "batch"},)
