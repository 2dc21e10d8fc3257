"""The Ascend targets: single facts, and the table against an excerpt of the survey that it was made from."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from onnx import defs

from graphaudit.graphs.onnx_view import attribute_value
from graphaudit.graphs.view import Node, Value
from graphaudit.rulebook import Support, load_rulebook
from graphaudit.rulebook.conditions import same
from graphaudit.rulebook.rulebook import _read
from tests.rulebook.models import make_node

CHIPS = ("ascend-310p", "ascend-910b")
EXCERPT = Path(__file__).parent / "data" / "ascend_ops_excerpt.csv"


@pytest.mark.parametrize("chip", CHIPS)
def test_the_target_says_what_atc_does(chip):
    target = load_rulebook(chip).target
    assert (target.opset, target.max_opset, target.compute_dtype) == (18, 18, "float16")
    assert (target.loops, target.branches, target.functions, target.dynamic_shapes) == (False, True, False, False)
    for name in ("opset", "max_opset", "compute_dtype", "loops", "branches", "functions", "dynamic_shapes"):
        assert load_rulebook(chip).evidence(name).source


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("node", "support", "reason"),
    [
        (make_node("Relu"), Support.SUPPORTED, ""),
        (make_node("If", ("bool",)), Support.SUPPORTED, ""),
        (make_node("Constant", ()), Support.SUPPORTED, ""),
        (make_node("Constant", (), opset=21), Support.SUPPORTED, ""),
        (make_node("Relu", opset=19), Support.UNSUPPORTED, "at opset 8 to 18 only, the model has opset 19"),
        (make_node("Loop", ("int64", "bool")), Support.UNSUPPORTED, "no entry for Loop"),
        (make_node("Scan"), Support.UNSUPPORTED, "no entry for Scan"),
        (make_node("RNN", ("float32",) * 3), Support.UNSUPPORTED, "no entry for RNN"),
        (make_node("ReduceL2", ("float32", "int64")), Support.UNSUPPORTED, "8 to 17 only"),
        (make_node("ReduceL2", opset=17), Support.SUPPORTED, ""),
        (make_node("GridSample", ("float32",) * 2, opset=13), Support.UNSUPPORTED, "at opset 11, 16 to 18 only"),
        (make_node("GridSample", ("float32",) * 2, opset=16), Support.SUPPORTED, ""),
        (make_node("ArgMax", outputs=("int64",), select_last_index=1), Support.UNSUPPORTED, "must be 0"),
        (make_node("ReduceMax", ("float32",), noop_with_empty_axes=1), Support.UNSUPPORTED, "must be 0"),
        (make_node("Transpose"), Support.UNSUPPORTED, "perm must be given"),
        (make_node("Transpose", perm=[1, 0]), Support.SUPPORTED, ""),
        (make_node("Clip"), Support.UNSUPPORTED, "at least one of min and max"),
        (make_node("Clip", ("float32", None, "float32")), Support.SUPPORTED, ""),
        (make_node("NPUGru", domain="npu", opset=1), Support.SUPPORTED, ""),
        (make_node("NPUGru", domain="npu", opset=2), Support.UNSUPPORTED, "npu::NPUGru is taken at opset 1 only"),
        (make_node("Fused", domain="mylib", opset=1), Support.UNKNOWN, "no rule for mylib::Fused"),
        (make_node("TfIdfVectorizer"), Support.LIMITED, "not public"),
        (make_node("Relu", opset=None), Support.UNKNOWN, "imports no opset"),
    ],
)
def test_what_all_chips_share(chip, node, support, reason):
    answer = load_rulebook(chip).answer(node)
    assert answer.support is support, answer
    assert reason in "; ".join(answer.reasons)
    assert not answer.hazards
    if support is not Support.UNKNOWN:
        assert answer.evidence.source
        assert answer.evidence.date == "2026-11-29"


GRU = ("float32",) * 3


@pytest.mark.parametrize(
    ("node", "hazard"),
    [
        (
            make_node("GRU", GRU, linear_before_reset=1, hidden_size=4),
            "linear_before_reset is never read, and here it is 1",
        ),
        (make_node("GRU", GRU, activations=["Relu", "Tanh"]), "activations is never read"),
        (make_node("GRU", GRU, layout=1), "layout is never read"),
        (make_node("LSTM", GRU, clip=1.0), "clip is never read"),
        (make_node("Shape", outputs=("int64",), start=1), "start is never read"),
        (make_node("Mod", ("float32",) * 2, fmod=1), "fmod is never read"),
        (make_node("AveragePool", kernel_shape=[2], auto_pad="SAME_LOWER"), "auto_pad is never read"),
        (
            make_node("Resize", mode="nearest", nearest_mode="floor"),
            "nearest_mode is never read, and here it is 'floor'",
        ),
        (make_node("Resize"), "nearest_mode is never read, and here it is 'round_prefer_floor'"),
        (make_node("Unique", axis=0), "axis is never read"),
        (make_node("ScatterND", ("float32", "int64", "float32"), reduction="add"), "reduction is never read"),
    ],
)
def test_an_attribute_that_is_never_read_is_a_hazard_when_it_is_not_harmless(node, hazard):
    answer = load_rulebook("ascend-310p").answer(node)
    assert answer.support is Support.LIMITED
    assert any(hazard in h for h in answer.hazards), answer


@pytest.mark.parametrize(
    "node",
    [
        make_node("GRU", GRU, linear_before_reset=0, activations=["Sigmoid", "Tanh"], hidden_size=4),
        make_node("LSTM", GRU, activations=["Sigmoid", "Tanh", "Tanh"] * 2, direction="bidirectional"),
        make_node("Shape", outputs=("int64",), start=0),
        make_node("Mod", ("int32",) * 2, fmod=0),
        make_node("Resize", mode="linear", nearest_mode="floor"),
        make_node("Resize", mode="nearest", nearest_mode="round_prefer_ceil"),
        make_node("ScatterND", ("float32", "int64", "float32"), reduction="none"),
    ],
)
def test_harmless_values_are_no_hazard(node):
    assert load_rulebook("ascend-310p").answer(node).hazards == ()


@pytest.mark.parametrize(
    ("node", "chip", "support", "engine", "reason"),
    [
        (make_node("CumSum", ("float32", "int64")), "ascend-310p", Support.SUPPORTED, "AI Core", ""),
        (make_node("CumSum", ("int64",) * 2, ("int64",)), "ascend-310p", Support.LIMITED, "AI CPU", "CumSum in int64"),
        (make_node("Pow", ("int64",) * 2, ("int64",)), "ascend-310p", Support.LIMITED, "AI CPU", "Pow in int64"),
        (make_node("Softmax", ("float64",), ("float64",)), "ascend-310p", Support.LIMITED, "AI CPU", "float64"),
        (make_node("Tanh", ("float64",), ("float64",)), "ascend-310p", Support.LIMITED, "AI CPU", "no float64"),
        (make_node("NonZero", outputs=("int64",)), "ascend-310p", Support.LIMITED, "AI CPU", "int64 indices"),
        (
            make_node("Where", ("bool",) * 3, ("bool",)),
            "ascend-310p",
            Support.UNKNOWN,
            None,
            "no kernel of Where for bool",
        ),
        (make_node("Where", ("bool", "int32", "int32")), "ascend-310p", Support.SUPPORTED, "AI Core", ""),
        (make_node("Cast", to=16), "ascend-310p", Support.UNSUPPORTED, None, "no bfloat16"),
        (make_node("MatMul", ("float32",) * 2), "ascend-310p", Support.LIMITED, None, "multiplies float16 only"),
        (make_node("MatMul", ("float32",) * 2, shapes=((2, 2),) * 2), "ascend-910b", Support.SUPPORTED, "AI Core", ""),
        (make_node("Tanh", ("bfloat16",), ("bfloat16",)), "ascend-310p", Support.UNKNOWN, None, "not documented"),
        (make_node("Tanh", ("bfloat16",), ("bfloat16",)), "ascend-910b", Support.LIMITED, None, "narrowed to float16"),
    ],
)
def test_dtypes_and_engines(node, chip, support, engine, reason):
    answer = load_rulebook(chip).answer(node)
    assert (answer.support, answer.engine) == (support, engine), answer
    assert reason in "; ".join(answer.reasons)


def test_a_constant_index_is_no_limit_and_an_unknown_rank_is_said_to_be_unknown():
    rulebook = load_rulebook("ascend-910b")
    index = Value("i", "int64", (1,), lambda: np.zeros(1, np.int64))
    data, out = Value("x", "float32", (4,)), Value("y", "float32", (1,))
    assert rulebook.answer(Node("n", "Gather", "", (data, index), (out,), opset=18)).support is Support.SUPPORTED
    answer = rulebook.answer(make_node("MatMul", ("float32",) * 2))
    assert answer.support is Support.LIMITED
    assert "whether this applies here is not known" in answer.reasons[0]


@pytest.mark.parametrize("row", list(csv.DictReader(EXCERPT.open())), ids=lambda r: f"{r['domain']}::{r['op_type']}")
def test_the_table_says_what_the_survey_says(row):
    name = row["op_type"] if row["domain"] == "ai.onnx" else f"{row['domain']}::{row['op_type']}"
    rule = _read("ascend").ops[name]
    holes = {int(hole) for hole in row["opset_holes"].split()}
    if row["status"] == "parser built-in":
        assert rule.opsets == "any"
        return
    surveyed = set(range(int(row["min_opset"] or 1), int(row["max_opset"] or 0) + 1)) - holes
    assert {v for low, high in rule.opsets for v in range(low, high + 1)} == surveyed
    unread = {entry.partition("(")[0] for entry in row["attributes_not_read"].split(";") if entry}
    assert unread <= rule.ignored.keys()
    for opset in surveyed & {11, 16, 17, 18}:
        domain = "" if row["domain"] == "ai.onnx" else row["domain"]
        answer = load_rulebook("ascend-910b").answer(make_node(row["op_type"], opset=opset, domain=domain))
        assert "the model has opset" not in "".join(answer.reasons)


def test_harmless_values_hold_the_defaults_of_the_standard():
    # Where the parser goes by another value than the standard's default, the rule gives that default itself.
    for op, rule in _read("ascend").ops.items():
        for attribute, ignored in rule.ignored.items():
            proto = defs.get_schema(op, 18).attributes[attribute].default_value
            if proto.type and ignored.default is None:
                assert same(attribute_value(proto), ignored.harmless), (op, attribute)


def test_every_standard_operator_of_opset_18_has_an_answer():
    rulebook = load_rulebook("ascend-910b")
    ops = {s.name for s in defs.get_all_schemas_with_history() if s.domain == "" and s.since_version <= 18}
    reasons = {op: "".join(rulebook.answer(make_node(op)).reasons) for op in ops}
    assert [op for op, reason in reasons.items() if "has no rule" in reason] == []
