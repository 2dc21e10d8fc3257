"""decompose_unsupported_operators finds a way to ONNX, or says which ones it tried."""

from __future__ import annotations

import pytest
import torch

from graphaudit.passes.decompose_unsupported_operators import DecomposeUnsupportedOperators
from tests.passes.helpers import Unary, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike

X = torch.tensor([[0.3, 1.0, 2.5], [7.0, 0.9, 40.0]])
BATCH = ({0: "batch"},)


def rewritten(function, x=X):
    module = Unary(function)
    result = run_pass(DecomposeUnsupportedOperators, module, (x,), BATCH)
    return module, result


def test_what_torchs_decomposition_leaves_is_made_legal_by_passes_of_the_library():
    module, result = rewritten(lambda x: torch.mvlgamma(x + 2, 3))  # torch writes it with lgamma
    (site,) = result.rewritten
    assert (site.conversion.operator, site.conversion.way) == ("aten.mvlgamma.default", "torch's decomposition")
    assert not {"mvlgamma", "lgamma"} & set(ops(result.artifact))
    torch.testing.assert_close(result.artifact.runner()([X])[0], module(X), rtol=1e-5, atol=1e-5)
    assert_runs_alike(result.artifact, (X,))


def test_what_a_pass_of_the_library_knows_is_written_by_it():
    _, result = rewritten(torch.lgamma)
    assert [s.conversion.way for s in result.rewritten] == ["decompose_special_functions"]


def test_a_way_that_fails_leaves_the_graph_as_it_was_and_is_named():
    _, result = rewritten(lambda x: torch.special.i1(x) + 1)
    assert not result.changed and ops(result.artifact) == ["special_i1", "add"]
    (site,) = result.left
    assert site.conversion.lacks == "torch has no translation of it to ONNX opset 18"
    assert reasons(result) == [
        "tried: torch's decomposition → leaves prims.bessel_i1.default, which has no translation either"
    ]


def test_an_operator_that_nothing_is_known_of_says_so():
    _, result = rewritten(lambda x: torch.special.bessel_y0(x))
    assert reasons(result) == ["tried: nothing, since no way to write it is known"]


@pytest.mark.parametrize(
    "function", [torch.relu, torch.logit, torch.special.entr, lambda x: torch.nn.functional.layer_norm(x, (3,))]
)
def test_what_torch_translates_by_itself_stays(function):
    _, result = rewritten(function)
    assert not result.changed and not result.left


def test_a_target_of_aten_graphs_needs_no_translation():
    from graphaudit.rulebook import load_rulebook

    module = Unary(torch.lgamma)
    result = run_pass(DecomposeUnsupportedOperators, module, (X,), BATCH, load_rulebook("torch-npu").target)
    assert not result.changed and not result.left


def test_what_reads_no_tensor_becomes_its_value():
    module, result = rewritten(lambda x: x * torch.fft.rfftfreq(5))
    assert [s.conversion.way for s in result.rewritten] == ["its value"]
    assert torch.equal(result.artifact.runner()([X])[0], module(X))
