"""What ATC's parser lacks or reads only in part, on the whole road to an Ascend chip, equal to eager."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import graphaudit
from graphaudit.rewrite.manager import PassManager


class Parts(nn.Module):
    """Functions of one input of shape [3, 6], all results side by side."""

    functions = {
        "rope": lambda x, e: torch.view_as_real(
            torch.view_as_complex(x.reshape(3, 3, 2)) * torch.polar(torch.ones(3), e[:3])
        ),
        "cdist": lambda x, e: torch.cdist(x, e[:6].expand(2, 6)),
        "bucketize": lambda x, e: torch.bucketize(x, e),
        "searchsorted": lambda x, e: torch.searchsorted(e, x, right=True),
        "unfold": lambda x, e: x.unfold(-1, 3, 1).sum(-1),
        "patches": lambda x, e: F.unfold(x.reshape(3, 1, 2, 3), 2),
        "cumprod": lambda x, e: x.cumprod(-1),
        "cummax": lambda x, e: tuple(x.cummax(-1)),
        "logcumsumexp": lambda x, e: x.logcumsumexp(-1),
        "erfinv": lambda x, e: torch.erfinv(x.tanh() * 0.99),
        "lgamma": lambda x, e: torch.lgamma(x.abs() + 0.1),
        "atan2": lambda x, e: torch.atan2(x[:, :3], x[:, 3:]),
        "hypot": lambda x, e: torch.hypot(x[:, :3], x[:, 3:]),
        "logaddexp": lambda x, e: torch.logaddexp(x[:, :3] * 60, x[:, 3:] * 60),
        "quantile": lambda x, e: x.quantile(0.3, dim=-1),
        "median": lambda x, e: tuple(x.median(-1)),
        "kthvalue": lambda x, e: x.kthvalue(2, -1).values,
        "stable sort": lambda x, e: torch.sort(x > 0, dim=-1, stable=True).indices,
        "masks": lambda x, e: ((x > 0) + (x < -1)).sum(-1),
        "whole": lambda x, e: x.amax(),
        "gelu of opset 20": lambda x, e: F.gelu(x, approximate="tanh"),
    }

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("edges", torch.linspace(-2, 2, 9))

    def forward(self, x: torch.Tensor) -> dict[str, object]:
        return {name: function(x, self.edges) for name, function in self.functions.items()}


class Layers(nn.Module):
    """Recurrent layers whose attributes the parser ignores."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.gru = nn.GRU(6, 4, batch_first=True, bidirectional=True)
        self.lstm = nn.LSTM(8, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lstm(self.gru(x)[0])[0]


@pytest.mark.parametrize(("module", "shape"), [(Parts(), (3, 6)), (Layers(), (2, 4, 6))], ids=["functions", "layers"])
def test_all_of_it_reaches_the_chip(module, shape, tmp_path):
    def inputs(seed: int) -> tuple[torch.Tensor]:
        return (torch.randn(*shape, generator=torch.Generator().manual_seed(seed)),)

    report = graphaudit.rewrite(
        module, inputs(0), target="ascend-310p", inputs=inputs, count=8, output=tmp_path / "bundle"
    )
    assert report.fit["ascend-310p"], [f.message for f in report.findings if f.severity == "error" and not f.fixed_by]
    x = inputs(1000)[0]
    got = torch.utils._pytree.tree_leaves(graphaudit.load(tmp_path / "bundle")(x.numpy()))
    for left, right in zip(got, torch.utils._pytree.tree_leaves(module(x)), strict=True):
        np.testing.assert_allclose(np.asarray(left), right.detach().numpy(), rtol=2e-4, atol=2e-5)


class Chosen(nn.Module):
    """A selection among int16, for which ONNX Runtime has no kernel, and a function that ONNX lacks."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        codes = (x * 9).to(torch.int16)
        return torch.where(x > 0, codes, -codes), torch.mvlgamma(x.abs() + 2, 2)


def test_a_model_that_the_runtime_does_not_load_is_made_legal_and_the_certificate_says_how(tmp_path):
    x = torch.randn(2, 3)
    report = graphaudit.rewrite(Chosen(), (x,), target="onnxruntime", count=4, output=tmp_path / "bundle")
    assert report.fit["onnxruntime"] and report.certificate is not None
    ways = {c.operator: c.way for c in report.certificate.conversions}
    assert ways == {"Where": "int32 for int16", "aten.mvlgamma.default": "torch's decomposition"}
    chosen, grown = graphaudit.load(tmp_path / "bundle")(x.numpy())
    np.testing.assert_array_equal(chosen, Chosen()(x)[0].numpy())
    np.testing.assert_allclose(grown, Chosen()(x)[1].numpy(), rtol=1e-4, atol=1e-5)


def test_where_nothing_works_the_finding_says_at_the_line_what_was_tried():
    class Bessel(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.special.i1(x) * 2

    report = graphaudit.rewrite(Bessel(), (torch.randn(2, 3),), target="onnxruntime", count=4)
    (finding,) = [f for f in report.findings if f.severity == "error"]
    assert (finding.name, finding.file, report.bundle) == ("unsupported-op", __file__, None)
    assert "tried: torch's decomposition → leaves prims.bessel_i1.default" in finding.message


class Wide(nn.Module):
    """A policy in float64, with operators for which ONNX Runtime has no float64 kernel."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Conv1d(2, 3, 3), nn.GELU(), nn.Flatten(), nn.Linear(12, 2)).double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


def test_float64_becomes_float32_where_the_runtime_lacks_it_and_the_error_is_stated(tmp_path):
    x = torch.randn(4, 2, 6, dtype=torch.float64)
    report = graphaudit.rewrite(Wide(), (x,), target="onnxruntime", count=8, output=tmp_path / "bundle")
    assert report.fit["onnxruntime"] and report.certificate is not None
    assert {c.operator: c.way for c in report.certificate.conversions} == dict.fromkeys(
        ("Conv", "Erf"), "float32 for float64"
    )
    (said,) = [c for c in report.certificate.conditions if "float32" in c]
    assert 0 < report.certificate.worst_abs < 1e-5 and f"{report.certificate.worst_abs:.1e}" in said
    loaded = graphaudit.load(tmp_path / "bundle")
    answer = np.asarray(loaded(x.numpy()))
    assert answer.dtype == np.float64  # the interface stays the user's
    np.testing.assert_allclose(answer, Wide()(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    assert graphaudit.verify(tmp_path / "bundle").ok


def test_float64_stays_where_that_is_asked_for():
    manager = PassManager.of("decompose_onnx_operators(float32=false)")
    x = torch.randn(4, 2, 6, dtype=torch.float64)
    report = graphaudit.rewrite(Wide(), (x,), target="onnxruntime", count=4, manager=manager)
    assert not report.fit["onnxruntime"]
    assert "unsupported-op" in {f.name for f in report.findings if f.severity == "error" and not f.fixed_by}


def test_an_operator_that_torch_translates_wrongly_is_named_at_its_line():
    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            return torch.special.erfcx(y) + 1  # torch's translation loses half of the digits

    report = graphaudit.rewrite(Scaled(), (torch.randn(2, 3) * 2,), target="onnxruntime", count=8)
    (finding,) = [f for f in report.findings if f.severity == "error"]
    assert (finding.name, finding.file) == ("step-diverged", __file__) and finding.line is not None
    assert "erfcx" in Path(__file__).read_text().splitlines()[finding.line - 1]
    assert "aten.special_erfcx.default is the first operator whose value differs" in finding.message


class Bagged(nn.Module):
    """What ATC refuses of torch's translation: a Loop, and shifts of unsigned integers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.bag = nn.EmbeddingBag(16, 3, mode="mean")

    def forward(self, i: torch.Tensor) -> torch.Tensor:
        return self.bag((i << 2) & 15)


def test_what_the_target_refuses_of_a_translation_is_written_otherwise_and_translated_again(tmp_path):
    def inputs(seed: int) -> tuple[torch.Tensor]:
        return (torch.randint(0, 16, (2, 4), generator=torch.Generator().manual_seed(seed)),)

    report = graphaudit.rewrite(
        Bagged(), inputs(0), target="ascend-310p", inputs=inputs, count=6, output=tmp_path / "bundle"
    )
    assert report.fit["ascend-310p"] and report.certificate is not None
    conversions = {c.way: c.lacks for c in report.certificate.conversions}
    assert set(conversions) == {"decompose_embedding_bags", "decompose_shifts"}
    assert conversions["decompose_embedding_bags"] == "Loop: the ATC parser has no entry for Loop at any opset"
    x = inputs(1000)[0]
    np.testing.assert_allclose(graphaudit.load(tmp_path / "bundle")(x.numpy()), Bagged()(x).detach(), rtol=1e-5)
    # The same policy needs none of it where the target has both.
    plain = graphaudit.rewrite(Bagged(), inputs(0), target="onnxruntime", inputs=inputs, count=2)
    assert plain.certificate is not None and not plain.certificate.conversions
