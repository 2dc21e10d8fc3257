"""Which values can be NaN."""

from __future__ import annotations

import pytest
import torch

from graphaudit.graphs.fx_view import view_program
from graphaudit.graphs.nans import Nans
from tests.helpers import make_program
from tests.passes.helpers import Unary

REACHED = {
    "a tested input": (lambda x: (x.isnan(), x * 2), [1]),
    "compared with itself": (lambda x: (x != x, x.relu()), [1]),
    "cleaned": (lambda x: (torch.nan_to_num(x), x.sum(-1)), [1]),
    "masked": (lambda x: (x.masked_fill(x.isnan(), 0.0), torch.where(x.isfinite(), x, torch.zeros(3))), []),
    "masked the wrong way round": (lambda x: torch.where(x.isnan(), x, torch.zeros(3)), [0]),
    "0 / 0": (lambda x: (x / x.norm(), x / (x.norm() + 1), x / x.abs().clamp(min=1e-3)), [0]),
    "integers": (lambda x: (x.isnan(), x.argmax(-1)), []),
    "nothing said": (lambda x: (x.log(), x / 2), []),
}


@pytest.mark.parametrize("name", REACHED)
def test_outputs_that_nan_can_reach(name):
    function, reached = REACHED[name]
    view = view_program(make_program(Unary(function), (torch.ones(2, 3),))[1])
    nans = Nans(view)
    assert [i for i, value in enumerate(view.outputs) if nans.reach(value)] == reached
