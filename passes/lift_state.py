"""What forward keeps between calls becomes an input and an output, so that the caller carries it from call to call.

    buffer h;  read h … compute h' … write h := h'   →   input h;  compute h' … output h_next = h'

- Capture puts everything that forward keeps into this form, as torch.export does with registered buffers: tensors in
  attributes, Python numbers (0-d, bool, int64 or float64), members of lists, deques, dicts, tuples and objects. A
  state that has another structure in the first calls (None, an empty list) has a counter of calls as one more part.
- Each part has a name, made from its path in the module, and a first value: what the module held when it was handed
  over, or zero where it had no value yet and eager does the same from zero.
- Left alone: buffers that are written although no result, now or later, depends on them. The write is dropped.

See `graphaudit.policy.stateful` for how state is found, and docs/state.md for how a deployed policy is stepped.
"""

from __future__ import annotations

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.program import Program
from graphaudit.interface import State
from graphaudit.rewrite.base import Level, Pass, PassResult, Site
from graphaudit.rulebook.target import Target


class LiftState(Pass[Program]):
    """Buffers that the graph writes to → inputs and outputs."""

    name = "lift_state"
    level = Level.FX
    fixes = (
        "buffer-mutation",
        "parameter-mutation",
        "python-state-mutation",
        "recurrent-state-hidden",
        "normaliser-updates-in-inference",
    )
    claims = Claim.GIVEN_STATE

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """All of the state at once: what is left in the graph would start anew in each call."""
        held = artifact.held_state
        left = [
            Site(node.name, artifact.place(node), f"no result depends on what is written to {path}")
            for path, node in artifact.mutated.items()
            if path not in {part.path for part in held}
        ]
        if not held:
            return PassResult(artifact, left=left)
        rewritten = [site for part in held for site in _sites(artifact, part)]
        return PassResult(artifact.lift_state(), rewritten, left)


def _sites(program: Program, part: State) -> list[Site]:
    """The lines that write to a part of the state; where none is known, the line that computes its new value."""
    node = program.mutated[part.path]
    return [Site(node.name, place) for place in part.places or (program.place(node),)]
