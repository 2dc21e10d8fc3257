"""`graphaudit passes`, and the options of the pipeline."""

from __future__ import annotations

import json
from pathlib import Path

from graphaudit.registry import passes
from tests.cli.conftest import Run


def test_passes_are_listed_in_their_order(here: Run) -> None:
    entries = json.loads(here("passes", "--target", "ascend-310p", "--format", "json").stdout)
    assert {e["name"] for e in entries} == {name for name, cls in passes().items() if cls.default}
    assert [e["number"] for e in entries] == list(range(1, len(entries) + 1))
    text = here("passes").stdout
    assert "option max_amplification=4096.0 (float > 0)" in text
    assert "fixes naive-softmax, naive-logsumexp" in text
    assert here("passes", "--markdown").stdout.startswith("| | pass | level |")


def test_mistakes_are_usage_errors(here: Run) -> None:
    road = ("rewrite", "walker.py:build", "--target", "onnxruntime", "--output", "bundle")
    for arguments, said in (
        (("--passes", "fold_batchnorm"), "Did you mean 'fold_batch_norm'"),
        (("--passes", "simplify_onnx(round=1)"), "Did you mean 'rounds'"),
        (("--skip", "fold_batchnorm"), "Did you mean 'fold_batch_norm'"),
        (("--print-after", "simplify_onx"), "Did you mean 'simplify_onnx'"),
        (("--bisect-limit", "-1"), "0 or more"),
        (("--on-divergence", "ignore"), "rollback"),
    ):
        done = here(*road, *arguments)
        assert done.returncode == 2 and said in done.stderr, (arguments, done.stderr)
        assert not Path("bundle").exists()
    assert here("passes", "--target", "onnxruntme").returncode == 2


def test_a_pipeline_of_ones_own(here: Run) -> None:
    done = here(
        *("rewrite", "walker.py:build", "--target", "onnxruntime", "--output", "bundle", "--inputs", "4", "--verbose"),
        *("--passes", "simplify_onnx(rounds=1),clean_onnx_graph,remove_inference_noops", "--skip", "clean_onnx_graph"),
        *("--print-after", "remove_inference_noops", "--time-passes", "--dump-dir", "dump"),
    )
    assert done.returncode == 0, done.stderr
    assert "graph after remove_inference_noops (nothing changed)" in done.stderr
    assert "aten.tanh.default" in done.stderr and "aten.tanh" not in done.stdout
    table, times = done.stdout.split("rewriting   checking   share")
    for text in (table, times):
        assert "remove_inference_noops" in text and "simplify_onnx" in text and "clean_onnx_graph" not in text
    report = json.loads(Path("bundle/report.json").read_text())
    assert [r["name"] for r in report["passes"]] == ["capture", "remove_inference_noops", "export", "simplify_onnx"]


def test_the_document_shows_what_is_printed(here: Run) -> None:
    document = (Path(__file__).resolve().parents[2] / "docs" / "passes.md").read_text(encoding="utf-8")
    printed = here("passes").stdout.splitlines()
    start = next(i for i, line in enumerate(printed) if " fold_batch_norm " in line)
    columns, *details = printed[start : start + 4]
    for line in (" ".join(columns.split()[1:]), *details):
        assert line in " ".join(document.split()) or line in document, line
    help_text = here("rewrite", "--help").stdout
    options = {cell.split("`")[1].split()[0] for cell in document.splitlines() if cell.startswith("| `--")}
    assert len(options) == 7 and all(option in help_text for option in options)


def test_the_pipeline_of_a_target_holds_what_has_something_to_do_there(here: Run) -> None:
    def listed(*options: str) -> list[str]:
        done = here("passes", "--format", "json", *options)
        assert done.returncode == 0, done.stderr
        return [entry["name"] for entry in json.loads(done.stdout)]

    everything, runtime, ascend = listed(), listed("--target", "onnxruntime"), listed("--target", "ascend-310p")
    assert {"convert_loops_to_masks", "convert_cut_selections"} <= set(everything) - set(runtime)
    assert (
        "fold_batch_norm" in runtime
        and ascend == everything
        and [name for name in everything if name in runtime] == runtime
    )
    done = here("passes", "--target", "libtorch")
    assert done.returncode == 2 and "there is no rewrite for libtorch" in done.stderr
    assert "only for targets without loops" in here("passes", "--target", "ascend-310p").stdout
