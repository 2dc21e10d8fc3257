"""A check runs the rewritten graph once on each input, and nothing else: eager's answers are kept."""

from __future__ import annotations

import importlib.util
from pathlib import Path

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "checking_cost.py"


def load():
    spec = importlib.util.spec_from_file_location("checking_cost", BENCHMARK)
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    return benchmark


def test_one_evaluation_for_each_pass_that_changes_something():
    rows, checks, before, _ = load().measure(layers=6, passes=4, inputs=5)
    assert [row.changed for row in rows] == [2, 2, 1, 1]
    assert all(row.verdict.holds and row.verdict.seconds <= row.seconds for row in rows)
    assert [dict(runs) for runs in checks] == [{"graph": 5}] * 4
    assert before["eager"] == 5 and before["float64"] <= 6


def test_a_pass_that_changes_nothing_costs_no_evaluation():
    rows, checks, _, _ = load().measure(layers=1, passes=3, inputs=2)
    assert [row.changed for row in rows] == [1, 0, 0]
    assert len(checks) == 1 and rows[1].verdict is None
