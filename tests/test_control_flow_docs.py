"""The examples of docs/control_flow.md: captured and equal to eager, or refused by the name that they state."""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from graphaudit.capture import capture
from graphaudit.capture.arguments import with_tensors_for_numbers
from graphaudit.capture.optional import with_zeros_for_none
from graphaudit.policy import Policy

PAGE = Path(__file__).parents[1] / "docs" / "control_flow.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
HEADER = """import math
import numpy as np
import torch
from torch import nn


class Example(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(3, 4)

"""
INPUTS = [torch.tensor(v) for v in itertools.product((-1.6, -0.3, 0.2, 1.4), repeat=3)]
# The parameters of forward → calls to compare on, the first of which is the example; and the dimensions that vary.
CALLS: dict[tuple[str, ...], tuple[list[tuple[Any, ...]], Any]] = {
    ("x",): ([(INPUTS[-1] * 0.5,), *((x,) for x in INPUTS)], None),
    ("rows",): ([(torch.randn(n, 3),) for n in (3, 1, 2, 5)], ({0: "rows"},)),
    ("x", "steps"): ([(x, n) for n, x in enumerate(INPUTS[:6])], None),
    ("x", "h"): ([(INPUTS[0], None), (INPUTS[1], torch.ones(1, 1, 4)), (INPUTS[2], None)], None),
    ("sequence", "lengths"): (
        [(torch.randn(5, 2, 3), torch.tensor(n)) for n in ([5, 3], [1, 5], [2, 4], [3, 3])],
        None,
    ),
}


def module_of(source: str, folder: Path) -> Any:
    file = folder / "example.py"
    file.write_text(HEADER + "".join(f"    {line}\n" for line in source.splitlines()))
    spec = importlib.util.spec_from_file_location("example", file)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made.Example().eval()


@pytest.mark.parametrize("source", BLOCKS, ids=range(len(BLOCKS)))
def test_an_example_does_what_the_page_says(source: str, tmp_path: Path) -> None:
    module = module_of(source, tmp_path)
    calls, shapes = CALLS[tuple(inspect.signature(module.forward).parameters)]
    given = Policy("example", module, calls[0], inputs=lambda seed: calls[seed % len(calls)], dynamic_shapes=shapes)
    policy = with_tensors_for_numbers(with_zeros_for_none(given))
    captured = capture(policy, look_for_frozen=False)
    refused = re.search(r"# refused: (\S+)", source)
    if refused is not None:
        assert captured.program is None and captured.blockers[-1].kind == refused.group(1)
        return
    assert captured.program is not None, captured.blockers[-1]
    run = captured.program.runner()
    for number in range(len(calls)):
        args = policy.inputs(number)  # type: ignore[misc]
        wanted = policy.working(*args)
        got, *guards = run(policy.interface.flatten(args))
        assert not any(map(bool, guards))
        assert torch.allclose(got.to(wanted.dtype), wanted, rtol=1e-5, atol=1e-6, equal_nan=True), (args, got, wanted)
