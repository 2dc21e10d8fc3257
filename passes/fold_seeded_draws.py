"""Draws from a `torch.Generator` that forward makes and seeds itself are constants.

    randn(s, generator=g)   g = torch.Generator().manual_seed(7) in forward   →  those numbers

- The sizes are known; the generator draws in the order of the graph, from the state that capture found it in.
- Whether eager draws the same numbers in every call is what the check decides. Left alone: a generator that lives on
  the module and moves on from call to call (`hoist_noise` takes those).
- Where one draw of a generator is left alone, so are those after it.
"""

from __future__ import annotations

import torch
from torch import fx
from torch.fx import map_arg

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.noise import bound, draws
from graphaudit.graphs.program import Program
from graphaudit.rewrite.base import Level, Pass, PassResult, Site
from graphaudit.rewrite.edit import replace_node
from graphaudit.rulebook.target import Target


class FoldSeededDraws(Pass[Program]):
    """A draw with `generator=` → a constant."""

    name = "fold_seeded_draws"
    level = Level.FX
    claims = Claim.EQUIVALENT

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """One walk in graph order, each generator beginning where it stood at capture."""
        result = PassResult(artifact)
        generators: dict[str, torch.Generator | None] = {}
        for node in list(artifact.graph.nodes):
            source = bound(node).get("generator") if draws(node) else None
            behind = artifact.generator(source) if isinstance(source, fx.Node) else None
            if not isinstance(source, fx.Node) or not isinstance(behind, torch.Generator):
                continue
            site = Site(node.name, artifact.place(node))
            generator = generators.setdefault(source.name, behind.clone_state())
            if generator is None:
                result.left.append(Site(site.node, site.place, "its generator has drawn what is not known here"))
                continue
            if not _is_fixed(node, source):
                generators[source.name] = None
                result.left.append(Site(site.node, site.place, "it depends on the arguments"))
                continue
            replace_node(node, artifact.add_constant(_drawn(node, source, generator), "seeded_draw"))
            result.rewritten.append(site)
        if result.changed:
            artifact.finish()
        return result


def _is_fixed(node: fx.Node, source: fx.Node) -> bool:
    """Whether only sizes that are known go in: those of numbers, of the tensor behind a `…_like`, of an empty one."""
    is_like = "_like" in str(node.target)
    return isinstance(node.meta.get("val"), torch.Tensor) and all(
        (is_like or "aten.empty" in str(n.target)) and all(isinstance(d, int) for d in n.meta["val"].shape)
        for n in node.all_input_nodes
        if n is not source
    )


def _drawn(node: fx.Node, source: fx.Node, generator: torch.Generator) -> torch.Tensor:
    args, kwargs = map_arg((node.args, node.kwargs), lambda n: generator if n is source else _empty(n))
    drawn: torch.Tensor = node.target(*args, **kwargs)  # type: ignore[operator]
    return drawn


def _empty(node: fx.Node) -> torch.Tensor:
    example = node.meta["val"]
    return torch.empty_strided(tuple(example.shape), tuple(example.stride()), dtype=example.dtype)
