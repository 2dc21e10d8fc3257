"""Do an operator, its plain version, its fake kernel and its gradient agree?"""

from __future__ import annotations

from typing import Any

import torch

from graphaudit.custom_ops.autograd import has_autograd
from graphaudit.custom_ops.registry import CustomOp
from graphaudit.errors import CustomOpError
from graphaudit.quiet import quiet
from graphaudit.text import one_line

_LARGE = 1000  # elements, from which on gradcheck tries random directions instead of every element


def check_custom_op(custom: CustomOp) -> None:
    """On each example: the operator against its plain version; its schema, fake kernel and autograd by
    `torch.library.opcheck`; its gradient against finite differences in float64 by `torch.autograd.gradcheck`.

    Raises CustomOpError, which says which part differs and by how much.
    """
    compare_with_plain(custom)
    for number, example in enumerate(custom.examples):
        trained = has_autograd(custom.op)
        _opcheck(custom, number, _with_gradients(example) if trained else example)
        if trained and not custom.surrogate_gradient:
            _gradcheck(custom, number, example)


def compare_with_plain(custom: CustomOp) -> None:
    """The operator against its plain version on each example, values, dtypes and shapes. Raises CustomOpError."""
    for number, example in enumerate(custom.examples if custom.plain is not None else ()):
        assert custom.plain is not None
        with torch.no_grad():
            got, want = _flat(custom.op(*example)), _flat(custom.plain(*example))
        try:
            torch.testing.assert_close(got, want, equal_nan=True)
        except AssertionError as error:
            raise CustomOpError(
                f"{custom.name} and its plain version differ on example {number}: {_sentence(error)}",
                "Correct one of them: the deployed policy computes what the plain version does.",
            ) from error


def _opcheck(custom: CustomOp, number: int, example: tuple[Any, ...]) -> None:
    try:
        with quiet():
            torch.library.opcheck(custom.op, example)
    except Exception as error:  # opcheck lets through whatever the user's kernels raise
        raise CustomOpError(
            f"torch.library.opcheck refuses {custom.name} on example {number}: {_sentence(error)}",
            "Correct its fake kernel or its backward; `--debug` or the exception's cause shows opcheck's whole answer.",
        ) from error


def _gradcheck(custom: CustomOp, number: int, example: tuple[Any, ...]) -> None:
    """In float64, whatever the example's floating dtype is."""
    doubled = _with_gradients(tuple(a.double() if _is_floating(a) else a for a in example))
    size = sum(a.numel() for a in doubled if _is_floating(a))
    if not size:
        return

    def differentiable(*args: Any) -> tuple[torch.Tensor, ...]:
        return tuple(r for r in _flat(custom.op(*args)) if r.is_floating_point())

    try:
        if differentiable(*doubled):
            torch.autograd.gradcheck(differentiable, doubled, fast_mode=size > _LARGE)
    except Exception as error:  # gradcheck lets through whatever the user's kernels raise
        raise CustomOpError(
            f"the gradient of {custom.name} is not its derivative on example {number}: {_sentence(error)}",
            "Correct its backward; surrogate_gradient=True says that it is not meant to be one; an example that lies "
            "on a kink, where no derivative exists, has to go.",
        ) from error


def _with_gradients(example: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(a.detach().clone().requires_grad_() if _is_floating(a) else a for a in example)


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _flat(result: Any) -> list[torch.Tensor]:
    return [result] if isinstance(result, torch.Tensor) else list(result)


def _sentence(error: BaseException) -> str:
    return one_line(" ".join(str(error).split()))[:400] or type(error).__name__
