"""Functions that loop over a batch whose size varies; those that are refused are marked."""

from __future__ import annotations

import torch
from torch import nn


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.mlp = nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5), nn.Tanh(), nn.Linear(5, 3))
        self.cell = nn.GRUCell(3, 3)
        self.conv = nn.Conv1d(1, 2, 2)


def appended(self: Layers, x: torch.Tensor) -> torch.Tensor:
    out = []
    for row in x:
        out.append(torch.softmax(self.linear(row), -1))
    return torch.stack(out)


def appended_by_index(self: Layers, x: torch.Tensor) -> torch.Tensor:
    out = []
    for i in range(x.shape[0]):
        y = self.mlp(x[i].unsqueeze(0))
        out.append(y)
    return torch.cat(out, dim=0)


def two_of_each_row(self: Layers, x: torch.Tensor) -> torch.Tensor:
    out = [x[0]]
    for row in x:
        out.append(row)
        out.append(row * 2)
    return torch.stack(out, dim=1)


def written_by_index(self: Layers, x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for i in range(len(x)):
        out[i] = self.mlp(x[i])
        out[i, 1] += 1.0
    return out


def written_where_it_matters(self: Layers, x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(x.shape[0])
    for i, row in enumerate(x):
        if row.sum() > 0:
            out[i] = row.max()
        elif row[0] > row[1]:
            out[i] = i
    return out


def branch_per_row(self: Layers, x: torch.Tensor) -> torch.Tensor:
    out = []
    for row in x:
        if row.sum() > 0:  # noqa: SIM108 - a branch is what is tried
            y = self.linear(row)
        else:
            y = row[:2] * 0.5
        out.append(y)
    return torch.stack(out)


def summed(self: Layers, x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(3)
    count = 0
    for row in x:
        total = total + row * row.sum()
        if row[0] > 0:
            count += 1
    return total / (count + 1)


def added_in_place(self: Layers, x: torch.Tensor) -> torch.Tensor:
    total = x.new_zeros(())
    for i in range(x.size(0)):
        total += x[i].norm()
        total -= 0.5
    return total


def greatest(self: Layers, x: torch.Tensor) -> torch.Tensor:
    best = -1.0
    top = torch.full((3,), -1.0)
    for row in x:
        best = max(best, row.sum().item())
        top = torch.maximum(top, row)
    return top + best


def zipped(self: Layers, x: torch.Tensor) -> torch.Tensor:
    out = []
    for a, b in zip(x, x.flip(0)):
        out.append(torch.cat([a, b.mean().reshape(1)]))
    return torch.stack(out)


def reversed_rows(self: Layers, x: torch.Tensor) -> torch.Tensor:
    out = []
    for row in reversed(x):
        out.append(row + 1)
    return torch.stack(out)


def last_row(self: Layers, x: torch.Tensor) -> torch.Tensor:
    y = x[0]
    for row in x:
        y = row * 2
    return y


def layers_of_many_kinds(self: Layers, x: torch.Tensor) -> torch.Tensor:
    out = []
    for row in x:
        h = self.cell(row, torch.ones(3))
        y = self.conv(h.reshape(1, 1, 3)).flatten()
        picked = torch.gather(y, 0, row.argmax().reshape(1))
        out.append(torch.cat([y, picked]))
    return torch.stack(out)


def static_loop_inside(self: Layers, x: torch.Tensor) -> torch.Tensor:
    out = []
    for row in x:
        h = row
        for _ in range(3):
            if h.norm() > 1:
                h = h * 0.5
        out.append(h)
    return torch.stack(out)


def numbers(self: Layers, x: torch.Tensor) -> torch.Tensor:
    out = []
    for row in x:
        out.append(float(row[0]) if row[0] > 0 else 0.0)
    return torch.tensor(out)


def two_loops(self: Layers, x: torch.Tensor) -> torch.Tensor:
    hidden = []
    for row in x:
        hidden.append(self.mlp(row))
    total = torch.zeros(3)
    for h in hidden:
        total = total + h
    return total / len(hidden)


def columns_of_rows(self: Layers, x: torch.Tensor) -> torch.Tensor:
    y = x.t().contiguous()
    out = torch.zeros_like(y)
    for i in range(y.shape[1]):
        out[:, i] = y[:, i] * i
    return out


def variables_of_one_pass(self: Layers, x: torch.Tensor) -> torch.Tensor:
    y = x[0]
    total = torch.zeros(3)

    def add(value: torch.Tensor) -> None:
        nonlocal total
        total = total + value

    for row in x:
        y = row * 2
        add(y)
    y = x.sum(0)
    return y + total


def comprehension(self: Layers, x: torch.Tensor) -> torch.Tensor:
    return torch.stack([self.mlp(row) for row in x]) + sum(row.sum() for row in x)


def comprehension_of_pairs(self: Layers, x: torch.Tensor) -> torch.Tensor:
    return torch.stack([row * i for i, row in enumerate(x)])


def comprehension_by_index(self: Layers, x: torch.Tensor) -> torch.Tensor:
    values = [x[i].norm() for i in range(len(x))]
    return torch.stack(values) / len(values)


EXACT = (
    *(appended, appended_by_index, two_of_each_row, written_by_index, written_where_it_matters, branch_per_row),
    *(summed, added_in_place, greatest, zipped, reversed_rows, last_row, layers_of_many_kinds, static_loop_inside),
    *(numbers, two_loops, variables_of_one_pass, columns_of_rows),
    *(comprehension, comprehension_of_pairs, comprehension_by_index),
)


def carried(self: Layers, x: torch.Tensor) -> torch.Tensor:
    h = torch.zeros(3)
    for row in x:  # refused: depend on one another
        h = self.cell(row, h)
    return h


def earlier_place(self: Layers, x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(x)
    for i in range(x.shape[0]):  # refused: write to tensors
        out[i] = x[i] + out[i - 1]
    return out


def draws(self: Layers, x: torch.Tensor) -> torch.Tensor:
    out = []
    for row in x:
        out.append(row + torch.randn_like(row))  # refused: random
    return torch.stack(out)


def sometimes_appended(self: Layers, x: torch.Tensor) -> torch.Tensor:
    out = [x[0]]
    for row in x:  # refused: other things than tensors
        if row.sum() > 0:
            out.append(row)
    return torch.stack(out)


def chosen_by_a_comprehension(self: Layers, x: torch.Tensor) -> torch.Tensor:
    return torch.stack([row for row in x if row.sum() > 0])  # refused: row by row


def loop_in_a_loop(self: Layers, x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(())
    for one in x:
        for other in x:  # refused: depend on one another
            total = total + (one * other).sum()
    return total


REFUSED = (carried, earlier_place, draws, sometimes_appended, chosen_by_a_comprehension, loop_in_a_loop)
