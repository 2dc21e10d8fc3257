"""What a user writes becomes a pipeline, or one sentence with the nearest name."""

from __future__ import annotations

import pytest

from graphaudit.errors import PassError, RuleError
from graphaudit.registry import passes
from graphaudit.rewrite.base import Level
from graphaudit.rewrite.catalogue import catalogue
from graphaudit.rewrite.selection import select


def names(*arguments, **named):
    return [p.name for p in select(*arguments, **named)]


def test_the_default_pipeline_has_fx_before_onnx_and_obeys_every_need():
    pipeline = select()
    assert {p.name for p in pipeline} == {name for name, cls in passes().items() if cls.default}
    levels = [p.level for p in pipeline]
    assert levels == sorted(levels, key=list(Level).index)
    place = {p.name: number for number, p in enumerate(pipeline)}
    for step in pipeline:
        assert all(place[name] < place[step.name] for name in step.runs_after if name in place)
        assert all(place[name] > place[step.name] for name in step.runs_before if name in place)


def test_needs_decide_the_order_not_the_writing():
    assert names("rewrite_softplus, fold_batch_norm,rewrite_softmax") == [
        "fold_batch_norm",
        "rewrite_softmax",
        "rewrite_softplus",
    ]
    assert names("") == []


def test_skipping():
    assert "fold_batch_norm" not in names(skip=["fold_batch_norm"])
    assert names("fold_batch_norm,simplify_onnx", skip=["simplify_onnx"]) == ["fold_batch_norm"]


def test_options_are_typed():
    fold, simplify = select("fold_batch_norm(max_amplification=2), simplify_onnx(rounds=1, largest_constant='2MB')")
    assert fold.options.max_amplification == 2.0
    assert (simplify.options.rounds, simplify.options.largest_constant) == (1, "2MB")
    (plain,) = select("simplify_onnx")
    assert plain.options.rounds == 4


@pytest.mark.parametrize(
    ("written", "message", "remedy"),
    [
        ("fold_batchnorm", "no pass 'fold_batchnorm'", "Did you mean 'fold_batch_norm'"),
        ("xyzzy", "no pass 'xyzzy'", "graphaudit passes"),
        ("simplify_onnx(round=2)", "has no option 'round'", "Did you mean 'rounds'"),
        ("rewrite_softmax(axis=1)", "has no option 'axis'", "It takes no options"),
        ("simplify_onnx(rounds=0)", ">= 1", "type and the default"),
        ("simplify_onnx(rounds=two)", "Expected `int`, got `str`", "type and the default"),
        ("simplify_onnx,simplify_onnx(rounds=2)", "named twice", ""),
        ("a b", "no list of passes", "Write it as in"),
        ("simplify_onnx(2)", "no list of passes", "Write it as in"),
        ("simplify_onnx(rounds=print())", "no list of passes", "Write it as in"),
        ("(((", "no list of passes", "Write it as in"),
    ],
)
def test_mistakes_are_answered_with_what_there_is(written, message, remedy):
    with pytest.raises(PassError) as caught:
        select(written)
    assert message in caught.value.message and remedy in caught.value.remedy


def test_a_cycle_names_its_passes(monkeypatch):
    softmax = passes()["rewrite_softmax"]
    monkeypatch.setattr(softmax, "runs_after", ("rewrite_softplus",))
    with pytest.raises(RuleError, match="rewrite_softmax → rewrite_softplus → rewrite_softmax"):
        select()


def test_the_catalogue_shows_types_limits_and_defaults():
    (entry,) = catalogue(select("fold_batch_norm"))
    assert (entry.number, entry.level, entry.claims, entry.default) == (1, "fx", "equivalent", True)
    assert entry.summary.startswith("A batch norm in eval mode is folded")
    assert entry.runs_after == ["remove_inference_noops"]
    (option,) = entry.options
    assert (option.name, option.type, option.value) == ("max_amplification", "float > 0", 4096.0)
