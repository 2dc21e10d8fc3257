"""The table of translations that exports share is torch's own, and none of them writes into it."""

from __future__ import annotations

import importlib

import torch
from torch.onnx._internal.exporter._registration import ONNXRegistry

from graphaudit.quiet import quiet
from graphaudit.rulebook.torch_registry import one_registry


def test_it_is_what_torch_makes():
    with quiet(), one_registry():
        ours = ONNXRegistry.from_torchlib(opset_version=18)
    with quiet():
        theirs = ONNXRegistry.from_torchlib(opset_version=18)
    assert ours.opset_version == theirs.opset_version == 18
    assert ours.functions.keys() == theirs.functions.keys() and len(ours.functions) > 400
    for target, metas in theirs.functions.items():
        assert [m.onnx_function for m in ours.functions[target]] == [m.onnx_function for m in metas]
        assert [m.signature for m in ours.functions[target]] == [m.signature for m in metas]


def test_operators_of_a_library_that_is_imported_later_are_in_it():
    with quiet(), one_registry():
        ONNXRegistry.from_torchlib(opset_version=18)
        importlib.import_module("torch.ao.quantization.fx._decomposed")
        ours = ONNXRegistry.from_torchlib(opset_version=18)
    assert ours.is_registered(torch.ops.quantized_decomposed.quantize_per_tensor.default)


def test_what_one_export_adds_is_not_there_in_the_next():
    with quiet(), one_registry():
        first = ONNXRegistry.from_torchlib(opset_version=18)
        number = len(first.get_decomps(torch.ops.aten.exp.default))
        first.register_op(torch.ops.aten.exp.default, lambda x: x)
        second = ONNXRegistry.from_torchlib(opset_version=18)
    assert len(first.get_decomps(torch.ops.aten.exp.default)) == number + 1
    assert len(second.get_decomps(torch.ops.aten.exp.default)) == number
    assert ONNXRegistry.from_torchlib.__module__.startswith("torch.")
