"""What the rulebook predicts for ONNX Runtime against what sessions do, over all operators, opsets and dtypes.

    python benchmarks/onnxruntime_predictions.py [FIRST_OPSET [LAST_OPSET]]

Makes a model of a single node for every operator of ai.onnx at every opset from 7 on with every dtype that makes it
valid ONNX, asks the rulebook, creates a session, and prints the confusion table in Markdown. Exit status 1 if any
prediction is wrong. Takes a few minutes.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

import onnx
import onnxruntime

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from graphaudit.graphs.view import Node
from graphaudit.rulebook import Answer, Support, load_rulebook
from tests.rulebook.models import make_model, session_error, single_nodes

RUNS = (Support.SUPPORTED, Support.LIMITED)


def main() -> int:
    """The exit status: 0 if every prediction agrees with the session."""
    rulebook = load_rulebook("onnxruntime")
    first = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    last = int(sys.argv[2]) if len(sys.argv) > 2 else rulebook.target.max_opset
    operators = sorted({s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""})
    table: Counter[tuple[Support, bool]] = Counter()
    wrong: dict[tuple[str, Support], str] = {}
    covered: set[str] = set()
    started = time.perf_counter()
    for node in single_nodes(operators, range(first, last + 1)):
        answer, error = rulebook.answer(node), session_error(make_model(node))
        table[answer.support, error is None] += 1
        covered.add(node.op)
        if answer.support is Support.UNKNOWN or (answer.support in RUNS) != (error is None):
            wrong.setdefault((node.op, answer.support), _described(node, answer, error))
    _print(table, f"opset {first} to {last}, {len(covered)} of {len(operators)} operators")
    print(f"\n{table.total():,} models in {time.perf_counter() - started:.0f} s", file=sys.stderr)
    for line in wrong.values():
        print(line, file=sys.stderr)
    return int(bool(wrong))


def _print(table: Counter[tuple[Support, bool]], what: str) -> None:
    print(f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}, CPU; {what}\n")
    print("| the rulebook says | session created | session refused |\n|---|---:|---:|")
    for support in Support:
        print(f"| {support.value} | {table[support, True]:,} | {table[support, False]:,} |")


def _described(node: Node, answer: Answer, error: str | None) -> str:
    dtypes = ", ".join(v.dtype or "?" for v in node.inputs if v is not None)
    said = "; ".join(answer.reasons) or answer.support.value
    return f"{node.op} at opset {node.opset} ({dtypes}): the rulebook says {said}; the session says {error or 'yes'}"


if __name__ == "__main__":
    sys.exit(main())
