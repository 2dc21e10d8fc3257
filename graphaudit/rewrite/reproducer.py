"""Writes a fault down as one Python file that replays one pass on one small graph."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from graphaudit.equivalence.inputs import Sample
from graphaudit.equivalence.reference import Reference
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.graphs.program import Program
from graphaudit.graphs.view import GraphView
from graphaudit.rewrite.bisect import Fault
from graphaudit.rewrite.instruments import view
from graphaudit.rewrite.reduce import minimise
from graphaudit.rewrite.region import Region, Uncuttable, cut_model, cut_program, model_values
from graphaudit.rewrite.replay import attempt, capture_graph, onnx_reference
from graphaudit.rulebook.target import Target
from graphaudit.runtimes.onnxruntime import runner
from graphaudit.text import one_line

_HEAD = '''"""{name} is not equivalent on this graph.

{said}

Made by `graphaudit bisect` from {policy}. Run it: it shows the graph, what the pass changes, and the
difference, and exits with status 1 while there is one.
"""

{imports}


'''
_TAIL = """

if __name__ == "__main__":
    raise SystemExit({replay}(build(), example_inputs(), {passes!r}, {target!r}{dynamic}))
"""
_IMPORTS = {
    True: "import math\nimport operator\nfrom math import inf, nan\n\nimport torch\nfrom torch import nn\n\n"
    "from graphaudit.rewrite.replay import replay, tensor",
    False: "import onnx\n\nfrom graphaudit.rewrite.replay import replay_onnx, tensor, unpack",
}
_RADII = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24)


def write_reproducer(fault: Fault, target: Target, folder: Path, number: int) -> tuple[Path | None, str]:
    """The file `PASS_NUMBER.py` in `folder`, or None and why there is none. Raises OSError."""
    try:
        region = _smallest(fault, target)
    except Uncuttable as error:
        return None, str(error)
    if region is None:
        return None, "the pass does not diverge on a part of the graph alone"
    step = fault.divergence.step
    is_fx = isinstance(fault.divergence.before, Program)
    said = one_line(fault.verdict.note or fault.verdict.claim.value, 115)
    head = _HEAD.format(
        name=step.name, said=said, policy=one_line(fault.references[0].policy.name), imports=_IMPORTS[is_fx]
    )
    options = ", ".join(f"{k}={getattr(step.options, k)!r}" for k in step.options.__struct_fields__)
    replay = "replay" if is_fx else "replay_onnx"
    passes = f"{step.name}({options})" if options else step.name
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{step.name}_{number}.py"
    dynamic = ", dynamic_sizes()" if region.dynamic else ""
    tail = _TAIL.format(replay=replay, passes=passes, target=target.name, dynamic=dynamic)
    file.write_text(head + region.source + tail, encoding="utf-8")
    return file, ""


def _smallest(fault: Fault, target: Target) -> Region | None:
    """The nodes around the fault, as few as still show it: at the sizes of one input, or else at sizes that vary."""
    found = _smallest_at(fault, target, dynamic=False)
    if found is None and _varies(fault.divergence.before):
        found = _smallest_at(fault, target, dynamic=True)
    return found


def _varies(graph: Program | OnnxModel) -> bool:
    slots = graph.interface.inputs if isinstance(graph, Program) else graph.arguments
    return any(isinstance(size, str) for slot in slots for size in slot.shape)


def _smallest_at(fault: Fault, target: Target, *, dynamic: bool) -> Region | None:
    before = fault.divergence.before
    cut = _cutter(before, fault.references[0], dynamic)
    graph = view(before)
    fails = _failing(fault, target, cut)
    previous: list[str] = []
    for radius in _RADII:
        near = _within(graph, [s.node for s in fault.sites], radius)
        if near == previous:
            break
        previous = near
        if fails(near):
            return cut(minimise(near, fails))
    return None


def _failing(fault: Fault, target: Target, cut: Callable[[Collection[str]], Region]) -> Callable[[list[str]], bool]:
    step, is_fx = fault.divergence.step, isinstance(fault.divergence.before, Program)

    def fails(keep: list[str]) -> bool:
        try:
            source = cut(keep).source
            made = _execute(_IMPORTS[is_fx] + "\n\n" + source)
            args = made["example_inputs"]()
            if is_fx:
                sizes = made["dynamic_sizes"]() if "dynamic_sizes" in made else ()
                policy, before = capture_graph(made["build"]().eval(), args, sizes)
                reference = Reference(policy, [Sample(args, {}, "example")])
                verdict, _ = attempt(step, before, reference, lambda p: p.runner(), target.name)
            else:
                model, reference = onnx_reference(made["build"](), args)
                verdict, _ = attempt(step, model, reference, runner, target.name)
        except Exception:  # a part of a graph need not run, or be captured, by itself
            return False
        return not verdict.holds

    return fails


def _execute(source: str) -> dict[str, Any]:
    """The names that our own generated source defines."""
    made: dict[str, Any] = {"__name__": "reproducer"}
    exec(compile(source, "<reproducer>", "exec"), made)
    return made


def _cutter(before: Any, reference: Reference, dynamic: bool) -> Callable[[Collection[str]], Region]:
    inputs = reference.answers(0)[0]
    if isinstance(before, Program):
        values = before.values(inputs)
        return lambda keep: cut_program(before, values, keep, dynamic=dynamic)
    feeds = {i.name: t.numpy() for i, t in zip(before.proto.graph.input, inputs)}
    arrays = model_values(before, feeds)
    return lambda keep: cut_model(before, arrays, keep, dynamic=dynamic)


def _within(graph: GraphView, centre: Collection[str], radius: int) -> list[str]:
    """Names of the main graph's nodes at most `radius` steps from one of `centre`, in the order of the graph."""
    found = set(centre)
    edges = graph.digraph.to_undirected(as_view=True)
    for _ in range(radius):
        found |= {n for name in found if name in edges for n in edges[name]}
    return [n.name for n in graph.nodes if n.name in found and not n.graph]
