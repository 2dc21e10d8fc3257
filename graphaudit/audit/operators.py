"""What each target says of each operator of a policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from graphaudit.audit.subject import Subject
from graphaudit.results import OperatorRow
from graphaudit.rulebook import Support

# From the best answer to the worst: what is not known may yet be taken.
_ORDER = (Support.SUPPORTED, Support.LIMITED, Support.UNKNOWN, Support.UNSUPPORTED)


def operator_rows(subjects: Sequence[Subject]) -> list[OperatorRow]:
    """A row for each operator of the graphs that the subjects' rulebooks judge, by name; none without a graph."""
    rows: dict[str, OperatorRow] = {}
    for subject in subjects:
        if subject.judged is None or subject.rulebook is None:
            continue
        worst: dict[str, Support] = {}
        counts: Counter[str] = Counter()
        for node in subject.judged.nodes:
            op = f"{node.domain}::{node.op}" if node.domain and "." not in node.op else node.op
            answer = subject.rulebook.answer(node).support
            counts[op] += 1
            worst[op] = max(worst.get(op, answer), answer, key=_ORDER.index)
        for op, support in worst.items():
            row = rows.setdefault(op, OperatorRow(op=op, count=0, answers={}))
            row.count = max(row.count, counts[op])
            row.answers[subject.rulebook.target.name] = support.value
    return [rows[op] for op in sorted(rows)]
