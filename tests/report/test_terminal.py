"""The report for people, on reports made by hand."""

from __future__ import annotations

import io
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from graphaudit.equivalence.verdict import Claim, Verdict
from graphaudit.findings import Evidence, Finding, Place, Severity, merge
from graphaudit.report.terminal import print_report
from graphaudit.results import CaptureSummary, LeftAlone, PassRow, PolicySummary, Report

SOURCE = """import torch


def attend(s):
    w = torch.exp(s) / torch.exp(s).sum(-1, keepdim=True)  # as in [1]
\tif s.norm() > 1: return w
    return torch.where(w > 0.5, torch.nn.functional.softplus(w, beta=2.0, threshold=40.0), torch.zeros_like(w))
    名前 = s.item()
"""


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "walker.py"
    file.write_text(SOURCE)
    return str(file)


def finding(file: str | None = None, line: int | None = None, **fields: Any) -> Finding:
    usual: dict[str, Any] = {
        "code": "GA301",
        "name": "naive-softmax",
        "severity": Severity.WARNING,
        "message": "exp() overflows float32 above 88, float16 above 11",
        "file": file,
        "line": line,
    }
    return Finding(**{**usual, **fields})


def verdict(claim: Claim = Claim.EQUIVALENT, worst: float = 2.4e-7, **fields: Any) -> Verdict:
    return Verdict(step="step", claim=claim, inputs=128, worst_abs=worst, **fields)


def report(findings: list[Finding], **fields: Any) -> Report:
    usual: dict[str, Any] = {
        "graphaudit_version": "0.1.0",
        "command": "audit",
        "policy": PolicySummary(name="walker.py:build", parameters=41220, inputs=3, operators=22),
        "capture": CaptureSummary(method="torch.export", branches=2, loops=1),
        "targets": ["ascend-310p"],
        "findings": merge(findings),
        "fit": {"ascend-310p": True},
    }
    return Report(**{**usual, **fields})


def printed(value: Report, width: int = 100, *, colour: bool = False, verbose: bool = False) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=colour, color_system="standard" if colour else None)
    print_report(value, console, verbose=verbose)
    return stream.getvalue()


