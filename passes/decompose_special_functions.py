"""Special functions that ONNX lacks become elementary ones.

    erfinv(y)   →  AS241's rational functions: one for |y| <= 0.85, else in r = sqrt(-log((1 - |y|) / 2))
    ndtri(p)    →  AS241 itself
    lgamma(x)   →  Taylor's series at 2 after steps by 1 into [1.5, 2.5]; Stirling's series from 8 up;
                   log(pi / |sin(pi x)|) - lgamma(1 - x) for x < 0.5
    digamma(x)  →  its asymptotic series after steps by 1 to 8 and more; digamma(1 - x) - pi / tan(pi x) for x < 0
    atan2(y, x)      →  ±a or ±(pi - a), a = atan(|y| / |x|)   by the signs of y and x, those of zeros too
    hypot(x, y)      →  m * sqrt(1 + (n / m)²)                 m, n: the larger and the smaller of |x| and |y|
    copysign(x, y)   →  where(signbit(y), -|x|, |x|)          signbit(x): x < 0, or 1 / x is -infinity
    fmax(x, y)       →  max(x, y), and the other one where one is NaN; fmin likewise
    logaddexp(x, y)  →  max(x, y) + log1p(exp(-|x - y|))      logaddexp2 likewise

- float32 and float64; the number of terms follows from the dtype.
- Left alone: other dtypes; and atan2 for targets that run torch's operators. torch.onnx (2.13) translates it without
  the signs of zeros, and straight back, atan2(0, -1), becomes -pi.
- atan2, copysign and signbit take any dtype; a NaN counts as positive there, since ONNX does not see its sign.

The results differ from torch's by rounding. Poles, infinities and NaN are as in torch.

Sources: M. J. Wichura, Algorithm AS 241, Applied Statistics 37(3), 1988 (PPND16; erfinv(y) = Phi^-1((1 + y) / 2) /
sqrt(2)); NIST Digital Library of Mathematical Functions, 5.5.1 to 5.5.4 (recurrence and reflection), 5.7.3 (the series
of lgamma, with Hurwitz's zeta(k, 2) = zeta(k) - 1), 5.11.1 and 5.11.2 (the asymptotic series).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx

from graphaudit.equivalence.verdict import Claim
from graphaudit.graphs.program import Program
from graphaudit.rewrite.operator_pass import Function, OperatorPass
from graphaudit.rulebook.target import Target

# fmt: off
_CENTRE = (
    (3.3871328727963666080, 133.14166789178437745, 1971.5909503065514427, 13731.693765509461125,
     45921.953931549871457, 67265.770927008700853, 33430.575583588128105, 2509.0809287301226727),
    (1.0, 42.313330701600911252, 687.18700749205790830, 5394.1960214247511077,
     21213.794301586595867, 39307.895800092710610, 28729.085735721942674, 5226.4952788528545610),
)
_TAIL = (
    (1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504,
     1.27045825245236838258, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187, 1.67638483018380384940, 6.89767334985100004550e-1,
     1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9),
)
_FAR_TAIL = (
    (6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580, 2.96560571828504891230e-1,
     2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7),
    (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15),
)
# fmt: on
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)  # B2, B4, …, B16
_EULER = 0.57721566490153286061
# The series of lgamma(2 + z) / z. zeta(k, 2) is zeta(k) - 1.
_ZETA = torch.special.zeta(torch.arange(2.0, 31.0, dtype=torch.float64), 2.0).tolist()
_SERIES = (1 - _EULER, *((-1) ** k * zeta / k for k, zeta in enumerate(_ZETA, 2)))
# Terms after which the rest is below half a unit in the last place: of the series at 2 (|z| <= 0.5), and from 8 up.
_SERIES_TERMS = {torch.float32: 13, torch.float64: 29}
_ASYMPTOTIC_TERMS = {torch.float32: 4, torch.float64: 8}
_ASYMPTOTIC_FROM = 8


class DecomposeSpecialFunctions(OperatorPass):
    """erfinv, ndtri, lgamma, digamma, copysign and others → elementary functions."""

    name = "decompose_special_functions"
    fixes = ("erfinv", "lgamma", "copysign", "unsupported-op")
    target_ops = frozenset(
        {"aten.erfinv", "aten.special_erfinv", "aten.lgamma", "aten.digamma"}
        | {"aten.hypot", "aten.logaddexp", "aten.logaddexp2", "aten.special_ndtri", "aten.copysign", "aten.signbit"}
        | {"aten.fmax", "aten.fmin", "aten.atan2"}
    )
    claims = Claim.EQUIVALENT

    def replacement(self, program: Program, node: fx.Node, target: Target) -> Function | str:
        """The function, if it is known for the dtype."""
        source = node.args[0]
        assert isinstance(source, fx.Node)
        dtype = source.meta["val"].dtype
        name = node.target._schema.name.removeprefix("aten::")  # type: ignore[union-attr]
        if name == "atan2" and target.graph == "fx":
            return "the target runs torch's own"
        if name in _OF_ANY:
            return _OF_ANY[name]
        if dtype not in _SERIES_TERMS:
            return f"there are no coefficients for {str(dtype).removeprefix('torch.')}"
        return {"lgamma": _lgamma, "digamma": _digamma, "special_ndtri": _ndtri}.get(name, _erfinv)


def _erfinv(y: Tensor) -> Tensor:
    size = y.abs()
    half = y * 0.5
    centre = half * _ratio(0.180625 - half * half, _CENTRE)
    r = ((1 - size) * 0.5).log().neg().sqrt()
    tail = _ratio(r - 1.6, _TAIL)
    if y.dtype == torch.float64:  # r stays below 5 in float32
        tail = torch.where(r <= 5, tail, _ratio(r - 5, _FAR_TAIL))
    tail = torch.where(size == 1, torch.inf, tail)
    return torch.where(size <= 0.85, centre, tail * y.sign()) * math.sqrt(0.5)


def _ndtri(p: Tensor) -> Tensor:
    half = p - 0.5
    centre = half * _ratio(0.180625 - half * half, _CENTRE)
    r = torch.minimum(p, 1 - p).log().neg().sqrt()
    tail = torch.where(r <= 5, _ratio(r - 1.6, _TAIL), _ratio(r - 5, _FAR_TAIL))
    tail = torch.where(r == torch.inf, torch.inf, tail) * half.sign()
    return torch.where(half.abs() <= 0.425, centre, tail)


def _lgamma(x: Tensor) -> Tensor:
    reflected = x < 0.5
    positive = torch.where(reflected, 1 - x, x)
    value = _lgamma_from_half(positive)
    mirror = math.log(math.pi) - (math.pi * (x - x.round())).sin().abs().log() - value
    return torch.where(x.abs() == torch.inf, torch.inf, torch.where(reflected, mirror, value))


def _lgamma_from_half(x: Tensor) -> Tensor:
    """log(gamma(x)) for x >= 0.5."""
    raised = x < 1.5
    up, down = torch.where(raised, x, 1.0), torch.ones_like(x)
    moved = torch.where(raised, x + 1, x)
    for _ in range(_ASYMPTOTIC_FROM - 2):
        lowered = moved > 2.5
        moved = torch.where(lowered, moved - 1, moved)
        down = torch.where(lowered, down * moved, down)
    z = moved - 2
    near = z * _polynomial(z, _SERIES[: _SERIES_TERMS[x.dtype]]) + down.log() - up.log()
    far_enough = x >= _ASYMPTOTIC_FROM
    large = torch.where(far_enough, x, x.new_full((), _ASYMPTOTIC_FROM))
    inverse = 1 / large
    stirling = [b / (2 * k * (2 * k - 1)) for k, b in enumerate(_BERNOULLI, 1)][: _ASYMPTOTIC_TERMS[x.dtype]]
    rest = inverse * _polynomial(inverse * inverse, stirling) + 0.5 * math.log(2 * math.pi)
    return torch.where(far_enough, (large - 0.5) * large.log() - large + rest, near)


def _digamma(x: Tensor) -> Tensor:
    reflected = x < 0
    moved = torch.where(reflected, 1 - x, x)
    steps = torch.zeros_like(x)
    for _ in range(_ASYMPTOTIC_FROM):
        small = moved < _ASYMPTOTIC_FROM
        steps = torch.where(small, steps + 1 / moved, steps)
        moved = torch.where(small, moved + 1, moved)
    inverse = 1 / moved
    series = [b / (2 * k) for k, b in enumerate(_BERNOULLI, 1)][: _ASYMPTOTIC_TERMS[x.dtype]]
    square = inverse * inverse
    value = moved.log() - 0.5 * inverse - square * _polynomial(square, series) - steps
    fraction = x - x.round()
    mirror = value - math.pi / (math.pi * fraction).tan()
    result = torch.where(reflected, torch.where(fraction == 0, torch.nan, mirror), value)
    return torch.where(x == 0, -1 / x, result)


def _hypot(x: Tensor, y: Tensor) -> Tensor:
    x, y = x.abs(), y.abs()
    large, small = torch.maximum(x, y), torch.minimum(x, y)
    ratio = small / torch.where(large == 0, 1.0, large)
    infinite = (x == torch.inf) | (y == torch.inf)
    return torch.where(infinite, torch.inf, large * (1 + ratio * ratio).sqrt())


def _atan2(y: Tensor, x: Tensor) -> Tensor:
    y, x = (t if t.is_floating_point() else t.to(torch.get_default_dtype()) for t in (y, x))
    height, width = y.abs(), x.abs()
    angle = torch.where((height == torch.inf) & (width == torch.inf), 1.0, height / width).atan()
    angle = torch.where((height == 0) & (width == 0), 0.0, angle)
    angle = torch.where(_signbit(x), math.pi - angle, angle)
    return torch.where(_signbit(y), -angle, angle)


def _logaddexp(x: Tensor, y: Tensor) -> Tensor:
    distance = torch.where(x == y, 0.0, x - y).abs()  # two equal infinities are no NaN
    return torch.maximum(x, y) + distance.neg().exp().log1p()


def _logaddexp2(x: Tensor, y: Tensor) -> Tensor:
    distance = torch.where(x == y, 0.0, x - y).abs()
    return torch.maximum(x, y) + distance.neg().exp2().log1p() / math.log(2)


def _signbit(x: Tensor) -> Tensor:
    return (x < 0) | (1 / x == -torch.inf) if x.is_floating_point() else x < 0


def _copysign(x: Tensor, y: Any) -> Tensor:
    size = x.abs() if x.is_floating_point() else x.abs().to(torch.get_default_dtype())
    if not isinstance(y, Tensor):
        return -size if math.copysign(1.0, y) < 0 else size
    size = size.to(torch.promote_types(size.dtype, y.dtype))
    return torch.where(_signbit(y), -size, size)


def _fmax(x: Tensor, y: Tensor) -> Tensor:
    return torch.where(x.isnan(), y, torch.where(y.isnan(), x, torch.maximum(x, y)))


def _fmin(x: Tensor, y: Tensor) -> Tensor:
    return torch.where(x.isnan(), y, torch.where(y.isnan(), x, torch.minimum(x, y)))


# Whatever the dtype.
_OF_ANY: dict[str, Function] = {
    "atan2": _atan2,
    "hypot": _hypot,
    "logaddexp": _logaddexp,
    "logaddexp2": _logaddexp2,
    "copysign": _copysign,
    "fmax": _fmax,
    "fmin": _fmin,
    "signbit": _signbit,
}


def _ratio(x: Tensor, coefficients: tuple[Sequence[float], Sequence[float]]) -> Tensor:
    return _polynomial(x, coefficients[0]) / _polynomial(x, coefficients[1])


def _polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Horner's rule; the constant term comes first."""
    value = x * coefficients[-1] + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        value = value * x + coefficient
    return value
