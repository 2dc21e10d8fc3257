"""Adds the differences of one step up to a verdict, and decides the elements that miss their bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

import torch

from graphaudit.equivalence.comparison import Difference, Expected, compare, real_dtype
from graphaudit.equivalence.inputs import Sample
from graphaudit.equivalence.sensitivity import Moves
from graphaudit.equivalence.tolerance import REFERENCE_ERROR, half_digits
from graphaudit.equivalence.verdict import Claim, Verdict
from graphaudit.interface import Interface

# A check that could decide too little proves too little. On the inputs that the policy is made for (the example and
# the user's own) at most this share of the elements may be undecided; one always may.
UNDECIDED_OWN = 0.02
# Inputs drawn by the tool go far outside the policy's range, where a policy with sin() or floor() is all jumps.
UNDECIDED_DRAWN = 0.5
# At a jump, eager's other answer is itself rounded.
TIE = 1.25
_SHOWN = 3  # inputs on which eager is not finite, in the note; the verdict lists all


class Overflow(Enum):
    """Where a sample gives NaN or +infinity; −infinity is what masks are made of."""

    EAGER = "eager, and not its float64 copy"
    EVERYWHERE = "both, on a sample drawn far outside of what was seen"


# (sample, output) → how eager moves there; None where that cannot be found out.
MovesOf = Callable[[int, int], Moves | None]
# (sample, output) → how far the float64 copy's answer depends on rounding; None where that cannot be found out.
RoundoffOf = Callable[[int, int], torch.Tensor | None]


class Failure(Exception):
    """The step diverged; the text says where and how."""


class Tally:
    """The running result of one check."""

    def __init__(
        self,
        step: str,
        claims: Claim,
        interface: Interface,
        samples: Sequence[Sample],
        overflows: Sequence[Overflow | None] = (),
        roundoff_of: RoundoffOf | None = None,
    ) -> None:
        self._overflows = overflows
        self._roundoff_of = roundoff_of
        self._step, self._claims, self._interface, self._samples = step, claims, interface, samples
        self._worst = -1.0
        self._tolerance = 0.0
        self._worst_output: str | None = None
        self._worst_input: str | None = None
        self._odd = 0
        self._odd_samples: set[int] = set()
        self._repaired = 0
        self._compared = {"own": 0, "drawn": 0}
        self._undecided = {"own": 0, "drawn": 0}
        self._undecided_outputs: dict[str, int] = {}
        self._cancelling = 0  # accepted because eager moves about as much
        self._ordered = 0  # accepted because torch leaves open which of equal elements comes first

    def add(self, expected: Expected, candidate: torch.Tensor, first: int, moves_of: MovesOf) -> None:
        """Compare one output over a block whose first sample has the number `first`. Raises Failure."""
        for number, rows in enumerate(expected.rows):
            self._compared[self._side(first + number)] += rows * expected.eager.shape[1]
        if not expected.eager.numel():
            return
        difference = compare(expected, candidate)
        if self._claims is Claim.WHERE_FINITE and any(self._overflows):
            difference = difference.without(self._beside_overflow(expected, difference, first))
        self._keep_worst(expected, difference, first)
        odd = int(difference.odd.sum())
        if odd and self._claims is not Claim.WHERE_FINITE:
            self._fail(expected, difference, difference.odd, first)
        self._odd += odd
        if odd:
            numbers = range(len(expected.rows))
            self._odd_samples.update(first + n for n in numbers if bool(difference.odd[expected.rows_of(n)].any()))
        self._repaired += int(difference.repaired.sum())
        if bool((difference.bad & difference.odd).any()):
            difference = difference.without(self._unsure(expected, difference, first))
        if bool(difference.bad.any()):
            self._decide(expected, difference, first, moves_of)

    def _beside_overflow(self, expected: Expected, difference: Difference, first: int) -> torch.Tensor:
        """Elements of samples on which eager overflows, as far as a step that repairs the overflow may differ there.

        Where float64 does not overflow, the step has to agree with it to half of the digits: eager's own rounding
        error, which the bound is made of, is unknown there. Where float64 overflows too, nothing is known: what both
        answer elsewhere follows from the overflow (exp(x - inf) is a finite, wrong 0).
        """
        kinds = [self._overflows[first + number] for number in range(len(expected.rows))]
        rows = torch.tensor(expected.rows)
        unknown = torch.tensor([k is Overflow.EVERYWHERE for k in kinds]).repeat_interleave(rows).unsqueeze(1)
        left_out = unknown & ~difference.odd
        if expected.is_float:
            in_eager = torch.tensor([k is Overflow.EAGER for k in kinds]).repeat_interleave(rows).unsqueeze(1)
            left_out |= in_eager & (difference.mismatch <= half_digits(real_dtype(expected.dtype)) * expected.scale)
        return left_out

    def _unsure(self, expected: Expected, difference: Difference, first: int) -> torch.Tensor:
        """Elements where eager is not finite and the float64 copy has too few right digits to say what they are."""
        unsure = torch.zeros_like(difference.bad)
        open_ = difference.bad & difference.odd
        for number in range(len(expected.rows)):
            rows = expected.rows_of(number)
            if self._roundoff_of is None or not bool(open_[rows].any()):
                continue
            moved = self._roundoff_of(first + number, expected.slot)
            if moved is not None:
                close = difference.mismatch[rows] <= REFERENCE_ERROR * moved.reshape(open_[rows].shape)
                unsure[rows] = open_[rows] & close
        return unsure

    def limit_undecided(self) -> None:
        """Raise Failure if too little was decided."""
        for side, share in (("own", UNDECIDED_OWN), ("drawn", UNDECIDED_DRAWN)):
            undecided, compared = self._undecided[side], self._compared[side]
            if undecided > max(1.0, share * compared):
                inputs = "the example and inputs()" if side == "own" else "drawn inputs"
                raise Failure(
                    f"{undecided} of {compared} elements on {inputs} differ where eager itself changes as much when "
                    "its inputs and parameters move by a few units in the last place: too little is decided"
                )

    def verdict(self, seconds: float, failure: str = "") -> Verdict:
        """The verdict; DIVERGED with `failure` as its note where there is one."""
        claim = Claim.DIVERGED if failure else self._claim()
        return Verdict(
            step=self._step,
            claim=claim,
            inputs=len(self._samples),
            worst_abs=max(self._worst, 0.0),
            tolerance=self._tolerance,
            worst_output=self._worst_output,
            worst_input=self._worst_input,
            undecided=sum(self._undecided.values()),
            repaired=self._repaired,
            not_finite_on=self._not_finite_on(),
            note=failure or self._note(),
            seconds=seconds,
        )

    def _claim(self) -> Claim:
        if self._claims is Claim.WHERE_FINITE:
            return Claim.WHERE_FINITE if self._odd else Claim.EQUIVALENT
        return self._claims

    def _note(self) -> str:
        parts = [f"{_count(n, 'element')} of {name!r} undecided" for name, n in self._undecided_outputs.items()]
        if self._cancelling:
            parts.append(f"{_count(self._cancelling, 'element')} judged by how far eager itself moves")
        if self._ordered:
            parts.append(f"{_count(self._ordered, 'element')} as ONNX orders equal ones, which torch leaves open")
        if self._odd:
            origins = self._not_finite_on()
            more = f" and {_count(len(origins) - _SHOWN, 'more input')}" if len(origins) > _SHOWN else ""
            on = f"on {', '.join(origins[:_SHOWN])}{more}"
            other = self._odd - self._repaired
            parts.append(f"eager is not finite at {_count(self._odd, 'element')}, {on}")
            parts += [f"{self._repaired} as float64 has it"] * (self._repaired > 0)
            parts += [f"{other} that float64 does not decide"] * (other > 0)
        return "; ".join(parts)

    def _not_finite_on(self) -> list[str]:
        return [self._samples[number].origin for number in sorted(self._odd_samples)]

    def _decide(self, expected: Expected, difference: Difference, first: int, moves_of: MovesOf) -> None:
        """Find out for each bad element whether eager itself is of two minds there. Raises Failure if not."""
        undecided = torch.zeros_like(difference.bad)
        if not expected.is_float and expected.double is not None:
            # float64 decides who is right when two float32 results differ, and it says the candidate is.
            undecided = difference.bad & (difference.candidate == expected.double)
        open_ = difference.bad & ~undecided
        for number in self._worst_first(expected, difference, open_):
            rows = expected.rows_of(number)
            moves = moves_of(first + number, expected.slot)
            ordered = _as_onnx_orders(expected, difference, rows, moves)
            excused, tied = _excused(expected, difference, rows, moves)
            excused, tied = excused | ordered, tied & ~ordered
            failed = open_[rows] & ~excused
            if bool(failed.any()):
                mask = torch.zeros_like(open_)
                mask[rows] = failed
                self._fail(expected, difference, mask, first)
            undecided[rows] |= open_[rows] & tied
            self._ordered += int((open_[rows] & ordered).sum())
            self._cancelling += int((open_[rows] & excused & ~tied & ~ordered).sum())
        self._count_undecided(expected, undecided, first)

    def _worst_first(self, expected: Expected, difference: Difference, bad: torch.Tensor) -> list[int]:
        """The samples with bad elements, the most wrong first, so that a wrong candidate is found out at once."""
        excess = torch.nan_to_num(difference.mismatch, nan=torch.inf)
        if expected.is_float:
            excess = excess / expected.widest
        per_row = torch.where(bad, excess, -1.0).amax(1)
        worst = {}
        for number in range(len(expected.rows)):
            of_sample = per_row[expected.rows_of(number)]
            if of_sample.numel() and (top := float(of_sample.max())) >= 0:
                worst[number] = top
        return sorted(worst, key=lambda n: -worst[n])

    def _count_undecided(self, expected: Expected, undecided: torch.Tensor, first: int) -> None:
        total = int(undecided.sum())
        if not total:
            return
        name = self._output(expected.slot)
        self._undecided_outputs[name] = self._undecided_outputs.get(name, 0) + total
        for number in range(len(expected.rows)):
            self._undecided[self._side(first + number)] += int(undecided[expected.rows_of(number)].sum())

    def _keep_worst(self, expected: Expected, difference: Difference, first: int) -> None:
        """The headline is about inputs as they were seen: a far input's is in units up to 1000 times larger."""
        far = torch.tensor(expected.far).repeat_interleave(torch.tensor(expected.rows)).unsqueeze(1)
        delta = difference.delta.masked_fill(far, 0.0)
        position = int(delta.argmax())
        row, column = divmod(position, expected.eager.shape[1])
        worst = float(delta[row, column])
        if worst > self._worst:
            self._worst = worst
            self._tolerance = _tolerance(expected, row, column, worst)
            self._worst_output = self._output(expected.slot)
            self._worst_input = self._samples[first + expected.sample_of_row(row)].origin

    def _fail(self, expected: Expected, difference: Difference, failed: torch.Tensor, first: int) -> None:
        """Raise Failure about the most wrong of the `failed` elements."""
        excess = torch.where(failed, torch.nan_to_num(difference.mismatch, nan=torch.inf), -1.0)
        row, column = divmod(int(excess.argmax()), expected.eager.shape[1])
        origin = self._samples[first + expected.sample_of_row(row)].origin
        got, wanted = difference.candidate[row, column], expected.eager[row, column]
        text = f"output {self._output(expected.slot)!r} at {origin}: {_show(got)} instead of {_show(wanted)}"
        if expected.is_float:
            text += f" (tolerance {float(expected.widest[row, column]):.1e})"
        if bool(difference.odd[row, column]):
            text += f"; eager is not finite there, and the step claims {self._claims.value!r}"
        more = int(failed.sum()) - 1
        raise Failure(text + (f", and {_count(more, 'more element')}" if more else ""))

    def _side(self, number: int) -> str:
        return "own" if self._samples[number].is_own else "drawn"

    def _output(self, slot: int) -> str:
        outputs = self._interface.outputs
        return outputs[slot].name if slot < len(outputs) else f"output {slot}"


