"""What `reference()` does and the module does not: measured once per policy, read by several checks."""

from __future__ import annotations

import ast
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphaudit.audit.check import Check
from graphaudit.findings import Evidence, Finding, Place, Severity
from graphaudit.rules.checks._modules import normalisers

if TYPE_CHECKING:
    import torch
    from torch import nn

    from graphaudit.audit.subject import Subject
    from graphaudit.equivalence.inputs import Sample
    from graphaudit.policy import Policy


@dataclass(frozen=True)
class Missing:
    """One step that reference() takes and the module does not. `fit` says how well that explains the difference."""

    defect: str
    message: str
    fit: str
    confirmed: bool = True


@dataclass(frozen=True)
class Diagnosis:
    """How the module differs from reference(), and what would make it the same.

    `unloaded` names normaliser statistics that are at their defaults in the module, where loading those of the
    reference is all that is missing.
    """

    difference: str
    place: Place | None
    missing: tuple[Missing, ...] = ()
    unloaded: tuple[str, ...] = ()


def diagnose(subject: Subject) -> Diagnosis | None:
    """None where there is no reference or the module matches it. Raises PolicyError when reference() cannot be run."""
    policy = subject.policy
    if policy is None or policy.reference is None:
        return None
    known = _KNOWN.get(id(policy))
    if known is None or known[0]() is not policy:
        known = (weakref.ref(policy), _diagnose(policy))
        _KNOWN[id(policy)] = known
    return known[1]


_KNOWN: dict[int, tuple[weakref.ref[Policy], Diagnosis | None]] = {}


def missing_step(check: type[Check], subject: Subject) -> list[Finding]:
    """The findings of a check that reports one kind of missing step."""
    diagnosis = diagnose(subject)
    if diagnosis is None:
        return []
    return [
        check.finding(
            step.message,
            place=diagnosis.place,
            severity=None if step.confirmed else Severity.NOTE,
            evidence=Evidence(rule=step.fit, source="the module and reference(), run by graphaudit"),
        )
        for step in diagnosis.missing
        if step.defect == check.name
    ]


class Runs:
    """The module and its reference on the same samples: what went in, and the flat outputs that came out."""

    def __init__(self, policy: Policy, samples: Sequence[Sample]) -> None:
        from graphaudit.policy.isolation import private_copy

        self.policy = policy
        self.samples = list(samples)
        self.reference = private_copy(policy.reference)  # type: ignore[arg-type]
        self.module_results = [self.run_module(s.args, s.kwargs, i) for i, s in enumerate(self.samples)]
        self.reference_results = [self.run_reference(s, i) for i, s in enumerate(self.samples)]

    def run_module(self, args: Any, kwargs: Any, seed: int) -> list[torch.Tensor]:
        """The module's flat outputs. Samples are seeded by their number, as the equivalence check does."""
        from graphaudit.equivalence.eager import seeded

        with seeded(seed):
            return self.policy.interface.flatten_result(self.policy.working(*args, **kwargs))

    def run_reference(self, sample: Sample, seed: int) -> list[torch.Tensor]:
        """The reference's flat outputs. Raises PolicyError when it raises."""
        from graphaudit.equivalence.eager import seeded
        from graphaudit.equivalence.inputs import run_error

        with seeded(seed):
            try:
                return self.policy.interface.flatten_result(self.reference(*sample.args, **sample.kwargs))
            except Exception as error:  # the user's forward
                raise run_error(sample.origin, error, what="reference()") from error


def _diagnose(policy: Policy) -> Diagnosis | None:
    from graphaudit.rules.checks._steps import explain

    samples = _samples(policy)
    runs = Runs(policy, samples)
    difference = _difference(runs)
    if difference is None:
        return None
    place = _place(policy.file)
    unloaded = _unloaded(policy, runs)
    if unloaded:
        return Diagnosis(difference, place, unloaded=unloaded)
    return Diagnosis(difference, place, tuple(explain(runs)))


def _samples(policy: Policy) -> list[Sample]:
    """The example and the user's inputs, with some drawn like them where the user has none."""
    from graphaudit.equivalence.draws import Mode
    from graphaudit.equivalence.inputs import collect, own_samples
    from graphaudit.equivalence.reference import Reference

    own = own_samples(policy, 40)
    if len(own) == 1:
        own += [s for s in collect(policy, 60) if s.mode is Mode.AROUND]
    return Reference(policy, own).samples


