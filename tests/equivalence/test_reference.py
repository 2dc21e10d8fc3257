from __future__ import annotations

import itertools

import onnxruntime as ort
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from graphaudit.equivalence.inputs import Sample, collect
from graphaudit.equivalence.reference import Reference
from graphaudit.equivalence.verdict import Claim
from graphaudit.errors import PolicyError
from tests.equivalence.policies import Actor, Apply, Greedy, NaiveSoftmax, normal_inputs, policy, reference, runner


def changed(module: nn.Module, change):
    """A candidate that is the module, with `change(outputs, inputs)` applied in place."""
    run = runner(module)

    def candidate(inputs):
        outputs = [o.clone() for o in run(inputs)]
        change(outputs, inputs)
        return outputs

    return candidate


def test_the_module_is_equivalent_to_itself() -> None:
    module = Actor()
    verdict = reference(module).check("again", runner(module))
    assert (verdict.claim, verdict.worst_abs, verdict.undecided) == (Claim.EQUIVALENT, 0.0, 0)
    assert verdict.inputs == 48


def test_an_error_above_the_tolerance_is_caught_and_one_below_passes() -> None:
    torch.manual_seed(0)
    module = Actor()
    ref = reference(module)
    bound = next(ref._blocks())[0].bound  # of 'action', all samples below each other

    def shifted(factor: float):
        rows = iter(range(10**6))

        def change(outputs, inputs):
            for row in range(outputs[0].shape[0]):
                outputs[0][row] += factor * bound[next(rows)].float()

        return changed(module, change)

    assert ref.check("below", shifted(0.7)).claim is Claim.EQUIVALENT
    above = ref.check("above", shifted(100.0))
    assert above.claim is Claim.DIVERGED
    assert above.note.startswith("output 'action' at ")
    assert "tolerance" in above.note and not above.holds


def test_a_candidate_that_draws_more_or_less_than_eager_is_caught_by_where_it_leaves_the_generator() -> None:
    class Sampled(nn.Module):
        def forward(self, x):
            return x + torch.rand(1)

    class Unmoved(nn.Module):
        def forward(self, x):
            before = torch.get_rng_state()
            noise = torch.rand(1)
            torch.set_rng_state(before)
            return x + noise

    own, other = (reference(module, torch.zeros(1, 3), count=4) for module in (Sampled(), Unmoved()))
    assert own.check("again", lambda inputs: [inputs[0] + torch.rand(1)]).holds
    for ref, run in (
        (own, lambda inputs: [inputs[0] + torch.rand(1), torch.rand(1)][:1]),
        (other, lambda inputs: [inputs[0] + torch.rand(1)]),
    ):
        verdict = ref.check("moved", run)
        assert verdict.claim is Claim.DIVERGED and "leaves the generators elsewhere" in verdict.note


@pytest.mark.parametrize("relative", [1e-4, 1e-3, 1.0])
def test_relative_errors_far_above_rounding_are_caught(relative: float) -> None:
    module = Actor()
    verdict = reference(module).check("scaled", changed(module, lambda o, i: o[1].mul_(1 + relative)))
    assert verdict.claim is Claim.DIVERGED
    assert "'value'" in verdict.note


def test_one_wrong_element_on_one_input_is_named() -> None:
    module = Actor()
    third = normal_inputs(3)[0]
    verdict = reference(module).check(
        "spike", changed(module, lambda o, i: o[0].__setitem__((1, 2), 7.0) if torch.equal(i[0], third) else None)
    )
    assert verdict.claim is Claim.DIVERGED
    assert (verdict.worst_output, verdict.worst_input) == ("action", "inputs(3)")
    assert verdict.note.startswith("output 'action' at inputs(3): 7 instead of ")


def test_small_outputs_are_not_judged_by_their_large_neighbours() -> None:
    units = torch.tensor([1000.0, 0.001])
    module = Apply(lambda x: torch.tanh(x[:, :2]) * units)
    verdict = reference(module, torch.randn(2, 4)).check("torque", changed(module, lambda o, i: o[0][:, 1].mul_(1.01)))
    assert verdict.claim is Claim.DIVERGED


