"""graphaudit: audit, rewrite and verify PyTorch policies before they leave the training cluster.

    report = graphaudit.audit(policy, example_inputs, target="ascend-310p")
    report = graphaudit.rewrite(policy, example_inputs, target="ascend-310p", output="walker-310p")
    act = graphaudit.load("walker-310p")

Importing the package imports nothing heavy; the functions import what they need when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphaudit.api import audit, rewrite
    from graphaudit.custom_ops import OnnxNode
    from graphaudit.custom_ops.register import register_custom_op
    from graphaudit.errors import GraphAuditError
    from graphaudit.export.load import load, verify
    from graphaudit.policy import Policy
    from graphaudit.policy.loading import load_policy
    from graphaudit.results import Report

__version__ = version("graphaudit")

_HOMES = {
    "audit": "graphaudit.api",
    "rewrite": "graphaudit.api",
    "load": "graphaudit.export.load",
    "verify": "graphaudit.export.load",
    "load_policy": "graphaudit.policy.loading",
    "Policy": "graphaudit.policy",
    "Report": "graphaudit.results",
    "GraphAuditError": "graphaudit.errors",
    "OnnxNode": "graphaudit.custom_ops",
    "register_custom_op": "graphaudit.custom_ops.register",
}

__all__ = [
    "GraphAuditError",
    "OnnxNode",
    "Policy",
    "Report",
    "__version__",
    "audit",
    "load",
    "load_policy",
    "register_custom_op",
    "rewrite",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'graphaudit' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
