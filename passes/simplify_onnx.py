"""Fold constants and merge operators of an ONNX graph with onnxsim, until it has nothing more to say.

    Before  Mul(x, Add(one, one))    Transpose(Transpose(x))    Where(Not(c), a, b)
    After   Mul(x, two)              Transpose(x)               Where(c, b, a)

- Not the rewrites that move rounding or ties. Batch norm and log-softmax have passes of their own, with conditions and
  a verdict of their own; MatMul + Add → Gemm lets rows that are equal differ in the last bit, and argmax with them;
  argmax(sigmoid(x)) → argmax(x) finds a winner where sigmoid has saturated and eager takes the first.
- Not for graphs that draw random numbers: onnxsim merges two draws of the same shape into one.
- Not for weights over 2 GB, which onnxsim cannot take in memory.
- Constants over `largest_constant` (1 MB) are not folded, so that the model does not grow by tensors that are cheap to
  compute.
- Where onnxsim fails, or returns other inputs or outputs than it was given, the graph stays as it was, with the reason.

Names, order, types and shapes of inputs and outputs stay exactly as they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import onnx
from msgspec import Meta

from graphaudit.graphs.onnx_files import WEIGHTS_LIMIT, weight_bytes
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.graphs.onnx_nodes import DRAWS, all_nodes
from graphaudit.quiet import quiet
from graphaudit.rewrite.base import Level, Pass, PassOptions, PassResult, Site
from graphaudit.rulebook.target import Target

_SKIPPED = [
    "eliminate_nop_monotone_argmax",
    "fuse_bn_into_conv",
    "fuse_consecutive_log_softmax",
    "fuse_matmul_add_bias_into_gemm",
    "fuse_matmul_add_bias_into_gemm_batched",
]


class SimplifyOnnxOptions(PassOptions, frozen=True):
    """`rounds`: run onnxsim at most so often; it iterates by itself, and a second round rarely finds anything.
    `largest_constant`: in bytes, with KB, MB or GB."""

    rounds: Annotated[int, Meta(ge=1)] = 4
    largest_constant: Annotated[str, Meta(pattern=r"^\d+(KB|MB|GB)?$")] = "1MB"


class SimplifyOnnx(Pass[OnnxModel]):
    """onnxsim, kept to the interface it was given."""

    name = "simplify_onnx"
    level = Level.ONNX
    runs_after = ("clean_onnx_graph",)
    Options = SimplifyOnnxOptions

    def run(self, artifact: OnnxModel, target: Target) -> PassResult[OnnxModel]:
        """Return a simplified model, or `artifact` itself where there is nothing to simplify."""
        before = artifact.proto
        reason = _unsuitable(before)
        if reason:
            return PassResult(artifact, left=[Site(before.graph.name, reason=reason)])
        after = before
        for _ in range(self.options.rounds):
            simplified, reason = _simplify(after, self.options.largest_constant)
            if simplified is None:
                return PassResult(artifact, left=[Site(before.graph.name, reason=reason)])
            stable = _same(after.graph, simplified.graph)
            after = after if stable else simplified
            if stable:
                break
        if after is before:
            return PassResult(artifact)
        names = {name for node in all_nodes(after.graph) for name in node.output}
        rewritten = _rewritten(artifact, after.graph, names)
        artifact = replace(artifact, proto=after, places={n: p for n, p in artifact.places.items() if n in names})
        artifact.inherit_places()
        return PassResult(artifact, rewritten)


def _unsuitable(proto: onnx.ModelProto) -> str:
    drawing = sorted({n.op_type for n in all_nodes(proto.graph) if n.op_type in DRAWS})
    if drawing:
        return f"{drawing[0]} draws random numbers, and onnxsim merges draws"
    if weight_bytes(proto) > WEIGHTS_LIMIT:
        return "the weights are larger than 2 GB, more than onnxsim takes"
    return ""


def _simplify(proto: onnx.ModelProto, largest: str) -> tuple[onnx.ModelProto | None, str]:
    """One run of onnxsim, or None and the reason why its result cannot be used."""
    import onnxsim  # here, because it takes most of a second

    try:
        with quiet(native=True):
            simplified, ok = onnxsim.simplify(proto, skipped_optimizers=list(_SKIPPED), tensor_size_threshold=largest)
    except Exception as error:  # onnxsim and its C++ core raise errors of every kind
        return None, f"onnxsim failed: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    if not ok:
        return None, "onnxsim does not vouch for its own result"
    change = _interface_change(proto, simplified)
    if change:
        return None, f"onnxsim changed {change}"
    for field in ("input", "output"):  # onnxsim writes what it infers there; the interface stays as declared
        simplified.graph.ClearField(field)
        getattr(simplified.graph, field).extend(getattr(proto.graph, field))
    simplified.ClearField("metadata_props")  # a record of what onnxsim did
    simplified.metadata_props.extend(proto.metadata_props)
    return simplified, ""


def _interface_change(before: onnx.ModelProto, after: onnx.ModelProto) -> str:
    for kind in ("input", "output"):
        old, new = getattr(before.graph, kind), getattr(after.graph, kind)
        if [v.name for v in old] != [v.name for v in new]:
            return f"the {kind}s from {[v.name for v in old]} to {[v.name for v in new]}"
        for a, b in zip(old, new):
            if a.type.tensor_type.elem_type != b.type.tensor_type.elem_type:
                return f"the dtype of {kind} {a.name}"
    imports = [{(i.domain, i.version) for i in m.opset_import} for m in (before, after)]
    return "" if imports[1] <= imports[0] else "the opset"


def _same(before: onnx.GraphProto, after: onnx.GraphProto) -> bool:
    """Whether both graphs compute the same in the same way: nodes in order, and constants by name and content."""
    return [_key(n) for n in before.node] == [_key(n) for n in after.node] and {
        t.name: onnx.numpy_helper.to_array(t).tobytes() for t in before.initializer
    } == {t.name: onnx.numpy_helper.to_array(t).tobytes() for t in after.initializer}


def _key(node: onnx.NodeProto) -> tuple[object, ...]:
    attributes = sorted(node.attribute, key=lambda a: a.name)
    return node.domain, node.op_type, tuple(node.input), tuple(node.output), [a.SerializeToString() for a in attributes]


def _rewritten(model: OnnxModel, after: onnx.GraphProto, names: set[str]) -> list[Site]:
    """The nodes that are gone or are no longer what they were."""
    now = {name: node for node in all_nodes(after) for name in node.output}
    sites = []
    for node in all_nodes(model.proto.graph):
        survivor = next((now[name] for name in node.output if name in names), None)
        if survivor is None:
            sites.append(Site(node.name or node.output[0], model.place(node), "folded or fused"))
        elif _key(survivor) != _key(node):
            sites.append(Site(node.name or node.output[0], model.place(node), f"now {survivor.op_type}"))
    return sites or [Site(after.name, reason="constants folded")]
