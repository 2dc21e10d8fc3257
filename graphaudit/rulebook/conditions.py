"""When a limit of a target file applies to a node. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from graphaudit.graphs.view import Node, Value


class When(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """All parts that are given must hold.

    opsets              the node's opset lies in [low, high]
    attribute           the attribute, which is `default` where the node does not set it, is one of `among`, is none of
                        `besides` (whatever it is, where neither is given: it is set), or has a number `above` a bound
    omitted             the inputs of these indices are all left out
    output              the output of that index is asked for
    input               the input of that index is given, has a rank outside [low, high] (`rank_outside`), and is no
                        constant (`variable`)
    dtypes              the input's dtype, or without `input` any dtype at the node, is one of these
    """

    opsets: tuple[int, int] | None = None
    attribute: str | None = None
    default: Any = None
    among: tuple[Any, ...] | None = None
    besides: tuple[Any, ...] | None = None
    above: float | None = None
    omitted: tuple[int, ...] = ()
    output: int | None = None
    input: int | None = None
    rank_outside: tuple[int, int] | None = None
    variable: bool = False
    dtypes: tuple[str, ...] = ()

    def holds(self, node: Node) -> bool | None:
        """Whether it applies; None where a dtype, a rank or an opset is not known."""
        parts = list(self._parts(node))
        if False in parts:
            return False
        return None if None in parts else True

    @property
    def is_about_the_node(self) -> bool:
        """Whether another node of the same operator and dtypes could escape it."""
        return self.attribute is not None or bool(self.omitted) or self.output is not None or self.variable

    def spelled(self) -> str:
        """The condition in words: `at opset 11 to 18, where mode is none of 'linear'`."""
        return ", ".join(self._words())

    def _words(self) -> Iterator[str]:
        if self.opsets is not None:
            yield f"at opset {spelled_range(*self.opsets)}"
        if self.attribute is not None:
            name = self.attribute
            if self.among is not None:
                yield f"where {name} is {_options(self.among)}"
            elif self.above is not None:
                yield f"where {name} is above {self.above:g}"
            else:
                yield f"where {name} is none of {_options(self.besides)}" if self.besides else f"where {name} is set"
        if self.omitted:
            yield f"without input {' and '.join(map(str, self.omitted))}"
        if self.output is not None:
            yield f"with output {self.output}"
        if self.input is not None:
            yield f"with input {self.input}" + ("" if not self.variable else " that is no constant")
            if self.rank_outside is not None:
                yield f"whose rank is outside {spelled_range(*self.rank_outside)}"
        if self.dtypes:
            yield f"in {', '.join(self.dtypes)}"

    def faults(self) -> Iterator[str]:
        """What makes the condition meaningless."""
        about_attribute = (self.among, self.besides, self.above, self.default)
        if self.attribute is None and any(part is not None for part in about_attribute):
            yield "a condition on an attribute names no `attribute`"
        if self.input is None and (self.rank_outside or self.variable):
            yield "a condition on an input names no `input`"

    def _parts(self, node: Node) -> Iterator[bool | None]:
        if self.opsets is not None:
            yield None if node.opset is None else self.opsets[0] <= node.opset <= self.opsets[1]
        if self.attribute is not None:
            yield self._attribute_holds(node.attributes.get(self.attribute, self.default))
        if self.omitted:
            yield all(_input(node, index) is None for index in self.omitted)
        if self.output is not None:
            yield any(v.name for v in node.outputs[self.output : self.output + 1])
        if self.input is not None:
            yield from self._input_parts(_input(node, self.input))
        elif self.dtypes:
            yield self._dtype_holds(v for v in (*node.inputs, *node.outputs) if v is not None and v.name)

    def _attribute_holds(self, value: Any) -> bool:
        if self.among is not None:
            return same(value, self.among)
        if self.above is not None:
            return any(v > self.above for v in (value if isinstance(value, list) else [value]) if v is not None)
        return value is not None and not same(value, self.besides or ())

    def _input_parts(self, value: Value | None) -> Iterator[bool | None]:
        if value is None:
            yield False
            return
        if self.variable:
            yield not value.is_constant
        if self.rank_outside is not None:
            low, high = self.rank_outside
            yield None if value.shape is None else not low <= len(value.shape) <= high
        if self.dtypes:
            yield self._dtype_holds([value])

    def _dtype_holds(self, values: Iterable[Value]) -> bool | None:
        dtypes = {v.dtype for v in values}
        if dtypes & set(self.dtypes):
            return True
        return None if None in dtypes else False


def _input(node: Node, index: int) -> Value | None:
    return node.inputs[index] if index < len(node.inputs) else None


def spelled_range(low: int, high: int) -> str:
    """`8 to 18`, or `8` where both ends are the same."""
    return str(low) if low == high else f"{low} to {high}"


def _options(values: Iterable[Any]) -> str:
    return " or ".join("not set" if v is None else repr(v) for v in values)


def same(value: Any, options: Iterable[Any]) -> bool:
    """Whether an attribute's value is one of `options`; tuples and lists of equal items are the same."""
    plain = list(value) if isinstance(value, list | tuple) else value
    return any(plain == (list(o) if isinstance(o, list | tuple) else o) for o in options)
