"""The command line of ATC, Ascend's compiler, for an ONNX model, and what to expect of it.

Options: hicann/ge, docs/zh/user_guides/atc_tools/CLI_options; the vendor's order of precision modes, most accurate
first, is origin, mixed_float16, fp16 (--precision_mode_v2.md there).
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from graphaudit.errors import TargetError
from graphaudit.rulebook.rulebook import Rulebook
from graphaudit.rulebook.target import Support
from graphaudit.text import counted

if TYPE_CHECKING:
    from graphaudit.graphs.view import GraphView, Value

_CUBE = ("MatMul", "Gemm", "Conv", "ConvTranspose")  # what the matrix unit computes
_INDEXED = {"Gather": 1, "GatherElements": 1, "GatherND": 1, "ScatterElements": 1, "ScatterND": 1}
_GEARS = "1,2,4,8"
_LARGEST_FLOAT16 = 65504.0


class AtcAdvice(msgspec.Struct, kw_only=True):
    """A command for a shell, its arguments, and what the user must know or decide."""

    command: str
    arguments: list[str]
    notes: list[str]


def advise(graph: GraphView, rulebook: Rulebook, model: str, soc_version: str | None = None) -> AtcAdvice:
    """How to compile the file `model`, whose view is `graph`. Raises TargetError if ATC does not serve the target."""
    target = rulebook.target
    if not target.max_gears:
        raise TargetError(f"{target.name} is not compiled by ATC", "Name one of the ascend targets.")
    if soc_version is not None and soc_version not in target.soc_versions:
        known = ", ".join(target.soc_versions)
        raise TargetError(f"{soc_version!r} is no chip of {target.name}", f"Its chips are {known}.")
    precision, why = _precision(graph, rulebook)
    arguments = [
        "--framework=5",
        f"--model={model}",
        f"--output={Path(model).stem}",
        f"--soc_version={soc_version or target.soc_versions[0]}",
        f"--input_shape={_input_shape(graph, '1')}",
        f"--precision_mode_v2={precision}",
    ]
    notes = [why]
    if soc_version is None:
        chips = ", ".join(target.soc_versions)
        notes.append(f"soc_version must be the robot's own chip, the name that npu-smi shows: one of {chips}")
    notes += [*_sizes(graph, rulebook), *_expected_errors(graph, rulebook), *_unchecked(graph)]
    if precision != "origin":
        notes.append(_kept(graph, rulebook))
    return AtcAdvice(command=shlex.join(["atc", *arguments]), arguments=arguments, notes=notes)


def _precision(graph: GraphView, rulebook: Rulebook) -> tuple[str, str]:
    narrow = []
    for op in sorted({n.op for n in graph.nodes if not n.domain and n.op in _CUBE}):
        rule = rulebook.rule(op)
        engines = dict(rule.engines or {}) if rule else {}
        if "AI Core" in engines and "float32" not in engines["AI Core"]:
            narrow.append(op)
    if narrow:
        why = (
            f"the AI Core has no float32 kernel for {' and '.join(narrow)}: with origin they go to the AI CPU, or fail "
        )
        why += "there; mixed_float16 keeps float32 where float16 is known to lose too much, keep_dtype can name more"
        return "mixed_float16", why
    why = "without precision_mode_v2 everything is computed in float16; origin keeps the model's dtypes, "
    why += "mixed_float16 is faster and less exact"
    return "origin", why


def _kept(graph: GraphView, rulebook: Rulebook) -> str:
    """What keep_dtype must name: the nodes that read a constant which float16 cannot hold, as ATC's own operators."""
    kept: dict[str, str] = {}
    for node in graph.nodes:
        for value in node.inputs:
            if value is not None and value.dtype in ("float32", "float64") and _overflows(value):
                rule = rulebook.rule(node.op)
                kept[node.name] = " and ".join(rule.becomes) if rule and rule.becomes else node.op
    if not kept:
        return "--keep_dtype is not needed for any constant: float16 holds them all"
    named = ", ".join(f"{op} (node {name})" for name, op in kept.items())
    return f"--keep_dtype is needed, with a file that names what reads a constant beyond float16: {named}"


def _overflows(value: Value) -> bool:
    import numpy as np

    array = value.array
    if array is None or not array.size:
        return False
    finite = np.abs(array[np.isfinite(array)])
    return bool(finite.size) and float(finite.max()) > _LARGEST_FLOAT16


def _input_shape(graph: GraphView, size: str) -> str:
    return ";".join(f"{v.name}:{','.join(_shape(v, size))}" for v in graph.inputs if v.shape is not None)


def _shape(value: Value, size: str) -> list[str]:
    return [str(s) if isinstance(s, int) else size for s in value.shape or ()]


def _sizes(graph: GraphView, rulebook: Rulebook) -> Iterator[str]:
    target = rulebook.target
    open_sizes = [(i, s) for v in graph.inputs for i, s in enumerate(v.shape or ()) if not isinstance(s, int)]
    if not open_sizes:
        return
    names = ", ".join(dict.fromkeys(str(s) for _, s in open_sizes))
    yield f"{names}: fixed at 1 here, which is compiled and runs fastest; write the size that you need"
    gears = "dynamic_batch_size" if all(i == 0 for i, _ in open_sizes) else "dynamic_dims"
    shape = _input_shape(graph, "-1")
    values = _GEARS
    if gears == "dynamic_dims":
        values = ";".join(",".join([g] * len(open_sizes)) for g in _GEARS.split(","))
    yield f"for several sizes, up to {target.max_gears}: --input_shape={shape!r} --{gears}={values!r}"
    if target.shape_ranges:
        yield f"for a range of sizes, the slowest: --input_shape={_input_shape(graph, '1~8')!r}"
    else:
        yield f"{target.name} takes no ranges of sizes"


def _expected_errors(graph: GraphView, rulebook: Rulebook) -> Iterator[str]:
    for support, codes, what in (
        (Support.UNSUPPORTED, "E19010, or E16002 from CANN 8.5.0 on", "not taken"),
        (Support.UNKNOWN, "EZ3002 or EZ3003 if they are not taken", "not known to be taken"),
    ):
        found = Counter(n.op for n in graph.nodes if rulebook.answer(n).support is support)
        if found:
            ops = ", ".join(f"{op} ({count})" for op, count in sorted(found.items()))
            yield f"{counted(found.total(), 'node')} {what}: {ops}; expect {codes} (`graphaudit explain E19010`)"


def _unchecked(graph: GraphView) -> Iterator[str]:
    for node in graph.nodes:
        index = _INDEXED.get(node.op) if not node.domain else None
        value = node.inputs[index] if index is not None and index < len(node.inputs) else None
        if value is not None and not value.is_constant:
            yield (
                f"{node.op} takes indices that are computed, and indices outside the tensor are not checked: "
                "set support_out_of_bound_index in a file for --op_precision_mode if there can be any"
            )
            return
