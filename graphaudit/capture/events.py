"""What capture and the observed eager run report: events at the user's lines. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from graphaudit.findings import Place


class EventKind(StrEnum):
    """What the eager module did that a graph may not repeat."""

    BOOL = "bool"  # bool(tensor): `detail` is the function, `statement` says if, while, assert, …
    ITEM = "item"  # item(), int(), float(), a tensor used as a Python number or index
    TOLIST = "tolist"  # tolist()
    NUMPY = "numpy"  # tensor → NumPy array
    ITERATE = "iterate"  # for row in tensor; `detail` is the length
    REBUILT = "rebuilt"  # torch.tensor / as_tensor / from_numpy of Python or NumPy data inside forward
    RANDOM = "random"  # a draw from torch's generator; `detail` is the aten op
    GENERATOR = "generator"  # a draw from a torch.Generator object
    PYTHON_RANDOM = "python-random"  # the random module
    NUMPY_RANDOM = "numpy-random"  # numpy.random
    CLOCK = "clock"  # time, datetime
    DISTRIBUTION = "distribution"  # a torch.distributions object is made; `detail` is the class
    VALIDATION = "validation"  # argument validation of torch.distributions reads tensor values
    DATA_SHAPE = "data-shape"  # an op whose result's shape depends on data; `detail` is the aten op
    IN_PLACE = "in-place"  # a write to a tensor made inside forward; `detail` is the aten op
    WRITE_INPUT = "write-input"  # a write to an argument; `detail` is its path
    WRITE_BUFFER = "write-buffer"  # `detail` is the buffer's name
    WRITE_PARAMETER = "write-parameter"  # `detail` is the parameter's name
    WRITE_ATTRIBUTE = "write-attribute"  # a Python attribute of a module changed; `detail` is its name
    GRADIENT = "gradient"  # autograd runs inside forward
    SCRIPTED = "scripted"  # a TorchScript function or module is called
    HOOK = "hook"  # a forward hook runs; `detail` is the module
    CONTROL_FLOW_OP = "control-flow-op"  # torch.cond, torch.while_loop
    PACKED = "packed"  # pack_padded_sequence and its kin
    CUSTOM_OP = "custom-op"  # an operator of nobody's namespace but the user's is called; `detail` is its name
    FAST_PATH = "fast-path"  # a layer of torch's calls its fused inference operator; `detail` is the operator


@dataclass(frozen=True)
class Event:
    """One thing that happened at `place`. `statement` is the kind of Python statement or expression it happened in:
    `if`, `elif`, `while`, `for`, `assert`, `ifexp`, `and`, `or`, `not`, `call:max` (a builtin), or empty.
    `inside` names what the statement's body holds that matters: `break`, `return`, `continue`.
    """

    kind: EventKind
    place: Place | None
    detail: str = ""
    statement: str = ""
    inside: frozenset[str] = frozenset()


@dataclass
class Observation:
    """What the eager module did on the inputs tried.

    `passes` holds the most passes of a loop, by the place of what decides it: the condition of a `while`, the exit of a
    `while True` (in one call), the number that a range is made of.
    """

    events: list[Event] = field(default_factory=list)
    passes: dict[Place, int] = field(default_factory=dict)
    changes_between_calls: bool = False  # the same input gave another result when called again
    changes_with_seed: bool = False  # another seed gave another result on the same input

    def of(self, *kinds: EventKind) -> list[Event]:
        """The events of those kinds, in order."""
        return [e for e in self.events if e.kind in kinds]


@dataclass(frozen=True)
class Blocker:
    """Why capture failed, as torch.export says it: one line of text, and the user's line."""

    reason: str
    place: Place | None
    kind: str = ""  # torch's name for the error, say `GuardOnDataDependentSymNode`
    detail: str = ""  # the full message, for --debug
    remedy: str = ""  # what to do, where that is known better than by the name of the finding


@dataclass(frozen=True)
class Frozen:
    """A value that capture made constant although it varies: it differs between two captures.

    `cause` is `input`, `seed` or `size` (what was varied); `dimension` is the dynamic dimension's name for `size`.
    """

    place: Place | None
    node: str
    cause: str
    was: str
    became: str
    dimension: str | None = None
