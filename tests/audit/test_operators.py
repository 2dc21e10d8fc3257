"""One row for each operator, one answer for each target."""

from __future__ import annotations

from onnx import parser

import graphaudit
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.report.operators import operator_table
from tests.report.test_terminal import printed

MODEL = """<ir_version: 10, opset_import: ["" : 18, "mine" : 1]>
g (float[4] x, int64[4] i) => (float[4] y) {
  a = Relu (x)  b = ScatterElements (a, i, a)  c = Relu (b)  d = mine.Foo (c)  y = Relu (d) }"""


def test_a_row_for_each_operator_and_the_least_good_answer_for_each_target():
    report = graphaudit.audit(OnnxModel(parser.parse_model(MODEL)), target=["onnxruntime", "ascend-310p"])
    rows = {row.op: row for row in report.operators}
    assert list(rows) == ["Relu", "ScatterElements", "mine::Foo"]
    assert rows["Relu"].count == 3
    assert rows["Relu"].answers == {"onnxruntime": "supported", "ascend-310p": "supported"}
    assert rows["ScatterElements"].answers == {"onnxruntime": "supported", "ascend-310p": "supported with limits"}
    assert set(rows["mine::Foo"].answers.values()) == {"unknown"}
    table = [line.plain for line in operator_table(report)]
    assert table[0].split() == ["operator", "nodes", "onnxruntime", "ascend-310p"]
    assert table[2].split() == ["ScatterElements", "1", "yes", "limits"]


def test_one_target_needs_no_table_but_is_told_where_the_graph_leaves_it():
    report = graphaudit.audit(OnnxModel(parser.parse_model(MODEL)), target="ascend-310p")
    assert operator_table(report) == []
    assert (report.islands["ascend-310p"].nodes, report.islands["ascend-310p"].departures) == (5, 2)
    text = printed(report, width=400)
    assert "3 parts on it, with 60% of 5 nodes and 100% of 8 floating-point operations" in text
    assert "costs the most crossings (2 of 4)" in text
