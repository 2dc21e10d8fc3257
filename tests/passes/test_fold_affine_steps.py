"""fold_affine_steps: in front of layers, behind them, and by themselves."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphaudit.passes.fold_affine_steps import FoldAffineSteps
from tests.passes.helpers import Unary, assert_equivalent_where_finite, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike


class Around(nn.Module):
    """before → layer → after."""

    def __init__(self, layer, before=lambda x: x, after=lambda x: x):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.before, self.after = layer, before, after
        layer.reset_parameters()
        self.register_buffer("mean", torch.linspace(-3, 3, 4))
        self.register_buffer("var", torch.linspace(0.1, 2, 4))

    def forward(self, x):
        return self.after(self.layer(self.before(x)))


class Normalised(Around):
    """The observation normaliser of RL libraries, in front of the first layer."""

    def forward(self, x):
        return self.layer((x - self.mean) / torch.sqrt(self.var + 1e-8)).relu()


PIXELS = (2, 4, 5, 5)
FOLDED = {
    "normalised": (Normalised(nn.Linear(4, 3)), (2, 4), ["linear", "relu"]),
    "pixels": (Around(nn.Conv2d(4, 6, 3, padding=1), lambda x: x / 255.0), PIXELS, ["conv2d"]),
    "centred pixels": (Around(nn.Conv2d(4, 6, 3), lambda x: x / 255.0 - 0.5), PIXELS, ["conv2d"]),
    "by channel": (Around(nn.Conv2d(4, 6, 3), lambda x: x * torch.ones(4, 1, 1)), PIXELS, ["conv2d"]),
    "groups": (Around(nn.Conv1d(4, 6, 3, groups=2), lambda x: 2 - x), (2, 4, 5), ["conv1d"]),
    "no bias": (Around(nn.Linear(4, 3, bias=False), lambda x: 1 + x * 2, lambda y: -y), (2, 5, 4), ["linear"]),
    "behind": (
        Around(nn.Linear(4, 3), after=lambda y: (y * 0.5 + torch.arange(3.0)).tanh()),
        (2, 4),
        ["linear", "tanh"],
    ),
    "behind, by channel": (
        Around(nn.Conv2d(4, 6, 3), after=lambda y: y / torch.arange(1.0, 7).view(6, 1, 1)),
        PIXELS,
        ["conv2d"],
    ),
    "behind, transposed": (
        Around(nn.ConvTranspose1d(4, 6, 3, groups=2), after=lambda y: y * 3 - 1),
        (2, 4, 5),
        ["conv_transpose1d"],
    ),
    "action scaled back": (
        Unary(lambda x: (x.tanh() + 1) * torch.tensor([1.0, 2.0]) + torch.tensor([-1.0, 0.0])),
        (3, 2),
        ["tanh", "mul", "add"],
    ),
    "to nothing": (Unary(lambda x: -1 + 0.5 * (x.tanh() + 1.0) * 2), (3, 2), ["tanh"]),
}


@pytest.mark.parametrize("name", FOLDED)
def test_folded(name):
    module, shape, left = FOLDED[name]
    result = run_pass(FoldAffineSteps, module, (torch.randn(shape),), ({0: "batch"},) if name != "groups" else None)
    assert ops(result.artifact) == left
    for scale in (1.0, 1e-3, 30.0):
        assert_equivalent_where_finite(module, result.artifact, scale * torch.randn(shape))
    assert_runs_alike(result.artifact, (torch.randn(shape),), rtol=1e-5, atol=1e-5)


LEFT = {
    "zeros of padding": (Around(nn.Conv2d(4, 6, 3, padding=1), lambda x: x - 0.5), PIXELS, "pads with zeros"),
    "within a channel": (Around(nn.Conv2d(4, 6, 3), lambda x: x * torch.arange(5.0)), PIXELS, "differs within"),
    "large shift": (Around(nn.Linear(4, 3), lambda x: (x - 100.0) * 2), (2, 4), "shifts by up to 200"),
    "groups": (Around(nn.Conv1d(4, 6, 3, groups=2), lambda x: x * (torch.ones(4, 1) * 2)), (2, 4, 5), "has groups"),
    "before transposed": (Around(nn.ConvTranspose1d(4, 6, 3), lambda x: x * 3), (2, 4, 5), "a transposed convolution"),
}


@pytest.mark.parametrize("name", LEFT)
def test_left_alone(name):
    module, shape, reason = LEFT[name]
    result = run_pass(FoldAffineSteps, module, (torch.zeros(shape),))
    assert not result.changed
    assert len(reasons(result)) == 1 and reason in reasons(result)[0]


def test_a_layer_that_is_used_twice_keeps_its_weights():
    module = Around(nn.Linear(4, 4), lambda x: x * 2)
    module.after = lambda y: module.layer(y.relu())
    result = run_pass(FoldAffineSteps, module, (torch.zeros(2, 4),))
    assert not result.changed and "used elsewhere too" in reasons(result)[0]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x * x + 1,
        lambda x: x * 2 + 1,  # two steps stay two
        lambda x: (y := x * 2) + y.exp() + (y + 1).exp(),
        lambda x: 2 / (x + 1),
        lambda x: (x.long() + 1) * 2,
        lambda x: (x.half() + 1 + 1) * 2,
        lambda x: x[:1] * torch.ones(2, 4),
    ],
)
def test_others_are_no_chains(call):
    result = run_pass(FoldAffineSteps, Unary(call), (torch.ones(2, 4),))
    assert not result.changed and not result.left
