"""Exported programs: loaded as they are, and inert unless trusted."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from graphaudit.errors import ModelError
from graphaudit.policy.loading import load_policy
from graphaudit.policy.pt2_text import suspicious_text


class Branching(nn.Module):
    """Weights, a buffer, a lifted constant, a dict input, a keyword, torch.cond and sizes that are computed."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4)
        self.register_buffer("offset", torch.ones(4))

    def forward(self, obs: dict[str, torch.Tensor], *, scale: torch.Tensor) -> Any:
        x = self.layer(obs["a"]) + self.offset + torch.tensor([1.0, 2.0, 3.0, 4.0])
        x = torch.cond(x.sum() > 0, lambda t: t + 1, lambda t: t - 1, (x,))
        x = torch.einsum("bi,bj->bij", x, obs["b"])
        return {"flat": x.reshape(-1), "half": x[:, 1:], "scale": scale * 2}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    batch = Dim("batch", min=2, max=64)
    args = ({"a": torch.zeros(4, 3), "b": torch.zeros(4, 5)},)
    shapes = {"obs": {"a": {0: batch}, "b": {0: batch}}, "scale": None}
    module = Branching().eval()
    exported = torch.export.export(module, args, {"scale": torch.ones(2)}, dynamic_shapes=shapes, strict=False)
    file = tmp_path_factory.mktemp("pt2") / "walker.pt2"
    torch.export.save(exported, file)
    return file


