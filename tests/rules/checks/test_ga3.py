"""Every numeric check on real graphs: where it must speak, where it must be silent, and on clean policies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from graphaudit import registry
from graphaudit.audit.subject import Subject
from graphaudit.capture import Capture
from graphaudit.findings import Finding, Severity
from graphaudit.graphs.exponentials import find_logsumexp, find_softmax, find_softplus
from graphaudit.passes.rewrite_softmax import RewriteSoftmax
from graphaudit.rulebook import load_rulebook
from tests.helpers import make_program
from tests.passes.helpers import TARGET, Function, Unary

NUMERIC = [c for c in registry.checks().values() if c.code.startswith("GA3")]
X = torch.zeros(2, 8)
BATCH = ({0: "batch"},)
NINF = float("-inf")


def subject_of(
    module: nn.Module, args: tuple[Any, ...], dynamic_shapes: Any = None, target: str | None = None
) -> Subject:
    policy, program = make_program(module, args, dynamic_shapes)
    rulebook = load_rulebook(target) if target else None
    return Subject(policy=policy, capture=Capture(program, "torch.export"), rulebook=rulebook)


def findings(subject: Subject, name: str | None = None) -> list[Finding]:
    checks = [registry.find_check(name)] if name else NUMERIC
    return [finding for check in checks if check is not None for finding in check().examine(subject)]


def _whitened(x):
    return (x - x.mean(0)) / x.std(0)


def _scaled_mask(x):
    return torch.softmax((x / 2).masked_fill(x > 0, NINF) + 1, -1)


def _where_mask(x):
    return torch.log_softmax(torch.where(x > 0, x, NINF), -1)


def _attention(x):
    q = x.view(1, 2, 2, 4)
    return F.scaled_dot_product_attention(q, q, q, attn_mask=(q.sum(-1) > 0).unsqueeze(1).expand(1, 2, 2, 2))


def _causal_attention(x):
    q = x.view(1, 2, 2, 4)
    mask = torch.ones(2, 2, dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(q, q, q, attn_mask=mask)


SPEAKS: list[tuple[str, Callable[..., Any], str]] = [
    ("naive-softmax", lambda x: torch.exp(x) / torch.exp(x).sum(-1, keepdim=True), "overflows above 88.72 in float32"),
    ("naive-softmax", lambda x: (e := torch.exp(x - x.max())) / e.sum(-1, keepdim=True), "overflows above"),
    ("naive-softmax", lambda x: (e := x.exp() * (x > 0)) / (e.sum(-1, keepdim=True) + -1e-8), "not rewritten: the sum"),
    ("naive-logsumexp", lambda x: torch.log(torch.exp(x).sum(-1)), "overflows above 88.72"),
    ("atanh-at-bound", lambda x: 0.5 * torch.log((1 + x) / (1 - x)), "can be 1"),
    ("atanh-at-bound", lambda x: torch.log1p(x) - torch.log1p(-x), "can be 1"),
    ("argmax-tie", lambda x: (torch.round(x * 2) / 2).masked_fill(x > 3, -1.0).argmax(-1), "round makes values equal"),
    ("fp16-overflow", lambda x: (h := x.half() + 0) * h, "from 256 on"),
    ("fp16-overflow", lambda x: x.half().pow(2).sum(-1), "from 256 on"),
    ("fp16-overflow", lambda x: (x > 0).half() * -1e4 * 10, "reaches 100000"),
    ("naive-softplus", lambda x: torch.log(1 + torch.exp(x)), "infinite above 88.72"),
    ("exp-overflow", lambda x: torch.exp(x - 1), "nothing bounds its argument"),
    ("exp-overflow", lambda x: torch.expm1(x.clamp(max=100)), "its argument goes up to 100"),
    ("exp-overflow", lambda x: 2.0**x, "pow() overflows above 128"),
    ("exp-overflow", torch.cosh, "overflows"),
    ("log-of-zero", lambda x: torch.log(1 - torch.tanh(x) ** 2), "can be 0"),
    ("log-of-zero", lambda x: torch.log(torch.softmax(x, -1)), "softmax underflows"),
    ("log-of-zero", lambda x: torch.log(x), "nothing bounds it"),
    ("log-of-zero", lambda x: torch.log1p(x), "-1 or below"),
    ("log-of-zero", lambda x: torch.log(torch.rand_like(x)), "can be 0"),
    ("divide-by-zero", lambda x: x / x.norm(dim=-1, keepdim=True), "linalg_vector_norm"),
    ("divide-by-zero", lambda x: x / torch.sqrt((x * x).sum(-1, keepdim=True)), "sqrt"),
    ("divide-by-zero", lambda x: x * torch.rsqrt((x * x).mean(-1, keepdim=True)), "can be 0"),
    ("divide-by-zero", lambda x: 1 / x, "nothing keeps"),
    ("divide-by-zero", lambda x: x.abs() ** -0.5, "can be 0"),
    ("std-of-single-sample", _whitened, "NaN when batch is 1"),
    ("std-of-single-sample", lambda x: x[:1].std(0), "always NaN"),
    ("softmax-all-masked", lambda x: torch.softmax(x.masked_fill(x > 0, NINF), -1), "becomes NaN"),
    ("softmax-all-masked", _scaled_mask, "becomes NaN"),
    ("softmax-all-masked", _where_mask, "becomes NaN"),
    ("softmax-all-masked", _attention, "0 in PyTorch and NaN"),
    ("neg-inf-mask", lambda x: x.masked_fill(x > 0, NINF), "-inf enters"),
    ("neg-inf-mask", lambda x: x + torch.tensor([NINF] * 8), "holds -inf"),
    ("prod-underflow", lambda x: torch.softmax(x, -1).prod(-1), "8 numbers up to 1"),
    ("prod-underflow", lambda x: torch.sigmoid(x).cumprod(0), "any number of"),
    ("variance-cancellation", lambda x: (x**2).mean(-1) - x.mean(-1) ** 2, "loses its digits"),
    ("variance-cancellation", lambda x: (x * x).sum(-1) / 8 - (m := x.mean(-1)) * m, "loses its digits"),
    ("atanh-at-bound", lambda x: torch.atanh(torch.tanh(x)), "can be 1"),
    ("atanh-at-bound", lambda x: torch.atanh(x.clamp(-1 + 1e-8, 1 - 1e-8)), "is 1 in float32"),
    ("float64", lambda x: x * torch.tensor(0.1, dtype=torch.float64).expand(8), "parameter"),
    ("float64", lambda x: x.double() * 2, "makes float64"),
    ("half-precision", lambda x: x.half() * 2, "makes float16"),
    ("bfloat16", lambda x: x.bfloat16() * 2, "makes bfloat16"),
    ("int64", lambda x: x.long() * 3, "mul on int64"),
    ("integer-overflow", lambda x: x.long() * 6364136223846793005, "overflows int64"),
    ("integer-overflow", lambda x: x.clamp(0, 300).to(torch.int16) ** 2, "beyond int16"),
    ("fp16-underflow", lambda x: x.half() + 1e-8, "vanishes"),
    ("fp16-overflow", lambda x: x.half() * -1e6, "-inf in float16"),
    ("implicit-type-promotion", lambda x: x * torch.arange(8), "float32 and int64 gives float32"),
    ("nan-semantics", lambda x: (torch.nan_to_num(x), x.clamp(-1, 1)), "returns NaN for NaN"),
    ("nan-semantics", lambda x: torch.where(x != x, 0.0, x), "NaN is expected"),
    ("argmax-tie", lambda x: torch.relu(x).argmax(-1), "relu makes values equal"),
    ("argmax-tie", lambda x: (x.tanh() + (x > 0) * -1e9).argmax(-1), "adding so large a number"),
    ("discontinuity", lambda x: torch.sign(x.tanh()), "sign jumps"),
    ("discontinuity", lambda x: (x.tanh() > 0.5).float(), "comparison with 0.5"),
]

SILENT: list[tuple[str, Callable[..., Any]]] = [
    ("naive-softmax", lambda x: torch.softmax(x, -1)),
    ("naive-softmax", lambda x: (e := torch.exp(x - x.amax(-1, keepdim=True))) / e.sum(-1, keepdim=True)),
    ("naive-softmax", lambda x: torch.exp(x) / x.sum(-1, keepdim=True)),
    ("naive-logsumexp", lambda x: torch.logsumexp(x, -1)),
    ("naive-logsumexp", lambda x: (m := x.amax(-1)) + torch.log(torch.exp(x - m.unsqueeze(-1)).sum(-1))),
    ("naive-softplus", lambda x: torch.log1p(x)),
    ("exp-overflow", lambda x: torch.exp(x.clamp(-20, 2))),
    ("exp-overflow", lambda x: torch.exp(-x.abs())),
    ("exp-overflow", lambda x: torch.exp(torch.log_softmax(x, -1))),
    ("exp-overflow", lambda x: torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)),
    ("exp-overflow", lambda x: x**2),
    ("log-of-zero", lambda x: torch.log(1 - torch.tanh(x) ** 2 + 1e-6)),
    ("log-of-zero", lambda x: torch.log(x.abs() + 1)),
    ("log-of-zero", lambda x: torch.log(x.clamp(min=1e-6))),
    ("log-of-zero", lambda x: torch.log(torch.exp(x).sum(-1))),
    ("log-of-zero", lambda x: torch.sign(x) * torch.log1p(x.abs())),
    ("divide-by-zero", lambda x: x / x.norm(dim=-1, keepdim=True).clamp(min=1e-6)),
    ("divide-by-zero", lambda x: F.normalize(x, dim=-1)),
    ("divide-by-zero", lambda x: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)),
    ("divide-by-zero", lambda x: x / torch.tensor([1.0, 2.0] * 4)),
    ("divide-by-zero", lambda x: (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6)),
    ("divide-by-zero", lambda x: torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)),
    ("std-of-single-sample", lambda x: x.std(-1)),
    ("std-of-single-sample", lambda x: x.var(0, correction=0)),
    ("softmax-all-masked", lambda x: torch.softmax(x.masked_fill(x > 0, -1e4), -1)),
    (
        "softmax-all-masked",
        lambda x: torch.softmax(x + torch.zeros(8).masked_fill(torch.arange(8) > 4, NINF), -1),
    ),
    ("softmax-all-masked", _causal_attention),
    ("neg-inf-mask", lambda x: x.masked_fill(x > 0, -1e4)),
    ("prod-underflow", lambda x: x[:, :2].sigmoid().prod(-1)),
    ("prod-underflow", lambda x: x * torch.full((9,), 0.99).cumprod(0)[:8]),
    ("variance-cancellation", lambda x: x.var(-1, correction=0)),
    ("variance-cancellation", lambda x: (x**2).mean(-1) - x.mean(-1)),
    ("atanh-at-bound", lambda x: torch.atanh(x.clamp(-1 + 1e-6, 1 - 1e-6))),
    ("atanh-at-bound", lambda x: x.exp() - torch.rand(8)),
    ("float64", lambda x: x * 0.1),
    ("int64", lambda x: x[:, torch.tensor([1, 0])]),
    ("int64", lambda x: x.argmax(-1)),
    ("integer-overflow", lambda x: (x.long() % 100) * 7919),
    ("uint8-input", lambda x: x / 255.0),
    ("fp16-overflow", lambda x: x.masked_fill(x > 0, -1e9)),
    ("fp16-underflow", lambda x: x + 1e-8),
    ("implicit-type-promotion", lambda x: x * 2),
    ("nan-semantics", lambda x: x.clamp(-1, 1)),
    ("argmax-tie", lambda x: x.argmax(-1)),
    ("argmax-tie", lambda x: torch.relu(x).max(-1).values),
    ("discontinuity", lambda x: torch.where(x > 0, x, 0.0)),
    ("discontinuity", lambda x: (x.sigmoid() > x).float()),
]


def _batched(function: Callable[..., Any]) -> Any:
    """A dynamic batch, where the function does not fix its size."""
    return None if function in (_attention, _causal_attention) else BATCH


@pytest.mark.parametrize(("name", "function", "message"), SPEAKS)
def test_speaks(name, function, message):
    found = findings(subject_of(Unary(function), (X,), _batched(function)), name)
    assert any(message in f.message for f in found), [f.message for f in found]
    assert all(f.name == name and f.line is not None and f.remedy and f.node for f in found)


@pytest.mark.parametrize(("name", "function"), SILENT)
def test_silent(name, function):
    assert [f.message for f in findings(subject_of(Unary(function), (X,), _batched(function)), name)] == []


def test_uint8_frames():
    def difference(frame):
        return torch.cat([frame[:, :1] - frame[:, 1:], frame], 1) / 255.0

    subject = subject_of(Unary(difference), (torch.zeros(1, 2, 4, 4, dtype=torch.uint8),))
    assert {f.severity for f in findings(subject, "uint8-input")} == {Severity.NOTE, Severity.WARNING}


def test_a_whole_policy_in_float64_is_one_finding_for_inputs_and_one_for_parameters():
    module = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    found = findings(subject_of(module, (torch.zeros(1, 4, dtype=torch.float64),)), "float64")
    assert [f.message.split()[0] for f in found] == ["input", "parameter"]
    assert "and 3 more" in found[1].message


@pytest.mark.parametrize(
    ("name", "function", "message"),
    [
        ("naive-softmax", SPEAKS[0][1], "11.09 in float16"),
        ("exp-overflow", lambda x: torch.exp(x.clamp(max=12)), "goes up to 12"),
        ("fp16-overflow", lambda x: x.masked_fill(x > 0, -1e9), "-1e+09 is -inf in float16"),
        ("fp16-overflow", lambda x: x + (x > 0) * torch.tensor(-1e9), "holds 1e+09"),
        ("fp16-underflow", lambda x: x / (x.abs() + 1e-8), "1e-08 vanishes"),
        ("fp16-underflow", lambda x: x / x.abs().clamp(min=1e-8), "1e-08 vanishes"),
        ("atanh-at-bound", lambda x: torch.atanh(x.clamp(-1 + 1e-4, 1 - 1e-4)), "is 1 in float16"),
    ],
)
def test_a_target_that_computes_in_float16_has_narrower_limits(name, function, message):
    module = Unary(function)
    narrow = findings(subject_of(module, (X,), target="ascend-310p"), name)
    assert any(message in f.message and "ascend-310p" in f.message for f in narrow), [f.message for f in narrow]
    wide = findings(subject_of(module, (X,), target="onnxruntime"), name)
    assert all("float16" not in f.message for f in wide)


class Nature(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(4, 8, 8, 4), nn.ReLU(), nn.Flatten(), nn.Linear(288, 6))

    def forward(self, x):
        q = self.body(x / 255.0)
        return q.argmax(-1), q


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTM(4, 8), nn.Linear(8, 2)

    def forward(self, x, h, c):
        y, (h, c) = self.rnn(x.unsqueeze(0), (h, c))
        return torch.tanh(self.head(y.squeeze(0))), h, c


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attend, self.inp = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(5, 8)

    def forward(self, entities, valid):
        h = self.inp(entities)
        scores = h @ h.transpose(1, 2) / 8**0.5 + (1 - valid).unsqueeze(1) * -1e4
        h = torch.softmax(scores, -1) @ h
        y, _ = self.attend(h, h, h, need_weights=False)
        return (y * valid.unsqueeze(-1)).sum(1) / valid.sum(1, keepdim=True).clamp(min=1)


CLEAN = {
    "mlp": (nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.LayerNorm(16), nn.Linear(16, 2), nn.Tanh()), (X,)),
    "nature cnn": (Nature(), (torch.zeros(1, 4, 28, 28),)),
    "lstm": (Recurrent(), (torch.zeros(1, 4), torch.zeros(1, 1, 8), torch.zeros(1, 1, 8))),
    "attention": (Attention(), (torch.zeros(2, 4, 5), torch.ones(2, 4))),
    "softmax": (nn.Sequential(nn.Linear(8, 4), nn.Softmax(-1)), (X,)),
    "knn": (Function(lambda e: torch.topk(e.pow(2).sum(-1), 3, largest=False)), (torch.zeros(1, 6, 2),)),
    "explicit noise": (Function(lambda p, u: (u < torch.sigmoid(2 * p)).float()), (X, X)),
}


@pytest.mark.parametrize("target", ["onnxruntime", "ascend-310p"])
@pytest.mark.parametrize("name", CLEAN)
def test_clean_policies_get_no_finding(name, target):
    module, args = CLEAN[name]
    assert [f"{f.name}: {f.message}" for f in findings(subject_of(module, args, target=target))] == []


def test_a_failed_capture_has_no_numeric_findings():
    assert findings(Subject(capture=Capture(None, None))) == []


def test_the_finding_and_its_fix_agree():
    """What the pass rewrote gives no finding any more, and it rewrote at the finding's node."""

    def policy(x):
        value = 0.1 * torch.log(torch.exp(x / 0.1).sum(-1))
        return torch.exp(x) / torch.exp(x).sum(-1, keepdim=True), value, torch.log(torch.softmax(x, -1))

    subject = subject_of(Unary(policy), (X,))
    before = [f for f in findings(subject) if f.name in RewriteSoftmax.fixes]
    assert sorted(f.name for f in before) == ["log-of-zero", "naive-logsumexp", "naive-softmax"]
    result = RewriteSoftmax().run(subject.capture.program.copy(), TARGET)
    assert {f.node for f in before} == {site.node for site in result.rewritten}
    after = Subject(capture=Capture(result.artifact, "torch.export"))
    assert [f for f in findings(after) if f.severity is not Severity.NOTE] == []
    assert not [m for find in (find_softmax, find_logsumexp, find_softplus) for m in find(after.fx)]
