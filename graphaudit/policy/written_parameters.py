"""Parameters that forward writes to, fast weights say, are state: a copy of the policy holds them as buffers.

torch.export stops at a write to a parameter, and crashes over one through `.data`; a write to a buffer it can follow.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from torch import nn

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
