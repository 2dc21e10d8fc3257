"""The models that `zoo_speed.py` measures: each policy of tests/zoo at one batch size, in eager, stock and rewritten.

The batch of a policy with dynamic shapes is the dimension that it names; its models are made once and take any batch.
That of another is looked for: dimension 0 of every argument, or dimension 1 where an argument is a recurrent state
(layers, batch, width); a policy whose rows do not then come out as they do one by one has no batch. Its models are made
anew for each size.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils import _pytree as pytree

import graphaudit
from graphaudit.policy import Policy
from graphaudit.policy.loading import load_policy

ZOO = Path(__file__).resolve().parent.parent / "tests" / "zoo"
NAMES = sorted(path.stem for path in ZOO.glob("[a-z]*.py"))
TARGET = "onnxruntime"
CHECKS = 8  # inputs on which the stock model is compared with eager
COMPARED = 8  # inputs after each pass of a rewrite; the numbers are checked in tests/test_zoo.py

Arguments = tuple[Any, ...]


class NoBatch(Exception):
    """The policy takes no batch of this size. The text says why."""


class Subject:
    """One policy at one batch size."""

    def __init__(self, name: str, batch: int) -> None:
        self.name, self.batch = name, batch
        self.source: ModuleType = importlib.import_module(name)  # the caller has put ZOO on the path
        self.dynamic = getattr(self.source, "dynamic_shapes", None)
        self.random: bool = self.source.EXPECT["random"]
        self.dimensions = self._dimensions()

    def module(self) -> torch.nn.Module:
        """The policy itself."""
        return self.source.build()  # type: ignore[no-any-return]

    def arguments(self, seed: int = 0) -> Arguments:
        """Rows of the policy's own inputs, each from another seed, joined to a batch."""
        return _joined([self.source.inputs(seed + row) for row in range(self.batch)], self.dimensions)

    def export_stock(self, file: Path) -> None:
        """What `torch.onnx.export(dynamo=True)` makes of the policy. Raises what it raises."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            example = self.source.example_inputs() if self.dynamic else self.arguments()
            program = torch.onnx.export(
                self.module(), example, dynamo=True, dynamic_shapes=self.dynamic, verbose=False, external_data=False
            )
            assert program is not None
            program.save(file)

    def rewrite(self, bundle: Path) -> None:
        """Our bundle. Raises GraphAuditError, or ValueError with the findings where the answer is no."""
        policy: Policy = load_policy(f"{ZOO / self.name}.py:build")
        if not self.dynamic and self.batch > 1:
            policy = replace(policy, example_args=self.arguments(), inputs=self.arguments)
        report = graphaudit.rewrite(policy, target=TARGET, output=bundle, count=COMPARED)
        if report.bundle is None:
            raise ValueError("; ".join(f.message for f in report.findings if f.blocks))

    def _dimensions(self) -> list[int]:
        """The dimension of each leaf of the arguments that is the batch. Raises NoBatch."""
        first = self.source.inputs(0)
        leaves = pytree.tree_leaves(first)
        if self.dynamic:
            return [next(iter(entry)) for entry in self.dynamic]
        if self.batch == 1:
            return [0] * len(leaves)
        recurrent = [1 if leaf.ndim == 3 and leaf.shape[:2] == (1, 1) else 0 for leaf in leaves]
        reason = "an argument has no dimension of size 1 that could be the batch"
        for dimensions in ([0] * len(leaves), recurrent):
            if all(leaf.ndim > d and leaf.shape[d] == 1 for leaf, d in zip(leaves, dimensions, strict=True)):
                reason = self._why_not(dimensions)
                if not reason:
                    return dimensions
        raise NoBatch(reason)

    def _why_not(self, dimensions: Sequence[int]) -> str:
        """Why these dimensions are not the batch: empty if a batch gives each row what it gives alone."""
        rows = [self.source.inputs(seed) for seed in range(self.batch)]
        try:
            with torch.no_grad():
                together = pytree.tree_leaves(self.module()(*_joined(rows, dimensions)))
                alone = pytree.tree_leaves(self.module()(*rows[3]))
        except Exception as error:  # the user's code, given what it was not written for
            return f"eager takes no batch: {' '.join(str(error).split())[:100]}"
        for many, one in zip(together, alone, strict=True):
            if not isinstance(many, torch.Tensor):
                continue
            axes = [axis for axis, size in enumerate(many.shape) if size == self.batch != one.shape[axis]]
            if not axes:
                return f"a result has the shape {tuple(many.shape)} for {self.batch} rows"
            same = self.random or torch.allclose(many.narrow(axes[0], 3, 1).squeeze(), one.squeeze(), 1e-3, 1e-4)
            if not same:
                return "a row of a batch comes out otherwise than alone"
        return ""


def _joined(rows: Sequence[Any], dimensions: Sequence[int]) -> Arguments:
    """One call's arguments from those of several, each narrowed to its first row."""
    flat = [pytree.tree_flatten(tuple(row)) for row in rows]
    columns = zip(*(leaves for leaves, _ in flat), strict=True)
    joined = [torch.cat([leaf.narrow(d, 0, 1) for leaf in column], d) for column, d in zip(columns, dimensions)]
    return pytree.tree_unflatten(joined, flat[0][1])  # type: ignore[return-value]


def disagreement(subject: Subject, session: Any) -> str:
    """How the stock model differs from eager; empty where it agrees, floats within 1e-3 relative and 1e-4 absolute."""
    eager = subject.module()
    names = [value.name for value in session.get_inputs()]
    for seed in range(100, 100 + CHECKS):
        args = subject.arguments(seed)
        leaves = pytree.tree_leaves(args)
        if len(leaves) != len(names):
            return f"takes {len(names)} of {len(leaves)} inputs"
        got = session.run(None, {n: leaf.numpy() for n, leaf in zip(names, leaves)})
        torch.manual_seed(seed)
        with torch.no_grad():
            expected = [torch.as_tensor(r) for r in pytree.tree_leaves(eager(*deepcopy(args))) if r is not None]
        if len(got) != len(expected):
            return f"returns {len(got)} of {len(expected)} results"
        for a, b in zip(got, expected, strict=True):
            if tuple(a.shape) != tuple(b.shape):
                return f"a result has the shape {tuple(a.shape)}, not {tuple(b.shape)}"
            if not torch.allclose(torch.from_numpy(a).double(), b.double(), 1e-3, 1e-4, equal_nan=True):
                return "draws that are not PyTorch's" if subject.random else f"another result on input {seed}"
    return ""
