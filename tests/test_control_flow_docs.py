"""The examples of docs/control_flow.md: captured and equal to eager, or refused by the name that they state."""

from __future__ import annotations

import importlib.util
import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from graphaudit.capture import capture
from graphaudit.policy import Policy

PAGE = Path(__file__).parents[1] / "docs" / "control_flow.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
HEADER = "import math\nimport numpy as np\nimport torch\nfrom torch import nn\n\n\nclass Example(nn.Module):\n"
INPUTS = [torch.tensor(v) for v in itertools.product((-1.6, -0.3, 0.2, 1.4), repeat=3)]


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
    policy = Policy("example", module_of(source, tmp_path), (INPUTS[-1] * 0.5,))
    captured = capture(policy, look_for_frozen=False)
    refused = re.search(r"# refused: (\S+)", source)
    if refused is not None:
        assert captured.program is None and captured.blockers[-1].kind == refused.group(1)
        return
    assert captured.program is not None, captured.blockers[-1]
    run = captured.program.runner()
    for x in INPUTS:
        wanted = policy.working(x)
        got, *guards = run([x])
        assert not any(map(bool, guards))
        assert torch.allclose(got.to(wanted.dtype), wanted, rtol=1e-5, atol=1e-6, equal_nan=True), (x, got, wanted)
