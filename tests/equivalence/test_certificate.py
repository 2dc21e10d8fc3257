from __future__ import annotations

import subprocess
import sys

import msgspec
import torch

from graphaudit.equivalence.certificate import certify, weakest
from graphaudit.equivalence.inputs import collect
from graphaudit.equivalence.reference import Reference
from graphaudit.equivalence.verdict import Certificate, Claim, Verdict
from tests.equivalence.policies import Actor, Apply, NaiveSoftmax, normal_inputs, policy, runner


def test_the_weakest_verdict_is_the_claim() -> None:
    module = NaiveSoftmax()
    made = policy(module, torch.randn(2, 4))
    ref = Reference(made, collect(made, 64))
    verdicts = [
        ref.check("export", runner(module)),
        ref.check("rewrite_softmax", runner(Apply(lambda x: torch.softmax(x, -1))), Claim.WHERE_FINITE),
    ]
    certificate = certify(made, "onnxruntime", ref, verdicts, ["a condition of the caller's"])
    assert certificate.claim is Claim.WHERE_FINITE
    assert certificate.statement.startswith("equivalent to actor.py:build on 64 inputs (where finite), worst |Δ| ")
    assert certificate.input_origins == {"example": 1, "drawn": 63}
    assert certificate.conditions[0] == "a condition of the caller's"
    assert certificate.worst_abs == max(v.worst_abs for v in verdicts)


def test_conditions_name_what_was_not_tried() -> None:
    def forward(x: torch.Tensor, gain: int) -> torch.Tensor:
        if float(x.abs().max()) > 50:
            raise ValueError("out of range")
        return x * gain + torch.randn_like(x)

    module = Apply(forward)
    made = policy(
        module, torch.randn(2, 4), 3,
        inputs=lambda s: (normal_inputs(s)[0], 3 + s % 2), dynamic_shapes=({0: "batch"}, None),
    )  # fmt: skip
    module.train()
    ref = Reference(made, collect(made, 64))
    certificate = certify(made, "onnx", ref, [ref.check("again", lambda i: runner(module)([i[0], 3]))])
    text = "\n".join(certificate.conditions)
    assert "args[1] is 3, as in the example" in text
    assert "dimension 'batch' was tried at 1, 2, 3, 5" in text
    assert f"{ref.rejected} drawn inputs were left out" in text
    assert f"{ref.other_values} inputs were left out, because their Python values" in text
    assert "no float64 reference: the policy draws random numbers" in text
    assert "handed over in train mode" in text


def test_json_round_trip() -> None:
    module = Actor()
    made = policy(module)
    ref = Reference(made, collect(made, 24))
    nan = ref.check("nan", lambda inputs: [torch.full((2, 3), torch.nan), torch.full((2,), torch.inf)])
    certificate = certify(made, "onnx", ref, [ref.check("again", runner(module)), nan])
    assert certificate.claim is Claim.DIVERGED
    assert certificate.statement.startswith("differs from actor.py:build after nan: output 'action' at example: nan")
    data = msgspec.json.encode(certificate)
    assert b"NaN" not in data and b"Infinity" not in data and b':null,"verdicts"' not in data
    assert msgspec.json.decode(data, type=Certificate) == certificate


def test_no_verdict_no_claim_in_words() -> None:
    made = policy(Actor())
    assert certify(made, "onnx", Reference(made, collect(made, 4)), []).statement.startswith("nothing was compared")


def test_order_of_claims() -> None:
    assert weakest([]) is Claim.EQUIVALENT
    assert weakest([Claim.EQUIVALENT, Claim.BOUNDED, Claim.GIVEN_NOISE]) is Claim.BOUNDED
    assert weakest(Claim) is Claim.DIVERGED
    assert Verdict(step="s", claim=Claim.BOUNDED, inputs=1).holds


def test_verdicts_need_no_torch() -> None:
    code = "import sys; from graphaudit.equivalence.verdict import Verdict; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
