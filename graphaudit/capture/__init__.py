"""Policy → FX graph: `capture` and the observed eager run."""

from __future__ import annotations

from graphaudit.capture.events import Blocker, Event, EventKind, Frozen, Observation
from graphaudit.capture.frontend import Capture, capture
from graphaudit.capture.observe import observe
from graphaudit.capture.steps import captured_steps

__all__ = ["Blocker", "Capture", "Event", "EventKind", "Frozen", "Observation", "capture", "captured_steps", "observe"]
