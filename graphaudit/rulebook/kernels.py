"""Answers from the kernel registry of the installed ONNX Runtime.

A node runs when a kernel of the provider matches its operator version and dtypes; or when the operator is an ONNX
function whose body runs, which ONNX Runtime puts in the node's place; or, for float16, when a float32 kernel exists,
between two casts that ONNX Runtime inserts. Rules of matching:
https://github.com/microsoft/onnxruntime/blob/v1.23.0/onnxruntime/core/framework/kernel_registry.cc and
.../core/optimizer/insert_cast_transformer.cc; the tests hold them against real sessions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from graphaudit.findings import Evidence
from graphaudit.rulebook.bodies import function_body
from graphaudit.rulebook.schemas import Signatures, signature_key
from graphaudit.rulebook.signature import Signature, dtype_of
from graphaudit.rulebook.target import Answer, Support

if TYPE_CHECKING:
    from graphaudit.graphs.view import Node, Value

_OPEN_END = 2**31 - 1  # how a kernel says "until the operator changes"
_FOLDED = ("Constant",)  # has no kernel and needs none


@dataclass(frozen=True)
class Kernel:
    """One kernel: the operator versions that it implements, and dtypes by type variable or parameter name."""

    first: int
    last: int
    types: dict[str, frozenset[str]]

    def implements(self, since: int) -> bool:
        """Whether it is a kernel for the operator version of opset `since`."""
        return self.first == since or (self.first < since <= self.last != _OPEN_END)

    def matches(self, signature: Signature, node: Node) -> bool | None:
        """Whether the dtypes fit; None where one that matters is not known."""
        sure = True
        for parameter, dtype in signature.dtypes(node):
            for name in (parameter.variable, parameter.name):
                allowed = self.types.get(name)
                if allowed is None:
                    continue
                if dtype is None:
                    sure = sure and signature.types[parameter.variable] <= allowed
                elif dtype not in allowed:
                    return False
        return True if sure else None


class KernelRules:
    """Whether a provider of the installed ONNX Runtime runs a node."""

    def __init__(self, provider: str) -> None:
        import onnxruntime

        short = provider.removesuffix("ExecutionProvider")
        self._where = f"{short} kernel" if short else "kernel"
        self._provider = provider
        self._signatures = _signatures()
        self._kernels = _kernels(provider)
        self.facts = f"kernel registry of the installed onnxruntime {onnxruntime.__version__}, {provider}"
        self._answers: dict[object, Answer] = {}

    @property
    def max_opset(self) -> int:
        """The highest ai.onnx opset that the runtime loads."""
        return _max_opset(self._signatures.newest(), self._provider)

    def answer(self, node: Node) -> Answer:
        """The registry's answer; the same for all nodes of one signature."""
        key = signature_key(node)
        if key not in self._answers:
            answer = self._judge(node)
            if answer is None:  # a function: what its body holds depends on the attributes' values
                key = (key, repr(sorted(node.attributes.items())), tuple(v and v.shape for v in node.inputs))
                if key not in self._answers:
                    self._answers[key] = self._judge_function(node)
                return self._answers[key]
            self._answers[key] = answer
        return self._answers[key]

    def _judge(self, node: Node) -> Answer | None:
        """The answer, or None where it depends on a function's body."""
        refusal = self._signatures.refusal(node)
        if refusal is not None:
            return self._say(refusal[0], refusal[1])
        signature = self._signatures.find(node.domain, node.op, node.opset or 0)
        assert signature is not None  # refusal covers it
        if not node.domain and node.op in _FOLDED:
            return self._say(Support.SUPPORTED, f"{node.op} becomes an initializer when the model is loaded")
        match = self._match(signature, node)
        if match:
            return self._say(Support.SUPPORTED, f"{node.op}({signature.since}) has a {self._where}")
        if match is None:
            return self._say(Support.UNKNOWN, f"a dtype of {node.op} is not known, and kernels exist for some only")
        if _function_opset(node):
            return None
        return self._judge_casts(signature, node)

    def _judge_casts(self, signature: Signature, node: Node) -> Answer:
        if not any(isinstance(a, str) and "/" in a for a in node.attributes.values()):
            wide = _widened(node)
            if wide is not None and self._match(signature, wide):
                rule = f"{node.op}({signature.since}) has no float16 {self._where}"
                return self._say(Support.LIMITED, f"{rule}; it is computed in float32 between casts")
        return self._say(Support.UNSUPPORTED, self._lack(signature, node))

    def _lack(self, signature: Signature, node: Node) -> str:
        """Which dtypes no kernel takes, and which ones some kernel takes in their place."""
        missing = f"{node.op}({signature.since}) has no {self._where}"
        kernels = [k for k in self._kernels.get((signature.domain, signature.op), ()) if k.implements(signature.since)]
        if not kernels:
            return missing
        for parameter, dtype in signature.dtypes(node):
            offered = [k.types.get(parameter.variable) or k.types.get(parameter.name) for k in kernels]
            taken = frozenset().union(*(o for o in offered if o))
            if None not in offered and dtype not in taken:
                plain = ", ".join(sorted(d for d in taken if "(" not in d))
                return f"{missing} for {dtype}; there are kernels for {plain}"
        given = ", ".join(dict.fromkeys(dtype or "?" for _, dtype in signature.dtypes(node)))
        return f"{missing} for this combination of dtypes ({given})"

    def _judge_function(self, node: Node) -> Answer:
        name = f"{node.op} has no {self._where} of its own"
        try:
            body = _body(node)
        except Exception as error:  # onnx's inliner raises whatever the C++ below it raises
            return self._say(Support.UNKNOWN, f"{name}, and its function body could not be built ({error})")
        if not body or not self._usable(body, node):
            signature = self._signatures.find(node.domain, node.op, node.opset or 0)
            assert signature is not None  # it has a body
            return self._judge_casts(signature, node)
        answers = [self.answer(inner) for inner in body]
        for support in (Support.UNSUPPORTED, Support.UNKNOWN):
            for answer in answers:
                if answer.support is support:
                    return self._say(support, f"{name}, and in its function body {'; '.join(answer.reasons)}")
        limits = dict.fromkeys(r for a in answers if a.support is Support.LIMITED for r in a.reasons)
        if limits:
            return self._say(Support.LIMITED, *limits)
        return self._say(Support.SUPPORTED, f"{name}; it runs as its function body ({len(body)} nodes)")

    def _usable(self, body: list[Node], node: Node) -> bool:
        """Whether a body written for an older opset still stands for the node.

        ONNX Runtime drops a fixed body if one of its operators changed in between
        (`ValidateReferencedOpsInFunction`, onnx/defs/schema.cc); bodies that depend on the node it always takes.
        """
        opset, (written, fixed) = node.opset or 0, _function_opset(node) or (0, False)
        return not fixed or all(
            _since(self._signatures, n, written) == _since(self._signatures, n, opset)
            for n in body
            if n.domain == node.domain
        )

    def _match(self, signature: Signature, node: Node) -> bool | None:
        """Whether some kernel takes the node; None if that depends on a dtype that is not known."""
        found: bool | None = False
        for kernel in self._kernels.get((signature.domain, signature.op), ()):
            if kernel.implements(signature.since):
                match = kernel.matches(signature, node)
                if match:
                    return True
                found = None if match is None else found
        return found

    def _say(self, support: Support, *rules: str) -> Answer:
        evidence = Evidence(rules[0], self.facts)
        return Answer(support, () if support is Support.SUPPORTED else rules, evidence)


