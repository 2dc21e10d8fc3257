"""Translation against the real exporter; what comes out runs in the real ONNX Runtime."""

from __future__ import annotations

import logging

import onnx
import pytest
import torch
from torch import nn

from graphaudit.export.translate import ExportRefused, to_onnx
from graphaudit.runtimes.onnxruntime import runner
from tests.export.targets import ONNXRUNTIME, at_opset
from tests.helpers import make_program
from tests.passes.helpers import Unary


class Awkward(nn.Module):
    """Dict in and out, a flag, an unused input, aliased outputs, a weight and an input among the results."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.output = nn.Parameter(torch.arange(3.0))

    def forward(self, obs, deterministic=True, unused=None):
        a = self.layer(obs["x"]) + self.output
        return {
            "linear": a,
            "x": obs["x"],
            "b": (obs["y"] + 1, None),
            "again": a,
            "weight": self.layer.weight,
            "double": torch.cat([a, a], 0),
            "output": a.exp(),
        }


def awkward():
    obs = {"x": torch.randn(3, 4), "y": torch.ones(3, 2)}
    return make_program(Awkward(), (obs, True, torch.ones(2)), [{"x": {0: "batch"}, "y": {0: "batch"}}, None, None])


def names(values):
    return [v.name for v in values]


def shape(value):
    return [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]


def test_names_order_and_dimensions_are_the_interface_s():
    policy, program = awkward()
    graph = to_onnx(program, ONNXRUNTIME).proto.graph
    assert names(graph.input) == [s.name for s in policy.interface.inputs] == ["obs_x", "obs_y", "unused"]
    assert names(graph.output) == [s.name for s in policy.interface.outputs]
    assert shape(graph.input[0]) == ["batch", 4]
    assert shape(graph.output[names(graph.output).index("double")]) == ["2*batch", 3]


@pytest.mark.parametrize("opset", [17, 18, 21])
def test_aliased_constant_and_passed_through_outputs_run(opset):
    policy, program = awkward()
    model = to_onnx(program, at_opset(opset))
    onnx.checker.check_model(model.proto, full_check=True)
    inputs = [torch.randn(5, 4), torch.randn(5, 2), torch.ones(2)]
    expected = policy.interface.flatten_result(policy.working({"x": inputs[0], "y": inputs[1]}, True, inputs[2]))
    assert model.opset == opset
    for got, want in zip(runner(model)(inputs), expected, strict=True):
        torch.testing.assert_close(got, want)


def test_the_program_stays_as_it_was():
    _, program = awkward()
    before = str(program.graph), str(program.exported.graph_signature)
    to_onnx(program, ONNXRUNTIME)
    assert (str(program.graph), str(program.exported.graph_signature)) == before


def test_nodes_have_source_places_and_the_model_names_no_host_path():
    _, program = awkward()
    model = to_onnx(program, ONNXRUNTIME)
    assert model.places["output"].file == __file__
    assert __file__.encode() not in model.proto.SerializeToString()


def test_every_untranslatable_node_is_listed_with_its_line():
    class Policy(nn.Module):
        def forward(self, x):
            y = torch.lgamma(x)
            return torch.special.i0(y), torch.linalg.svd(x)[1]

    _, program = make_program(Policy(), (torch.randn(3, 3),))
    with pytest.raises(ExportRefused) as refusal:
        to_onnx(program, ONNXRUNTIME)
    missing = refusal.value.missing
    first = Policy.forward.__code__.co_firstlineno
    assert {(m.op, m.place.line - first) for m in missing} == {
        ("prims.lgamma.default", 1),
        ("prims.bessel_i0.default", 2),
        ("aten._linalg_svd.default", 2),
    }
    assert "\n" not in refusal.value.reason


def test_an_operator_that_is_translated_in_part_is_written_in_simpler_ones():
    """torch translates scaled_dot_product_attention in four dimensions only."""

    class Policy(nn.Module):
        def forward(self, q):
            return nn.functional.scaled_dot_product_attention(q, q, q)

    policy, program = make_program(Policy(), (torch.randn(2, 5, 8),), [{0: "batch"}])
    q = torch.randn(3, 5, 8)
    torch.testing.assert_close(runner(to_onnx(program, ONNXRUNTIME))([q])[0], policy.working(q))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tuple(x.sort(stable=True)),
        lambda x: tuple(torch.sort(x, dim=0, descending=True, stable=True)),
        lambda x: torch.argsort(x, dim=-1, descending=True, stable=True),
    ],
)
def test_a_stable_sort_stays_stable(function):
    ties = torch.tensor([[1.0, 0.0, 1.0, -0.0, 1.0, 0.0] * 5, [2.0, 1.0, 2.0, float("inf"), 1.0, 2.0] * 5])
    _, program = make_program(Unary(function), (ties,))
    for got, want in zip(runner(to_onnx(program, ONNXRUNTIME))([ties]), program.runner()([ties]), strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize("epsilon", [1e-6, 1e-8, 1e-12, 0.0])
def test_a_small_epsilon_survives_the_exporter_s_optimiser(epsilon):
    _, program = make_program(
        Unary(lambda x: x / (x.sum(-1, keepdim=True) + epsilon) * (1 - 4e-6)), (torch.ones(2, 3),)
    )
    model = to_onnx(program, ONNXRUNTIME)
    assert [n.op_type for n in model.proto.graph.node] == ["ReduceSum", *["Add"] * (epsilon > 0), "Div", "Mul"]
    zero = torch.zeros(2, 3)
    torch.testing.assert_close(runner(model)([zero])[0], program.runner()([zero])[0], equal_nan=True)


@pytest.mark.parametrize(
    ("function", "x", "reason"),
    [
        (torch.view_as_complex, torch.randn(3, 2), "output is complex64"),
        (torch.abs, torch.randn(3, dtype=torch.cfloat), "x is complex64"),
    ],
)
def test_complex_interfaces_are_refused_at_their_line(function, x, reason):
    class Policy(nn.Module):
        def forward(self, x):
            return function(x)

    _, program = make_program(Policy(), (x,))
    with pytest.raises(ExportRefused, match=f"{reason}.*; hand over torch.view_as_real of it") as refused:
        to_onnx(program, ONNXRUNTIME)
    place = refused.value.place
    assert place is not None and place.file == __file__ and place.line == Policy.forward.__code__.co_firstlineno + 1


def test_branches_become_if_nodes_without_functions():
    class Policy(nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda v: v.tanh(), lambda v: v * 2, (x,))

    policy, program = make_program(Policy(), (torch.randn(2, 3),))
    model = to_onnx(program, ONNXRUNTIME)
    assert not model.proto.functions
    assert [i.domain for i in model.proto.opset_import] == [""]
    for x in (torch.ones(2, 3), -torch.ones(2, 3)):
        torch.testing.assert_close(runner(model)([x])[0], policy.working(x))


def test_nothing_reaches_the_terminal(capfd, caplog):
    _, program = awkward()
    capfd.readouterr()
    with caplog.at_level(logging.WARNING):
        to_onnx(program, at_opset(17))
    assert capfd.readouterr() == ("", "")
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert not logging.getLogger("torch.onnx").disabled


@pytest.mark.parametrize("function", [lambda x: x * 0.1, lambda x: x + 0.1, lambda x: x / 0.1])
def test_numbers_beside_doubles_are_doubles(function):
    x = torch.tensor([0.1, 0.2, 0.3], dtype=torch.float64)
    _, program = make_program(Unary(function), (x,))
    (got,) = runner(to_onnx(program, ONNXRUNTIME))([x])
    torch.testing.assert_close(got, function(x), rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("bounds", [(0.05, 2), (0, 0.5), (-1, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_a_clamp_between_an_integer_and_a_float(bounds, dtype):
    x = torch.tensor([-3, 0, 1, 4]).to(dtype)
    _, program = make_program(Unary(lambda x: x.clamp(*bounds)), (x,))
    (got,) = runner(to_onnx(program, ONNXRUNTIME))([x])
    torch.testing.assert_close(got, x.clamp(*bounds))
