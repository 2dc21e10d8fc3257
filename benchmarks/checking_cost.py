"""What checking costs: a policy of 1,000 nodes, 30 passes that each change it, compared on 32 inputs after each.

    python benchmarks/checking_cost.py

An evaluation is one run of the eager module on all inputs. Eager and its float64 copy are run before the first pass,
and their answers serve every later check, so that a check costs one run of the rewritten graph, and a pass that changes
nothing costs none. The runs are counted, not estimated: of eager, of its float64 copy, and of the graph. Prints both
that count and the time of the checks in units of one evaluation; exits with status 1 if a pass costs more than LIMIT.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from graphaudit.equivalence.eager import Eager
from graphaudit.equivalence.inputs import collect
from graphaudit.equivalence.reference import Reference
from graphaudit.graphs.program import Program
from graphaudit.policy import Policy
from graphaudit.results import PassRow
from graphaudit.rewrite.base import Level, Pass, PassResult, Site
from graphaudit.rewrite.edit import insert_call, replace_node
from graphaudit.rewrite.pipeline import run_pipeline
from graphaudit.rewrite.replay import capture_graph
from graphaudit.rulebook import load_rulebook
from graphaudit.rulebook.target import Target

LAYERS, PASSES, INPUTS = 334, 30, 32
LIMIT = 3.0


class Tower(nn.Module):
    """Three nodes a layer: a linear layer, a division by two, tanh."""

    def __init__(self, layers: int = LAYERS) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x) / 2)
        return x


def make_passes(count: int) -> list[Pass[Program]]:
    """`count` passes; the one of number n rewrites every count-th division by two, from the n-th on, exactly."""

    class Multiply(Pass[Program]):
        level = Level.FX

        def __init__(self, number: int) -> None:
            super().__init__()
            self.number = number

        def run(self, artifact: Program, target: Target) -> PassResult[Program]:  # noqa: ARG002
            result = PassResult(artifact)
            divisions = artifact.graph.find_nodes(op="call_function", target=torch.ops.aten.div.Tensor)
            for node in divisions[:: count - self.number]:
                replace_node(node, insert_call(node, torch.ops.aten.mul.Tensor, (node.args[0], 0.5)))
                result.rewritten.append(Site(node.name, artifact.place(node)))
            artifact.finish()
            return result

    made = []
    for number in range(count):
        step = Multiply(number)
        step.name = f"rewrite_{number:02}"  # type: ignore[misc]
        made.append(step)
    return made


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Counts runs of eager, of its float64 copy and of graphs while it is open."""
    runs: Counter[str] = Counter()
    call, runner = Eager.__call__, Program.runner

    def counting_call(self: Eager, *args: Any, **kwargs: Any) -> Any:
        runs["float64" if self._wide else "eager"] += 1
        return call(self, *args, **kwargs)

    def counting_runner(self: Program, *args: Any) -> Callable[..., Any]:
        run = runner(self, *args)

        def counting_run(inputs: Any) -> Any:
            runs["graph"] += 1
            return run(inputs)

        return counting_run

    Eager.__call__, Program.runner = counting_call, counting_runner  # type: ignore[method-assign]
    try:
        yield runs
    finally:
        Eager.__call__, Program.runner = call, runner  # type: ignore[method-assign]


def measure(layers: int, passes: int, inputs: int) -> tuple[list[PassRow], list[Counter[str]], Counter[str], float]:
    """The rows of a pipeline, the runs of each of its checks, those before it, and the seconds of one evaluation."""
    module = Tower(layers).eval()
    _, program = capture_graph(module, (torch.zeros(1, 64),))
    policy = Policy("Tower", module, (torch.zeros(1, 64),))
    with counted() as runs:
        reference = Reference(policy, collect(policy, inputs))
        before = Counter(runs)
        per_check: list[Counter[str]] = []

        def check(step: str, artifact: Program, claims: Any) -> Any:
            start = Counter(runs)
            verdict = reference.check(step, artifact.runner(), claims)
            per_check.append(runs - start)
            return verdict

        target = load_rulebook("onnxruntime").target
        result = run_pipeline(program, make_passes(passes), check=check, target=target)
    started = time.perf_counter()
    with torch.no_grad():
        for sample in reference.samples:
            module(*sample.args)
    return result.rows, per_check, before, time.perf_counter() - started


def main() -> int:
    """The exit status: 0 if no pass costs more than LIMIT."""
    torch.set_num_threads(1)
    rows, checks, before, evaluation = measure(LAYERS, PASSES, INPUTS)
    assert len(checks) == PASSES and all(r.verdict is not None and r.verdict.holds for r in rows)
    print(f"{3 * LAYERS} nodes, {PASSES} passes, {INPUTS} inputs; one evaluation takes {evaluation:.2f} s")
    print(
        f"before the first pass: {before['eager'] / INPUTS:.1f} of eager, {before['float64'] / INPUTS:.1f} in float64"
    )
    print("pass          rewriting   checking   in evaluations   runs: graph   eager   float64")
    for row, runs in zip(rows, checks, strict=True):
        checking = row.verdict.seconds if row.verdict else 0.0
        counts = [runs[kind] / INPUTS for kind in ("graph", "eager", "float64")]
        print(
            f"{row.name:12}  {row.seconds - checking:7.2f} s   {checking:6.2f} s   {checking / evaluation:14.2f}   "
            f"{counts[0]:11.1f}   {counts[1]:5.1f}   {counts[2]:7.1f}"
        )
    worst = max(sum(runs.values()) / INPUTS for runs in checks)
    slowest = max((row.verdict.seconds if row.verdict else 0.0) / evaluation for row in rows)
    print(f"most per pass: {worst:.2f} evaluations by count, {slowest:.2f} by time (at most {LIMIT})")
    return int(max(worst, slowest) > LIMIT)


if __name__ == "__main__":
    raise SystemExit(main())
