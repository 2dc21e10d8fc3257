"""What every step is measured against: the user's eager module and its float64 copy, run once per sample."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from graphaudit.equivalence import distribution
from graphaudit.equivalence.comparison import Expected, columns, is_better, matrix, real_dtype, same_class
from graphaudit.equivalence.eager import Eager, Standing, seeded, torch_seeded
from graphaudit.equivalence.inputs import Sample, example_interface, run_error
from graphaudit.equivalence.roundoff import Roundoff
from graphaudit.equivalence.sensitivity import Sensitivity
from graphaudit.equivalence.tally import Failure, Overflow, Tally
from graphaudit.equivalence.tolerance import half_digits
from graphaudit.equivalence.verdict import Claim, Verdict, weakest
from graphaudit.errors import PolicyError
from graphaudit.interface import GuardSlot
from graphaudit.policy import Policy
from graphaudit.policy.isolation import Working, double_copy

if TYPE_CHECKING:
    from graphaudit.runtimes import Runner

# Outputs are compared in blocks of at most this many elements, which bounds the float64 copies held at a time.
_BLOCK = 1 << 22


class Reference:
    """Eager's answers on `samples`.

    samples        those that take part, in order
    rejected       how many drawn samples eager raised on
    other_values   how many samples hold other Python values than the example, which a graph has fixed
    double_reason  why there is no float64 reference; empty where there is one

    `guards` are the candidates' outputs beyond eager's. One that says where the policy raises has to be true on the
    drawn samples that eager raised on at its line, and nowhere else; one of a loop's bound frees from any claim.

    Raises PolicyError when the example or an input of the user's own has another structure or makes eager raise.
    """

    def __init__(self, policy: Policy, samples: Sequence[Sample], guards: Sequence[GuardSlot] = ()) -> None:
        self.policy = policy
        self._guards = guards
        self._raising: list[tuple[Sample, list[torch.Tensor]]] = []  # eager raised what a guard names
        self._interface = example_interface(policy)
        self._eager = Eager(policy.working, self._interface)
        self.samples: list[Sample] = []
        self.rejected = 0
        self.other_values = 0
        self.double_reason = ""
        self.beyond_bounds: set[int] = set()  # samples of the last check on which a guard was true
        self.speaks_of_nan = True  # whether the policy says what NaN and infinity in an input are to give
        self.replays = True  # whether the graph draws eager's sequence; if not, distributions are compared
        self._computed: torch.dtype | None = None  # see `compute_in`
        self._drawn: dict[int, list[list[torch.Tensor]]] = {}  # eager's outputs on a sample, over many seeds
        self._guarded = False
        self._inputs: list[list[torch.Tensor]] = []
        self._outputs: list[list[torch.Tensor]] = []
        self._standing: list[Standing] = []  # where eager leaves the generators
        for sample in samples:
            self._run_eager(sample)
        if not self.samples:
            raise PolicyError("there is no input to compare on", "Hand the example in with the samples.")
        self._double = self._double_copy()
        self._doubles = [self._run_double(number) for number in range(len(self.samples))]
        self._sensitivity = Sensitivity(self._eager, self._double, policy.dtype)
        self._roundoff = Roundoff(self._double) if self._double is not None else None
        self._overflows = [self._overflows_at(number) for number in range(len(self.samples))]
        self._cached: list[list[Expected]] | None = None

    def extend(self, samples: Sequence[Sample]) -> None:
        """Let further samples take part in the checks that follow."""
        for sample in samples:
            before = len(self.samples)
            self._run_eager(sample)
            for number in range(before, len(self.samples)):
                self._doubles.append(self._run_double(number))
                self._overflows.append(self._overflows_at(number))
        self._cached = None

    def single(self, number: int) -> Reference:
        """The same for one sample alone."""
        alone = Reference(self.policy, [self.samples[number]], self._guards)
        alone.replays, alone.speaks_of_nan = self.replays, self.speaks_of_nan
        alone.compute_in(str(self._computed or "").removeprefix("torch."))
        return alone

    def compute_in(self, dtype: str) -> None:
        """Let the checks that follow allow for the rounding errors of `dtype` (`float32`; empty: eager's own), because
        candidates compute in it where eager computes in a wider one."""
        computed = getattr(torch, dtype) if dtype else None
        if computed is not self._computed:
            self._computed, self._cached = computed, None
            self._sensitivity = Sensitivity(self._eager, self._double, computed or self.policy.dtype)

    @property
    def has_double(self) -> bool:
        """Whether the module's float64 copy takes part."""
        return self._double is not None

    def check(self, step: str, run: Runner, claims: Claim = Claim.EQUIVALENT) -> Verdict:
        """Compare a candidate with eager on every sample; see docs/equivalence.md for what passes.

        `claims` is the weakest kind under which the step may be kept. The verdict is DIVERGED, with the reason in its
        note, when the candidate raises, or an output differs in number, shape, dtype or value.
        """
        started = time.perf_counter()
        self._guarded = False
        self.beyond_bounds.clear()
        if not self.replays:
            return self._check_distribution(step, run, started)
        tally = Tally(step, claims, self._interface, self.samples, self._overflows_or_strays(), self._roundoff_of)
        try:
            first = 0
            for block in self._blocks():
                count = len(block[0].rows) if block else len(self.samples)
                candidates = [self._run_candidate(run, number) for number in range(first, first + count)]
                for expected in block:
                    values = matrix([c[expected.slot] for c in candidates], expected.eager.shape[1])
                    tally.add(expected, values, first, self._moves)
                first += count
            tally.limit_undecided()
            self._check_raising(run)
        except Failure as failure:
            return tally.verdict(time.perf_counter() - started, failure=str(failure))
        return self._up_to_bounds(tally.verdict(time.perf_counter() - started))

    def _check_distribution(self, step: str, run: Runner, started: float) -> Verdict:
        """Hold a candidate that draws another sequence to eager's own answers where the same seed gives them, and else
        to their distribution: on the example always, and on as many of the others as there is time for."""
        verdict = Verdict(step=step, claim=Claim.GIVEN_NOISE, inputs=len(self.samples))
        try:
            parted = [n for n in range(len(self.samples)) if not self._agrees(self._run_candidate(run, n), n)]
            tested = [0, *(n for n in parted if n)][: distribution.INPUTS]
            for number in tested:
                self._compare_draws(run, number)
            alike = len(self.samples) - len(parted)
            verdict.note = (
                f"replay: distribution; under the same seed, the answers are eager's on {alike} of {len(self.samples)} "
                f"inputs; {distribution.DRAWS} draws of each side pass two-sample tests with a "
                f"false-alarm rate of {distribution.FALSE_ALARM:.0e} on {len(tested)}"
            )
            if len(parted) > len(tested):
                verdict.note += f"; {len(set(parted) - set(tested))} inputs were compared in shape and dtype only"
        except Failure as failure:
            verdict.claim, verdict.note = Claim.DIVERGED, str(failure)
        verdict.seconds = time.perf_counter() - started
        return self._up_to_bounds(verdict)

    def _agrees(self, results: Sequence[torch.Tensor], number: int) -> bool:
        """Whether a candidate's answers are eager's to half of the digits."""
        for got, wanted in zip(results, self._outputs[number]):
            digits = half_digits(real_dtype(wanted.dtype)) if wanted.is_floating_point() else 0.0
            if not torch.allclose(got.double(), wanted.double(), rtol=digits, atol=digits, equal_nan=True):
                return False
        return True

    def _compare_draws(self, run: Runner, number: int) -> None:
        """Raise Failure where the candidate's answers on a sample are distributed otherwise than eager's."""
        sample, draws = self.samples[number], range(distribution.DRAWS)
        if number not in self._drawn:
            self._drawn[number] = [self._eager(sample.args, sample.kwargs, seed=seed) for seed in draws]
        got = [self._run_candidate(run, number, seed=distribution.DRAWS + seed) for seed in draws]
        for slot, output in enumerate(self._interface.outputs):
            reason = distribution.compare_distributions([w[slot] for w in self._drawn[number]], [g[slot] for g in got])
            if reason:
                raise Failure(f"output {output.name!r} on {sample.origin}: {reason}")

    def _up_to_bounds(self, verdict: Verdict) -> Verdict:
        """A candidate with guards claims nothing about the samples on which one of them is true."""
        if self._guarded and verdict.holds:
            verdict.claim = weakest([verdict.claim, Claim.BOUNDED])
            beyond = len(self.beyond_bounds)
            said = f"a loop bound is exceeded on {beyond} drawn inputs, which a guard output says" if beyond else ""
            verdict.note = "; ".join(filter(None, [verdict.note, said]))
        return verdict

    def answers(self, number: int) -> tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor]]:
        """Inputs, eager's outputs, and the bounds on the outputs (float64, 0 for integers) of a sample, all flat."""
        first = 0
        for block in self._blocks():
            count = len(block[0].rows) if block else len(self.samples)
            if number < first + count:
                outputs = self._outputs[number]
                bounds = [expected.bound_of(number - first, outputs[expected.slot]) for expected in block]
                return self._inputs[number], outputs, bounds
            first += count
        raise IndexError(number)

    def _run_eager(self, sample: Sample) -> None:
        drawn = not sample.is_own
        try:
            inputs = self._interface.flatten(sample.args, sample.kwargs)
        except PolicyError as error:
            raise PolicyError(f"{sample.origin}: {error.message}", error.remedy) from error
        if not self._has_fixed_values(sample):
            self.other_values += 1
            return
        try:
            outputs = self._eager(sample.args, sample.kwargs, seed=len(self.samples), strict=drawn)
        except Exception as error:  # the user's forward
            if not drawn:
                raise run_error(sample.origin, error) from error
            self.rejected += 1
            if any(type(error).__name__ in g.raises.split(" or ") for g in self._guards):
                self._raising.append((sample, [t.detach() for t in inputs]))
            return
        self.samples.append(sample)
        self._inputs.append([t.detach() for t in inputs])
        self._outputs.append(outputs)
        self._standing.append(self._eager.after)

    def _has_fixed_values(self, sample: Sample) -> bool:
        """Whether the Python values are the example's, and stand where they stand there."""
        example = pytree.tree_leaves((tuple(self.policy.example_args), dict(self.policy.example_kwargs)))
        given = pytree.tree_leaves((sample.args, sample.kwargs))
        return all(_is_alike(was, now) for was, now in zip(example, given))

    def _double_copy(self) -> Eager | None:
        if self._eager.draws_in_torch:
            self.double_reason = "the policy draws random numbers, and draws others in float64"
            return None
        module = double_copy(self.policy.module)
        if module is None:
            self.double_reason = "the module cannot be copied"
            return None
        double = Eager(Working(module, is_copy=True, gradients=self.policy.gradients), self._interface, wide=True)
        try:
            answers = double(self.samples[0].args, self.samples[0].kwargs, seed=0)
        except Exception as error:  # the user's forward
            self.double_reason = f"the module does not run in float64: {run_error('the example', error).message}"
            return None
        if [a.shape for a in answers] != [o.shape for o in self._outputs[0]]:
            self.double_reason = "the module's outputs have other shapes in float64"
            return None
        return double

    def _run_double(self, number: int) -> list[torch.Tensor] | None:
        if self._double is None:
            return None
        sample = self.samples[number]
        try:
            answers = self._double(sample.args, sample.kwargs, seed=number)
        except Exception:  # the user's forward, on this sample only
            return None
        return answers if [a.shape for a in answers] == [o.shape for o in self._outputs[number]] else None

    def _overflows_at(self, number: int) -> Overflow | None:
        doubles = self._doubles[number]
        if doubles is None or not _overflowed(self._outputs[number]):
            return None
        if not _overflowed(doubles):
            return Overflow.EAGER
        return Overflow.EVERYWHERE if self.samples[number].is_far else None

    def _overflows_or_strays(self) -> list[Overflow | None]:
        """An input that the tool gave a NaN or an infinity is out of range where the policy says nothing of them."""
        odd = [any(not bool(t.isfinite().all()) for t in inputs) for inputs in self._inputs]
        if self.speaks_of_nan or any(o and s.is_own for o, s in zip(odd, self.samples)):
            return self._overflows
        return [Overflow.EVERYWHERE if o else known for o, known in zip(odd, self._overflows)]

    def _run_candidate(self, run: Runner, number: int, seed: int | None = None) -> list[torch.Tensor]:
        origin = self.samples[number].origin
        seed = number if seed is None else seed
        with seeded(seed) if self._eager.draws_elsewhere else torch_seeded(seed):
            try:
                results = run([t.clone() for t in self._inputs[number]])
            except Exception as error:  # any runtime, any exception: the candidate does not do what eager does
                text = str(error).strip().partition("\n")[0]
                raise Failure(f"raises {type(error).__name__} on {origin}: {text}") from error
            stands = self._standing[number].is_here(elsewhere=self._eager.draws_elsewhere)
        results = [torch.as_tensor(r).detach() for r in results]
        expected = self._outputs[number]
        results, guards = results[: len(expected)], results[len(expected) :]
        if len(results) != len(expected) or any(g.dtype is not torch.bool or g.numel() != 1 for g in guards):
            raise Failure(f"{len(results) + len(guards)} outputs instead of {len(expected)} at {origin}")
        raises = [g.raises for g in self._guards] if len(self._guards) == len(guards) else [""] * len(guards)
        self._guarded = any(not error for error in raises)
        false = next((error for guard, error in zip(guards, raises) if error and bool(guard)), None)
        if false is not None:
            raise Failure(f"says at {origin} that the policy raises {false}, and it does not")
        if any(bool(guard) for guard in guards):
            if self.samples[number].is_own:
                raise Failure(f"a loop runs longer than its bound at {origin}")
            self.beyond_bounds.add(number)
            return expected
        if self.replays and not stands:
            raise Failure(f"leaves the generators elsewhere at {origin}: the next call would draw other numbers")
        for slot, (result, wanted) in enumerate(zip(results, expected)):
            name = self._interface.outputs[slot].name if slot < len(self._interface.outputs) else f"output {slot}"
            if result.shape != wanted.shape:
                shapes = f"{tuple(result.shape)} instead of {tuple(wanted.shape)}"
                raise Failure(f"output {name!r} at {origin} has shape {shapes}")
            widened = wanted.dtype is torch.bfloat16 and result.dtype is torch.float32  # no NumPy array holds bfloat16
            if not (widened or same_class(result.dtype, wanted.dtype)):
                dtypes = f"{result.dtype} instead of {wanted.dtype}".replace("torch.", "")
                raise Failure(f"output {name!r} at {origin} has dtype {dtypes}")
        return results

    def _check_raising(self, run: Runner) -> None:
        """Where eager raised what a guard names, a guard is true: the deployed policy must not go on in silence."""
        for sample, inputs in self._raising:
            try:
                results = run([t.clone() for t in inputs])
            except Exception:  # any runtime: a candidate that raises, too, does as eager does
                continue
            if not any(bool(torch.as_tensor(guard)) for guard in results[len(self._outputs[0]) :]):
                raise Failure(f"goes on at {sample.origin}, where the policy raises")

    def _moves(self, number: int, slot: int) -> Any:
        sample = self.samples[number]
        moves = self._sensitivity.moves(number, sample.args, sample.kwargs)
        return moves[slot] if slot < len(moves) else None

    def _roundoff_of(self, number: int, slot: int) -> torch.Tensor | None:
        sample = self.samples[number]
        return self._roundoff.of(number, sample.args, sample.kwargs, slot) if self._roundoff is not None else None

    def _blocks(self) -> Iterator[list[Expected]]:
        """Eager's answers as matrices, block by block. Kept where one block holds them all."""
        if self._cached is not None:
            yield from self._cached
            return
        ranges = list(self._ranges())
        if len(ranges) == 1:
            self._cached = [self._block(*ranges[0])]
            yield from self._cached
        else:
            for first, last in ranges:
                yield self._block(first, last)

    def _ranges(self) -> Iterator[tuple[int, int]]:
        first, total = 0, 0
        for number, outputs in enumerate(self._outputs):
            size = sum(o.numel() for o in outputs)
            same_kind = [o.dtype for o in outputs] == [o.dtype for o in self._outputs[first]]
            if number > first and (total + size > _BLOCK or not same_kind):
                yield first, number
                first, total = number, 0
            total += size
        yield first, len(self._outputs)

    def _block(self, first: int, last: int) -> list[Expected]:
        block = []
        far = tuple(s.is_far for s in self.samples[first:last])
        for slot, example in enumerate(self._outputs[first]):
            narrowed = self._computed is not None and example.dtype is torch.float64
            dtype = self._computed if self._computed is not None and narrowed else example.dtype
            eager = [outputs[slot] for outputs in self._outputs[first:last]]
            shapes = [torch.view_as_real(t).shape if t.is_complex() else t.shape for t in eager]
            width = columns(shapes)
            rows = tuple(s.numel() // width for s in shapes)
            block.append(Expected(slot, dtype, matrix(eager, width), self._best(slot, first, last, width), rows, far))
        return block

    def _best(self, slot: int, first: int, last: int, width: int) -> torch.Tensor | None:
        """The float64 copy's answers; None where they are no more accurate than eager's."""
        if self._double is None:
            return None
        own = self._outputs[first][slot].dtype
        answers: list[torch.Tensor] = []
        for number in range(first, last):
            given = self._doubles[number]
            if given is None:
                if not (own.is_floating_point or own.is_complex):
                    return None
                answers.append(torch.full_like(self._outputs[number][slot], torch.nan))
                continue
            answer = given[slot]
            if not is_better(answer.dtype, own, self.policy.dtype):
                return None
            answers.append(answer)
        return matrix(answers, width)


def _overflowed(outputs: Sequence[torch.Tensor]) -> bool:
    return any(t.is_floating_point() and bool((t.isnan() | t.isposinf()).any()) for t in outputs)


def _is_alike(was: Any, now: Any) -> bool:
    if isinstance(was, torch.Tensor) or isinstance(now, torch.Tensor):
        return isinstance(was, torch.Tensor) and isinstance(now, torch.Tensor)
    return was is now or (type(was) is type(now) and bool(was == now))
