"""torch's table of ONNX translations, made once.

The exporter makes it anew for every model, from some 550 functions of onnxscript, and onnxscript parses the source of
each to tell its domain (torch 2.9 to 2.13, torch/onnx/_internal/exporter/_registration.py; onnxscript 0.7,
onnxscript/_internal/values.py). That is 0.7 s of processor time for the first model and 0.3 s for each other. The
modules are private: where they are not what they were, the exporter does as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch

# opset → the operators that PyTorch knew, because libraries that are imported later bring theirs, and the table
_made: dict[int, tuple[frozenset[str], Any]] = {}


@contextmanager
def one_registry() -> Iterator[None]:
    """While it lasts, each export gets a copy of one table."""
    try:
        from onnxscript._internal.values import TracedOnnxFunction
        from torch.onnx._internal.exporter._registration import ONNXRegistry

        make = ONNXRegistry.from_torchlib
        usual = ONNXRegistry().opset_version
    except (ImportError, AttributeError):
        yield
        return

    def copied(_: type, opset_version: int = usual) -> Any:
        operators = frozenset(torch._C._dispatch_get_all_op_names())
        if opset_version not in _made or _made[opset_version][0] != operators:
            with _replaced(TracedOnnxFunction, "function_ir", property(_only_the_domain)):
                _made[opset_version] = operators, make(opset_version)
        return _copy(_made[opset_version][1], ONNXRegistry)

    with _replaced(ONNXRegistry, "from_torchlib", classmethod(copied)):
        yield


@contextmanager
def _replaced(owner: type, name: str, value: Any) -> Iterator[None]:
    original = owner.__dict__[name]
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)


def _only_the_domain(function: Any) -> SimpleNamespace:
    return SimpleNamespace(domain=function.opset.domain)


def _copy(registry: Any, make: Callable[[], Any]) -> Any:
    """The same translations; what an export adds stays its own."""
    copy = make()
    copy._opset_version = registry._opset_version
    copy.functions = {target: list(metas) for target, metas in registry.functions.items()}
    return copy
