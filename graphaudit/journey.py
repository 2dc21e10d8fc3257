"""A policy on its way: observed and captured once, then audited, or rewritten step by checked step."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from graphaudit import __version__
from graphaudit.audit.examine import examine
from graphaudit.audit.subject import Refusal, Subject
from graphaudit.capture import Blocker, Capture, EventKind, captured_steps, observe
from graphaudit.capture.arguments import with_tensors_for_numbers
from graphaudit.capture.optional import with_zeros_for_none
from graphaudit.capture.steps import parameters_refused, unseen_writes
from graphaudit.capture.summary import summarise
from graphaudit.control_flow import ControlFlow
from graphaudit.equivalence.certificate import certify, narrowed
from graphaudit.equivalence.episodes import episodes, through, with_states
from graphaudit.equivalence.half import float16_condition
from graphaudit.equivalence.inputs import Sample, collect
from graphaudit.equivalence.proof import prove
from graphaudit.equivalence.reference import Reference
from graphaudit.equivalence.verdict import Claim, PathCoverage, Verdict, weakest
from graphaudit.export.bundle import write_bundle
from graphaudit.export.locate import name_first_difference
from graphaudit.export.translate import ExportRefused, to_onnx
from graphaudit.findings import Finding, blocking, merge, refusal
from graphaudit.graphs.fx_view import view_program
from graphaudit.graphs.nans import speaks_of_nan
from graphaudit.graphs.noise import draws_anew
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.graphs.program import Program
from graphaudit.interface import GuardSlot
from graphaudit.paths import walk
from graphaudit.policy import Policy
from graphaudit.policy.deployed import unread
from graphaudit.policy.gradients import with_gradients
from graphaudit.policy.isolation import Fingerprint
from graphaudit.policy.stateful import StateRefused
from graphaudit.policy.written_parameters import with_buffers_for
from graphaudit.registry import checks
from graphaudit.results import CaptureSummary, PassRow, PolicySummary, Report
from graphaudit.rewrite.base import Level, Pass
from graphaudit.rewrite.conversion import marked, untaken
from graphaudit.rewrite.fixes import explain_left, mark_captured, mark_fixed
from graphaudit.rewrite.manager import PassManager
from graphaudit.rewrite.pipeline import Fix, PipelineResult
from graphaudit.rulebook import Rulebook, Target
from graphaudit.runtimes import onnxruntime as ort

Progress = Callable[[str], None]

_ROUNDS = 2  # how often what the target refuses of a translation is written otherwise, and translated again
_OBSERVED_CALLS = 4  # the user's further inputs that eager is observed on
# Without one of these, nothing that the policy's own code decides can hang on tensors.
_READS = (
    *(EventKind.BOOL, EventKind.ITEM, EventKind.TOLIST, EventKind.NUMPY),
    *(EventKind.CONTROL_FLOW_OP, EventKind.SCRIPTED),
)
# What the capture itself repairs where it makes masks of branches and loops.
_MASKED = {
    *("packed-sequence", "lengths-frozen"),
    *("data-dependent-branch", "data-dependent-loop", "data-dependent-module-choice", "python-table-lookup"),
    *("early-return", "break-in-loop", "item-call", "tolist", "recursion", "tensor-rebuilt-from-python"),
    *("loop-bound-unknown", "data-dependent-assert", "data-dependent-raise"),
}


class Journey:
    """One policy on its way: observed and captured once, for whichever targets follow."""

    def __init__(self, policy: Policy, say: Progress, control_flow: ControlFlow = ControlFlow.AUTO) -> None:
        self.policy = policy = with_gradients(with_tensors_for_numbers(with_zeros_for_none(policy)))
        self.say = say
        self.fingerprint = Fingerprint(policy.module)
        self._control_flow = control_flow
        say("running the policy")
        self.observation = observe(policy, _user_calls(policy))
        self.stepped: Policy | None = None
        self._captures: dict[ControlFlow, Capture] = {}
        self._targets: dict[str, Capture] = {}
        self._models: dict[tuple[int, int], OnnxModel | Refusal] = {}

    def captured(self, target: Target) -> Capture:
        """The policy's graph for a target: one capture serves all targets that want its loops in the same form."""
        form = self._control_flow
        if form is ControlFlow.AUTO and not target.loops:
            form = ControlFlow.MASKS
        free = [c for c in self._captures.values() if c.program is not None and not c.loops]  # nothing to choose
        if form not in self._captures:
            self._captures[form] = free[0] if free else self._capture(form)
        self._targets[target.name] = self._captures[form]
        return self._captures[form]

    def _capture(self, form: ControlFlow) -> Capture:
        self.say("capturing")
        made = self._captured(form)
        if made.program is not None and draws_anew(made.program.graph):
            self.observation.changes_with_seed = True
        return made

    def subject(self, rulebook: Rulebook) -> Subject:
        """The policy as captured for a target, before it is exported."""
        return Subject(self.policy, self.observation, self.captured(rulebook.target), rulebook=rulebook)

    def _captured(self, form: ControlFlow) -> Capture:
        """The capture of the stepped policy where forward keeps state and that can be captured, else of the policy."""
        writes = self.observation.of(EventKind.WRITE_BUFFER, EventKind.WRITE_ATTRIBUTE, EventKind.WRITE_PARAMETER)
        places = [(e.detail, e.place) for e in writes]
        written = self.observation.of(EventKind.WRITE_PARAMETER)
        policy = with_buffers_for(self.policy, {e.detail for e in written}) if written else self.policy
        if policy is None:
            return parameters_refused(written)
        try:
            self.stepped, captured = captured_steps(policy, _user_calls(policy), places, form)
        except StateRefused as refused:
            place = next((p for path, p in places if path == refused.root), None)
            return Capture(None, None, [Blocker(refused.reason, place, remedy=refused.remedy)])
        if self.stepped is not None:
            self.observation.events += unseen_writes(self.policy, self.stepped, self.observation)
        return captured

    def exported(self, rulebook: Rulebook) -> Subject:
        """The policy as captured, for an audit; with the ONNX model that it becomes, where the target takes one."""
        subject = self.subject(rulebook)
        program, opset = self.captured(rulebook.target).program, rulebook.target.opset
        if program is None or rulebook.target.graph == "fx":
            return subject
        key = (id(program), opset)
        if key not in self._models:
            self.say(f"translating to ONNX opset {opset}")
            self._models[key] = _translated(program.copy().lift_state(), rulebook)
        model = self._models[key]
        return replace(subject, refusal=model) if isinstance(model, Refusal) else replace(subject, model=model)

    def travel(self, rulebook: Rulebook, count: int, seed: int, manager: PassManager) -> Rewriting:
        """Pass, check, pass, check, export, check, clean up, check. Stops where nothing could repair what was found."""
        done = Rewriting(self, rulebook, manager)
        done.findings = examine(self.subject(rulebook))
        program = self.captured(rulebook.target).program
        repairable = {name for step in manager.pipeline for name in step.fixes}
        stopping = blocking(done.findings, rulebook.target.name)
        if program is None or any(f.name not in repairable for f in stopping):
            return done
        self.say(f"comparing on {count} inputs")
        samples = collect(self.policy, count, seed)
        done.reference = self._reference(samples, program.interface.guards)
        done.reference.speaks_of_nan = speaks_of_nan(view_program(program))
        if self.stepped is not None:
            done.episodes = episodes(self.policy, samples, program.interface.guards)
        if self.observation.of(*_READS):
            self.say("walking the paths")
            walked = walk(self.policy, done.reference.samples if self.stepped is None else samples, seed)
            found = walked.found if self.stepped is None else with_states(self.stepped, walked.found, steps=1)
            done.reference.extend(found)
            done.paths = walked.coverage
        done.run(program)
        return done

    def _reference(self, samples: list[Sample], guards: Sequence[GuardSlot]) -> Reference:
        if self.stepped is None:
            return Reference(self.policy, samples, guards)
        return Reference(self.stepped, with_states(self.stepped, samples), guards)

    def summary(self) -> PolicySummary:
        """The policy in numbers."""
        program = next((c.program for c in self._targets.values() if c.program is not None), None)
        interface = self.policy.interface
        operators = [str(n.target) for n in program.graph.nodes if n.op == "call_function"] if program else []
        return PolicySummary(
            name=self.policy.name,
            file=str(self.policy.file) if self.policy.file else None,
            parameters=self.policy.parameter_count,
            inputs=len(interface.inputs),
            outputs=len(interface.outputs),
            operators=len(set(operators)) if program else None,
            nodes=len(operators) if program else None,
        )

    def capture_summary(self) -> CaptureSummary:
        """How the graph was made, how often eager decided on tensor values, and what became of its loops."""
        return summarise(self.observation, list(self._captures.values()), self._targets)


