"""What `verify` found: one row per output, the versions that differ, one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from graphaudit.report.layout import columns, hanging, print_lines, text
from graphaudit.report.passes import difference
from graphaudit.text import counted, shown_path

if TYPE_CHECKING:
    from graphaudit.export.load import Verification


def print_verification(verification: Verification, bundle: str, console: Console) -> None:
    """Write it to `console`; names from the bundle are escaped."""
    print_lines(console, _lines(verification, bundle, console))


def _lines(verification: Verification, bundle: str, console: Console) -> Iterator[Text]:
    titles = [Text(title, "bold") for title in ("output", "verdict", "worst |Δ|", "tolerance")]
    rows = [
        [
            text(o.name),
            text("agrees", "green") if o.ok else text("differs", "bold red"),
            text(difference(o.worst_abs)),
            text(f"{o.tolerance:.1e}"),
        ]
        for o in verification.outputs
    ]
    yield from columns([titles, *rows])
    yield Text()
    for change in verification.versions:
        here = f"{change.here} here" if change.here else "not installed here"
        yield from hanging(console, text(f"{change.package} "), text(f"{change.bundle} in the bundle, {here}"))
    ran = counted(verification.samples, "golden input")
    what = "agrees with" if verification.ok else "does not agree with"
    sentence = f"{what} {verification.policy} on {ran}, target {verification.target}"
    style = "bold green" if verification.ok else "bold red"
    yield from hanging(console, text(f"{shown_path(bundle.rstrip('/'))}/   ", "bold"), text(sentence, style), indent=4)
