"""What the numeric checks share: the limits of the floating-point dtypes, and questions about a captured graph.

Numbers are those of IEEE 754 binary16, binary32, binary64 and of bfloat16. Imports nothing heavy at its top.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject
    from graphaudit.graphs.view import GraphView, Node, Value

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64")
# ln of the largest finite number: exp of anything above it is infinite.
EXP_LIMIT = {"float16": 11.09, "bfloat16": 88.72, "float32": 88.72, "float64": 709.78}
# The spacing of numbers just below 1: closer to 1 than half of it rounds to 1.
SPACING_BELOW_ONE = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
LARGEST_FLOAT16 = 65504.0
SMALLEST_FLOAT16 = 2.0**-24  # 5.96e-8, the smallest subnormal

ARITHMETIC = frozenset(
    f"aten.{name}"
    for name in (
        "add", "sub", "rsub", "mul", "div", "floor_divide", "remainder", "fmod", "pow", "abs", "neg", "sum", "prod",
        "cumsum", "cumprod", "clamp", "minimum", "maximum", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not",
        "bitwise_left_shift", "bitwise_right_shift", "__lshift__", "__rshift__", "sign", "square",
    )
)  # fmt: skip


def computing_dtype(subject: Subject, dtype: str | None) -> str:
    """The dtype in which the target computes what the graph computes in `dtype`."""
    narrowed = subject.rulebook is not None and subject.rulebook.target.compute_dtype == "float16"
    return "float16" if narrowed and dtype == "float32" else dtype or "float32"


def in_target(subject: Subject, dtype: str) -> str:
    """`float16 (ascend-310p computes float32 graphs in it unless told otherwise)`, or the dtype alone."""
    narrowed = subject.rulebook is not None and subject.rulebook.target.compute_dtype == dtype == "float16"
    return f"{dtype} ({subject.target} computes float32 graphs in it unless told otherwise)" if narrowed else dtype


def result_dtype(node: Node) -> str | None:
    """The dtype of a node's first output."""
    return node.outputs[0].dtype if node.outputs else None


def input_dtypes(node: Node) -> list[str]:
    """The dtypes of the tensors that a node reads."""
    return [v.dtype for v in node.inputs if v is not None and v.dtype is not None]


def varying(view: GraphView) -> set[str]:
    """Names of the values that depend on an input of the graph, or on a draw."""
    from graphaudit.graphs.masks import varying as names

    return names(view)


def depends_on_input(names: set[str], node: Node) -> bool:
    """Whether a node reads a value that varies (`names` comes from `varying`)."""
    return any(v is not None and v.name in names for v in node.inputs)


def entries(view: GraphView, dtype: str) -> Iterator[tuple[str, Node | None, Value]]:
    """Where tensors of `dtype` come into the graph: `input`, `parameter`, or the `step` that first makes one."""
    for value in view.inputs:
        if value.dtype == dtype:
            yield "input", next(iter(view.consumers(value)), None), value
    seen: set[str] = set()
    for node in view.nodes:
        for read in node.inputs:
            if read is not None and read.is_constant and read.dtype == dtype and read.name not in seen:
                seen.add(read.name)
                yield "parameter", node, read
        if result_dtype(node) == dtype and dtype not in input_dtypes(node):
            yield "step", node, node.outputs[0]


def constants(view: GraphView) -> Iterator[tuple[Node, float]]:
    """Every Python number in a floating-point operation, with its node: addends, factors, fill values, epsilons."""
    for node in view.nodes:
        if result_dtype(node) not in FLOATS:
            continue
        for name in ("other", "self", "value", "fill_value", "eps", "s"):
            number = node.attributes.get(name)
            if isinstance(number, int | float) and not isinstance(number, bool):
                yield node, float(number)
