"""`graphaudit rewrite` against the stock road, each from process start to a file on disk.

    python benchmarks/rewrite_vs_stock.py [PAIRS]

The stock road is `torch.onnx.export(dynamo=True)` followed by `onnxsim.simplify`; it checks nothing. `graphaudit
rewrite` observes eager, captures, audits, runs every pass, compares after each step on 128 inputs, and writes a bundle.
The two take turns in fresh processes, after one unmeasured pair that warms the file cache; the order within a pair
alternates, so that a machine that slows down or speeds up favours neither. Prints each pair in seconds of wall clock,
and the median of the ratios; and the same in seconds of CPU, which other work on the machine disturbs less.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
POLICY = HERE / "mlp.py"
TARGET = "onnxruntime"
LIMIT = 2.0  # what the project holds itself to

STOCK = """
import sys
sys.path.insert(0, sys.argv[1])
import torch, onnx, onnxsim
import mlp
program = torch.onnx.export(
    mlp.build(), mlp.example_inputs(), dynamo=True, opset_version=18, dynamic_shapes=mlp.dynamic_shapes, verbose=False
)
simplified, ok = onnxsim.simplify(program.model_proto)
assert ok
onnx.save(simplified, sys.argv[2])
"""


def main() -> int:
    """The exit status: 0 if the median ratio is within LIMIT."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    wall, cpu = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _pair(folder, stock_first=True)
        for number in range(pairs):
            stock, ours = _pair(folder, stock_first=number % 2 == 0)
            wall.append(ours.wall / stock.wall)
            cpu.append(ours.cpu / stock.cpu)
            row = f"stock {stock.wall:5.2f} s   graphaudit rewrite {ours.wall:5.2f} s   ratio {wall[-1]:.2f}"
            print(f"{row}   in CPU seconds {cpu[-1]:.2f}", flush=True)
    median = statistics.median(wall)
    print(
        f"median ratio over {pairs} pairs: {median:.2f} (at most {LIMIT}); in CPU seconds {statistics.median(cpu):.2f}"
    )
    return int(median > LIMIT)


class Cost(NamedTuple):
    """Seconds that a process took."""

    wall: float
    cpu: float


def _pair(folder: Path, *, stock_first: bool) -> tuple[Cost, Cost]:
    """The stock road and ours."""
    if stock_first:
        stock, ours = _stock(folder), _ours(folder)
    else:
        ours, stock = _ours(folder), _stock(folder)
    return stock, ours


def _stock(folder: Path) -> Cost:
    return _timed([sys.executable, "-c", STOCK, str(HERE), str(folder / "stock.onnx")])


def _ours(folder: Path) -> Cost:
    bundle = folder / "bundle"
    shutil.rmtree(bundle, ignore_errors=True)
    rewrite = [sys.executable, "-m", "graphaudit", "rewrite", f"{POLICY}:build", "--target", TARGET]
    cost = _timed([*rewrite, "--output", str(bundle)])
    assert (bundle / "manifest.json").is_file()
    return cost


def _timed(command: list[str]) -> Cost:
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"}, check=False)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(command[:4])} … failed with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


if __name__ == "__main__":
    sys.exit(main())
