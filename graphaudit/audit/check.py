"""The base of every check. A check lives in one file of `rules/checks/`, named after the defect.

The file's module docstring is the explanation that `graphaudit explain` prints and the docs are made from. It has a
summary line and the headings in `HEADINGS`, in that order. The file imports nothing heavy at its top, because `lint`
and `explain` load every check and must start in a fraction of a second.
"""

from __future__ import annotations

import inspect
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from graphaudit.findings import Evidence, Finding, Place, Severity

if TYPE_CHECKING:
    from graphaudit.audit.subject import Subject

HEADINGS = ("What it does", "Why it matters", "Example", "Use instead", "References")

FAMILIES = {
    "GA0": "capture and inputs",
    "GA1": "control flow",
    "GA2": "operators and target support",
    "GA3": "numerics",
    "GA4": "randomness",
    "GA5": "state and mode",
    "GA6": "interface and shapes",
    "GA9": "from plugins",  # codes that this repository never uses
}


class Check(ABC):
    """One kind of finding. Subclasses set the class data and yield findings from `examine`."""

    code: ClassVar[str]  # GA and three digits; the first digit is the family
    name: ClassVar[str]  # a slug that states the defect
    severity: ClassVar[Severity]  # the usual severity; `finding` can override it
    remedy: ClassVar[str]  # the usual remedy, one sentence in the imperative
    reads_model: ClassVar[bool] = False  # whether it can only speak of a policy that was translated to ONNX

    @abstractmethod
    def examine(self, subject: Subject) -> Iterator[Finding]:
        """Yield what is wrong with `subject`. Parts of it may be absent (see `Subject`); then say nothing of them."""

    @classmethod
    def explanation(cls) -> str:
        """The module docstring: what the finding means, why it matters, what to do."""
        return inspect.cleandoc(sys.modules[cls.__module__].__doc__ or "")

    @classmethod
    def summary(cls) -> str:
        """The first line of the explanation."""
        return cls.explanation().partition("\n")[0]

    @classmethod
    def finding(
        cls,
        message: str,
        *,
        place: Place | None = None,
        node: str | None = None,
        severity: Severity | None = None,
        remedy: str | None = None,
        evidence: Evidence | None = None,
        target: str | None = None,
        fixed_by: str | None = None,
    ) -> Finding:
        """A finding of this kind; what is not given comes from the class."""
        return Finding(
            code=cls.code,
            name=cls.name,
            severity=severity or cls.severity,
            message=message,
            target=target,
            file=place.file if place else None,
            line=place.line if place else None,
            column=place.column if place else None,
            end_column=place.end_column if place else None,
            via=place.via if place else None,
            node=node,
            evidence=evidence,
            remedy=cls.remedy if remedy is None else remedy,
            fixed_by=fixed_by,
        )
