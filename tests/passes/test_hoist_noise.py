"""hoist_noise."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import (
    Beta,
    Categorical,
    Distribution,
    Gamma,
    Independent,
    MixtureSameFamily,
    Normal,
    OneHotCategorical,
    RelaxedOneHotCategorical,
    TanhTransform,
    TransformedDistribution,
    Uniform,
)

from graphaudit.capture import capture
from graphaudit.equivalence.eager import seeded
from graphaudit.graphs.noise import draws
from graphaudit.passes.hoist_noise import HoistNoise
from graphaudit.policy import Policy
from tests.passes.helpers import TARGET, Function, Unary, reasons, run_pass

X = torch.tensor([[0.3, -1.2, 2.0, 0.1], [1.5, 0.0, -0.7, 0.4], [0.2, 0.2, 0.2, 0.2]])


@pytest.fixture(autouse=True)
def unvalidated():
    """As capture does it: the assertions of torch.distributions cannot be traced."""
    Distribution.set_default_validate_args(False)
    yield
    Distribution.set_default_validate_args(True)


def weights(x):
    return torch.softmax(x, -1)


def mixture(x):
    return MixtureSameFamily(Categorical(logits=x), Normal(x, torch.ones_like(x)))


# name: (function of X, distributions of its noise); every one is replayed to the last bit
DRAWS = {
    "rand": (lambda x: torch.rand(3, 4) * x, ["uniform"]),
    "rand_like": (torch.rand_like, ["uniform"]),
    "rand of a transposed layout": (lambda x: torch.rand_like(x.t()), ["uniform"]),
    "rand float64": (lambda x: torch.rand(5, dtype=torch.float64), ["randint"]),
    "rand float16": (lambda x: torch.rand(5, dtype=torch.float16), ["uniform"]),
    "randn few": (torch.randn_like, ["normal"]),
    "randn many": (lambda x: torch.randn(37), ["normal"]),
    "randn float64": (lambda x: torch.randn(3, dtype=torch.float64), ["normal"]),
    "randn few of a transposed layout": (lambda x: torch.randn_like(x.t()), ["normal"]),
    "randn many of a transposed layout": (lambda x: torch.randn_like(x.repeat(2, 1).t()), ["normal"]),
    "randn few of float16": (lambda x: torch.randn(5, dtype=torch.float16), ["normal"]),
    "randn many of float16": (lambda x: torch.randn(37, dtype=torch.float16), ["normal"]),
    "randn few of bfloat16": (lambda x: torch.randn(5, dtype=torch.bfloat16), ["normal"]),
    "randn many of bfloat16": (lambda x: torch.randn(37, dtype=torch.bfloat16), ["normal"]),
    "randn whole blocks of bfloat16": (lambda x: torch.randn(3, 64, dtype=torch.bfloat16), ["normal"]),
    "normal_ of bfloat16": (lambda x: torch.empty(37, dtype=torch.bfloat16).normal_(), ["normal"]),
    "normal of bfloat16 tensors": (lambda x: torch.normal(x.bfloat16(), x.exp().bfloat16()), ["normal"]),
    "normal of float16 tensors": (lambda x: torch.normal(x.repeat(3, 1).half(), 1.5), ["normal"]),
    "exponential_ of bfloat16": (lambda x: torch.empty_like(x.bfloat16()).exponential_(), ["exponential"]),
    "rand of thousands of halves": (lambda x: torch.rand(20000, dtype=torch.float16), ["uniform"]),
    "geometric_": (lambda x: torch.empty_like(x).geometric_(0.3), ["randint"]),
    "normal of tensors": (lambda x: torch.normal(x, x.exp()), ["normal"]),
    "normal of a broadcast": (lambda x: torch.normal(x, x[:1].exp()), ["normal"]),
    "normal of a tensor and a number": (lambda x: torch.normal(x, 2.0), ["normal"]),
    "normal of a number and a tensor": (lambda x: torch.normal(0.5, x.exp()), ["normal"]),
    "normal_": (lambda x: torch.empty_like(x).normal_(), ["normal"]),
    "uniform_": (lambda x: torch.empty_like(x).uniform_(), ["uniform"]),
    "exponential_": (lambda x: torch.empty_like(x).exponential_(), ["exponential"]),
    "bernoulli of a tensor": (lambda x: torch.bernoulli(x.sigmoid()), ["uniform"]),
    "bernoulli of float64": (lambda x: torch.bernoulli(x.double().sigmoid()), ["randint"]),
    "bernoulli of bfloat16": (lambda x: torch.bernoulli(x.sigmoid().bfloat16()), ["uniform"]),
    "bernoulli_ of a number": (lambda x: torch.empty_like(x).bernoulli_(0.3), ["randint"]),
    "bernoulli_ of a tensor": (lambda x: torch.zeros(3, 4).bernoulli_(x.sigmoid()), ["uniform"]),
    "dropout": (lambda x: F.dropout(x, 0.3, training=True), ["randint"]),
    "dropout of everything": (lambda x: F.dropout(x, 1.0, training=True), []),
    "feature dropout": (lambda x: F.dropout1d(x[None], 0.5, training=True), ["randint"]),
    "multinomial once": (lambda x: torch.multinomial(weights(x), 1), ["exponential"]),
    "multinomial of a vector": (lambda x: torch.multinomial(weights(x[0]), 1), ["exponential"]),
    "multinomial without replacement": (lambda x: torch.multinomial(weights(x), 3), ["exponential"]),
    "multinomial of a transposed layout": (lambda x: torch.multinomial(weights(x).t(), 2), ["exponential"]),
    "multinomial of expanded weights": (lambda x: torch.multinomial(weights(x[:1]).expand(5, 4), 2), ["exponential"]),
    "multinomial with replacement": (lambda x: torch.multinomial(weights(x), 50, replacement=True), ["randint"]),
    "multinomial of unnormalised weights": (lambda x: torch.multinomial(x.exp(), 50, replacement=True), ["randint"]),
    "randint": (lambda x: torch.randint(-3, 9, (7,)), ["randint"]),
    "randint of a wide range": (lambda x: torch.randint(0, 2**40, (7,)), ["randint"]),
    "randint_like": (lambda x: torch.randint_like(x, 6), ["randint"]),
    "random_": (lambda x: torch.zeros(3, dtype=torch.int64).random_(9), ["randint"]),
    "randint_like between": (lambda x: torch.randint_like(x, -2, 6), ["randint"]),
    "randperm": (lambda x: torch.randperm(11), ["permutation"]),
    "gumbel softmax": (lambda x: F.gumbel_softmax(x, tau=0.7, hard=True), ["exponential"]),
    "Normal": (lambda x: Normal(x, 1.5).sample(), ["normal"]),
    "Independent": (lambda x: Independent(Normal(x, x.exp()), 1).rsample(), ["normal"]),
    "Uniform": (lambda x: Uniform(x, x + 2).sample(), ["uniform"]),
    "Categorical": (lambda x: Categorical(logits=x).sample(), ["exponential"]),
    "Categorical of several": (lambda x: Categorical(logits=x).sample((5,)), ["randint"]),
    "OneHotCategorical": (lambda x: OneHotCategorical(logits=x).sample(), ["exponential"]),
    "RelaxedOneHot": (
        lambda x: RelaxedOneHotCategorical(torch.tensor(0.7), logits=x).rsample(),
        ["uniform"],
    ),
    "tanh of Normal": (
        lambda x: TransformedDistribution(Normal(x, 1.0), [TanhTransform()]).rsample(),
        ["normal"],
    ),
    "mixture": (lambda x: mixture(x).sample(), ["exponential", "normal"]),
    "several in order": (
        lambda x: (torch.randn(3), torch.rand(2), torch.randperm(4), torch.randn(3), torch.multinomial(weights(x), 2)),
        ["normal", "uniform", "permutation", "normal", "exponential"],
    ),
}
# Here PyTorch's kernel fuses the multiplication with the addition, so the last bit may differ.
ROUNDED = {
    "uniform_ between": (lambda x: torch.empty(40).uniform_(-2, 3.3), ["uniform"]),
    "normal_ with mean and deviation": (lambda x: torch.empty(40).normal_(0.3, 1.7), ["normal"]),
    "log_normal_": (lambda x: torch.empty(40).log_normal_(0.3, 0.5), ["normal"]),
    "cauchy_": (lambda x: torch.empty(9).cauchy_(0.3, 1.7).atan(), ["randint"]),
    "cauchy_ of float64": (lambda x: torch.empty(40, dtype=torch.float64).cauchy_().atan(), ["randint"]),
    "exponential_ of a rate": (lambda x: torch.empty(40).exponential_(2.5), ["exponential"]),
}


def replay(module, program, seed, *args):
    """What eager and the program give under one seed, each with the number that PyTorch draws next."""
    both = []
    for run in (lambda: module(*args), lambda: program.runner()(list(args))):
        torch.manual_seed(seed)
        results = run()
        both.append([*(results if isinstance(results, tuple | list) else (results,)), torch.rand(1)])
    return zip(*both, strict=True)


@pytest.mark.parametrize("name", [*DRAWS, *ROUNDED])
def test_the_same_seed_gives_the_same_results(name):
    function, distributions = (DRAWS | ROUNDED)[name]
    module = Unary(function)
    result = run_pass(HoistNoise, module, (X,))
    assert [n.distribution for n in result.artifact.noise] == distributions
    assert [n.draw for n in result.artifact.noise] == list(range(len(distributions)))
    assert not any(draws(n) for n in result.artifact.graph.nodes)
    for seed in range(5):
        for eager, got in replay(module, result.artifact, seed, X):
            assert (eager.dtype, eager.shape) == (got.dtype, got.shape)
            if name in DRAWS:
                assert torch.equal(eager, got)
            else:
                torch.testing.assert_close(got, eager, rtol=0, atol=5e-7)


def chances(x):
    p = weights(x)[0].double().numpy()
    return p / p.sum()


def shuffled(values):
    random.shuffle(values)
    return values


def cropped(x):
    row, column = np.random.randint(0, 2), random.randrange(3)
    return x[None, row : row + 2, ..., column : column + 2].sum(1), x[:, column + 1 : column + 1], x[row : 1 + row]


# name: (function of X, (generator, distribution) of its noise); replayed under Python's and NumPy's own seeds
FOREIGN = {
    "random": (lambda x: x * random.random(), [("python", "uniform")]),
    "random.uniform": (lambda x: x * random.uniform(-1, 3), [("python", "uniform")]),
    "random.gauss": (lambda x: x + random.gauss(0.5, 2.0), [("python", "normal")]),
    "random.randrange": (lambda x: x + random.randrange(3, 30, 4), [("python", "randint")]),
    "random.randint": (lambda x: x[random.randint(0, 2)], [("python", "randint")]),
    "random.choice": (lambda x: x * random.choice([0.5, 2.0, 3.0]), [("python", "randint")]),
    "a branch on a draw": (lambda x: x if random.random() < 0.5 else -x, [("python", "uniform")]),
    "numpy rand": (lambda x: x + torch.from_numpy(np.random.rand(3, 4)), [("numpy-legacy", "uniform")]),
    "numpy randn": (lambda x: x + torch.as_tensor(np.random.randn(3, 4) * 0.5), [("numpy-legacy", "normal")]),
    "numpy normal": (lambda x: x + np.random.normal(1.0, 2.0), [("numpy-legacy", "normal")]),
    "numpy normal of a size": (
        lambda x: x + torch.tensor(np.clip(np.random.normal(0, 2, size=4), -1, 1), dtype=torch.float32),
        [("numpy-legacy", "normal")],
    ),
    "numpy uniform": (
        lambda x: x + torch.from_numpy(np.random.uniform(-1, 1, (3, 4)).astype(np.float32)),
        [("numpy-legacy", "uniform")],
    ),
    "numpy randint": (lambda x: x[np.random.randint(3)], [("numpy-legacy", "randint")]),
    "numpy choice": (lambda x: x * float(np.random.choice([1.0, 2.0, 5.0])), [("numpy-legacy", "randint")]),
    "random.choices": (
        lambda x: x * random.choices([1.0, 2.0, 5.0], k=2)[1] + random.choices([0.0, 9.0], weights=[3, 1])[0],
        [("python", "uniform")] * 3,
    ),
    "random.sample and shuffle": (
        lambda x: x[:, random.sample(range(4), 2)[1]] * shuffled([1.0, 2.0, 3.0])[0],
        [("python", "subset"), ("python", "permutation")],
    ),
    "random.expovariate": (lambda x: x + random.expovariate(2.0), [("python", "uniform")]),
    "numpy choice by probabilities": (
        lambda x: x * float(np.random.choice([1.0, 2.0, 5.0, 7.0], p=chances(x))),
        [("numpy-legacy", "uniform")],
    ),
    "numpy permutation and choice without replacement": (
        lambda x: (
            x[:, torch.as_tensor(np.random.permutation(4))]
            + torch.as_tensor(np.random.choice(9, 3, replace=False)).sum()
        ),
        [("numpy-legacy", "permutation"), ("numpy-legacy", "subset")],
    ),
    "windows": (cropped, [("numpy-legacy", "randint"), ("python", "randint")]),
    "numpy exponential": (lambda x: x * np.random.exponential(2.0), [("numpy-legacy", "exponential")]),
    "all three in turn": (
        lambda x: x * random.random() + torch.rand(3, 4) * np.random.random() + random.gauss(0, 1),
        [("python", "uniform"), ("torch", "uniform"), ("numpy-legacy", "uniform"), ("python", "normal")],
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_draws_of_pythons_and_numpys_generators_are_hoisted_too(name):
    function, expected = FOREIGN[name]
    module = Unary(function)
    captured = capture(Policy("foreign", module, (X,), {}))
    assert not captured.frozen and not captured.one_sided
    result = HoistNoise().run(captured.program, TARGET)
    assert [(n.generator, n.distribution) for n in result.artifact.noise] == expected
    for seed in range(5):
        with seeded(seed):
            eager = module(X)
        with seeded(seed):
            got = result.artifact.runner()([X])
        for wanted, found in zip(eager if isinstance(eager, tuple) else [eager], got, strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6)


def test_a_draw_on_one_side_is_noted_and_hoisted():
    def policy(x):
        if random.random() < 0.5:
            x = x + torch.rand(3, 4)
        return x

    captured = capture(Policy("one-sided", Unary(policy), (X,), {}))
    assert [(p.file, p.line) for p in captured.one_sided] == [(__file__, policy.__code__.co_firstlineno + 2)]
    noise = HoistNoise().run(captured.program, TARGET).artifact.noise
    assert [(n.generator, n.shape, n.when) for n in noise] == [
        ("python", (1,), None),
        ("torch", (3, 4), "drawn_0"),
    ]


def both_sides(x):
    x = x - torch.rand(1) if x[0, 0] > 0 else x + torch.randn(3, 4)
    return x * torch.rand(3, 4)


def nested(x):
    if torch.rand(()) < 0.6:
        x = x + torch.rand(3, 4)
        if torch.rand(()) < 0.5:
            x = F.dropout(x, 0.4)
    return x + torch.randn(2)[0]


def until_small(x):
    noise = torch.randn(4)
    for _ in range(4):
        if (noise.abs() < 1).all():
            break
        noise = torch.randn(4)
    return x + noise + torch.rand(4)


def of_three_generators(x):
    if random.random() < 0.5:
        x = x * random.gauss(0, 1) + np.random.normal()
    elif torch.rand(()) < 0.5:
        x = F.dropout2d(x[None, None], 0.5)[0, 0]
    return x + random.random() + np.random.random() + torch.rand(1)


@pytest.mark.parametrize("policy", [both_sides, nested, until_small, of_three_generators])
def test_draws_on_one_side_replay_draw_by_draw(policy):
    """Before the pass, where the graph still draws, as after it; the generators stand where eager leaves them."""
    module = Unary(policy)
    program = capture(Policy("one-sided", module, (X,), {})).program
    hoisted = HoistNoise().run(program, TARGET).artifact
    assert any(n.when for n in hoisted.noise)
    runs = [lambda x: [module(x)], *(p.runner() for p in (program, hoisted))]
    for seed in range(12):
        x = X if seed % 2 else -X
        answers = []
        for run in runs:
            with seeded(seed):
                (got,) = run(*([x] if run is runs[0] else [[x]]))
                answers.append([got, torch.rand(1), torch.tensor([random.random(), np.random.random()])])
        for eager, got in zip(answers[0] * 2, answers[1] + answers[2], strict=True):
            torch.testing.assert_close(got, eager, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_dynamic_sizes_follow_the_arguments(batch):
    module = Unary(lambda x: torch.multinomial(weights(x), 1) + torch.randn(x.shape[0], 6).sum(-1, keepdim=True))
    result = run_pass(HoistNoise, module, (X,), ({0: "batch"},))
    assert [n.shape for n in result.artifact.noise] == [("batch", 4), ("batch", 6)]
    x = torch.linspace(-1, 1, 4 * batch).reshape(batch, 4)
    for eager, got in replay(module, result.artifact, 3, x):
        assert torch.equal(eager, got)


def test_a_draw_that_nothing_reads_keeps_its_place():
    def policy(x):
        torch.rand(5)
        return torch.rand(2)

    module = Unary(policy)
    program = capture(Policy("dead", module, (X,), {})).program
    result = HoistNoise().run(program, TARGET)
    assert [n.shape for n in result.artifact.noise] == [(5,), (2,)]
    for eager, got in replay(module, result.artifact, 1, X):
        assert torch.equal(eager, got)


def test_an_argument_may_be_called_like_noise():
    class Named(nn.Module):
        def forward(self, noise_0):
            return noise_0 + torch.randn_like(noise_0)

    result = run_pass(HoistNoise, Named(), (X,))
    assert [s.name for s in result.artifact.inputs] == ["noise_0", "noise_0_"]


class Held(nn.Module):
    """Draws as many numbers as there are rows from a generator of its own."""

    def __init__(self):
        super().__init__()
        self.rng = torch.Generator().manual_seed(3)

    def forward(self, x):
        rows = x.shape[0]
        noise = torch.randn(x.shape, generator=self.rng) * torch.rand(rows, 1, generator=self.rng)
        whole = torch.randint(2, 9, (rows, 4), generator=self.rng) + torch.randint(
            5, size=(rows, 1), generator=self.rng
        )
        waited = torch.empty_like(x).exponential_(2.0, generator=self.rng)
        return noise + whole + waited, torch.multinomial(weights(x), 1, generator=self.rng)


@pytest.mark.parametrize("rows", [1, 3, 7])
def test_draws_of_a_held_generator_follow_the_sizes_and_go_on(rows):
    module = Held()
    captured = capture(Policy("held", module, (X,), {}, dynamic_shapes=[{0: "batch"}]))
    program = HoistNoise().run(captured.program, TARGET).artifact
    assert {n.generator.name for n in program.noise} == {"self.rng"}
    run, x = program.runner(), torch.linspace(-1, 1, 4 * rows).reshape(rows, 4)
    with seeded(0):
        for _ in range(3):
            for eager, got in zip(module(x), run([x]), strict=True):
                torch.testing.assert_close(got, eager, rtol=1e-6, atol=1e-6)


def test_random_between_two_limits_is_captured():
    module = Unary(lambda x: x + torch.empty(3, 4).random_(-3, 5))
    program = HoistNoise().run(capture(Policy("random", module, (X,), {})).program, TARGET).artifact
    for eager, got in replay(module, program, 1, X):
        assert torch.equal(eager, got)


def test_a_generator_that_forward_seeds_itself_is_not_hoisted():
    class Reseeded(Held):
        def forward(self, x):
            self.rng.manual_seed(5)
            return super().forward(x)

    result = HoistNoise().run(capture(Policy("reseeded", Reseeded(), (X,), {})).program, TARGET)
    assert not result.changed
    assert "forward itself makes or seeds" in "; ".join(reasons(result))


def test_draws_in_torch_cond_are_those_of_the_side_taken():
    module = Unary(lambda x: torch.cond(x.sum() > 0, lambda x: x + torch.rand(3, 4), lambda x: x.clone(), (x,)))
    program = HoistNoise().run(capture(Policy("cond", module, (X,), {})).program, TARGET).artifact
    assert [n.when for n in program.noise] == ["drawn_0"]
    for x in (X, -X):
        for eager, got in replay(module, program, 2, x):
            assert torch.equal(eager, got)


class Looped(nn.Module):
    """Draws in a loop that a tensor ends."""

    def forward(self, x):
        return torch.while_loop(lambda x: x.sum() < 99, lambda x: (x + torch.rand(3, 4),), (x,))[0]


LEFT = {
    "Gamma": (Unary(lambda x: Gamma(x.exp(), 1.0).sample()), "draws by rejection"),
    "Beta": (Unary(lambda x: Beta(x.exp(), 1.0).sample()), "draws by rejection"),
    "Poisson": (Unary(lambda x: torch.poisson(x.exp())), "draws by rejection"),
    "sums of halves": (Unary(lambda x: torch.multinomial(weights(x).half(), 3, True)), "sums weights of float16"),
    "whole range": (Unary(lambda x: torch.zeros(3, dtype=torch.int64).random_()), "from the whole range"),
    "wide": (Unary(lambda x: torch.randint(0, 2**60, (3,))), "up to 2\\^53"),
    "branch": (Looped(), "in a branch or loop"),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_alone_and_why(name):
    module, reason = LEFT[name]
    result = run_pass(HoistNoise, module, (X,))
    assert not result.changed
    assert not result.artifact.noise
    assert reason.replace("\\", "") in "; ".join(reasons(result))


def test_one_draw_that_stays_keeps_all_of_them():
    result = run_pass(HoistNoise, Unary(lambda x: torch.rand(3) + torch.poisson(torch.rand(3))), (X,))
    assert not result.changed
    assert not result.artifact.noise
    assert len(result.left) == 1


def test_dropout_in_inference_draws_nothing():
    result = run_pass(HoistNoise, Function(lambda x: F.dropout(x, 0.3, training=False)), (X,))
    assert not result.changed
    assert not result.left