def _excused(
    expected: Expected, difference: Difference, rows: slice, moves: Moves | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """(accepted, undecided) for the elements of one sample: accepted ones differ no more than eager itself moves.

    A float that differs by rounding only (less than half of the digits) is accepted and decided: it cancels, and eager
    moves about as much. One that differs by more, and an integer that is another of eager's answers, is undecided.
    """
    mismatch, candidate = difference.mismatch[rows], difference.candidate[rows]
    if moves is None:
        return torch.zeros_like(mismatch, dtype=torch.bool), torch.zeros_like(mismatch, dtype=torch.bool)
    if not expected.is_float:
        if moves.answers is None:
            return torch.zeros_like(candidate, dtype=torch.bool), torch.zeros_like(candidate, dtype=torch.bool)
        tied = (moves.answers.reshape(-1, *candidate.shape) == candidate).any(0)
        return tied, tied
    moved = moves.moved.reshape(mismatch.shape)
    rounding = mismatch <= half_digits(real_dtype(expected.dtype)) * expected.scale[rows]
    accepted = rounding & (mismatch <= REFERENCE_ERROR * moved)
    tied = ~accepted & (mismatch <= TIE * moved)
    return accepted | tied, tied


def _as_onnx_orders(expected: Expected, difference: Difference, rows: slice, moves: Moves | None) -> torch.Tensor:
    """Where the candidate is what eager gives once equal elements are ordered as ONNX orders them."""
    candidate = difference.candidate[rows]
    if moves is None or moves.tied is None:
        return torch.zeros_like(candidate, dtype=torch.bool)
    other = moves.tied.reshape(candidate.shape).to(candidate.dtype)
    near = (candidate - other).abs() <= expected.widest[rows] if expected.is_float else candidate == other
    return near | (candidate == other)


def _tolerance(expected: Expected, row: int, column: int, difference: float) -> float:
    """The bound that the element was held to: the strict one where that was enough."""
    if not expected.is_float:
        return 0.0
    strict = float(expected.bound[row, column])
    return strict if difference <= strict else float(expected.widest[row, column])


def _show(value: torch.Tensor) -> str:
    number = value.item()
    return f"{number:.6g}" if isinstance(number, float) else str(number)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
