"""Order, checks, roll-back and records of the pipeline, on real graphs of both kinds."""

from __future__ import annotations

from typing import ClassVar

import onnx
import pytest
import torch
from onnx import TensorProto, helper
from torch import nn

from graphaudit.equivalence.verdict import Claim, Verdict
from graphaudit.errors import RuleError
from graphaudit.findings import Place
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.graphs.program import Program
from graphaudit.passes.fold_batch_norm import FoldBatchNorm
from graphaudit.passes.remove_inference_noops import RemoveInferenceNoops
from graphaudit.passes.rewrite_softmax import RewriteSoftmax
from graphaudit.rewrite.base import Level, Pass, PassResult, Site
from graphaudit.rewrite.edit import insert_call, replace_node
from graphaudit.rewrite.pipeline import order, run_pipeline
from graphaudit.rulebook.target import Target
from tests.helpers import make_program

TARGET = Target(name="onnx", summary="any ONNX runtime", opset=18, max_opset=23)


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.drop = nn.Linear(4, 3), nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        e = torch.exp(self.drop(self.layer(x)))
        return e / e.sum(-1, keepdim=True)


class Checker:
    """Compares a program with the eager module at an absolute tolerance of 1e-6, and remembers what it was asked."""

    def __init__(self, module: nn.Module, x: torch.Tensor) -> None:
        self.module, self.x, self.asked = module.eval(), x, []

    def __call__(self, step: str, program: Program, claims: Claim) -> Verdict:
        self.asked.append((step, claims))
        with torch.no_grad():
            delta = float((program.runner()([self.x])[0] - self.module(self.x)).abs().max())
        claim = claims if delta <= 1e-6 else Claim.DIVERGED
        return Verdict(step=step, claim=claim, inputs=1, worst_abs=delta, tolerance=1e-6)


@pytest.fixture
def head():
    torch.manual_seed(0)
    module, x = Head(), torch.randn(2, 4)
    _, program = make_program(module, (x,))
    return program, Checker(module, x)


def named(name: str, **data: object) -> Pass[Program]:
    """A pass that does nothing, to be ordered."""

    class Idle(Pass[Program]):
        level = Level.FX

        def run(self, artifact: Program, target: Target) -> PassResult[Program]:
            return PassResult(artifact)

    Idle.name = name
    for key, value in data.items():
        setattr(Idle, key, value)
    return Idle()


def test_order_follows_needs_and_then_names():
    passes = [
        named("c", runs_after=("d", "not installed")),
        named("a", requires=("no copies",)),
        named("d"),
        named("b"),
        named("z", ensures=("no copies",)),
    ]
    expected = ["b", "d", "c", "z", "a"]
    assert [p.name for p in order(passes)] == expected
    assert [p.name for p in order(passes[::-1])] == expected


def test_what_runs_first_or_last_stands_at_that_end_whatever_its_name():
    passes = [named("a", runs_last=True), named("b"), named("z", runs_first=True), named("c", runs_after=("b",))]
    assert [p.name for p in order(passes)] == ["z", "b", "c", "a"]


def test_a_cycle_is_named():
    passes = [named("a", runs_after=("c",)), named("b", runs_after=("a",)), named("c", runs_after=("b",)), named("d")]
    with pytest.raises(RuleError, match="before the next: a → b → c → a"):
        order(passes)


def test_a_requirement_that_nothing_ensures_is_named():
    with pytest.raises(RuleError, match="a requires 'static shapes'"):
        order([named("a", requires=("static shapes",))])


