"""Policies that take gradients in `forward` and leave it to their caller to have them on."""

from __future__ import annotations

from dataclasses import replace

from graphaudit.policy.policy import Policy


def with_gradients(policy: Policy) -> Policy:
    """The policy, to be run with gradients on where its forward raises for want of them on the example."""
    if policy.exported is not None:
        return policy
    policy.working(*policy.example_args, **policy.example_kwargs)
    return replace(policy, gradients=True) if policy.working.gradients else policy
