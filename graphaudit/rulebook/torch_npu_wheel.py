"""What a torch_npu wheel says of itself: which kernels it has, and which converters of TorchAir do something.

The wheel, packed or unpacked, is only read: its kernel lists line by line, its converters as syntax trees. It cannot be
imported without CANN, and need not be.
"""

from __future__ import annotations

import ast
import re
import zipfile
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from graphaudit.errors import RuleError
from graphaudit.rulebook.aten import spelled

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_LISTS = ("npu_native_functions.yaml", "npu_native_functions_by_codegen.yaml")
_SECTION = re.compile(r"^(\w+):")
_ENTRY = re.compile(r"^\s*(?:- )?func: ([\w.]+)|^\s+- ([\w.]+)$")
_OWN = re.compile(r"_?npu_")  # how torch_npu's own operators are called outside their sections
_REGISTER = "register_fx_node_ge_converter"


class Converter(StrEnum):
    """What a converter does: its work, its work on some inputs and raise on others, or nothing but raise."""

    IMPLEMENTED = "implemented"
    PARTIAL = "partial"
    STUB = "stub"


class Wheel:
    """A torch_npu wheel, a `.whl` or the folder that it was unpacked to. Raises RuleError where it is none."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise RuleError(f"there is no {path}", "Name a .whl of torch_npu, or the folder it was unpacked to.")
        root: Traversable = zipfile.Path(path) if zipfile.is_zipfile(path) else path
        self._package = root / "torch_npu"
        if not (self._package / "csrc").is_dir():
            raise RuleError(f"{path} holds no torch_npu", "Name a .whl of torch_npu, or the folder it was unpacked to.")
        self.version = _version(root)

    @property
    def torch(self) -> str:
        """The torch that it is made for: `2.13`."""
        return ".".join(self.version.split(".")[:2])

    def kernels(self) -> set[str]:
        """The operators with an NPU kernel, as FX spells them."""
        folder = self._package / "csrc" / "aten"
        return {op for name in _LISTS for op in read_kernel_list((folder / name).read_text(encoding="utf-8"))}

    def converters(self) -> dict[str, Converter]:
        """The operators that TorchAir registers a converter for, as FX spells them; the best of several counts."""
        folder = self._package / "dynamo" / "torchair" / "_ge_concrete_graph" / "ge_converter"
        order = list(Converter)
        found: dict[str, Converter] = {}
        for file in _python_files(folder):
            for op, converter in read_converters(file.read_text(encoding="utf-8")):
                found[op] = min(found.get(op, converter), converter, key=order.index)
        return found


def read_kernel_list(text: str) -> Iterator[str]:
    """The operators of one of torch_npu's kernel lists."""
    section = ""
    for line in text.splitlines():
        start = _SECTION.match(line)
        if start:
            section = start[1]
        entry = _ENTRY.match(line)
        if entry and section not in ("backend", "cpp_namespace"):
            name = entry[1] or entry[2]
            own = section in ("custom", "quant") or _OWN.match(name)
            yield spelled(name, "npu" if own else "aten")


def read_converters(text: str) -> Iterator[tuple[str, Converter]]:
    """The operators that a file registers converters for, and what these do."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and _last(decorator.func) == _REGISTER and decorator.args:
                    op = _operator(decorator.args[0])
                    if op:
                        yield op, _judge(node)


def _judge(function: ast.FunctionDef) -> Converter:
    body = [s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    if body and isinstance(body[0], ast.Raise):
        return Converter.STUB
    raises = any(isinstance(node, ast.Raise) for node in ast.walk(function))
    return Converter.PARTIAL if raises else Converter.IMPLEMENTED


def _operator(node: ast.expr) -> str | None:
    """`torch.ops.aten.add.Tensor` → `aten.add.Tensor`; also `getattr(torch.ops.aten.add, "Tensor", None)`."""
    if isinstance(node, ast.Call) and _last(node.func) == "getattr" and len(node.args) > 1:
        packet, overload = _operator(node.args[0]), node.args[1]
        name = overload.value if isinstance(overload, ast.Constant) else None
        return f"{packet}.{name}" if packet and isinstance(name, str) else None
    spelled_out = ast.unparse(node)
    return spelled_out.removeprefix("torch.ops.") if re.fullmatch(r"[\w.]+", spelled_out) else None


def _last(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


def _python_files(folder: Traversable) -> Iterator[Traversable]:
    for file in sorted(folder.iterdir(), key=lambda f: f.name):
        if file.is_dir():
            yield from _python_files(file)
        elif file.name.endswith(".py"):
            yield file


def _version(root: Traversable) -> str:
    names = [f.name for f in root.iterdir() if f.name.startswith("torch_npu-") and f.name.endswith(".dist-info")]
    if not names:
        raise RuleError("the wheel names no version of torch_npu", "Keep its .dist-info folder beside torch_npu.")
    return names[0].removeprefix("torch_npu-").removesuffix(".dist-info")
