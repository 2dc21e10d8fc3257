# ruff: noqa: SIM108
"""One small function per construct, `function(module, x)` on a vector of three, that masks have to follow exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

TABLE = {0: 0.1, 1: 0.5, 2: -1.0}


class Holder(nn.Module):
    """What the functions find in `self`."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Linear(3, 3)
        self.skills = nn.ModuleList([nn.Linear(3, 3) for _ in range(3)])
        self.limit = 4
        self.register_buffer("memory", torch.zeros(3))
        self.__scale = 2.0

    @property
    def scale(self) -> float:
        return self.__scale

    @property
    def sign(self) -> float:
        return 1.0 if self.seen[0] > 0 else -1.0  # type: ignore[index]

    def shrink(self, x: torch.Tensor) -> torch.Tensor:
        if x.norm() > 2:
            return x / x.norm()
        return x

    def double(self, x: torch.Tensor) -> torch.Tensor:
        if x[0] > 0:
            return x * self.__scale
        return x


def if_else(self: Holder, x: torch.Tensor) -> torch.Tensor:
    if x[0] > 0:
        y = x * 2
    else:
        y = x - 1
    return y


def elif_chain(self: Holder, x: torch.Tensor) -> torch.Tensor:
    if x[0] > 1:
        y = x * 2
    elif x[1] > 0:
        y = x - 1
    elif x[2] > 0:
        y = self.net(x)
    else:
        y = -x
    return y


def nested_ifs(self: Holder, x: torch.Tensor) -> torch.Tensor:
    y = x
    if x[0] > 0:
        y = y + 1
        if x[1] > 0:
            y = y * 3
        else:
            y = y - x
    elif x[2] > 0:
        y = self.shrink(y * 5)
    return y


def defined_on_one_side(self: Holder, x: torch.Tensor) -> torch.Tensor:
    if x[0] > 0:
        bonus = x.abs()
    y = x * 2
    if x[0] > 0:
        y = y + bonus
    return y


def early_returns(self: Holder, x: torch.Tensor) -> torch.Tensor:
    if x[0] > 0:
        if x[1] > 0:
            return x * 2
        x = x + 1
    y = self.net(x)
    if y.sum() > 0:
        return y
    return -y


def conditional_expression(self: Holder, x: torch.Tensor) -> torch.Tensor:
    return (x * 2 if x[1] > 0 else x - 1) if x[0] > 0 else (x.exp() if x[2] > 0 else x)


def and_or_not(self: Holder, x: torch.Tensor) -> torch.Tensor:
    if bool(x[0] > 0) and not (x[1] > 0 or x[2] > 0):
        return x * 2
    if not x[0] > 0 and (x[1] > 0 and x[2] > 0):
        return x * 3
    return x


def chained_comparison(self: Holder, x: torch.Tensor) -> torch.Tensor:
    if -0.5 < x[0] < x[1] <= 1.0:
        return x * 2
    return x


def item_in_arithmetic(self: Holder, x: torch.Tensor) -> torch.Tensor:
    speed = x.norm().item()
    if speed > 1.5:
        x = x * (1.0 / speed)
    return x + math.sqrt(speed) - max(speed, 2.0) + round(speed)


def integer_arithmetic(self: Holder, x: torch.Tensor) -> torch.Tensor:
    n = int(x[0]) + 7
    return x * (n % 3) + n // 2 - abs(n - 8) + (2**3 if n > 7 else n)


def builtins_on_elements(self: Holder, x: torch.Tensor) -> torch.Tensor:
    top = max(x[0], x[1], x[2])
    low = min(x)
    if any(v > 1 for v in x) and all([x[0] > -2, x[1] > -2]):
        return x * top
    return x - low + sum([float(v) for v in x])


def attribute_on_one_side(self: Holder, x: torch.Tensor) -> torch.Tensor:
    self.cache = x
    if x[0] > 0:
        self.cache = x * 2
    return self.cache + 1


def attribute_changed_in_callee(self: Holder, x: torch.Tensor) -> torch.Tensor:
    state = State(x, [x])
    if x[0] > 0:
        state.bump()
    return state.value + state.seen[0]


@dataclass
class State:
    value: torch.Tensor
    seen: list[torch.Tensor]

    def bump(self) -> None:
        self.value = self.value * 2
        self.seen[0] = self.seen[0] - 1


def list_and_dict_entries(self: Holder, x: torch.Tensor) -> torch.Tensor:
    items = [x, x + 1]
    named = {"a": x}
    if x[0] > 0:
        items[1] = x * 2
        named["a"] = items[0] - 3
    else:
        items[0] = -x
    return items[0] + items[1] + named["a"]


