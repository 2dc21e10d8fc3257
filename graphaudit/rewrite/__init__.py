"""Passes, and the pipeline that checks each of them. `graphaudit.rewrite(policy, …)` is `graphaudit.api.rewrite`."""

from __future__ import annotations

from graphaudit.callable_module import make_callable

make_callable(__name__, "rewrite")
