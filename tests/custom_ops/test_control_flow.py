"""Custom operators inside branches and loops that become masks, also those that write to their arguments."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import graphaudit
from graphaudit.findings import Severity


@torch.library.custom_op("control_flow_test::damp", mutates_args=())
def damp(x: torch.Tensor, factor: float) -> torch.Tensor:
    return torch.sign(x) * torch.sqrt(x.abs()) * factor


@torch.library.custom_op("control_flow_test::accumulate", mutates_args=("total", "count"))
def accumulate(total: torch.Tensor, x: torch.Tensor, count: torch.Tensor) -> None:
    total.add_(x * 2)
    count.add_(1)


damp.register_fake(lambda x, factor: torch.empty_like(x))
calls = torch.ops.control_flow_test
X = torch.tensor([[0.5, -1.5, 2.0], [0.25, 3.0, -0.75]])


class Branches(nn.Module):
    """A call on each side; on one, two tensors from outside are written to, one of them through a view."""

    def forward(self, x):
        total, count = torch.zeros_like(x), torch.zeros(())
        if x.sum() > 1:
            accumulate(total, x, count)
            calls.accumulate(total[:1], x[:1], count)
        else:
            x = damp(x, 0.5)
        calls.accumulate.default(total, x, count)
        return x, total, count


class Loop(nn.Module):
    """A loop whose trip count is data; the operator in its condition has no gradient, so no margin has one either."""

    def forward(self, x):
        total, count = torch.zeros_like(x), torch.zeros(())
        while damp(x, 1.0).abs().amax() > 1:
            x = x * 0.5
            accumulate(total, x, count)
        return total, count


def drawn(seed):
    return (X * torch.randn(2, 3, generator=torch.Generator().manual_seed(seed)),)


@pytest.mark.parametrize(("module", "more"), [(Branches(), {}), (Loop(), {"loop_bounds": ("6",)})])
def test_they_become_masks(module, more):
    report = graphaudit.rewrite(module.eval(), (X,), inputs=drawn, target="ascend-310p", count=16, **more)
    assert report.fit["ascend-310p"], report.statement
    (row,) = [row for row in report.passes if row.name == "decompose_custom_ops"]
    assert row.changed and not row.left and not row.rolled_back
    assert "paths covered" in report.statement


@torch.library.custom_op("control_flow_test::opaque", mutates_args=())
def opaque(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy() * 2)


opaque.register_fake(lambda x: torch.empty_like(x))


class Calls(nn.Module):
    def forward(self, x):
        x = damp(x, 0.5)
        x = torch.lgamma(x.abs() + 1)
        return opaque(x)


def test_an_audit_names_the_pass_that_a_rewrite_has_for_it():
    report = graphaudit.audit(Calls().eval(), (X,), target=["onnxruntime", "libtorch"])
    first = Calls.forward.__code__.co_firstlineno
    lost = {f.line - first: f.fixable_by for f in report.findings if f.name == "unsupported-op"}
    assert lost == {1: "decompose_custom_ops", 2: "decompose_special_functions", 3: None}
    assert not report.fit["onnxruntime"] and "has passes" not in report.statement
    assert all(f.fixable_by is None for f in report.findings if f.severity is not Severity.ERROR)


def test_an_audit_says_so_where_a_rewrite_has_passes_for_everything():
    class Repairable(nn.Module):
        def forward(self, x):
            return damp(x, 0.5)

    report = graphaudit.audit(Repairable().eval(), (X,))
    assert not report.fit["onnxruntime"]
    assert report.statement.startswith("not fit for onnxruntime: 1 error (line ")
    assert report.statement.endswith("), for all of which `graphaudit rewrite` has passes")
