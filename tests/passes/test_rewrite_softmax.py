"""rewrite_softmax on the spellings that people use."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from graphaudit.passes.rewrite_softmax import RewriteSoftmax
from tests.passes.helpers import Unary, assert_equivalent_where_finite, ops, reasons, run_pass

NAN, INF = float("nan"), float("inf")
AWKWARD = torch.tensor(
    [
        [0.0, 0.0, 0.0],
        [-1.0, 2.0, -3.0],
        [300.0, -300.0, 299.0],  # exp overflows float32, not float64
        [-200.0, -201.0, -200.5],  # every exp underflows
        [88.7, 88.8, 0.0],  # one unit below and above the overflow of float32
        [-0.0, 1e-38, -1e-45],
        [-INF, 1.0, 2.0],  # one action masked
        [-INF, -INF, -INF],  # every action masked
        [NAN, 1.0, 2.0],
    ]
)


def _shared(x):
    e = torch.exp(x)
    return e / e.sum(-1, keepdim=True)


def _twice(x):
    return torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)


def _unsqueezed(x):
    e = x.exp()
    return e / e.sum(1).unsqueeze(-1)


def _indexed(x):
    e = x.exp()
    return e / e.sum(1)[:, None]


def _viewed(x):
    e = x.exp()
    return e / e.sum(1).view(-1, 1).expand_as(e)


def _reciprocal(x):
    e = x.exp()
    return e * e.sum(1, keepdim=True).reciprocal()


def _one_over(x):
    e = x.exp()
    return e * (1.0 / e.sum(1, keepdim=True))


def _minus_max(x):
    e = torch.exp(x - x.max(-1, keepdim=True).values)
    return e / e.sum(-1, keepdim=True)


def _minus_amax(x):
    e = torch.exp(x - x.detach().amax(1, keepdim=True))
    return e / e.sum(1, keepdim=True)


def _minus_max_unsqueezed(x):
    e = torch.exp(x - x.max(1)[0].unsqueeze(1))
    return e / e.sum(1, keepdim=True)


def _minus_global_max(x):
    e = torch.exp(x - x.max())
    return e / e.sum(1, keepdim=True)


def _first_dimension(x):
    e = x.exp()
    return e / e.sum(0)


def _temperature(x):
    e = torch.exp(x / 0.5)
    return e / e.sum(-1, keepdim=True)


def _epsilon_after_max(x):
    e = torch.exp(x - x.amax(1, keepdim=True))
    return e / (e.sum(1, keepdim=True) + 1e-8)


def _logsumexp(x):
    return torch.exp(x - torch.logsumexp(x, -1, keepdim=True))


def _log_sum(x):
    return torch.exp(x - torch.log(torch.sum(torch.exp(x), -1, keepdim=True)))


SOFTMAX = [
    _shared, _twice, _unsqueezed, _indexed, _viewed, _reciprocal, _one_over, _minus_max, _minus_amax,
    _minus_max_unsqueezed, _temperature, _epsilon_after_max, _logsumexp, _log_sum,
]  # fmt: skip
LOG_SOFTMAX = [
    lambda x: torch.log(torch.softmax(x, -1)),
    lambda x: torch.softmax(x, 1).log(),
    lambda x: torch.log(_twice(x)),
]
LOGSUMEXP = [
    lambda x: torch.log(torch.exp(x).sum(-1)),
    lambda x: torch.log(torch.sum(torch.exp(x), 1, keepdim=True)),
    lambda x: torch.log(torch.exp(x / 0.5).sum(-1)) * 0.5,
    lambda x: torch.exp(x).sum().log(),
    lambda x: torch.exp(x).sum((0, 1), keepdim=True).log(),
    lambda x: torch.exp(x).mean(1).log(),
    lambda x: (m := x.amax(-1, keepdim=True)) + torch.log(torch.exp(x - m).sum(-1, keepdim=True)),
    lambda x: (m := x.max(-1, keepdim=True)[0]).squeeze(-1) + torch.log(torch.exp(x - m).sum(-1)),
]


def _kept(x):
    return (x > -250).float()


GUARDED = {
    "einsum": (lambda x: x.exp() / torch.einsum("ij->i", x.exp())[:, None], "softmax"),
    "1-norm": (lambda x: x.exp() / x.exp().norm(p=1, dim=-1, keepdim=True), "softmax"),
    "added": (lambda x: x.exp() / (x.exp().sum(-1, keepdim=True) + 1e-8), "exp"),
    "added before unsqueeze": (lambda x: x.exp() / (x.exp().sum(-1) + 1e-6).unsqueeze(-1), "exp"),
    "bounded": (lambda x: x.exp() / x.exp().sum(-1).clamp(min=1e-6)[:, None], "exp"),
    "normalize": (lambda x: torch.nn.functional.normalize(x.exp(), p=1.0, dim=-1), "exp"),
    "two dimensions": (lambda x: x.exp() / x.exp().sum((0, 1), keepdim=True), "exp"),
    "added in two dimensions": (lambda x: x.exp() / (x.exp().sum((0, 1), keepdim=True) + 1e-8), "exp"),
    "masked": (
        lambda x: (x.exp() * _kept(x)) / ((x.exp() * _kept(x)).sum(-1, keepdim=True) + 1e-8),
        "exp",
    ),
    "renormalised": (
        lambda x: (torch.softmax(x, -1) * _kept(x)) / (torch.softmax(x, -1) * _kept(x)).sum(-1, keepdim=True),
        "exp",
    ),
    "log of a masked sum": (lambda x: torch.log((x.exp() * _kept(x)).sum(-1)), "exp"),
    "log of a sum and 1e-8": (lambda x: torch.log(x.exp().sum(-1, keepdim=True) + 1e-8), "exp"),
    "log of a chosen probability": (
        lambda x: torch.softmax(x, -1).gather(-1, x.argmin(-1, keepdim=True)).squeeze(-1).log(),
        "log_softmax",
    ),
    "log of one column": (lambda x: torch.log(torch.softmax(x, -1)[:, 1]), "log_softmax"),
}


@pytest.mark.parametrize("spelling", GUARDED)
def test_guarded_masked_and_chosen(spelling):
    function, operator = GUARDED[spelling]
    module = Unary(function)
    result = run_pass(RewriteSoftmax, module, (torch.zeros(4, 3),), ({0: "batch"},))
    assert len(result.rewritten) == 1 and not result.left
    assert operator in ops(result.artifact)
    for x in (AWKWARD[:6], AWKWARD[2:3], AWKWARD[3:4], AWKWARD[6:7]):
        assert_equivalent_where_finite(module, result.artifact, x)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("function", SOFTMAX, ids=lambda f: f.__name__.strip("_"))
def test_softmax_in_its_usual_spellings(function: Callable[[torch.Tensor], torch.Tensor], dynamic: bool):
    module = Unary(function)
    result = run_pass(RewriteSoftmax, module, (torch.zeros(4, 3),), ({0: "batch"},) if dynamic else None)
    left = [op for op in ops(result.artifact) if op not in ("div", "detach", "reciprocal")]
    assert left == ["softmax"]
    batches = [AWKWARD, AWKWARD[:1], AWKWARD[-1:]] if dynamic else AWKWARD.unfold(0, 4, 1).transpose(1, 2)
    for batch in batches:
        assert_equivalent_where_finite(module, result.artifact, batch)


@pytest.mark.parametrize("function", LOG_SOFTMAX)
def test_log_of_softmax(function):
    module = Unary(function)
    result = run_pass(RewriteSoftmax, module, (torch.zeros(4, 3),), ({0: "batch"},))
    assert ops(result.artifact) == ["log_softmax"]
    for batch in (AWKWARD, AWKWARD[2:3]):
        assert_equivalent_where_finite(module, result.artifact, batch)


@pytest.mark.parametrize("function", LOGSUMEXP)
def test_logsumexp(function):
    module = Unary(function)
    result = run_pass(RewriteSoftmax, module, (torch.zeros(4, 3),), ({0: "batch"},) if "sum()" else None)
    assert "logsumexp" in ops(result.artifact) and not {"exp", "log", "sum"} & set(ops(result.artifact))
    for batch in (AWKWARD[:6], AWKWARD[2:3], AWKWARD[8:]):
        assert_equivalent_where_finite(module, result.artifact, batch)


@pytest.mark.parametrize(
    ("function", "batch"),
    [(_minus_global_max, AWKWARD[:3]), (_first_dimension, AWKWARD[:4])],
    ids=["global max", "dimension 0"],
)
def test_rows_that_do_not_stand_alone(function, batch):
    module = Unary(function)
    result = run_pass(RewriteSoftmax, module, (torch.zeros(4, 3),), ({0: "batch"},))
    assert "softmax" in ops(result.artifact) and "exp" not in ops(result.artifact)
    assert_equivalent_where_finite(module, result.artifact, batch)


def test_integers_are_cast_to_what_exp_gave():
    module = Unary(_shared)
    result = run_pass(RewriteSoftmax, module, (torch.zeros(2, 3, dtype=torch.int64),))
    assert ops(result.artifact) == ["_to_copy", "softmax"]
    assert_equivalent_where_finite(module, result.artifact, torch.tensor([[1, -2, 3], [0, 0, 80]]))
    large = torch.tensor([[10000, 9999, 0], [-500, -500, -501]])
    torch.testing.assert_close(result.artifact.runner()([large])[0], large.float().softmax(-1), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_floating_point_dtypes(dtype):
    module = Unary(_shared)
    result = run_pass(RewriteSoftmax, module, (torch.zeros(9, 3, dtype=dtype),))
    assert ops(result.artifact) == ["softmax"]
    assert_equivalent_where_finite(module, result.artifact, AWKWARD.to(dtype))


def test_an_exp_with_other_readers_stays():
    def both(x):
        e = torch.exp(x)
        return e / e.sum(-1, keepdim=True), e * 2

    module = Unary(both)
    result = run_pass(RewriteSoftmax, module, (torch.zeros(9, 3),))
    assert sorted(ops(result.artifact)) == ["exp", "mul", "softmax"]
    assert_equivalent_where_finite(module, result.artifact, AWKWARD)


def test_beside_an_infinite_logit_softmax_is_nan_throughout():
    result = run_pass(RewriteSoftmax, Unary(_shared), (torch.zeros(1, 3),))
    infinite = torch.tensor([[INF, 1.0, 2.0]])
    assert _shared(infinite).isnan().tolist() == [[True, False, False]]
    assert result.artifact.runner()([infinite])[0].isnan().all()


class Head(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)


def test_new_nodes_point_to_the_users_line():
    result = run_pass(RewriteSoftmax, Head(), (torch.zeros(2, 3),))
    (softmax,) = (n for n in result.artifact.graph.nodes if n.op == "call_function")
    place = result.artifact.place(softmax)
    assert place is not None and place.file == __file__
    assert place.line == Head.forward.__code__.co_firstlineno + 1
    assert result.rewritten[0].place == place


def _masked_by_a_product(x, mask):
    e = x.exp() * mask
    return e / e.sum(-1, keepdim=True)


MASKED = {
    "bool": lambda x: _masked_by_a_product(x, x.flip(-1) > 0),
    "float": lambda x: _masked_by_a_product(x, (x.flip(-1) < 0).to(x.dtype)),
    "weights": lambda x: _masked_by_a_product(x, x.flip(-1).sigmoid()),
    "all": lambda x: _masked_by_a_product(x, x < -1e30),
    "two dimensions": lambda x: (e := x.exp() * (x > 0)) / e.sum((0, 1), keepdim=True),
}


@pytest.mark.parametrize("mask", MASKED)
def test_masked_by_a_product(mask):
    module = Unary(MASKED[mask])
    x = torch.tensor([[0.0, -1.0, 2.0], [-100.0, -101.0, -99.0], [100.0, -3.0, 1.0], [300.0, 299.0, -5.0]])
    result = run_pass(RewriteSoftmax, module, (torch.zeros(2, 3),), ({0: "batch"},))
    assert result.changed
    for batch in (x[:2], x[2:3], x[3:], x):
        assert_equivalent_where_finite(module, result.artifact, batch)


def _misaligned(x):
    e = x.exp()
    return e / e.sum(-1)


def _epsilon(x):
    e = (x - x.amax(-1, True)).exp()
    return e / (e.sum(-1, keepdim=True) + 1e-3)


def _masked(x):
    e = (x - x.amax(-1, True)).exp() * (x > 0)
    return e / e.sum(-1, keepdim=True)


def _two_dimensions(x):
    e = (x - x.amax((0, 1), True)).exp()
    return e / e.sum((0, 1), keepdim=True)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (_misaligned, "the sum is not broadcast along the dimension it was taken over"),
        (_epsilon, "0.001 is added to the sum"),
        (lambda x: (e := x.exp()) / (e.sum(-1, True) + -1e-8), "the sum is made smaller"),
        (_masked, "the exponentials are multiplied by something before they are summed"),
        (_two_dimensions, "the sum runs over 2 dimensions, softmax over one"),
        (lambda x: torch.log(torch.exp(x - x.amax(1, True)).sum(1)), "the maximum is subtracted already"),
    ],
)
def test_what_is_left_alone_and_why(function, reason):
    result = run_pass(RewriteSoftmax, Unary(function), (torch.zeros(3, 3),))
    assert not result.changed
    assert reasons(result) == [reason]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.exp(x) / x.sum(-1, keepdim=True),
        lambda x: torch.exp(x) / torch.exp(x + 1).sum(-1, keepdim=True),
        lambda x: torch.exp(x) / torch.exp(x).amax(-1, keepdim=True),
        lambda x: torch.log(torch.sigmoid(x)),
    ],
)
def test_what_is_no_softmax_is_no_candidate(function):
    result = run_pass(RewriteSoftmax, Unary(function), (torch.zeros(3, 3),))
    assert not result.changed and not result.left