def slice_write(self: Holder, x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    view = y[1:]
    if x[0] > 0:
        y[0] = 5.0
        view += 1
    else:
        view[1] = x[0]
    return y


def in_place_methods(self: Holder, x: torch.Tensor) -> torch.Tensor:
    y = x * 1
    z = y
    if x[0] > 0:
        y.mul_(2).clamp_(max=1.0)
        torch.add(y, 1, out=y)
    y.relu_()
    return z + y


def break_in_range(self: Holder, x: torch.Tensor) -> torch.Tensor:
    step, best = 1.0, x
    for k in range(4):
        trial = x - step * (k + 1)
        if trial.sum() < 0:
            best = trial
            break
        step *= 0.5
    return best * step + k


def continue_in_range(self: Holder, x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(3)
    for i in range(3):
        if x[i] < 0:
            continue
        total = total + x * (i + 1)
    return total


def return_in_loop(self: Holder, x: torch.Tensor) -> torch.Tensor:
    for k in range(3):
        if x[k] > 0:
            return x * (k + 1)
    return x - 7


def nested_loops(self: Holder, x: torch.Tensor) -> torch.Tensor:
    total = x * 0
    for i in range(3):
        for j in range(3):
            if x[j] > x[i]:
                break
            total = total + x[j] * (i + 1)
        if total.sum() > 2:
            continue
        total = total + 0.5
    return total


def loop_over_tensor(self: Holder, x: torch.Tensor) -> torch.Tensor:
    out = []
    for i, (row, other) in enumerate(zip(x, reversed(x.tolist()))):
        out.append(row * i if row > other else row - 1)
    return torch.stack(out)


def bounded_while(self: Holder, x: torch.Tensor) -> torch.Tensor:
    i = 0
    while x.norm() > 1 and i < 5:
        x = x * 0.5
        i += 1
    return x + i


def range_of_bounded_count(self: Holder, x: torch.Tensor) -> torch.Tensor:
    for i in range(min(int(x[0].abs()), 3)):
        x = x + i + 1
    return x


def range_of_remainder(self: Holder, x: torch.Tensor) -> torch.Tensor:
    n = int(x[1]) % 4
    for _ in range(n):
        x = self.net(x)
    return x


def commented_while(self: Holder, x: torch.Tensor) -> torch.Tensor:
    while x.norm() > 1:  # graphaudit: loop-bound=9
        x = x * 0.5
    return x


def recursion(self: Holder, x: torch.Tensor, depth: int = 0) -> torch.Tensor:
    if depth == 4 or x.norm() < 1:
        return x
    return recursion(self, x * 0.5 if x[0] > 0 else x * 0.6, depth + 1)


def module_choice(self: Holder, x: torch.Tensor) -> torch.Tensor:
    return self.skills[int(x.argmax())](x)


def table_look_up(self: Holder, x: torch.Tensor) -> torch.Tensor:
    k = int(x.argmax())
    return x * TABLE[k] + [1.0, 2.0, 3.0][k] + x[k] + x[-1 - k]


def write_by_index(self: Holder, x: torch.Tensor) -> torch.Tensor:
    k = int(x.argmin())
    y = x.repeat(2, 1)
    y[1, k] = 9.0
    y[0][k] += 2
    y[:, k] *= 3
    return y


def methods_and_closures(self: Holder, x: torch.Tensor) -> torch.Tensor:
    factor = 2

    def scaled(v: torch.Tensor) -> torch.Tensor:
        if v.sum() > 0:
            return v * factor
        return v

    pick: Any = lambda v: v if v[0] > 0 else -v  # noqa: E731
    return self.double(scaled(pick(x))) * self.scale


def assertion(self: Holder, x: torch.Tensor) -> torch.Tensor:
    assert torch.isfinite(x).all(), "not finite"
    if x[0] > 0:
        return x * 2
    return x


def untaken_nan(self: Holder, x: torch.Tensor) -> torch.Tensor:
    if x[0] > 0:
        return torch.log(x[0]) + x
    return x / (x[0] - 1e-3)


def rebuilt_tensor(self: Holder, x: torch.Tensor) -> torch.Tensor:
    a, b = x[0].item(), float(x[1])
    return torch.tensor([a, b * 2, 1.0]) if a > b else torch.full((3,), a)


def number_result(self: Holder, x: torch.Tensor) -> Any:
    n = 0
    for v in x:
        if v > 0:
            n += 1
    return x * n, n, float(x[0]) / 3


def structured_operators(self: Holder, x: torch.Tensor) -> torch.Tensor:
    y = torch.cond(x[0] > 0, lambda v: v * 2, lambda v: v - 1, (x,))
    return y * 2 if y.sum().item() > 0 else y


EXACT = [v for k, v in list(globals().items()) if callable(v) and getattr(v, "__annotations__", {}).get("x")]
