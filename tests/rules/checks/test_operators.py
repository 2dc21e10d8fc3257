"""The findings that are named after operators: they fire on the operator, and not on its harmless kin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from onnx import defs
from torch import nn
from torch.nn import functional as F

from graphaudit.audit.subject import Subject
from graphaudit.capture import Capture
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.quiet import quiet
from graphaudit.registry import checks
from graphaudit.rulebook import load_rulebook
from graphaudit.rules.checks._operator import OperatorCheck
from graphaudit.rules.checks.opset_requirement import OPERATORS
from tests.helpers import make_program


class Call(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def named(function: Callable[..., Any], *args: torch.Tensor) -> dict[str, list[str]]:
    """The operator findings of a policy that calls `function`: name → messages."""
    with quiet():
        _, program = make_program(Call(function), args)
    subject = Subject(capture=Capture(program, "torch.export", [], []))
    found: dict[str, list[str]] = {}
    for check in checks().values():
        if issubclass(check, OperatorCheck):
            for finding in check().examine(subject):
                found.setdefault(finding.name, []).append(finding.message)
    return found


X = torch.rand(3, 4)
N = torch.randint(0, 9, (3, 4))
B = X > 0.5
IMAGE = torch.rand(1, 1, 4, 4)
GRID = torch.zeros(1, 2, 2, 2)
ROW = torch.tensor([0, 1])


@pytest.mark.parametrize(
    ("names", "function", "args"),
    [
        ("atan2", torch.atan2, (X, X)),
        ("bincount", lambda n: torch.bincount(n, minlength=9), (N[0],)),
        ("bitwise opset-requirement", lambda n: n & 5, (N,)),
        ("bitwise", lambda n: n >> 1, (N,)),
        ("bool-arithmetic", lambda b: b.sum(-1), (B,)),
        ("bool-arithmetic cumsum", lambda b: b.cumsum(-1), (B,)),
        ("bucketize", torch.bucketize, (X, X[0])),
        ("cdist", torch.cdist, (X, X)),
        ("complex", lambda x: torch.view_as_real(torch.view_as_complex(x) * 1j), (X.view(3, 2, 2),)),
        ("complex opset-requirement", lambda x: torch.fft.rfft(x).abs(), (X,)),
        ("copysign", torch.copysign, (X, X)),
        ("cummax", lambda x: torch.cummax(x, -1).values, (X,)),
        ("cumprod", lambda x: x.cumprod(-1), (X,)),
        ("cumsum", lambda x: x.cumsum(-1), (X,)),
        ("einsum", lambda x: torch.einsum("ij,kj->ik", x, x), (X,)),
        ("erfinv", torch.erfinv, (X,)),
        ("grid-sample opset-requirement", lambda i, g: F.grid_sample(i, g, align_corners=False), (IMAGE, GRID)),
        ("index-put scatter-duplicates", lambda x, r: torch.index_put(x, (r,), x[:2]), (X, ROW)),
        ("index-put", lambda x, b: torch.index_put(x, (b,), torch.zeros(())), (X, B)),
        ("int-floor-div", lambda n: n // 2, (N,)),
        ("int-floor-div", lambda n: torch.div(n, 2, rounding_mode="floor"), (N,)),
        ("lgamma", torch.lgamma, (X,)),
        ("lgamma", torch.digamma, (X,)),
        ("linalg", lambda x: torch.linalg.solve(x[:, :3], x[:, 3]), (X,)),
        ("linalg", lambda x: torch.linalg.inv(x[:, :3]), (X,)),
        ("linalg", lambda x: torch.linalg.cholesky(x), (torch.eye(3),)),
        ("logcumsumexp", lambda x: torch.logcumsumexp(x, -1), (X,)),
        ("masked-scatter", lambda x, b: x.masked_scatter(b, x), (X, B)),
        ("median", lambda x: x.median(-1).values, (X,)),
        ("opset-requirement", F.mish, (X,)),
        ("quantile", lambda x: torch.quantile(x, 0.25, -1), (X,)),
        ("remainder-sign", lambda x: x % 0.3, (X,)),
        ("remainder-sign", lambda x: torch.fmod(x, 0.3), (X,)),
        ("resize", lambda i: F.interpolate(i, scale_factor=2.0), (IMAGE,)),
        ("resize", lambda i: F.interpolate(i, size=(3, 3), mode="bilinear", antialias=True), (IMAGE,)),
        ("roll", lambda x: torch.roll(x, 1, -1), (X,)),
        ("round-half-even", torch.round, (X,)),
        ("scatter-duplicates", lambda x, n: x.scatter_add(1, n.clamp(max=3), x), (X, N)),
        ("scatter-duplicates", lambda x, r: x.index_add(0, r, x[:2]), (X, ROW)),
        ("searchsorted", lambda x: torch.searchsorted(x[0], x[1]), (X,)),
        ("stable-sort", lambda x: torch.sort(x, dim=-1, stable=True).values, (X,)),
        ("stable-sort", lambda x: torch.argsort(x, dim=-1, stable=True), (X,)),
        ("unfold", lambda x: x.unfold(-1, 2, 1), (X,)),
        ("unfold", lambda i: F.unfold(i, 2), (IMAGE,)),
    ],
)
def test_the_operator_is_named(names: str, function: Callable[..., Any], args: tuple[torch.Tensor, ...]) -> None:
    assert set(named(function, *args)) == set(names.split())


def test_repeat_interleave_with_a_tensor_of_counts_is_named() -> None:
    counts = torch.tensor([1, 2, 3])
    found = named(lambda x, c: torch.repeat_interleave(x, c, dim=0, output_size=6), X, counts)
    assert "repeat-interleave-tensor" in found
    assert "repeat-interleave-tensor" not in named(lambda x: torch.repeat_interleave(x, 2, dim=0), X)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda b: b & ~b, (B,)),  # logical, not bitwise
        (lambda x: x / 2, (X,)),
        (lambda x: torch.div(x, 2, rounding_mode="floor"), (X,)),  # not integers
        (lambda x: torch.linalg.vector_norm(x, dim=-1), (X,)),
        (lambda x: x.sort(-1).values, (X,)),
        (lambda x: x.topk(2).values, (X,)),
        (lambda x: torch.relu(x @ x.T).softmax(-1).argmax(-1), (X,)),
    ],
)
def test_the_harmless_kin_is_not(function: Callable[..., Any], args: tuple[torch.Tensor, ...]) -> None:
    assert named(function, *args) == {}


class ConstantRows(nn.Module):
    def __init__(self, rows: list[int]) -> None:
        super().__init__()
        self.register_buffer("rows", torch.tensor(rows))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.index_copy(0, self.rows, x[: len(self.rows)])


@pytest.mark.parametrize(("rows", "named_so"), [([0, 2], False), ([1, 1], True)])
def test_a_constant_index_is_checked_for_duplicates(rows: list[int], named_so: bool) -> None:
    _, program = make_program(ConstantRows(rows), (X,))
    subject = Subject(capture=Capture(program, "torch.export", [], []))
    assert bool(list(checks()["scatter-duplicates"]().examine(subject))) is named_so


class Running(nn.Module):
    def forward(self, done: torch.Tensor) -> torch.Tensor:
        return done.cumsum(-1)


def test_the_message_says_what_becomes_of_it_on_the_target() -> None:
    _, program = make_program(Running(), (N,))
    with quiet():
        proto = torch.onnx.export(program.exported, dynamo=True, opset_version=18, verbose=False).model_proto
    capture, model = Capture(program, "torch.export", [], []), OnnxModel.from_proto(proto)
    said = {}
    for target in ("onnxruntime", "ascend-310p"):
        subject = Subject(capture=capture, model=model, rulebook=load_rulebook(target))
        (finding,) = checks()["cumsum"]().examine(subject)
        said[target] = finding
        assert (finding.severity, finding.file) == ("note", __file__)
        assert finding.line == Running.forward.__code__.co_firstlineno + 1
    assert said["onnxruntime"].message.endswith("; on onnxruntime it becomes CumSum, which it takes")
    assert said["ascend-310p"].message.endswith("CumSum (CumSum in int64 runs on the AI CPU, not the AI Core)")
    assert "Cumsum.md" in said["ascend-310p"].evidence.source


def test_rounded_integer_division_is_a_warning_because_the_export_goes_through_float32() -> None:
    import onnxruntime

    _, program = make_program(Call(lambda n: torch.div(n, 3, rounding_mode="floor")), (N,))
    (finding,) = checks()["int-floor-div"]().examine(Subject(capture=Capture(program, "torch.export", [], [])))
    assert finding.severity == "warning"
    with quiet():
        proto = torch.onnx.export(program.exported, dynamo=True, opset_version=18, verbose=False).model_proto
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    big = torch.full((3, 4), 3 * (2**24 + 1))
    (got,) = session.run(None, {session.get_inputs()[0].name: big.numpy()})
    assert (got != (big // 3).numpy()).all()  # the day this fails, the warning can go


@pytest.mark.parametrize("operator", OPERATORS)
def test_opsets_are_those_of_the_standard(operator: str) -> None:
    name, opset = OPERATORS[operator]
    assert min(s.since_version for s in defs.get_all_schemas_with_history() if s.name == name) == opset


@pytest.mark.parametrize("name", sorted(n for n, c in checks().items() if issubclass(c, OperatorCheck)))
def test_operators_without_a_translation_have_none(name: str) -> None:
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    check = checks()[name]
    if "no translation" not in getattr(check, "effect", ""):
        return
    registry = ONNXRegistry.from_torchlib(opset_version=18)
    for operator in check.operators:
        packet = getattr(torch.ops.aten, operator.removeprefix("aten."), None)
        overloads = [getattr(packet, o) for o in packet.overloads()] if packet is not None else []
        assert not any(registry.is_registered(o) for o in overloads), operator
