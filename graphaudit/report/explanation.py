"""What a finding means: the docstring of its check, for a terminal. Imports neither torch nor onnx."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from rich.console import Console
from rich.text import Text

from graphaudit.audit.check import FAMILIES
from graphaudit.errors import RuleError
from graphaudit.findings import Severity
from graphaudit.registry import checks, find_check
from graphaudit.report.diagnostics import STYLES
from graphaudit.report.layout import columns, hanging, joined, print_lines, text
from graphaudit.rulebook.messages import Found, find_message, messages
from graphaudit.text import one_line, suggestion

_WIDEST = 100  # columns of running text that are still pleasant to read
_INLINE = re.compile(r"`([^`]+)`")


class Explanation(msgspec.Struct, kw_only=True):
    """One kind of finding. `text` is Markdown; it is empty in a listing."""

    code: str
    name: str
    severity: Severity
    family: str
    summary: str
    remedy: str
    text: str = ""


def listing() -> list[Explanation]:
    """All kinds of findings, in the order of their codes."""
    return [_explanation(name, full=False) for name in checks()]


def explain(code_or_name: str) -> Explanation:
    """The explanation of one finding, or of an error of a target's own tool (`E19010`).

    Raises RuleError, with the nearest names, if there is none.
    """
    found = find_check(code_or_name)
    if found is None:
        message = find_message(code_or_name)
        if message is not None:
            return _of_message(message, code_or_name)
        known = {check.code: check.name for check in checks().values()}
        codes = [code for m in messages() for code in m.message.codes]
        near = suggestion(code_or_name, [*known.values(), *known, *codes])
        raise RuleError(
            f"there is no finding {one_line(code_or_name, 60)!r}", near or "`graphaudit explain` lists all of them."
        )
    return _explanation(found.name, full=True)


def print_listing(known: list[Explanation], console: Console) -> None:
    """One line for each finding, by family."""
    width = max((len(e.name) for e in known), default=0)
    for prefix, title in FAMILIES.items():
        members = [e for e in known if e.code.startswith(prefix)]
        if not members:
            continue
        print_lines(console, [Text(f"{prefix} {title}", "bold")])
        for e in members:
            head = joined(Text("  "), text(e.code, STYLES[e.severity]), text(f" {e.name:<{width}}  "))
            print_lines(console, hanging(console, head, text(e.summary)))
        print_lines(console, [Text()])


def print_explanation(explanation: Explanation, console: Console) -> None:
    """Code, name and severity, then the explanation with its headings."""
    head = text(f"{explanation.code} {explanation.name}", "bold")
    facts = text(f"{explanation.severity.value} · {explanation.family}", STYLES[explanation.severity])
    print_lines(console, [*columns([[head, facts]]), Text()])
    narrow = Console(file=console.file, width=min(console.width, _WIDEST), no_color=console.no_color)
    print_lines(console, _markdown(explanation.text, narrow))


def _explanation(name: str, *, full: bool) -> Explanation:
    check = checks()[name]
    return Explanation(
        code=check.code,
        name=check.name,
        severity=check.severity,
        family=FAMILIES.get(check.code[:3], ""),
        summary=check.summary(),
        remedy=check.remedy,
        text=check.explanation() if full else "",
    )


def _of_message(found: Found, code: str) -> Explanation:
    message = found.message
    codes = {c.lower(): c for c in message.codes}
    foreseen = [f"{check.code} {name}" for name in message.findings if (check := checks().get(name))]
    parts = [message.summary, "## Why it happens", "\n".join(f"- {cause}" for cause in message.causes)]
    parts += ["## What to do", message.remedy]
    parts += ["## Findings that see it coming", "\n".join(f"- {f}" for f in foreseen)] if foreseen else []
    parts += ["## References", "\n".join(f"- {source}" for source in found.sources)]
    return Explanation(
        code=codes[code.lower()],
        name=f"{message.tool}: {' '.join(message.codes)}",
        severity=Severity.ERROR,
        family=found.family,
        summary=message.summary,
        remedy=message.remedy,
        text="\n\n".join(parts),
    )


def _markdown(source: str, console: Console) -> Iterator[Text]:
    """The little Markdown that explanations use: headings, paragraphs, lists, fenced code, `code` in a line."""
    fenced = False
    paragraph: list[str] = []
    for line in [*source.splitlines(), ""]:
        starts_item = line.lstrip().startswith(("- ", "* "))
        if paragraph and (fenced or not line.strip() or line.startswith(("#", "```")) or starts_item):
            yield from _paragraph(" ".join(paragraph), console)
            paragraph = []
        if line.startswith("```"):
            fenced = not fenced
        elif fenced:
            yield joined(Text("    "), text(line, "cyan"))
        elif line.startswith("#"):
            yield text(line.lstrip("# "), "bold")
        elif line.strip():
            paragraph.append(line.strip())
        else:
            yield Text()


def _paragraph(source: str, console: Console) -> Iterator[Text]:
    bullet = source.startswith(("- ", "* "))
    body = Text()
    for index, part in enumerate(_INLINE.split(source[2:] if bullet else source)):
        # In a log, where nothing is coloured, the backticks stay.
        code = text(part, "cyan") if console.color_system else text(f"`{part}`")
        body.append_text(code if index % 2 else text(part))
    yield from hanging(console, Text("  - " if bullet else ""), body)
