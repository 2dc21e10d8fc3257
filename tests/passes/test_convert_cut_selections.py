"""convert_cut_selections: the first k of a selection, with enough, with just enough, and with fewer."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphaudit.passes.convert_cut_selections import ConvertCutSelections
from graphaudit.rulebook.target import Target
from tests.export.targets import ONNXRUNTIME
from tests.passes.helpers import Function, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike

FIXED = Target(name="fixed", summary="fixed shapes", opset=18, max_opset=23, dynamic_shapes=False)
INF, NAN = float("inf"), float("nan")
X = torch.tensor([[0.0, -1.0, 2.0], [NAN, 3e38, -3e38], [INF, -INF, 1.0], [5.0, 6.0, 7.0]])
COUNTS = [torch.tensor(counts) for counts in ([1, 2, 3, 0], [4, 0, 0, 0], [0, 0, 0, 9], [1, 1, 1, 1], [0, 1, 0, 2])]
ROWS = [counts > 0 for counts in COUNTS]
ELEMENTS = [(torch.arange(12).view(4, 3) % step == 0) for step in (1, 2, 3, 5, 12)]


class Two(Function):
    """A policy of two tensors."""

    def forward(self, x: torch.Tensor, chosen: torch.Tensor):
        return self.function(x, chosen)


CALLS = {
    "repeated rows": (lambda x, c: x.repeat_interleave(c, 0)[:4], COUNTS),
    "repeated columns": (lambda x, c: torch.repeat_interleave(x.T, c, dim=-1)[:, :4] * 2, COUNTS),
    "repeated elements": (lambda x, c: x[:, 0].repeat_interleave(c)[:4], COUNTS),
    "one count": (lambda x, c: x.repeat_interleave(c[:1], dim=0)[:5], COUNTS),
    "rows of a mask": (lambda x, m: x[m][:2], ROWS),
    "elements of a mask": (lambda x, m: x[m][:3].cumsum(0), ELEMENTS),
    "masked_select": (lambda x, m: x.masked_select(m)[:3], ELEMENTS),
    "masked_select of columns": (lambda x, m: x.T.masked_select(m)[:4], ROWS),
    "nonzero": (lambda x, m: x[m.nonzero()[:2, 0]], ROWS),
    "nonzero of two dimensions": (lambda x, m: m.nonzero()[:3] + 1, ELEMENTS),
}


@pytest.mark.parametrize("call", CALLS)
def test_what_is_selected_and_where_there_are_fewer(call):
    function, given = CALLS[call]
    module = Two(function)
    program = run_pass(ConvertCutSelections, module, (X, given[0]), target=FIXED).artifact
    assert not {"repeat_interleave", "masked_select", "nonzero"} & set(ops(program))
    fixed = tuple(program.graph.output_node().args[0][0].meta["val"].shape)  # type: ignore[index,union-attr]
    fewer = []
    for chosen in given:
        wanted, (result, guard) = module(X, chosen), program.runner()([X, chosen])
        fewer.append(bool(guard))
        assert bool(guard) == (tuple(wanted.shape) != fixed)
        if not guard:
            torch.testing.assert_close(result, wanted, rtol=0, atol=0, equal_nan=True)
    assert set(fewer) == {False, True}
    assert_runs_alike(program, *((X, chosen) for chosen in given), without="NonZero")


def test_a_batch_that_varies():
    module = Two(lambda x, c: x.repeat_interleave(c, 0)[:4])
    program = run_pass(ConvertCutSelections, module, (X, COUNTS[0]), ({0: "options"}, {0: "options"}), FIXED).artifact
    result, guard = program.runner()([X[:1], torch.tensor([5])])
    assert not guard
    torch.testing.assert_close(result, X[:1].expand(4, 3))


def _counted(x: torch.Tensor, mask: torch.Tensor):
    rows = x[mask]
    return rows[:2], rows.shape[0] + x.sum()


@pytest.mark.parametrize(
    ("function", "chosen", "reason"),
    [
        (lambda x, m: x[m], ROWS[0], "it is not a fixed number of the selected that is read"),
        (lambda x, m: x[m][1:3], ROWS[0], "it is not a fixed number of the selected that is read"),
        (lambda x, m: x[m][:-1], ROWS[0], "it is not a fixed number of the selected that is read"),
        (_counted, ROWS[0], "how many are selected is read"),
        (lambda x, m: x[:, m[:3]][:, :2], ROWS[0], "it is not a fixed number of the selected that is read"),
        (lambda x, m: x.sum() + x[:, m[:3]][:2].sum(), ROWS[0], "the mask is not the only index"),
    ],
)
def test_left_alone(function, chosen, reason):
    result = run_pass(ConvertCutSelections, Two(function), (X, chosen), target=FIXED)
    assert not result.changed
    assert reason in reasons(result)[0]


def test_left_alone_where_shapes_may_depend_on_data():
    assert ConvertCutSelections.suits(FIXED) and not ConvertCutSelections.suits(ONNXRUNTIME)


class Plan(nn.Module):
    """Options repeated for as many steps as they last, up to a horizon."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.head = nn.Linear(3, 2)

    def forward(self, options: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
        return self.head(torch.repeat_interleave(options, steps, dim=0)[:6]).tanh()


def test_a_policy():
    x, counts = torch.randn(3, 3), torch.tensor([2, 1, 4])
    module = Plan().eval()
    program = run_pass(ConvertCutSelections, module, (x, counts), target=FIXED).artifact
    assert program.interface.guards[0].condition.endswith(
        "takes 6 of a selection; a guard output is true where it has fewer"
    )
    result, guard = program.runner()([x, counts])
    assert not guard
    torch.testing.assert_close(result, module(x, counts))