def test_mask_constants_do_not_loosen_the_bound() -> None:
    def logits(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x).masked_fill(x < 0, -1e9)

    module = Apply(logits)
    verdict = reference(module, torch.randn(8, 4)).check(
        "off", changed(module, lambda o, i: o[0].add_(torch.where(o[0] > -2, 1e-3, 0.0)))
    )
    assert verdict.claim is Claim.DIVERGED


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("claims", [Claim.EQUIVALENT, Claim.WHERE_FINITE])
def test_non_finite_on_the_candidates_side_only_is_a_failure(value: float, claims: Claim) -> None:
    module = Actor()
    verdict = reference(module).check("nan", changed(module, lambda o, i: o[0].__setitem__((0, 0), value)), claims)
    assert verdict.claim is Claim.DIVERGED
    assert str(value) in verdict.note


def test_the_same_nan_on_both_sides_is_fine() -> None:
    module = Apply(lambda x: torch.log(x))  # NaN below zero, -inf at zero
    verdict = reference(module, torch.randn(4, 4)).check("log", runner(module))
    assert (verdict.claim, verdict.repaired) == (Claim.EQUIVALENT, 0)


def test_a_stable_softmax_repairs_the_naive_one_where_finite() -> None:
    module = NaiveSoftmax()
    ref = reference(module, torch.randn(2, 4))
    run = runner(Apply(lambda x: torch.softmax(x, -1)))
    verdict = ref.check("rewrite_softmax", run, Claim.WHERE_FINITE)
    assert verdict.claim is Claim.WHERE_FINITE, verdict.note
    assert verdict.repaired > 0
    refused = ref.check("rewrite_softmax", run, Claim.EQUIVALENT)
    assert refused.claim is Claim.DIVERGED
    assert "eager is not finite there" in refused.note


def test_where_finite_is_claimed_only_where_needed() -> None:
    module = NaiveSoftmax()
    made = policy(module)
    ref = Reference(made, [s for s in collect(made, 60) if s.family != "drawn"])
    verdict = ref.check("rewrite_softmax", runner(Apply(lambda x: torch.softmax(x, -1))), Claim.WHERE_FINITE)
    assert (verdict.claim, verdict.repaired) == (Claim.EQUIVALENT, 0)


def test_a_finite_answer_that_float64_contradicts_is_no_repair() -> None:
    module = NaiveSoftmax()
    candidate = runner(Apply(lambda x: torch.nan_to_num(torch.exp(x) / torch.exp(x).sum(-1, keepdim=True), nan=0.0)))
    verdict = reference(module, torch.randn(2, 4)).check("nan_to_num", candidate, Claim.WHERE_FINITE)
    assert verdict.claim is Claim.DIVERGED


def test_a_wrong_action_is_caught() -> None:
    module = Greedy()
    verdict = reference(module).check("next", changed(module, lambda o, i: o[0].__setitem__(0, (o[0][0] + 1) % 3)))
    assert verdict.claim is Claim.DIVERGED


def test_a_tie_between_equal_logits_is_undecided_and_named() -> None:
    module = Greedy()
    with torch.no_grad():
        module.net.weight[1].copy_(module.net.weight[0])
        module.net.bias[1].copy_(module.net.bias[0])
        module.net.bias[2] = -1e6
    first = normal_inputs(0)[0]

    def other(outputs, inputs):
        if torch.equal(inputs[0], first):
            outputs[0][0] = 1

    ref = reference(module)
    verdict = ref.check("tie", changed(module, other))
    assert (verdict.claim, verdict.undecided) == (Claim.EQUIVALENT, 1), verdict.note
    assert verdict.note == "1 element of 'output' undecided"
    everywhere = ref.check("ties everywhere", changed(module, lambda o, i: o[0].fill_(1)))
    assert everywhere.claim is Claim.DIVERGED
    assert "too little is decided" in everywhere.note


