"""fold_feature_means."""

from __future__ import annotations

import pytest
import torch

from graphaudit.passes.fold_feature_means import FoldFeatureMeans
from tests.passes.helpers import assert_equivalent_where_finite, ops, reasons, run_pass
from tests.passes.test_remove_unread_features import Head
from tests.passes.translated import assert_runs_alike


@pytest.mark.parametrize(
    ("take", "width"),
    [
        (lambda y: y.view(-1, 3, 2).mean(1), 2),
        (lambda y: y.view(y.shape[0], 2, 3).sum(-1), 2),
        (lambda y: y.mean(-1, keepdim=True), 1),
    ],
)
@pytest.mark.parametrize("bias", [True, False])
def test_quantiles_are_averaged_in_the_weights(take, width, bias):
    module = Head(lambda y: take(y).tanh(), bias)
    result = run_pass(FoldFeatureMeans, module, (torch.randn(3, 4),), ({0: "batch"},))
    assert ops(result.artifact) == ["linear", "tanh"]
    assert next(n for n in result.artifact.graph.nodes if n.op == "call_function").meta["val"].shape[-1] == width
    for x in (torch.randn(5, 4), torch.zeros(1, 4), 1e5 * torch.randn(2, 4), torch.full((1, 4), torch.inf)):
        assert_equivalent_where_finite(module, result.artifact, x)
    assert_runs_alike(result.artifact, (torch.randn(3, 4),), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("take", "reason"),
    [
        (lambda y: y.mean(0), "other dimensions"),
        (lambda y: y.mean(-1), "are not one dimension"),
        (lambda y: y.view(3, 1, 2, 3).mean(-1), "are not one dimension"),
        (lambda y: y.view(9, 2).mean(-1), "mixes the features"),
        (lambda y: (y.mean(-1, keepdim=True), y), "read elsewhere"),
        (lambda y: y.mean(-1, keepdim=True, dtype=torch.float64), "not computed in float32"),
    ],
)
def test_left_alone(take, reason):
    result = run_pass(FoldFeatureMeans, Head(take), (torch.randn(3, 4),))
    assert not result.changed and reason in reasons(result)[0]


@pytest.mark.parametrize("take", [lambda y: y.tanh().mean(-1), lambda y: y.amax(-1)])
def test_others_are_no_candidates(take):
    result = run_pass(FoldFeatureMeans, Head(take), (torch.randn(3, 4),))
    assert not result.changed and not result.left
