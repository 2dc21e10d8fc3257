"""Policies of the libraries people use, from the module to the deployed bundle.

Every policy becomes a bundle that gives eager's outputs, the sampling ones from the same seed.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import graphaudit
from graphaudit.policy.isolation import clone_tensors
from graphaudit.policy.loading import load_policy

pytestmark = pytest.mark.zoo
pytest.importorskip("stable_baselines3", reason="the zoo needs the `rl` extra")

ZOO = Path(__file__).parent / "zoo"
NAMES = sorted(p.stem for p in ZOO.glob("[a-z]*.py"))
IN_OTHERS = ("own_diffusion_policy",)  # the sampled form of it runs every time
POLICIES = [pytest.param(n, marks=pytest.mark.long) if n in IN_OTHERS else n for n in NAMES]
TARGETS = ("ascend-310p", pytest.param("onnxruntime", marks=pytest.mark.long))  # the stricter one in every run
STEPS = 12  # inputs that the bundle is played on


@pytest.fixture(autouse=True)
def zoo_on_path() -> Iterator[None]:
    sys.path.insert(0, str(ZOO))
    yield
    sys.path.remove(str(ZOO))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", POLICIES)
def test_zoo(name: str, target: str, tmp_path: Path) -> None:
    source = importlib.import_module(name)
    report = graphaudit.rewrite(
        load_policy(f"{ZOO / name}.py:build"), target=target, output=tmp_path / "bundle", count=32
    )
    assert report.bundle is not None, [f.message for f in report.findings if f.blocks]
    deployed, eager = graphaudit.load(report.bundle), source.build()
    for seed in range(100, 100 + STEPS):
        args = source.inputs(seed)
        if source.EXPECT["random"]:
            torch.manual_seed(seed)
            deployed.seed(seed)
        with torch.no_grad():
            expected = leaves(eager(*clone_tensors(args)))
        for wanted, got in zip(expected, leaves(deployed(*args)), strict=True):
            assert wanted.shape == got.shape and wanted.dtype == got.dtype
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)


def leaves(result: Any) -> list[torch.Tensor]:
    return [torch.as_tensor(leaf) for leaf in pytree.tree_leaves(result) if leaf is not None]
