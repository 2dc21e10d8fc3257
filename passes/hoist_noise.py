"""Draws become inputs: the policy turns into a function of its arguments and of noise that the caller draws.

With u uniform in [0, 1), n standard normal, e exponential of rate 1, and k a whole number in [0, 2⁵³):

    rand(s), rand_like(x), uniform(x, a, b)      →  u,  u·(b − a) + a
    rand in float64                              →  k·2⁻⁵³
    randn(s), randn_like(x), normal(mean, std)   →  n,  n·std + mean
    exponential(x, rate)                         →  e / rate
    log_normal(x, mean, std)                     →  exp(n·std + mean)
    cauchy(x, median, scale)                     →  median ± scale·cos(a)/sin(a),  a = π·min(k, 2⁵³ − k)·2⁻⁵³
    geometric(x, p)                              →  ⌈log(k·2⁻⁵³) / log1p(−p)⌉  in float64
    bernoulli(p)        p a tensor               →  u < p                        (k·2⁻⁵³ < p in float64)
    bernoulli(x, p), dropout(x, p)   p a number  →  k < ⌈p·2⁵³⌉,  x·(k < ⌈(1 − p)·2⁵³⌉)/(1 − p)
    multinomial(p, 1)                            →  argmax(p / e)
    multinomial(p, m)   without replacement      →  indices of the m largest of p / e
    multinomial(p, m)   with replacement         →  how many of cumsum(p) / sum(p), as multiples of 2⁻⁵³, are < k
    randint(a, b, s), random(x, b)               →  a whole number in [a, b)
    randperm(n)                                  →  a permutation of n
    a draw of Python's or NumPy's generator      →  the same, drawn by that generator
    a draw of a generator that the policy holds  →  the same, drawn by that generator from the state it was found in

- These are what PyTorch's CPU kernels compute from their generator's words (aten/src/ATen/native/cpu/
  DistributionTemplates.h, aten/src/ATen/native/Distributions.cpp; tried with torch 2.13), so noise drawn in the order
  of `draw` by `torch.rand`, `torch.randn`, `exponential_`, `torch.randint` and `torch.randperm` gives eager's results
  under the same seed. A number of double precision is drawn as `randint(0, 2**53)`, which takes the same two words.
- A draw that nothing reads becomes an input as well: it moves the generator on for the draws after it.
- All draws of a policy, or none: what is left in the graph would come before or after its turn.
- Fewer than 16 normals, those of a permuted layout and those behind log_normal are drawn one after the other, all
  others in blocks of 16: `serial` noise says so where the size alone does not.
- Half precision: noise is float32, to be rounded; normals are drawn in `blocks`, the order of PyTorch's kernel for
  half precision.
- Left alone: Gamma, Beta, Dirichlet and others that draw by rejection, so that how much they draw depends on what
  they drew; draws in a branch or loop; a `torch.Generator` that forward makes or seeds itself
  (`fold_seeded_draws` takes those).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.held import Held
from graphaudit.graphs.noise import DRAWN, Distribution, bound, draws
from graphaudit.graphs.program import Program
from graphaudit.rewrite.base import Level, Pass, PassResult, Site
from graphaudit.rewrite.edit import cast_call, insert_call, replace_node
from graphaudit.rulebook.target import Target

aten = torch.ops.aten

_DOUBLE = 2**53  # a double drawn by PyTorch is a whole number of 2^-53
_BLOCK = 16  # from this many elements on, contiguous normals are drawn in blocks
_REJECTION = ("_standard_gamma", "_sample_dirichlet", "poisson", "binomial")


class HoistNoise(Pass[Program]):
    """Random operators → noise inputs and what PyTorch computes from them."""

    name = "hoist_noise"
    level = Level.FX
    fixes = ("random-op", "dropout-active", "python-random", "numpy-in-forward", "generator-object")
    runs_after = ("fold_seeded_draws",)
    claims = Claim.GIVEN_NOISE

    def run(self, artifact: Program, target: Target) -> PassResult[Program]:
        """Draws become inputs in graph order, which is the order in which eager draws."""
        hoisted = artifact.copy()
        rewritten, left = [], _drawn_in_regions(hoisted)
        for node in [n for n in hoisted.graph.nodes if draws(n)]:
            site = Site(node.name, hoisted.place(node))
            try:
                _hoist(hoisted, node)
                rewritten.append(site)
            except _LeftAlone as reason:
                left.append(Site(site.node, site.place, str(reason)))
        if left or not rewritten:
            return PassResult(artifact, left=left)
        return PassResult(hoisted.finish(), rewritten)


class _LeftAlone(Exception):
    """Why a draw cannot become an input."""


class _Draw:
    """One draw, and the means to write what stands in its place."""

    def __init__(self, program: Program, node: fx.Node) -> None:
        self.node = node
        self.args = bound(node)
        value = node.meta["val"]
        self.result: torch.Tensor = value[0] if isinstance(value, list | tuple) else value
        self._program = program

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> fx.Node:
        """A call in the place of the draw."""
        return insert_call(self.node, function, args, kwargs)

    def cast(self, value: fx.Node, dtype: torch.dtype) -> fx.Node:
        """`value` in `dtype`."""
        return cast_call(self.node, value, dtype)

    def number(self, name: str) -> int:
        """The argument of that name. Raises _LeftAlone where it is not known before the policy runs."""
        value = self.args[name]
        if not isinstance(value, int) or not -_DOUBLE <= value <= _DOUBLE:
            raise _LeftAlone(f"{name} is {value}, not a number up to 2^53 that is known beforehand")
        return value

    def uniform(self) -> fx.Node:
        """Uniform numbers in [0, 1), float64 where the result is, else float32."""
        return self.unit() if self.result.dtype is torch.float64 else self.noise("uniform")

    def unit(self) -> fx.Node:
        """Uniform numbers in [0, 1), float64."""
        return self.call(aten.mul.Tensor, self.cast(self.doubles(), torch.float64), 1 / _DOUBLE)

    def doubles(self, like: torch.Tensor | None = None) -> fx.Node:
        """Uniform numbers of double precision, as whole numbers of 2^-53, int64."""
        return self.noise("randint", like, torch.int64, low=0, high=_DOUBLE)

    def normal(self) -> fx.Node:
        """Standard normal numbers in the result's shape, float64 where the result is, else float32."""
        dtype = _wide(self.result.dtype)
        if _layout(self.result) is not None:
            return self.serial(dtype)
        if dtype is self.result.dtype or self._is_small():
            return self.noise("normal", dtype=dtype)
        return self.noise("normal", blocks=1)

    def serial(self, dtype: torch.dtype) -> fx.Node:
        """Standard normal numbers in the result's shape, drawn one after the other."""
        return self.noise("normal", dtype=dtype) if self._is_small() else self.noise("normal", dtype=dtype, serial=1)

    def _is_small(self) -> bool:
        """Whether the normals are too few for blocks, at all sizes."""
        return all(isinstance(d, int) for d in self.result.shape) and self.result.numel() < _BLOCK

    def exponential(self, like: torch.Tensor) -> fx.Node:
        """Exponential numbers of rate 1 in the shape and dtype of `like`."""
        return self.cast(self.noise("exponential", like, _wide(like.dtype)), like.dtype)

    def noise(
        self,
        distribution: Distribution,
        like: torch.Tensor | None = None,
        dtype: torch.dtype = torch.float32,
        **parameters: int,
    ) -> fx.Node:
        """A noise input of the shape of `like` (the result's, if not given), drawn in the order of its memory.

        A single number is an input of shape (1,): not every runtime takes one without dimensions.
        """
        like = self.result if like is None else like
        order = _layout(like)
        shape = list(like.shape) if order is None else [like.shape[d] for d in order]
        try:
            made = self._program.add_noise(
                shape or [1], dtype, distribution, parameters, self._generator(), self._condition()
            )
        except ValueError as error:
            raise _LeftAlone(str(error)) from error
        if not shape:
            return self.call(aten.squeeze.dims, made, [0])
        if order is None:
            return made
        return self.call(aten.permute.default, made, [order.index(d) for d in range(len(order))])

    def _generator(self) -> Literal["torch", "python", "numpy-legacy"] | Held:
        """Whose sequence it is."""
        source = self.args.get("source", "torch")
        given = self.args.get("generator")
        if given is not None:
            found = self._program.generator(given)
            if isinstance(found, torch.Generator):
                raise _LeftAlone("it draws from a torch.Generator that forward itself makes or seeds")
            return found
        held: Literal["torch", "python", "numpy-legacy"] | Held = self._program.held.get(source, source)
        return held

    def _condition(self) -> str | None:
        """The output that says whether the policy makes this draw, which stands on one side of a branch."""
        index = self.node.meta.get("custom", {}).get(DRAWN)
        return None if index is None else self._program.interface.drawn[index].name


