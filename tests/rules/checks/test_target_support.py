"""What the checks GA201 to GA206 say of real models on real targets."""

from __future__ import annotations

import pytest
import torch
from onnx import parser
from torch import nn
from torch.nn import functional as F

from graphaudit.audit.subject import Subject
from graphaudit.findings import Finding
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.quiet import quiet
from graphaudit.registry import checks
from graphaudit.rulebook import load_rulebook, targets

NAMES = ("unsupported-op", "unknown-op", "opset-too-new", "limited-op", "dynamic-shape-op", "local-function")
HEAD = '<ir_version: 10, opset_import: ["" : {}, "mine" : 1]>\n'


def parsed(body: str, opset: int = 18) -> OnnxModel:
    return OnnxModel(parser.parse_model(HEAD.format(opset) + body))


def exported(module: nn.Module, *args: torch.Tensor) -> OnnxModel:
    with quiet():
        program = torch.onnx.export(module.eval(), args, dynamo=True, opset_version=18, verbose=False)
    return OnnxModel.from_proto(program.model_proto)


def found(model: OnnxModel, target: str, *names: str) -> list[Finding]:
    subject = Subject(model=model, rulebook=load_rulebook(target))
    return [f for name in names or NAMES for f in checks()[name]().examine(subject)]


class Plain(nn.Module):
    """The layers of ordinary policies."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.lstm = nn.LSTM(16, 8, batch_first=True)
        self.head = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 3))

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = F.max_pool2d(torch.relu(self.conv(image)), 2).flatten(2)
        h, _ = self.lstm(h)
        logits = self.head(h[:, -1])
        return torch.softmax(logits, -1), logits.argmax(-1)


@pytest.mark.parametrize("target", [t.name for t in targets()])
def test_ordinary_policies_give_notes_at_most(target: str) -> None:
    findings = found(exported(Plain(), torch.ones(2, 1, 10, 10)), target)
    assert {f.severity.value for f in findings} <= {"note"}, findings
    if target in ("onnx", "onnxruntime"):
        assert findings == []


class BoolWhere(nn.Module):
    def forward(self, x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        return torch.where(m, x > 0, x < 0)


def test_an_operator_without_a_kernel_is_an_error_at_the_users_line() -> None:
    model = exported(BoolWhere(), torch.ones(3), torch.ones(3, dtype=torch.bool))
    (finding,) = found(model, "onnxruntime")
    assert (finding.code, finding.name, finding.severity) == ("GA201", "unsupported-op", "error")
    assert finding.message.startswith("Where at opset 18 does not run: Where(16) has no CPU kernel for bool")
    assert (finding.file, finding.line) == (__file__, BoolWhere.forward.__code__.co_firstlineno + 1)
    assert finding.evidence is not None
    assert "onnxruntime" in finding.evidence.source
    (unknown,) = found(model, "ascend-310p")
    assert (unknown.code, unknown.severity) == ("GA202", "warning")


def test_loops_are_refused_and_branches_taken_by_ascend() -> None:
    loop = parsed("""g (int64 n, bool go, float[3] x) => (float[3] y) {
      y = Loop(n, go, x) <body = b (int64 i, bool c, float[3] v) => (bool c2, float[3] v2) {
        c2 = Identity(c) v2 = Relu(v) }> }""")
    assert [(f.name, f.evidence.date) for f in found(loop, "ascend-310p") if f.evidence] == [
        ("unsupported-op", "2026-11-29")
    ]
    assert found(loop, "onnxruntime") == []
    branch = parsed("""g (bool c, float[3] x) => (float[3] y) { y = If(c) <
      then_branch = t () => (float[3] a) { a = Relu(x) }, else_branch = e () => (float[3] b) { b = Exp(x) } > }""")
    assert found(branch, "ascend-310p") == []


def test_a_refused_node_inside_a_branch_is_found() -> None:
    model = parsed("""g (bool c, float[3] x) => (float[k] y) { y = If(c) <
      then_branch = t () => (float[k] a) { a = ReduceL2 (x) }, else_branch = e () => (float[k] b) { b = Exp(x) } > }""")
    (finding,) = found(model, "ascend-910b", "unsupported-op")
    assert "ReduceL2 is taken at opset 8 to 17 only" in finding.message


def test_gru_of_torch_is_a_hazard_on_ascend() -> None:
    findings = found(exported(nn.GRU(4, 8), torch.ones(2, 1, 4)), "ascend-310p")
    (warning,) = [f for f in findings if f.severity == "warning"]
    assert warning.name == "limited-op"
    assert "linear_before_reset is never read, and here it is 1" in warning.message


def test_a_model_beyond_the_last_opset_is_said_once_and_new_operators_each() -> None:
    model = parsed("g (float[3] x) => (float[3] y) { h = Relu(x) i = Gelu(h) y = Exp(i) }", opset=20)
    findings = found(model, "ascend-310p")
    assert [(f.code, f.message) for f in findings] == [
        ("GA203", "the model is at opset 20, ascend-310p takes 18 at most"),
        ("GA203", "Gelu exists from opset 20 on, ascend-310p takes 18 at most"),
    ]
    assert all(f.evidence and "msit" in f.evidence.source for f in findings)
    assert found(model, "onnxruntime") == []


FUNCTION = """g (float[3] x) => (float[3] y) { y = mine.Twice(x) }
<domain: "mine", opset_import: ["" : 18]> Twice (a) => (b) { c = Add(a, a) b = %s(c) }"""


def test_local_functions_are_named_where_they_are_not_read_and_their_bodies_judged_everywhere() -> None:
    model = parsed(FUNCTION % "Relu")
    assert [(f.code, f.name) for f in found(model, "ascend-310p")] == [("GA206", "local-function")]
    assert found(model, "onnxruntime") == []
    assert found(model, "onnx") == []
    broken = parsed(FUNCTION % "NoSuchOp")
    assert [f.name for f in found(broken, "onnxruntime")] == ["unsupported-op"]


def test_a_function_of_another_opset_is_judged_by_its_body() -> None:
    older = parsed((FUNCTION % "Relu").replace('"" : 18', '"" : 17'))
    assert older.proto.functions[0].opset_import[0].version == 17
    assert found(older, "onnxruntime") == []


def test_an_unknown_domain_is_a_warning() -> None:
    model = parsed("g (float[3] x) => (float[3] y) { y = mine.Fused(x) }")
    for target in ("onnx", "onnxruntime", "ascend-310p"):
        (finding,) = found(model, target)
        assert (finding.name, finding.severity) == ("unknown-op", "warning")
        assert finding.message.startswith(f"whether {target} takes mine::Fused at opset 1 is not known")


@pytest.mark.parametrize(
    ("body", "dynamic"),
    [
        ("g (float[3] x) => (int64[1, k] y) { y = NonZero(x) }", ["NonZero"]),
        (
            "g (int64 n) => (int64[k] y) { z = Sub(n, n) o = Constant<value_int = 1>() y = Range(z, n, o) }",
            ["Range"],
        ),
        ("g (float[b, 4] x) => (float[c, 2] y) { s = Constant<value_ints = [-1, 2]>() y = Reshape(x, s) }", []),
        ("g (float[b, 4] x, float[d, e] z) => (float[d, e] y) { s = Shape(z) y = Reshape(x, s) }", []),
        ("g (float[4] x, int64[2] s) => (float[d, e] y) { y = Reshape(x, s) }", ["Reshape"]),
        ("g (float[9] x, int64[1] k) => (float[d] y, int64[d] i) { k2 = Add(k, k) y, i = TopK(x, k2) }", ["TopK"]),
    ],
)  # fmt: skip
def test_sizes_that_are_data(body: str, dynamic: list[str]) -> None:
    findings = found(parsed(body), "ascend-910b", "dynamic-shape-op")
    assert [f.message.split()[4] for f in findings] == dynamic
    assert all((f.code, f.severity.value) == ("GA205", "error") and f.evidence for f in findings)
    assert found(parsed(body), "onnxruntime", "dynamic-shape-op") == []


def test_without_a_model_or_a_target_there_is_nothing_to_say() -> None:
    model = parsed("g (float[3] x) => (float[3] y) { y = NoSuchOp(x) }")
    for subject in (Subject(), Subject(model=model), Subject(rulebook=load_rulebook("onnx"))):
        assert [f for name in NAMES for f in checks()[name]().examine(subject)] == []
