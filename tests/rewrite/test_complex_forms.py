"""Every form against torch's own complex arithmetic in float64."""

from __future__ import annotations

import math

import pytest
import torch
from torch.utils import _pytree as pytree

from graphaudit.rewrite.complex_forms import NoForm, Pair, form_of

aten = torch.ops.aten


def numbers(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.complex128, generator=torch.Generator().manual_seed(seed))


Z, W, V = numbers(3, 4), numbers(3, 4, seed=1), numbers(4, seed=2)
X = torch.linspace(-2, 2, 12, dtype=torch.float64).reshape(3, 4)
SIGNS = torch.complex(
    torch.tensor([1.0, -1, 0, 2, -3, 0], dtype=torch.float64),
    torch.tensor([0.0, 0, 1, -4, 1e-9, -2], dtype=torch.float64),
)
I = torch.tensor([2, 0])  # noqa: E741

CALLS = {
    "abs": (aten.abs.default, SIGNS),
    "add": (aten.add.Tensor, Z, V),
    "add, a real tensor that is larger": (aten.add.Tensor, V, X),
    "add, scaled": (aten.add.Tensor, Z, X, {"alpha": 2}),
    "add, a complex number": (aten.add.Tensor, X, 2 - 1j),
    "addmm": (aten.addmm.default, V, numbers(2, 3), Z, {"beta": 2, "alpha": 3}),
    "angle": (aten.angle.default, SIGNS),
    "bmm": (aten.bmm.default, Z[None], W.T[None]),
    "cat, real and complex": (aten.cat.default, [Z, X], -1),
    "complex": (aten.complex.default, X, X[0]),
    "conj": (aten._conj.default, Z),
    "copy": (aten.copy.default, Z, X),
    "cumprod": (aten.cumprod.default, numbers(2, 7), -1),
    "cumsum": (aten.cumsum.default, Z, 0),
    "div": (aten.div.Tensor, Z, W),
    "div by a real tensor": (aten.div.Tensor, Z, X),
    "div of a real tensor": (aten.div.Tensor, X, Z),
    "div of a number": (aten.div.Tensor, torch.tensor(1.0, dtype=torch.float64), Z),
    "div by a complex number": (aten.div.Tensor, X, 1 + 2j),
    "dot": (aten.dot.default, V, V + 1),
    "einsum of two": (aten.einsum.default, "ij,kj->ik", [Z, W]),
    "einsum of three": (aten.einsum.default, "ij,ij,j->i", [Z, W, V]),
    "eq": (aten.eq.Tensor, Z, torch.where(X > 0, Z, W)),
    "exp": (aten.exp.default, Z),
    "expm1 near 0": (aten.expm1.default, Z * 1e-9),
    "fft": (aten.fft_fft.default, Z),
    "fft of a real tensor": (aten.fft_fft.default, X, None, 0, "ortho"),
    "flip": (aten.flip.default, Z, [1]),
    "ifft, cut": (aten.fft_ifft.default, Z, 3, 1, "forward"),
    "full_like": (aten.full_like.default, Z, 2 - 1j),
    "imag": (aten.imag.default, Z),
    "index": (aten.index.Tensor, Z, [None, I]),
    "index_put": (aten.index_put.default, Z, [I], W[:2]),
    "irfft, even": (aten.fft_irfft.default, Z),
    "irfft, odd": (aten.fft_irfft.default, Z, 7, -1, "ortho"),
    "irfft, padded": (aten.fft_irfft.default, Z, 12, 0, "forward"),
    "isfinite": (aten.isfinite.default, torch.complex(torch.tensor([1.0, math.inf]), torch.tensor([math.nan, 0.0]))),
    "linear": (aten.linear.default, Z, W, numbers(3, seed=4)),
    "log": (aten.log.default, SIGNS),
    "masked_fill": (aten.masked_fill.Scalar, Z, X > 0, 3.0),
    "matmul": (aten.matmul.default, Z, W.T),
    "mean": (aten.mean.dim, Z, [0], True),
    "mul by i": (aten.mul.Tensor, X, 1j),
    "mul by a number": (aten.mul.Tensor, Z, 2 - 3j),
    "mul by a tensor of integers": (aten.mul.Tensor, Z, torch.arange(4)),
    "mv": (aten.mv.default, Z, V),
    "ne": (aten.ne.Tensor, Z, W),
    "ones_like": (aten.ones_like.default, Z, {"pin_memory": False}),
    "outer": (aten.outer.default, V, V),
    "pad": (aten.constant_pad_nd.default, Z, [1, 2], 1.0),
    "permute": (aten.permute.default, Z, [1, 0]),
    "polar": (aten.polar.default, X, X * 3),
    "pow, a whole number": (aten.pow.Tensor_Scalar, Z, 5),
    "pow, a fraction": (aten.pow.Tensor_Scalar, Z, 0.5),
    "pow, a tensor": (aten.pow.Tensor_Tensor, V, X),
    "pow of a number": (aten.pow.Scalar, -2.0, Z),
    "reciprocal": (aten.reciprocal.default, Z),
    "repeat": (aten.repeat.default, Z, [2, 1]),
    "rfft": (aten.fft_rfft.default, X),
    "rfft, padded": (aten.fft_rfft.default, X, 9, 0, "ortho"),
    "rsub": (aten.rsub.Scalar, Z, 1),
    "scatter": (aten.scatter.src, Z, 0, torch.tensor([[2, 0, 1, 1]]), W),
    "split": (aten.split.Tensor, Z, 3, 1),
    "sqrt": (aten.sqrt.default, SIGNS),
    "square": (aten.square.default, Z),
    "stack": (aten.stack.default, [Z, W], 1),
    "sum": (aten.sum.default, Z),
    "sum of a real tensor": (aten.sum.dim_IntList, X, [0], {"dtype": torch.complex128}),
    "to complex": (aten._to_copy.default, X, {"dtype": torch.complex64}),
    "unbind": (aten.unbind.int, Z),
    "view": (aten.view.default, Z, [2, 6]),
    "view_as_complex": (aten.view_as_complex.default, X.reshape(3, 2, 2)),
    "view_as_real": (aten.view_as_real.default, Z),
    "where": (aten.where.self, X > 0, Z, X),
    "zeros_like": (aten.zeros_like.default, Z),
}


def paired(value):
    return Pair(value.real, value.imag) if isinstance(value, torch.Tensor) and value.is_complex() else value


@pytest.mark.parametrize("call", CALLS)
def test_it_is_what_torch_computes(call):
    operator, *args = CALLS[call]
    kwargs = args.pop() if isinstance(args[-1], dict) else {}
    got = form_of(operator)(*pytree.tree_map(paired, args), **kwargs)
    want = pytree.tree_map(paired, operator(*args, **kwargs))
    for ours, theirs in zip(pytree.tree_leaves(got), pytree.tree_leaves(want), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12 if "near 0" not in call else 0)


@pytest.mark.parametrize(
    ("operator", "args", "reason"),
    [
        (
            aten.fft_rfft.default,
            (torch.ones(600),),
            "the transform is of 600 elements; written out are those up to 512",
        ),
        (aten.pow.Tensor_Tensor, (X, Pair(X, X)), "the base is a real tensor, and the exponent complex"),
    ],
)
def test_what_has_no_form(operator, args, reason):
    with pytest.raises(NoForm, match=reason):
        form_of(operator)(*args)
    assert form_of(aten.tanh.default) is None
