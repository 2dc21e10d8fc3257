"""Exported programs (`.pt2`), loaded without giving the file a chance to run code.

`torch.export.load` unpickles some weights, constants and sample inputs, loads compiled libraries, hands size
expressions to `sympy.sympify` (which evaluates them) and compiles guards and names into Python source (torch 2.13:
export/pt2_archive/_package.py, _export/serde/serialize.py, export/_unlift.py). A file from `torch.export.save` needs
almost none of that. So `unsafe_part` reads the archive first, and only what passes is repacked and given to torch;
the rest needs `--trust`.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from graphaudit.errors import ModelError
from graphaudit.policy.policy import Policy
from graphaudit.policy.pt2_text import suspicious_text
from graphaudit.policy.usercode import describe
from graphaudit.text import one_line, shown_path

_PLAIN_ENTRIES = ("archive_format", "archive_version", "byteorder", ".data/", "extra/", "models/", "data/")


def load_pt2(path: Path, *, trust: bool) -> Policy:
    """The exported program as a policy. Raises ModelError for a damaged file, and for an unsafe one without `trust`."""
    entries = _read(path)
    if not trust:
        part = unsafe_part(entries)
        if part:
            raise ModelError(
                f"{shown_path(path)} holds {part}, which can run code when it is loaded",
                "Pass --trust if you know where the file comes from, or export the policy again.",
            )
    try:
        # Loading the very bytes that were read: two readers may disagree about a crafted archive.
        exported = torch.export.load(io.BytesIO(path.read_bytes() if trust else _repack(entries)))
        module = exported.module()
    except Exception as error:  # torch raises many kinds for a damaged archive
        raise ModelError(
            f"torch {torch.__version__} cannot load {shown_path(path)}: {describe(error)}",
            "Export the policy again with this version of torch.",
        ) from error
    if exported.example_inputs is None:
        raise ModelError(
            f"{shown_path(path)} holds no example inputs", "Export it with torch.export.save of torch ≥ 2.9."
        )
    args, kwargs = exported.example_inputs
    return Policy(
        name=path.name,
        module=module,
        example_args=tuple(args),
        example_kwargs=dict(kwargs),
        dynamic_shapes=_dynamic_shapes(exported),
        exported=exported,
    )


def unsafe_part(entries: Mapping[str, bytes]) -> str:
    """What in the archive could run code, in words; empty if nothing can."""
    for name, content in entries.items():
        part = _unsafe_entry(name, content)
        if part:
            return part
    return ""


def _unsafe_entry(name: str, content: bytes) -> str:
    shown = one_line(name, 80)
    if not name.startswith(_PLAIN_ENTRIES):
        return f"an entry of another layout ({shown})"
    if name.startswith("data/aotinductor/"):
        return f"compiled code ({shown})"
    file = name.rpartition("/")[2]
    if name.startswith(("models/", "data/weights/", "data/constants/")):
        if file.endswith(".json"):
            found = suspicious_text(content)
            return f"{found} in {shown}" if found else ""
        return "" if file.startswith(("weight_", "tensor_")) else f"a pickled object ({shown})"
    if name.startswith("data/sample_inputs/"):
        return "" if _is_plain_pickle(content) else f"a pickled object ({shown})"
    return f"an entry of another layout ({shown})" if name.startswith("data/") else ""


def _is_plain_pickle(content: bytes) -> bool:
    if not content:
        return True
    try:
        torch.load(io.BytesIO(content), weights_only=True)
    except Exception:  # any failure means that it is not plain
        return False
    return True


def _read(path: Path) -> dict[str, bytes]:
    """Entry name (below the archive's root folder) → content."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            roots = {n.partition("/")[0] for n in names}
            contents = {n.partition("/")[2]: archive.read(n) for n in names}
    except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError) as error:
        raise ModelError(
            f"{shown_path(path)} is not a readable .pt2 archive: {describe(error)}",
            "Save it again with torch.export.save(exported_program, path).",
        ) from error
    if len(roots) != 1 or len(contents) != len(names) or "archive_format" not in contents:
        raise ModelError(
            f"{shown_path(path)} is not laid out as an exported program",
            "Save it with torch.export.save(exported_program, path) of torch 2.9 or later.",
        )
    return contents


def _repack(entries: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, content in entries.items():
            archive.writestr(f"archive/{name}", content)
    return buffer.getvalue()


def _dynamic_shapes(exported: ExportedProgram) -> tuple[Any, ...] | None:
    """{dimension: symbol} for each positional argument, nested like the argument; None if every size is fixed."""
    values = {n.name: n.meta.get("val") for n in exported.graph.nodes if n.op == "placeholder"}
    shapes = [_symbols(values.get(name)) for name in _user_inputs(exported)]
    if not any(shapes):
        return None
    args, _ = pytree.tree_unflatten(shapes, exported.call_spec.in_spec)
    return tuple(args)


def _user_inputs(exported: ExportedProgram) -> Iterator[str]:
    for spec in exported.graph_signature.input_specs:
        if spec.kind is torch.export.graph_signature.InputKind.USER_INPUT:
            yield getattr(spec.arg, "name", "")


def _symbols(value: Any) -> dict[int, str] | None:
    if not isinstance(value, torch.Tensor):
        return None
    sizes: list[Any] = list(value.shape)
    return {d: str(size) for d, size in enumerate(sizes) if isinstance(size, torch.SymInt)} or None