def test_equal_elements_may_be_ordered_as_onnx_orders_them() -> None:
    zeros = torch.zeros(1, 64)
    module = Apply(lambda x: x.topk(2)[1])

    def lowest_first(inputs):
        return [inputs[0].sort(dim=-1, descending=True, stable=True)[1][..., :2]]

    def highest_first(inputs):
        return [63 - inputs[0].flip(-1).sort(dim=-1, descending=True, stable=True)[1][..., :2]]

    assert not torch.equal(module(zeros), lowest_first([zeros])[0]), "torch has to break this tie otherwise"
    verdict = reference(module, zeros).check("lowest", lowest_first)
    assert verdict.claim is Claim.EQUIVALENT and verdict.undecided == 0, verdict.note
    assert "as ONNX orders equal ones, which torch leaves open" in verdict.note
    assert reference(module, zeros).check("highest", highest_first).claim is Claim.DIVERGED


def test_a_small_sigmoid_is_right_to_half_a_unit_of_one() -> None:
    module = Apply(lambda x: torch.sigmoid(8 * x - 10))
    made = policy(module, *normal_inputs(0), inputs=normal_inputs)
    ref = Reference(made, collect(made, 48))
    first = normal_inputs(0)[0]

    def off_by(error: float):
        def change(outputs, inputs):
            if torch.equal(inputs[0], first):
                outputs[0].view(-1)[outputs[0].argmin()] += error

        return changed(module, change)

    assert float(module(first).min()) < 1e-7
    assert ref.check("rational function", off_by(3e-8)).claim is Claim.EQUIVALENT
    assert ref.check("wrong", off_by(3e-6)).claim is Claim.DIVERGED


def test_nan_that_the_tool_tried_counts_only_where_the_policy_speaks_of_it() -> None:
    made = policy(Greedy(), *normal_inputs(0))
    strange = Sample((torch.tensor([[torch.nan, 0.0, 1.0, 2.0]]),), {}, "path(0)")
    ref = Reference(made, [*collect(made, 4), strange])

    def loses_nan(inputs):
        answer = runner(made.module)(inputs)[0]
        return [torch.where(inputs[0].isnan().any(-1), 2, answer)]

    assert ref.check("export", loses_nan, Claim.WHERE_FINITE).claim is Claim.DIVERGED
    ref.speaks_of_nan = False
    assert ref.check("export", loses_nan, Claim.WHERE_FINITE).holds
    assert ref.check("pass", loses_nan).claim is Claim.DIVERGED


def test_rounding_of_exact_halves_has_one_right_answer() -> None:
    module = Apply(lambda x: torch.round(x))
    away = runner(Apply(lambda x: torch.floor(x + 0.5)))
    halves = torch.tensor([[0.5, 1.5, 2.5, 0.25]])
    ref = reference(module, halves, count=1)
    assert ref.check("half away from zero", away).claim is Claim.DIVERGED


def test_cancellation_is_judged_by_how_much_eager_itself_moves() -> None:
    module = Apply(lambda x: (x.square().mean(-1) - x.mean(-1).square()).abs())
    two_pass = runner(Apply(lambda x: (x - x.mean(-1, keepdim=True)).square().mean(-1)))
    verdict = reference(module, 1000 + torch.randn(4, 8)).check("two-pass variance", two_pass)
    assert verdict.claim is Claim.EQUIVALENT, verdict.note


def test_an_error_as_large_as_eagers_own_movement_is_accepted_and_said() -> None:
    module = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[100.3, -100.7]]))

    def close(seed: int) -> tuple[torch.Tensor]:
        first, apart = torch.randn(2, 4, 1, generator=torch.Generator().manual_seed(seed))
        return (torch.cat([4 + first, 4 + first + 0.01 * apart], -1),)

    made = policy(module, *close(0), inputs=close)
    ref = Reference(made, [s for s in collect(made, 40) if s.family != "drawn"])
    bound = iter(next(ref._blocks())[0].bound.split(4))
    moving = changed(module, lambda o, i: o[0].add_(3 * next(bound).float()))
    verdict = ref.check("moves as eager does", moving)
    assert verdict.claim is Claim.EQUIVALENT, verdict.note
    assert "judged by how far eager itself moves" in verdict.note
    assert ref.check("more", changed(module, lambda o, i: o[0].add_(0.01))).claim is Claim.DIVERGED