def _hoist(program: Program, node: fx.Node) -> None:
    draw = _Draw(program, node)
    op = node.target._schema.name.removeprefix("aten::")  # type: ignore[union-attr]
    if op in _REJECTION:
        raise _LeftAlone("it draws by rejection: how many numbers it takes depends on the numbers")
    if op.startswith("rrelu"):
        raise _LeftAlone("it draws for negative elements alone: how many numbers it takes depends on the input")
    if op not in _FORMS:
        raise _LeftAlone(f"{op} is not written as noise and arithmetic here")
    if draw.result.device.type != "cpu":
        raise _LeftAlone(f"it draws on {draw.result.device.type}, whose generator is another")
    made = _FORMS[op](draw)
    if isinstance(made, tuple):
        for user in list(node.users):
            replace_node(user, made[user.args[1]])
        node.graph.erase_node(node)
    else:
        replace_node(node, draw.cast(made, draw.result.dtype))


def _uniform(draw: _Draw) -> fx.Node:
    dtype = draw.result.dtype
    low, high = torch.tensor([draw.args.get("from", 0.0), draw.args.get("to", 1.0)], dtype=_wide(dtype))
    made = draw.uniform()
    if (low, high) != (0.0, 1.0):
        made = draw.call(aten.add.Tensor, draw.call(aten.mul.Tensor, made, float(high - low)), float(low))
    elif dtype is _wide(dtype):
        return made
    # What rounding has brought up to the upper end is put at the lower one.
    made, high = draw.cast(made, dtype), high.to(dtype)
    full = draw.call(aten.eq.Scalar, made, float(high))
    return draw.call(aten.masked_fill.Scalar, made, full, float(low.to(dtype)))


