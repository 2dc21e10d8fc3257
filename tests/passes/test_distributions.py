"""torch.distributions in ONNX Runtime: seeded eager against noise that NumPy alone draws."""

from __future__ import annotations

import pytest
import torch
import torch.distributions as D
import torch.nn.functional as F

from graphaudit.capture import capture
from graphaudit.export.translate import to_onnx
from graphaudit.passes.decompose_cumulative import DecomposeCumulative
from graphaudit.passes.decompose_linear_solve import DecomposeLinearSolve
from graphaudit.passes.hoist_noise import HoistNoise
from graphaudit.policy import Policy
from graphaudit.runtimes.generator import Generator
from graphaudit.runtimes.onnxruntime import runner
from tests.passes.helpers import TARGET, Unary

X = torch.tensor([[0.3, -1.2, 2.0, 0.1], [1.5, 0.0, -0.7, 0.4], [0.2, 0.2, 0.2, 0.2]])
SHAPES = [(), (3,)]  # few, and enough for normals to be drawn in blocks
TRIANGLE = torch.eye(4) + 0.2 * torch.tril(torch.ones(4, 4))
FACTOR = torch.tensor([[0.3, 0.1], [0.0, 0.2], [-0.4, 0.1], [0.2, 0.2]])
WARM = torch.tensor(0.7)

DISTRIBUTIONS = {
    "Normal": lambda x: D.Normal(x, x.exp()),
    "LogNormal": lambda x: D.LogNormal(x, 0.5),
    "HalfNormal": lambda x: D.HalfNormal(x.exp()),
    "Cauchy": lambda x: D.TransformedDistribution(D.Cauchy(x, x.exp()), [D.TanhTransform()]),
    "HalfCauchy": lambda x: D.TransformedDistribution(D.HalfCauchy(x.exp()), [D.TanhTransform()]),
    "Laplace": lambda x: D.Laplace(x, x.exp()),
    "Gumbel": lambda x: D.Gumbel(x, x.exp()),
    "Exponential": lambda x: D.Exponential(x.exp()),
    "Pareto": lambda x: D.Pareto(x.exp(), x.exp() + 1),
    "GeneralizedPareto": lambda x: D.GeneralizedPareto(x, x.exp(), torch.tensor(0.3)),
    "Weibull": lambda x: D.Weibull(x.exp(), x.exp() + 1),
    "Kumaraswamy": lambda x: D.Kumaraswamy(x.exp(), x.exp() + 1),
    "Uniform": lambda x: D.Uniform(x, x + 2),
    "Geometric": lambda x: D.Geometric(x.sigmoid()),
    "Bernoulli": lambda x: D.Bernoulli(logits=x),
    "ContinuousBernoulli": lambda x: D.ContinuousBernoulli(logits=x),
    "RelaxedBernoulli": lambda x: D.RelaxedBernoulli(WARM, logits=x),
    "Categorical": lambda x: D.Categorical(logits=x),
    "OneHotCategorical": lambda x: D.OneHotCategorical(logits=x),
    "OneHotCategoricalStraightThrough": lambda x: D.OneHotCategoricalStraightThrough(logits=x),
    "RelaxedOneHotCategorical": lambda x: D.RelaxedOneHotCategorical(WARM, logits=x),
    "Multinomial": lambda x: D.Multinomial(9, logits=x),
    "LogisticNormal": lambda x: D.LogisticNormal(x, x.exp()),
    "Independent": lambda x: D.Independent(D.Normal(x, x.exp()), 1),
    "MultivariateNormal": lambda x: D.MultivariateNormal(x, scale_tril=TRIANGLE),
    "MultivariateNormal of a covariance": lambda x: D.MultivariateNormal(x, TRIANGLE @ TRIANGLE.T),
    "LowRankMultivariateNormal": lambda x: D.LowRankMultivariateNormal(x, FACTOR, x.exp()),
    "tanh of Normal": lambda x: D.TransformedDistribution(D.Normal(x, 1.0), [D.TanhTransform()]),
    "MixtureSameFamily": lambda x: D.MixtureSameFamily(D.Categorical(logits=x), D.Normal(x, x.exp())),
}
OPERATORS = {
    "normal_ of numbers": lambda x: x + torch.empty(5, 4).normal_(0.3, 1.7)[:3],
    "log_normal_": lambda x: x + torch.empty(5, 4).log_normal_(0.3, 0.5)[:3],
    "cauchy_": lambda x: x + torch.empty(3, 4).cauchy_(0.3, 1.7).atan(),
    "geometric_": lambda x: x + torch.empty(3, 4).geometric_(0.3),
    "uniform_": lambda x: x + torch.empty(3, 4).uniform_(-2, 3),
    "random_": lambda x: x + torch.empty(3, 4).random_(7),
    "bernoulli_": lambda x: x * torch.empty(3, 4).bernoulli_(0.3),
    "randint": lambda x: x + torch.randint(-3, 40, (3, 4)),
    "randperm": lambda x: x + torch.randperm(4),
    "multinomial of several": lambda x: torch.multinomial(x.exp(), 3),
    "multinomial with replacement": lambda x: torch.multinomial(x.exp(), 30, replacement=True),
    "gumbel_softmax": lambda x: F.gumbel_softmax(x, tau=0.8),
    "gumbel_softmax hard": lambda x: F.gumbel_softmax(x, tau=0.8, hard=True),
    "dropout": lambda x: F.dropout(x, 0.3, training=True),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.3, training=True),
    "dropout2d": lambda x: F.dropout2d(x.reshape(1, 3, 2, 2), 0.5, training=True),
}


