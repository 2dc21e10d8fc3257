"""Loops and branches on tensors as masks: source transformation with dispatch at run time."""

from __future__ import annotations

from graphaudit.capture.control_flow.numbers import Number
from graphaudit.capture.control_flow.predicate import as_result, predicated
from graphaudit.capture.control_flow.refusal import UNDRAWN, Refused
from graphaudit.capture.control_flow.session import FASTER_AS_LOOP, Guard, Regions, Session
from graphaudit.graphs.loop_bounds import Bounds

__all__ = [
    "FASTER_AS_LOOP",
    "UNDRAWN",
    "Bounds",
    "Guard",
    "Number",
    "Refused",
    "Regions",
    "Session",
    "as_result",
    "predicated",
]
