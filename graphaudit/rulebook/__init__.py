"""Loads the rules and answers: does this target take this node?"""

from __future__ import annotations

from graphaudit.rulebook.rulebook import Rulebook, load_rulebook, rewritten_for, targets
from graphaudit.rulebook.target import Answer, Support, Target

__all__ = ["Answer", "Rulebook", "Support", "Target", "load_rulebook", "rewritten_for", "targets"]
