"""ONNX operators that the target refuses are written in operators that it takes, by the first way that holds.

    ReduceL2(x, axes)       →  Sqrt(ReduceSumSquare(x, axes))
    ReduceL1(x, axes)       →  ReduceSum(Abs(x), axes)
    Where(c, a, b) of bool  →  Or(And(c, a), And(Not(c), b))
    DFT(x) of a real x      →  MatMul(x, [cos, -sin]), the columns of frequency k from cos(2 pi j k / n), n = x's length
    any operator            →  the function body that the ONNX standard gives it
    op(x) of uint8          →  Cast(op(Cast(x, int32)), uint8): a dtype that holds all values of the other one
    op(x) of float64        →  Cast(op(Cast(x, float32)), float64), unless the option `float32` is off

- Driven by the target's rulebook: a node is rewritten only if the rulebook says that it does not run. A way holds if
  the rulebook refuses none of the new nodes, or if those can be made legal by the same ways. "Unknown" is no refusal.
- What ONNX Runtime has no kernel for is rewritten for every target: each step is compared there.
- DFT runs forward along the last dimension of the signal, over its whole length, which is known and at most 512.
- Left alone, with what each way failed on: nodes for which no way holds. Nodes inside branches and loops stay too.

Where and wider integers are exact; the others differ by rounding, DFT by that of n products. The matrix is computed in
float64. Where float64 becomes float32, inputs and outputs of the model keep their dtypes, the check allows for the
rounding errors of float32 from there on, and the certificate says so and states the largest difference seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.graphs.onnx_view import view_model
from graphaudit.graphs.view import Node, Value
from graphaudit.rewrite.base import INSIDE_REGION, Level, Pass, PassOptions, PassResult, Site
from graphaudit.rewrite.conversion import Draft, Judge, Judges, Way, convert
from graphaudit.rulebook import Support, load_rulebook
from graphaudit.rulebook.bodies import function_body
from graphaudit.rulebook.schemas import installed_signatures
from graphaudit.rulebook.target import Target

_CHECKED_IN = "onnxruntime"
_LONGEST_DFT = 512  # the matrix has n² numbers
# Dtypes that hold all values of another one. Integers wrap alike in both, once they are cast back.
_WIDER = {
    "bool": ("uint8", "int32", "int64"),
    "uint8": ("int32", "int64"),
    "int8": ("int32", "int64"),
    "uint16": ("int32", "int64"),
    "int16": ("int32", "int64"),
    "int32": ("int64",),
    "uint32": ("int64",),
    "float16": ("float32",),
    "bfloat16": ("float32",),
}


class Options(PassOptions, frozen=True):
    """`float32`: a node that the target does not take in float64 may be computed in float32."""

    float32: bool = True


class DecomposeOnnxOperators(Pass[OnnxModel]):
    """Whatever the target refuses → operators that it takes."""

    name = "decompose_onnx_operators"
    level = Level.ONNX
    fixes = ("unsupported-op", "complex", "float64")
    runs_first = True
    claims = Claim.EQUIVALENT
    Options = Options

    def run(self, artifact: OnnxModel, target: Target) -> PassResult[OnnxModel]:
        """Rewrite what the rulebook refuses, if it takes what comes instead."""
        result = PassResult(artifact)
        judge = Judges((load_rulebook(target.name), load_rulebook(_CHECKED_IN)))
        for node in view_model(artifact).nodes:
            if judge.answer(node).support is not Support.UNSUPPORTED:
                continue
            if node.graph:
                result.left.append(Site(node.name, node.place, INSIDE_REGION))
                continue
            made = convert(artifact, node, partial(_ways, self.options.float32), judge)
            (result.rewritten if made.way else result.left).append(Site(node.name, node.place, made.failure, made))
        return result


def _ways(float32: bool, node: Node) -> Iterator[Way]:
    if not node.domain and node.op in _WRITTEN_OUT:
        write = _WRITTEN_OUT[node.op]
        yield Way("written out", lambda node, draft, _: write(node, draft))
    yield Way("the standard's function body", _function_body)
    present = (v.dtype or "" for v in (*node.inputs, *node.outputs) if v is not None)
    for narrow in dict.fromkeys(present):
        for wide in _WIDER.get(narrow, ()):
            yield Way(f"{wide} for {narrow}", partial(_in_dtype, narrow, wide))
        if narrow == "float64" and float32:
            yield Way("float32 for float64", partial(_in_dtype, "float64", "float32"), computes_in="float32")


def _function_body(node: Node, draft: Draft, _: Judge) -> str:
    try:
        body = function_body(node)
    except Exception as error:  # onnx's inliner raises whatever the C++ below it raises
        return f"it could not be built ({type(error).__name__})"
    if body is None:
        return "it has none"
    outer = {v.name for v in (*node.inputs, *node.outputs) if v is not None}
    names = {name: draft.name("body") for n in body.graph.node for name in n.output if name and name not in outer}
    for index, inner in enumerate(body.graph.node):
        draft.nodes.append(onnx.NodeProto())
        draft.nodes[-1].CopyFrom(inner)
        draft.nodes[-1].name = f"{node.name}_body_{index}"
        for values in (draft.nodes[-1].input, draft.nodes[-1].output):
            values[:] = [names.get(name, name) for name in values]
    return ""


def _in_dtype(narrow: str, wide: str, node: Node, draft: Draft, judge: Judge) -> str:
    """The node between casts: every input and output whose type variable is `narrow` here is `wide`."""
    signature = installed_signatures().find(node.domain, node.op, node.opset or 0)
    if signature is None:
        return "the operator has no schema"
    if node.op == "Cast":
        return "a cast is what it is"
    cast = {id(v) for p, v in signature.bound(node) if v.dtype == narrow and wide in signature.types[p.variable]}

    def widened(value: Value | None) -> Value | None:
        return replace(value, dtype=wide) if value is not None and id(value) in cast else value

    inputs, outputs = tuple(map(widened, node.inputs)), tuple(map(widened, node.outputs))
    answer = judge.answer(replace(node, inputs=inputs, outputs=outputs))  # type: ignore[arg-type]
    if not cast or answer.support is Support.UNSUPPORTED:
        return "; ".join(answer.reasons) or f"{node.op} takes no {wide}"
    back = [v is not None and id(v) in cast for v in node.outputs]
    names = [
        draft.add("Cast", name, to=_element(wide)) if v is not None and id(v) in cast else name
        for v, name in zip(node.inputs, draft.old.input)
    ]
    results = [draft.name(wide) if is_cast else name for is_cast, name in zip(back, draft.old.output)]
    copied = onnx.NodeProto()
    copied.CopyFrom(draft.old)
    copied.input[:], copied.output[:] = names, results
    draft.nodes.append(copied)
    for is_cast, result, name in zip(back, results, draft.old.output):
        if is_cast:
            draft.add("Cast", result, result=name, to=_element(narrow))
    return ""


def _element(dtype: str) -> int:
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def _norm2(node: Node, draft: Draft) -> str:  # noqa: ARG001
    squares = draft.add("ReduceSumSquare", *draft.old.input)
    draft.nodes[-1].attribute.extend(draft.old.attribute)
    draft.add("Sqrt", squares, result=draft.old.output[0])
    return ""


def _norm1(node: Node, draft: Draft) -> str:
    magnitudes = draft.add("Abs", draft.old.input[0])
    axes = list(draft.old.input[1:])
    if node.attributes.get("axes") is not None:  # an attribute up to opset 17; ReduceSum has an input since 13
        axes = [draft.constant(np.array(node.attributes["axes"], np.int64))]
    draft.add("ReduceSum", magnitudes, *axes, result=draft.old.output[0])
    draft.nodes[-1].attribute.extend(a for a in draft.old.attribute if a.name != "axes")
    return ""


def _select(node: Node, draft: Draft) -> str:
    if node.outputs[0].dtype != "bool":
        return f"it selects {node.outputs[0].dtype}, not bool"
    condition, first, second = draft.old.input
    taken = draft.add("And", condition, first)
    other = draft.add("And", draft.add("Not", condition), second)
    draft.add("Or", taken, other, result=draft.old.output[0])
    return ""


def _transform(node: Node, draft: Draft) -> str:
    source = node.inputs[0]
    assert source is not None
    if source.shape is None or source.dtype is None:
        return "the shape of the signal is unknown"
    rank, length = len(source.shape), source.shape[-2]
    axis = _axis(node)
    if node.attributes.get("inverse"):
        return "it runs backwards"
    if source.shape[-1] != 1:
        return "the signal is complex"
    if axis is None or axis % rank != rank - 2:
        return "it does not run along the last dimension of the signal"
    if not isinstance(length, int) or length > _LONGEST_DFT:
        return f"the length of the signal is {length}; written out are those up to {_LONGEST_DFT}"
    asked = _number(node.inputs[1]) if len(node.inputs) > 1 and node.inputs[1] is not None else length
    if asked != length:
        return "the signal is padded or cut to another length"
    frequencies = length // 2 + 1 if node.attributes.get("onesided") else length
    matrix = draft.constant(_fourier_matrix(length, frequencies).astype(source.dtype))
    signal = draft.add("Squeeze", draft.old.input[0], draft.constant(np.array([-1], np.int64)))
    flat = draft.add("MatMul", signal, matrix)
    shape = draft.constant(np.array([*(0,) * (rank - 2), frequencies, 2], np.int64))  # 0: as in `flat`
    draft.add("Reshape", flat, shape, result=draft.old.output[0])
    return ""


def _fourier_matrix(length: int, frequencies: int) -> NDArray[np.float64]:
    """(length, frequencies * 2): real and imaginary part of exp(-2 pi i j k / length), side by side."""
    turns = np.outer(np.arange(length), np.arange(frequencies)) % length / length
    return np.stack([np.cos(2 * np.pi * turns), -np.sin(2 * np.pi * turns)], -1).reshape(length, -1)


def _axis(node: Node) -> int | None:
    """An attribute up to opset 19, an input afterwards."""
    if (node.opset or 0) < 20:
        return int(node.attributes.get("axis", 1))
    return _number(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] is not None else -2


def _number(value: Value | None) -> int | None:
    array = value.array if value is not None else None
    return int(array.item()) if array is not None and array.size == 1 else None


_WRITTEN_OUT: dict[str, Callable[[Node, Draft], str]] = {
    "ReduceL2": _norm2,
    "ReduceL1": _norm1,
    "Where": _select,
    "DFT": _transform,
}
