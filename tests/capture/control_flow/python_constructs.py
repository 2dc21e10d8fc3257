# ruff: noqa: C417, RET505, UP031, UP032
"""Python's own constructs, one small function each, `function(module, x)` on a vector of three, taken exactly."""

from __future__ import annotations

import contextlib
import functools
import math
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch

from tests.capture.control_flow.constructs import Holder


def else_of_for(self: Holder, x: torch.Tensor) -> torch.Tensor:
    for k in range(3):
        if x[k] > 1:
            x = x * 2
            break
    else:
        x = x - 1
    return x + k


def else_of_while(self: Holder, x: torch.Tensor) -> torch.Tensor:
    i = 0
    while i < 4 and x.norm() > 1:
        x = x * 0.6
        if x[0] > 1:
            break
        i += 1
    else:
        x = x + 10
    return x + i


def else_of_loop_with_return(self: Holder, x: torch.Tensor) -> torch.Tensor:
    for row in x:
        if row > 2:
            return x * row
        if row < -2:
            break
    else:
        return x + 1
    return x - 1


def else_inside_loops(self: Holder, x: torch.Tensor) -> torch.Tensor:
    total = x * 0
    for i in range(3):
        for j in range(i):
            if x[j] > x[i]:
                break
            if x[j] < -2:
                continue
            total = total + 1
        else:
            total = total + x[i]
            continue
        total = total * 2
    return total


def walrus(self: Holder, x: torch.Tensor) -> torch.Tensor:
    if (norm := x.norm()) > 2:
        x = x / norm
    return x + (top := x.max()) - top.item() * norm


def walrus_in_while(self: Holder, x: torch.Tensor) -> torch.Tensor:
    i = 0
    while i < 5 and (size := float(x.abs().sum())) > 1.5:
        x = x * 0.5
        i += 1
    return x + size


def match_on_value(self: Holder, x: torch.Tensor) -> torch.Tensor:
    match int(x.argmax()):
        case 0:
            y = x * 2
        case 1 | 3:
            y = x - 1
        case n if x[0] > 0:
            y = x * n
        case _:
            y = -x
    return y


def match_on_sequence(self: Holder, x: torch.Tensor) -> torch.Tensor:
    match (bool(x[0] > 0), bool(x[1] > 0)):
        case (True, True):
            return x * 2
        case (True, _):
            return x + 1
        case (_, high) if not high:
            return x - 1
    return x * 0.5


def match_on_mode(self: Holder, x: torch.Tensor) -> torch.Tensor:
    match "fast":
        case "slow":  # always
            factor = 0.0
        case "fast":  # always
            factor = 2.0 if x[0] > 0 else 3.0
    return x * factor


def comprehension_with_conditions(self: Holder, x: torch.Tensor) -> torch.Tensor:
    clipped = [v if v > 0 else v * 0.1 for v in x]
    table = {i: (v if v < 1 else v * 0 + 1) for i, v in enumerate(clipped)}
    return torch.stack(clipped) + table[1]


def generators_in_reductions(self: Holder, x: torch.Tensor) -> torch.Tensor:
    positive = sum(v.item() for v in x if v > 0)
    count = sum(1 for v in x if v < 0)
    if any(v > 2 for v in x) and not all(v > 0 for v in x if v != x[0]):
        return x * positive
    return x + count


def filtered_lists(self: Holder, x: torch.Tensor) -> torch.Tensor:
    chosen = [v for v in x if v > 0]
    small = [v for v in x if abs(v) < 1]
    if len(chosen) > 1 and small:
        return x + sum(chosen)
    return x * len(small) + (max(chosen) if chosen else 0)


def appended_under_a_condition(self: Holder, x: torch.Tensor) -> torch.Tensor:
    kept = []
    for v in x:
        if v > 0:
            kept.append(v * 2)
    total = x * len(kept)
    for w in kept:
        total = total + w
    return total


def ternaries_in_arguments(self: Holder, x: torch.Tensor) -> torch.Tensor:
    return torch.add(x if x[0] > 0 else -x, x, alpha=2 if self.limit > 3 else 1) * torch.clamp(  # always
        x, min=0.0 if x[1] > 0 else -1.0
    )


def augmented_assignments(self: Holder, x: torch.Tensor) -> torch.Tensor:
    state, named = State(x.clone(), 1), {"a": x * 2, "n": 0}
    y, n = x.clone(), 0
    if x[0] > 0:
        y += 1
        y *= x
        n += 2
        state.value -= 3
        state.count <<= 1
        named["a"] /= 2
        named["n"] += 1
    else:
        n -= 1
        state.count |= 6
    return y + n + state.value * state.count + named["a"] * named["n"]