def _normal(draw: _Draw) -> fx.Node:
    """Numbers are the kernel's own mean and deviation; tensors come after it, in the dtype of the result."""
    mean, std, dtype = draw.args.get("mean", 0.0), draw.args.get("std", 1.0), draw.result.dtype
    made = draw.normal()
    if isinstance(std, fx.Node):
        made = draw.cast(made, dtype)
    if std != 1.0:
        made = draw.call(aten.mul.Tensor, made, std)
    if isinstance(mean, fx.Node):
        made = draw.cast(made, dtype)
    return draw.call(aten.add.Tensor, made, mean) if mean != 0.0 else made


def _exponential(draw: _Draw) -> fx.Node:
    made = draw.exponential(draw.result)
    rate = draw.args["lambd"]
    return made if rate == 1.0 else draw.call(aten.div.Tensor, made, rate)


def _log_normal(draw: _Draw) -> fx.Node:
    mean, std = draw.args["mean"], draw.args["std"]
    scaled = draw.call(aten.mul.Tensor, draw.serial(_wide(draw.result.dtype)), std)
    return draw.call(aten.exp.default, draw.call(aten.add.Tensor, scaled, mean))


def _cauchy(draw: _Draw) -> fx.Node:
    """tan(π(u − 1/2)) by the distance of u to the nearer of 0 and 1, which no dtype rounds to zero."""
    drawn, dtype = draw.doubles(), _wide(draw.result.dtype)
    distance = draw.call(aten.minimum.default, drawn, draw.call(aten.rsub.Scalar, drawn, _DOUBLE))
    angle = draw.call(aten.mul.Tensor, draw.cast(distance, dtype), math.pi / _DOUBLE)
    cotangent = draw.call(aten.div.Tensor, draw.call(aten.cos.default, angle), draw.call(aten.sin.default, angle))
    is_low = draw.call(aten.lt.Scalar, drawn, _DOUBLE // 2)
    made = draw.call(aten.where.self, is_low, draw.call(aten.neg.default, cotangent), cotangent)
    return draw.call(aten.add.Tensor, draw.call(aten.mul.Tensor, made, draw.args["sigma"]), draw.args["median"])


def _geometric(draw: _Draw) -> fx.Node:
    trials = draw.call(aten.div.Tensor, draw.call(aten.log.default, draw.unit()), math.log1p(-draw.args["p"]))
    return draw.call(aten.ceil.default, trials)


def _bernoulli(draw: _Draw) -> fx.Node:
    chance = draw.args["p"] if "p" in draw.args else draw.args["self"]
    if not isinstance(chance, fx.Node):
        return draw.call(aten.lt.Scalar, draw.doubles(), math.ceil(chance * _DOUBLE))
    if chance.meta["val"].dtype is torch.float64:
        unit = draw.call(aten.mul.Tensor, draw.cast(draw.doubles(), torch.float64), 1 / _DOUBLE)
        return draw.call(aten.lt.Tensor, unit, chance)
    return draw.call(aten.lt.Tensor, draw.noise("uniform"), draw.cast(chance, torch.float32))


def _dropout(draw: _Draw) -> tuple[fx.Node, ...]:
    given, chance = draw.args["input"], draw.args["p"]
    if chance == 1:  # no draw
        nothing = draw.call(aten.zeros_like.default, given)
        return draw.call(aten.mul.Tensor, given, nothing), draw.cast(nothing, torch.bool)
    kept = draw.call(aten.lt.Scalar, draw.doubles(), math.ceil((1 - chance) * _DOUBLE))
    scale = draw.call(aten.div.Tensor, draw.cast(kept, draw.result.dtype), 1 - chance)
    return draw.call(aten.mul.Tensor, given, scale), kept


def _multinomial(draw: _Draw) -> fx.Node:
    weights, count = draw.args["self"], draw.number("num_samples")
    if draw.args["replacement"] and count > 1:
        return _with_replacement(draw, weights)
    noise = draw.exponential(torch.empty_like(weights.meta["val"]))
    race = draw.call(aten.div.Tensor, weights, noise)
    if count == 1:
        return draw.call(aten.argmax.default, race, -1, True)
    return draw.call(operator.getitem, draw.call(aten.topk.default, race, count), 1)


def _with_replacement(draw: _Draw, weights: fx.Node) -> fx.Node:
    """Invert the cumulative distribution; its last value counts as 1. Compared as whole numbers, which is exact."""
    if weights.meta["val"].dtype not in (torch.float32, torch.float64):
        raise _LeftAlone(f"it sums weights of {_said(weights.meta['val'].dtype)}")
    sums = draw.call(aten.cumsum.default, weights, -1)
    share = draw.call(aten.div.Tensor, sums, draw.call(aten.slice.Tensor, sums, -1, -1))
    grid = draw.cast(draw.call(aten.mul.Tensor, share, float(_DOUBLE)), torch.int64)
    edges = draw.call(aten.unsqueeze.default, draw.call(aten.slice.Tensor, grid, -1, 0, -1), -2)
    drawn = draw.call(aten.unsqueeze.default, draw.doubles(), -1)
    return draw.call(aten.sum.dim_IntList, draw.call(aten.lt.Tensor, edges, drawn), [-1])


def _randint(draw: _Draw) -> fx.Node:
    low, high = ("from", "to") if "to" in draw.args else ("low", "high")
    if high not in draw.args or draw.args[high] is None:
        raise _LeftAlone("it draws from the whole range of its dtype")
    first = draw.number(low) if low in draw.args else 0
    return draw.noise("randint", dtype=torch.int64, low=first, high=draw.number(high))


def _foreign(draw: _Draw) -> fx.Node:
    distribution = draw.args["distribution"]
    names = {"randint": ("low", "high"), "subset": ("high",)}.get(distribution, ())
    limits = {name: draw.number(name) for name in names}
    if distribution == "permutation":
        limits["n"] = draw.number("high")
    return draw.noise(distribution, None, draw.result.dtype, **limits)


def _randperm(draw: _Draw) -> fx.Node:
    return draw.noise("permutation", dtype=torch.int64, n=draw.number("n"))


_FORMS: dict[str, Callable[[_Draw], fx.Node | tuple[fx.Node, ...]]] = {
    **dict.fromkeys(("rand", "rand_like", "uniform"), _uniform),
    **dict.fromkeys(("randn", "randn_like", "normal", "normal_functional"), _normal),
    **dict.fromkeys(("randint", "randint_like", "random"), _randint),
    "exponential": _exponential,
    "log_normal": _log_normal,
    "cauchy": _cauchy,
    "geometric": _geometric,
    "bernoulli": _bernoulli,
    "native_dropout": _dropout,
    "dropout": lambda draw: _dropout(draw)[0],
    "multinomial": _multinomial,
    "randperm": _randperm,
    "graphaudit::draw": _foreign,
}


def _wide(dtype: torch.dtype) -> torch.dtype:
    """In what PyTorch computes draws of `dtype`."""
    return torch.float64 if dtype is torch.float64 else torch.float32


def _said(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _layout(tensor: torch.Tensor) -> list[int] | None:
    """The dimensions from the outermost in memory to the innermost; None where that is their order."""
    strides, wanted = [], 1
    contiguous = True
    for size, stride in reversed(list(zip(tensor.shape, tensor.stride()))):
        # As text, because comparing symbolic sizes would add a guard to the graph.
        contiguous &= str(size) == "1" or str(stride) == str(wanted)
        wanted = wanted * size
        strides.append(stride)
    if contiguous:
        return None
    if not all(isinstance(s, int) for s in (*tensor.shape, *strides)):
        raise _LeftAlone("it draws in a permuted layout of dynamic size")
    return sorted(range(tensor.dim()), key=lambda d: (-tensor.stride(d), d))


def _drawn_in_regions(program: Program) -> list[Site]:
    regions = [m for m in program.exported.graph_module.children() if isinstance(m, fx.GraphModule)]
    return [
        Site(node.name, program.place(node), "it draws in a branch or loop, so how often is not known beforehand")
        for region in regions
        for part in region.modules()
        if isinstance(part, fx.GraphModule)
        for node in part.graph.nodes
        if draws(node)
    ]
