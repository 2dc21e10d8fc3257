"""Error messages of the targets' tools: every one has sources, and the findings that it names exist."""

from __future__ import annotations

import json

import pytest

from graphaudit.errors import RuleError
from graphaudit.graphs.view import Node, Value
from graphaudit.registry import checks
from graphaudit.report.explanation import explain
from graphaudit.rulebook import Support, load_rulebook
from graphaudit.rulebook.messages import find_message, messages, read_messages
from tests.rulebook.models import make_node

SOURCE = {"cites": "somewhere", "read": "2026-01-01", "licence": "MIT"}
ENTRY = {"codes": ["E1"], "tool": "T", "summary": "It fails.", "causes": [], "remedy": "Try.", "sources": ["s"]}


def test_every_message_has_sources_and_real_findings() -> None:
    assert len(messages()) > 15
    for found in messages():
        assert found.sources and all(found.sources)
        assert found.message.summary.endswith(".") and found.message.remedy.endswith(".")
        assert found.message.causes
        assert set(found.message.findings) <= checks().keys()


@pytest.mark.parametrize("code", ["E19010", "e16002", "EZ3002", "EZ3003", "E16005", "E10049", "507011", "ascend910b"])
def test_known_codes_are_found_however_they_are_written(code: str) -> None:
    assert find_message(code) is not None


def test_explain_knows_them_beside_the_findings() -> None:
    explained = explain("E19010")
    assert explained.code == "E19010" and explained.summary == "ATC has no parser for an operator of the model."
    assert "GA203 opset-too-new" in explained.text and "msit" in explained.text
    with pytest.raises(RuleError) as caught:
        explain("E1901")
    assert "E19010" in caught.value.remedy


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([{**ENTRY, "sources": []}], "E1 has no source"),
        ([{**ENTRY, "sources": ["t"]}], "E1 has no source, or one that"),
        ([ENTRY, {**ENTRY, "codes": ["e1"]}], "e1 stands there twice"),
        ([{**ENTRY, "extra": 1}], "unknown field `extra`"),
    ],
)
def test_a_bad_file_is_refused_with_a_reason(entries, reason: str) -> None:
    text = json.dumps({"family": "f", "sources": {"s": SOURCE}, "errors": entries}).encode()
    with pytest.raises(RuleError, match=rf"toy\.json.*{reason}"):
        read_messages(text, "toy.json")


# What people reported about Ascend, in our words: what they saw → the `explain` entry, or the finding beforehand.
REPORTED = {
    "fused operators of SDXL have no parser": "E19010",
    "a user's AddCust has no parser": "E19010",
    "MMCVModulatedDeformConv2d has no parser": "custom-op",
    "grid_sampler has no parser at opset 11": "grid-sample",
    "MatMulInteger has no parser": "unsupported-op",
    "a second opset domain": "unused-domain",
    "ai.onnx::22::Conv": "opset-too-new",
    "SAM3 in mixed precision": "precision_mode_v2",
    "isin falls back to the CPU": "npu_cpu_fallback",
    "the fast path of TransformerEncoderLayer falls back": "fast-path-specialisation",
    "torchvision::nms falls back": "npu_cpu_fallback",
    "Range of int64 has no binary": "aclnnArange",
    "TransData is not supported on 310P3": "EZ3002",
    "acl.mdl.execute fails": "507011",
    "actions are wrong without the normaliser": "normalisation-missing",
    "inputs of an OM in another order": "om-inputs",
    "pi0 wants the model's dtypes": "precision_mode_v2",
    "ATC dies under Python 3.11": "FrameLocalsProxy",
    "dynamic shapes on 310P3": "dynamic-input-shape",
    "float16 overflow in Stable Diffusion": "fp16-overflow",
    "import torch fails without CANN": "libhccl.so",
}


@pytest.mark.parametrize("code", REPORTED.values(), ids=REPORTED)
def test_what_people_reported_is_explained(code: str) -> None:
    assert explain(code).text


def test_a_model_that_was_reported_is_foreseen() -> None:
    integer = make_node("MatMulInteger", ("int8", "int8"), ("int32",))
    assert load_rulebook("ascend-910b").answer(integer).support is Support.UNSUPPORTED
    transposed = load_rulebook("ascend-910b").answer(make_node("ConvTranspose", ("float32", "float32")))
    assert any("reported to grow here" in reason for reason in transposed.reasons)
    value = Value("x", "float32")
    for op in ("aten._transformer_encoder_layer_fwd.default", "torchvision.nms.default"):
        node = Node("n", op, op.partition(".")[0], (value,), (value,))
        assert load_rulebook("torch-npu").answer(node).engine == "CPU"
