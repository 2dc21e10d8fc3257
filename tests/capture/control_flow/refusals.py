"""Functions that masks cannot express; the line that a refusal has to name is marked."""

from __future__ import annotations

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


REFUSED = [v for v in list(globals().values()) if callable(v) and getattr(v, "__annotations__", {}).get("x")]
