"""Single facts about the targets beside Ascend 310P and 910B."""

from __future__ import annotations

import pytest

from graphaudit.rulebook import Support, load_rulebook
from tests.rulebook.models import make_node

F32, I64 = "float32", "int64"


@pytest.mark.parametrize("chip", ["ascend-310b", "ascend-910a", "ascend-a3", "ascend-950"])
def test_every_chip_has_the_parser_that_all_share(chip: str) -> None:
    rulebook = load_rulebook(chip)
    assert (rulebook.target.opset, rulebook.target.compute_dtype, rulebook.target.loops) == (18, "float16", False)
    assert rulebook.answer(make_node("Relu")).support is Support.SUPPORTED
    assert rulebook.answer(make_node("Loop", (I64, "bool"))).support is Support.UNSUPPORTED
    assert rulebook.target.soc_versions
    assert rulebook.evidence("soc_versions").source


def test_the_bare_name_ascend910b_is_the_old_chip() -> None:
    assert "Ascend910B" in load_rulebook("ascend-910a").target.soc_versions
    assert "Ascend910B" not in load_rulebook("ascend-910b").target.soc_versions
    assert "Ascend910B is this old chip" in load_rulebook("ascend-910a").evidence("soc_versions").rule
    assert "Ascend910B is the old chip" in load_rulebook("ascend-910a").target.summary


def test_ranges_and_gears_by_chip() -> None:
    assert not load_rulebook("ascend-310b").target.shape_ranges
    assert load_rulebook("ascend-310p").target.shape_ranges
    gears = {n: load_rulebook(n).target.max_gears for n in ("ascend-310b", "ascend-950", "tensorrt")}
    assert gears == {"ascend-310b": 100, "ascend-950": 256, "tensorrt": 0}


@pytest.mark.parametrize(
    ("chip", "node", "support", "reason"),
    [
        ("ascend-910a", make_node("Tanh", ("bfloat16",), ("bfloat16",)), Support.UNKNOWN, "no bfloat16"),
        ("ascend-910a", make_node("Cast", to=16), Support.UNSUPPORTED, "no bfloat16"),
        ("ascend-310b", make_node("Cast", to=16), Support.SUPPORTED, ""),
        ("ascend-310b", make_node("Tanh", ("bfloat16",), ("bfloat16",)), Support.LIMITED, "narrowed to float16"),
        ("ascend-310b", make_node("Mul", ("bfloat16",) * 2, ("bfloat16",)), Support.LIMITED, "narrowed to float16"),
        ("ascend-950", make_node("Tanh", ("bfloat16",), ("bfloat16",)), Support.LIMITED, "narrowed to float16"),
        ("ascend-310b", make_node("CumSum", (I64, I64), (I64,)), Support.LIMITED, "runs on the AI CPU"),
        ("ascend-910a", make_node("Gemm", (F32,) * 2), Support.LIMITED, "multiplies float16 only"),
        ("ascend-310b", make_node("Tanh", ("float64",), ("float64",)), Support.LIMITED, "AI CPU"),
        ("ascend-a3", make_node("Tanh", ("float64",), ("float64",)), Support.UNKNOWN, "not documented"),
        ("tensorrt", make_node("Relu"), Support.SUPPORTED, ""),
        ("tensorrt", make_node("Relu", opset=21), Support.UNSUPPORTED, "at opset 9 to 20 only"),
        ("tensorrt", make_node("Gelu", opset=20), Support.SUPPORTED, ""),
        ("tensorrt", make_node("Unique"), Support.UNSUPPORTED, "does not take Unique"),
        ("tensorrt", make_node("Add", ("float64",) * 2, ("float64",)), Support.LIMITED, "cast to float32"),
        ("tensorrt", make_node("Exp", (I64,), (I64,)), Support.UNKNOWN, "no kernel of Exp for int64"),
        ("tensorrt", make_node("CumSum", (F32, I64)), Support.UNSUPPORTED, "axis must be an initializer"),
        ("tensorrt", make_node("Where", ("bool", F32, F32)), Support.SUPPORTED, ""),
        ("tensorrt", make_node("ScatterND", (F32, I64, F32), reduction="add"), Support.UNSUPPORTED, "reduction"),
        ("tensorrt", make_node("ScatterND", (F32, I64, F32)), Support.SUPPORTED, ""),
        ("tensorrt", make_node("LayerNormalization", (F32,) * 3, (F32,) * 2), Support.UNSUPPORTED, "first output"),
        ("tensorrt", make_node("LayerNormalization", (F32,) * 3), Support.SUPPORTED, ""),
        ("tensorrt", make_node("MaxPool", shapes=((1, 1, 8),)), Support.UNSUPPORTED, "two or three dimensions"),
        ("tensorrt", make_node("Resize", mode="cubic"), Support.UNSUPPORTED, "nearest and linear only"),
        ("tensorrt", make_node("Loop", (I64, "bool")), Support.LIMITED, "scan output"),
        ("tensorrt", make_node("Fused", domain="mine", opset=1), Support.UNKNOWN, "no rule for mine::Fused"),
    ],
)
def test_single_facts(chip, node, support, reason) -> None:
    answer = load_rulebook(chip).answer(node)
    assert answer.support is support, answer
    assert reason in "; ".join(answer.reasons)


def test_a_seed_that_tensorrt_ignores_is_a_hazard() -> None:
    node = make_node("RandomNormal", (), seed=1.0, shape=[2])
    assert "seed is ignored" in load_rulebook("tensorrt").answer(node).hazards[0]
    assert not load_rulebook("tensorrt").answer(make_node("RandomNormal", (), shape=[2])).hazards


@pytest.mark.parametrize(
    ("node", "support", "engine", "reason"),
    [
        (make_node("Relu"), Support.SUPPORTED, None, ""),
        (make_node("Relu", opset=19), Support.UNSUPPORTED, None, "at opset 8 to 18 only"),
        (make_node("Mish"), Support.LIMITED, "CPU", "leaves Mish to onnxruntime"),
        (make_node("Mish", opset=19), Support.LIMITED, "CPU", "leaves Mish to onnxruntime"),
        (make_node("BitwiseNot", ("bool",), ("bool",)), Support.UNSUPPORTED, "CPU", "leaves BitwiseNot"),
        (make_node("Mod", (F32, F32), fmod=1), Support.LIMITED, None, "fmod is never read"),
        (make_node("Fused", domain="mine", opset=1), Support.UNKNOWN, "CPU", "nothing is known of the domain mine"),
    ],
)
def test_what_the_cann_provider_leaves_is_asked_of_onnx_runtime(node, support, engine, reason) -> None:
    answer = load_rulebook("onnxruntime-cann").answer(node)
    assert (answer.support, answer.engine) == (support, engine), answer
    assert reason in "; ".join(answer.reasons)
