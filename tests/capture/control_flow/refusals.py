"""Functions that masks cannot express; the line that a refusal has to name is marked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from tests.capture.control_flow.constructs import Holder


def shapes_differ(self: Holder, x: torch.Tensor) -> torch.Tensor:
    if x[0] > 0:  # refused: shapes
        return x[:2]
    return x


def kinds_differ(self: Holder, x: torch.Tensor) -> torch.Tensor:
    mode = "abs"
    if x[0] > 0:  # refused: 'exp' and 'abs'
        mode = "exp"
    names = [mode]
    return getattr(torch, names[0])(x) if len({mode}) else x


def list_becomes_a_tensor(self: Holder, x: torch.Tensor) -> torch.Tensor:
    out = [x]
    if x[0] > 0:
        out.append(x)
    return torch.stack(out).sum(0)  # refused: list whose length


def unbounded_while(self: Holder, x: torch.Tensor) -> torch.Tensor:
    while x.norm() > 1:  # refused: nothing bounds
        x = x * 0.5
    return x


def unbounded_range(self: Holder, x: torch.Tensor) -> torch.Tensor:
    for _ in range(int(x[0].abs())):  # refused: nothing bounds
        x = x + 1
    return x


def none_on_some_paths(self: Holder, x: torch.Tensor) -> torch.Tensor | None:
    y = None
    if x[0] > 0:  # refused: a tensor and None
        y = x * 2
    return y


def size_from_value(self: Holder, x: torch.Tensor) -> torch.Tensor:
    n = int(x[0].abs())
    if n > 1:
        return x
    return x + torch.zeros(n + 1).sum() if len(range(3)) * [0] and hash(n) else x  # refused: key


def key_from_value(self: Holder, x: torch.Tensor) -> torch.Tensor:
    return x * {-3: 1.0, 0: 2.0, 2: 3.0, "a": 4.0}[int(x[0])]  # refused: keys


def text_from_value(self: Holder, x: torch.Tensor) -> torch.Tensor:
    return getattr(self, f"net{int(x[0])}", self.net)(x)  # refused: text


def alias_on_one_side(self: Holder, x: torch.Tensor) -> torch.Tensor:
    a = x * 2
    b = x + 1
    if x[0] > 0:
        b = a
    a += 1  # refused: another name
    return b


def dtypes_differ(self: Holder, x: torch.Tensor) -> torch.Tensor:
    if x[0] > 0:  # refused: torch.int64 and torch.float32
        return x.long()
    return x


def number_beside_a_tensor(self: Holder, x: torch.Tensor) -> torch.Tensor:
    whole = x.long()
    if x[0] > 0:  # refused: gives a float, the other a tensor of torch.int64
        whole = 0.5
    return x + whole


def tuples_differ(self: Holder, x: torch.Tensor) -> torch.Tensor:
    pair = (x, x)
    if x[0] > 0:  # refused: tuples of 1 and 2 items
        pair = (x,)
    return sum(pair)


def keys_differ(self: Holder, x: torch.Tensor) -> torch.Tensor:
    named = {"a": x}
    if x[0] > 0:  # refused: different keys
        named["b"] = x
    return sum(named.values())


def middle_of_an_open_list(self: Holder, x: torch.Tensor) -> torch.Tensor:
    kept = [v for v in x if v < 0]
    return x + kept[1]  # refused: an entry in the middle


def pop_of_an_open_list(self: Holder, x: torch.Tensor) -> torch.Tensor:
    kept = [v for v in x if v < 0]
    return x + kept.pop()  # refused: pop() of a list


def endless_loop(self: Holder, x: torch.Tensor) -> torch.Tensor:
    while True:  # refused: nothing bounds
        x = x * 0.5
        if x.norm() < 1:
            return x


def caught_assertion(self: Holder, x: torch.Tensor) -> torch.Tensor:
    try:
        assert x[0] > 0  # refused: a try around this line
    except AssertionError:
        return -x
    return x


def caught_exception(self: Holder, x: torch.Tensor) -> torch.Tensor:
    def checked(v: torch.Tensor) -> torch.Tensor:
        if v[0] > 0:
            raise ValueError("positive")  # refused: catches the ValueError
        return v

    try:
        return checked(x)
    except ValueError:
        return -x


def generator(self: Holder, x: torch.Tensor) -> torch.Tensor:
    def rows(v: torch.Tensor) -> Iterator[torch.Tensor]:
        for row in v:
            if row > 0:  # refused: it is a generator
                yield row

    return x + sum(rows(x))


def without_source(self: Holder, x: torch.Tensor) -> torch.Tensor:
    return _MADE["gate"](x)  # refused: in no file


def pattern_with_a_star(self: Holder, x: torch.Tensor) -> torch.Tensor:
    match x.tolist():  # refused: this pattern of a match
        case [first, *_] if first > 0:
            return x
    return -x


def unbounded_recursion(self: Holder, x: torch.Tensor) -> torch.Tensor:
    if x.norm() < 1:
        return x
    return unbounded_recursion(self, x * 0.5)  # refused: calls itself


def power_of_integers(self: Holder, x: torch.Tensor) -> torch.Tensor:
    return x * 2 ** int(x[0])  # refused: to the power


def range_by_a_value(self: Holder, x: torch.Tensor) -> torch.Tensor:
    for _ in range(0, 6, int(x[0])):  # refused: a step
        x = x + 1
    return x


_MADE: dict[str, Any] = {}
exec("def gate(x): return x if x.sum() > 0 else -x", _MADE)


def last_entry_of_an_open_list(self: Holder, x: torch.Tensor) -> torch.Tensor:
    out = [x.sum()]
    for _ in range(min(int(x[0].abs()), 2)):
        out.append(x[1])
    out[0] = x[2]
    out[-1] = x[2] + 1  # refused: an entry is set of a list whose length a tensor decides
    return x + sum(out)


REFUSED = [v for v in list(globals().values()) if callable(v) and getattr(v, "__annotations__", {}).get("x")]
