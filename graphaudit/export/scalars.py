"""Python floats in float64 arithmetic as float64 constants.

torch's exporter writes them as float32 and casts (torch 2.13, aten::scalar_tensor of onnxscript's torchlib), which
rounds 0.9 to 0.89999998.
"""

from __future__ import annotations

import struct
from typing import Any

import torch
from torch import fx

from graphaudit.graphs.program import Program

aten = torch.ops.aten


def keep_doubles(program: Program) -> Program:
    """The program, or a copy in which every float that float32 would round is a constant where float64 is computed."""
    if not any(_rounded(node) for node in program.graph.nodes):
        return program
    exact = program.copy()
    for node in list(exact.graph.nodes):
        for position in _rounded(node):
            constant = exact.add_constant(torch.tensor(node.args[position], dtype=torch.float64), "scalar")
            if node.target is aten.scalar_tensor.default:
                node.replace_all_uses_with(constant)
            else:
                node.target = _of_tensors(node)
                node.update_arg(position, constant)
    return exact.finish()


def _rounded(node: fx.Node) -> list[int]:
    """Positions of the arguments that the exporter would round."""
    value = node.meta.get("val")
    if node.op != "call_function" or not isinstance(value, torch.Tensor):
        return []
    wide = [a for a in node.args if isinstance(a, fx.Node) and _dtype(a) is torch.float64]
    if node.target is aten.scalar_tensor.default:
        return [0] if value.dtype is torch.float64 and _loses(node.args[0]) else []
    if not wide or _of_tensors(node) is None:
        return []
    return [i for i, a in enumerate(node.args) if _loses(a) and i < 3]


def _of_tensors(node: fx.Node) -> Any:
    """The overload that takes tensors where `node` has numbers; None where there is none."""
    packet = getattr(node.target, "overloadpacket", None)
    overload = getattr(node.target, "_overloadname", "")
    if packet is None or overload not in _OVERLOADS:
        return None
    return getattr(packet, _OVERLOADS[overload], None)


_OVERLOADS = {"Tensor": "Tensor", "Scalar": "Tensor", "ScalarOther": "self", "ScalarSelf": "self", "self": "self"}


def _dtype(node: fx.Node) -> torch.dtype | None:
    return getattr(node.meta.get("val"), "dtype", None)


def _loses(value: Any) -> bool:
    """Whether float32 rounds a Python float."""
    if not isinstance(value, float) or value != value or abs(value) == float("inf"):
        return False
    try:
        return bool(struct.unpack("f", struct.pack("f", value))[0] != value)
    except OverflowError:
        return True
