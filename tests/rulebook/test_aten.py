"""The targets that take graphs of ATen ops: torch's own list, single answers, and tables against their surveys."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch

from graphaudit.graphs.view import Node, Value
from graphaudit.rulebook import Support, load_rulebook
from graphaudit.rulebook import aten_rules as rules
from graphaudit.rulebook.aten import aten_ops, spelled
from graphaudit.rulebook.query import core_aten_operators, look_up
from graphaudit.rulebook.rulebook import target_file

DATA = Path(__file__).parent / "data"
# Lists of torch that dispatch in ways of their own: nested tensors, and one operator whose entry lists all devices.
ODD = ("aten._nested", "aten._stack")


def node(op: str, dtype: str = "float32") -> Node:
    return Node("asked", op, op.partition(".")[0], (Value("x", dtype),), (Value("y", dtype),))


def test_torchs_own_list_says_what_the_dispatcher_says():
    for name, op in aten_ops().items():
        _, base, overload = name.split(".")
        schema = getattr(getattr(torch.ops.aten, base), overload).name()
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        if not name.startswith(ODD):
            assert has(schema, "CompositeImplicitAutograd") == op.implicit, name
            assert op.delegate or has(schema, "CompositeExplicitAutograd") <= op.explicit, name


def test_the_core_is_what_torch_tags():
    core = core_aten_operators()
    assert len(core) > 180
    for name in core:
        _, base, overload = name.split(".")
        assert torch.Tag.core in getattr(getattr(torch.ops.aten, base), overload).tags


@pytest.mark.parametrize(
    ("target", "op", "dtype", "support", "engine", "reason"),
    [
        ("torch-npu", "aten.cumsum.default", "float32", Support.SUPPORTED, "NPU", ""),
        ("torch-npu", "aten.isin.Tensor_Tensor", "bool", Support.UNKNOWN, None, "for bool is documented"),
        ("torch-npu", "aten.linalg_eig.default", "float32", Support.LIMITED, "CPU", "no NPU kernel"),
        ("torch-npu", "aten.expand.default", "float32", Support.SUPPORTED, None, ""),
        ("torch-npu", "aten.gelu.default", "float32", Support.SUPPORTED, None, ""),
        ("torch-npu", "aten.linear.default", "float32", Support.UNKNOWN, None, "makes other operators"),
        ("torch-npu", "operator.getitem", "float32", Support.SUPPORTED, None, ""),
        ("torch-npu", "torch.cond", "bool", Support.LIMITED, None, "read back to the host"),
        ("torch-npu", "mylib.fused.default", "float32", Support.UNKNOWN, None, "no rule"),
        ("torchair", "aten.cumsum.default", "float32", Support.SUPPORTED, None, ""),
        ("torchair", "aten.cummax.default", "float32", Support.UNSUPPORTED, None, "nothing but raise"),
        ("torchair", "aten.isin.Tensor_Tensor", "float32", Support.UNSUPPORTED, None, "no converter"),
        ("torchair", "aten.expand.default", "float32", Support.LIMITED, None, "raises on some inputs"),
        ("torchair", "torch.while_loop", "float32", Support.UNSUPPORTED, None, "no converter"),
        ("libtorch", "aten.linalg_eig.default", "float32", Support.SUPPORTED, None, ""),
        ("libtorch", "torch.while_loop", "float32", Support.LIMITED, None, "TorchScript has no such operator"),
        ("libtorch", "mylib.fused.default", "float32", Support.UNKNOWN, None, "none of those that Python registers"),
    ],
)
def test_single_answers(target, op, dtype, support, engine, reason):
    answer = load_rulebook(target).answer(node(op, dtype))
    assert (answer.support, answer.engine) == (support, engine), answer
    assert reason in "; ".join(answer.reasons)
    assert answer.evidence is not None or "no rule" in reason


def test_a_kernel_that_later_versions_of_torch_have_lost_counts_as_none(monkeypatch):
    lost = next(
        op for op, r in target_file("torch-npu").ops.items() if r.torch == (("2.1", "2.12"),) and ".out" not in op
    )
    monkeypatch.setattr(rules, "installed_torch", lambda: "2.12")
    then = rules.AtenRules(target_file("torch-npu")).answer(node(lost))
    monkeypatch.setattr(rules, "installed_torch", lambda: "2.13")
    now = rules.AtenRules(target_file("torch-npu")).answer(node(lost))
    assert then != now


@pytest.mark.parametrize("row", list(csv.DictReader((DATA / "aten_npu_excerpt.csv").open())), ids=lambda r: r["op"])
def test_the_kernel_table_says_what_the_survey_says(row):
    rule = target_file("torch-npu").ops[spelled(row["op"].removeprefix("aten::"))]
    (low, high) = rule.torch[-1]
    if row["torch_versions"].startswith("v"):
        assert f"v{low}-v{high}" == row["torch_versions"].removesuffix(" (all)") or low == high
    minors = [range(int(a.split(".")[1]), int(b.split(".")[1]) + 1) for a, b in rule.torch]
    assert any(13 in minor for minor in minors) == (row["in_torch_npu_2_13_0_wheel"] == "yes")


@pytest.mark.parametrize("row", list(csv.DictReader((DATA / "torchair_excerpt.csv").open())), ids=lambda r: r["op"])
def test_the_converter_table_says_what_the_survey_says(row):
    rule = target_file("torchair").ops[row["op"]]
    assert bool(rule.opsets) == (row["status"] != "stub")
    assert bool(rule.limits) >= (row["status"] == "partial")


def test_an_aten_op_is_looked_up_by_its_short_name():
    (answer,) = look_up("aten.cumsum", ["torchair"])
    assert answer.op == "aten.cumsum.default"
