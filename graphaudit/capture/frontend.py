"""The front end: `torch.export`, plain, then strict, then with decisions on tensors as masks; and a second capture that
finds frozen values."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import fx, nn
from torch.export import ExportedProgram

from graphaudit.capture.calls import Call, example_call, other_call
from graphaudit.capture.context import DataAsAlias, decisions_on_sizes, tracing
from graphaudit.capture.control_flow import FASTER_AS_LOOP, UNDRAWN, Bounds, Refused, Regions, Session, predicated
from graphaudit.capture.events import Blocker, Frozen
from graphaudit.capture.frozen import compare_captures
from graphaudit.capture.gradients import TakesGradients, gradients_refused, traced_gradients
from graphaudit.capture.outputs import with_tensor_outputs
from graphaudit.capture.places import blocker_of
from graphaudit.capture.state import StateTracer
from graphaudit.capture.synonyms import with_first_names
from graphaudit.capture.written import Written, attributes_written
from graphaudit.control_flow import ControlFlow, LoopChoice
from graphaudit.findings import Place
from graphaudit.graphs.noise import draws
from graphaudit.graphs.program import Program
from graphaudit.interface import GuardSlot, Slot
from graphaudit.policy import Policy
from graphaudit.policy.held import GENERATORS
from graphaudit.policy.seeds import moved_since
from graphaudit.policy.stepping import PREFIX, Stepped

_LOG = logging.getLogger(__name__)

_Traced = Callable[[nn.Module], AbstractContextManager[None]]  # what has to hold of a module's forward while it lasts


@dataclass(frozen=True)
class _FrontEnd:
    """One way to capture, by the name that reports call it."""

    method: str
    strict: bool = False
    predicated: bool = False
    control_flow: ControlFlow = ControlFlow.MASKS


_FRONT_ENDS = (
    _FrontEnd("torch.export"),
    _FrontEnd("torch.export strict", strict=True),
    _FrontEnd("torch.export, control flow predicated", predicated=True),
)


@dataclass
class Capture:
    """What came of a capture. `program` is None when it failed; then `blockers` say why, one for each front end.

    `frozen` lists values that the graph holds as constants although they vary.
    """

    program: Program | None
    method: str | None
    blockers: list[Blocker] = field(default_factory=list)
    frozen: list[Frozen] = field(default_factory=list)
    seconds: float = 0.0
    one_sided: list[Place] = field(default_factory=list)  # draws that the policy makes on one path only
    conditions: list[str] = field(default_factory=list)  # what else the certificate has to say
    predicated: bool = False  # decisions on tensors, and on sizes that vary, are masks
    loops: list[LoopChoice] = field(default_factory=list)  # what became of the loops that tensors decide
    written: Written = field(default_factory=dict)  # attributes and buffers that the graph, or a trace, writes to


def capture(policy: Policy, *, look_for_frozen: bool = True, control_flow: ControlFlow = ControlFlow.MASKS) -> Capture:
    """Turn the policy into a functional graph of ATen ops, in eval mode, leaving the user's module alone.

    `control_flow` says what becomes of loops that tensors decide; `auto` is what it means for a target with loops.
    """
    begun = time.perf_counter()
    if policy.exported is not None:
        result = Capture(_program(policy, policy.exported), "pt2")
    else:
        result = _capture_module(policy, look_for_frozen, control_flow)
    result.seconds = time.perf_counter() - begun
    return result


def _capture_module(policy: Policy, look_for_frozen: bool, control_flow: ControlFlow) -> Capture:
    call = example_call(policy)
    if any(isinstance(leaf, GENERATORS) for leaf in call.leaves):
        reason = "an argument is a generator; let the module hold it (`self.rng`), then its draws are replayed"
        return Capture(None, None, [Blocker(reason, None)])
    blockers: list[Blocker] = []
    written: Written = {}
    kept: Capture | None = None
    for front_end in _FRONT_ENDS:
        if (kept is not None and not front_end.predicated) or (front_end.strict and isinstance(policy.module, Stepped)):
            continue
        front_end = replace(front_end, control_flow=control_flow)
        try:
            with decisions_on_sizes() as decisions:
                exported, session = _export(policy, call, seed=0, front_end=front_end, written=written)
            program = _program(policy, exported, session)
        except (Exception, Refused) as error:  # torch.export raises what it likes, the user's own exceptions included
            blockers.append(blocker_of(error))
            if blockers[-1].kind in ("caught-error", UNDRAWN):
                kept = None  # what it would go on with in a handler is not in that graph, or a number drawn at capture
            _LOG.debug("%s failed\n%s", front_end.method, blockers[-1].detail)
            continue
        result = Capture(program, front_end.method, predicated=front_end.predicated)
        held = {s.path for s in program.held_state}
        result.written = {path: () for path in program.mutated if path not in held} | written
        result.one_sided, result.loops = list(session.one_sided), list(session.loops.values())
        if look_for_frozen:
            result.frozen = _frozen(policy, call, exported, front_end)
        undecided = decisions or (front_end.strict and call.sizes)  # torch._dynamo decides without asking Python
        if front_end.predicated or not (undecided or session.drew or _holds_python_values(exported)):
            return result
        kept = result
    return kept or Capture(None, None, list(dict.fromkeys(blockers)), written=written)


def _holds_python_values(exported: ExportedProgram) -> bool:
    """Whether the graph computes with numbers read out of tensors, holds a loop, draws in a branch, or asserts: masks
    may do without."""
    targets = (
        torch.ops.aten._local_scalar_dense.default,
        torch.ops.aten.item.default,
        torch.ops.aten._assert_async.default,
        torch.ops.aten._assert_async.msg,
        torch.ops.higher_order.while_loop,
    )
    regions = (m for m in exported.graph_module.modules() if m is not exported.graph_module)
    in_regions = (n for m in regions if isinstance(m, fx.GraphModule) for n in m.graph.nodes)
    return any(node.target in targets for node in exported.graph.nodes) or any(map(draws, in_regions))


def _export(
    policy: Policy, call: Call, *, seed: int, front_end: _FrontEnd, written: Written | None = None
) -> tuple[ExportedProgram, Session]:
    """`written` takes the paths of attributes that forward writes to."""
    seen: Written = {} if written is None else written

    def traced(module: nn.Module) -> AbstractContextManager[None]:
        return nullcontext() if front_end.strict else attributes_written(module, seen)

    try:
        with gradients_refused():
            return _export_by(policy, call, seed, front_end, traced)
    except TakesGradients:
        return _export_by(policy, call, seed, front_end, partial(_both, traced, traced_gradients))


def _export_by(
    policy: Policy, call: Call, seed: int, front_end: _FrontEnd, traced: _Traced
) -> tuple[ExportedProgram, Session]:
    if front_end.predicated:
        form = front_end.control_flow
        bound = FASTER_AS_LOOP if form is ControlFlow.AUTO else None
        regions = Regions(bound=bound, everywhere=form is ControlFlow.NATIVE)
        return _export_predicated(policy, call, seed, regions, form, traced)
    with tracing(seed), policy.working.fresh() as module:
        session = Session(module)
        session.generators.seed(seed, torchs=False)
        with _state_traced(module, None), traced(module):
            exported = _torch_export(session, call, strict=front_end.strict)
        session.drew = moved_since(seed) or bool(session.generators.moved(torchs=False))
        return exported, session


@contextmanager
def _both(first: _Traced, second: _Traced, module: nn.Module) -> Iterator[None]:
    with first(module), second(module):
        yield


def _export_predicated(
    policy: Policy, call: Call, seed: int, regions: Regions, form: ControlFlow, traced: _Traced
) -> tuple[ExportedProgram, Session]:
    """With masks; a loop that turns out to have no bound stays a loop, unless only masks are wanted. Loops that stay
    loops for speed alone become masks where some variable of theirs cannot be carried."""
    try:
        with (
            tracing(seed),
            policy.working.fresh() as module,
            predicated(module, Bounds.parse(policy.loop_bounds), regions) as session,
            _state_traced(module, session),
            traced(module),
        ):
            session.generators.seed(seed, torchs=False)
            return _torch_export(session, call, strict=False), session
    except Refused as refused:
        place = refused.place if refused.kind == "loop-bound-unknown" else None
        if form is not ControlFlow.MASKS and place is not None and regions.why(place, None) is None:
            regions = regions.also(place)
        elif regions.bound is not None:
            regions = replace(regions, bound=None)
        else:
            raise
    return _export_predicated(policy, call, seed, regions, form, traced)


def _state_traced(module: nn.Module, session: Session | None) -> AbstractContextManager[None]:
    return module.traced(StateTracer(session)) if isinstance(module, Stepped) else nullcontext()


def _torch_export(session: Session, call: Call, *, strict: bool) -> ExportedProgram:
    with nullcontext() if strict else DataAsAlias():
        exported = torch.export.export(
            session.root, call.args, dict(call.kwargs), dynamic_shapes=call.dynamic_shapes, strict=strict
        )
    # A generator that forward itself has seeded draws the same in every call: the graph keeps it as it stands now.
    seeded = session.generators.moved(torchs=True)
    for name, value in exported.constants.items():
        if isinstance(value, torch.Generator) and session.generators.name_of(value) in seeded:
            exported.constants[name] = value.clone_state()
    return exported


def _program(policy: Policy, exported: ExportedProgram, session: Session | None = None) -> Program:
    """Functional, with in-place ops gone and composite ops kept (an empty decomposition table)."""
    with tracing(0), torch.no_grad():
        functional = exported.run_decompositions({})
    slots = tuple(
        GuardSlot(f"guard_{number}", "", "bool", (), guard.condition, guard.error, guard.place)
        for number, guard in enumerate(session.guards if session is not None else ())
    )
    masks = session.drawn if session is not None else {}
    drawn = tuple(Slot(f"drawn_{number}", "", "bool", ()) for number in range(len(masks)))
    interface = replace(policy.interface, guards=slots, drawn=drawn)
    program = Program(functional, interface, bounds=Bounds.parse(policy.loop_bounds))
    program = with_tensor_outputs(with_first_names(program))
    if session is not None:
        program.hold_generators(session.generators.records.values(), session.generators.name_of)
    return program.hold_state(PREFIX) if isinstance(policy.module, Stepped) else program


def _frozen(policy: Policy, call: Call, exported: ExportedProgram, front_end: _FrontEnd) -> list[Frozen]:
    """Capture again with other inputs, another seed and other sizes; name what differs, and by which of them."""
    other = other_call(policy, call)
    try:
        again, *_ = _export(policy, other, seed=1, front_end=front_end)
    except (Exception, Refused) as error:  # as above; a policy that can be captured on one input only depends on it
        blocker = blocker_of(error)
        return [Frozen(blocker.place, "", "input", "a graph", f"no graph: {blocker.reason}")]
    if not compare_captures(exported, again, "any"):
        return []
    found: list[Frozen] = []
    variations: Sequence[tuple[str, Call, int]] = (
        ("seed", call, 1),
        ("size", other.with_values_of(call), 0),
        ("input", other.with_sizes_of(call), 0),
    )
    for cause, varied, seed in variations:
        try:
            found += compare_captures(exported, _export(policy, varied, seed=seed, front_end=front_end)[0], cause)
        except (Exception, Refused) as error:  # as above
            blocker = blocker_of(error)
            found.append(Frozen(blocker.place, "", cause, "a graph", f"no graph: {blocker.reason}"))
    return found or compare_captures(exported, again, "input")