def test_far_inputs_allow_a_kernels_absolute_error_and_near_ones_do_not() -> None:
    module = Apply(lambda x: torch.cat([torch.tanh(x), x], -1))
    ref = reference(module, torch.randn(4, 4))

    def off(far: bool):
        def change(outputs, inputs):
            if (float(inputs[0].abs().max()) > 100) == far:
                outputs[0][:, :4] += 1e-4  # as a kernel accurate to 1e-7 of a state of 1000 would be

        return changed(module, change)

    assert ref.check("far", off(True)).claim is Claim.EQUIVALENT
    assert ref.check("near", off(False)).claim is Claim.DIVERGED


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda o: [o[0]], "1 outputs instead of 2 at example"),
        (lambda o: [o[0], o[1].unsqueeze(-1)], "output 'value' at example has shape (2, 1) instead of (2,)"),
        (lambda o: [o[0].double(), o[1]], "output 'action' at example has dtype float64 instead of float32"),
        (lambda o: [o[0].half(), o[1]], "output 'action' at example has dtype float16 instead of float32"),
        (lambda o: [o[0].long(), o[1]], "output 'action' at example has dtype int64 instead of float32"),
    ],
)
def test_number_shape_and_dtype_of_outputs(change, said: str) -> None:
    module = Actor()
    verdict = reference(module).check("shape", lambda inputs: change(runner(module)(inputs)))
    assert (verdict.claim, verdict.note) == (Claim.DIVERGED, said)


def test_booleans_are_no_integers_but_integer_width_may_differ() -> None:
    module = Apply(lambda x: (x > 0, (x > 0).long()))
    ref = reference(module, torch.randn(2, 4))
    run = runner(module)
    assert ref.check("bool", lambda i: [run(i)[0].long(), run(i)[1]]).claim is Claim.DIVERGED
    assert ref.check("int32", lambda i: [run(i)[0], run(i)[1].int()]).claim is Claim.EQUIVALENT


def test_a_candidate_that_raises_diverges() -> None:
    def fails(inputs):
        if inputs[0].shape[0] == 5:
            raise RuntimeError("shape mismatch\nlong traceback")
        return runner(module)(inputs)

    module = Actor()
    verdict = reference(module, dynamic_shapes=({0: "batch"},)).check("static batch", fails)
    assert verdict.claim is Claim.DIVERGED
    assert verdict.note.startswith("raises RuntimeError on drawn(") and verdict.note.endswith(": shape mismatch")


def test_a_candidate_cannot_spoil_the_inputs() -> None:
    module = Actor()
    ref = reference(module)
    ref.check("in place", changed(module, lambda o, i: i[0].zero_()))
    assert ref.check("again", runner(module)).claim is Claim.EQUIVALENT


def test_drawn_inputs_on_which_eager_raises_are_counted_and_the_users_own_are_errors() -> None:
    def strict(x: torch.Tensor) -> torch.Tensor:
        if float(x.abs().max()) > 50:
            raise ValueError("out of range")
        return x * 2

    module = Apply(strict)
    ref = reference(module, torch.randn(2, 4), count=64)
    assert ref.rejected > 0 and ref.rejected + len(ref.samples) == 64
    with pytest.raises(
        PolicyError, match=r"forward raises ValueError on inputs\(1\) at .*test_reference.py:\d+: out of"
    ):
        reference(module, torch.randn(2, 4), inputs=lambda s: (torch.ones(2, 4) * 50 * (s + 0.5),))
    with pytest.raises(PolicyError, match="on the example at"):
        reference(module, torch.ones(2, 4) * 100)


