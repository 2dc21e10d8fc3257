"""One name for each operator."""

from __future__ import annotations

import torch
from torch import nn

import graphaudit
from graphaudit.capture.frontend import capture
from graphaudit.capture.synonyms import _SYNONYMS, _first
from graphaudit.policy import Policy


class Synonyms(nn.Module):
    def forward(self, x):
        angle = torch.arctan2(x, torch.ones(()))
        high = torch.greater(x, torch.tensor(0))  # torch's exporter leaves the integer beside the float
        return torch.where(high, torch.clip(torch.multiply(x, 2), -1, 1), torch.true_divide(angle, 3))


def test_second_names_are_gone_and_nothing_else_changes(tmp_path) -> None:
    x = torch.linspace(-2, 2, 8).reshape(2, 4)
    program = capture(Policy("synonyms", Synonyms().eval(), (x,))).program
    assert program is not None
    names = {str(n.target) for n in program.graph.nodes if n.op == "call_function"}
    assert {"aten.atan2.default", "aten.gt.Tensor", "aten.clamp.default", "aten.mul.Tensor", "aten.div.Tensor"} <= names
    assert torch.equal(program.runner()([x])[0], Synonyms()(x))
    report = graphaudit.rewrite(Synonyms(), (x,), target="onnxruntime", output=tmp_path / "bundle", count=8)
    assert report.bundle is not None and "atan2" in {f.name for f in report.findings}


def test_every_synonym_takes_what_the_first_name_takes() -> None:
    for name in _SYNONYMS:
        packet = getattr(torch.ops.aten, name)
        assert all(_first(getattr(packet, o)) is not None for o in packet.overloads()), name
    assert _first(torch.ops.aten.add.Tensor) is None
