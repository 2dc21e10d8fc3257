"""What the user hands over: a module to deploy, its inputs, and where they came from."""

from __future__ import annotations

from graphaudit.policy.policy import Policy

__all__ = ["Policy"]
