"""Gradients of an operator: those of a function in torch, computed anew in the backward pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Operator = torch._ops.OpOverload


@dataclass(frozen=True)
class Recomputed:
    """A differentiable function, and how many tensors it returns."""

    function: Callable[..., Any]
    results: int

    def gradients(self, args: tuple[Any, ...], outer: list[torch.Tensor]) -> list[torch.Tensor]:
        """For each floating tensor among `args`, the gradient that `outer`, those of the results, leave at it."""
        with _autograd_switched_on(), torch.enable_grad():
            given = [a.detach().requires_grad_(a.is_floating_point()) if _is_tensor(a) else a for a in args]
            result = self.function(*given)
            results = [result] if isinstance(result, torch.Tensor) else list(result)
            pairs = [(r, g) for r, g in zip(results, outer) if r.requires_grad]
            wanted = [a for a in given if _is_tensor(a) and a.requires_grad]
            if not pairs:
                return [torch.zeros_like(w) for w in wanted]
            found = torch.autograd.grad([r for r, _ in pairs], wanted, [g for _, g in pairs], allow_unused=True)
        return [torch.zeros_like(w) if g is None else g.clone() for w, g in zip(wanted, found)]


def _autograd_switched_on() -> Any:
    """Inside the kernel of an operator the dispatcher passes autograd by; while this lasts, it does not."""
    excluded = torch._C._dispatch_tls_local_exclude_set()
    for key in ("AutogradCPU", "AutogradCUDA", "AutogradOther", "AutogradPrivateUse1", "ADInplaceOrView"):
        excluded = excluded.remove(getattr(torch._C.DispatchKey, key))
    return torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded)


def register_recomputed(op: Operator, gradient: Recomputed) -> None:
    """Let `op` have the gradient of `gradient.function`, in an operator of its own, which is opaque as `op` is."""
    parameters = str(op._schema).partition("(")[2].rpartition(") ->")[0]
    backward = torch.library.custom_op(
        f"{op._schema.name}_backward",
        lambda outer, *args: gradient.gradients(args, outer),
        mutates_args=(),
        schema=f"(Tensor[] gradients, {parameters}) -> Tensor[]",
    )
    backward.register_fake(lambda _, *args: [torch.empty_like(a) for a in args if _is_floating(a)])

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        results = [output] if isinstance(output, torch.Tensor) else list(output)
        ctx.kept = [None if _is_tensor(a) else a for a in inputs]
        ctx.positions = [i for i, a in enumerate(inputs) if _is_tensor(a)]
        ctx.results = [(r.shape, r.dtype, r.device) for r in results]
        ctx.save_for_backward(*(a for a in inputs if _is_tensor(a)))

    def propagate(ctx: Any, *outer: torch.Tensor | None) -> Any:
        args = list(ctx.kept)
        for position, tensor in zip(ctx.positions, ctx.saved_tensors):
            args[position] = tensor
        given = [
            torch.zeros(shape, dtype=dtype, device=device) if g is None else g
            for g, (shape, dtype, device) in zip(outer, ctx.results)
        ]
        found = iter(backward(given, *args))
        gradients = tuple(next(found) if _is_floating(a) else None for a in args)
        return gradients if len(gradients) > 1 else gradients[0]

    torch.library.register_autograd(op._schema.name, propagate, setup_context=setup_context)


def has_autograd(op: Operator) -> bool:
    """Whether someone has said how to differentiate `op`."""
    defined = torch._library.custom_ops._maybe_get_opdef(op)
    if defined is not None:
        return defined._backward_fn is not None
    keys = ("Autograd", "AutogradCPU", "CompositeImplicitAutograd")
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(op._schema.name, key) for key in keys)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()
