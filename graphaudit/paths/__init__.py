"""Which ways through the policy's own code the inputs walk, and inputs for the ways that none of them does."""

from __future__ import annotations

from graphaudit.paths.search import Walked, walk

__all__ = ["Walked", "walk"]