def changed(archive: Path, folder: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """A copy of the archive with its entries changed."""
    with zipfile.ZipFile(archive) as source:
        entries = {n: source.read(n) for n in source.namelist()}
    change(entries)
    file = folder / "changed.pt2"
    with zipfile.ZipFile(file, "w") as target:
        for name, content in entries.items():
            target.writestr(name, content)
    return file


def edit_model(old: str, new: str) -> Callable[[dict[str, bytes]], None]:
    """Replaces text in the graph's JSON."""

    def change(entries: dict[str, bytes]) -> None:
        name = next(n for n in entries if n.endswith("models/model.json"))
        text = entries[name].decode()
        assert old in text
        entries[name] = text.replace(old, new).encode()

    return change


class Pickled:
    """Its pickle creates a file when it is loaded."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.file),)


def test_a_saved_program_needs_no_trust(archive: Path) -> None:
    policy = load_policy(str(archive))
    assert policy.exported is not None
    assert policy.name == str(archive)
    assert policy.parameter_count == 16
    shapes = policy.dynamic_shapes
    assert shapes is not None
    name = shapes[0]["a"][0]
    assert shapes == ({"a": {0: name}, "b": {0: name}},)
    assert [slot.path for slot in policy.interface.inputs] == ["args[0]['a']", "args[0]['b']", "kwargs['scale']"]
    module = Branching()
    module.load_state_dict(policy.exported.state_dict)
    obs = {"a": torch.randn(5, 3), "b": torch.randn(5, 5)}
    want = module(obs, scale=torch.ones(2))
    got = policy.working(obs, scale=torch.ones(2))
    assert all(torch.equal(want[key], got[key]) for key in want)


def test_pickled_objects_need_trust(archive: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    buffer = io.BytesIO()
    torch.save((Pickled(made),), buffer)

    def change(entries: dict[str, bytes]) -> None:
        name = next(n for n in entries if "sample_inputs" in n)
        entries[name] = buffer.getvalue()

    file = changed(archive, tmp_path, change)
    with pytest.raises(ModelError, match="pickled object") as caught:
        load_policy(str(file))
    assert "--trust" in caught.value.remedy
    assert not made.exists()
    # Without the guard it would have run: the test would not notice a guard that refuses everything otherwise.
    with pytest.raises(ModelError):
        load_policy(str(file), trust=True)
    assert made.exists()


def test_expressions_that_would_be_evaluated_need_trust(archive: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    attack = f"__import__('os').mkdir('{made}')"
    with zipfile.ZipFile(archive) as source:
        model = json.loads(source.read(next(n for n in source.namelist() if n.endswith("models/model.json"))))
    guard = model["guards_code"][0]
    for old, new in (('expr_str": "Symbol(\'', f'expr_str": "{attack} or Symbol(\''), (guard, f"{attack} or {guard}")):
        file = changed(archive, tmp_path, edit_model(old, new.replace("\\", "\\\\")))
        with pytest.raises(ModelError, match="can run code"):
            load_policy(str(file))
        assert not made.exists()


@pytest.mark.parametrize(
    ("entry", "content"),
    [
        ("data/constants/custom_obj_0", b""),
        ("data/constants/opaque_obj_0", pickle.dumps(3)),
        ("data/aotinductor/model/a.so", b"\x7fELF"),
        ("data/weights/model.pt", b""),
        ("serialized_exported_program.json", b"{}"),
    ],
)
def test_entries_that_torch_would_run_need_trust(archive: Path, tmp_path: Path, entry: str, content: bytes) -> None:
    def change(entries: dict[str, bytes]) -> None:
        root = next(iter(entries)).partition("/")[0]
        entries[f"{root}/{entry}"] = content

    with pytest.raises(ModelError, match="can run code"):
        load_policy(str(changed(archive, tmp_path, change)))


@pytest.mark.parametrize(
    "document",
    [
        {"target": "torch.hub.load"},
        {"target": "torch.ops.load_library"},
        {"target": "torch.ops.aten.from_file.default"},
        {"target": "_operator.methodcaller"},
        {"name": "x); import os; (y"},
        {"forward_arg_names": ["obs", "a, b=print()"]},
        {"layer'].__class__": {}},
        {"expr_str": "s0.__class__"},
        {"expr_str": "lambdify(s0)"},
        {"expr_str": "(lambda: 1)()"},
        {"expr_str": "[s0 for s0 in L]"},
        {"guards_code": ["L['a\"b'].size()[0] == 1"]},
        {"guards_code": ["open('f')"]},
        {"in_spec": json.dumps([1, {"context": json.dumps(["a'] + print() + ['"])}])},
        {"weights": {"w": {"use_pickle": True}}},
    ],
)
def test_text_that_becomes_code_is_suspicious(document: dict[str, Any]) -> None:
    assert suspicious_text(json.dumps(document).encode())


@pytest.mark.parametrize(
    "document",
    [
        {"target": "torch.ops.aten.__and__.Tensor"},
        {"target": "torch.ops.higher_order.while_loop"},
        {"target": "torch.sym_max"},
        {"name": "obs_a", "as_string": "bi,bj->bij"},
        {"expr_str": "Add(Integer(-1), Max(Integer(2), FloorDiv(Symbol('s51', positive=True, integer=True), 2)))"},
        {"guards_code": ["Eq(Mod(L['obs']['b'].size()[0], 2), 0) and L['x'].stride()[1] >= 3"]},
        {"layer.0.weight": {"use_pickle": False, "path_name": "weight_0"}},
    ],
)
def test_what_torch_writes_is_not_suspicious(document: dict[str, Any]) -> None:
    assert suspicious_text(json.dumps(document).encode()) == ""


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"not a zip", pickle.dumps([1])])
def test_damaged_archives_are_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "broken.pt2"
    file.write_bytes(content)
    with pytest.raises(ModelError, match="not a readable"):
        load_policy(str(file))


def test_a_truncated_archive_is_named(archive: Path, tmp_path: Path) -> None:
    file = tmp_path / "short.pt2"
    file.write_bytes(archive.read_bytes()[:-200])
    with pytest.raises(ModelError):
        load_policy(str(file))


def test_nothing_can_be_named_beside_a_data_file(archive: Path) -> None:
    with pytest.raises(Exception, match="brings its own inputs"):
        load_policy(str(archive), example_inputs="mine")