def _difference(runs: Runs) -> str | None:
    """In words how module and reference differ; None where they do not, by the rules of the equivalence check."""
    from graphaudit.equivalence.reference import Reference

    module, reference = runs.module_results[0], runs.reference_results[0]
    if len(module) != len(reference):
        return f"it returns {len(module)} tensors where reference() returns {len(reference)}"
    for slot, (m, r) in zip(runs.policy.interface.outputs, zip(module, reference)):
        if m.shape != r.shape or m.is_floating_point() != r.is_floating_point():
            return f"output {slot.name!r} is {_kind(m)} where reference() gives {_kind(r)}"
    answers = iter(runs.reference_results)
    checked = Reference(runs.policy, runs.samples).check("reference", lambda _: next(answers))
    return None if checked.holds else _worst(runs)


def _worst(runs: Runs) -> str:
    """The largest difference: which output, on which input, both values."""
    worst, said = -1.0, ""
    for sample, module, reference in zip(runs.samples, runs.module_results, runs.reference_results):
        for slot, m, r in zip(runs.policy.interface.outputs, module, reference):
            if not m.numel() or m.shape != r.shape:
                continue
            delta = (m.double() - r.double()).abs().nan_to_num(nan=float("inf")).flatten()
            at = int(delta.argmax())
            if float(delta[at]) > worst:
                worst = float(delta[at])
                values = f"{m.flatten()[at].item():.4g} where reference() gives {r.flatten()[at].item():.4g}"
                said = f"max |Δ| {worst:.3g}: output {slot.name!r} on {sample.origin} is {values}"
    return said


def _kind(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


def _unloaded(policy: Policy, runs: Runs) -> tuple[str, ...]:
    """Statistics at exactly mean 0 and variance 1, if the reference is the same module with others in just them."""
    import torch

    module, reference = policy.module, policy.reference
    if type(module) is not type(reference) or reference is None:
        return ()
    own, wanted = module.state_dict(), reference.state_dict()
    if own.keys() != wanted.keys():
        return ()
    differing = {k for k in own if own[k].shape != wanted[k].shape or not torch.equal(own[k], wanted[k])}
    statistics: set[str] = set()
    companions: set[str] = set()  # what else the normaliser counts: batches, samples
    for path, part, mean, spread in normalisers(policy):
        prefix = "" if path == "the policy" else f"{path}."
        if bool((getattr(part, mean) == 0).all()) and bool((getattr(part, spread) == 1).all()):
            statistics |= {f"{prefix}{mean}", f"{prefix}{spread}"}
            companions |= {f"{prefix}{n}" for n, _ in part.named_buffers(recurse=False)}
    if not differing & statistics or not differing <= statistics | companions:
        return ()
    return tuple(sorted(differing & statistics)) if _same_when_loaded(module, wanted, runs) else ()


def _same_when_loaded(module: nn.Module, state: dict[str, Any], runs: Runs) -> bool:
    """Whether the module with the reference's state answers as the reference does."""
    import torch

    from graphaudit.policy.isolation import Working, private_copy

    copied = private_copy(module)
    if not copied.is_copy:
        return False
    copied.module.load_state_dict(state)
    loaded = Working(copied.module, is_copy=True)
    flatten = runs.policy.interface.flatten_result
    return all(
        all(torch.allclose(a, b, rtol=1e-4, atol=1e-6, equal_nan=True) for a, b in zip(flatten(result), wanted))
        for result, wanted in zip((loaded(*s.args, **s.kwargs) for s in runs.samples), runs.reference_results)
    )


def _place(file: Path | None) -> Place | None:
    """The line that defines `reference` in the user's file; its first line where none does."""
    if file is None:
        return None
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return Place(str(file), 1)
    return Place(str(file), next((node.lineno for node in tree.body if _defines_reference(node)), 1))


def _defines_reference(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assign):
        return any(isinstance(t, ast.Name) and t.id == "reference" for t in node.targets)
    return isinstance(node, ast.FunctionDef) and node.name == "reference"