def test_each_pass_is_checked_and_recorded(head):
    program, check = head
    before, steps = str(program.graph), []
    passes = [RewriteSoftmax, RemoveInferenceNoops, FoldBatchNorm]
    result = run_pipeline(program, passes, check=check, target=TARGET, on_step=steps.append)
    assert steps == ["remove_inference_noops", "fold_batch_norm", "rewrite_softmax"]
    rows = {row.name: row for row in result.rows}
    assert check.asked == [("remove_inference_noops", Claim.EQUIVALENT), ("rewrite_softmax", Claim.WHERE_FINITE)]
    assert rows["rewrite_softmax"].changed == 1 and rows["rewrite_softmax"].verdict.holds
    assert rows["fold_batch_norm"].changed == 0 and rows["fold_batch_norm"].verdict is None
    assert all(row.seconds >= 0 and not row.rolled_back and row.level == "fx" for row in result.rows)
    assert str(program.graph) == before
    (fix,) = (f for f in result.fixes if f[0] == "rewrite_softmax")
    assert fix[1] == RewriteSoftmax.fixes
    assert fix[2].place.line == Head.forward.__code__.co_firstlineno + 2


class Scale(Pass[Program]):
    """Wrong on purpose: doubles the result of softmax."""

    name = "scale_result"
    level = Level.FX
    runs_after = ("rewrite_softmax",)
    fixes: ClassVar[tuple[str, ...]] = ("naive-softmax",)

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        output = artifact.graph.output_node()
        (result,) = output.args[0]
        new = insert_call(output, torch.ops.aten.mul.Tensor, (result, 2.0), source=result)
        output.args = ((new,),)
        return PassResult(artifact.finish(), [Site(result.name)], [Site("exp", None, "not a result")])


def test_a_pass_that_diverges_leaves_no_trace(head):
    program, check = head
    result = run_pipeline(program, [RewriteSoftmax, Scale], check=check, target=TARGET)
    row = result.rows[-1]
    assert (row.name, row.rolled_back, row.changed) == ("scale_result", True, 1)
    assert row.verdict.claim is Claim.DIVERGED and row.verdict.worst_abs > 0.1
    assert [left.reason for left in row.left] == ["not a result"]
    assert all(name != "scale_result" for name, _, _ in result.fixes)
    assert check("again", result.artifact, Claim.EQUIVALENT).holds


class Crash(Pass[Program]):
    """Breaks off half way, after editing."""

    name = "crash_midway"
    level = Level.FX

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        for node in list(artifact.graph.nodes):
            if node.op == "call_function":
                node.replace_all_uses_with(node.args[0])
        raise ValueError("no such attribute\nand much more text")


def test_a_pass_that_raises_leaves_no_trace(head):
    program, check = head
    result = run_pipeline(program, [Crash, RewriteSoftmax], check=check, target=TARGET)
    crash, softmax = result.rows
    assert crash.rolled_back and crash.verdict.note == "ValueError: no such attribute"
    assert softmax.changed == 1 and not softmax.rolled_back


class Anonymous(Pass[Program]):
    """Inserts a node that does not say where it comes from."""

    name = "insert_anonymous"
    level = Level.FX

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        (linear,) = (n for n in artifact.graph.nodes if n.name == "linear")
        new = insert_call(linear, torch.ops.aten.linear.default, linear.args)
        new.meta = {"val": new.meta["val"]}
        replace_node(linear, new)
        return PassResult(artifact.finish(), [Site("linear")])


def test_a_node_without_provenance_is_not_kept(head):
    program, check = head
    result = run_pipeline(program, [Anonymous], check=check, target=TARGET)
    assert result.rows[0].rolled_back and "source line" in result.rows[0].verdict.note
    assert check.asked == []


def test_what_a_rolled_back_pass_ensures_does_not_hold(head):
    program, check = head
    Crash.ensures = ("no copies",)
    try:
        result = run_pipeline(program, [Crash, named("late", requires=("no copies",))], check=check, target=TARGET)
    finally:
        Crash.ensures = ()
    assert [row.name for row in result.rows] == ["crash_midway", "late"]
    assert "the graph lacks no copies" in result.rows[1].left[0].reason


