# ruff: noqa: SIM108
"""Reads, writes and look-ups of tensors under conditions, `function(module, x)` on a vector of three, taken exactly."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from tests.capture.control_flow.constructs import Holder


def masked_read_then_reduced(self: Holder, x: torch.Tensor) -> torch.Tensor:
    mask = x > 0
    if mask.any():
        return x * x[mask].mean()
    return x + x[~mask].sum()


def masked_write(self: Holder, x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[y > 1] = 0.5
    if x[0] > 0:
        y[x < 0] += 1
        y[x < x[1]] = x[x < x[1]] * 2
    return y


def first_by_nonzero(self: Holder, x: torch.Tensor) -> torch.Tensor:
    hits = (x > 0).nonzero()
    if len(hits) == 0:
        return x - 1
    return x + int(hits[0])


def masked_select_and_scatter(self: Holder, x: torch.Tensor) -> torch.Tensor:
    total = torch.masked_select(x, x > 0).sum()
    y = x.masked_scatter(x < 0, torch.tensor([7.0, 8.0, 9.0]))
    return y + total if x[0] > 0 else y * 2


def index_put_and_duplicates(self: Holder, x: torch.Tensor) -> torch.Tensor:
    at = torch.stack([x.argmax(), x.argmin(), x.argmax()])
    y = x.clone()
    if x[0] > 0:
        y.index_put_((at,), torch.tensor(1.0), accumulate=True)
    else:
        y.scatter_add_(0, at, x).index_fill_(0, at[:1], 2.0)
    return y.index_put((at[1:2],), torch.tensor(5.0))


def index_valid_on_one_side(self: Holder, x: torch.Tensor) -> torch.Tensor:
    k = int(x[0].round()) + int(x[1].round())
    if 0 <= k < 3:
        return x + x[k]
    return x - 1


def gathers_valid_on_one_side(self: Holder, x: torch.Tensor) -> torch.Tensor:
    k = x.round().long() + 2
    table = torch.arange(4.0) + x[2]
    if k.min() >= 0 and k.max() < 4:
        rows = torch.nn.functional.embedding(k, table.reshape(4, 1)).reshape(3)
        return table.gather(0, k) + table.index_select(0, k) + table.take_along_dim(k, 0) + table[k] + rows
    return x


def writes_valid_on_one_side(self: Holder, x: torch.Tensor) -> torch.Tensor:
    k = x.round().long()
    y = x.clone()
    if k.min() >= 0 and k.max() < 3:
        y[k] = 5.0
        y.scatter_(0, k, 1.5)
        y.index_add_(0, k, x)
    return y


def division_valid_on_one_side(self: Holder, x: torch.Tensor) -> torch.Tensor:
    n, value = int(x[0]), x[1].item()
    if n != 0:
        y = x * (7 // n) + 7 % n
    else:
        y = x
    if value > 0:
        y = y + math.log(value) + math.sqrt(value) + 1 / value
    return y


def integers_valid_on_one_side(self: Holder, x: torch.Tensor) -> torch.Tensor:
    whole = x.long()
    if (whole != 0).all():
        return x + 7 // whole + torch.remainder(7, whole) + torch.div(whole, whole, rounding_mode="trunc")
    return x


def nan_of_the_other_side(self: Holder, x: torch.Tensor) -> torch.Tensor:
    y = torch.sqrt(x[0]) * torch.log(x) if (x > 0).all() else x
    if not torch.isnan(y).any() and x[1] < 0:
        y = y / (x[1] + 3.0 - 2.6)
    return y


def buffer_under_a_mask(self: Holder, x: torch.Tensor) -> torch.Tensor:
    memory = self.memory.clone()
    if x[0] > 0:
        memory.copy_(x)
        memory[1:].add_(1).clamp_(max=2)
    elif x[1] > 0:
        memory.zero_().fill_(3.0)
    return memory + x


def count_in_a_loop(self: Holder, x: torch.Tensor) -> torch.Tensor:
    counts = torch.zeros(4, dtype=torch.long)
    for v in x:
        if v > 0:
            counts[int(v)] += 1
        else:
            counts[3] += 2
    return x + counts.sum() * counts[2]


def ring_at_a_tensor(self: Holder, x: torch.Tensor) -> torch.Tensor:
    ring, at = torch.zeros(2, 3, 4), x.argmax()
    ring[:, at] = x[0]
    ring[..., (at + 1) % 4] += x[1]
    ring[torch.arange(2), at, torch.tensor([0, 3])] = x[2]
    if x[0] > 0:
        ring[[1, 0], at] = torch.arange(4.0)
    return ring + ring[0, at]


def window_at_a_number(self: Holder, x: torch.Tensor) -> torch.Tensor:
    queue, at = torch.zeros(2, 3), int(x.argmax())
    queue[:, at : at + 1] = x[:2].unsqueeze(1)
    if x[2] > 0:
        queue[1, at : at + 1] = x[2]
    return queue


def views_at_a_tensor(self: Holder, x: torch.Tensor) -> torch.Tensor:
    ring, at = torch.zeros(3, 4), x.argmax()
    row = ring[at]
    row[0] = x[0]
    if x[1] > 0:
        row.view(2, 2).mul_(0.5)
    row += x[2]
    if x[1] > 0:
        ring[at][1:3].fill_(x[1])
    return ring


def numbers_read_before_a_write(self: Holder, x: torch.Tensor) -> torch.Tensor:
    ring, at = torch.zeros(3), x.argmax()
    before, first = int(at), ring[at]
    at += 1
    at %= 3
    first += 1.0
    ring[at] = 2.0
    return ring + before


def tolist_in_loops(self: Holder, x: torch.Tensor) -> torch.Tensor:
    total = 0.0
    for i, value in enumerate(x.tolist()):
        if value > 0:
            total += value * i
    for pair in x.repeat(2, 1).T.tolist():
        total = total + pair[0] if pair[1] < 0 else total
    return x + total


def numpy_round_trip(self: Holder, x: torch.Tensor) -> torch.Tensor:
    array = np.clip(x.numpy() * 2, -1.0, 1.0)
    if array.max() > 0.5:
        array = np.where(array > 0, array, 0.0) + np.abs(array).sum()
    best = int(np.argmax(array))
    return torch.from_numpy(array).float() + best


def loops_over_pairs(self: Holder, x: torch.Tensor) -> torch.Tensor:
    total = x * 0
    for i, (a, b) in enumerate(zip(x, reversed(x))):
        if a < b:
            total = total + a * i
    for row in reversed(x.repeat(2, 1)):
        total = total + (row if row[0] > 0 else row * 0.5)
    return total


def modules_in_loops(self: Holder, x: torch.Tensor) -> torch.Tensor:
    for skill in self.skills:
        x = torch.tanh(skill(x)) + x
        if x.sum() > 0:
            x = x * 0.5
    return x


def negative_range(self: Holder, x: torch.Tensor) -> torch.Tensor:
    for k in range(2, -1, -1):
        if x[k] > 0:
            x = x * (k + 1)
            break
    return x


def start_out_of_a_tensor(self: Holder, x: torch.Tensor) -> torch.Tensor:
    for k in range(int(x.argmax()), 3):
        x = x + k
    return x


def dictionary_of_values(self: Holder, x: torch.Tensor) -> torch.Tensor:
    gains: dict[Any, Any] = {0: x, 1: x * 2, 2: -x}
    names = {0: {"gain": 1.0, "shift": 0}, 1: {"gain": 0.5, "shift": 2}, 2: {"gain": 0.0, "shift": 1}}
    k = int(x.argmax())
    return gains[k] * names[k]["gain"] + names.get(k, names[0])["shift"]


EXACT = [v for k, v in list(globals().items()) if k[0] != "_" and getattr(v, "__annotations__", {}).get("self")]
EXACT = [f for f in EXACT if f.__module__ == __name__]
