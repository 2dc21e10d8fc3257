"""All verdicts of a rewrite in one document, with the conditions under which they hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from graphaudit.equivalence.verdict import Certificate, Claim, Conversion, PathCoverage, Verdict, weakest

if TYPE_CHECKING:
    from graphaudit.equivalence.reference import Reference
    from graphaudit.policy import Policy

_OPEN_SHOWN = 3  # ways that no input walks, in the statement; the certificate lists all


def certify(
    policy: Policy,
    target_name: str,
    reference: Reference,
    verdicts: Sequence[Verdict],
    conditions: Sequence[str] = (),
    paths: PathCoverage | None = None,
    conversions: Sequence[Conversion] = (),
) -> Certificate:
    """The certificate of a rewrite for `target_name`; leave the verdicts of rolled-back steps out.

    `conditions` come first, then what the reference and the policy imply. `paths` says which ways through the policy's
    code the inputs walk. Every number in it is finite.
    """
    claim = weakest(v.claim for v in verdicts)
    worst = max((v.worst_abs for v in verdicts), default=0.0)
    inputs = len(reference.samples)
    paths = paths or PathCoverage()
    holds = statement(policy.name, claim, inputs, worst, verdicts)
    return Certificate(
        policy=policy.name,
        target=target_name,
        claim=claim,
        statement="; ".join(filter(None, [holds, walked(paths, policy.file)])),
        inputs=inputs,
        input_origins=dict(Counter(s.family for s in reference.samples)),
        worst_abs=worst,
        verdicts=list(verdicts),
        conditions=[*conditions, *_conditions(policy, reference, verdicts)],
        conversions=list(conversions),
        paths=paths,
    )


def statement(name: str, claim: Claim, inputs: int, worst_abs: float, verdicts: Sequence[Verdict]) -> str:
    """One sentence that says what holds, and no more than that."""
    on = f"on {inputs} input{'' if inputs == 1 else 's'}"
    if not verdicts:
        return f"nothing was compared with {name}"
    if claim is Claim.DIVERGED:
        step = next(v for v in verdicts if v.claim is Claim.DIVERGED)
        return f"differs from {name} after {step.step}: {step.note}"
    worst = f"worst |Δ| {worst_abs:.1e}"
    if claim is Claim.BOUNDED:
        return f"equivalent to {name} {on} up to the stated loop bound, {worst}"
    kind = claim.value.removeprefix("equivalent").strip()
    return f"equivalent to {name} {on}{f' ({kind})' if kind else ''}, {worst}"


def narrowed(dtype: str, verdicts: Sequence[Verdict]) -> str:
    """The condition of a rewrite after which a part of the policy computes in `dtype` instead of float64."""
    worst = max((v.worst_abs for v in verdicts), default=0.0)
    return (
        f"a part that the module computes in float64 is computed in {dtype}, because the target has no float64 for it "
        f"(see `conversions`); the tolerances are those of {dtype}, and the largest difference seen is {worst:.1e}"
    )


def walked(paths: PathCoverage, file: Path | None = None) -> str:
    """`paths covered: 7 of 8, line 41 never false`; empty where the policy's code decides nothing on tensors.

    Lines of files other than `file` are named with theirs.
    """
    if not paths.total and not paths.unknown:
        return ""
    said = [f"paths covered: {paths.covered} of {paths.total}"] if paths.total else ["paths covered: unknown"]
    lines = Counter((u.place, u.outcome) for u in paths.uncovered)
    own = file.resolve() if file is not None else None
    for open_ in paths.uncovered[:_OPEN_SHOWN]:
        named = Path(open_.place.file)
        where = f"line {open_.place.line}" if named.resolve() == own else f"{named.name}:{open_.place.line}"
        which = f" ({open_.expression})" if lines[open_.place, open_.outcome] > 1 else ""
        said.append(f"{where}{which} never {open_.outcome}")
    more = len(paths.uncovered) - _OPEN_SHOWN
    said += [f"{more} more never walked"] * (more > 0) + paths.unknown[:1]
    return ", ".join(said)


def _conditions(policy: Policy, reference: Reference, verdicts: Sequence[Verdict]) -> list[str]:
    interface = policy.interface
    said = [f"{fixed.path} is {fixed.value!r}, as in the example" for fixed in interface.fixed]
    if policy.cut:
        said.append(f"not deployed, and cut away with all that only they need: the outputs {', '.join(policy.cut)}")
    said += _sizes(policy, reference)
    if reference.rejected:
        why = "the module raises on them or leaves an operator's domain"
        said.append(f"{reference.rejected} drawn inputs were left out, because {why}")
    if reference.other_values:
        said.append(f"{reference.other_values} inputs were left out, because their Python values are not the example's")
    if reference.double_reason:
        said.append(f"no float64 reference: {reference.double_reason}")
    if any(m.training for m in policy.module.modules()):
        said.append("the module was handed over in train mode; it is deployed, and was checked, in eval mode")
    undecided = max((v.undecided for v in verdicts), default=0)
    if undecided:
        said.append(
            f"{undecided} output element{'' if undecided == 1 else 's'} undecided: there the module itself changes its "
            "answer when its inputs and parameters move by a few units in the last place"
        )
    return said


def _sizes(policy: Policy, reference: Reference) -> list[str]:
    """The sizes at which each dynamic dimension was tried."""
    tried: dict[str, set[int]] = {}
    for sample in reference.samples:
        for tensor, slot in zip(sample.tensors, policy.interface.inputs):
            for size, name in zip(tensor.shape, slot.shape):
                if isinstance(name, str):
                    tried.setdefault(name, set()).add(size)
    return [f"dimension {name!r} was tried at {', '.join(map(str, sorted(s)))}" for name, s in tried.items()]
