"""Graph + rulebook → findings. `graphaudit.audit(policy, …)` is `graphaudit.api.audit`."""

from __future__ import annotations

from graphaudit.callable_module import make_callable

make_callable(__name__, "audit")
