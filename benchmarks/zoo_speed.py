"""Speed and memory of the zoo's policies: eager, the stock ONNX model and ours, paired in one process on one thread.

    python benchmarks/zoo_speed.py ROWS.jsonl [--models DIR] [--only NAME,NAME…] [--rounds N] [--skip times|memory]
    python benchmarks/zoo_report.py ROWS.jsonl …    # docs/zoo_speed.md and docs/zoo_speed.svg

The stock model is what `torch.onnx.export(dynamo=True)` makes. In each round every variant runs for some milliseconds,
in a shuffled order, after one call that is not timed; a ratio is the median of the rounds' ratios, of process CPU time,
which other work on the machine disturbs least (wall time is in the JSON beside it). A second session of our own model
takes part as a control: how far its ratio strays from 1 is the noise. Noise and state of our model are drawn before the
clock starts, since they are inputs; `call` is the whole of `graphaudit.load(DIR)(…)` with NumPy arrays,
drawing and checks included, and `call_torch` the same with torch tensors.

Peak memory is that of a fresh process that loads the variant and runs it 20 times: eager with torch and the libraries
that it needs, a model with ONNX Runtime alone. It is VmHWM of /proc/self/status, because getrusage's figure would take
over what the parent process had. It is measured at the largest batch size only.

Adds a line of JSON to ROWS.jsonl for each policy and batch size. `--models` keeps the models between runs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import onnx
import onnxruntime as ort
import torch
from torch.utils import _pytree as pytree

sys.path.insert(0, str(Path(__file__).resolve().parent))

import zoo_models

import graphaudit

BATCHES = (1, 64)
SLICE = 0.004  # seconds that a variant runs in a round
Call = Callable[[], Any]
Row = dict[str, Any]

MODEL_PROCESS = """
import sys
import numpy as np, onnxruntime as ort
options = ort.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
options.log_severity_level = 4
session = ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
with np.load(sys.argv[2]) as archive:
    feeds = dict(archive)
for _ in range(20):
    session.run(None, feeds)
print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024)
"""
EAGER_PROCESS = """
import sys
sys.path.insert(0, sys.argv[1])
import torch, importlib
torch.set_num_threads(1)
module, args = importlib.import_module(sys.argv[2]).build(), torch.load(sys.argv[3], weights_only=False)
with torch.no_grad():
    for _ in range(20):
        module(*args)
print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024)
"""


def main() -> int:
    """Measure what is asked for, line by line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--only", default=",".join(zoo_models.NAMES))
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--skip", choices=("times", "memory"))
    parser.add_argument("--make", action="store_true", help="make the models and measure nothing")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        options.models = options.models or Path(scratch)
        names = options.only.split(",")
        if len(names) > 1:
            return _each(names, options)
        sys.path.insert(0, str(zoo_models.ZOO))
        torch.set_num_threads(1)
        for batch in BATCHES:
            row = _row(names[0], batch, options.models / names[0], options)
            if not options.make:
                with options.rows.open("a") as stream:
                    print(json.dumps(row), file=stream, flush=True)
    return 0


def _each(names: list[str], options: argparse.Namespace) -> int:
    """A process for each policy, because some libraries switch off the validation of distributions for all others.

    The models are made first, on every core; then one policy after the other is measured.
    """

    def run(name: str, *more: str) -> None:
        own = [sys.executable, __file__, *sys.argv[1:], "--only", name, "--models", str(options.models), *more]
        subprocess.run(own, check=True)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda name: run(name, "--make"), names))
    for name in names if not options.make else ():
        run(name)
    return 0


def _row(name: str, batch: int, folder: Path, options: argparse.Namespace) -> Row:
    """One line of the table; `skipped` says why there is none."""
    row: Row = {"policy": name, "batch": batch}
    try:
        subject = zoo_models.Subject(name, batch)
    except zoo_models.NoBatch as error:
        return row | {"skipped": str(error)}
    folder = folder / ("any" if subject.dynamic else str(batch))
    folder.mkdir(parents=True, exist_ok=True)
    bundle, stock = folder / "bundle", folder / "stock.onnx"
    for made, make in ((bundle, subject.rewrite), (stock, subject.export_stock)):
        failure = folder / f"{made.stem}_failed"
        try:
            if not made.exists() and not failure.exists():
                make(made)
        except Exception as error:  # torch.onnx raises errors of every kind; the table says which
            failure.write_text(f"{type(error).__name__}: {' '.join(str(error).split())[:150]}")
        if failure.exists():
            row[failure.name] = failure.read_text()
    if "bundle_failed" in row or options.make:
        return row
    return row | _measure(subject, bundle, stock, options)