def nonlocal_variable(self: Holder, x: torch.Tensor) -> torch.Tensor:
    calls = 0
    best = x

    def visit(v: torch.Tensor) -> None:
        nonlocal calls, best
        if v.sum() > 0:
            calls += 1
            best = v

    visit(x)
    visit(x - 0.5)
    return best + calls


def global_variable(self: Holder, x: torch.Tensor) -> torch.Tensor:
    global PHASE
    PHASE = 0
    if x[0] > 0:
        PHASE = 1
    _advance(x)
    return x * PHASE


PHASE = 0


def _advance(x: torch.Tensor) -> None:
    global PHASE
    if x[1] > 0:
        PHASE += 2


def starred(self: Holder, x: torch.Tensor) -> torch.Tensor:
    first, *rest = x
    if first > 0:
        *others, last = rest
    else:
        last, *others = rest
    return torch.stack([first, *others, last]) * max(*rest)


def unpacked_arguments(self: Holder, x: torch.Tensor) -> torch.Tensor:
    options = {"low": -0.5, "high": 1.0}
    return _clipped(*(x, 2.0), **options)


def _clipped(v: torch.Tensor, gain: float, *, low: float, high: float) -> torch.Tensor:
    if v.mean() > high:
        return v * gain
    elif v.mean() < low:
        return v / gain
    return v


def try_finally(self: Holder, x: torch.Tensor) -> torch.Tensor:
    self.depth = 0
    try:
        self.depth += 1
        if x[0] > 0:
            x = x * 2
    finally:
        self.depth -= 1
    return x + self.depth


def try_around_python(self: Holder, x: torch.Tensor) -> torch.Tensor:
    try:
        gain = {"a": 1.0}["b"]
    except KeyError:
        gain = 3.0
    return x * gain if x[0] > 0 else x


