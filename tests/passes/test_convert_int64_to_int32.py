"""convert_int64_to_int32 narrows what Ascend would run on the AI CPU, where no value can overflow."""

from __future__ import annotations

import pytest
import torch

from graphaudit.passes.convert_int64_to_int32 import ConvertInt64ToInt32
from graphaudit.rulebook import load_rulebook
from tests.passes.helpers import Unary, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike

ASCEND = load_rulebook("ascend-310p").target
X = torch.tensor([[-2.0, 0.0, 3.0, 1.0], [5.0, -0.0, 1e9, -1e9]])
BATCH = ({0: "batch"},)

NARROWED = {
    "a mask": lambda x: (x > 0).cumsum(-1),
    "its integers": lambda x: (x > 0).long().cumsum(1) * 2,
    "a clamp": lambda x: x.clamp(-3, 7).long().cumsum(-1),
    "places of maxima": lambda x: x.unsqueeze(1).expand(-1, 3, -1).argmax(-1).cumsum(1),
    "powers of what is clamped": lambda x: x.clamp(-9, 9).long() ** 3,
}
LEFT = {
    "a batch of any size": lambda x: (x > 0).cumsum(0),
    "integers of any size": lambda x: x.long().cumsum(-1),
    "powers beyond int32": lambda x: x.clamp(-90, 90).long() ** 6,
    "sums beyond int32": lambda x: (x.clamp(0, 7).long() * 200_000_000).cumsum(-1),
}


@pytest.mark.parametrize("case", NARROWED)
def test_narrowed_where_the_range_is_proven(case):
    module = Unary(NARROWED[case])
    result = run_pass(ConvertInt64ToInt32, module, (X,), BATCH, ASCEND)
    assert len(result.rewritten) == 1 and not result.left
    got = result.artifact.runner()([X])[0]
    assert got.dtype == torch.int64 and torch.equal(got, module(X))
    assert_runs_alike(result.artifact, (X,))


@pytest.mark.parametrize("case", LEFT)
def test_left_alone_where_a_value_could_overflow(case):
    result = run_pass(ConvertInt64ToInt32, Unary(LEFT[case]), (X,), BATCH, ASCEND)
    assert not result.changed
    assert reasons(result) == ["no bound within int32 is known for its values"]


def test_floats_and_targets_with_a_unit_for_int64_are_not_meant():
    floats = run_pass(ConvertInt64ToInt32, Unary(lambda x: x.cumsum(-1) + x**3), (X,), BATCH, ASCEND)
    assert not floats.changed and not floats.left
    module = Unary(NARROWED["a mask"])
    for target in ("onnxruntime", "ascend-910b"):
        result = run_pass(ConvertInt64ToInt32, module, (X,), BATCH, load_rulebook(target).target)
        assert not result.changed and "cumsum" in ops(result.artifact)
