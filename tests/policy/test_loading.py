"""From what the user names to a policy, and what is said when that fails."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from graphaudit.errors import GraphAuditError, ModelError, PolicyError
from graphaudit.policy.loading import load_policy

HEAD = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, obs):
        return self.layer(obs)

def build():
    return Net()
"""
INPUTS = """
def example_inputs():
    return (torch.zeros(1, 3),)
"""

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes `walker.py`: the usual head, then the given blocks."""

    def to_file(*blocks: str) -> Path:
        file = tmp_path / "walker.py"
        file.write_text(HEAD + "".join(textwrap.dedent(block) for block in blocks))
        return file

    return to_file


def error_of(spec: str, **names: str) -> GraphAuditError:
    with pytest.raises(GraphAuditError) as caught:
        load_policy(spec, **names)
    error = caught.value
    assert "\n" not in error.message + error.remedy
    assert error.message
    return error


def test_a_function_a_class_and_a_module_object_all_name_a_policy(write: Write) -> None:
    file = write(INPUTS + "ready = Net()\n")
    for name in ("build", "Net", "ready"):
        policy = load_policy(f"{file}:{name}")
        assert policy.name == f"{file}:{name}"
        assert policy.file == file
        assert policy.parameter_count == 8
        assert policy.inputs is None
        assert policy.reference is None


def test_what_stands_beside_the_policy_is_picked_up(write: Write) -> None:
    file = write(
        INPUTS,
        """
        dynamic_shapes = ({0: "batch"},)
        def inputs(seed):
            return (torch.full((1 + seed, 3), float(seed)),)
        def reference():
            return Net()
        """,
    )
    policy = load_policy(f"{file}:build")
    assert policy.dynamic_shapes == ({0: "batch"},)
    assert policy.inputs is not None
    assert torch.equal(policy.inputs(2)[0], torch.full((3, 3), 2.0))
    assert isinstance(policy.reference, torch.nn.Module)
    assert policy.interface.inputs[0].shape == ("batch", 3)


def test_other_names_can_be_given(write: Write) -> None:
    file = write(
        """
        def mine():
            return (torch.ones(4, 3),)
        def draw(seed):
            return (torch.ones(1, 3) * seed,)
        """
    )
    policy = load_policy(f"{file}:build", example_inputs="mine", inputs="draw")
    assert policy.example_args[0].shape == (4, 3)
    assert policy.inputs is not None
    error = error_of(f"{file}:build", example_inputs="mime")
    assert "'mime'" in error.message
    assert "'mine'" in error.remedy


def test_keyword_arguments_alone_are_enough(write: Write) -> None:
    file = write('example_kwargs = {"obs": torch.zeros(2, 3)}')
    policy = load_policy(f"{file}:build")
    assert policy.example_args == ()
    assert policy.interface.inputs[0].path == "kwargs['obs']"


def test_a_module_on_the_path_names_a_policy(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(INPUTS)
    package = file.parent / "gaits_for_loading"
    package.mkdir()
    file.rename(package / "walker.py")
    (package / "__init__.py").touch()
    monkeypatch.chdir(file.parent)
    policy = load_policy("gaits_for_loading.walker:build")
    assert policy.file == package / "walker.py"
    assert "no module named 'gaits_for_loading.runner'" in error_of("gaits_for_loading.runner:build").message


def test_neighbouring_files_can_be_imported_also_inside_functions(write: Write) -> None:
    file = write(
        """
        def example_inputs():
            from neighbour_of_walker import SIZE
            return (torch.zeros(SIZE, 3),)
        def inputs(seed):
            from other_neighbour_of_walker import SIZE
            return (torch.zeros(SIZE, 3),)
        """
    )
    (file.parent / "neighbour_of_walker.py").write_text("SIZE = 5")
    (file.parent / "other_neighbour_of_walker.py").write_text("SIZE = 6")
    before = list(sys.path)
    policy = load_policy(f"{file}:build")
    assert policy.example_args[0].shape == (5, 3)
    assert policy.inputs is not None
    assert policy.inputs(1)[0].shape == (6, 3)
    assert sys.path == before


def test_dataclasses_with_postponed_annotations_work(write: Write) -> None:
    head = "from __future__ import annotations\nfrom dataclasses import dataclass\n" + HEAD
    file = write(INPUTS + "@dataclass\nclass Size:\n    value: int = 3\nSize()\n")
    file.write_text(head + file.read_text().removeprefix(HEAD))
    assert load_policy(f"{file}:build").parameter_count == 8


def test_two_files_of_one_name_do_not_meet(tmp_path: Path) -> None:
    for folder, size in (("a", 2), ("b", 7)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "walker.py").write_text(HEAD + INPUTS.replace("(1, 3)", f"({size}, 3)"))
    sizes = [load_policy(f"{tmp_path / f / 'walker.py'}:build").example_args[0].shape[0] for f in "ab"]
    assert sizes == [2, 7]


@pytest.mark.parametrize(
    ("text", "name", "message", "remedy"),
    [
        (INPUTS, "biuld", "has no 'biuld'", "'build'"),
        (INPUTS + "def broken():\n    return 1 / 0", "broken", "ZeroDivisionError: division by zero at", ""),
        (INPUTS + "def broken():\n    raise SystemExit(3)", "broken", "raised SystemExit: 3", ""),
        (INPUTS + "def broken():\n    return 3", "broken", "returned an int, not an nn.Module", "Name a function"),
        (INPUTS + "size = 3", "size", "is an int, not an nn.Module", "Name a function"),
        (INPUTS + "def broken(size):\n    return Net()", "broken", "missing 1 required positional argument", ""),
        ("", "build", "has no example_inputs()", "def example_inputs()"),
        ("def example_inputs():\n    return [][0]", "build", "example_inputs raised IndexError", ""),
        ("def example_inputs():\n    return torch.zeros(1, 3)", "build", "a single tensor", "`(x,)`"),
        ("def example_inputs():\n    return [torch.zeros(1, 3)]", "build", "a list, not a tuple", "`(x,)`"),
        ("def example_inputs():\n    return torch.zeros(1, 3), 4", "build", "forward(obs) does not take", "one entry"),
        ("def example_inputs():\n    return ()", "build", "missing a required argument: 'obs'", "one entry"),
        (
            "def example_inputs():\n    return (torch.zeros(1, 4),)",
            "build",
            "forward raised RuntimeError",
            "own example",
        ),
        (
            INPUTS + "def inputs(seed):\n    return torch.zeros(1, 3)",
            "build",
            "inputs(0) gives a single tensor",
            "`(x,)`",
        ),
        (INPUTS + "def inputs(seed):\n    return seed.x", "build", "inputs(0) raised AttributeError", ""),
        (INPUTS + "inputs = 3", "build", "inputs is a int, not a function", "def inputs(seed)"),
        (
            INPUTS + "def reference():\n    return 3",
            "build",
            "reference gives a int, not an nn.Module",
            "full pipeline",
        ),
        (INPUTS + "example_kwargs = 3", "build", "example_kwargs is a int", "dict"),
        ("1 / 0", "build", "importing", ""),
        ("def f(:", "build", "SyntaxError", ""),
        ("import no_such_package", "build", "No module named 'no_such_package'", ""),
    ],
)
def test_each_mistake_is_named(write: Write, text: str, name: str, message: str, remedy: str) -> None:
    error = error_of(f"{write(text)}:{name}")
    assert isinstance(error, PolicyError)
    assert message in error.message
    assert remedy in error.remedy


def test_the_users_own_line_is_named(write: Write) -> None:
    file = write(INPUTS + "def broken():\n    x = torch.zeros(2)\n    return x.reshape(5)\n")
    line = file.read_text().splitlines().index("    return x.reshape(5)") + 1
    message = error_of(f"{file}:broken").message
    assert f"walker.py:{line}" in message
    assert message.endswith("return x.reshape(5)")


def test_weights_must_be_finite(write: Write) -> None:
    for value, word in (("nan", "NaN"), ("inf", "infinity")):
        file = write(
            INPUTS,
            f"""
            def broken():
                net = Net()
                net.layer.bias.data[1] = float("{value}")
                return net
            """,
        )
        message = error_of(f"{file}:broken").message
        assert f"parameter layer.bias holds {word} (1 of 2 values)" in message


def test_a_buffer_may_hold_a_mask_of_infinities(write: Write) -> None:
    file = write(
        INPUTS,
        """
        def masked():
            net = Net()
            net.register_buffer("mask", torch.tensor([0.0, -float("inf")]))
            return net
        """,
    )
    load_policy(f"{file}:masked")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("missing.py:build", "there is no file missing.py"),
        ("missing.py", "there is no file missing.py"),
        ("missing.pt2", "there is no file missing.pt2"),
        ("missing.zip", "there is no file missing.zip"),
        ("walker", "does not name a policy"),
        ("a/b:c", "does not name a policy"),
        (":build", "does not name a policy"),
        ("", "does not name a policy"),
        ("folder.py:build", "is not a file"),
        ("\x1b[31m.py:build", r"\x1b[31m.py"),
    ],
)
def test_what_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str, message: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.py").mkdir()
    assert message in error_of(spec).message


def test_a_file_without_a_name_asks_for_one(write: Write) -> None:
    error = error_of(str(write(INPUTS)))
    assert "which policy in it?" in error.message
    assert "walker.py:build" in error.remedy


def test_near_file_names_are_suggested(write: Write) -> None:
    file = write(INPUTS)
    assert "'walker.py'" in error_of(f"{file.with_name('wakler.py')}:build").remedy


def test_a_failed_import_leaves_no_module_behind(write: Write) -> None:
    before = set(sys.modules)
    error_of(f"{write('1 / 0')}:build")
    assert not [m for m in set(sys.modules) - before if m.startswith("graphaudit_policy_")]


def test_the_users_module_is_left_as_it_was(write: Write) -> None:
    file = write(INPUTS + "ready = Net()\nready.train()\n")
    policy = load_policy(f"{file}:ready")
    assert policy.module.training
    assert isinstance(policy.module, torch.nn.Module)


def test_files_of_other_kinds_are_refused(tmp_path: Path) -> None:
    (tmp_path / "weights.pth").write_bytes(b"x")
    assert isinstance(error_of(str(tmp_path / "weights.pth")), ModelError)
