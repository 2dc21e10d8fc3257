"""Bad input: one or two lines that say what and what to do, exit status 2, no traceback, nothing half written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from tests.cli.conftest import WALKER, Run

MODULES = """
def broken():
    raise KeyError("gait")

def number():
    return 3

def not_finite():
    net = Net()
    net.layer.bias.data[0] = float("nan")
    return net

class Raising(Net):
    def forward(self, obs):
        return obs.reshape(7)

class Two(Net):
    def forward(self, obs, command):
        return obs + command

def one_tensor():
    return torch.zeros(1, 3)

def noisy():
    import os
    print("from print")
    os.write(1, b"from a descriptor\\n")
    return Net()
"""


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    """`walker.py` with many ways to go wrong beside `build`."""
    file = tmp_path / "walker.py"
    file.write_text(WALKER + MODULES)
    return file


def assert_refused(done: subprocess.CompletedProcess[str], folder: Path, *expected: str) -> None:
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert 1 <= len(done.stderr.splitlines()) <= 2, done.stderr
    assert done.stderr.startswith("error: ")
    for text in expected:
        assert text in done.stderr
    assert not (folder / "out").exists()
    # A bundle is written beside its place first; nothing of that may stay.
    assert {p.name for p in folder.iterdir()} <= {
        "walker.py",
        "__pycache__",
        "model.onnx",
        "secret",
        "model.zip",
        "taken",
    }


REWRITE = ("--target", "onnxruntime", "--output", "out")


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("wlaker.py:build", ["there is no file wlaker.py", "'walker.py'"]),
        ("walker.py:biuld", ["has no 'biuld'", "'build'"]),
        ("walker.py", ["which policy in it?", "walker.py:build"]),
        ("no_such_package:build", ["no module named 'no_such_package'"]),
        ("walker.py:broken", ["KeyError", "walker.py:23", 'raise KeyError("gait")']),
        ("walker.py:number", ["returned an int, not an nn.Module"]),
        ("walker.py:torch", ["is a module, not an nn.Module"]),
        ("walker.py:not_finite", ["layer.bias holds NaN"]),
        ("walker.py:Raising", ["forward raised RuntimeError", "walker.py:35", "obs.reshape(7)"]),
        ("walker.py:Two", ["forward(obs, command) does not take the example inputs (1 argument)"]),
        ("nothing", ["does not name a policy"]),
    ],
)
def test_policies_that_cannot_be_loaded(here: Run, policies: Path, policy: str, expected: list[str]) -> None:
    assert_refused(here("rewrite", policy, *REWRITE), policies.parent, *expected)


def test_example_inputs_that_do_not_fit(here: Run, policies: Path) -> None:
    done = here("rewrite", "walker.py:build", *REWRITE, "--example-inputs", "one_tensor")
    assert_refused(done, policies.parent, "single tensor", "`(x,)`")
    done = here("rewrite", "walker.py:build", *REWRITE, "--example-inputs", "one_tenser")
    assert_refused(done, policies.parent, "has no 'one_tenser'", "'one_tensor'")


def test_unknown_targets(here: Run, policies: Path) -> None:
    done = here("rewrite", "walker.py:build", "--target", "onnxruntme", "--output", "out")
    assert_refused(done, policies.parent, "'onnxruntme'", "Did you mean onnxruntime")
    assert_refused(here("audit", "walker.py:build", "--target", "ascend"), policies.parent, "'ascend'")


def test_errors_in_json(here: Run, policies: Path) -> None:
    done = here("rewrite", "walker.py:broken", *REWRITE, "--format", "json")
    assert done.returncode == 2
    document = json.loads(done.stdout)
    assert "KeyError" in document["error"]["message"]


def small_model(*, external: str | None = None) -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in "xy")
    w = helper.make_tensor("w", TensorProto.FLOAT, [3], [1.0, 2.0, 3.0])
    if external is not None:
        w = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3], data_location=TensorProto.EXTERNAL)
        w.external_data.add(key="location", value=external)
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [w])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "is empty"),
        (small_model().SerializeToString()[:-9], "truncated"),
        (small_model(external="../secret").SerializeToString(), "outside the model's folder"),
    ],
)
def test_onnx_files_that_cannot_be_read(here: Run, tmp_path: Path, content: bytes, expected: str) -> None:
    (tmp_path / "model.onnx").write_bytes(content)
    assert_refused(here("audit", "model.onnx"), tmp_path, expected)


def test_onnx_files_cannot_be_rewritten_yet(here: Run, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(small_model().SerializeToString())
    assert_refused(here("rewrite", "model.onnx", *REWRITE), tmp_path, "can only be audited")


def test_archives_need_trust(here: Run, tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        archive.writestr("data", "{}")
        archive.writestr("policy.pth", b"")
    assert_refused(here("audit", "model.zip"), tmp_path, "unpickles", "--trust")


def test_a_folder_that_is_something_else_is_left_alone(here: Run, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "thesis.tex").write_text("years of work")
    done = here("rewrite", "walker.py:build", "--target", "onnxruntime", "--output", "taken")
    assert_refused(done, tmp_path, "taken")
    assert [p.name for p in taken.iterdir()] == ["thesis.tex"]


def test_a_file_in_the_place_of_the_folder_is_left_alone(here: Run, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("years of work")
    done = here("rewrite", "walker.py:build", "--target", "onnxruntime", "--output", "taken")
    assert_refused(done, tmp_path, "taken")
    assert (tmp_path / "taken").read_text() == "years of work"


def test_a_disk_that_takes_no_more(run: Run, tmp_path: Path) -> None:
    # The system refuses to let any file grow beyond one block, as a full disk does.
    command = f"ulimit -f 1; exec {sys.executable} -m graphaudit rewrite walker.py:build {' '.join(REWRITE)}"
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert_refused(done, tmp_path, "out")


def test_verify_wants_a_bundle(here: Run, tmp_path: Path) -> None:
    assert_refused(here("verify", "missing"), tmp_path, "missing")
    (tmp_path / "taken").mkdir()
    assert_refused(here("verify", "taken"), tmp_path, "taken")


def test_a_policy_that_prints_leaves_standard_output_alone(run: Run, policies: Path) -> None:
    done = run("audit", "walker.py:noisy", "--target", "onnx", "--format", "json")
    json.loads(done.stdout)
    assert "from print" in done.stderr
    assert "from a descriptor" in done.stderr


def test_control_c_is_one_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "walker.py").write_text(
        WALKER
        + """
