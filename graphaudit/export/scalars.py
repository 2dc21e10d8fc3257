"""Python numbers in such a form that torch's exporter keeps what they are.

- Floats in float64 arithmetic become float64 constants. The exporter writes them as float32 and casts (torch 2.13,
  aten::scalar_tensor of onnxscript's torchlib), which rounds 0.9 to 0.89999998.
- Integer bounds of a clamp that gives floats become floats. The exporter makes tensors of those that need another
  dtype (torch 2.13, torch/onnx/_internal/fx/passes/type_promotion.py) and then finds no clamp of a number and a tensor.
"""

from __future__ import annotations

import struct
from typing import Any

import torch
from torch import fx

from graphaudit.graphs.program import Program

aten = torch.ops.aten


def keep_numbers(program: Program) -> Program:
    """The program, or a copy with the numbers that the exporter would round or stumble over in another form."""
    if not any(_rounded(n) for n in program.graph.nodes) and not any(_integer_bounds(n) for n in _nodes(program)):
        return program
    exact = program.copy()
    for node in _nodes(exact):
        for position in _integer_bounds(node):
            node.update_arg(position, float(node.args[position]))  # type: ignore[arg-type]
    for node in list(exact.graph.nodes):
        for position in _rounded(node):
            constant = exact.add_constant(torch.tensor(node.args[position], dtype=torch.float64), "scalar")
            if node.target is aten.scalar_tensor.default:
                node.replace_all_uses_with(constant)
            else:
                node.target = _of_tensors(node)
                node.update_arg(position, constant)
    return exact.finish()


def _nodes(program: Program) -> list[fx.Node]:
    """Those of branches and loops too."""
    modules = program.exported.graph_module.modules()
    return [node for module in modules if isinstance(module, fx.GraphModule) for node in module.graph.nodes]


def _integer_bounds(node: fx.Node) -> list[int]:
    """Positions of the integers between which floats are clamped."""
    if node.target is not aten.clamp.default or not node.meta["val"].dtype.is_floating_point:
        return []
    return [i for i, a in enumerate(node.args) if isinstance(a, int)]


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
