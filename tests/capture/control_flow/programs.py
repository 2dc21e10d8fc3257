"""Random programs: nested branches, loops with break, continue, else and return, writes, lists, attributes, helpers."""

from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from hypothesis import strategies as st

VALUES = [torch.tensor(v) for v in itertools.product((-1.3, 0.2, 0.9), repeat=3)]
HEADER = """import math
import torch
from tests.capture.control_flow.programs import Stepping, clipped, largest

class Random(Stepping):
    def forward(self, x):
        self.h = x * 0.5
        a, b, c = x.clone(), x * 2, torch.zeros(3)
        k, s = 0, float(x[0])
        out, name = [x.sum()], None
"""
FOOTER = ["return a + b * k + s + c + self.h + sum(out) * 0.1 + len(out) + (0.0 if name is None else name)"]
ASSIGNMENTS = (
    *("a = a + b", "a = a * 0.5", "b = a - x", "b = torch.relu(a)", "a = x * s", "k = k + 1", "s = s * 0.5 + 1"),
    *("a[0] = 0.25", "a[1:] = b[1:] * 0.5", "b[2] += a[0]", "a += 1", "b.mul_(0.5)", "k += int(b[1])", "b = b.clone()"),
    *(
        "s = max(s, float(a[1]))",
        "a = a if a[0] > b[0] else b * 1.5",
        "s = min(2.0, abs(s))",
        "a = a * [1.0, 0.5][k % 2]",
    ),
    *(
        "c[1] = s",
        "c[k % 3] += 0.5",
        "c.add_(a, alpha=0.5).clamp_(-2, 2)",
        "out.append(a[1])",
        "out.append(b.sum() * 0.1)",
    ),
    *("a = clipped(a)", "b = self.step(b)", "a = clipped(self.step(a), limit=0.7)", "self.h = self.h * 0.5 + a * 0.1"),
    *(
        "best, at = largest(a + b)",
        "s = s + (best if k > 0 else 0.5)",
        "name = s",
        "name = None",
        "k = at",
        "at = k % 3",
    ),
    *("s = math.tanh(s) + s % 2", "k = (k * 3 + 1) % 5", "s = sum(v.item() for v in a if v > 0)", "a[at] = b[at]"),
    *(
        "a[b > 0.4] = 0.3",
        "c = torch.where(a > b, a, c)",
        "assert isinstance(s, float)",
        "s = float(sorted(a.tolist())[1])",
    ),
    *("name = 0.5 if name is None else name * 0.5", "out[-1] = out[-1] + 1", "s = s / 3 if abs(s) > 1 else s - 0.25"),
)
CONDITIONS = (
    *("a[0] > 0", "b.sum() > 0.5", "x[1] > x[2]", "k > 1", "s < 0.4", "not a[2] > 0", "-0.5 < a[1] < 1", "at == 1"),
    *("bool(x[0] > 0) and b[1] < 1", "x[2] > 0 or k > 0", "(a > b).any()", "float(a.norm()) > 1.7", "name is None"),
    *(
        "k % 2 == 0",
        "any(v > 0.8 for v in b)",
        "not (a[0] > 0 and s > 0)",
        "self.h[1] > 0.3",
        "len(out) > 2",
        "k in (1, 3)",
    ),
    *(
        "(norm := a.norm()) > 1.2",
        "c.sum() + s > 0 and not (x[0] < 0 or b[0] < a[0])",
        "name is not None and name > 0.4",
    ),
)


def clipped(v: torch.Tensor, limit: float = 1.5) -> torch.Tensor:
    if v.abs().max() > limit:
        return v * 0.5
    return v


def largest(v: torch.Tensor) -> tuple[torch.Tensor, int]:
    best, at = v[0], 0
    for j in range(1, 3):
        if v[j] > best:
            best, at = v[j], j
    return best, at


class Stepping(torch.nn.Module):
    """Has a method that reads and writes an attribute."""

    h: torch.Tensor

    def step(self, v: torch.Tensor) -> torch.Tensor:
        if v.sum() > 0.3:
            self.h = self.h + 0.25
            return v - 0.5
        if self.h[0] > 1:
            return v * self.h
        return v + 0.1


def statements(depth: int, in_loop: bool) -> st.SearchStrategy[list[str]]:
    """Blocks of statements, nested `depth` deep at most."""
    simple = st.sampled_from(ASSIGNMENTS).map(lambda text: [text])
    leaving = ["return a * 2 + k", "return b", *(["break", "continue"] if in_loop else [])]
    leave = st.tuples(st.sampled_from(CONDITIONS), st.sampled_from(leaving)).map(
        lambda p: [f"if {p[0]}:", f"    {p[1]}"]
    )
    if depth == 0:
        return st.lists(st.one_of(simple, simple, leave), min_size=1, max_size=3).map(flat)
    inner, body = statements(depth - 1, in_loop), statements(depth - 1, True)
    branch = st.tuples(st.sampled_from(CONDITIONS), inner, st.none() | inner).map(if_of)
    heads = (*(f"for i{depth} in range({n}):" for n in (1, 2, 3)), f"for i{depth}, row in enumerate(x):")
    heads += (f"for i{depth} in range(min(int(abs(a[0])), 2)):",)
    loop = st.tuples(st.sampled_from(heads), body, st.none() | inner).map(loop_of)
    # A := there makes the loop a `while True`, whose counter is lost where a return is nested: refused, not wrong.
    counted = [c for c in CONDITIONS if ":=" not in c]
    whiles = st.tuples(st.sampled_from(counted), body, st.none() | inner).map(lambda p: while_of(depth, *p))
    return st.lists(st.one_of(simple, leave, branch, loop, whiles), min_size=1, max_size=2).map(flat)


def flat(blocks: list[list[str]]) -> list[str]:
    return [line for block in blocks for line in block]


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def if_of(parts: tuple[str, list[str], list[str] | None]) -> list[str]:
    condition, body, orelse = parts
    return [f"if {condition}:", *indented(body), *_else(orelse)]


def loop_of(parts: tuple[str, list[str], list[str] | None]) -> list[str]:
    head, body, orelse = parts
    return [head, *indented(body), *_else(orelse)]


def while_of(depth: int, condition: str, body: list[str], orelse: list[str] | None) -> list[str]:
    count = f"w{depth}"
    return [
        f"{count} = 0",
        f"while {count} < 3 and ({condition}):",
        f"    {count} += 1",
        *indented(body),
        *_else(orelse),
    ]


def _else(lines: list[str] | None) -> list[str]:
    return ["else:", *indented(lines)] if lines else []


def module_of(lines: list[str], folder: str, name: str = "program") -> torch.nn.Module:
    """The program as a module with a file of its own."""
    file = Path(folder) / f"{name}.py"
    file.write_text(HEADER + "\n".join(" " * 8 + line for line in ["best, at = x[0], 1", *lines, *FOOTER]) + "\n")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: Any = module.Random().eval()
    return made  # type: ignore[no-any-return]
