"""Which nodes make a pass diverge, raise or break the graph; for FX programs and ONNX models."""

from __future__ import annotations

import onnx
import pytest
import torch
from torch import nn

from graphaudit.api import bisect
from graphaudit.registry import passes
from graphaudit.rewrite.base import Level, Pass, PassResult, Site
from graphaudit.rewrite.bisect import Divergence, find_faults
from graphaudit.rewrite.manager import PassManager
from graphaudit.rewrite.replay import replay
from graphaudit.rewrite.sites import calls, run_without
from graphaudit.rulebook import load_rulebook


class Tower(nn.Module):
    """Four layers, those in the middle without bias; the second input decides whether the third activation matters."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(4, 4, bias=number in (0, 3)) for number in range(4))

    def forward(self, x, gate):
        for number, layer in enumerate(self.layers):
            x = torch.tanh(layer(x)) * (gate if number == 2 else 1.0) + x
        return x


def inputs(seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(1, 4, generator=generator), torch.full((1, 1), float(seed % 2))


class Wrong(Pass):
    """tanh(x) → x after a layer without bias; elsewhere it stays."""

    name = "rewrite_tanh_wrongly"
    level = Level.FX

    def run(self, artifact, target):
        result = PassResult(artifact)
        for node in artifact.graph.find_nodes(op="call_function", target=torch.ops.aten.tanh.default):
            if len(node.args[0].args) == 2:
                node.replace_all_uses_with(node.args[0])
            result.rewritten.append(Site(node.name, artifact.place(node)))
        artifact.finish()
        return result


class Raises(Pass):
    name = "rewrite_and_raise"
    level = Level.FX

    def run(self, artifact, target):
        if any(n.name == "tanh_1" and n.target is torch.ops.aten.tanh.default for n in artifact.graph.nodes):
            raise ValueError("tanh_1 is too much")
        return PassResult(artifact)


class WrongOnnx(Pass):
    """Tanh → Sigmoid in the second layer."""

    name = "rewrite_onnx_wrongly"
    level = Level.ONNX

    def run(self, artifact, target):
        result = PassResult(artifact)
        for node in artifact.proto.graph.node:
            if node.op_type == "Tanh":
                result.rewritten.append(Site(node.name, artifact.place(node)))
                if "tanh_1" in node.output[0]:
                    node.op_type = "Sigmoid"
        return result


class TanhToSigmoid(WrongOnnx):
    """Tanh → Sigmoid, everywhere."""

    name = "rewrite_tanh_as_sigmoid"

    def run(self, artifact, target):
        result = PassResult(artifact)
        for node in artifact.proto.graph.node:
            if node.op_type == "Tanh":
                result.rewritten.append(Site(node.name, artifact.place(node)))
                node.op_type = "Sigmoid"
        return result


def found(cls, monkeypatch, tmp_path, count=4):
    monkeypatch.setitem(passes(), cls.name, cls)
    manager = PassManager.of(cls.name)
    return bisect(
        Tower().eval(), inputs(1), inputs=inputs, target="onnxruntime", count=count, output=tmp_path, manager=manager
    )


def test_each_culprit_has_its_own_inputs(monkeypatch, tmp_path):
    second, third = found(Wrong, monkeypatch, tmp_path).culprits
    assert [n.node for n in second.nodes] == ["tanh_1"] and [n.node for n in third.nodes] == ["tanh_2"]
    assert second.inputs == ["example", *(f"inputs({seed})" for seed in range(3))]
    assert third.inputs == ["example", "inputs(1)"]  # where the gate is open
    for culprit in (second, third):
        source = (tmp_path / culprit.reproducer).read_text()
        assert source.count("torch.ops.") <= 2


def test_a_pass_that_raises(monkeypatch, tmp_path):
    (culprit,) = found(Raises, monkeypatch, tmp_path).culprits
    assert [n.node for n in culprit.nodes] == ["tanh_1"]
    assert culprit.message == "ValueError: tanh_1 is too much"
    assert culprit.nodes[0].place.line == Tower.forward.__code__.co_firstlineno + 2


def test_onnx_models_are_bisected_alike(monkeypatch, tmp_path):
    (culprit,) = found(WrongOnnx, monkeypatch, tmp_path).culprits
    (node,) = culprit.nodes
    assert "tanh_1" in node.node
    source = (tmp_path / culprit.reproducer).read_text()
    assert "replay_onnx(" in source and source.count("= Tanh (") == 1


class Sine(Pass):
    """sin(x) → x, in the FX graph."""

    name = "rewrite_sine_wrongly"
    level = Level.FX

    def run(self, artifact, target):
        result = PassResult(artifact)
        for node in artifact.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default):
            node.replace_all_uses_with(node.args[0])
            result.rewritten.append(Site(node.name, artifact.place(node)))
        artifact.finish()
        return result


class Heads(nn.Module):
    """Two heads that nothing connects, and a loop whose trip count is data."""

    def forward(self, x, gate):
        for _ in range(int(gate.sum().clamp(0, 3))):
            x = x * 0.5
        return {"action": torch.sin(x), "value": torch.tanh(x).sum(-1)}


def test_two_passes_are_wrong_in_two_places(monkeypatch, tmp_path):
    monkeypatch.setitem(passes(), Sine.name, Sine)
    monkeypatch.setitem(passes(), TanhToSigmoid.name, TanhToSigmoid)
    manager = PassManager.of(f"{Sine.name},{TanhToSigmoid.name},hoist_noise")
    road = {"inputs": inputs, "target": "onnxruntime", "count": 5, "loop_bounds": ("3",), "manager": manager}

    def culprits(**more):
        found = bisect(Heads().eval(), inputs(1), **road, **more)
        assert all(len(c.inputs) == found.inputs >= 5 for c in found.culprits)
        return [(c.step, c.nodes[0].place.line - Heads.forward.__code__.co_firstlineno) for c in found.culprits]

    both = [(Sine.name, 3), (TanhToSigmoid.name, 3)]
    assert culprits(output=tmp_path) == both
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"{Sine.name}_1.py", f"{TanhToSigmoid.name}_1.py"]
    assert culprits(outputs=["action"], control_flow="native") == both[:1]
    assert culprits(outputs=["1"]) == both[1:]


class WrongWhereSizesVary(Pass):
    """tanh of a view → that view, where its size is a symbol."""

    name = "rewrite_symbols_wrongly"
    level = Level.FX

    def run(self, artifact, target):
        result = PassResult(artifact)
        for node in artifact.graph.find_nodes(op="call_function", target=torch.ops.aten.tanh.default):
            viewed = node.args[0].target is torch.ops.aten.view.default
            if viewed and isinstance(node.meta["val"].shape[0], torch.SymInt):
                node.replace_all_uses_with(node.args[0])
                result.rewritten.append(Site(node.name, artifact.place(node)))
        artifact.finish()
        return result


class Viewed(nn.Module):
    def forward(self, x, gate):
        return torch.tanh(torch.exp(x).view(x.shape[0], 2, 2)) * gate[0]


def test_what_shows_at_varying_sizes_alone_is_reproduced_at_such(monkeypatch, tmp_path):
    monkeypatch.setitem(passes(), WrongWhereSizesVary.name, WrongWhereSizesVary)
    given = torch.randn(3, 4), torch.ones(1, 1)
    road = {"target": "onnxruntime", "count": 3, "manager": PassManager.of(WrongWhereSizesVary.name)}
    found = bisect(Viewed().eval(), given, dynamic_shapes=({0: "batch"}, None), output=tmp_path, **road)
    (culprit,) = found.culprits
    source = (tmp_path / culprit.reproducer).read_text()
    assert "aten.view.default(exp, [exp.size(0), 2, 2])" in source and "return ((0,),)" in source
    made = {"__name__": "reproducer"}
    exec(compile(source, "reproducer", "exec"), made)
    assert replay(made["build"](), made["example_inputs"](), culprit.step, "onnxruntime", made["dynamic_sizes"]()) == 1
    assert replay(made["build"](), made["example_inputs"](), culprit.step, "onnxruntime") == 0
    assert source.rstrip().endswith("'onnxruntime', dynamic_sizes()))")


class WrongOnnxWhereSizesVary(TanhToSigmoid):
    """Tanh → Sigmoid, in models whose first size is a name."""

    name = "rewrite_names_wrongly"

    def run(self, artifact, target):
        varies = artifact.proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param
        return super().run(artifact, target) if varies else PassResult(artifact)


def test_models_are_reproduced_at_varying_sizes_too(monkeypatch, tmp_path):
    monkeypatch.setitem(passes(), WrongOnnxWhereSizesVary.name, WrongOnnxWhereSizesVary)
    given = torch.randn(3, 4), torch.ones(1, 1)
    road = {"target": "onnxruntime", "count": 3, "manager": PassManager.of(WrongOnnxWhereSizesVary.name)}
    found = bisect(Viewed().eval(), given, dynamic_shapes=({0: "batch"}, None), output=tmp_path, **road)
    (culprit,) = found.culprits
    source = (tmp_path / culprit.reproducer).read_text()
    assert source.count("= Tanh (") == 1 and "float[batch" in source


@pytest.fixture
def program():
    from tests.helpers import make_program

    return make_program(Tower(), inputs(1))[1]


def test_a_hidden_node_is_left_alone_and_comes_back(program):
    softplus = load_rulebook("onnxruntime").target
    before = str(program.graph)
    result = run_without(Wrong(), program, softplus, ["tanh_1", "linear"])
    assert [site.node for site in result.rewritten] == ["tanh", "tanh_2", "tanh_3"]
    assert str(program.graph) == before
    names = {n.name: n.target for n in result.artifact.graph.nodes}
    assert names["tanh_1"] is torch.ops.aten.tanh.default and names["linear"] is torch.ops.aten.linear.default
    everything = run_without(Wrong(), program, softplus, calls(program))
    assert not everything.changed and str(everything.artifact.graph) == before


def test_hidden_onnx_nodes_come_back_with_their_domain():
    from tests.rewrite.test_pipeline import DropIdentity, relu_model

    model = relu_model()
    onnx.checker.check_model(model.proto)
    result = run_without(DropIdentity(), model, load_rulebook("onnx").target, ["y"])
    assert [(n.op_type, n.domain) for n in result.artifact.proto.graph.node] == [("Relu", "")]
    assert [i.domain for i in result.artifact.proto.opset_import] == [""]


def test_what_holds_has_no_faults(program):
    assert find_faults(Divergence(Wrong(), program, PassResult(program), None), [], load_rulebook("onnx").target) == []
