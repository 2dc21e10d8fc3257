"""Parameters that forward writes to, fast weights say, are state: a copy of the policy holds them as buffers.

torch.export stops at a write to a parameter, and crashes over one through `.data`; a write to a buffer it can follow.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from graphaudit.policy.isolation import private_copy
from graphaudit.policy.policy import Policy


def with_buffers_for(policy: Policy, names: Collection[str]) -> Policy | None:
    """The policy over a copy of its module in which those parameters are buffers; None where that cannot be.

    A parameter may have two names, a recurrent layer of torch's keeps its weights in a list of its own as well, and
    some modules cannot be copied.
    """
    copied = private_copy(policy.module, policy.gradients)
    held = [(part, n, p) for part in copied.module.modules() for n, p in part._parameters.items() if p is not None]
    named = dict(copied.module.named_parameters())
    written = {id(named[name]) for name in names if name in named}
    found = [(part, n, p) for part, n, p in held if id(p) in written]
    if not copied.is_copy or len(found) != len(names) or any(isinstance(part, nn.RNNBase) for part, *_ in found):
        return None
    for part, name, parameter in found:
        del part._parameters[name]
        part.register_buffer(name, parameter.detach().clone())
    return replace(policy, module=copied.module)


class DataAsAlias(TorchFunctionMode):
    """`t.data` is an alias of `t`, and `t.data = x` copies x into t: what eager does, in operators of a graph."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func == torch.Tensor.data.__get__:  # type: ignore[attr-defined]
            return args[0].detach()
        if func == torch.Tensor.data.__set__:  # type: ignore[attr-defined]
            given, value = args
            if value.shape != given.shape:
                raise ValueError(f"data of shape {tuple(value.shape)} for a tensor of shape {tuple(given.shape)}")
            given.detach().copy_(value)
            return None
        return func(*args, **(kwargs or {}))
