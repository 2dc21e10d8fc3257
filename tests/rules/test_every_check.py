"""Every check, ours and others': codes, names, files, explanations, and what importing them costs."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from graphaudit.audit.check import FAMILIES, HEADINGS, Check
from graphaudit.findings import Severity
from graphaudit.registry import checks, find_check

ALL = list(checks().values())
each = pytest.mark.parametrize("check", ALL, ids=lambda c: c.name)


def test_codes_are_unique() -> None:
    codes = [c.code for c in ALL]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize("family", ["GA0", "GA1", "GA4", "GA5"])
def test_codes_of_a_family_are_contiguous(family: str) -> None:
    numbers = [int(c.code[3:]) for c in ALL if c.code.startswith(family)]
    assert numbers == list(range(1, len(numbers) + 1))


@each
def test_identity(check: type[Check]) -> None:
    assert re.fullmatch(r"GA\d\d\d", check.code) and check.code[:3] in FAMILIES
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", check.name)
    assert check.__module__.rpartition(".")[2] == check.name.replace("-", "_")
    assert check.__name__ == "".join(w.capitalize() for w in check.name.split("-"))
    assert isinstance(check.severity, Severity)
    assert check.remedy.endswith(".") and check.remedy[0].isupper()
    assert find_check(check.code.lower()) is check and find_check(check.name) is check


@each
def test_explanation(check: type[Check]) -> None:
    text = check.explanation()
    assert tuple(re.findall(r"^## (.*)$", text, re.MULTILINE)) == HEADINGS
    assert check.summary().endswith("."), "the first line is a sentence"
    sections = dict(zip(HEADINGS, re.split(r"^## .*$", text, flags=re.MULTILINE)[1:]))
    assert all(section.strip() for section in sections.values())
    assert "```" in sections["Example"]
    assert sections["References"].strip().startswith("- ")


def test_importing_all_checks_needs_no_torch() -> None:
    program = "import sys; from graphaudit.registry import checks; assert checks(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