def inputs(seed):
    import sys, time
    print("drawing", file=sys.stderr, flush=True)
    time.sleep(60)
"""
    )
    command = [sys.executable, "-m", "graphaudit", "rewrite", "walker.py:build", *REWRITE]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline() == "drawing\n"
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - started < 20
    done = subprocess.CompletedProcess(command, process.returncode, out, err)
    assert_refused(done, tmp_path, "interrupted")


def test_debug_shows_the_traceback(run: Run, policies: Path) -> None:
    done = run("audit", "walker.py:broken", "--debug")
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert "KeyError: 'gait'" in done.stderr


def test_a_back_end_that_breaks_torch_is_named(run: Run, tmp_path: Path) -> None:
    site = tmp_path / "site"
    info = site / "torch_npu-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_npu\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[torch.backends]\ntorch_npu = torch_npu_without_cann:autoload\n")
    (site / "torch_npu_without_cann.py").write_text("raise ImportError('libhccl.so: cannot open shared object file')")
    done = run("audit", "walker.py:build", PYTHONPATH=str(site))
    assert done.returncode == 2
    assert "import torch fails, because torch_npu does: ImportError: libhccl.so" in done.stderr
    assert "TORCH_DEVICE_BACKEND_AUTOLOAD=0" in done.stderr
    assert len(done.stderr.splitlines()) == 2
