"""bfloat16 leaves as float32, rounded as PyTorch rounds it."""

from __future__ import annotations

import onnx
import pytest
import torch
from torch import nn

import graphaudit
from graphaudit.export.translate import to_onnx
from graphaudit.rulebook import load_rulebook
from tests.helpers import make_program


class Narrow(nn.Module):
    """Computes in bfloat16 between float32 ends, or hands bfloat16 out."""

    def __init__(self, out: torch.dtype) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2)).bfloat16()
        self.out = out

    def forward(self, obs):
        return (self.net(obs.bfloat16()) * 3).to(self.out)


class Autocast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, obs):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.net(obs)


@pytest.mark.parametrize("module", [Narrow(torch.float32), Narrow(torch.bfloat16), Autocast()])
def test_the_model_gives_what_eager_gives(module, tmp_path) -> None:
    policy = graphaudit.Policy("narrow", module.eval(), (torch.linspace(-1, 1, 8).reshape(2, 4),))
    report = graphaudit.rewrite(policy, target="onnxruntime", output=tmp_path / "bundle", count=32)
    assert report.certificate is not None and report.certificate.verdicts[-1].worst_abs == 0.0
    assert "bfloat16" in {f.name for f in report.findings}
    (output,) = onnx.load(tmp_path / "bundle" / "model.onnx").graph.output
    assert output.type.tensor_type.elem_type == onnx.TensorProto.FLOAT


@pytest.mark.parametrize(("target", "rounds"), [("onnxruntime", True), ("ascend-310p", False)])
def test_targets_that_narrow_to_float16_get_no_casts(target, rounds) -> None:
    _, program = make_program(Narrow(torch.float32), (torch.ones(2, 4),))
    model = to_onnx(program, load_rulebook(target).target).proto
    casts = [n.attribute[0].i for n in model.graph.node if n.op_type == "Cast"]
    assert (onnx.TensorProto.BFLOAT16 in casts) == rounds
    assert not any(t.data_type == onnx.TensorProto.BFLOAT16 for t in model.graph.initializer)