def _measure(subject: zoo_models.Subject, bundle: Path, stock: Path, options: argparse.Namespace) -> Row:
    args = subject.arguments()
    module = subject.module()
    deployed = graphaudit.load(bundle)
    feeds = deployed.feeds(*args)
    arrays = pytree.tree_map_only(torch.Tensor, torch.Tensor.numpy, args)
    model = bundle / deployed.manifest.model.file
    ours, control = _session(model), _session(model)
    variants: dict[str, Call] = {
        "eager": lambda: module(*args),
        "ours": lambda: ours.run(None, feeds),
        "control": lambda: control.run(None, feeds),
        "call": lambda: deployed(*arrays),
        "call_torch": lambda: deployed(*args),
    }
    row: Row = {"nodes": len(onnx.load(model).graph.node)}
    if stock.exists():
        stock_session = _session(stock)
        row["stock_nodes"] = len(onnx.load(stock).graph.node)
        row["stock_differs"] = zoo_models.disagreement(subject, stock_session)
        leaves = pytree.tree_leaves(args)
        given = {value.name: leaf.numpy() for value, leaf in zip(stock_session.get_inputs(), leaves)}
        variants["stock"] = lambda: stock_session.run(None, given)
    if options.skip != "times":
        with torch.no_grad():
            row |= _times(variants, options.rounds)
    if options.skip != "memory" and subject.batch == max(BATCHES):
        row["memory"] = _memory(subject, args, model, feeds, stock, given if stock.exists() else {})
    return row


def _session(file: Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def _times(variants: dict[str, Call], rounds: int) -> Row:
    """Seconds a call (medians, CPU and wall), and ratios: the medians of the rounds' own."""
    counts = {name: _calls_in_slice(call) for name, call in variants.items()}
    cpu: dict[str, list[float]] = {name: [] for name in variants}
    wall: dict[str, list[float]] = {name: [] for name in variants}
    order, shuffler = list(variants), random.Random(0)
    for _ in range(rounds):
        shuffler.shuffle(order)
        for name in order:
            call, count = variants[name], counts[name]
            call()  # what ran before has left the caches cold
            started, before = time.perf_counter(), time.process_time()
            for _ in range(count):
                call()
            cpu[name].append((time.process_time() - before) / count)
            wall[name].append((time.perf_counter() - started) / count)
    ratios = {
        name: statistics.median(other / own for other, own in zip(cpu[name], cpu["ours"], strict=True)) for name in cpu
    }
    best = {name: min(times) / min(cpu["ours"]) for name, times in cpu.items()}
    return {
        "cpu": {name: statistics.median(times) for name, times in cpu.items()},
        "wall": {name: statistics.median(times) for name, times in wall.items()},
        "ratio": ratios,
        "ratio_of_minima": best,
    }


def _calls_in_slice(call: Call) -> int:
    for _ in range(3):
        call()
    started, calls = time.process_time(), 0
    while time.process_time() - started < SLICE:
        call()
        calls += 1
    return max(1, calls)


def _memory(subject: Any, args: Any, model: Path, feeds: Any, stock: Path, given: Any) -> dict[str, float]:
    """Peak resident memory of a process of its own for each variant, in MiB."""
    import numpy as np

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        torch.save(args, folder / "args.pt")
        np.savez(folder / "ours.npz", **feeds)
        found = {
            "eager": _peak(EAGER_PROCESS, zoo_models.ZOO, subject.name, folder / "args.pt"),
            "ours": _peak(MODEL_PROCESS, model, folder / "ours.npz"),
        }
        if stock.exists():
            np.savez(folder / "stock.npz", **given)
            found["stock"] = _peak(MODEL_PROCESS, stock, folder / "stock.npz")
    return found


def _peak(program: str, *arguments: object) -> float:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    return float(done.stdout.split()[-1])


if __name__ == "__main__":
    sys.exit(main())