def test_a_users_input_of_another_structure_is_an_error() -> None:
    with pytest.raises(PolicyError, match=r"^inputs\(0\): these arguments have the structure"):
        reference(Actor(), torch.ones(2, 4), inputs=lambda s: (torch.ones(2, 4), torch.ones(1)))


def test_inputs_with_other_python_values_are_left_out() -> None:
    module = Apply(lambda x, n: x * n)
    ref = reference(module, torch.ones(2, 4), 2, inputs=lambda s: (normal_inputs(s)[0], 1 + s % 2))
    assert ref.other_values > 0
    assert ref.check("twice", runner(Apply(lambda x: x * 2))).claim is Claim.EQUIVALENT


def test_state_written_by_forward_does_not_leak_into_the_next_sample() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("steps", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.steps += 1
            return x + self.steps

    module = Counter()
    verdict = reference(module).check("first step", runner(Apply(lambda x: x + 1)))
    assert verdict.claim is Claim.EQUIVALENT
    assert float(module.steps) == 0


def test_random_policies_draw_the_same_for_eager_and_candidate() -> None:
    module = Apply(lambda x: x + torch.randn_like(x))
    before = torch.get_rng_state()
    ref = reference(module)
    assert ref.check("same draws", runner(module)).claim is Claim.EQUIVALENT
    assert torch.equal(before, torch.get_rng_state())
    assert "draws random numbers" in ref.double_reason
    assert ref.check("frozen", lambda inputs: [inputs[0] + 0.3]).claim is Claim.DIVERGED


def test_casts_to_float32_inside_forward_have_a_float64_reference() -> None:
    net = nn.Linear(4, 2)

    class Casting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(x.float() + torch.zeros(4, dtype=torch.float32))

    ref = reference(Casting())
    assert ref.has_double, ref.double_reason
    assert next(ref._blocks())[0].double is not None
    assert torch.get_default_dtype() is torch.float32


def test_a_module_without_float64_copy_is_still_checked_and_says_so() -> None:
    import threading

    module = Actor()
    module.lock = threading.Lock()
    ref = reference(module)
    assert ref.double_reason == "the module cannot be copied"
    assert ref.check("again", runner(module)).claim is Claim.EQUIVALENT
    assert ref.check("off", changed(module, lambda o, i: o[0].mul_(1.001))).claim is Claim.DIVERGED


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_float_widths(dtype: torch.dtype) -> None:
    module = Actor().to(dtype)
    eps = torch.finfo(dtype).eps
    ref = reference(module, torch.randn(2, 4).to(dtype))
    assert ref.check("again", runner(module)).claim is Claim.EQUIVALENT
    assert ref.check("off", changed(module, lambda o, i: o[0].mul_(1 + 2000 * eps))).claim is Claim.DIVERGED


def test_empty_outputs_and_outputs_too_large_for_one_block(monkeypatch) -> None:
    monkeypatch.setattr("graphaudit.equivalence.reference._BLOCK", 1 << 12)
    module = Apply(lambda x: (x[:0], x.repeat(20, 20)))
    ref = reference(module, torch.randn(2, 4), count=20)
    assert len(list(ref._ranges())) > 1
    assert ref.check("again", runner(module)).claim is Claim.EQUIVALENT
    assert ref.check("off", changed(module, lambda o, i: o[1][-1, -1].add_(1.0))).claim is Claim.DIVERGED


def test_complex_outputs() -> None:
    module = Apply(lambda x: torch.fft.rfft(x))
    ref = reference(module, torch.randn(2, 4))
    assert ref.check("again", runner(module)).claim is Claim.EQUIVALENT
    assert (
        ref.check("conjugate", runner(Apply(lambda x: torch.fft.rfft(x).conj().resolve_conj()))).claim is Claim.DIVERGED
    )


def test_a_float32_network_in_onnx_runtime_passes(tmp_path) -> None:
    torch.manual_seed(0)
    sizes = [235, 512, 256, 128, 12]
    layers = [m for a, b in itertools.pairwise(sizes) for m in (nn.Linear(a, b), nn.ELU())]
    module = nn.Sequential(*layers[:-1])
    made = policy(module, torch.randn(2, 235), dynamic_shapes=({0: "batch"},))
    torch.onnx.export(module, made.example_args, tmp_path / "m.onnx", dynamic_axes={"input": {0: "b"}},
                      input_names=["input"], dynamo=False)  # fmt: skip
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(tmp_path / "m.onnx"), options, providers=["CPUExecutionProvider"])
    ref = Reference(made, collect(made))

    def run(inputs):
        return [torch.from_numpy(session.run(None, {"input": inputs[0].numpy()})[0])]

    verdict = ref.check("onnxruntime", run)
    assert (verdict.claim, verdict.inputs, verdict.undecided) == (Claim.EQUIVALENT, 128, 0), verdict.note
    assert verdict.worst_abs > 0


