"""Bundles on disk: what is in them, that they are whole or absent, and that the same input gives the same bytes."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest

from graphaudit.equivalence.verdict import Certificate
from graphaudit.errors import OutputError
from graphaudit.export import bundle as bundles
from graphaudit.export.bundle import check_output
from graphaudit.export.load import load, verify
from graphaudit.results import Report
from tests.export.bundles import write_plain

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("bundle") / "plain"
    write_plain(place)
    return place


def contents(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.iterdir())}


def script(place: Path, before: str = "") -> subprocess.Popen:
    """A fresh process that writes the plain bundle to `place`."""
    code = f"""
import time
from pathlib import Path
from graphaudit.export import bundle
from tests.export.bundles import write_plain
{before}
write_plain(Path({str(place)!r}))
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    return subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_the_manifest_says_what_the_issue_says(bundle):
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert manifest["schema_version"] == 1
    assert manifest["seed"] == 7
    assert manifest["replay"] is None
    assert manifest["target"].keys() == {"name", "opset", "facts", "date"}
    assert manifest["model"] == {
        "file": "model.onnx",
        "sha256": hashlib.sha256((bundle / "model.onnx").read_bytes()).hexdigest(),
    }
    assert {"torch", "onnx", "onnxruntime"} <= manifest["versions"].keys()
    assert manifest["inputs"] == [
        {"name": "obs", "role": "argument", "dtype": "float32", "shape": ["batch", 4], "path": "args[0]"}
    ]
    assert manifest["outputs"] == [
        {"name": "output", "role": "result", "dtype": "float32", "shape": ["batch", 2], "path": ""}
    ]


def test_every_file_is_there_and_can_be_read(bundle):
    assert contents(bundle).keys() == {
        "model.onnx",
        "golden.npz",
        "certificate.json",
        "report.json",
        "manifest.json",
    }
    onnx.checker.check_model(onnx.load(bundle / "model.onnx"), full_check=True)
    assert msgspec.json.decode((bundle / "certificate.json").read_bytes(), type=Certificate).inputs == 12
    assert msgspec.json.decode((bundle / "report.json").read_bytes(), type=Report).command == "rewrite"
    golden = np.load(bundle / "golden.npz")
    assert golden["0/in/obs"].shape == (3, 4)
    assert golden["0/out/output"].shape == golden["0/tolerance/output"].shape == (3, 2)
    assert 0 < golden["0/tolerance/output"].max() < 1e-5


def test_the_same_input_gives_the_same_bytes_in_another_process(tmp_path, bundle):
    process = script(tmp_path / "again")
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert contents(tmp_path / "again") == contents(bundle)


def test_a_bundle_is_replaced_and_nothing_is_left_beside_it(tmp_path):
    place = tmp_path / "deep" / "down" / "bundle"
    write_plain(place)
    before = (place / "manifest.json").stat().st_ino
    write_plain(place)
    assert (place / "manifest.json").stat().st_ino != before
    assert [p.name for p in place.parent.iterdir()] == ["bundle"]
    assert verify(place).ok


def file(place: Path) -> None:
    place.write_text("notes")


def full_folder(place: Path) -> None:
    place.mkdir()
    (place / "notes.txt").write_text("notes")


def other_manifest(place: Path) -> None:
    place.mkdir()
    (place / "manifest.json").write_text('{"name": "an app"}')


def bundle_with_notes(place: Path) -> None:
    write_plain(place)
    (place / "notes.txt").write_text("notes")


@pytest.mark.parametrize("make", [file, full_folder, other_manifest, bundle_with_notes])
def test_anything_else_is_never_overwritten(tmp_path, make):
    place = tmp_path / "place"
    make(place)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(OutputError) as error:
        check_output(place)
    assert str(place) in error.value.message
    with pytest.raises(OutputError):
        write_plain(place)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_an_empty_folder_and_a_link_to_a_bundle_will_do(tmp_path):
    (tmp_path / "empty").mkdir()
    write_plain(tmp_path / "empty")
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    write_plain(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert verify(tmp_path / "link").ok


def test_a_file_in_the_way_of_the_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="file is a file"):
        check_output(tmp_path / "file" / "bundle")


@contextmanager
def file_size_limit(size: int):
    """Every write beyond `size` bytes of a file fails, as it does on a full disk (Python ignores SIGXFSZ)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_nothing_and_the_old_bundle_stands(tmp_path):
    with file_size_limit(1000), pytest.raises(OutputError, match="cannot write") as error:
        write_plain(tmp_path / "deep" / "bundle")
    assert "Free some space" in error.value.remedy
    assert list(tmp_path.iterdir()) == []
    write_plain(tmp_path / "old")
    before = contents(tmp_path / "old")
    with file_size_limit(1000), pytest.raises(OutputError):
        write_plain(tmp_path / "old")
    assert contents(tmp_path / "old") == before
    assert [p.name for p in tmp_path.iterdir()] == ["old"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
def test_a_disk_that_is_really_full(tmp_path):
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(tmp_path)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this host does not let root mount")
    try:
        with pytest.raises(OutputError, match="No space left on device"):
            write_plain(tmp_path / "bundle")
        assert list(tmp_path.iterdir()) == []
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.mark.parametrize("moment", ["_sha256", "_sync", "_swap"])
def test_an_interrupt_leaves_nothing_behind(tmp_path, monkeypatch, moment):
    """A real SIGINT: while files are hashed, while they are put on the disk, and before they take their place."""
    monkeypatch.setattr(bundles, moment, lambda *_: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        write_plain(tmp_path / "deep" / "bundle")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_between_the_two_renames_puts_the_old_bundle_back(tmp_path, monkeypatch):
    write_plain(tmp_path / "bundle")
    before = contents(tmp_path / "bundle")
    rename = Path.rename

    def interrupted(self, target):
        if self.suffix == ".partial" and not Path(target).exists():
            signal.raise_signal(signal.SIGINT)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_plain(tmp_path / "bundle")
    assert contents(tmp_path / "bundle") == before
    assert [p.name for p in tmp_path.iterdir()] == ["bundle"]


# The writer stops where its folder is complete but not yet in place.
PAUSE = """
def pause(*paths):
    print("ready", flush=True)
    time.sleep(600)
bundle._swap = pause
"""


def test_what_a_killed_run_left_is_cleared_up_by_the_next(tmp_path):
    process = script(tmp_path / "bundle", before=PAUSE)
    process.stdout.readline()
    write_plain(tmp_path / "bundle")
    assert len(list(tmp_path.iterdir())) == 2, "a run that is alive keeps its folder"
    process.kill()
    process.communicate()
    write_plain(tmp_path / "bundle")
    assert [p.name for p in tmp_path.iterdir()] == ["bundle"]
    (tmp_path / "bundle").rename(tmp_path / ".bundle.0123abcd.replaced")
    write_plain(tmp_path / "bundle")
    assert [p.name for p in tmp_path.iterdir()] == ["bundle"]


def test_large_weights_are_a_file_of_their_own_and_hashed(tmp_path):
    policy = write_plain(tmp_path / "bundle", weights_limit=0)
    manifest = json.loads((tmp_path / "bundle" / "manifest.json").read_text())
    assert [f["file"] for f in manifest["model"]["external_data"]] == ["model.onnx.data"]
    x = policy.example_args[0].numpy()
    assert load(tmp_path / "bundle")(x).shape == (3, 2)
