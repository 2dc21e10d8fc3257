"""Complex tensors are carried as two real tensors, from where they come into being to where they end in real ones.

    complex(a, b), view_as_complex(x)  →  (a, b), (x[..., 0], x[..., 1])
    a complex parameter or buffer      →  its real and its imaginary part, as constants
    (a, b) * (c, d)                    →  (a c - b d, a d + b c); matmul, einsum and their kind alike
    exp((a, b))                        →  (exp(a) cos(b), exp(a) sin(b))
    abs((a, b)), angle((a, b))         →  sqrt(a² + b²), atan2(b, a)
    reshape((a, b), …), sum((a, b))    →  of each part by itself; whatever else moves elements or is linear, alike
    rfft(x), irfft((a, b))             →  products with matrices of cosines and sines; fft and ifft alike
    view_as_real((a, b))               →  stack([a, b], -1)

- For targets that get an ONNX model. torch's exporter has complex forms of its own for some operators, with a last
  dimension of 2, but none for exp, einsum, where, select, unsqueeze or expand (onnxscript, torch_lib/ops/core.py).
- Complex tensors that are computed with one another are converted together, or not at all.
- Transforms are of known length, at most 512.
- Left alone, with the reason: operators without a real form, and with them what they are computed with; complex inputs,
  results and state of the policy; complex tensors that enter a branch or a loop, or are written in one.

The results differ by rounding. |z|² is computed as it stands: it overflows where |z| exceeds the square root of the
largest number of the dtype.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.program import Program
from graphaudit.rewrite.base import INSIDE_REGION, Level, Pass, PassResult, Site
from graphaudit.rewrite.complex_forms import NoForm, Pair, form_of
from graphaudit.rewrite.constants import constant
from graphaudit.rewrite.edit import insert_call, insert_function
from graphaudit.rulebook.target import Target

_aten = torch.ops.aten
# Operators that make a tensor of one number, and the number; None: it is their second argument.
_MAKERS = {_aten.zeros.default: 0, _aten.ones.default: 1, _aten.full.default: None}


class ConvertComplexToReal(Pass[Program]):
    """Complex tensors → their real and imaginary parts."""

    name = "convert_complex_to_real"
    level = Level.FX
    fixes = ("complex", "unsupported-op")
    runs_after = ("convert_loops_to_masks", "lift_state", "remove_inference_noops")
    claims = Claim.EQUIVALENT

    @classmethod
    def suits(cls, target: Target) -> bool:
        """Only targets that get an ONNX model: elsewhere it is torch that computes."""
        return target.graph == "onnx"

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Convert whatever has a real form, and is computed with nothing that has none."""
        del target
        result = PassResult(artifact, left=list(_inside_regions(artifact)))
        touched = [n for n in artifact.graph.nodes if _is_complex(n) or any(map(_is_complex, n.all_input_nodes))]
        if not touched:
            return result
        conversion = _Conversion(artifact)
        for node in touched:
            conversion.convert(node)
        staying = conversion.staying()
        # From the end, so that a part which is itself replaced later is replaced in its readers, too.
        for node in reversed([n for n in touched if n in conversion.results and n not in staying]):
            conversion.replace(node)
            if node.op == "call_function":
                result.rewritten.append(Site(node.name, artifact.place(node)))
        result.rewritten.reverse()
        result.left += [Site(n.name, artifact.place(n), reason) for n, reason in conversion.refused.items()]
        artifact.finish()
        return result


