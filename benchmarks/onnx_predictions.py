"""Asks the rulebook of the target `onnx` about every operator, opset and dtype, and then onnx's checker and inference.

    python benchmarks/onnx_predictions.py [FIRST_OPSET] [LAST_OPSET]

Prints the confusion table in Markdown. Exit status 1 where prediction and reality differ. Some ten minutes of
processor time for all.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

import onnx

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from graphaudit.rulebook import Support, load_rulebook
from tests.rulebook.models import checker_error, make_model, plain_nodes


def main() -> int:
    """The exit status: 0 if every prediction agrees with the checker."""
    rulebook = load_rulebook("onnx")
    first = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    last = int(sys.argv[2]) if len(sys.argv) > 2 else rulebook.target.max_opset
    operators = sorted({s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""})
    table: Counter[tuple[Support, bool]] = Counter()
    wrong: dict[str, str] = {}
    covered: set[str] = set()
    started = time.perf_counter()
    for node in plain_nodes(operators, range(first, last + 1)):
        support, error = rulebook.answer(node).support, checker_error(make_model(node))
        table[support, error is None] += 1
        covered.add(node.op)
        if support is not Support.LIMITED and (support is Support.SUPPORTED) != (error is None):
            wrong.setdefault(node.op, f"{node.op} at opset {node.opset}: {support.value}; {error or 'accepted'}")
    print(f"onnx {onnx.__version__}; opset {first} to {last}, {len(covered)} of {len(operators)} operators\n")
    print("| the rulebook says | accepted | refused |\n|---|---:|---:|")
    for support in Support:
        print(f"| {support.value} | {table[support, True]:,} | {table[support, False]:,} |")
    print(f"\n{table.total():,} models in {time.perf_counter() - started:.0f} s", file=sys.stderr)
    for line in wrong.values():
        print(line, file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
