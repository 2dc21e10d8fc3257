"""Running a user's module without leaving a trace on it.

`private_copy` gives an exact copy in eval mode that is put back to its initial state before every call: buffers,
parameters, plain attributes, containers of attributes, generators. Where a module cannot be copied, the user's own is
used, and what a call changed is put back, training flags included.
"""

from __future__ import annotations

import copy
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from graphaudit.errors import PolicyError
from graphaudit.policy.closures import rebind
from graphaudit.policy.held import HeldGenerators, library_generators
from graphaudit.policy.usercode import is_users

_CONTAINERS = (list, dict, set, deque)
_FOR_WANT_OF_GRADIENTS = "does not require grad and does not have a grad_fn"  # torch.autograd under no_grad


class Snapshot:
    """The state of a module: parameters, buffers, attributes, training flags; and how to put it back."""

    def __init__(self, module: nn.Module) -> None:
        self._dicts = [(m.__dict__, dict(m.__dict__)) for m in module.modules()]
        self._containers: list[tuple[Any, Any]] = []
        self._tensors: list[tuple[torch.Tensor, torch.Tensor, int]] = []
        self._arrays: list[tuple[NDArray[Any], NDArray[Any]]] = []
        self._generators = HeldGenerators(module)
        seen: set[int] = set()
        for _, attributes in list(self._dicts):
            for value in attributes.values():
                self._keep(value, seen)

    def restore(self) -> None:
        """Put all back: attributes, containers, generators, and tensors where they were written to."""
        for live, saved in self._dicts:
            if live.keys() != saved.keys() or any(live[k] is not v for k, v in saved.items()):
                live.clear()
                live.update(saved)
        for container, items in self._containers:
            if not _same_items(container, items):
                container.clear()
                container.extend(items) if isinstance(container, list | deque) else container.update(items)
        for array, items in self._arrays:
            np.copyto(array, items)
        for index, (tensor, values, version) in enumerate(self._tensors):
            if tensor._version != version or not (tensor.is_meta or torch.equal(tensor, values)):
                with torch.no_grad():
                    tensor.copy_(values)
                self._tensors[index] = (tensor, values, tensor._version)

        self._generators.put_back()

    def changed(self) -> list[str]:
        """Names of the tensors that were written to since the snapshot or the last restore (for messages)."""
        return [str(tuple(t.shape)) for t, _, version in self._tensors if t._version != version]

    def _keep(self, value: Any, seen: set[int]) -> None:
        if id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            # An inference tensor has no version counter and cannot be written to outside inference mode.
            if not value.is_inference():
                self._tensors.append((value, value.detach().clone(), value._version))
        elif isinstance(value, np.ndarray) and value.flags.writeable and value.dtype.kind in "biuf":
            self._arrays.append((value, value.copy()))
        elif isinstance(value, _CONTAINERS):
            self._containers.append((value, copy.copy(value)))
            for item in value.values() if isinstance(value, dict) else list(value):
                if not isinstance(item, nn.Module):
                    self._keep(item, seen)
        elif isinstance(value, tuple):
            for item in value:
                if not isinstance(item, nn.Module):
                    self._keep(item, seen)
        elif is_users(value) and not isinstance(value, nn.Module | type):
            attributes = vars(value)
            self._dicts.append((attributes, dict(attributes)))
            for item in attributes.values():
                if not isinstance(item, nn.Module):
                    self._keep(item, seen)


