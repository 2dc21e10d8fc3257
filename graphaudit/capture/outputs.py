"""Results that are Python numbers become tensors of the graph, and bfloat16 ones float32."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.export.graph_signature import ConstantArgument, OutputKind, SymIntArgument, TensorArgument

from graphaudit.graphs.program import Program


def with_tensor_outputs(program: Program) -> Program:
    """The program with each number among its results as a 0-d tensor, constant or computed from sizes, and with float32
    for bfloat16."""
    output = program.graph.output_node()
    results: list[Any] = list(output.args[0])  # type: ignore[arg-type]
    changed = False
    for index, spec in enumerate(program.exported.graph_signature.output_specs):
        if spec.kind is not OutputKind.USER_OUTPUT:
            continue
        if isinstance(spec.arg, ConstantArgument) and spec.arg.value is not None:
            results[index] = _copy_of(program, program.add_constant(torch.as_tensor(spec.arg.value), "result"), output)
        elif isinstance(spec.arg, SymIntArgument):
            with program.graph.inserting_before(output):
                call = torch.ops.aten.scalar_tensor.default
                results[index] = program.graph.call_function(call, (results[index],), {"dtype": torch.int64})
                results[index].meta["val"] = torch.empty((), dtype=torch.int64)
        elif isinstance(spec.arg, TensorArgument) and results[index].meta["val"].dtype is torch.bfloat16:
            narrow = results[index]
            with program.graph.inserting_before(output):
                call = torch.ops.aten._to_copy.default
                results[index] = program.graph.call_function(call, (narrow,), {"dtype": torch.float32})
                results[index].meta = {**narrow.meta, "val": narrow.meta["val"].to(torch.float32)}
        else:
            continue
        spec.arg = TensorArgument(results[index].name)
        changed = True
    if changed:
        output.args = (tuple(results),)
        program.finish()
    return program


def _copy_of(program: Program, constant: fx.Node, output: fx.Node) -> fx.Node:
    with program.graph.inserting_before(output):
        node = program.graph.call_function(torch.ops.aten.clone.default, (constant,))
    node.meta["val"] = constant.meta["val"]
    return node
