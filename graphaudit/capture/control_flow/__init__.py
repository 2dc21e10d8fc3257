"""Loops and branches on tensors as masks: source transformation with dispatch at run time."""

from __future__ import annotations

from graphaudit.capture.control_flow.bounds import Bounds
from graphaudit.capture.control_flow.numbers import Number
from graphaudit.capture.control_flow.predicate import as_result, predicated
from graphaudit.capture.control_flow.refusal import Refused
from graphaudit.capture.control_flow.session import Guard, Session

__all__ = ["Bounds", "Guard", "Number", "Refused", "Session", "as_result", "predicated"]