class Working:
    """A module to run as often as needed, each time from the same initial state."""

    def __init__(self, module: nn.Module, *, is_copy: bool, gradients: bool = False) -> None:
        self.module = module
        self.is_copy = is_copy
        self.gradients = gradients  # whether forward takes some, and leaves it to the caller to have them on
        self._snapshot = Snapshot(module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run forward on clones of the arguments, from the initial state; without gradients, unless forward raises for
        want of them."""
        try:
            return self._run(args, kwargs)
        except RuntimeError as error:
            if self.gradients or _FOR_WANT_OF_GRADIENTS not in str(error):
                raise
        self.gradients = True
        return self._run(args, kwargs)

    def _run(self, args: Any, kwargs: Any) -> Any:
        with self.fresh() as module:
            return module(*clone_tensors(args), **clone_tensors(kwargs))

    @contextmanager
    def fresh(self) -> Iterator[nn.Module]:
        """The module in its initial state and in eval mode; afterwards it is put back. Gradients are on if it needs
        them."""
        flags = [(m, m.training) for m in self.module.modules()]
        self._snapshot.restore()
        for m, _ in flags:
            m.training = False
        try:
            with torch.set_grad_enabled(self.gradients), _uncompiled():
                yield self.module
        finally:
            self._snapshot.restore()
            for m, training in flags:
                m.training = training

    def steps(self, calls: Sequence[Sequence[Any]]) -> list[Any]:
        """Run several calls in a row without resetting in between."""
        with self.fresh() as module:
            return [module(*clone_tensors(args)) for args in calls]


def _uncompiled() -> AbstractContextManager[Any]:
    """What `torch.compile` was applied to runs as it is written, inside: compiling it anew takes minutes, and its
    kernels round otherwise."""
    # Nothing is compiled where torch._dynamo was never imported; importing it takes seconds.
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()


def private_copy(module: nn.Module, gradients: bool = False) -> Working:
    """A `Working` over a deep copy of `module`, or over `module` itself where it cannot be copied."""
    try:
        copied = _deep_copy(module)
    except Exception:  # a lock, a file, an iterator among the attributes: any exception the object likes
        return Working(module, is_copy=False, gradients=gradients)
    return Working(copied, is_copy=True, gradients=gradients)


def _shared() -> dict[int, Any]:
    """What a copy has in common with the original: a global generator that it holds stays the global one."""
    return {id(generator): generator for generator in library_generators()}


def double_copy(module: nn.Module) -> nn.Module | None:
    """A deep copy in float64, or None where the module cannot be copied."""
    try:
        copied = _deep_copy(module).double()
        for m in copied.modules():
            for name, value in list(m.__dict__.items()):
                if isinstance(value, torch.Tensor) and value.is_floating_point():
                    m.__dict__[name] = value.double()
        return copied
    except Exception:  # as in private_copy
        return None


def _deep_copy(module: nn.Module) -> nn.Module:
    memo = _shared()
    with _CopyNonLeaves(), torch.no_grad():
        copied = copy.deepcopy(module, memo)
    rebind(copied, memo)
    return copied


def clone_tensors(tree: Any) -> Any:
    """The same structure with every tensor cloned, so that a policy that writes to its input leaves the original."""
    return pytree.tree_map(lambda t: t.detach().clone() if isinstance(t, torch.Tensor) else t, tree)


class Fingerprint:
    """Identity and content of a module's parts, to show that nothing touched it."""

    def __init__(self, module: nn.Module) -> None:
        self._before = self._take(module)
        self._module = module

    def verify(self) -> None:
        """Raise PolicyError if the module is not as it was."""
        after = self._take(self._module)
        for key, value in self._before.items():
            if after.get(key) != value:
                raise PolicyError(f"the policy's {key} changed while graphaudit ran it", "Please report this as a bug.")

    @staticmethod
    def _take(module: nn.Module) -> Mapping[str, Any]:
        hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
        return {
            "parameters": [(n, p.data_ptr(), p._version, p.requires_grad) for n, p in module.named_parameters()],
            "buffers": [(n, b.data_ptr(), None if b.is_inference() else b._version) for n, b in module.named_buffers()],
            "training flags": [m.training for m in module.modules()],
            "hooks": [tuple(map(id, getattr(m, h).values())) for m in module.modules() for h in hooks],
        }


class _CopyNonLeaves(TorchFunctionMode):
    """Lets deepcopy take tensors that are results of a computation (a cached distribution, say)."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.__deepcopy__ and not args[0].is_leaf:
            tensor, memo = args
            if id(tensor) not in memo:
                memo[id(tensor)] = tensor.detach().clone()
            return memo[id(tensor)]
        return func(*args, **(kwargs or {}))


def _same_items(left: Any, right: Any) -> bool:
    if len(left) != len(right):
        return False
    if isinstance(left, dict):
        return all(k in left and left[k] is v for k, v in right.items())
    return all(a is b for a, b in zip(left, right)) if isinstance(left, list | deque) else left == right


@contextmanager
def other_forward(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """While it lasts, a call of `module` runs `forward`. One set on the object itself comes back afterwards."""
    own = vars(module).get("forward")
    vars(module)["forward"] = forward
    try:
        yield
    finally:
        vars(module).pop("forward", None)
        if own is not None:
            vars(module)["forward"] = own