def block(text: str, start: str) -> list[str]:
    """The lines from the one that starts with `start` to the next empty one."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(start))
    return lines[first : next(i for i in range(first, len(lines)) if not lines[i])]


def test_the_header_says_what_was_read_and_how(source: str) -> None:
    assert printed(report([])).splitlines()[:2] == [
        "policy    walker.py:build   41,220 parameters · 3 inputs · 22 operators",
        "capture   torch.export      2 branches, 1 loop on tensors",
    ]
    failed = printed(report([], capture=CaptureSummary(method=None)))
    assert "capture   failed            no graph could be made" in failed
    plain = printed(report([], capture=CaptureSummary(method="onnx"), policy=PolicySummary(name="m.onnx")))
    assert plain.splitlines()[:2] == ["policy    m.onnx", "capture   onnx     no branches or loops on tensors"]


def test_a_finding_reads_as_a_compilers_diagnostic(source: str) -> None:
    full = finding(
        source,
        5,
        column=8,
        end_column=20,
        target="ascend-310p",
        via="some_library/nets.py:33",
        evidence=Evidence(rule="computes in float16", source="ATC manual", date="2026-01-31"),
        remedy="Write torch.softmax(s, -1).",
        fixed_by="rewrite_softmax",
    )
    row = PassRow(name="rewrite_softmax", level="fx", changed=1, verdict=verdict())
    assert block(printed(report([full], passes=[row])), "warning") == [
        "warning[GA301] naive-softmax: exp() overflows float32 above 88, float16 above 11",
        " --> walker.py:5",
        "  |",
        "5 |     w = torch.exp(s) / torch.exp(s).sum(-1, keepdim=True)  # as in [1]",
        "  |         ^^^^^^^^^^^^",
        "  = target  ascend-310p",
        "  = via     some_library/nets.py:33",
        "  = source  computes in float16: ATC manual (2026-01-31)",
        "  = fixed by rewrite_softmax (below); in the source: write torch.softmax(s, -1).",
    ]


def test_the_help_names_the_pass_that_a_rewrite_has(source: str) -> None:
    lost = finding(
        source, 5, severity=Severity.ERROR, remedy="Write torch.softmax(s, -1).", fixable_by="rewrite_softmax"
    )
    said = (
        "  = help: `graphaudit rewrite` has a pass for it, rewrite_softmax; in the source: write torch.softmax(s, -1)."
    )
    assert block(printed(report([lost]), 120), "error")[-1] == said


def test_without_a_column_the_code_of_the_line_is_underlined(source: str) -> None:
    lines = block(printed(report([finding(source, 5)])), "warning")
    code = "w = torch.exp(s) / torch.exp(s).sum(-1, keepdim=True)"
    assert lines[4] == "  |     " + "^" * len(code)


@pytest.mark.parametrize(("line", "code"), [(6, "if s.norm() > 1: return w"), (8, "名前 = s.item()")])
def test_the_underline_stands_under_tabs_and_wide_characters(source: str, line: int, code: str) -> None:
    lines = block(printed(report([finding(source, line)])), "warning")
    shown, mark = lines[3], lines[4]
    start = mark.index("^")
    assert cell_len(shown[: shown.index(code)]) == start
    assert mark.count("^") == cell_len(code)


@pytest.mark.parametrize("width", [60, 100, 160])
@pytest.mark.parametrize(("column", "end"), [(4, 8), (11, 22), (32, 60), (88, 110)])
def test_long_lines_are_cut_around_what_is_marked(source: str, width: int, column: int, end: int) -> None:
    raw = SOURCE.splitlines()[6]
    lines = block(printed(report([finding(source, 7, column=column, end_column=end)]), width), "warning")
    shown, mark = next((a, b) for a, b in pairwise(lines) if "^" in b)
    assert max(map(cell_len, (shown, mark))) <= width
    marked = shown[mark.index("^") : mark.rindex("^") + 1]
    assert raw[column:end].startswith(marked.rstrip("…"))
    assert len(marked) > 3


def test_places_without_a_source_to_show_are_named_anyway(tmp_path: Path, source: str) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("hidden\n")
    text = printed(
        report(
            [
                finding(str(tmp_path / "gone.py"), 3, name="a"),
                finding(source, 999, name="b"),
                finding(str(secret), 1, name="c"),
                finding("/dev/zero", 1, name="d"),
                finding(node="node_Exp_3", name="e"),
                finding(name="f"),
            ]
        )
    )
    for expected in (
        "--> gone.py:3",
        "--> walker.py:999",
        "--> secret.txt:1",
        "--> /dev/zero:1",
        "--> node node_Exp_3",
    ):
        assert expected in text
    assert "hidden" not in text


def test_what_comes_from_a_model_cannot_steer_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    hostile = "[bold red]x[/bold red] [link=http://e]y[/link] :smile: \x1b[31mred\x07 \u202egnp"
    (tmp_path / "a.py").write_text(f"x = 1  # {hostile}\n")
    found = [
        finding(str(tmp_path / "a.py"), 1, message=hostile, remedy=hostile, target=hostile, via=hostile),
        finding(name=hostile, node=hostile, severity=Severity.NOTE),
        finding(name="fixed", fixed_by=hostile, evidence=Evidence(rule=hostile, source=hostile)),
    ]
    left = [LeftAlone(node=hostile, reason=hostile)]
    rows = [PassRow(name=hostile, level="fx", changed=1, verdict=verdict(note=hostile), left=left)]
    policy = PolicySummary(name=hostile)
    value = report(found, passes=rows, policy=policy, bundle=hostile, statement=hostile)
    text = printed(value, width=400)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text
    assert text.count("[bold red]x[/bold red] [link=http://e]y[/link] :smile: \\x1b[31mred\\x07 \\u202egnp") >= 12
    assert "\x1b[31mred" not in printed(value, colour=True)


def test_findings_of_several_targets_are_shown_once(source: str) -> None:
    found = [finding(source, 5, target=t) for t in ("onnx", "onnxruntime", "ascend-310p")]
    text = printed(report(found))
    assert text.count("naive-softmax") == 1
    assert "= target  ascend-310p, onnx, onnxruntime" in text or "= target  onnx, onnxruntime, ascend-310p" in text


def test_repetitions_are_counted(source: str) -> None:
    text = printed(report([finding(source, 5)] * 3))
    assert "float16 above 11 (×3)" in text
    assert "\n1 warning\n" in text


def test_errors_come_first_and_many_repaired_findings_are_short(source: str) -> None:
    found = [finding(source, n, fixed_by="rewrite_softmax") for n in range(1, 8)]
    found += [finding(source, 6, code="GA102", name="data-dependent-loop", severity=Severity.ERROR)]
    text = printed(report(found))
    heads = [line for line in text.splitlines() if "[GA" in line]
    assert heads[0].startswith("error[GA102]")
    assert heads[1:] == [f"fixed[GA301] naive-softmax at walker.py:{n}, by rewrite_softmax" for n in range(1, 8)]
    assert "1 error; 7 fixed" in text
    assert printed(report(found), verbose=True).count("warning[GA301]") == 7


def test_notes_of_one_kind_share_a_line(source: str) -> None:
    found = [finding(source, n, severity=Severity.NOTE, message="a write") for n in (7, 5, 6)]
    lines = printed(report(found)).splitlines()
    assert "note[GA301] naive-softmax: a write  walker.py:5, 6, 7" in lines
    assert printed(report(found), verbose=True).count("note[GA301]") == 3
    many = [finding(source, 5, severity=Severity.NOTE, name=f"n{i}", code=f"GA3{i:02}") for i in range(11)]
    assert "and 3 more kinds of notes (--verbose shows all)" in printed(report(many))


PASSES = [
    PassRow(
        name="rewrite_softmax",
        level="fx",
        changed=1,
        verdict=verdict(Claim.WHERE_FINITE),
        seconds=0.031,
        left=[LeftAlone(node="div", reason="1e-08 is added to the sum", place=Place("/x/walker.py", 9))] * 2,
    ),
    PassRow(
        name="fold_batch_norm",
        level="fx",
        changed=2,
        verdict=verdict(Claim.DIVERGED, 0.3, worst_output="action", worst_input="zeros", tolerance=1e-5),
        rolled_back=True,
        seconds=2.04,
    ),
    PassRow(name="remove_inference_noops", level="fx", changed=0),
    PassRow(name="to_onnx", level="export", changed=0, verdict=verdict(worst=9.5e-7), seconds=200),
]


def test_each_pass_that_did_something_has_a_row() -> None:
    assert block(printed(report([], passes=PASSES)), "pass  ") == [
        "pass              changed   verdict                   worst |Δ|   time",
        "rewrite_softmax   1 node    equivalent where finite   2.4e-07     31 ms",
        "  left alone: /x/walker.py:9: 1e-08 is added to the sum (×2)",
        "fold_batch_norm   2 nodes   diverged, rolled back     3.0e-01     2.0 s",
        "  |Δ| 3.0e-01 at action on zeros, tolerance 1.0e-05",
        "to_onnx                     equivalent                9.5e-07     3 min 20 s",
        "1 other pass had nothing to do",
    ]
    assert "remove_inference_noops   nothing" in printed(report([], passes=PASSES), verbose=True)


def test_a_narrow_terminal_gets_fewer_columns() -> None:
    lines = block(printed(report([], passes=PASSES), width=60), "pass  ")
    assert lines[0] == "pass              verdict                   worst |Δ|"
    assert "time" in printed(report([], passes=PASSES), width=160)


@pytest.mark.parametrize("width", [40, 60, 80, 160])
def test_nothing_is_wider_than_the_terminal(source: str, width: int) -> None:
    words = "the number of iterations depends on the values of a tensor and no bound is known for it"
    found = [finding(source, n, message=words, remedy=words, target="onnx") for n in (5, 6, 7)]
    found += [finding(source, 5, severity=Severity.NOTE, name="n", message=words)]
    value = report(found, passes=PASSES, statement=f"not fit for onnx: {words}", bundle="walker-310p")
    for line in printed(value, width).splitlines():
        assert cell_len(line) <= width, line


def test_long_text_is_indented_below_its_head_and_loses_no_word() -> None:
    words = " ".join(f"word{i}" for i in range(40))
    value = report([finding(message=words, remedy=words)])
    text = printed(value, width=60)
    assert text.split() == printed(value, width=2000).split()
    lines = block(text, "warning")
    assert lines[1].startswith("    word")


@pytest.mark.parametrize(
    ("fields", "last"),
    [
        ({"statement": "fit for onnx"}, "fit for onnx"),
        ({}, "walker.py:build: fit for ascend-310p"),
        ({"fit": {"a": True, "b": False}}, "walker.py:build: fit for a; not fit for b"),
        ({"bundle": "out/", "statement": "fit for onnx", "command": "rewrite"}, "out/   fit for onnx"),
    ],
)
def test_the_last_line_says_what_holds(fields: dict[str, Any], last: str) -> None:
    assert printed(report([], **fields)).splitlines()[-1] == last


def test_the_last_line_is_green_only_for_yes() -> None:
    assert "\x1b[1;32mfit" in printed(report([], statement="fit"), colour=True)
    assert "\x1b[1;31mno" in printed(report([], statement="no", fit={"a": False}), colour=True)
    assert "\x1b[1;31mno" in printed(report([], statement="no", command="rewrite"), colour=True)


def test_a_log_is_plain_text_without_trailing_blanks(source: str) -> None:
    text = printed(report([finding(source, 5)], passes=PASSES))
    assert "\x1b" not in text
    assert not any(line != line.rstrip() for line in text.splitlines())
    assert not set(text) & set("│─╭╮╰╯┌┐└┘━┃")


def test_each_part_has_its_own_colour(source: str) -> None:
    text = printed(report([finding(source, 5, target="onnx")]), colour=True)
    assert "\x1b[1;33mwarning[GA301] naive-softmax\x1b[0m\x1b[1m: " in text
    assert "\x1b[34m --> \x1b[0mwalker.py:5\n" in text
    assert "\x1b[34m5 | \x1b[0m    w = torch.exp(s)" in text
    assert "\x1b[34m  = \x1b[0m\x1b[1mtarget  \x1b[0monnx\n" in text
    assert "\x1b[1mcapture\x1b[0m   torch.export" in text
