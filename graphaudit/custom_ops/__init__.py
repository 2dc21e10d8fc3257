"""Operators of the user's own: registered with torch, compared with a plain version, and found by their name later."""

from graphaudit.custom_ops.registry import CustomOp, OnnxNode, find, node_of, registered

__all__ = ["CustomOp", "OnnxNode", "find", "node_of", "registered"]
