"""`graphaudit rulebook` and the table of `graphaudit targets`, from the command line."""

from __future__ import annotations

import json
import shutil
from importlib import resources
from pathlib import Path

from tests.cli.conftest import Run


def test_show_says_answer_condition_and_source(here: Run) -> None:
    done = here("rulebook", "show", "Resize", "--target", "ascend-310p")
    assert done.returncode == 0
    assert "Resize at opset 18, float32: supported with limits" in done.stdout
    assert "nearest_mode is never read" in done.stdout
    assert "resize_onnx_plugin.cpp@" in done.stdout


def test_show_answers_no_with_status_1_and_speaks_json(here: Run) -> None:
    done = here("rulebook", "show", "Where", "--target", "onnxruntime", "--dtype", "bool", "--format", "json")
    (answer,) = json.loads(done.stdout)
    assert (done.returncode, answer["support"]) == (1, "unsupported")
    assert here("rulebook", "show", "Softmx").returncode == 2


def test_diff_is_empty_for_one_target_and_not_for_two(here: Run) -> None:
    same = here("rulebook", "diff", "onnx", "onnx")
    assert (same.returncode, same.stdout) == (0, "no fact differs\n")
    different = here("rulebook", "diff", "ascend-310p", "ascend-910b")
    assert different.returncode == 1
    assert "+ ops.Gemm.engines" in different.stdout


def test_build_writes_what_is_stale_and_check_only_says_so(here: Run, tmp_path: Path) -> None:
    folder = tmp_path / "targets"
    shutil.copytree(str(resources.files("graphaudit.rules.targets")), folder)
    (folder / "tensorrt.json").write_text("{}")
    stale = here("rulebook", "build", "--check", "--output", str(folder))
    assert (stale.returncode, stale.stdout) == (1, "would change tensorrt\n")
    assert (folder / "tensorrt.json").read_text() == "{}"
    assert here("rulebook", "build", "--output", str(folder)).stdout == "wrote tensorrt\n"
    assert here("rulebook", "build", "--check", "--output", str(folder)).returncode == 0
    assert here("rulebook", "build", "--output", str(tmp_path / "nowhere")).returncode == 2


def test_the_table_of_all_operators_is_markdown(here: Run) -> None:
    lines = here("targets", "--op-table").stdout.splitlines()
    assert lines[0].startswith("| operator | ascend-310b (18) | ")
    assert any(line.startswith("| Softmax | ") for line in lines)


def test_atc_writes_a_command_line_for_a_model(here: Run, tmp_path: Path) -> None:
    from onnx import parser, save

    text = '<ir_version: 10, opset_import: ["" : 18]> g (float[b, 3] x) => (float[b, 3] y) { y = Relu (x) }'
    save(parser.parse_model(text), tmp_path / "policy.onnx")
    done = here("rulebook", "atc", str(tmp_path / "policy.onnx"), "--target", "ascend-310p")
    assert done.returncode == 0
    assert done.stdout.startswith("atc --framework=5 --model=")
    assert "x:1,3" in done.stdout
    assert here("rulebook", "atc", str(tmp_path / "policy.onnx"), "--target", "onnx").returncode == 2
