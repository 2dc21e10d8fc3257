"""Asking for an operator without a model, comparing target files, and the matrix of all operators."""

from __future__ import annotations

import json
from importlib import resources

import pytest

from graphaudit.errors import RuleError, TargetError
from graphaudit.report.rulebook import CELLS, markdown_matrix
from graphaudit.rulebook import Support, targets
from graphaudit.rulebook.compare import compare
from graphaudit.rulebook.conditions import When
from graphaudit.rulebook.query import look_up, standard_operators


@pytest.mark.parametrize(
    ("op", "target", "opset", "dtype", "support", "said"),
    [
        ("Softmax", "onnxruntime", None, None, Support.SUPPORTED, ""),
        ("Where", "onnxruntime", None, "bool", Support.UNSUPPORTED, "no CPU kernel for bool"),
        ("Sin", "onnxruntime", None, "float16", Support.LIMITED, "computed in float32"),
        ("Gelu", "onnx", None, None, Support.UNSUPPORTED, "exists from opset 20 on"),
        ("Gelu", "onnx", 20, None, Support.SUPPORTED, ""),
        ("Cast", "onnx", None, None, Support.SUPPORTED, ""),
        ("CumSum", "ascend-310p", None, "int64", Support.LIMITED, "AI CPU"),
        ("Loop", "ascend-950", None, None, Support.UNSUPPORTED, "no entry for Loop"),
        ("Transpose", "ascend-310p", None, None, Support.LIMITED, "perm must be given"),
        ("Unsqueeze", "tensorrt", None, None, Support.LIMITED, "axes must be a constant"),
        ("Exp", "onnx", None, "int64", Support.UNSUPPORTED, "takes no int64 for input"),
        ("Exp", "tensorrt", None, "int64", Support.UNKNOWN, "no kernel of Exp for int64"),
        ("npu::NPUGru", "ascend-310p", None, None, Support.SUPPORTED, ""),
        ("com.microsoft::Gelu", "onnxruntime", None, None, None, ""),
    ],
)
def test_one_operator(op, target, opset, dtype, support, said) -> None:
    if support is None:  # a domain of which neither the standard nor the table knows an operator
        with pytest.raises(RuleError, match="knows an operator"):
            look_up(op, [target])
        return
    (answer,) = look_up(op, [target], opset, dtype)
    assert answer.support is support, answer
    assert said in "; ".join((*answer.reasons, answer.engine or ""))
    assert answer.evidence is not None and answer.evidence.source


def test_conditions_are_named_with_their_sources() -> None:
    (answer,) = look_up("GRU", ["ascend-310p"])
    assert answer.opsets == "8 to 18" and answer.becomes == ("CommonGRU",)
    ignored = {c.rule: c for c in answer.conditions}["linear_before_reset is never read"]
    assert (ignored.effect, ignored.when, ignored.date) == ("differs", "unless it is 0", "2026-11-29")
    assert "gru_onnx_plugin.cpp@" in ignored.source


@pytest.mark.parametrize(
    ("when", "words"),
    [
        (When(opsets=(11, 11)), "at opset 11"),
        (When(opsets=(8, 17), attribute="axes", among=(None,)), "at opset 8 to 17, where axes is not set"),
        (When(attribute="mode", besides=("nearest", "linear")), "where mode is none of 'nearest' or 'linear'"),
        (When(attribute="seed", besides=()), "where seed is set"),
        (When(attribute="dilations", above=1), "where dilations is above 1"),
        (When(omitted=(1, 2)), "without input 1 and 2"),
        (When(output=1), "with output 1"),
        (When(input=1, variable=True), "with input 1 that is no constant"),
        (When(input=0, rank_outside=(4, 5)), "with input 0, whose rank is outside 4 to 5"),
        (When(dtypes=("bool",)), "in bool"),
    ],
)
def test_conditions_in_words(when: When, words: str) -> None:
    assert when.spelled() == words


def test_questions_that_make_no_sense_are_refused() -> None:
    with pytest.raises(RuleError, match="'Softmx'") as caught:
        look_up("Softmx", ["onnx"])
    assert "Softmax" in caught.value.remedy
    with pytest.raises(RuleError, match="no dtype 'float'"):
        look_up("Softmax", ["onnx"], dtype="float")
    with pytest.raises(TargetError):
        look_up("Softmax", ["nowhere"])


def test_the_matrix_has_every_operator_and_every_target() -> None:
    names = [t.name for t in targets()]
    ops = standard_operators()
    assert "Softmax" in ops and "Upsample" not in ops  # deprecated
    text = markdown_matrix([look_up(op, names) for op in ops])
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == len(ops) + 3
    assert all(line.count("|") == len(names) + 2 for line in lines)
    cells = {cell.strip() for line in lines[2:-1] for cell in line.split("|")[2:-1]}
    assert cells == set(CELLS.values())


def test_a_target_does_not_differ_from_itself() -> None:
    assert compare("ascend-310p", "ascend-310p") == []


def test_what_differs_between_two_chips() -> None:
    changes = {c.where: c for c in compare("ascend-310p", "ascend-910b")}
    matmul = changes["ops.MatMul.engines.AI Core"]
    assert (matmul.kind, matmul.old, matmul.new) == ("changed", ("float16",), ("float16", "float32"))
    assert changes["ops.Gemm.engines"].kind == "added"
    assert changes["ops.Cast.limits"].kind == "removed"


def test_a_file_is_compared_with_a_target(tmp_path) -> None:
    source = json.loads((resources.files("graphaudit.rules.targets") / "tensorrt.json").read_bytes())
    source["ops"]["Relu"]["opsets"] = [[9, 21]]
    del source["ops"]["Abs"]
    file = tmp_path / "tensorrt.json"
    file.write_text(json.dumps(source))
    assert [(c.kind, c.where) for c in compare("tensorrt", str(file))] == [
        ("removed", "ops.Abs"),
        ("changed", "ops.Relu.opsets"),
    ]
    with pytest.raises(TargetError):
        compare("nowhere", "tensorrt")
    with pytest.raises(OSError):
        compare("tensorrt", str(tmp_path / "no.json"))