def sampled(name):
    """Samples in three shapes, reparametrised where the distribution can be."""

    def policy(x):
        distribution = DISTRIBUTIONS[name](x)
        sample = distribution.rsample if distribution.has_rsample else distribution.sample
        return [sample(shape) for shape in SHAPES]

    return policy


def replayed(function, x, seeds=(0, 1, 2)):
    """(eager's result, the model's) for each seed, the model's noise drawn without PyTorch."""
    module = Unary(function)
    program = capture(Policy("sampler", module, (x,), {}), look_for_frozen=False).program
    result = HoistNoise().run(program, TARGET)
    assert result.changed, result.left
    program = result.artifact
    for step in (DecomposeCumulative, DecomposeLinearSolve):
        program = step().run(program, TARGET).artifact
    model = to_onnx(program, TARGET)
    run = runner(model)
    for seed in seeds:
        torch.manual_seed(seed)
        generator = Generator(seed)
        noise = [generator.draw(n.distribution, n.shape, n.dtype, n.parameters) for n in model.noise]
        eager = module(x)
        got = run([x, *map(torch.from_numpy, noise)])
        yield from zip(eager if isinstance(eager, list) else [eager], got, strict=True)
        assert torch.equal(torch.rand(3), torch.from_numpy(generator.uniform([3]))), "the streams have parted"


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_each_distribution_replays_in_onnx_runtime(name):
    for eager, got in replayed(sampled(name), X):
        assert (eager.dtype, eager.shape) == (got.dtype, got.shape)
        torch.testing.assert_close(got, eager, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", OPERATORS)
def test_each_operator_replays_in_onnx_runtime(name):
    for eager, got in replayed(OPERATORS[name], X):
        assert (eager.dtype, eager.shape) == (got.dtype, got.shape)
        torch.testing.assert_close(got, eager, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["Normal", "Uniform", "Exponential", "Gumbel", "Laplace", "Cauchy"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_other_precisions_replay_too(name, dtype):
    for eager, got in replayed(sampled(name), X.to(dtype)):
        assert (eager.dtype, eager.shape) == (got.dtype, got.shape)
        tolerance = 2e-3 if dtype is torch.float16 else 1e-12
        torch.testing.assert_close(got, eager, rtol=tolerance, atol=tolerance)