def _widened(node: Node) -> Node | None:
    """The node with float32 for float16; None if nothing is float16."""
    values = [v for v in (*node.inputs, *node.outputs) if v is not None]
    if all(v.dtype != "float16" for v in values):
        return None

    def widen(value: Value | None) -> Value | None:
        return replace(value, dtype="float32") if value is not None and value.dtype == "float16" else value

    return replace(node, inputs=tuple(map(widen, node.inputs)), outputs=tuple(map(widen, node.outputs)))  # type: ignore[arg-type]


def _function_opset(node: Node) -> tuple[int, bool] | None:
    """The opset for which the operator's function body was written, and whether the body is the same for all nodes."""
    import onnx.defs

    opset = node.opset or 0
    if not onnx.defs.has(node.op, domain=node.domain):
        return None
    schema: Any = onnx.defs.get_schema(node.op, max_inclusive_version=opset, domain=node.domain)
    versions: Iterable[int] = schema.all_function_opset_versions
    written = max((v for v in versions if v <= opset), default=None)
    return None if written is None else (written, written in schema.function_opset_versions)


def _since(signatures: Signatures, node: Node, opset: int) -> int | None:
    signature = signatures.find(node.domain, node.op, opset)
    return signature.since if signature else None


def _body(node: Node) -> list[Node]:
    """The nodes of the function body that stands for `node`; none where onnx has no body for these dtypes."""
    from graphaudit.graphs.onnx_model import OnnxModel
    from graphaudit.graphs.onnx_view import view_model

    model = function_body(node)
    return list(view_model(OnnxModel(model)).nodes) if model is not None else []


@cache
def _signatures() -> Signatures:
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    return Signatures(get_all_operator_schema())


@cache
def _kernels(provider: str) -> dict[tuple[str, str], list[Kernel]]:
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def

    kernels: dict[tuple[str, str], list[Kernel]] = {}
    for definition in get_all_opkernel_def():
        if definition.provider == provider:
            first, last = definition.version_range
            types = {name: frozenset(map(dtype_of, t)) for name, t in definition.type_constraints.items()}
            key = (definition.domain, definition.op_name)
            kernels.setdefault(key, []).append(Kernel(first, last, types))
    return kernels


@cache
def _max_opset(newest: int, provider: str) -> int:
    """The registry knows opsets still under development, which sessions refuse: try from the newest down."""
    import onnxruntime
    from onnx import TensorProto, helper

    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "probe", value[:1], value[1:])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    for opset in range(newest, 0, -1):
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        try:
            onnxruntime.InferenceSession(model.SerializeToString(), options, providers=[provider])
        except Exception:  # onnxruntime's exceptions have no common base
            continue
        return opset
    return newest
