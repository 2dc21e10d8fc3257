"""The operators of ATen, as the installed torch declares them. Reads torch's own list and never imports torch.

Source: `torchgen/packaged/ATen/native/native_functions.yaml` of the torch package, BSD-3-Clause.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import util
from importlib.metadata import version
from pathlib import Path

from graphaudit.errors import RuleError

_LIST = "packaged/ATen/native/native_functions.yaml"
_FUNCTION = re.compile(r"^- func: ([\w.]+)\(", re.MULTILINE)
_DELEGATE = re.compile(r"^  structured_delegate: ([\w.]+)", re.MULTILINE)
_DISPATCH = re.compile(r"^  dispatch:\n((?:    .*\n)+)", re.MULTILINE)
_CORE = re.compile(r"^  tags:.*\bcore\b", re.MULTILINE)
_KEYS = re.compile(r"^    ([\w, ]+):", re.MULTILINE)


@dataclass(frozen=True)
class AtenOp:
    """How torch runs an operator on a device that has no kernel of its own for it.

    name      as FX spells it: `aten.cumsum.default`
    implicit  torch makes other operators of it, in every graph that it compiles and on every device
    explicit  torch's own kernel calls other operators, when it runs
    delegate  the operator with an output argument that does the work, or None
    core      torch counts it among those that every other one can be decomposed to
    """

    name: str
    implicit: bool
    explicit: bool
    delegate: str | None
    core: bool


@cache
def aten_ops() -> dict[str, AtenOp]:
    """All of them by name. Raises RuleError where torch's list is not there."""
    spec = util.find_spec("torchgen")
    file = Path(spec.origin).parent / _LIST if spec is not None and spec.origin else None
    if file is None or not file.is_file():
        raise RuleError("the installed torch has no list of its operators", "Install torch from PyPI or pytorch.org.")
    return read_aten_ops(file.read_text(encoding="utf-8"))


def read_aten_ops(text: str) -> dict[str, AtenOp]:
    """The operators of a `native_functions.yaml`."""
    starts = [*_FUNCTION.finditer(text)]
    ends = [*(m.start() for m in starts[1:]), len(text)]
    return {op.name: op for op in (_operator(m[1], text[m.end() : end]) for m, end in zip(starts, ends))}


def _operator(name: str, entry: str) -> AtenOp:
    delegate = _DELEGATE.search(entry)
    block = _DISPATCH.search(entry)
    keys = {key.strip() for found in _KEYS.findall(block[1] if block else "") for key in found.split(",")}
    # Without a kernel for any device, the function of that name is written in terms of other operators.
    bare = delegate is None and not keys and "\n  structured: True" not in entry
    return AtenOp(
        name=spelled(name),
        implicit=bare or "CompositeImplicitAutograd" in keys,
        explicit=bool(keys & {"CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional"}),
        delegate=spelled(delegate[1]) if delegate else None,
        core=bool(_CORE.search(entry)),
    )


def spelled(name: str, namespace: str = "aten") -> str:
    """`cumsum` → `aten.cumsum.default`, as FX calls it; `cumsum.out` → `aten.cumsum.out`."""
    base, _, overload = name.partition(".")
    return f"{namespace}.{base}.{overload or 'default'}"


@cache
def installed_torch() -> str:
    """Major and minor version of the installed torch: `2.13`."""
    return ".".join(version("torch").split(".")[:2])
