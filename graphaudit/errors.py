"""What can stop graphaudit from doing its work.

A finding is an answer; an error means there is no answer. Every error says what happened and what to do next, in a
sentence or two, and the command line turns it into exit status 2 without a traceback.

    GraphAuditError
    ├── PolicyError        the policy cannot be found, built or run
    ├── ModelError         a model file cannot be read
    ├── TargetError        no such target
    ├── RuleError          a rule file is not valid
    ├── PassError          a pass or an option of a pass that was asked for does not exist
    ├── CustomOpError      an operator cannot be registered, or does not do what is said of it
    ├── PluginError        an installed plugin cannot be loaded
    ├── OutputError        the bundle cannot be written where it was asked for
    ├── BundleError        a folder is not a bundle, or its files do not match its manifest
    ├── GuardError         a deployed policy left the conditions under which its certificate holds
    └── HostError          this Python installation cannot run the tool
"""

from __future__ import annotations


class GraphAuditError(Exception):
    """`message` says what happened and where; `remedy` says what to do (may be empty)."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class PolicyError(GraphAuditError):
    """The policy, its inputs or its reference cannot be found, built or run."""


class ModelError(GraphAuditError):
    """A model file (`.onnx`, `.pt2`, `.zip`) is missing, damaged, unsafe or of an unsupported kind."""


class TargetError(GraphAuditError):
    """There is no target of that name."""


class RuleError(GraphAuditError):
    """A rule file does not follow the schema."""


class PassError(GraphAuditError):
    """There is no pass of that name, or it does not take that option or value."""


class CustomOpError(GraphAuditError):
    """An operator cannot be registered, or it, its plain version and its gradient do not agree."""


class PluginError(GraphAuditError):
    """What an installed package registers as a pass or check cannot be loaded, or is none."""


class OutputError(GraphAuditError):
    """The bundle cannot be written where it was asked for."""


class BundleError(GraphAuditError):
    """A folder is not a bundle, or its files do not match its manifest."""


class GuardError(GraphAuditError):
    """A deployed policy was given an input outside the conditions of its certificate."""


class HostError(GraphAuditError):
    """This Python installation cannot run the tool."""
