"""convert_complex_to_real on state-space layers with complex diagonals, spectra, and what stays complex."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import graphaudit
from graphaudit.passes.convert_complex_to_real import ConvertComplexToReal
from graphaudit.rulebook import load_rulebook
from tests.helpers import make_program
from tests.passes.helpers import Unary, assert_equivalent_where_finite, ops, reasons, run_pass
from tests.passes.translated import assert_runs_alike


class LinearRecurrentUnit(nn.Module):
    """x[t] = λ x[t-1] + γ B u[t], y = Re(C x) + D u, as in Orvieto et al., Resurrecting Recurrent Neural Networks for
    Long Sequences, 2023: λ is written in logarithms, B and C are complex parameters."""

    def __init__(self, width, state):
        super().__init__()
        radius, phase = torch.rand(state) * 0.1 + 0.9, torch.rand(state) * 6.28
        self.nu_log = nn.Parameter((-radius.log()).log())
        self.theta_log = nn.Parameter(phase.log())
        self.gamma_log = nn.Parameter((1 - radius**2).sqrt().log())
        self.B = nn.Parameter(torch.randn(state, width, dtype=torch.cfloat) / math.sqrt(2 * width))
        self.C = nn.Parameter(torch.randn(width, state, dtype=torch.cfloat) / math.sqrt(state))
        self.D = nn.Parameter(torch.randn(width))

    def forward(self, u):
        decay = torch.exp(torch.complex(-self.nu_log.exp(), self.theta_log.exp()))
        driven = (u.to(self.B.dtype) @ self.B.T) * self.gamma_log.exp()
        x = torch.zeros(u.shape[0], decay.shape[0], dtype=self.B.dtype)
        outputs = []
        for t in range(u.shape[1]):
            x = decay * x + driven[:, t]
            outputs.append((x @ self.C.T).real + self.D * u[:, t])
        return torch.stack(outputs, 1)


class Scan(nn.Module):
    """As S5 (Smith, Warrington, Linderman, Simplified State Space Layers, 2023): zero-order hold of a complex buffer,
    then a parallel scan."""

    def __init__(self, width, state):
        super().__init__()
        self.register_buffer("Lambda", torch.complex(-torch.rand(state) - 0.1, torch.randn(state)))
        self.B = nn.Parameter(torch.randn(state, width, dtype=torch.cfloat) * 0.3)
        self.C = nn.Parameter(torch.randn(width, state, 2) * 0.3)
        self.log_step = nn.Parameter(torch.full((state,), -2.0))

    def forward(self, u):
        decay = torch.exp(self.Lambda * self.log_step.exp())
        held = (1 / self.Lambda * (decay - 1))[..., None] * self.B
        b = torch.einsum("ph,blh->blp", held, u.to(held.dtype))
        a, step = decay.expand(b.shape), 1
        while step < b.shape[1]:
            b = torch.cat([b[:, :step], a[:, step:] * b[:, :-step] + b[:, step:]], 1)
            a = torch.cat([a[:, :step], a[:, step:] * a[:, :-step]], 1)
            step *= 2
        return 2 * torch.einsum("hp,blp->blh", torch.view_as_complex(self.C), b).real


class Convolution(nn.Module):
    """As S4D (Gu, Gupta, Goel, Ré, On the Parameterization and Initialization of Diagonal State Space Models, 2022):
    the kernel of a diagonal system, applied through transforms."""

    def __init__(self, width, state):
        super().__init__()
        self.C = nn.Parameter(torch.randn(width, state, 2))
        self.log_dt = nn.Parameter(torch.rand(width) * 2 - 4)
        self.log_A_real = nn.Parameter(torch.full((width, state), math.log(0.5)))
        self.A_imag = nn.Parameter(math.pi * torch.arange(state).float().expand(width, -1).clone())

    def forward(self, u):
        u, length = u.mT, u.shape[1]
        A = -self.log_A_real.exp() + 1j * self.A_imag
        dtA = A * self.log_dt.exp()[:, None]
        C = torch.view_as_complex(self.C) * (torch.exp(dtA) - 1) / A
        powers = torch.exp(dtA[..., None] * torch.arange(length))
        kernel = 2 * torch.einsum("hn,hnl->hl", C, powers).real
        spectrum = torch.fft.rfft(u, n=2 * length) * torch.fft.rfft(kernel, n=2 * length)
        return torch.fft.irfft(spectrum, n=2 * length)[..., :length].mT


class Policy(nn.Module):
    """Encoder, state-space layer and head over a window of observations."""

    def __init__(self, layer, width=6, state=4):
        super().__init__()
        torch.manual_seed(0)
        self.encoder, self.layer, self.head = nn.Linear(5, width), layer(width, state), nn.Linear(width, 3)

    def forward(self, obs):
        return self.head(torch.relu(self.layer(self.encoder(obs)))).mean(1)


LAYERS = [LinearRecurrentUnit, Scan, Convolution]


def window(batch, seed=0, length=3):
    return torch.randn(batch, length, 5, generator=torch.Generator().manual_seed(seed))


def complex_nodes(program):
    return [n for n in program.graph.nodes if "complex" in str(getattr(n.meta.get("val"), "dtype", ""))]


@pytest.mark.parametrize("layer", LAYERS)
def test_state_space_layers(layer):
    module = Policy(layer).eval()
    result = run_pass(ConvertComplexToReal, module, (window(3),), ({0: "batch"},))
    assert result.changed and not result.left and not complex_nodes(result.artifact)
    for batch in (1, 5):
        with torch.no_grad():
            torch.testing.assert_close(
                result.artifact.runner()([window(batch, 1)])[0], module(window(batch, 1)), rtol=1e-5, atol=1e-5
            )
    assert_runs_alike(result.artifact, (window(1, 2),), (window(4, 3),), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("layer", "target"), [(LinearRecurrentUnit, "onnxruntime"), (Scan, "ascend-310p")])
def test_a_policy_is_bundled(layer, target, tmp_path):
    report = graphaudit.rewrite(
        Policy(layer).eval(),
        (window(2),),
        inputs=lambda seed: (window(1 + seed % 3, seed),),
        target=target,
        dynamic_shapes=({0: "batch"},),
        count=16,
        output=tmp_path / "bundle",
    )
    assert report.bundle is not None
    row = next(row for row in report.passes if row.name == ConvertComplexToReal.name)
    assert row.verdict.holds and row.verdict.claim == "equivalent"
    found = [f for f in report.findings if f.name == "complex"]
    assert found and {f.fixed_by for f in found} == {ConvertComplexToReal.name}


AWKWARD = torch.tensor([[0.0, -0.0], [1e-20, 1.0], [-1.0, 0.0], [1e15, -1e15], [math.inf, 1.0], [math.nan, 0.0]])
CALLS = {
    "real of a product": lambda z: (z * z).real,
    "imaginary part of a conjugate": lambda z: (z.conj() * 2j).imag,
    "magnitude": lambda z: z.abs(),
    "square": lambda z: torch.view_as_real(z.square()),
    "parts of a list": lambda z: torch.view_as_real(z.unbind(0)[0] + z.split(1)[0].sum()),
    "choice": lambda z: torch.view_as_real(torch.where(z.real > 0, z, 0.5)),
}


@pytest.mark.parametrize("call", CALLS)
def test_awkward_numbers(call):
    module = Unary(lambda x: CALLS[call](torch.view_as_complex(x)))
    result = run_pass(ConvertComplexToReal, module, (AWKWARD,))
    assert result.changed and not complex_nodes(result.artifact)
    assert_equivalent_where_finite(module, result.artifact, AWKWARD)


def test_a_part_that_nothing_reads_is_not_computed():
    module = Unary(lambda x: (torch.view_as_complex(x) * 1j).real)
    assert ops(run_pass(ConvertComplexToReal, module, (AWKWARD,)).artifact) == ["select", "mul", "neg"]


def test_what_has_no_real_form_stays_with_what_it_is_computed_with():
    def forward(x):
        z = torch.view_as_complex(x)
        return torch.tanh(z * 2).real, torch.polar(x, x).abs()

    _, program = make_program(Unary(forward), (AWKWARD,))
    result = ConvertComplexToReal().run(program, load_rulebook("onnx").target)
    assert reasons(result) == ["tanh has no real form"]
    assert [n.target.__name__ for n in complex_nodes(result.artifact)] == [
        "view_as_complex.default",
        "mul.Tensor",
        "tanh.default",
    ]
    assert len(result.rewritten) == 2


@pytest.mark.parametrize(
    ("function", "x", "reason"),
    [
        (lambda x: torch.complex(x, x), AWKWARD, "it is a result of the policy"),
        (lambda z: z.abs(), torch.ones(2, dtype=torch.cfloat), "it is a complex input"),
        (lambda x: torch.fft.rfft(x).abs(), torch.ones(2, 600), "the transform is of 600 elements"),
        (lambda x: torch.linalg.eigvals(x).abs(), torch.eye(2), "linalg_eigvals has no real form"),
    ],
)
def test_what_stays(function, x, reason):
    result = run_pass(ConvertComplexToReal, Unary(function), (x,))
    assert not result.changed and [r.startswith(reason) for r in reasons(result)] == [True]


def test_complex_state_stays():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("h", torch.zeros(2, dtype=torch.cfloat))

        def forward(self, x):
            self.h.copy_(self.h * 0.5j + x)
            return self.h.abs()

    result = run_pass(ConvertComplexToReal, Recurrent(), (torch.ones(2),))
    assert not result.changed and any(r.startswith("it is complex state") for r in reasons(result))


def test_only_targets_that_get_an_onnx_model():
    assert ConvertComplexToReal.suits(load_rulebook("ascend-310p").target)
    assert not ConvertComplexToReal.suits(load_rulebook("torch-npu").target)
