"""Whose operator a node calls. Imports nothing heavy."""

from __future__ import annotations

# Namespaces of torch's own operators, the Python functions on sizes that torch.export leaves in graphs, and ours.
_OWN = frozenset(
    {"aten", "prims", "prim", "torch", "builtins", "operator", "math", "quantized", "quantized_decomposed"}
    | {"higher_order", "profiler", "inductor", "onednn", "mkldnn", "symm_mem", "export", "graphaudit"}
)


def is_custom(domain: str) -> bool:
    """Whether `domain`, the namespace of an operator of an FX graph, is neither PyTorch's nor graphaudit's."""
    return domain not in _OWN
