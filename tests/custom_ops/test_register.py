"""register_custom_op: what it makes, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import graphaudit
from graphaudit import register_custom_op
from graphaudit.errors import CustomOpError

X = torch.tensor([[0.3, -1.2, 2.0], [0.7, -0.1, 1.5]])


def numpy_sinc(x, scale: float = 1.0):
    return torch.from_numpy(np.sinc(x.numpy() * scale))


def plain_sinc(x, scale=1.0):
    return torch.sinc(x * scale)


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits):
        return torch.from_numpy(np.heaviside(logits.detach().numpy(), 0)).to(logits.dtype)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(x, factor):
        return x**3 * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * ctx.factor * gradient, None


class Wrong(Cube):
    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 2 * x**2 * ctx.factor * gradient, None


def positive(x):
    return (x > 0).to(x.dtype)


def gradient_of(op, *args):
    x = X.clone().requires_grad_()
    op(x, *args).sum().backward()
    return x.grad


def test_a_python_helper_gets_a_schema_and_the_gradient_of_its_plain_version():
    op = register_custom_op("register_test::sinc", numpy_sinc, plain=plain_sinc, examples=[(X, 0.5), (X, 1)])
    assert str(op._schema) == "register_test::sinc(Tensor x, float scale=1.) -> Tensor"
    assert torch.equal(op(X, scale=2), op(X, 2.0)) and torch.equal(op(X), op(X, 1.0))
    assert torch.allclose(gradient_of(op, 0.5), gradient_of(plain_sinc, 0.5))
    captured = torch.export.export(Unary(op), (X,)).graph_module.graph
    assert [n.target for n in captured.nodes if n.op == "call_function"] == [op]


def test_an_autograd_function_keeps_its_own_gradient():
    cube = register_custom_op(
        "register_test::cube", Cube, plain=lambda x, factor: x * x * x * factor, examples=[(X, 2.0)]
    )
    assert str(cube._schema) == "register_test::cube(Tensor x, float factor) -> Tensor"
    assert torch.allclose(gradient_of(cube, 0.5), 1.5 * X**2)
    straight = register_custom_op(
        "register_test::straight", StraightThrough, plain=positive, examples=[(X,)], surrogate_gradient=True
    )
    assert torch.equal(gradient_of(straight), torch.ones_like(X))


def test_an_operator_of_torch_library_is_taken_as_it_is():
    @torch.library.custom_op("register_test::halves", mutates_args=())
    def halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x / 2, x.sum(-1)

    op = register_custom_op(halves, plain=lambda x: (x * 0.5, x.sum(-1)), examples=[(X,)])
    assert op is torch.ops.register_test.halves.default
    x = X.clone().requires_grad_()
    op(x)[1].sum().backward()
    assert torch.equal(x.grad, torch.ones_like(X))


def test_an_explicit_backward():
    op = register_custom_op(
        "register_test::square",
        lambda x: torch.from_numpy(np.square(x.numpy())),
        fake=torch.empty_like,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
        backward=lambda ctx, gradient: 2 * ctx.saved_tensors[0] * gradient,
        examples=[(X,)],
    )
    assert torch.equal(gradient_of(op), 2 * X)


def other_sinc(x, scale=1.0):
    return torch.sinc(x * scale + 1e-3)


REFUSED = {
    "differs": (
        numpy_sinc,
        {"plain": other_sinc},
        "{} and its plain version differ on example 0: Tensor-likes are not",
    ),
    "no_shapes": (numpy_sinc, {}, "nobody says what shapes {} returns"),
    "fake": (numpy_sinc, {"fake": lambda x, scale: x.new_empty(7)}, "torch.library.opcheck refuses {} on example 0: "),
    "gradient": (Wrong, {"fake": lambda x, factor: torch.empty_like(x)}, "the gradient of {} is not its derivative on"),
    "stars": (lambda *x: x[0] + 1, {"fake": torch.empty_like}, "{} takes *x, and an operator has a fixed list"),
    "none": (lambda x, y: (x + 1, None), {"fake": torch.empty_like}, "{} returns tuple"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_agree_is_refused(case):
    function, options, message = REFUSED[case]
    name = f"register_test::refused_{case}"
    with pytest.raises(CustomOpError) as raised:
        register_custom_op(name, function, examples=[(X, 0.5)], **options)
    assert raised.value.message.startswith(message.format(name))
    assert raised.value.remedy


def test_a_plain_version_may_hold_tensors_of_its_own_and_name_its_arguments_as_it_likes(tmp_path):
    table = torch.tensor([0.5, 1.5, 2.5])
    op = register_custom_op(
        "register_test::shifted",
        lambda x, places: torch.from_numpy(np.roll(x.numpy(), places, -1) + table.numpy()),
        plain=lambda tensor, count: torch.roll(tensor, count, -1) + table,
        examples=[(X, 1)],
    )

    class Policy(nn.Module):
        def forward(self, obs):
            return op(obs, places=obs.shape[0])  # a size that varies stays one

    policy = graphaudit.Policy("shifted", Policy(), (X,), dynamic_shapes=({0: "batch"},))
    report = graphaudit.rewrite(policy, target="onnxruntime", output=tmp_path / "bundle", count=6)
    assert report.fit["onnxruntime"], report.statement


def test_names_and_examples():
    with pytest.raises(CustomOpError, match="the namespace of aten::sinc is not yours"):
        register_custom_op("aten::sinc", numpy_sinc, plain=plain_sinc, examples=[(X, 1.0)])
    with pytest.raises(CustomOpError, match="does not name an operator"):
        register_custom_op("a; import os", numpy_sinc, plain=plain_sinc, examples=[(X, 1.0)])
    with pytest.raises(CustomOpError, match="no examples"):
        register_custom_op("register_test::none", numpy_sinc, plain=plain_sinc, examples=[])
    with pytest.raises(CustomOpError, match="no operator of PyTorch's dispatcher"):
        register_custom_op(numpy_sinc, plain=plain_sinc, examples=[(X, 1.0)])


class Unary(nn.Module):
    def __init__(self, op):
        super().__init__()
        self.head = nn.Linear(3, 3)
        self.op = op

    def forward(self, x):
        return self.op(x)


@pytest.mark.parametrize("target", ["onnxruntime", "ascend-310p"])
def test_a_policy_with_registered_operators_is_fit(target, tmp_path):
    sinc = register_custom_op("register_test::sinc", numpy_sinc, plain=plain_sinc, examples=[(X, 0.5)])
    straight = register_custom_op(
        "register_test::straight", StraightThrough, plain=positive, examples=[(X,)], surrogate_gradient=True
    )

    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(3, 2)

        def forward(self, obs):
            return straight(sinc(self.head(obs), 0.7))

    report = graphaudit.rewrite(Policy().eval(), (X,), target=target, output=tmp_path / "bundle", count=6)
    assert report.fit[target], report.statement
    assert {f.fixed_by for f in report.findings if f.name == "custom-op"} == {"decompose_custom_ops"}
