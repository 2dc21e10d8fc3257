"""Functions that decide and compute with the size of a batch that varies; those that are refused are marked."""

from __future__ import annotations

import math

import torch

from tests.capture.control_flow.constructs import Holder


def branch(self: Holder, x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] > 3:
        x = x - x.mean(0, keepdim=True)
    return x * 2


def branch_on_one_row(self: Holder, x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] == 1:
        return x
    return x - x.mean(0, keepdim=True)


def elif_with_a_value(self: Holder, x: torch.Tensor) -> torch.Tensor:
    n = len(x)
    if n < 2:
        x = x * 0
    elif n < 4 and x.sum() > 0:
        x = x + n
    else:
        x = x - 1
    return x


def conditional_expression(self: Holder, x: torch.Tensor) -> torch.Tensor:
    spread = x.std(0) if x.size(0) > 1 else torch.ones(3)
    return x / (spread + 1e-3)


def size_as_a_value(self: Holder, x: torch.Tensor) -> torch.Tensor:
    n = int(x.shape[0])
    scale = 1.0 / n if n > 1 else 0.0
    return x * scale + float(n) + math.sqrt(n)


def least_of_a_size(self: Holder, x: torch.Tensor) -> torch.Tensor:
    return x.sum(0) * min(len(x), 4) / max(x.shape[0], 2)


def rows_up_to_a_limit(self: Holder, x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(3)
    for i in range(min(x.shape[0], 4)):
        total = total + x[i]
    return total


def halved_size(self: Holder, x: torch.Tensor) -> torch.Tensor:
    n, k = x.shape[0], 0
    while n > 1 and k < 4:
        n = n // 2
        k = k + 1
    return x * k


def assertion(self: Holder, x: torch.Tensor) -> torch.Tensor:
    assert x.shape[0] < 1000
    return x + 1


EXACT = (
    *(branch, branch_on_one_row, elif_with_a_value, conditional_expression, size_as_a_value, least_of_a_size),
    *(rows_up_to_a_limit, halved_size, assertion),
)


def shapes_differ(self: Holder, x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] > 3:  # refused: shapes
        return x.sum(0)
    return x


def value_as_a_size(self: Holder, x: torch.Tensor) -> torch.Tensor:
    n = 2
    if x.shape[0] > 3:
        n = 3
    return x.repeat(1, n)  # refused: tuple of ints


REFUSED = (shapes_differ, value_as_a_size)
