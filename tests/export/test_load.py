"""Deployed policies: the policy's own calls give the policy's own results, and everything else gives a clear error."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from graphaudit.errors import BundleError, GuardError
from graphaudit.export.load import load, verify
from tests.export import bundles
from tests.export.bundles import Distribution, Keywords, Rich, rich_example, write, write_plain

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def rich(tmp_path_factory) -> tuple[Path, Rich]:
    place = tmp_path_factory.mktemp("bundle") / "rich"
    module = Rich()
    write(place, module, rich_example())
    return place, module


@pytest.fixture
def plain(tmp_path) -> Path:
    write_plain(tmp_path / "plain")
    return tmp_path / "plain"


def obs():
    return {"state": torch.randn(3, 4), "bias": (torch.rand(2),)}


def close(got, want):
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)


def test_the_policy_s_own_structure_comes_back(rich):
    place, module = rich
    given = obs()
    got, want = load(place)(given, True), module(given)
    assert type(got).__name__ == "Step"
    assert torch.equal(got.action, want.action)
    assert got.info.keys() == want.info.keys()
    assert got.info["nothing"] is None
    assert got.info["pair"]._fields == ("mean", "scale")
    close(got.info["pair"].mean, want.info["pair"].mean.detach())
    close(got.info["list"][0], want.info["list"][0].detach())


def test_numpy_in_gives_numpy_out_and_the_signature_is_the_policy_s(rich):
    policy = load(rich[0])
    given = {"state": np.ones((3, 4), np.float32), "bias": (np.zeros(2, np.float32),)}
    got = policy(obs=given, deterministic=True)
    assert isinstance(got.action, np.ndarray)
    assert got.action.dtype == np.int64
    assert type(got) is type(policy(given)), "every call returns the same type"
    assert str(inspect.signature(policy)) == "(obs, deterministic=True, mask=None)"
    assert "Rich(obs, deterministic=True, mask=None) for onnxruntime" in repr(policy)


def replaced(**changes):
    return {**obs(), **changes}


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((obs(), False), {}, r"args\[1\] is False, but the bundle was made with True"),
        ((obs(), 1), {}, r"args\[1\] is 1, but the bundle was made with True"),
        ((obs(), True, torch.ones(2)), {}, r"kwargs\['mask'\] is given, but the bundle was made without it"),
        ((), {}, r"policy\(obs, deterministic=True, mask=None\): missing a required argument: 'obs'"),
        ((obs(),), {"greedy": True}, "unexpected keyword argument 'greedy'"),
        ((torch.randn(3, 4),), {}, r"args\[0\] is a Tensor, the policy takes a dict with the keys"),
        (({"state": torch.randn(3, 4)},), {}, r"args\[0\] is a dict with the keys state, the policy takes a dict"),
        ((replaced(bias=[torch.ones(2)]),), {}, r"args\[0\]\['bias'\] is a list of 1, the policy takes a tuple of 1"),
        ((replaced(bias=(1.0,)),), {}, r"args\[0\]\['bias'\]\[0\] is a float, the policy takes a tensor"),
        (
            (replaced(state=torch.randn(3, 4).double()),),
            {},
            r"args\[0\]\['state'\] is float64, the policy takes float32",
        ),
        ((replaced(state=torch.randn(2, 4)),), {}, r"has the shape \(2, 4\), the policy takes \(3, 4\)"),
        ((replaced(state=torch.randn(4)),), {}, r"has the shape \(4,\)"),
        ((replaced(state=torch.randn(3, 4).bfloat16()),), {}, "torch.bfloat16, which NumPy does not have"),
    ],
)
def test_other_calls_are_refused_with_the_place(rich, args, kwargs, message):
    with pytest.raises(GuardError, match=message):
        load(rich[0])(*args, **kwargs)


def test_any_batch_size_where_the_batch_is_dynamic(plain):
    policy = load(plain)
    module = bundles.prepare_plain()["policy"].module
    for size in (1, 2, 7, 0):
        x = torch.randn(size, 4)
        close(policy(x), module(x).detach())
    with pytest.raises(GuardError, match=r"args\[0\] has the shape \(3, 5\), the policy takes \(batch, 4\)"):
        policy(torch.randn(3, 5))


def test_distributions_come_back_as_their_parameters(tmp_path):
    module = Distribution()
    write(tmp_path / "bundle", module, (torch.randn(3, 4),))
    x = torch.randn(3, 4)
    got = load(tmp_path / "bundle")(x)
    close(got.loc, module(x).loc.detach())
    close(got.scale, torch.ones(3, 2))


def test_keyword_only_tensors_and_untouched_defaults(tmp_path):
    module = Keywords()
    write(tmp_path / "bundle", module, (torch.randn(3, 4),), {"shift": torch.ones(2)})
    policy = load(tmp_path / "bundle")
    x, shift = torch.randn(3, 4), torch.randn(2)
    close(policy(x, shift=shift), module(x, shift=shift).detach())
    close(policy(x, 2.0, shift=shift), module(x, shift=shift).detach())
    with pytest.raises(GuardError, match=r"kwargs\['scale'\] is given"):
        policy(x, 3.0, shift=shift)
    with pytest.raises(GuardError, match="positional only"):
        policy(obs=x, shift=shift)


def edit(place: Path, change) -> None:
    manifest = json.loads((place / "manifest.json").read_text())
    change(manifest)
    (place / "manifest.json").write_text(json.dumps(manifest))


def escape(manifest):
    manifest["model"]["file"] = "../model.onnx"


def absolute(manifest):
    manifest["files"][0]["file"] = "/etc/passwd"


def newer(manifest):
    manifest["schema_version"] = 99


def no_target(manifest):
    del manifest["target"]


def odd_class(manifest):
    manifest["call"]["result"] = {
        "kind": "branch", "container": "object", "items": [], "keys": ["x: __import__('os')"], "type": "a.B",
    }  # fmt: skip


def other_output(manifest):
    manifest["call"]["result"]["name"] = "nowhere"


def stateful(manifest):
    manifest["inputs"][0] |= {"role": "state", "initial": "h"}


def unknown_noise(manifest):
    manifest["inputs"][0] |= {"role": "noise", "distribution": "randint", "draw": 0, "parameters": {"low": 0}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (escape, "not a plain file name"),
        (absolute, "not a plain file name"),
        (newer, "has schema version 99"),
        (no_target, "is damaged: .*target"),
        (odd_class, "is damaged: "),
        (other_output, "names the output 'nowhere'"),
        (stateful, "does not list state.npz"),
        (unknown_noise, "does not say how .* is drawn"),
    ],
)
def test_a_bad_manifest_is_refused(plain, change, message):
    edit(plain, change)
    with pytest.raises(BundleError, match=message):
        load(plain)


@pytest.mark.parametrize("name", ["model.onnx", "golden.npz", "certificate.json", "report.json"])
def test_every_changed_or_missing_file_is_found(plain, name):
    path = plain / name
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"?")
    with pytest.raises(BundleError, match=f"{name} is not the file that the manifest was made for"):
        load(plain)
    path.unlink()
    with pytest.raises(BundleError, match=f"cannot read .*{name}"):
        load(plain)
    path.symlink_to("/etc/passwd")
    with pytest.raises(BundleError, match="is a link"):
        load(plain)


def test_what_is_no_bundle(tmp_path):
    for place in (tmp_path, tmp_path / "nowhere", Path(__file__)):
        with pytest.raises(BundleError, match="is not a bundle"):
            load(place)
    (tmp_path / "manifest.json").write_bytes(b"\xff\xfe{")
    with pytest.raises(BundleError, match="is damaged"):
        load(tmp_path)
    (tmp_path / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(BundleError, match="is damaged"):
        load(tmp_path)


def rehash(place: Path, name: str) -> None:
    def change(manifest):
        for record in (manifest["model"], *manifest["files"]):
            if record["file"] == name:
                record["sha256"] = hashlib.sha256((place / name).read_bytes()).hexdigest()

    edit(place, change)


def test_weights_outside_of_the_folder_are_not_read(plain):
    """A manifest that fits a model whose external data points elsewhere; ONNX Runtime refuses to follow."""
    (plain.parent / "secret").write_bytes(b"\0" * 128)
    model = onnx.load(plain / "model.onnx")
    tensor = max(model.graph.initializer, key=lambda t: len(t.raw_data))
    onnx.external_data_helper.set_external_data(tensor, location="../secret", length=len(tensor.raw_data))
    tensor.ClearField("raw_data")
    (plain / "model.onnx").write_bytes(model.SerializeToString())
    rehash(plain, "model.onnx")
    with pytest.raises(BundleError, match="ONNX Runtime does not load"):
        load(plain)


def test_verify_finds_outputs_that_moved(plain):
    result = verify(plain)
    assert result.ok
    assert result.samples == 8
    (output,) = result.outputs
    assert output.worst_abs <= output.tolerance < 1e-4
    assert result.versions == []

    model = onnx.load(plain / "model.onnx")
    bias = next(t for t in model.graph.initializer if t.name.endswith("2.bias"))
    moved = onnx.numpy_helper.to_array(bias) + np.float32(1e-3)
    bias.CopyFrom(onnx.numpy_helper.from_array(moved, bias.name))
    (plain / "model.onnx").write_bytes(model.SerializeToString())
    rehash(plain, "model.onnx")
    result = verify(plain)
    assert not result.ok
    assert result.outputs[0].worst_abs == pytest.approx(1e-3, rel=0.05)


def test_verify_names_versions_that_differ(plain):
    edit(plain, lambda manifest: manifest["versions"].update(torch="1.0", absent_package="2.0"))
    changes = {v.package: (v.bundle, v.here) for v in verify(plain).versions}
    assert changes == {"torch": ("1.0", torch.__version__), "absent_package": ("2.0", None)}


def test_nan_and_ties_do_not_fail_verification(plain):
    golden = dict(np.load(plain / "golden.npz"))
    golden["0/in/obs"][0, 0] = np.nan
    golden["0/out/output"][0] = np.nan
    np.savez(plain / "golden.npz", **golden)
    rehash(plain, "golden.npz")
    assert verify(plain).ok
    golden["0/out/output"][1] = np.nan  # eager not finite, the bundle is: in order only if the certificate said so
    np.savez(plain / "golden.npz", **golden)
    rehash(plain, "golden.npz")
    result = verify(plain)
    assert (result.ok, result.outputs[0].worst_abs) == (False, np.inf)
    golden["0/tolerance/output"][1] = np.inf
    np.savez(plain / "golden.npz", **golden)
    rehash(plain, "golden.npz")
    assert verify(plain).ok


def test_loading_and_running_import_no_torch(plain):
    shutil.copytree(plain, plain.parent / "copy")
    code = f"""
import sys
import numpy as np
from graphaudit.export.load import load, verify
policy = load({str(plain.parent / "copy")!r})
assert policy(np.ones((2, 4), np.float32)).shape == (2, 2)
assert verify({str(plain.parent / "copy")!r}).ok
assert "torch" not in sys.modules and "onnx" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