def relu_model() -> OnnxModel:
    nodes = [helper.make_node("Identity", ["x"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("x", "y")]
    graph = helper.make_graph(nodes, "policy", values[:1], values[1:])
    return OnnxModel(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))


class DropIdentity(Pass[OnnxModel]):
    """Identity → its input."""

    name = "remove_identity"
    level = Level.ONNX
    target_ops = frozenset({"Identity"})

    def run(self, artifact: OnnxModel, target: Target) -> PassResult[OnnxModel]:
        nodes = artifact.proto.graph.node
        nodes[1].input[0] = "x"
        del nodes[0]
        return PassResult(artifact, [Site("h")])


class Rename(Pass[OnnxModel]):
    """Renames the output, which the interface forbids."""

    name = "rename_output"
    level = Level.ONNX
    runs_after = ("remove_identity",)

    def run(self, artifact: OnnxModel, target: Target) -> PassResult[OnnxModel]:
        artifact.proto.graph.node[-1].output[0] = artifact.proto.graph.output[0].name = "action"
        return PassResult(artifact, [Site("y")])


def test_onnx_models_go_the_same_road():
    import numpy as np
    import onnxruntime as ort

    def check(step: str, model: OnnxModel, claims: Claim) -> Verdict:
        session = ort.InferenceSession(model.proto.SerializeToString(), providers=["CPUExecutionProvider"])
        (y,) = session.run(None, {"x": np.array([-1.0, 2.0], np.float32)})
        return Verdict(step=step, claim=claims if y.tolist() == [0.0, 2.0] else Claim.DIVERGED, inputs=1)

    model = relu_model()
    result = run_pipeline(model, [Rename, DropIdentity], check=check, target=TARGET)
    dropped, renamed = result.rows
    assert dropped.changed == 1 and dropped.verdict.holds and not dropped.rolled_back
    assert renamed.rolled_back and renamed.verdict.note == "the outputs were y and became action"
    assert [n.op_type for n in result.artifact.proto.graph.node] == ["Relu"]
    assert len(model.proto.graph.node) == 2
    again = run_pipeline(result.artifact, [DropIdentity], check=check, target=TARGET)
    assert again.rows[0].changed == 0 and again.rows[0].verdict is None
    onnx.checker.check_model(result.artifact.proto)


class SplitRelu(Pass[OnnxModel]):
    """Relu(x) → Relu(Identity(x)), and says which line the new node stands for if `honest`."""

    name = "insert_identity"
    level = Level.ONNX

    def __init__(self, honest: bool) -> None:
        super().__init__()
        self.honest = honest

    def run(self, artifact: OnnxModel, target: Target) -> PassResult[OnnxModel]:
        relu = artifact.proto.graph.node[-1]
        new = helper.make_node("Identity", [relu.input[0]], ["detour"], name="detour")
        relu.input[0] = "detour"
        nodes = [*artifact.proto.graph.node[:-1], new, relu]
        artifact.proto.graph.ClearField("node")
        artifact.proto.graph.node.extend(nodes)
        if self.honest:
            artifact.inherit_places()
        return PassResult(artifact, [Site("detour")])


def test_an_onnx_node_without_provenance_is_not_kept():
    def check(step: str, model: OnnxModel, claims: Claim) -> Verdict:
        return Verdict(step=step, claim=claims, inputs=1)

    model = relu_model()
    model.places = {"h": Place("policy.py", 3), "y": Place("policy.py", 4)}
    (row,) = run_pipeline(model, [SplitRelu(honest=False)], check=check, target=TARGET).rows
    assert row.rolled_back
    assert row.verdict.note == "the node detour does not say which source line it stands for"
    result = run_pipeline(model, [SplitRelu(honest=True)], check=check, target=TARGET)
    assert not result.rows[0].rolled_back and result.artifact.places["detour"].line == 4


class Lose(Pass[OnnxModel]):
    """Forgets the line of a node that stays."""

    name = "remove_places"
    level = Level.ONNX

    def run(self, artifact: OnnxModel, target: Target) -> PassResult[OnnxModel]:
        del artifact.places["h"]
        return PassResult(artifact, [Site("h")])


def test_a_lost_source_line_is_noticed():
    model = relu_model()
    model.places = {"h": Place("policy.py", 3), "y": Place("policy.py", 4)}
    (row,) = run_pipeline(model, [Lose()], check=lambda *_: pytest.fail("not well formed"), target=TARGET).rows
    assert row.rolled_back and row.verdict.note == "the node h does not say which source line it stands for"
