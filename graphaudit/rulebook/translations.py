"""Which ATen operators torch's exporter writes in ONNX, and what it decomposes of itself where it does not.

Its registry is private to torch (2.9 to 2.13, torch/onnx/_internal/exporter/_registration.py and _dispatching.py).
Where that is not what it was, no operator is said to lack a translation, and the exporter's own error stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import torch
from torch import fx

from graphaudit.quiet import quiet
from graphaudit.rulebook.extra_translations import EXTRA
from graphaudit.rulebook.torch_registry import one_registry

# The exporter drops them: they say what sizes may be, and compute nothing.
_DROPPED = ("aten._assert", "aten.sym_constrain_range")
_TORCHS = ("aten", "prims")  # namespaces whose operators are looked up


def translation(node: fx.Node, opset: int) -> Callable[..., Any] | None:
    """The function that writes a call in ONNX; None where torch has none for it, on complex tensors for instance."""
    registry = _registry(opset)
    if registry is None:
        return None
    from torch.onnx._internal.exporter import _dispatching

    return _dispatching.dispatch(node, registry)[0]


def is_untranslated(node: fx.Node, opset: int) -> bool:
    """Whether a call of PyTorch's own operators stands in the way of a translation to ONNX, as it is written."""
    target = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload) or target.namespace not in _TORCHS:
        return False
    if target in EXTRA or str(target).startswith(_DROPPED) or _registry(opset) is None:
        return False
    return translation(node, opset) is None


def decomposition(target: Any) -> Callable[..., Any] | None:
    """What torch itself makes of an operator: its decomposition, or its reference implementation in Python."""
    return _decompositions().get(target)


def eager_twin(target: Any) -> Callable[..., Any] | None:
    """For an operator of torch's references (`prims.lgamma`), the function of ATen operators that is its eager twin."""
    if getattr(target, "namespace", "") != "prims":
        return None
    packet = getattr(torch._prims, str(target).split(".")[1], None)
    twin: Callable[..., Any] | None = getattr(packet, "impl_aten", None)
    return twin


@cache
def _registry(opset: int) -> Any:
    """torch's registry for an opset, None where it cannot be asked. Takes some tenths of a second, once."""
    try:
        from torch.onnx._internal.exporter import _constants, _registration

        with quiet(), one_registry():
            return _registration.ONNXRegistry.from_torchlib(opset_version=max(opset, _constants.TORCHLIB_OPSET))
    except Exception:  # private modules of another torch: any error means that they cannot be asked
        return None


@cache
def _decompositions() -> dict[Any, Callable[..., Any]]:
    """torch's decompositions, in the order in which its exporter prefers them."""
    first: Iterable[tuple[Any, Any]] = torch.export.default_decompositions().items()  # type: ignore[no-untyped-call]
    return {**torch._decomp.decomposition_table, **dict(first)}
