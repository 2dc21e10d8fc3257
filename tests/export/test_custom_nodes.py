"""Registered operators as nodes of a domain of their own, which ONNX Runtime runs by their bodies."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import graphaudit
from graphaudit import OnnxNode, Policy, register_custom_op
from graphaudit.errors import CustomOpError

X = torch.tensor([[0.3, -1.2, 2.0], [0.7, -0.1, 1.5]])
EVERYWHERE = ("onnxruntime", "ascend-310p")


def numpy_sinc(x, scale: float = 1.0):
    return torch.from_numpy(np.sinc(x.numpy() * scale))


def plain_sinc(x, scale=1.0):
    return torch.sinc(x * scale).reshape(x.shape[0], -1)


def numpy_order(x, axes: list[int], largest: bool):
    flipped = np.ascontiguousarray(np.flip(x.numpy(), axes))
    return torch.from_numpy(flipped), torch.from_numpy(np.asarray(x.numpy().max(-1) if largest else x.numpy().min(-1)))


def plain_order(x, axes, largest):
    return x.flip(axes), x.amax(-1) if largest else x.amin(-1)


class Layers(nn.Module):
    """Its three calls need three bodies: two scales, two widths."""

    def __init__(self, op):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.op = nn.Linear(3, 3), nn.Linear(3, 2), op

    def forward(self, obs):
        return self.op(self.second(self.op(self.op(self.first(obs), 0.7), 0.5)))


class Several(nn.Module):
    def __init__(self, op):
        super().__init__()
        self.op = op

    def forward(self, obs):
        flipped, top = self.op(obs, [1], True)
        return flipped * 2 + top[:, None]


def sinc(name, node):
    return register_custom_op(f"nodes_test::{name}", numpy_sinc, plain=plain_sinc, examples=[(X, 0.5)], onnx=node)


def rewritten(module, tmp_path, target="onnxruntime"):
    policy = Policy("layers", module.eval(), (X,), dynamic_shapes=({0: "batch"},))
    return graphaudit.rewrite(policy, target=target, output=tmp_path / "bundle", count=6)


def test_calls_with_different_attributes_and_shapes_have_bodies_of_their_own(tmp_path):
    module = Layers(sinc("sinc", OnnxNode("nodes.test", "Sinc", version=2)))
    report = rewritten(module, tmp_path)
    assert report.fit["onnxruntime"], report.statement
    model = onnx.load(tmp_path / "bundle" / "model.onnx")
    nodes = [n for n in model.graph.node if n.domain == "nodes.test"]
    assert [(n.op_type, n.overload) for n in nodes] == [("Sinc", ""), ("Sinc", "1"), ("Sinc", "2")]
    assert [a.f for n in nodes for a in n.attribute] == pytest.approx([0.7, 0.5, 1.0])
    assert ("nodes.test", 2) in [(i.domain, i.version) for i in model.opset_import]
    assert "custom_nodes" not in str(model) and "/" not in "".join(n.doc_string for n in model.functions[0].node)
    act = graphaudit.load(tmp_path / "bundle")
    for rows in (1, 5):
        obs = np.random.default_rng(rows).normal(size=(rows, 3)).astype(np.float32)
        np.testing.assert_allclose(act(obs), module(torch.from_numpy(obs)).detach().numpy(), atol=1e-6)
    (finding,) = [f for f in report.findings if f.name == "custom-op"]
    assert finding.severity == "note" and "becomes the node nodes.test::Sinc version 2" in finding.message


def test_several_results_and_lists_of_numbers(tmp_path):
    op = register_custom_op(
        "nodes_test::order", numpy_order, plain=plain_order, examples=[(X, [0], False)], onnx=OnnxNode("rl", "Order")
    )
    report = rewritten(Several(op), tmp_path)
    assert report.fit["onnxruntime"], report.statement
    (node,) = [n for n in onnx.load(tmp_path / "bundle" / "model.onnx").graph.node if n.domain == "rl"]
    assert len(node.output) == 2
    assert {a.name: list(a.ints) or a.i for a in node.attribute} == {"axes": [1], "largest": 1}


def test_ascend_takes_the_plain_version(tmp_path):
    report = rewritten(Layers(sinc("plainly", OnnxNode("rl", "Plainly"))), tmp_path, "ascend-310p")
    assert report.fit["ascend-310p"], report.statement
    model = onnx.load(tmp_path / "bundle" / "model.onnx")
    assert not model.functions and {n.domain for n in model.graph.node} == {""}


def test_a_node_that_is_kept_for_ascend_needs_a_plugin(tmp_path):
    module = Layers(sinc("kept", OnnxNode("rl", "Kept", version=3, targets=EVERYWHERE)))
    report = rewritten(module, tmp_path, "ascend-310p")
    assert not report.fit["ascend-310p"] and report.bundle is None
    (finding,) = [f for f in report.findings if f.blocks]
    assert "unused-domain" not in {f.name for f in report.findings}
    assert finding.name == "plugin-needed" and finding.line is not None
    assert finding.message.startswith(
        "ascend-310p takes rl::Kept only with a plugin that registers the op type Kept for the origin type rl::3::Kept"
    )


@pytest.mark.parametrize("values", [("ai.onnx", "A"), ("", "A"), ("rl", "A;"), ("rl", "A", 0), ("com.microsoft", "A")])
def test_domains_and_types_are_the_users_own(values):
    with pytest.raises(CustomOpError):
        OnnxNode(*values)


def test_a_node_needs_a_plain_version():
    with pytest.raises(CustomOpError, match="rl::Bare version 1 has no body"):
        register_custom_op(
            "nodes_test::bare",
            numpy_sinc,
            fake=lambda x, s: x.clone(),
            examples=[(X, 1.0)],
            onnx=OnnxNode("rl", "Bare"),
        )
