"""A first look at a policy: are its weights numbers, do its inputs fit, does it run?"""

from __future__ import annotations

import inspect

import torch
from torch import nn

from graphaudit.errors import PolicyError
from graphaudit.policy.policy import Policy
from graphaudit.policy.usercode import user_code
from graphaudit.text import counted, one_line


def probe(policy: Policy) -> None:
    """Raise PolicyError if the policy cannot be worked on: NaN weights, inputs that do not fit, forward raises."""
    check_weights(policy.name, policy.module)
    _check_arguments(policy)
    with user_code(
        f"{policy.name}: forward",
        "The policy must run on its own example_inputs().",
        folder=policy.file.parent if policy.file else None,
    ):
        policy.working(*policy.example_args, **policy.example_kwargs)
    if policy.reference is not None:
        check_weights(f"{policy.name}: reference", policy.reference)


def check_weights(name: str, module: nn.Module) -> None:
    """Raise PolicyError for a parameter with NaN or infinity, or a buffer with NaN (a buffer may hold a -inf mask)."""
    for key, parameter in module.named_parameters():
        _check_tensor(name, "parameter", key, parameter, allow_infinite=False)
    for key, buffer in module.named_buffers():
        _check_tensor(name, "buffer", key, buffer, allow_infinite=True)


def _check_tensor(name: str, kind: str, key: str, tensor: torch.Tensor, *, allow_infinite: bool) -> None:
    if tensor.is_meta or isinstance(tensor, nn.UninitializedParameter):
        raise PolicyError(
            f"{name}: {kind} {one_line(key)} has no values yet", "Load or initialise the weights in build()."
        )
    if tensor.is_sparse or not (tensor.is_floating_point() or tensor.is_complex()):
        return
    with torch.no_grad():
        bad = torch.isnan(tensor) if allow_infinite else ~torch.isfinite(tensor)
        count = int(bad.sum())
        if not count:
            return
        what = "NaN" if bool(torch.isnan(tensor[bad]).any()) else "infinity"
    raise PolicyError(
        f"{name}: {kind} {one_line(key)} holds {what} ({count:,} of {counted(tensor.numel(), 'value')})",
        "Training diverged, or the checkpoint is damaged: load weights that are finite.",
    )


def _check_arguments(policy: Policy) -> None:
    try:
        signature = inspect.signature(policy.module.forward)
    except (TypeError, ValueError):
        return  # a scripted or native forward without a signature: running it tells
    try:
        signature.bind(*policy.example_args, **policy.example_kwargs)
    except TypeError as error:
        given = counted(len(policy.example_args), "argument")
        if policy.example_kwargs:
            given += f" and the keywords {', '.join(policy.example_kwargs)}"
        raise PolicyError(
            f"{policy.name}: forward({', '.join(signature.parameters)}) does not take the example inputs "
            f"({given}): {one_line(str(error))}",
            "Return one entry for each argument of forward from example_inputs().",
        ) from error
