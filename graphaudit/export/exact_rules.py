"""The exporter's optimiser removes `x + 0` and `x * 1`; here only where the number is 0 or 1 exactly.

Its rules take any number within 1e-8 of 0 for 0 and within 1e-5 of 1 for 1 (onnxscript 0.7,
onnxscript/rewriter/_pattern_ir.py, Constant), and so drop the 1e-8 of `x / (norm + 1e-8)`, and a discount of 0.999995.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from onnxscript import rewriter


@contextmanager
def exact_no_ops() -> Iterator[None]:
    """While it lasts, the optimiser's rules about a single 0 or 1 match that number alone."""
    patterns = list(_neutral_numbers())
    kept = [(p._rel_tol, p._abs_tol) for p in patterns]
    for pattern in patterns:
        pattern._rel_tol = pattern._abs_tol = 0.0
    try:
        yield
    finally:
        for pattern, tolerances in zip(patterns, kept, strict=True):
            pattern._rel_tol, pattern._abs_tol = tolerances


def _neutral_numbers() -> Iterator[Any]:
    """The patterns of a 0 or a 1 in the optimiser's rules; private to onnxscript, so none where it has changed."""
    for rule in getattr(rewriter, "_DEFAULT_REWRITE_RULES", ()):
        for node in getattr(rule, "_target_pattern", ()):
            for value in node.inputs:
                if getattr(value, "_value", None) in (0, 1) and hasattr(value, "_abs_tol"):
                    yield value
