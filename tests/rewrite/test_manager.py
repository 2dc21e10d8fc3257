"""The pass manager on a real policy: stop, limit, and who looks on."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphaudit.api import rewrite
from graphaudit.findings import Severity
from graphaudit.registry import passes
from graphaudit.rewrite.base import Level, Pass, PassResult, Site
from graphaudit.rewrite.edit import insert_call, replace_node
from graphaudit.rewrite.instruments import DumpGraphs, PrintAfter
from graphaudit.rewrite.manager import PassManager


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.drop = nn.Linear(4, 3), nn.Dropout(0.5)

    def forward(self, x):
        return torch.softmax(self.drop(self.layer(x)), -1)


class BreakSoftmax(Pass):
    """Wrong on purpose: softmax along the other dimension."""

    name = "rewrite_softmax_wrongly"
    level = Level.FX
    runs_after = ("remove_inference_noops",)

    def run(self, artifact, target):
        result = PassResult(artifact)
        for node in artifact.graph.find_nodes(op="call_function", target=torch.ops.aten.softmax.int):
            if node.args[1] != 0:
                replace_node(node, insert_call(node, torch.ops.aten.softmax.int, (node.args[0], 0)))
                result.rewritten.append(Site(node.name, artifact.place(node)))
        artifact.finish()
        return result


@pytest.fixture
def wrong(monkeypatch):
    monkeypatch.setitem(passes(), BreakSoftmax.name, BreakSoftmax)


def run(**settings):
    return rewrite(Head().eval(), (torch.zeros(2, 4),), target="onnxruntime", manager=PassManager.of(**settings))


def rows(report):
    return {row.name: row for row in report.passes}


def test_a_diverged_pass_is_rolled_back_and_the_rest_goes_on(wrong):
    report = run()
    assert rows(report)["rewrite_softmax_wrongly"].rolled_back
    assert rows(report)["simplify_onnx"].verdict is None and report.fit["onnxruntime"]
    (finding,) = [f for f in report.findings if f.name == "step-diverged"]
    assert finding.severity is Severity.NOTE and "rewrite_softmax_wrongly was rolled back" in finding.message


def test_or_it_ends_the_rewrite(wrong):
    report = run(on_divergence="stop")
    last = report.passes[-1]
    assert last.name == "rewrite_softmax_wrongly" and not last.rolled_back and not last.verdict.holds
    assert not report.fit["onnxruntime"] and report.certificate is None
    (finding,) = [f for f in report.findings if f.name == "step-diverged"]
    assert finding.severity is Severity.ERROR


def test_the_finding_names_the_nodes_and_a_reproducer(wrong, tmp_path):
    report = run(reproducers=tmp_path)
    (finding,) = [f for f in report.findings if f.name == "step-diverged"]
    assert finding.message.endswith("; at fault: softmax")
    assert finding.line == Head.forward.__code__.co_firstlineno + 1
    (file,) = tmp_path.iterdir()
    assert finding.remedy.endswith(f" {file} replays it.")
    assert "softmax = torch.ops.aten.softmax.int(linear, -1)" in file.read_text()


def test_only_the_first_passes_run():
    pipeline = [p.name for p in PassManager.of().pipeline]
    number = pipeline.index("remove_inference_noops") + 1
    assert rows(run(limit=number))["remove_inference_noops"].changed == 1
    report = run(limit=number - 1)
    row = rows(report)["remove_inference_noops"]
    assert row.changed == 0 and row.left[0].reason == (
        f"not run: it is number {number} of the pipeline, and the limit is {number - 1}"
    )
    assert report.fit["onnxruntime"]


def test_graphs_are_written_before_and_after_each_change(tmp_path, wrong):
    printed = []
    printing = PrintAfter(["remove_inference_noops", "rewrite_softmax_wrongly", "clean_onnx_graph"], printed.append)
    run(instruments=[DumpGraphs(tmp_path), printing])
    names = sorted(file.name.partition("_")[2] for file in tmp_path.iterdir())
    assert names == [
        f"{step}.{kind}.txt"
        for step in ("remove_inference_noops", "rewrite_softmax_wrongly")
        for kind in ("after", "before", "diff")
    ]
    noops, softmax, _ = printed
    assert noops.startswith("graph after remove_inference_noops\ninput   %x: float32[2, 4]\n")
    assert "%softmax: float32[2, 3] = aten.softmax.int(%linear, dim=-1)   # " in noops
    assert softmax.startswith("graph after rewrite_softmax_wrongly (rolled back)\n") and "dim=-1" in softmax
    (diff,) = tmp_path.glob("*wrongly.diff.txt")
    heading, *changes = diff.read_text().splitlines()
    line = Head.forward.__code__.co_firstlineno + 1
    assert heading.endswith(f"test_manager.py:{line}   return torch.softmax(self.drop(self.layer(x)), -1)")
    assert [c for c in changes if c.startswith(("  -", "  +"))] == [
        "  - %softmax: float32[2, 3] = aten.softmax.int(%linear, dim=-1)",
        "  + %softmax_int: float32[2, 3] = aten.softmax.int(%linear, dim=0)",
    ]


class Newer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(4)

    def forward(self, x):
        return torch.lgamma(self.norm(x).abs() + 1)


def test_what_a_pass_or_the_exporter_repaired_is_reported():
    report = rewrite(Newer().eval(), (torch.ones(2, 4),), target="onnxruntime", count=8)
    assert report.fit["onnxruntime"]
    (lost,) = [f for f in report.findings if f.name == "unsupported-op"]
    assert "lgamma.default has no ONNX translation" in lost.message
    assert lost.fixed_by == "decompose_special_functions"
    (newer,) = [f for f in report.findings if f.name == "opset-too-new"]
    line = Newer.forward.__code__.co_firstlineno + 1
    assert newer.severity is Severity.NOTE and newer.line == lost.line == line
    assert newer.message.startswith("ONNX has RMSNormalization from opset 23 on; at opset 18 aten.rms_norm")
