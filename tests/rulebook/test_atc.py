"""The command line of ATC for small models."""

from __future__ import annotations

import shlex

import pytest
from onnx import parser

from graphaudit.errors import TargetError
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.graphs.onnx_view import view_model
from graphaudit.rulebook import load_rulebook
from graphaudit.rulebook.atc import AtcAdvice, advise

HEAD = '<ir_version: 10, opset_import: ["" : 18]>\n'
PRODUCT = "g (float[batch, 3] x, float[2] z) => (float[batch, 4] y) <float[3, 4] w> { y = MatMul (x, w) }"


def advice(body: str, target: str = "ascend-310p", soc_version: str | None = None) -> AtcAdvice:
    graph = view_model(OnnxModel(parser.parse_model(HEAD + body)))
    return advise(graph, load_rulebook(target), "a policy.onnx", soc_version)


def test_the_command_is_complete_and_safe_to_paste() -> None:
    given = advice(PRODUCT, soc_version="Ascend310P3")
    assert shlex.split(given.command) == [
        "atc",
        "--framework=5",
        "--model=a policy.onnx",
        "--output=a policy",
        "--soc_version=Ascend310P3",
        "--input_shape=x:1,3;z:2",
        "--precision_mode_v2=mixed_float16",
    ]
    assert "no float32 kernel for MatMul" in given.notes[0]
    assert not any("npu-smi" in note for note in given.notes)


def test_float32_is_kept_where_the_matrix_unit_has_it() -> None:
    given = advice(PRODUCT, "ascend-910b")
    assert "--precision_mode_v2=origin" in given.arguments
    assert any("npu-smi" in note and "Ascend910B1" in note for note in given.notes)


def test_what_reads_a_number_beyond_float16_is_to_be_kept() -> None:
    assert any("--keep_dtype is not needed" in note for note in advice(PRODUCT).notes)
    large = (
        "g (float[1, 2] x, float[2, 2] w) => (float[1, 2] y) <float big = {1e6}> { p = MatMul (x, w) y = Add (p, big) }"
    )
    (kept,) = [note for note in advice(large).notes if "--keep_dtype is needed" in note]
    assert kept.endswith("beyond float16: Add (node Add_y)")


def test_open_sizes_come_with_gears_and_with_ranges_where_there_are_some() -> None:
    notes = "\n".join(advice(PRODUCT).notes)
    assert "batch: fixed at 1 here" in notes
    assert "up to 100: --input_shape='x:-1,3;z:2' --dynamic_batch_size='1,2,4,8'" in notes
    assert "--input_shape='x:1~8,3;z:2'" in notes
    notes = "\n".join(advice(PRODUCT, "ascend-310b").notes)
    assert "~" not in notes and "takes no ranges" in notes
    inner = "g (float[n, k] x) => (float[n, k] y) { y = Relu (x) }"
    assert "--dynamic_dims='1,1;2,2;4,4;8,8'" in "\n".join(advice(inner).notes)


def test_a_fixed_clean_model_has_one_note_about_precision_and_one_about_the_chip() -> None:
    assert len(advice("g (float[2] x) => (float[2] y) { y = Relu (x) }").notes) == 2


def test_what_atc_will_say_is_foretold() -> None:
    refused = advice("g (float[2, 2] x) => (float[1, 2] y) { a = Constant <value_ints = [0]> () y = ReduceL2 (x, a) }")
    assert any("1 node not taken: ReduceL2 (1); expect E19010" in note for note in refused.notes)
    unknown = advice("g (float[2] x) => (float[2] y) { y = mine.Fused (x) }".replace("mine.", ""))
    assert any("Fused (1); expect EZ3002" in note for note in unknown.notes)
    indexed = advice("g (float[4] x, int64[1] i) => (float[1] y) { y = Gather (x, i) }")
    assert any("support_out_of_bound_index" in note for note in indexed.notes)


def test_other_targets_and_other_chips_are_refused() -> None:
    with pytest.raises(TargetError, match="not compiled by ATC"):
        advice(PRODUCT, "tensorrt")
    with pytest.raises(TargetError, match="'Ascend910B' is no chip of ascend-910b") as caught:
        advice(PRODUCT, "ascend-910b", "Ascend910B")
    assert "Ascend910B1" in caught.value.remedy
