"""Reading a graph backwards: what a value really is, behind the steps that do not change its numbers.

All of it works on the view of a captured program, so that a check and the pass that repairs it see the same thing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphaudit.graphs.view import GraphView, Node, Value

COPIES = frozenset({"aten.clone", "aten.alias", "aten.detach", "aten.contiguous", "aten.lift_fresh_copy"})
# Steps that keep the elements in row-major order and only change the shape around them.
RESHAPES = frozenset({"aten.view", "aten.reshape", "aten._unsafe_view", "aten.unsqueeze", "aten.squeeze"})

Shape = tuple[int | str, ...]


def base_op(node: Node | None) -> str:
    """`aten.exp` for `aten.exp.default`; empty for None."""
    if node is None:
        return ""
    return node.op.rpartition(".")[0] if node.op.count(".") == 2 else node.op


def is_copy(node: Node) -> bool:
    """Whether the result of `node` is its first input, number for number, in the same shape and dtype."""
    if not node.inputs or node.inputs[0] is None or not node.outputs:
        return False
    source, result, op = node.inputs[0], node.outputs[0], base_op(node)
    if op in COPIES:
        return True
    if op in ("aten._to_copy", "aten.to"):
        return source.dtype == result.dtype
    if op == "aten.dropout":
        return node.attributes.get("train") is False
    if op == "aten.slice":
        return is_full_slice(node)
    return op in RESHAPES | {"aten.expand"} and source.shape is not None and source.shape == result.shape


def is_full_slice(node: Node) -> bool:
    """Whether an `aten.slice` (or the window of an `aten.slice_scatter`) covers its whole dimension."""
    source = node.inputs[0]
    start, end, step = (node.attributes.get(k) for k in ("start", "end", "step"))
    if source is None or source.shape is None or not source.shape or start not in (None, 0) or step not in (None, 1):
        return False
    size = source.shape[int(node.attributes.get("dim", 0)) % len(source.shape)]
    return (
        end is None or end == size or (isinstance(end, int) and end >= (size if isinstance(size, int) else 2**63 - 1))
    )


def origin(view: GraphView, value: Value | None, through: Callable[[Node], bool] = is_copy) -> Value | None:
    """The first value that `value` is a copy of (or whatever `through` lets pass, by its first input)."""
    while value is not None:
        node = view.producer(value)
        if node is None or not through(node):
            return value
        value = node.inputs[0]
    return None


def producer(view: GraphView, value: Value | None) -> Node | None:
    """The node that computes a value, looking through copies."""
    return view.producer(origin(view, value))


def readers(view: GraphView, value: Value) -> list[Node]:
    """The nodes that read a value, looking through copies."""
    found: list[Node] = []
    for node in view.consumers(value):
        found.extend(readers(view, node.outputs[0]) if is_copy(node) else [node])
    return found


def is_same(view: GraphView, left: Value | None, right: Value | None) -> bool:
    """Whether two values hold the same numbers: one is a copy of the other, or one deterministic call computes both."""
    left, right = origin(view, left), origin(view, right)
    if left is None or right is None:
        return False
    if left.name == right.name:
        return True
    one, other = view.producer(left), view.producer(right)
    return (
        one is not None
        and other is not None
        and base_op(one) in _DETERMINISTIC
        and one.op == other.op
        and one.attributes == other.attributes
        and len(one.inputs) == len(other.inputs)
        and all((a is None and b is None) or is_same(view, a, b) for a, b in zip(one.inputs, other.inputs))
    )


# Calls that people write twice instead of naming the result.
_DETERMINISTIC = frozenset(
    f"aten.{name}"
    for name in (
        "exp", "log", "add", "sub", "rsub", "mul", "div", "neg", "abs", "pow", "square", "sqrt", "reciprocal", "clamp",
        "clamp_min", "clamp_max", "relu", "tanh", "sigmoid", "softplus", "softmax", "log_softmax", "linear", "matmul",
        "sum", "mean", "amax", "logsumexp", "linalg_vector_norm", "masked_fill", "where", "unsqueeze", "expand",
        "gt", "ge", "lt", "le", "eq", "ne", "logical_not", "bitwise_not", "_to_copy", "slice", "select",
    )
)  # fmt: skip


def operands(node: Node) -> tuple[Value | float, ...]:
    """Tensors and numbers that an element-wise binary node combines, in order (`self`, `other`)."""
    numbers = [node.attributes[k] for k in ("self", "other", "exponent") if _is_number(node.attributes.get(k))]
    tensors = [v for v in node.inputs if v is not None]
    first_is_number = _is_number(node.attributes.get("self"))
    return (*numbers, *tensors) if first_is_number else (*tensors, *numbers)


def number(view: GraphView, operand: Value | float | None) -> float | None:
    """The number behind a Python number or a constant whose elements are all the same; None for anything else."""
    if operand is None or not isinstance(operand, Value):
        return None if operand is None else float(operand)
    source = origin(view, operand, lambda n: is_copy(n) or base_op(n) in RESHAPES | {"aten.expand", "aten._to_copy"})
    array = source.array if source is not None else None
    if array is not None:
        return (
            float(array.flat[0])
            if array.size and array.dtype.kind in "fiub" and (array == array.flat[0]).all()
            else None
        )
    node = view.producer(source)
    if node is None:
        return None
    filled = {"aten.zeros": 0.0, "aten.ones": 1.0, "aten.zeros_like": 0.0, "aten.ones_like": 1.0}.get(base_op(node))
    if filled is None and base_op(node) in ("aten.full", "aten.full_like", "aten.scalar_tensor", "aten.fill"):
        given = node.attributes.get("fill_value", node.attributes.get("s", node.attributes.get("value")))
        filled = float(given) if _is_number(given) else None
    return filled


def reduced_dims(node: Node) -> tuple[int, ...] | None:
    """The dimensions that a reduction reduces, counted from 0, in order; None if the rank is unknown."""
    source = node.inputs[0] if node.inputs else None
    if source is None or source.shape is None:
        return None
    if base_op(node) == "aten.einsum":
        return _summed_indices(node)
    rank = len(source.shape)
    given = node.attributes.get("dim")
    if given is None or (isinstance(given, Sequence) and not given):
        return tuple(range(rank))
    dims = given if isinstance(given, Sequence) else (given,)
    return tuple(sorted(int(d) % max(rank, 1) for d in dims)) if rank else ()


def is_sum(node: Node | None) -> bool:
    """Whether a node adds up elements of its input: sum, or an einsum of one operand that only drops indices."""
    return node is not None and (
        base_op(node) == "aten.sum" or (base_op(node) == "aten.einsum" and _summed_indices(node) is not None)
    )


def _summed_indices(node: Node) -> tuple[int, ...] | None:
    """The dimensions that `einsum("bij->b", x)` sums over; None where it does anything else."""
    given, arrow, kept = str(node.attributes.get("equation", "")).replace(" ", "").partition("->")
    plain = arrow and given.isalpha() and len(set(given)) == len(given) and len(node.inputs) == 1
    if not plain or [c for c in given if c in kept] != list(kept):
        return None
    return tuple(i for i, index in enumerate(given) if index not in kept)


def kept_shape(shape: Shape, dims: Sequence[int]) -> Shape:
    """The shape after a reduction over `dims` with `keepdim=True`."""
    return tuple(1 if i in dims else size for i, size in enumerate(shape))


def reduction_behind(view: GraphView, value: Value | None, shape: Shape) -> tuple[Node, bool] | None:
    """The reduction whose result `value` is, however reshaped, and whether it lines up with what was reduced.

    It lines up if, against a tensor of `shape`, it broadcasts along the very dimensions that were reduced.
    """

    def reshapes(node: Node) -> bool:
        return is_copy(node) or base_op(node) in RESHAPES or base_op(node) == "aten.expand"

    node = view.producer(origin(view, value, reshapes))
    if node is not None and base_op(node) == "operator.getitem" and node.attributes.get("index") == 0:
        node = view.producer(node.inputs[0])
    # aten.max.other compares two tensors element by element.
    if node is None or value is None or node.op.endswith(".other"):
        return None
    dims = reduced_dims(node)
    if dims is None:
        return None
    while (step := view.producer(value)) is not None and (is_copy(step) or base_op(step) == "aten.expand"):
        value = step.inputs[0]
        assert value is not None
    return node, value.shape is not None and aligned(value.shape) == aligned(kept_shape(shape, dims))


def aligned(shape: Shape) -> Shape:
    """A shape without its leading ones: broadcasting fills those in, so they do not count."""
    leading = next((i for i, size in enumerate(shape) if size != 1), len(shape))
    return shape[leading:]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
