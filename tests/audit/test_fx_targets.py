"""Audits for targets that take graphs of ATen ops: the graph after torch's decompositions, at the user's lines."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import graphaudit
from graphaudit.errors import TargetError
from graphaudit.graphs.onnx_model import OnnxModel
from tests.rulebook.models import make_model, make_node


class Policy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        best = torch.cummax(self.net(obs), dim=1).values  # CUMMAX
        return best + torch.linalg.eigvalsh(obs[:, None] * obs[:, :, None])


def audit(target: str) -> graphaudit.results.Report:
    return graphaudit.audit(Policy().eval(), (torch.rand(2, 4),), target=target)


def named(report: graphaudit.results.Report, name: str) -> list[str]:
    return [f.message for f in report.findings if f.name == name]


def test_a_layer_is_judged_by_what_torch_makes_of_it():
    report = audit("torchair")
    refused = named(report, "unsupported-op")
    assert any("aten.cummax.default does not run" in m for m in refused)
    assert not any("linear" in m for m in refused), "Linear becomes addmm, which TorchAir converts"
    assert not named(report, "unknown-op")
    line = next(f.line for f in report.findings if "cummax" in f.message)
    source = Path(__file__).read_text(encoding="utf-8").splitlines()[line - 1]
    assert "CUMMAX" in source
    assert not report.fit["torchair"]


def test_eager_ascend_falls_back_to_the_cpu():
    report = audit("torch-npu")
    assert any("eigh" in m and "no NPU kernel" in m for m in named(report, "limited-op"))
    assert named(report, "accelerator-left")
    assert report.fit["torch-npu"]


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 4)
        self.h = torch.zeros(2, 4)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        self.h = self.cell(obs, self.h)
        return self.h


@pytest.mark.parametrize("target", ["torch-npu", "torchair", "libtorch"])
def test_a_policy_with_state_is_judged_by_its_operators(target: str) -> None:
    report = graphaudit.audit(Recurrent().eval(), (torch.rand(2, 4),), target=target)
    judged = {row.op for row in report.operators}
    assert "aten.sigmoid.default" in judged or "aten.gru_cell.default" in judged
    assert named(report, "recurrent-state-hidden")


class Selected(nn.Module):
    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return obs[obs > 0]


def test_results_of_a_size_that_data_decides_are_judged_beside_an_onnx_model():
    report = graphaudit.audit(Selected().eval(), (torch.rand(4),), target=["onnx", "torch-npu", "onnxruntime"])
    judged = {row.op: row.answers for row in report.operators}
    assert judged["NonZero"].keys() == {"onnx", "onnxruntime"}
    assert any(op.startswith("aten.") and answers.keys() == {"torch-npu"} for op, answers in judged.items())


def test_libtorch_has_what_torch_has():
    assert audit("libtorch").fit["libtorch"]


def test_an_onnx_model_is_no_graph_of_aten_ops():
    model = OnnxModel(make_model(make_node("Relu", shapes=((2,),))))
    with pytest.raises(TargetError, match="torchair takes graphs of ATen ops"):
        graphaudit.audit(model, target="torchair")


def test_there_is_no_rewrite():
    with pytest.raises(TargetError, match="no rewrite for torch-npu, only an audit"):
        graphaudit.rewrite(Policy().eval(), (torch.rand(2, 4),), target="torch-npu")
