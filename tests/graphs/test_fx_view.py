"""The view of captured programs, on real exports."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from graphaudit.graphs.fx_view import operator_name, view_program
from tests.helpers import make_program


class Actor(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 6)
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, obs: torch.Tensor, legal: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.body(obs)
        left, right = hidden.chunk(2, -1)
        logits = torch.cat([left * self.scale, right], -1).masked_fill(~legal, -1e4)
        return torch.softmax(logits, -1), logits.max(-1).indices


@pytest.fixture(scope="module")
def view():
    args = (torch.zeros(2, 4), torch.ones(2, 6, dtype=torch.bool))
    _, program = make_program(Actor(), args, ({0: "batch"}, {0: "batch"}))
    return view_program(program)


def test_inputs_and_outputs_are_those_of_the_interface(view):
    assert [(v.name, v.dtype, v.shape) for v in view.inputs] == [
        ("obs", "float32", ("batch", 4)),
        ("legal", "bool", ("batch", 6)),
    ]
    assert [(v.dtype, v.shape) for v in view.outputs] == [("float32", ("batch", 6)), ("int64", ("batch",))]


def test_attributes_carry_schema_names_and_defaults(view):
    softmax = next(view.select("aten.softmax"))
    assert (softmax.op, softmax.domain) == ("aten.softmax.int", "aten")
    assert softmax.attributes == {"dim": -1, "dtype": None}
    fill = next(view.select("aten.masked_fill"))
    assert fill.op == "aten.masked_fill.Scalar" and fill.attributes == {"value": -1e4}
    assert [v.dtype for v in fill.inputs] == ["float32", "bool"]


def test_constants_can_be_read(view):
    linear = next(view.select("aten.linear"))
    assert [v.is_constant for v in linear.inputs] == [False, True, True]
    assert linear.inputs[1].array.shape == (6, 4)
    scaled = next(view.select("aten.mul"))
    np.testing.assert_array_equal(scaled.inputs[1].array, [1.0, 2.0, 3.0])


def test_each_part_of_a_tuple_is_a_value_of_its_own(view):
    largest = next(view.select("aten.max"))
    taken = next(n for n in view.select("operator.getitem") if view.producer(n.inputs[0]) is largest)
    assert len(largest.outputs) == 2
    assert taken.inputs[0] == largest.outputs[1] and taken.attributes == {"index": 1}
    assert view.consumers(largest.outputs[0]) == ()


def test_lists_of_tensors_are_flat_inputs(view):
    cat = next(view.select("aten.cat"))
    assert len(cat.inputs) == 2 and cat.attributes == {"dim": -1}


def test_places_are_the_users_lines(view):
    softmax = next(view.select("aten.softmax"))
    assert softmax.place is not None and softmax.place.file == __file__
    assert "torch.softmax" in open(__file__).read().splitlines()[softmax.place.line - 1]  # noqa: PTH123, SIM115


def test_an_omitted_optional_tensor_is_none():
    class Attend(nn.Module):
        def forward(self, q: torch.Tensor) -> torch.Tensor:
            return nn.functional.scaled_dot_product_attention(q, q, q)

    _, program = make_program(Attend(), (torch.zeros(1, 2, 4),))
    node = next(view_program(program).select("aten.scaled_dot_product_attention"))
    assert [v is None for v in node.inputs] == [False, False, False, True]


def test_bfloat16_constants_are_read_exactly():
    module = nn.Linear(3, 2).to(torch.bfloat16)
    _, program = make_program(module, (torch.zeros(1, 3, dtype=torch.bfloat16),))
    weight = next(view_program(program).select("aten.linear")).inputs[1]
    assert weight.dtype == "bfloat16"
    np.testing.assert_array_equal(weight.array, module.weight.detach().float().numpy())


class Branch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.careful, self.fast = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda y: torch.tanh(self.careful(y)), lambda y: self.fast(y), (x,))


class Loop(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        (result,) = torch.while_loop(lambda y: y.sum() < 100, lambda y: (y * 2 + 1,), (x,))
        return result


def test_branches_are_subgraphs_over_the_outer_values():
    _, program = make_program(Branch(), (torch.ones(2, 3),))
    view = view_program(program)
    cond = next(view.select("torch.cond"))
    assert cond.domain == "torch" and cond.outputs[0].shape == (2, 3)
    linears = list(view.select("aten.linear"))
    assert [n.graph for n in linears] == [f"{cond.name}/true", f"{cond.name}/false"]
    assert all(n.inputs[0] == view.inputs[0] and n.inputs[1].is_constant for n in linears)
    names = [n.name for n in view.nodes]
    assert len(set(names)) == len(names)
    assert names.index(linears[1].name) < names.index(cond.name)


def test_carried_values_of_a_loop_are_not_the_initial_ones():
    _, program = make_program(Loop(), (torch.ones(2, 3),))
    view = view_program(program)
    loop = next(view.select("torch.while_loop"))
    double = next(view.select("aten.mul"))
    assert double.graph == f"{loop.name}/body"
    assert double.inputs[0] != view.inputs[0] and double.inputs[0].shape == (2, 3)


def test_operator_names_of_other_callables():
    import operator

    assert operator_name(operator.add) == ("operator.add", "operator")
    assert operator_name(torch.sym_max) == ("torch.sym_max", "torch")
