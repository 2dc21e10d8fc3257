"""decompose_recurrent_layers on every kind of layer, under targets that refuse, take or misread it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphaudit.passes.decompose_recurrent_layers import DecomposeRecurrentLayers
from graphaudit.rulebook import load_rulebook
from tests.helpers import make_program
from tests.passes.helpers import assert_equivalent_where_finite, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike

NAN, INF = float("nan"), float("inf")
LAYERS = {
    "gru": (nn.GRU, {}),
    "gru, two layers in both directions": (nn.GRU, {"num_layers": 2, "bidirectional": True}),
    "gru, batch first without bias": (nn.GRU, {"batch_first": True, "bias": False}),
    "lstm": (nn.LSTM, {}),
    "lstm, two layers in both directions": (nn.LSTM, {"num_layers": 2, "bidirectional": True, "batch_first": True}),
    "rnn": (nn.RNN, {"bidirectional": True}),
    "rnn with relu": (nn.RNN, {"nonlinearity": "relu"}),
}


class Recurrent(nn.Module):
    """A policy that returns what its layer returns, flat."""

    def __init__(self, kind, dtype=torch.float64, **options):
        super().__init__()
        torch.manual_seed(0)
        self.layer = kind(3, 5, dtype=dtype, **options)

    def forward(self, x: torch.Tensor):
        y, state = self.layer(x)
        return (y, *state) if isinstance(state, tuple) else (y, state)


def signals(steps=4, batch=2, dtype=torch.float64):
    return torch.randn(steps, batch, 3, generator=torch.Generator().manual_seed(steps), dtype=dtype)


@pytest.mark.parametrize("layer", LAYERS)
def test_float64_is_written_out_for_every_target(layer):
    kind, options = LAYERS[layer]
    module, x = Recurrent(kind, **options), signals()
    program = run_pass(DecomposeRecurrentLayers, module, (x,)).artifact
    assert not {"gru", "lstm", "rnn_tanh", "rnn_relu"} & set(ops(program))
    for given in (x, 0 * x, 1e3 * x, 1e300 * x, x.clone().index_fill_(2, torch.tensor(1), NAN)):
        assert_equivalent_where_finite(module, program, given)
    assert_runs_alike(program, (x,), (0 * x,), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("batch_first", "varying"), [(True, {0: "batch"}), (False, {1: "batch"})])
def test_a_varying_batch(batch_first, varying):
    module = Recurrent(nn.GRU, batch_first=batch_first)
    program = run_pass(DecomposeRecurrentLayers, module, (signals(4, 4),), (varying,)).artifact
    one = signals(1, 4) if batch_first else signals(4, 1)
    assert_equivalent_where_finite(module, program, one)


@pytest.mark.parametrize(
    ("kind", "target", "fires"),
    [
        (nn.GRU, "ascend-310p", True),  # its parser never reads linear_before_reset
        (nn.RNN, "ascend-310p", True),  # it has no RNN
        (nn.LSTM, "ascend-310p", False),
        (nn.GRU, "onnxruntime", False),
    ],
)
def test_the_rulebook_decides_in_float32(kind, target, fires):
    module, x = Recurrent(kind, torch.float32), signals(dtype=torch.float32)
    _, program = make_program(module, (x,))
    result = DecomposeRecurrentLayers().run(program.copy(), load_rulebook(target).target)
    assert result.changed == fires
    assert reasons(result) == ([] if fires else [f"{target} takes {kind.__name__}"])
    assert_equivalent_where_finite(module, result.artifact, x)


@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False}])
def test_a_projected_lstm_is_written_out_for_every_target(options):
    module = Recurrent(nn.LSTM, proj_size=2, **options)
    result = run_pass(DecomposeRecurrentLayers, module, (signals(3),), target=load_rulebook("onnxruntime").target)
    assert len(result.rewritten) == 1 and "lstm" not in ops(result.artifact)
    got, want = result.artifact.runner()([signals(3)]), torch.utils._pytree.tree_leaves(module(signals(3)))
    for left, right in zip(got, want, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("module", "steps", "reason"),
    [(Recurrent(nn.GRU), 65, "it runs over 65 steps; written out are those up to 64")],
)
def test_what_stays(module, steps, reason):
    result = run_pass(DecomposeRecurrentLayers, module, (signals(steps),))
    assert not result.changed
    assert reasons(result) == [reason]
