"""fold_batch_norm behind and before every layer it knows."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphaudit.passes.fold_batch_norm import FoldBatchNorm
from tests.passes.helpers import assert_equivalent_where_finite, ops, reasons, run_pass


def trained(norm: nn.Module) -> nn.Module:
    """A batch norm as training leaves it: statistics and weights away from 0 and 1."""
    generator = torch.Generator().manual_seed(norm.num_features)
    norm.running_mean.copy_(torch.randn(norm.num_features, generator=generator))
    norm.running_var.copy_(0.3 + 3 * torch.rand(norm.num_features, generator=generator))
    if norm.affine:
        norm.weight.data.copy_(1 + 0.3 * torch.randn(norm.num_features, generator=generator))
        norm.bias.data.copy_(torch.randn(norm.num_features, generator=generator))
    return norm


def policy(*layers: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    for layer in layers:
        if hasattr(layer, "reset_parameters") and not hasattr(layer, "running_mean"):
            layer.reset_parameters()
    return nn.Sequential(*layers)


BEHIND = {
    "linear": (nn.Linear(4, 6), nn.BatchNorm1d(6), (3, 4)),
    "linear without bias": (nn.Linear(4, 6, bias=False), nn.BatchNorm1d(6, affine=False), (3, 4)),
    "conv1d, groups": (nn.Conv1d(4, 6, 3, groups=2), nn.BatchNorm1d(6), (3, 4, 9)),
    "conv2d": (nn.Conv2d(4, 6, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(6), (2, 4, 9, 9)),
    "conv2d, same": (nn.Conv2d(4, 6, 3, padding="same"), nn.BatchNorm2d(6), (2, 4, 5, 5)),
    "conv3d": (nn.Conv3d(2, 4, 2), nn.BatchNorm3d(4), (1, 2, 4, 4, 4)),
    "transposed conv1d, groups": (nn.ConvTranspose1d(4, 6, 3, groups=2), nn.BatchNorm1d(6), (3, 4, 9)),
    "transposed conv2d, groups": (
        nn.ConvTranspose2d(4, 6, 3, 2, groups=2, bias=False),
        nn.BatchNorm2d(6),
        (2, 4, 5, 5),
    ),
    "transposed conv3d": (nn.ConvTranspose3d(2, 6, 2), nn.BatchNorm3d(6), (1, 2, 3, 3, 3)),
}


def awkward(*shape: int) -> torch.Tensor:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    x.view(-1)[:4] = torch.tensor([0.0, -0.0, 1e3, -1e3])
    return x


@pytest.mark.parametrize("name", BEHIND)
def test_behind_a_layer(name):
    layer, norm, shape = BEHIND[name]
    module = policy(layer, trained(norm), nn.ReLU())
    result = run_pass(FoldBatchNorm, module, (torch.zeros(shape),))
    assert len(ops(result.artifact)) == 2 and ops(result.artifact)[1] == "relu"
    assert_equivalent_where_finite(module, result.artifact, awkward(*shape))


def test_not_finite_inputs_stay_not_finite():
    module = policy(nn.Linear(2, 2), trained(nn.BatchNorm1d(2)))
    result = run_pass(FoldBatchNorm, module, (torch.zeros(2, 2),), ({0: "batch"},))
    x = torch.tensor([[float("nan"), 1.0], [float("inf"), 1.0], [3e38, -3e38]])
    for batch in (x, x[:1]):
        torch.testing.assert_close(
            result.artifact.runner()([batch])[0], module(batch), equal_nan=True, rtol=1e-6, atol=0
        )


def test_before_a_linear_layer():
    module = policy(trained(nn.BatchNorm1d(4)), nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
    result = run_pass(FoldBatchNorm, module, (torch.zeros(3, 4),), ({0: "batch"},))
    assert ops(result.artifact) == ["linear", "tanh", "linear"]
    for batch in (awkward(5, 4), awkward(1, 4)):
        assert_equivalent_where_finite(module, result.artifact, batch)


def test_two_in_a_row():
    module = policy(nn.Linear(4, 4), trained(nn.BatchNorm1d(4)), trained(nn.BatchNorm1d(4)))
    result = run_pass(FoldBatchNorm, module, (torch.zeros(3, 4),))
    assert ops(result.artifact) == ["linear"] and len(result.rewritten) == 2
    assert_equivalent_where_finite(module, result.artifact, awkward(3, 4))


def test_in_float64_the_new_weights_are_exact_to_rounding():
    module = policy(nn.Linear(4, 6), trained(nn.BatchNorm1d(6))).double()
    result = run_pass(FoldBatchNorm, module, (torch.zeros(3, 4, dtype=torch.float64),))
    x = awkward(3, 4).double()
    torch.testing.assert_close(result.artifact.runner()([x])[0], module(x), rtol=1e-13, atol=1e-13)


def test_the_users_weights_are_untouched():
    module = policy(nn.Linear(4, 6), trained(nn.BatchNorm1d(6)))
    before = {k: v.clone() for k, v in module.state_dict().items()}
    result = run_pass(FoldBatchNorm, module, (torch.zeros(3, 4),))
    assert result.changed
    assert all(torch.equal(v, before[k]) for k, v in module.state_dict().items())


class Shared(nn.Module):
    """The layer's output is read by the norm and by the result."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.layer(x)
        return self.norm(y) + y


def tiny_variance() -> nn.Module:
    norm = nn.BatchNorm1d(4, eps=0.0)
    norm.running_var.fill_(1e-14)
    return norm


NEITHER = "it stands neither after a linear layer or convolution nor before a linear layer"


@pytest.mark.parametrize(
    ("module", "shape", "reason"),
    [
        (Shared(), (3, 4), "linear has other readers than the batch norm"),
        (policy(nn.Linear(4, 6), nn.BatchNorm1d(5)), (3, 5, 4), "linear has rank 3: its features are not"),
        (policy(nn.ReLU(), nn.BatchNorm1d(4)), (3, 4), NEITHER),
        (policy(nn.BatchNorm2d(4), nn.Conv2d(4, 6, 3, padding=1)), (1, 4, 5, 5), NEITHER),
        (policy(nn.BatchNorm1d(4), nn.Linear(4, 2)), (3, 4, 4), "its input has rank 3"),
        (policy(nn.Linear(4, 4), tiny_variance()), (3, 4), "folding amplifies rounding"),
        (policy(tiny_variance(), nn.Linear(4, 4)), (3, 4), "folding amplifies rounding"),
    ],
)
def test_what_is_left_alone_and_why(module, shape, reason):
    result = run_pass(FoldBatchNorm, module, (torch.zeros(shape),))
    assert not result.changed
    assert len(result.left) == 1 and reason in reasons(result)[0]


def test_a_dead_channel_with_the_usual_epsilon_is_folded():
    norm = trained(nn.BatchNorm1d(6))
    norm.running_var[2] = 0.0
    module = policy(nn.Linear(4, 6), norm)
    result = run_pass(FoldBatchNorm, module, (torch.zeros(3, 4),))
    assert result.changed
    assert_equivalent_where_finite(module, result.artifact, torch.randn(3, 4))
