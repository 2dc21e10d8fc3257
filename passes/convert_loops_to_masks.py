"""Loops become masked passes, for targets without loops.

    while_loop(cond, body, (x,), (y,))   →  r₀ = cond(x₀, y),        x₁ = where(r₀, body(x₀, y), x₀)
                                            r₁ = r₀ ∧ cond(x₁, y),   x₂ = where(r₁, body(x₁, y), x₁)
                                            …                        x_b, guard = r_b

- Only for targets without loops (`Target.loops`).
- The loop and those inside it have a bound b: a counter that the loop itself holds below a constant, a comment on its
  line (`# graphaudit: loop-bound=b`), or `--loop-bound`. Branches inside it become a choice between both sides.
- Left alone: loops without a bound, and loops that carry Python integers, whose values are sizes.

Where the bound is not the loop's own, the graph has one more output: it is true where the loop would go on, and there
the graph is not the policy. Where no guard is true, the results are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.loop_bounds import beyond
from graphaudit.graphs.program import Program
from graphaudit.graphs.regions import WHILE_LOOP, bound_of, graphs_of, regions_in
from graphaudit.rewrite.base import Level, Pass, PassResult, Site
from graphaudit.rewrite.edit import insert_function, replace_results
from graphaudit.rewrite.lowering import Fired, Lowering
from graphaudit.rulebook.target import Target


class ConvertLoopsToMasks(Pass[Program]):
    """while_loop → as many masked passes as its bound says."""

    name = "convert_loops_to_masks"
    level = Level.FX
    fixes = ("loop-bound-unknown",)
    target_ops = frozenset({"torch.while_loop"})
    only_without = ("loops",)
    claims = Claim.BOUNDED

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Replace every loop of the graph that has a bound."""
        result = PassResult(artifact)
        for node in list(artifact.graph.find_nodes(op="call_function", target=WHILE_LOOP)):
            site = Site(node.name, artifact.place(node))
            reason = _why_left(artifact, node)
            if reason:
                result.left.append(Site(site.node, site.place, reason))
            else:
                _convert(artifact, node)
                result.rewritten.append(site)
        if result.changed:
            artifact.finish()
        return result


def _why_left(program: Program, node: fx.Node) -> str:
    for region in regions_in(node):
        if region.target is not WHILE_LOOP:
            continue
        if bound_of(region, program.bounds)[0] is None:
            line = program.place(region)
            return f"nothing bounds how often the loop at line {line.line} runs" if line else "it has no bound"
        if not all(isinstance(value.meta["val"], torch.Tensor) for value in region.args[2]):  # type: ignore[union-attr]
            return "it carries Python integers"
    return ""


def _convert(program: Program, node: fx.Node) -> None:
    fired: list[Fired] = []
    test, body = graphs_of(node)

    def passes(carried: Sequence[Any], outer: Sequence[Any]) -> list[Any]:
        lowering = Lowering(fx.GraphModule({}, fx.Graph()), program.bounds)
        values = lowering.loop(node, test, body, carried, outer)
        fired[:] = lowering.fired
        return [*values, *(guard.fires for guard in lowering.fired)]

    results = insert_function(node, passes, node.args[2:4])
    guards = results[len(node.args[2]) :]  # type: ignore[arg-type]
    replace_results(node, results)
    for guard, of in zip(guards, fired):
        program.add_guard(guard, beyond(of.place, of.bound), of.place)
