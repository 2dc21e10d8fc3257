"""How long the rulebook takes to judge a large ONNX model, and how much memory.

    python benchmarks/rulebook.py [TARGET]...

Chains of 10,000 and 100,000 nodes, each in a process of its own: loading, judging (the view with its types, and the
answer for every node), the islands of the graph, the whole `graphaudit audit`, and the peak of memory while judging.
Times are those of the processor, which other work on the machine does not change: one thread does it all. Exit status 1
if judging misses its limit.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice, pairwise
from pathlib import Path

LIMITS = {10_000: 1.0, 100_000: 12.0}  # seconds
TARGETS = ("onnx", "onnxruntime", "ascend-310p", "tensorrt")
OPERATORS = ("Relu", "Tanh", "Add", "Mul", "Sigmoid", "Sub", "Exp", "Abs")
BINARY = ("Add", "Mul", "Sub")


def main(targets: list[str]) -> int:
    """The exit status: 0 if every limit is kept."""
    late = False
    print("| nodes | target | loading | judging | limit | islands | whole audit | peak memory |")
    print("|---:|---|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for nodes, limit in LIMITS.items():
            file = write_model(Path(folder), nodes)
            for target in targets:
                command = [sys.executable, __file__, "--measure", str(file), target]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                m = json.loads(done.stdout)
                late = late or m["judging"] > limit
                print(
                    f"| {nodes:,} | {target} | {m['loading']:.2f} s | {m['judging']:.2f} s | {limit:.0f} s "
                    f"| {m['islands']:.2f} s | {m['audit']:.2f} s | {m['peak']:.0f} MiB |",
                    flush=True,
                )
    return int(late)


def write_model(folder: Path, nodes: int) -> Path:
    """A chain of operators of one and of two inputs."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    made, last = [], "x"
    for index, op in enumerate(islice(cycle(OPERATORS), nodes)):
        made.append(helper.make_node(op, [last, "w"] if op in BINARY else [last], [f"v{index}"], name=f"n{index}"))
        last = f"v{index}"
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64]) for name in ("x", last)]
    weights = [numpy_helper.from_array(np.ones(64, np.float32), "w")]
    graph = helper.make_graph(made, "chain", ends[:1], ends[1:], weights)
    file = folder / f"{nodes}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), file)
    return file


def measure(file: str, target: str) -> None:
    """Print the seconds of each step and the peak of memory (MiB) as JSON."""
    from graphaudit.audit.islands import survey
    from graphaudit.graphs.onnx_reader import load_onnx
    from graphaudit.graphs.onnx_view import view_model
    from graphaudit.rulebook import load_rulebook

    rulebook = load_rulebook(target)
    times = [time.process_time()]
    model = load_onnx(file)
    times.append(time.process_time())
    graph = view_model(model)
    for node in graph.nodes:
        rulebook.answer(node)
    times.append(time.process_time())
    survey(graph, rulebook)
    times.append(time.process_time())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # KiB on Linux
    from graphaudit.api import audit

    times.append(time.process_time())  # not counting the import of torch
    audit(model, target=target)
    times.append(time.process_time())
    loading, judging, islands, _, whole = (after - before for before, after in pairwise(times))
    print(json.dumps({"loading": loading, "judging": judging, "islands": islands, "audit": whole, "peak": peak}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(*sys.argv[2:])
    else:
        sys.exit(main(sys.argv[1:] or list(TARGETS)))
