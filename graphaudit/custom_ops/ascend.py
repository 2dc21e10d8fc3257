"""The start of a plugin that teaches Ascend's ATC what the node of a registered operator is.

Facts: the folders onnx_plugin and op_proto of Ascend/canndev and Ascend/samples (REGISTER_CUSTOM_OP, REG_OP,
ParseParamsByOperatorFn, IMPLEMT_COMMON_INFERFUNC). Attributes arrive as JSON, floats as numbers or, in newer releases,
as strings; zeros are left out. Nothing of it is compiled or run here: that takes CANN's toolkit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from graphaudit.custom_ops.files import write_new
from graphaudit.custom_ops.registry import CustomOp
from graphaudit.errors import CustomOpError

_NOTICE = """\
// A SKELETON, made by graphaudit for the operator {name}. It was neither compiled nor run.
// What is left to do is marked TODO; the kernel itself is not here.
"""
_HELPER = """\
static float ToFloat(const nlohmann::json& value) {
  return value.is_string() ? std::stof(value.get<std::string>()) : value.get<float>();
}

"""
_DTYPES = {
    torch.float32: "DT_FLOAT",
    torch.float16: "DT_FLOAT16",
    torch.float64: "DT_DOUBLE",
    torch.bfloat16: "DT_BF16",
    torch.int8: "DT_INT8",
    torch.int32: "DT_INT32",
    torch.int64: "DT_INT64",
    torch.uint8: "DT_UINT8",
    torch.bool: "DT_BOOL",
}
# The type of an argument in a schema → its type in REG_OP, its type in C++, and how one value is read from the JSON.
_FLOAT = "ToFloat({})"
_ATTRIBUTES = {
    "bool": ("Bool", "bool", "i", "{}.get<int64_t>() != 0"),
    "int": ("Int", "int64_t", "i", "{}.get<int64_t>()"),
    "float": ("Float", "float", "f", _FLOAT),
    "str": ("String", "std::string", "s", "{}.get<std::string>()"),
    "List[bool]": ("ListBool", "bool", "ints", "{}.get<int64_t>() != 0"),
    "List[int]": ("ListInt", "int64_t", "ints", "{}.get<int64_t>()"),
    "List[float]": ("ListFloat", "float", "floats", _FLOAT),
}


def write_skeleton(custom: CustomOp, folder: Path) -> list[Path]:
    """Write `TYPE_plugin.cc`, for ATC's parser, and `TYPE_proto.cc`, which declares the op type.

    Raises CustomOpError for an operator without a node, OutputError where a file exists.
    """
    if custom.onnx is None:
        raise CustomOpError(f"{custom.name} becomes no node", "Register it with onnx=OnnxNode(...).")
    stem = custom.onnx.op_type
    return write_new(folder, {f"{stem}_plugin.cc": plugin(custom), f"{stem}_proto.cc": proto(custom)})


def plugin(custom: CustomOp) -> str:
    """The registration of the node with ATC's parser for ONNX."""
    assert custom.onnx is not None
    op_type, parse = custom.onnx.op_type, _parse(custom)
    helper = _HELPER if "ToFloat" in parse else ""
    return f"""\
{_NOTICE.format(name=custom.name)}
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "register/register.h"

namespace domi {{
{helper}// ATC hands over the attributes of the ONNX node as JSON. A value of zero is left out of it.
static Status ParseParams{op_type}(const ge::Operator& source, ge::Operator& made) {{
{parse}  return SUCCESS;
}}

REGISTER_CUSTOM_OP("{op_type}")
    .FrameworkType(ONNX)
    .OriginOpType({{ge::AscendString("{custom.onnx.origin_type}")}})
    .ParseParamsByOperatorFn(ParseParams{op_type})
    .ImplyType(ImplyType::TVM);  // TODO: the kind of kernel that you have
}}  // namespace domi
"""


def proto(custom: CustomOp) -> str:
    """The op type: inputs, outputs and attributes, with the dtypes of the registered examples."""
    assert custom.onnx is not None
    op_type, results = custom.onnx.op_type, _results(custom)
    names = ["y"] if len(results) == 1 else [f"y{index}" for index in range(len(results))]
    given = dict(zip((a.name for a in custom.op._schema.arguments), custom.examples[0]))
    lines = [f"    .INPUT({name}, TensorType({{{_dtype(given[name])}}}))" for name in custom.tensors]
    lines += [f"    .OUTPUT({name}, TensorType({{{_dtype(value)}}}))" for name, value in zip(names, results)]
    kinds = {a.name: str(a.type) for a in custom.op._schema.arguments}
    lines += [f"    .REQUIRED_ATTR({name}, {_ATTRIBUTES[kinds[name]][0]})" for name in custom.attributes]
    declared = "\n".join(lines)
    return f"""\
{_NOTICE.format(name=custom.name)}
#include "graph/operator_reg.h"

namespace ge {{
// The dtypes are those of the examples that the operator was registered with.
REG_OP({op_type})
{declared}
    .OP_END_FACTORY_REG({op_type})

IMPLEMT_COMMON_INFERFUNC({op_type}InferShape) {{
  // TODO: set shape and dtype of {", ".join(names)} with op.UpdateOutputDesc, and return GRAPH_SUCCESS.
  return GRAPH_FAILED;
}}

COMMON_INFER_FUNC_REG({op_type}, {op_type}InferShape);
}}  // namespace ge
"""


def _parse(custom: CustomOp) -> str:
    kinds = {a.name: str(a.type) for a in custom.op._schema.arguments}
    if not custom.attributes:
        return "  // The node has no attributes.\n"
    read: list[str] = []
    declared: list[str] = []
    for name in custom.attributes:
        _, kind, field, expression = _ATTRIBUTES[kinds[name]]
        several, value = kinds[name].startswith("List["), f'attribute["{field}"]'
        declared.append(f"  std::vector<{kind}> {name};" if several else f"  {kind} {name}{{}};")
        taken = (
            f"for (const auto& item : {value}) {name}.push_back({expression.format('item')});"
            if several
            else f"{name} = {expression.format(value)};"
        )
        read.append(
            f'    if (attribute["name"] == "{name}" && attribute.contains("{field}")) {{\n      {taken}\n    }}'
        )
    return "\n".join(
        [
            *declared,
            "  ge::AscendString text;",
            '  if (source.GetAttr("attribute", text) != ge::GRAPH_SUCCESS) return FAILED;',
            "  const nlohmann::json node = nlohmann::json::parse(text.GetString());",
            '  for (const auto& attribute : node["attribute"]) {',
            *read,
            "  }",
            *(f'  made.SetAttr("{name}", {name});' for name in custom.attributes),
            "",
        ]
    )


def _results(custom: CustomOp) -> list[torch.Tensor]:
    with torch.no_grad():
        result: Any = custom.op(*custom.examples[0])
    return [result] if isinstance(result, torch.Tensor) else list(result)


def _dtype(tensor: torch.Tensor) -> str:
    if tensor.dtype not in _DTYPES:
        raise CustomOpError(f"ATC has no dtype {tensor.dtype}", "Register the operator with other examples.")
    return _DTYPES[tensor.dtype]