def _network(width: int, depth: int, activation: str, seed: int, batch: int) -> nn.Module:
    torch.manual_seed(seed)
    make = {"tanh": nn.Tanh, "relu": nn.ReLU, "softmax": lambda: nn.Softmax(-1), "norm": lambda: nn.LayerNorm(width)}
    layers = [m for _ in range(depth) for m in (nn.Linear(width, width), make[activation]())]
    return nn.Sequential(*layers)


@settings(max_examples=12, deadline=None)
@given(
    width=st.integers(1, 9),
    depth=st.integers(1, 3),
    activation=st.sampled_from(["tanh", "relu", "softmax", "norm"]),
    seed=st.integers(0, 99),
    batch=st.integers(2, 4),
)
def test_a_module_is_equivalent_to_itself_and_to_its_export(width, depth, activation, seed, batch) -> None:
    module = _network(width, depth, activation, seed, batch)
    made = policy(module, torch.randn(batch, width))
    ref = Reference(made, collect(made, 24, seed))
    again = ref.check("again", runner(module))
    assert (again.claim, again.worst_abs) == (Claim.EQUIVALENT, 0.0)
    exported = torch.export.export(module, made.example_args).run_decompositions().module()
    verdict = ref.check("torch.export", runner(exported))
    assert verdict.claim is Claim.EQUIVALENT, verdict.note


def test_families_of_origins() -> None:
    assert [Sample((), {}, o).family for o in ("example", "inputs(3)", "drawn(1, x10)")] == [
        "example",
        "inputs",
        "drawn",
    ]


def test_another_library_may_round_its_functions_otherwise() -> None:
    """Saturated, tanh(x) does not move with x; the next float below it moves log(1 - tanh(x)**2 + 1e-6) by 0.1."""

    def corrected(x: torch.Tensor) -> torch.Tensor:
        return torch.log(1 - torch.tanh(x) ** 2 + 1e-6)

    def otherwise(x: torch.Tensor) -> torch.Tensor:
        inside = torch.nextafter(torch.tanh(x), torch.zeros(()))
        return torch.log(1 - inside**2 + 1e-6)

    x = torch.tensor([[9.3, 0.7, -0.6, 3.1]])
    ref = reference(Apply(corrected), x, count=1)
    assert ref.check("export", runner(Apply(otherwise))).holds
    assert not ref.check("export", runner(Apply(lambda x: torch.log(1 - torch.tanh(x) ** 2 + 1e-5)))).holds


def test_equal_results_of_a_function_stay_equal() -> None:
    """Ties among probabilities are the policy's own, so another rule for ties is another policy."""
    ref = reference(Apply(lambda x: torch.softmax(x, -1).argmax(-1)), torch.tensor([[0.5, 1.5, 1.5, -1.0]]), count=1)

    def last(x: torch.Tensor) -> torch.Tensor:
        return x.shape[-1] - 1 - torch.softmax(x, -1).flip(-1).argmax(-1)

    assert not ref.check("export", runner(Apply(last))).holds