class Rewriting:
    """What a rewrite has come to."""

    def __init__(self, journey: Journey, rulebook: Rulebook, manager: PassManager) -> None:
        self._journey = journey
        self._rulebook = rulebook
        self._manager = manager
        self._target = rulebook.target
        self.reference: Reference | None = None
        self.paths = PathCoverage()
        self.episodes: Reference | None = None
        self.findings: list[Finding] = []
        self._rows: list[PassRow] = []
        self._fixes: list[Fix] = []
        self._model: OnnxModel | None = None
        self._claim = Claim.EQUIVALENT
        self._narrowed: list[str] = []  # what holds in float16

    def run(self, program: Program) -> None:
        """The whole road from the captured program; what goes wrong on it is among `findings`."""
        captured = self._captured(program)
        lost: Refusal | None = None
        if captured:
            passed = self._passes(Level.FX, program, self._check_program)
            self._simulate(passed.artifact)
            lost = self._translate(passed.artifact) if not passed.stopped else None
        self.findings += self._repaired()
        mark_fixed(self.findings, self._fixes)  # what is found in the result below was repaired by nothing
        subject = Subject(model=self._model, rulebook=self._rulebook, refusal=lost, rows=self.rows)
        self.findings = merge([*self.findings, *examine(subject)])
        if captured and self._journey.captured(self._target).predicated:
            mark_captured(self.findings, _MASKED)
        explain_left(self.findings, self.rows)

    def _captured(self, program: Program) -> bool:
        """Whether the graph is the policy: draw by draw, or else, where both make draws, in distribution."""
        assert self.reference is not None
        verdict = self._check_program("capture", program, Claim.EQUIVALENT)
        if not verdict.holds and program.interface.drawn:
            self.reference.replays = False
            verdict = self._check_program("capture", program, Claim.EQUIVALENT)
        return self._row("capture", "fx", lambda: verdict)

    def _repaired(self) -> list[Finding]:
        """What a translation of the policy as captured would have met, had the passes not repaired it before."""
        repaired = {name for _, names, _ in self._fixes for name in names}
        names = {name for name, check in checks().items() if check.reads_model and name in repaired}
        found = examine(self._journey.exported(self._rulebook), only=names) if names else []
        mark_fixed(found, self._fixes)
        return [f for f in found if f.fixed_by is not None]

    @property
    def rows(self) -> tuple[PassRow, ...]:
        """One row for each step so far."""
        return tuple(self._rows)

    def report(self, started: float) -> Report:
        """The typed result; `bundle` is filled in by whoever writes it."""
        name = self._target.name
        fit = self._model is not None and not blocking(self.findings, name)
        verdicts = [row.verdict for row in self._rows if row.verdict is not None and not row.rolled_back]
        certificate = None
        if self.reference and fit:
            guards = self._model.guards if self._model is not None else ()
            captured = self._journey.captured(self._target)
            conditions = [*(g.condition for g in guards), *self._narrowed, *captured.conditions]
            if not self.reference.replays:
                conditions += [f"a seed does not replay the draws at {p}, made on one path" for p in captured.one_sided]
            if self._journey.policy.cut and captured.program is not None:
                parts = unread(self._journey.policy.module, captured.program.copy().finish().parameters_read)
                conditions += [f"left out, because no deployed output needs it: {part}" for part in parts]
            if self._model is not None and self._model.computes_in:
                conditions.append(narrowed(self._model.computes_in, verdicts))
            made = [c for row in self._rows if not row.rolled_back for c in row.conversions if c.way]
            certificate = certify(self._journey.policy, name, self.reference, verdicts, conditions, self.paths, made)
        return Report(
            graphaudit_version=__version__,
            command="rewrite",
            policy=self._journey.summary(),
            capture=self._journey.capture_summary(),
            targets=[name],
            findings=self.findings,
            fit={name: fit},
            passes=self._rows,
            certificate=certificate,
            statement=f"fit for {name}: {certificate.statement}" if certificate else refusal(self.findings, name),
            seconds=time.perf_counter() - started,
        )

    def write(self, output: str | Path, report: Report, seed: int) -> Path:
        """The bundle of a policy that is fit."""
        assert self._model is not None and self.reference is not None and report.certificate is not None
        self.reference.compute_in(self._model.computes_in)
        return write_bundle(
            output,
            model=self._model,
            policy=self._journey.policy,
            interface=(self._journey.stepped or self._journey.policy).interface,
            reference=self.reference,
            certificate=report.certificate,
            report=report,
            target=self._target,
            seed=seed,
        )

    def _simulate(self, program: Program) -> None:
        """What the program gives in float16, where the target computes in that and nothing is drawn."""
        random = program.noise or draws_anew(program.graph)
        if self.reference and self._target.compute_dtype == "float16" and not random:
            self._journey.say("simulating float16")
            self._narrowed = [float16_condition(self.reference, program.runner())]

    def _translate(self, program: Program, rounds: int = _ROUNDS) -> Refusal | None:
        self._journey.say(f"translating to ONNX opset {self._target.opset}")
        started = time.perf_counter()
        model = _translated(program, self._rulebook)
        if isinstance(model, Refusal):
            return model
        refused = self._run_export(model, started)
        if refused is None and not self._rows[-1].holds:
            self._model = model
            assert self.reference is not None
            name_first_difference(program, model, self.reference, self._rows[-1])
            return None
        begun = self._passes(Level.ONNX, model, self._check_model, only=lambda step: step.runs_first)
        lacking = untaken(begun.artifact, [c for row in begun.rows for c in row.conversions])
        if lacking and rounds:
            again = self._passes(Level.FX, marked(program, lacking), self._check_program, lambda step: step.runs_last)
            if any(row.changed and row.holds for row in again.rows):
                return self._translate(again.artifact, rounds - 1)
        if refused is not None and not any(row.changed and row.holds for row in begun.rows):
            self._model = begun.artifact
            return refused
        passed = begun
        if not begun.stopped:
            passed = self._passes(Level.ONNX, begun.artifact, self._check_model, only=lambda step: not step.runs_first)
        self._model = None if passed.stopped else passed.artifact
        if self._model is not None and self.episodes is not None:
            self._check_episodes(self.episodes, self._model)
        return None

    def _run_export(self, model: OnnxModel, started: float) -> Refusal | None:
        """Compare the model as translated; why ONNX Runtime does not run it, which a pass may repair."""
        try:
            self._row("export", "export", lambda: self._check_model("export", model, Claim.WHERE_FINITE), started)
        except ort.RuntimeRefused as error:
            self._rows.append(PassRow(name="export", level="export", changed=0, seconds=time.perf_counter() - started))
            return Refusal("runtime", str(error))
        return None

    def _check_episodes(self, whole: Reference, model: OnnxModel) -> None:
        """The user's own module against the model, from its first state on, over several steps."""
        assert self._journey.stepped is not None
        whole.compute_in(model.computes_in)
        run = through(ort.runner(model), self._journey.stepped)
        self._row("episodes", "onnx", lambda: whole.check("episodes", run, weakest([self._claim, Claim.GIVEN_STATE])))

    def _passes(
        self,
        level: Level,
        artifact: Any,
        check: Callable[[str, Any, Claim], Verdict],
        only: Callable[[Pass[Any]], bool] = lambda _: True,
    ) -> PipelineResult[Any]:
        result = self._manager.run(
            level,
            artifact,
            check=check,
            prove=prove if level is Level.ONNX else None,
            target=self._target,
            claim=self._claim,
            on_step=self._journey.say,
            only=only,
        )
        self._rows += result.rows
        self._claim, self._fixes = result.claim, self._fixes + result.fixes
        return result

    def _row(self, name: str, level: str, check: Callable[[], Verdict], started: float | None = None) -> bool:
        begun = time.perf_counter() if started is None else started
        verdict = check()
        # Every step is compared with eager from the start, so none can claim more than the steps before it.
        verdict.claim = self._claim = weakest([self._claim, verdict.claim])
        self._rows.append(
            PassRow(name=name, level=level, changed=0, verdict=verdict, seconds=time.perf_counter() - begun)
        )
        return verdict.holds

    def _check_program(self, step: str, program: Program, claims: Claim) -> Verdict:
        assert self.reference is not None
        return self.reference.check(step, program.runner(), claims)

    def _check_model(self, step: str, model: OnnxModel, claims: Claim) -> Verdict:
        assert self.reference is not None
        self.reference.compute_in(model.computes_in)
        return self.reference.check(step, ort.runner(model), claims)


def _translated(program: Program, rulebook: Rulebook) -> OnnxModel | Refusal:
    try:
        return to_onnx(program, rulebook.target)
    except ExportRefused as refused:
        return Refusal("export", refused.reason, tuple(refused.missing), refused.place)


def _user_calls(policy: Policy) -> list[Sequence[Any]]:
    return [policy.inputs(seed) for seed in range(_OBSERVED_CALLS)] if policy.inputs is not None else []
