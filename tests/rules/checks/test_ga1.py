"""Checks of family GA1, control flow."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from graphaudit.capture import Frozen
from graphaudit.capture.arguments import with_tensors_for_numbers
from tests.rules.checks.subjects import LINE, audited, case, event, findings, observed, said


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        *[(s, "data-dependent-branch") for s in ("if", "elif", "ifexp", "and", "or", "not", "call:max", "")],
        ("while", "data-dependent-loop"),
        ("assert", "data-dependent-assert"),
    ],
)
def test_bool_goes_to_one_check_by_its_statement(statement: str, name: str) -> None:
    names = ("data-dependent-branch", "data-dependent-loop", "data-dependent-assert")
    subject = observed(event("bool", statement=statement), captured=False)
    assert said(subject, *names) == [(name, "error")]


def test_captured_branches_are_notes_and_lost_assertions_warnings() -> None:
    assert said(observed(event("bool", statement="if"))) == [("data-dependent-branch", "note")]
    assert said(observed(event("bool", statement="assert"))) == [("data-dependent-assert", "warning")]
    assert said(observed(event("validation"))) == [("data-dependent-assert", "note")]


def test_a_branch_that_capture_froze_is_an_error() -> None:
    subject = observed(event("bool", statement="if"), frozen=[Frozen(LINE, "x", "input", "a", "b")])
    assert said(subject) == [("data-dependent-branch", "error")]


def test_break_and_return_under_a_condition() -> None:
    broken = observed(event("bool", "", "if", "break", "loop"), captured=False)
    assert {n for n, _ in said(broken)} == {"data-dependent-branch", "data-dependent-loop", "break-in-loop"}
    returned = observed(event("bool", "", "if", "return"), captured=False)
    assert {n for n, _ in said(returned)} == {"data-dependent-branch", "early-return"}
    plain = observed(event("bool", statement="if"), captured=False)
    assert said(plain, "early-return", "break-in-loop", "data-dependent-loop") == []


def test_the_place_is_the_events() -> None:
    (found,) = findings(observed(event("item", "item")), "item-call")
    assert (found.file, found.line, found.column) == (LINE.file, 57, 8)


class Loops(nn.Module):
    def __init__(self, bounded: bool):
        super().__init__()
        self.bounded = bounded

    def forward(self, obs):
        i = 0
        if self.bounded:
            while obs.norm() > 1.0 and i < 8:
                obs, i = obs * 0.5, i + 1
        else:
            while obs.norm() > 1.0:
                obs = obs * 0.5
        return obs


def test_a_counter_bounds_a_loop() -> None:
    args = (torch.full((1, 4), 3.0),)
    name = "loop-bound-unknown"
    assert said(audited(Loops(False), args), name) == [(name, "error")]
    assert said(audited(Loops(True), args), name) == []


def test_a_loop_inside_torchscript_is_found_at_its_line() -> None:
    module, subject = case("case_189")
    found = findings(subject, "data-dependent-loop")
    assert [f.file for f in found] == [module.__file__] and found[0].severity == "error"


class Number(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList([nn.Linear(4, 2), nn.Linear(4, 2)])
        self.gains = [0.5, 2.0]

    def forward(self, obs):
        k = int(obs[0, 0] > 0)
        if k == 1:
            obs = obs + 1
        row = obs[k]
        return self.heads[k](obs) * self.gains[k] + row.sum()


def test_what_a_number_of_a_tensor_decides() -> None:
    names = ("data-dependent-branch", "data-dependent-module-choice", "python-table-lookup", "item-call")
    found = findings(audited(Number(), (torch.ones(2, 4),)), *names)
    assert {f.name for f in found} == set(names)
    (table,) = [f for f in found if f.name == "python-table-lookup"]
    assert "self.gains" in table.message


class Steps(nn.Module):
    def forward(self, x, n: int, scale: float):
        for _ in range(n):
            x = torch.tanh(x) * scale
        return x


def test_loop_count_from_argument() -> None:
    args = (torch.ones(2, 3), 4, 0.5)
    name = "loop-count-from-argument"
    assert said(audited(Steps(), args, capturing=False), name) == [(name, "warning")]
    varied = audited(Steps(), args, lambda seed: (args[0], 2 + seed, 0.5), capturing=False)
    assert said(varied, name) == [(name, "error")]
    assert varied.policy is not None
    numbers = replace(varied, policy=with_tensors_for_numbers(varied.policy))
    assert said(numbers, name) == [(name, "note")]


class Rows(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 2)

    def forward(self, obs):
        return torch.stack([self.net(row) for row in obs])


class Times(Rows):
    def forward(self, obs):
        total = torch.zeros(obs.shape[0], 2)
        for t in range(obs.shape[1]):
            total = total + self.net(obs[:, t])
        return total


LOOPS = ("batch-loop", "loop-over-dynamic-dim", "loop-over-static-dim")


def test_loops_by_the_dimension_they_run_over() -> None:
    static = audited(Rows(), (torch.ones(3, 4),))
    assert said(static, *LOOPS) == [("loop-over-static-dim", "note")]
    batch = audited(Rows(), (torch.ones(3, 4),), dynamic_shapes=({0: "batch"},))
    assert [n for n, _ in said(batch, *LOOPS)] == ["batch-loop"]
    time = audited(Times(), (torch.ones(2, 3, 4),), dynamic_shapes=({1: "time"},))
    assert [n for n, _ in said(time, *LOOPS)] == ["loop-over-dynamic-dim"]
    fixed = audited(Times(), (torch.ones(2, 3, 4),))
    assert said(fixed, *LOOPS) == []


def test_rows_that_vary_between_inputs_are_dynamic_without_declaration() -> None:
    subject = audited(Rows(), (torch.ones(3, 4),), lambda seed: (torch.ones(2 + seed, 4),), capturing=False)
    assert said(subject, *LOOPS) == [("loop-over-dynamic-dim", "warning")]


class ShapeBranch(Rows):
    def forward(self, obs):
        n, width = obs.shape
        if n > 3:
            obs = obs - obs.mean(0, keepdim=True)
        if width != 4 or obs.dim() != 2:
            raise ValueError("width")
        return self.net(obs)


def test_a_branch_on_a_size_matters_only_where_the_size_varies() -> None:
    name = "shape-branch-on-dynamic-dim"
    args = (torch.ones(5, 4),)
    found = findings(audited(ShapeBranch(), args, dynamic_shapes=({0: "batch"},)), name)
    assert len(found) == 1 and "batch" in found[0].message
    assert said(audited(ShapeBranch(), args), name) == []


class Bisect(nn.Module):
    def halve(self, x, depth):
        if depth == 3 or x.norm() < 1:
            return x
        return self.halve(x * 0.5, depth + 1)

    def forward(self, obs):
        return self.halve(obs, 0)


class Tree(Bisect):
    def halve(self, x, depth):
        return x if depth == 3 else self.halve(x * 0.5, depth + 1)


def test_recursion_matters_only_where_a_tensor_ends_it() -> None:
    args = (torch.full((1, 4), 9.0),)
    assert said(audited(Bisect(), args), "recursion") == [("recursion", "note")]  # masks, down to the depth in the code
    assert said(audited(Tree(), args), "recursion") == []


@pytest.mark.parametrize(
    ("detail", "name"),
    [
        ("aten::nonzero", "nonzero"),
        ("bool-mask-index", "bool-mask-index"),
        ("aten::masked_select", "bool-mask-index"),
        ("aten::_unique2", "unique"),
        ("aten::repeat_interleave.Tensor", None),
    ],
)
def test_data_dependent_shapes(detail: str, name: str | None) -> None:
    special = ("nonzero", "bool-mask-index", "unique")
    subject = observed(event("data-shape", detail))
    assert said(subject, "data-dependent-shape") == [("data-dependent-shape", "note")]
    assert said(subject, *special) == ([(name, "note")] if name else [])
    assert said(observed(event("data-shape", detail), captured=False), "data-dependent-shape")[0][1] == "error"


def test_constants_made_in_forward_are_no_finding() -> None:
    assert said(observed(event("rebuilt", "tensor")), "tensor-rebuilt-from-python") == []
    varying = observed(event("item"), event("rebuilt", "tensor"))
    assert said(varying, "tensor-rebuilt-from-python") == [("tensor-rebuilt-from-python", "note")]
    failed = observed(event("item"), event("rebuilt", "tensor"), captured=False)
    assert said(failed, "tensor-rebuilt-from-python") == [("tensor-rebuilt-from-python", "error")]


def test_clock() -> None:
    assert said(observed(event("clock", "time")), "wall-clock") == [("wall-clock", "warning")]
    assert said(observed(event("clock", "time"), between_calls=True), "wall-clock") == [("wall-clock", "error")]


class Plans(nn.Module):
    def __init__(self, long: int):
        super().__init__()
        self.short, self.long = nn.Linear(4, 4), nn.Linear(4, long)

    def forward(self, obs):
        return self.short(obs) if obs[0, 0] > 0 else self.long(obs)


def test_sides_of_different_shapes() -> None:
    name = "branch-output-shapes-differ"
    args = (torch.ones(1, 4),)
    (found,) = findings(audited(Plans(8), args, lambda seed: (args[0] * (-1) ** seed,), capturing=False), name)
    assert found.severity == "error" and "(1, 4)" in found.message and "(1, 8)" in found.message
    assert said(audited(Plans(4), args, lambda seed: (args[0] * (-1) ** seed,), capturing=False), name) == []
    assert said(audited(Plans(8), args, lambda seed: args, capturing=False), name) == []