def with_blocks(self: Holder, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad(), contextlib.nullcontext(x * 2) as y:
        if x[0] > 0:
            y = y + 1
    with _Scaled(self) as scale:
        if x[1] > 0:
            y = y * scale
    return y


class _Scaled:
    def __init__(self, holder: Holder) -> None:
        self.holder = holder

    def __enter__(self) -> float:
        return self.holder.scale

    def __exit__(self, *_: Any) -> None:
        return None


def partial_and_lambda(self: Holder, x: torch.Tensor) -> torch.Tensor:
    clip = functools.partial(_clipped, low=-0.2, high=0.5)
    rows = map(lambda v: v if v > 0 else v - 1, x)
    return clip(torch.stack(list(rows)), gain=3.0)


def reduced(self: Holder, x: torch.Tensor) -> torch.Tensor:
    return functools.reduce(lambda a, b: a * 2 if b > 0 else a - b, x, x)


def objects_with_behaviour(self: Holder, x: torch.Tensor) -> torch.Tensor:
    gate = Gate(0.3)
    y = gate(x)
    if gate.is_open:
        y = y + gate @ x
    return y + gate[x]


class Gate:
    def __init__(self, level: float) -> None:
        self.level = level
        self.seen: Any = None

    def __call__(self, v: torch.Tensor) -> torch.Tensor:
        self.seen = v.sum()
        return v if v[0] > self.level else v * 0

    @property
    def is_open(self) -> bool:
        if self.seen > 1:
            return True
        return bool(self.seen < -4)

    def __matmul__(self, v: torch.Tensor) -> torch.Tensor:
        return v * 2 if v[1] > 0 else v

    def __getitem__(self, v: torch.Tensor) -> torch.Tensor:
        return v * 3 if v[2] > 0 else v


def properties_of_the_module(self: Holder, x: torch.Tensor) -> torch.Tensor:
    self.seen = x
    return x * self.sign


@dataclass(frozen=True)
class Frozen:
    value: torch.Tensor
    count: int = 0
    notes: list[Any] = field(default_factory=list)

    def stepped(self, by: torch.Tensor) -> Frozen:
        if by[0] > 0:
            return replace(self, value=self.value + by, count=self.count + 1)
        return replace(self, value=self.value - by)


@dataclass
class State:
    value: torch.Tensor
    count: int = 0

    def __post_init__(self) -> None:
        if self.value[2] > 0:
            self.count = 3


class Pair(NamedTuple):
    left: Any
    right: Any


Triple = namedtuple("Triple", "a b c")


def dataclasses_and_tuples(self: Holder, x: torch.Tensor) -> torch.Tensor:
    state = Frozen(x)
    for _ in range(2):
        state = state.stepped(x - state.value * 0.5)
    pair = Pair(x, 1)
    if x[1] > 0:
        pair = pair._replace(left=x * 2, right=3)
    triple = Triple(*x) if x[2] > 0 else Triple(1.0, x[1], c=x[0])
    return state.value * state.count + pair.left + pair.right + triple.a + triple.c


def math_of_items(self: Holder, x: torch.Tensor) -> torch.Tensor:
    a, b = x[0].item(), float(x[1].abs())
    angle = math.atan2(a, b) + math.hypot(a, b) + math.exp(-b) - math.floor(a) + math.ceil(b)
    quotient, rest = divmod(int(a * 4), 3)
    if math.isclose(a, 0.3, rel_tol=1e-3) or math.isfinite(a * 1e300) is False:
        angle = angle + math.log(b + 1) + math.copysign(2.0, a)
    return x * angle + quotient * rest + pow(rest, 2) + (rest << 2) + (rest & 1)


def text_in_messages(self: Holder, x: torch.Tensor) -> torch.Tensor:
    norm = x.norm().item()
    message = f"norm {norm:.2f} of {x[0].item()!r}"
    report = "last %s, {}" % norm + str(norm) + "{}".format(x[0].item())
    if norm > 2:
        message += f"; first {float(x[0])}"
        x = x / norm
    print(message, report, norm)
    return x


def types_of_values(self: Holder, x: torch.Tensor) -> torch.Tensor:
    value, count, flag = x[0].item(), int(x[1]), bool(x[2] > 0)
    assert isinstance(value, float) and isinstance(flag, int) and type(count) is int and not isinstance(x, float)
    gain = 2.0 if hasattr(self, "memory") and isinstance(self.memory, torch.Tensor) else 1.0  # always
    return x * gain + (value if flag else count)


def in_an_interval(self: Holder, x: torch.Tensor) -> torch.Tensor:
    n = int(x[0])
    if n in (0, 2) or n not in range(-3, 2):
        x = x * 2
    return x + 1 if int(x[1]) in {-3, 2} else x


def tuples_compared(self: Holder, x: torch.Tensor) -> torch.Tensor:
    a, b, c = x.tolist()
    if (a, b) > (b, c):
        return x * 2
    return x if [a, b] == [b, c] else x + 1


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def around(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        return result * 2 if result.sum() > 1 else result

    return around


@decorated
def _gated(v: torch.Tensor, at: float = 0.0) -> torch.Tensor:
    return v if v[0] > at else -v


def decorated_functions(self: Holder, x: torch.Tensor) -> torch.Tensor:
    return _gated(x) + _gated(x, at=1.0)


def sorted_values(self: Holder, x: torch.Tensor) -> torch.Tensor:
    low, middle, high = sorted(x.tolist())
    backwards = sorted(x, reverse=True)
    by_size = sorted([(v.item(), i) for i, v in enumerate(x)], key=lambda p: -p[0])
    best = max([x[0], x[1]], key=lambda v: (v - 1).abs())
    least = min(range(3), key=lambda i: x[i])
    return x * middle + low - high * 2 + backwards[0] + by_size[0][1] * by_size[2][0] + best + x[least]


def optional_state(self: Holder, x: torch.Tensor) -> torch.Tensor:
    h = None
    for v in x:
        h = v if h is None else (h * 0.5 + v if v > 0 else h)  # always
    return x + h


def text_that_decides(self: Holder, x: torch.Tensor) -> torch.Tensor:
    mode = "fast"
    if x[0] > 0:
        mode = "slow" if x[1] > 0 else "still"
    if mode == "still":
        return x * 0
    return x * 2 if mode != "fast" else x


def none_that_decides(self: Holder, x: torch.Tensor) -> torch.Tensor:
    def half(v: torch.Tensor) -> torch.Tensor | None:
        if v[0] > 0:
            return v / 2
        return None

    best = None
    for v in x:
        if v > 0 and (best is None or v < best):
            best = v
    y = x if half(x) is None else x * 2
    if best is not None:
        y = y + best
    return y


def deleted(self: Holder, x: torch.Tensor) -> torch.Tensor:
    scratch = {"a": x, "b": 1}
    y = x * 2
    del scratch["b"]
    if x[0] > 0:
        z = y + 1
        y = z * len(scratch)
        del z
    return y + scratch.get("b", 0)


EXACT = [v for k, v in list(globals().items()) if k[0] != "_" and getattr(v, "__annotations__", {}).get("self")]
EXACT = [f for f in EXACT if f.__module__ == __name__]