class _Conversion:
    """The parts of the complex tensors of a program, computed beside them; `replace` lets them be read."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.results: dict[fx.Node, Any] = {}  # a Pair or a list of such for a complex tensor, a node for a real one
        self.refused: dict[fx.Node, str] = {}

    def convert(self, node: fx.Node) -> None:
        """Compute the parts of `node`, or say why there are none; neither, where it reads one that has none."""
        if node.op == "output":
            for result in filter(_is_complex, node.all_input_nodes):
                self.refused.setdefault(result, _RESULT)
        elif all(n in self.results for n in node.all_input_nodes if _is_complex(n)):
            try:
                self.results[node] = self._held(node) if node.op == "placeholder" else self._computed(node)
            except NoForm as reason:
                self.refused[node] = str(reason)

    def _held(self, node: fx.Node) -> Pair:
        value = constant(self.program, node)
        if value is None:
            raise NoForm(_INPUT if self.program.value(node) is None else _STATE)
        hint = re.sub(r"\W", "_", node.name.removeprefix("p_").removeprefix("b_").removeprefix("c_"))
        parts = {"real": value.resolve_conj().real, "imag": value.resolve_conj().imag}
        return Pair(*(self.program.add_constant(part.contiguous(), f"{hint}_{of}") for of, part in parts.items()))

    def _computed(self, node: fx.Node) -> Any:
        target: Any = node.target
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: self.results[n] if _is_complex(n) else n)
        if target is operator.getitem:
            return args[0][args[1]]
        if target is _aten.sym_size.int:
            return insert_call(node, target, (args[0].re, *args[1:]))
        if target in _MAKERS:
            return self._filled(node)
        form = form_of(target) if isinstance(target, torch._ops.OpOverload) else None
        if form is None:
            raise NoForm(f"{_name(target)} has no real form")
        parts = insert_function(node, _in_dtype_of(node, form), args, kwargs, constants=self.program.add_constant)
        if not _is_complex(node):
            return parts
        pairs = [Pair(*two) for two in zip(parts[::2], parts[1::2])]
        return pairs if isinstance(node.meta["val"], list | tuple) else pairs[0]

    def _filled(self, node: fx.Node) -> Pair:
        fill = _MAKERS[node.target]
        number = node.args[1] if fill is None else fill
        given = {"dtype": node.meta["val"].dtype.to_real(), "device": node.kwargs.get("device")}
        parts = (number.real, number.imag)  # type: ignore[union-attr]
        return Pair(*(insert_call(node, _aten.full.default, (node.args[0], float(p)), given) for p in parts))

    def staying(self) -> set[fx.Node]:
        """What has no real form, and whatever is computed with it, through complex tensors that are not constants."""
        staying, pending = set(self.refused), list(self.refused)
        while pending:
            node = pending.pop()
            sources = [n for n in node.all_input_nodes if _is_complex(n)]
            for other in (*sources, *(node.users if _is_complex(node) else ())):
                held = other.op == "placeholder" and other in self.results
                if other not in staying and not held:
                    staying.add(other)
                    pending.append(other)
        return staying

    def replace(self, node: fx.Node) -> None:
        """Let what reads the real results of `node` read those of its real form."""
        if _is_complex(node):
            return
        if node.target is _aten.view_as_real.default:
            self._replace_selections(node)
        node.replace_all_uses_with(self.results[node])

    def _replace_selections(self, node: fx.Node) -> None:
        """`view_as_real(z)[..., k]`, which is what `z.real` is in the graph, is one of the parts."""
        last = node.meta["val"].dim() - 1
        parts: Any = self.results[node.all_input_nodes[0]]
        for user in list(node.users):
            if user.target is _aten.select.int and user.args[1] in (last, -1):
                user.replace_all_uses_with(parts[user.args[2]])


_RESULT = (
    "it is a result of the policy, and no ONNX runtime returns complex tensors; hand over torch.view_as_real of it"
)
_INPUT = "it is a complex input, and no ONNX runtime takes complex tensors; hand over torch.view_as_real of it"
_STATE = "it is complex state, which no ONNX runtime takes or returns; keep torch.view_as_real of it"


def _is_complex(node: fx.Node) -> bool:
    """Whether it is a complex tensor, or holds some."""
    return any(isinstance(v, Tensor) and v.is_complex() for v in pytree.tree_leaves(node.meta.get("val")))


def _in_dtype_of(node: fx.Node, form: Any) -> Any:
    """The form, its parts in a row, in the dtype of what `node` gives. Raises NoForm where it gives something else."""
    dtype = next(v.dtype for v in pytree.tree_leaves(node.meta["val"]) if isinstance(v, Tensor))

    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            result = form(*args, **kwargs)
        except TypeError as error:
            raise NoForm(f"{_name(node.target)} has no real form for these arguments") from error
        if isinstance(result, Tensor) is dtype.is_complex:
            raise NoForm(f"{_name(node.target)} has no real form here")
        if isinstance(result, Tensor):
            return result.to(dtype)
        return [part.to(dtype.to_real()) for part in pytree.tree_leaves(result)]

    return run


def _inside_regions(program: Program) -> Iterator[Site]:
    for node in program.calls():
        if node.graph is not program.graph and _is_complex(node):
            yield Site(node.name, program.place(node), INSIDE_REGION)


def _name(target: Any) -> str:
    return str(getattr(target, "__name__", target)).partition(".")[0]
