"""What an operator's schema says of its inputs, outputs and attributes, and whether a node fits it.

Both `onnx.defs` and ONNX Runtime's own schema registry become signatures, so that a node is judged in one place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphaudit.graphs.view import Node, Value

_ELEMENTS = {"float": "float32", "double": "float64"}
_FLOAT8 = re.compile(r"^(float\d)(e\d+m\d+\w*)$")


@dataclass(frozen=True)
class Parameter:
    """A formal input or output; values of the same `variable` have the same dtype."""

    name: str
    variable: str
    variadic: bool
    homogeneous: bool


@dataclass(frozen=True)
class Signature:
    """One version of an operator. `types` maps each type variable to the dtypes that it may be."""

    op: str
    domain: str
    since: int
    deprecated: bool
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    types: dict[str, frozenset[str]]
    attributes: frozenset[str]
    required: frozenset[str]
    input_counts: tuple[int, int]
    output_counts: tuple[int, int]

    def bound(self, node: Node) -> Iterator[tuple[Parameter, Value]]:
        """Every input and output that the node has, with its formal parameter."""
        for parameters, values in ((self.inputs, node.inputs), (self.outputs, node.outputs)):
            for index, value in enumerate(values):
                if value is not None and value.name and parameters:
                    yield parameters[min(index, len(parameters) - 1)], value

    def dtypes(self, node: Node) -> Iterator[tuple[Parameter, str | None]]:
        """The dtype of every input and output, where need be from another one of the same type variable."""
        bound = list(self.bound(node))
        known = {p.variable: v.dtype for p, v in bound if v.dtype is not None and p.homogeneous}
        for parameter, value in bound:
            yield parameter, value.dtype or (known.get(parameter.variable) if parameter.homogeneous else None)

    def misfit(self, node: Node) -> str | None:
        """Why the node is not valid under this schema, or None."""
        if self.deprecated:
            return f"{self.op} is deprecated since opset {self.since}"
        for what, values, (least, most) in (
            ("inputs", node.inputs, self.input_counts),
            ("outputs", node.outputs, self.output_counts),
        ):
            if not least <= len(values) <= most:
                return f"{self.op} at opset {node.opset} takes {_span(least, most)} {what}, not {len(values)}"
        unknown = sorted(set(node.attributes) - self.attributes)
        if unknown:
            return f"{self.op} has no attribute {unknown[0]!r} at opset {node.opset}"
        missing = sorted(self.required - set(node.attributes))
        if missing:
            return f"{self.op} lacks its attribute {missing[0]!r}"
        return self._dtype_misfit(node)

    def _dtype_misfit(self, node: Node) -> str | None:
        chosen: dict[str, str] = {}
        for parameter, value in self.bound(node):
            allowed = self.types.get(parameter.variable)
            if value.dtype is None or allowed is None:
                continue
            if value.dtype not in allowed:
                return f"{self.op} at opset {node.opset} takes no {value.dtype} for {parameter.name}"
            if parameter.homogeneous and chosen.setdefault(parameter.variable, value.dtype) != value.dtype:
                first = chosen[parameter.variable]
                return f"{self.op} takes {parameter.name} in the dtype of its other inputs ({first}), not {value.dtype}"
        return None


def signature_of(schema: Any) -> Signature:
    """The signature of an `onnx.defs.OpSchema` or of one of ONNX Runtime's, which spells two fields differently."""
    constraints = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    inputs, outputs = _parameters(schema.inputs), _parameters(schema.outputs)
    types = {name: frozenset(map(dtype_of, strings)) for name, strings in constraints.items()}
    for parameter in (*inputs, *outputs):  # a parameter of one fixed type has the type in the variable's place
        types.setdefault(parameter.variable, frozenset([dtype_of(parameter.variable)]))
    return Signature(
        op=schema.name,
        domain=schema.domain,
        since=schema.since_version,
        deprecated=schema.deprecated,
        inputs=inputs,
        outputs=outputs,
        types=types,
        attributes=frozenset(schema.attributes),
        required=frozenset(n for n, a in schema.attributes.items() if a.required),
        input_counts=(schema.min_input, schema.max_input),
        output_counts=(schema.min_output, schema.max_output),
    )


@cache
def dtype_of(type_string: str) -> str:
    """`tensor(float)` → `float32`, `seq(tensor(int64))` → `seq(int64)`."""
    outer, _, rest = type_string.partition("(")
    if not rest:
        match = _FLOAT8.match(type_string)
        return f"{match[1]}_{match[2]}" if match else _ELEMENTS.get(type_string, type_string)
    inner = dtype_of(rest.removesuffix(")"))
    return inner if outer == "tensor" else f"{outer}({inner})"


def _parameters(formal: Sequence[Any]) -> tuple[Parameter, ...]:
    return tuple(
        Parameter(
            name=p.name,
            variable=p.type_str if hasattr(p, "type_str") else p.typeStr,
            variadic=p.option.name == "Variadic",
            homogeneous=p.is_homogeneous if hasattr(p, "is_homogeneous") else p.isHomogeneous,
        )
        for p in formal
    )


def _span(least: int, most: int) -> str:
    return str(least) if least == most else f"{least} or more" if most > 1000 else f"{least} to {most}"
