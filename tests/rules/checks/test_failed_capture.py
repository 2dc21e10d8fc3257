"""Whatever stopped or bent a capture, some finding is an error."""

from __future__ import annotations

import pytest
from torch import nn

from graphaudit.capture import Blocker, Frozen
from graphaudit.findings import Place
from graphaudit.rules.checks._events import EXPLAIN_FAILURE, EXPLAIN_FROZEN
from tests.rules.checks.subjects import LINE, audited, event, findings, observed, said

ELSEWHERE = Place("/home/user/walker.py", 12)


@pytest.mark.parametrize("kind", EXPLAIN_FAILURE)
def test_a_failure_at_the_line_of_an_event_is_an_error_of_its_own_check(kind: str) -> None:
    subject = observed(event(kind), captured=False, blockers=[Blocker("cannot", LINE)])
    found = said(subject)
    assert "error" in [severity for _, severity in found]
    assert "capture-failed" not in dict(found)


@pytest.mark.parametrize("kind", EXPLAIN_FROZEN)
@pytest.mark.parametrize("cause", ["input", "seed"])
def test_a_frozen_value_at_the_line_of_an_event_is_an_error_of_its_own_check(kind: str, cause: str) -> None:
    found = said(observed(event(kind, "x"), frozen=[Frozen(LINE, "c", cause, "1.0", "2.0")]))
    assert "error" in [severity for _, severity in found]
    assert "value-frozen" not in dict(found)


@pytest.mark.parametrize("place", [ELSEWHERE, None])
def test_an_unexplained_failure_is_reported_in_torchs_words(place: Place | None) -> None:
    blocker = Blocker("no fake implementation", place, "UnsupportedOperatorException")
    found = findings(observed(captured=False, blockers=[blocker]))
    assert [f.name for f in found] == ["capture-failed"]
    assert found[0].severity == "error" and "no fake implementation" in found[0].message
    assert found[0].place == place and found[0].evidence is not None


def test_a_failure_without_reason_is_still_an_error() -> None:
    assert said(observed(captured=False)) == [("capture-failed", "error")]


def test_one_explained_way_of_capturing_is_enough() -> None:
    blockers = [Blocker("Data-dependent branching", None, "Unsupported"), Blocker("cannot", ELSEWHERE)]
    subject = observed(event("bool", statement="if"), captured=False, blockers=blockers)
    assert said(subject) == [("data-dependent-branch", "error")]


def test_a_frozen_value_without_an_event_is_an_error() -> None:
    found = findings(observed(frozen=[Frozen(ELSEWHERE, "mul", "input", "1.5", "0.2")]))
    assert [(f.name, f.line, f.node) for f in found] == [("value-frozen", 12, "mul")]
    assert "1.5" in found[0].message and "0.2" in found[0].message


def test_a_graph_that_differs_with_the_seed_is_explained_by_its_draws() -> None:
    frozen = [Frozen(None, "obs", "seed", "8 operations", "9 operations")]
    drew = observed(event("python-random"), frozen=frozen, with_seed=True)
    assert said(drew, "value-frozen") == []
    assert said(observed(frozen=frozen), "value-frozen") == [("value-frozen", "error")]


class Raises(nn.Module):
    def forward(self, obs):
        return obs * (hash(obs.norm().item()) % 2)


def test_a_real_failure_is_named() -> None:
    import torch

    subject = audited(Raises(), (torch.rand(3, 4),))
    assert not subject.captured
    assert ("item-call", "error") in said(subject)
