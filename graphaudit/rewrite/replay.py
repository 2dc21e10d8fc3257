"""What a reproducer runs: one pass on one small graph, compared as in a rewrite.

A reproducer is a Python file that `graphaudit bisect` writes. It builds a graph, and hands it to `replay` or, if it is
an ONNX model, to `replay_onnx`.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import torch
from torch import nn

from graphaudit.equivalence.inputs import Sample
from graphaudit.equivalence.reference import Reference
from graphaudit.equivalence.verdict import Verdict
from graphaudit.graphs.listing import difference, listing
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.graphs.program import Program
from graphaudit.policy import Policy
from graphaudit.quiet import quiet
from graphaudit.rewrite.base import Pass, PassResult
from graphaudit.rewrite.instruments import view
from graphaudit.rewrite.pipeline import judge
from graphaudit.rewrite.selection import select
from graphaudit.rulebook import load_rulebook
from graphaudit.runtimes.onnxruntime import runner


def pack(data: bytes) -> str:
    """Bytes as text for a source file."""
    return base64.b85encode(zlib.compress(data, 9)).decode()


def unpack(text: str) -> bytes:
    """The bytes behind `pack`."""
    return zlib.decompress(base64.b85decode(text))


def tensor(dtype: str, shape: Sequence[int], packed: str) -> torch.Tensor:
    """A tensor from its packed bytes, row by row."""
    kind = getattr(torch, dtype)
    data = bytearray(unpack(packed))
    return torch.frombuffer(data, dtype=kind).reshape(*shape) if data else torch.empty(*shape, dtype=kind)


def capture_graph(
    module: nn.Module, args: tuple[torch.Tensor, ...], dynamic: Sequence[Sequence[int]] = ()
) -> tuple[Policy, Program]:
    """A module of ATen calls as a program of just those calls. `dynamic`: for each argument, the sizes that vary."""
    named = tuple({d: f"size_{i}_{d}" for d in dims} for i, dims in enumerate(dynamic)) or None
    policy = Policy("Graph", module, args, {}, None, named)
    interface = policy.interface
    shapes = tuple(dict.fromkeys(dims, torch.export.Dim.AUTO) for dims in dynamic) or None
    with torch.no_grad(), quiet():
        exported = torch.export.export(module, args, dynamic_shapes=shapes, strict=False).run_decompositions({})
    return policy, Program(exported, interface)


def replay(
    module: nn.Module,
    args: tuple[torch.Tensor, ...],
    pass_: str,
    target: str,
    dynamic: Sequence[Sequence[int]] = (),
) -> int:
    """Run the pass on the graph, print what it changed and what the check says. 1 if it diverges, 0 if it holds."""
    policy, program = capture_graph(module.eval(), args, dynamic)
    reference = Reference(policy, [Sample(args, {}, "example")])
    return _replay(program, reference, lambda p: p.runner(), pass_, target)


def replay_onnx(model: onnx.ModelProto, args: tuple[torch.Tensor, ...], pass_: str, target: str) -> int:
    """As `replay`, of an ONNX model, compared with what ONNX Runtime computes from the model before the pass."""
    before, reference = onnx_reference(model, args)
    return _replay(before, reference, runner, pass_, target)


def onnx_reference(model: onnx.ModelProto, args: tuple[torch.Tensor, ...]) -> tuple[OnnxModel, Reference]:
    """The model, and its own answers as the reference."""
    before = OnnxModel(model)
    policy = Policy("Graph", _Runs(before), args, {})
    return before, Reference(policy, [Sample(args, {}, "example")])


class _Runs(nn.Module):
    def __init__(self, model: OnnxModel) -> None:
        super().__init__()
        self._run = runner(model)

    def forward(self, *args: torch.Tensor) -> Any:
        results = self._run(args)
        return results[0] if len(results) == 1 else tuple(results)

    def __deepcopy__(self, _: Any) -> _Runs:
        return self  # a session has no state


def attempt(
    step: Pass[Any], before: Any, reference: Reference, run: Callable[[Any], Any], target: str
) -> tuple[Verdict, PassResult[Any] | None]:
    """The verdict on the pass, and its result unless it raised."""
    made: list[PassResult[Any]] = []

    def rewrite() -> PassResult[Any]:
        made.append(step.run(before.copy(), load_rulebook(target).target))
        return made[0]

    verdict = judge(step, before, rewrite, lambda name, a, claims: reference.check(name, run(a), claims), step.claims)
    return verdict, made[0] if made else None


def _replay(before: Any, reference: Reference, run: Callable[[Any], Any], pass_: str, target: str) -> int:
    (step,) = select(pass_)
    verdict, result = attempt(step, before, reference, run, target)
    print(f"the graph before {step.name}\n\n{listing(view(before))}")
    if result is not None:
        print(f"what it changes\n\n{difference(view(before), view(result.artifact))}")
    print(f"{step.name} {'holds' if verdict.holds else 'diverges'}: {verdict.note or verdict.claim.value}")
    return int(not verdict.holds)


def packed_array(array: np.ndarray[Any, Any]) -> str:
    """The bytes of an array, row by row, packed."""
    return pack(np.ascontiguousarray(array).tobytes())
