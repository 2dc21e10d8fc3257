"""What the command line does, as functions: typed results, no printing."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from graphaudit import __version__
from graphaudit.audit.examine import examine
from graphaudit.audit.islands import survey
from graphaudit.audit.operators import operator_rows
from graphaudit.audit.subject import Subject
from graphaudit.bisection import bisect_journey, write_reproducers
from graphaudit.capture.control_flow import Bounds
from graphaudit.control_flow import ControlFlow
from graphaudit.equivalence.eager import one_thread
from graphaudit.errors import PolicyError, TargetError
from graphaudit.export.bundle import check_output
from graphaudit.findings import Finding, blocking, refusal
from graphaudit.graphs.onnx_model import OnnxModel
from graphaudit.graphs.program import Program
from graphaudit.journey import Journey, Progress
from graphaudit.policy import Policy
from graphaudit.policy.deployed import deployed
from graphaudit.policy.probe import probe
from graphaudit.results import Bisection, CaptureSummary, PolicySummary, Report
from graphaudit.rewrite.bisect import Divergences
from graphaudit.rewrite.fixes import mark_fixable
from graphaudit.rewrite.manager import PassManager
from graphaudit.rulebook import Rulebook, load_rulebook, rewritten_for


@one_thread()
def audit(
    policy: Policy | nn.Module | OnnxModel,
    example_inputs: Sequence[Any] | None = None,
    *,
    target: str | Sequence[str] = "onnxruntime",
    inputs: Callable[[int], Sequence[Any]] | None = None,
    dynamic_shapes: Sequence[Any] | None = None,
    reference: nn.Module | None = None,
    loop_bounds: Sequence[str | int] = (),
    control_flow: str = ControlFlow.AUTO,
    progress: Progress | None = None,
) -> Report:
    """What keeps a policy from running on the targets, line by line. The module is left as it was.

    `example_inputs` are one call's positional arguments; `inputs(seed)` gives more of them; `dynamic_shapes` has one
    entry for each argument, None or {dimension: name}. They are only taken with a plain module. `loop_bounds` say how
    often loops on tensors may run: `N`, or `file.py:LINE=N` for the loop there. `control_flow` says what becomes of
    such loops: `masks`, `native` or `auto`, see `ControlFlow`. Raises GraphAuditError.
    """
    started = time.perf_counter()
    say = progress or _silent
    form = _form(control_flow)
    rulebooks = [load_rulebook(name) for name in ([target] if isinstance(target, str) else target)]
    if isinstance(policy, OnnxModel):
        _refuse_fx_targets(rulebooks, policy)
        subjects = [Subject(model=policy, rulebook=rulebook) for rulebook in rulebooks]
        journey = None
    else:
        journey = Journey(_as_policy(policy, example_inputs, inputs, dynamic_shapes, reference, loop_bounds), say, form)
        subjects = [journey.exported(rulebook) for rulebook in rulebooks]
    say("checking")
    findings = examine(*subjects)
    if any(f.blocks for f in findings):
        mark_fixable(findings, {r.target: _graphs(s) for r, s in zip(rulebooks, subjects, strict=True)})
    if journey is not None:
        journey.fingerprint.verify()
    return Report(
        graphaudit_version=__version__,
        command="audit",
        policy=_summary_of_model(policy) if isinstance(policy, OnnxModel) else journey.summary(),  # type: ignore[union-attr]
        capture=journey.capture_summary() if journey else CaptureSummary(method="onnx"),
        targets=[r.target.name for r in rulebooks],
        findings=findings,
        fit={r.target.name: not blocking(findings, r.target.name) for r in rulebooks},
        operators=operator_rows(subjects),
        islands={s.rulebook.target.name: survey(s.judged, s.rulebook) for s in subjects if s.judged and s.rulebook},
        statement=_audit_statement(findings, rulebooks),
        seconds=time.perf_counter() - started,
    )


@one_thread()
def rewrite(
    policy: Policy | nn.Module,
    example_inputs: Sequence[Any] | None = None,
    *,
    target: str,
    output: str | Path | None = None,
    count: int = 128,
    seed: int = 0,
    inputs: Callable[[int], Sequence[Any]] | None = None,
    dynamic_shapes: Sequence[Any] | None = None,
    reference: nn.Module | None = None,
    loop_bounds: Sequence[str | int] = (),
    control_flow: str = ControlFlow.AUTO,
    outputs: Sequence[str] = (),
    manager: PassManager | None = None,
    progress: Progress | None = None,
) -> Report:
    """Rewrite a policy for a target, check every step against its eager module, and write a bundle to `output`.

    `count` inputs are compared, drawn from `seed` as far as the user gives none. `manager` says which passes run and
    what happens when one diverges (default: `PassManager.of()`). `outputs` are the results that are deployed, by name
    or position (default: all); what only the others need is cut away, and the certificate says so. The other arguments
    are those of `audit`. Without `output` everything is done but writing. `report.bundle` is None where the answer is
    no; the findings say why. Raises GraphAuditError where there is no answer.
    """
    started = time.perf_counter()
    say = progress or _silent
    form = _form(control_flow)
    rulebook = rewritten_for(target)
    manager = manager or PassManager.of()
    if output is not None:
        check_output(output)
    subject = _as_policy(policy, example_inputs, inputs, dynamic_shapes, reference, loop_bounds)
    journey = Journey(deployed(subject, outputs) if outputs else subject, say, form)
    seen = Divergences()
    travelled = journey.travel(rulebook, count, seed, manager.watched_by(seen))
    if manager.reproducers is not None:
        write_reproducers(travelled, seen, rulebook.target, manager.reproducers, say)
    journey.fingerprint.verify()
    report = travelled.report(started)
    if report.fit[target] and output is not None:
        say("writing the bundle")
        report.bundle = str(travelled.write(output, report, seed))
    return report


def _refuse_fx_targets(rulebooks: Sequence[Rulebook], model: OnnxModel) -> None:
    for name in (r.target.name for r in rulebooks if r.target.graph == "fx"):
        raise TargetError(
            f"{name} takes graphs of ATen ops, and {model.name} is an ONNX model",
            "Name the policy it was made of, or a target that takes ONNX.",
        )


@one_thread()
def bisect(
    policy: Policy | nn.Module,
    example_inputs: Sequence[Any] | None = None,
    *,
    target: str,
    output: str | Path | None = None,
    count: int = 32,
    seed: int = 0,
    inputs: Callable[[int], Sequence[Any]] | None = None,
    dynamic_shapes: Sequence[Any] | None = None,
    loop_bounds: Sequence[str | int] = (),
    control_flow: str = ControlFlow.AUTO,
    outputs: Sequence[str] = (),
    manager: PassManager | None = None,
    progress: Progress | None = None,
) -> Bisection:
    """Which passes of a rewrite diverge, through which of their nodes, on which inputs.

    Reproducers are written to the folder `output`, if it is given. The other arguments are those of `rewrite`. Raises
    GraphAuditError and OSError.
    """
    say = progress or _silent
    form = _form(control_flow)
    rulebook = rewritten_for(target)
    manager = manager or PassManager.of()
    subject = _as_policy(policy, example_inputs, inputs, dynamic_shapes, None, loop_bounds)
    journey = Journey(deployed(subject, outputs) if outputs else subject, say, form)
    found = bisect_journey(journey, rulebook, manager, count, seed, Path(output) if output is not None else None)
    journey.fingerprint.verify()
    return found


def _as_policy(
    policy: Policy | nn.Module,
    example_inputs: Sequence[Any] | None,
    inputs: Callable[[int], Sequence[Any]] | None,
    dynamic_shapes: Sequence[Any] | None,
    reference: nn.Module | None,
    loop_bounds: Sequence[str | int],
) -> Policy:
    Bounds.parse(loop_bounds)  # a wrong one is reported before any work is done
    if isinstance(policy, Policy):
        return replace(policy, loop_bounds=tuple(loop_bounds)) if loop_bounds else policy
    if not isinstance(policy, nn.Module):
        raise PolicyError(f"{type(policy).__name__} is not an nn.Module", "Pass the module itself.")
    if example_inputs is None:
        raise PolicyError("a module needs example inputs", "Pass one call's positional arguments as a tuple.")
    if isinstance(example_inputs, torch.Tensor | Mapping):
        raise PolicyError("example_inputs is not a tuple", "Pass one call's positional arguments as a tuple: (x,).")
    made = Policy(type(policy).__name__, policy, tuple(example_inputs), {}, inputs, dynamic_shapes, reference)
    made.loop_bounds = tuple(loop_bounds)
    probe(made)
    return made


def _form(control_flow: str) -> ControlFlow:
    try:
        return ControlFlow(control_flow)
    except ValueError:
        known = ", ".join(f"{form.value!r}" for form in ControlFlow)
        raise PolicyError(f"control_flow={control_flow!r} is none of {known}", "Leave it out for 'auto'.") from None


def _audit_statement(findings: Sequence[Finding], rulebooks: Sequence[Rulebook]) -> str:
    said = []
    for rulebook in rulebooks:
        name = rulebook.target.name
        errors = blocking(findings, name)
        passes = ", for all of which `graphaudit rewrite` has passes" if all(f.fixable_by for f in errors) else ""
        said.append(f"{refusal(findings, name)}{passes}" if errors else f"nothing stands against {name}")
    return "; ".join(said)


def _graphs(subject: Subject) -> list[Program | OnnxModel]:
    """What a rewrite would work on: the captured graph, and the model that it becomes."""
    program = subject.capture.program if subject.capture is not None else None
    return [graph for graph in (program, subject.model if program is not None else None) if graph is not None]


def _summary_of_model(model: OnnxModel) -> PolicySummary:
    graph = model.proto.graph
    return PolicySummary(
        name=model.name,
        file=model.name,
        parameters=sum(math.prod(t.dims) for t in graph.initializer),
        inputs=len(graph.input),
        outputs=len(graph.output),
        operators=len({(n.domain, n.op_type) for n in graph.node}),
        nodes=len(graph.node),
    )


def _silent(_: str) -> None:
    """Progress that nobody asked for."""
