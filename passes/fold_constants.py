"""What is computed from parameters and buffers alone is computed once.

    weight = g * v / norm(v)          (weight_norm)           →  that weight
    weight = matrix_exp(A - A.T)      (orthogonal)            →  that weight
    weight = W.triu() + W.triu(1).T   (a parametrisation)     →  that weight

- The result takes no more room than what it is made of. Calls that only move numbers are left where nothing is
  computed before them: they cost nothing, and folding an `expand` would store every copy.
- Left alone: draws, what forward writes to, and calls that return several tensors.

Results are those of the same kernels, to the last bit.
"""

from __future__ import annotations

import torch
from torch import fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.fx_view import operator_name
from graphaudit.graphs.program import Program
from graphaudit.rewrite.base import Level, Pass, PassResult, Site
from graphaudit.rewrite.constants import Constants
from graphaudit.rewrite.edit import replace_node
from graphaudit.rulebook.target import Target

# What only moves numbers, and what makes them without reading any.
_MOVES = frozenset(
    f"aten.{name}"
    for name in (
        "view", "reshape", "t", "numpy_T", "transpose", "permute", "expand", "slice", "select", "unsqueeze", "squeeze",
        "flatten", "unflatten", "split", "chunk", "unbind", "clone", "alias", "detach", "contiguous", "movedim",
        "zeros", "ones", "full", "eye", "arange", "linspace", "scalar_tensor", "zeros_like", "ones_like", "full_like",
        "new_zeros", "new_ones", "new_full",
    )
)  # fmt: skip


class FoldConstants(Pass[Program]):
    """Operators on weights alone → their result."""

    name = "fold_constants"
    fixes = ("unsupported-op",)
    level = Level.FX
    runs_after = ("fold_batch_norm", "insert_nan_guards")
    claims = Claim.EQUIVALENT

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """One walk in graph order; of each computation only what others read is stored."""
        result = PassResult(artifact)
        constants = Constants(artifact)
        known: dict[fx.Node, torch.Tensor] = {}
        room: dict[fx.Node, int] = {}  # the largest of the weights that a node is made of
        computed: list[fx.Node] = []
        for node in list(artifact.graph.nodes):
            value = constants.value(node)
            if value is None or value.is_meta:
                continue
            known[node] = value
            if node.op != "call_function":
                room[node] = value.numel()
                continue
            room[node] = max((room[n] for n in node.all_input_nodes), default=0)
            if room[node] and (not _moves(node) or any(n in computed for n in node.all_input_nodes)):
                computed.append(node)
        for node in computed:
            if any(user not in known for user in node.users) and known[node].numel() <= room[node]:
                result.rewritten.append(Site(node.name, artifact.place(node)))
                replace_node(node, artifact.add_constant(known[node].detach().clone(), "folded"))
        if result.changed:
            artifact.finish()
        return result


def _moves(node: fx.Node) -> bool:
    return operator_name(node.target)[0].rpartition(".")[0] in _MOVES
