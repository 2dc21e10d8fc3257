"""Checks of family GA6, interface and shapes."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from graphaudit.audit.subject import Subject
from graphaudit.capture import Blocker, Capture, Frozen
from graphaudit.policy import Policy
from tests.rules.checks.subjects import LINE, audited, event, findings, observed, said

BATCH = ({0: "batch"},)


class Flagged(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 2)

    def forward(self, obs, value):
        return self.net(obs) * (2 if value else 1)


@pytest.mark.parametrize(("value", "severity"), [(True, "note"), ("relu", "note"), (3, "warning"), (0.5, "warning")])
def test_python_arguments(value: object, severity: str) -> None:
    name = "python-arg-specialised"
    args = (torch.ones(2, 4), value)
    same = audited(Flagged(), args, lambda seed: args, capturing=False)
    assert said(same, name) == [(name, severity)]
    other = audited(Flagged(), args, lambda seed: (args[0], None), capturing=False)
    (found,) = findings(other, name)
    assert found.severity == "error" and found.message.startswith("value is")


class Lists(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 2)

    def forward(self, obs):
        tensors = list(obs["entities"]) if isinstance(obs, dict) else list(obs)
        return self.net(torch.stack(tensors)).sum(0)


def test_structured_arguments() -> None:
    names = ("dict-interface", "list-interface")
    tensors = [torch.ones(4), torch.ones(4)]
    assert said(audited(Lists(), (tensors,), capturing=False), *names) == [("list-interface", "note")]
    both = audited(Lists(), ({"entities": tensors},), capturing=False)
    assert said(both, *names) == [("dict-interface", "note"), ("list-interface", "note")]
    assert said(audited(Lists(), (tuple(tensors),), capturing=False), *names) == []


def test_the_keys_of_a_dict_may_come_in_another_order() -> None:
    class Joined(nn.Module):
        def forward(self, obs):
            return obs["pos"] - obs["goal"]["xy"]

    pos, xy = torch.ones(2), torch.zeros(2)
    interface = Policy("joined", Joined(), ({"pos": pos, "goal": {"xy": xy, "k": 3}},)).interface
    turned = ({"goal": {"k": 3, "xy": xy}, "pos": pos},)
    assert [t.data_ptr() for t in interface.flatten(turned)] == [pos.data_ptr(), xy.data_ptr()]
    assert interface.fixed_values(turned) == [3]


def test_list_lengths() -> None:
    name = "python-list-length-frozen"
    args = ([torch.ones(4), torch.ones(4)],)
    varied = audited(Lists(), args, lambda seed: ([torch.ones(4)] * (1 + seed),), capturing=False)
    assert said(varied, name) == [(name, "error")]
    assert said(audited(Lists(), args, lambda seed: args, capturing=False), name) == []


def frozen_size(dimension: str, shapes: tuple[dict[int, str]]) -> Subject:
    policy = Policy("Linear", nn.Linear(4, 2), (torch.ones(2, 3, 4),), dynamic_shapes=shapes)
    return Subject(policy=policy, capture=Capture(None, None, [], [Frozen(LINE, "full", "size", "2", "3", dimension)]))


def test_frozen_sizes_are_named_by_their_dimension() -> None:
    names = ("batch-size-frozen", "shape-value-frozen", "value-frozen")
    assert said(frozen_size("batch", BATCH), *names) == [("batch-size-frozen", "error")]
    assert said(frozen_size("time", ({1: "time"},)), *names) == [("shape-value-frozen", "error")]


def test_a_capture_that_refuses_a_dimension_names_it() -> None:
    policy = Policy("Linear", nn.Linear(4, 2), (torch.ones(2, 4),), dynamic_shapes=BATCH)
    blocker = Blocker("You marked batch as dynamic but your code specialized it to be a constant (2)", LINE)
    subject = Subject(policy=policy, capture=Capture(None, None, [blocker], []))
    assert said(subject, "batch-size-frozen", "capture-failed") == [("batch-size-frozen", "error")]


class Size(nn.Module):
    def forward(self, obs):
        n = int(obs.shape[0])
        return obs + torch.zeros(n, 4)


def test_python_sizes_matter_only_where_they_vary() -> None:
    found = findings(audited(Size(), (torch.ones(2, 4),), dynamic_shapes=BATCH), "batch-size-frozen")
    assert len(found) == 1 and found[0].file == __file__
    assert said(audited(Size(), (torch.ones(2, 4),)), "batch-size-frozen") == []


def test_rows_that_vary_without_being_declared() -> None:
    name = "batch-size-frozen"
    args = (torch.ones(2, 4),)
    varied = audited(nn.Linear(4, 2), args, lambda seed: (torch.ones(1 + seed, 4),), capturing=False)
    assert said(varied, name) == [(name, "error")]
    declared = audited(nn.Linear(4, 2), args, lambda seed: (torch.ones(1 + seed, 4),), BATCH, capturing=False)
    assert said(declared, name) == []
    one = audited(nn.Linear(4, 2), (torch.ones(1, 4),), dynamic_shapes=BATCH, capturing=False)
    assert said(one, name) == [(name, "note")]
    assert said(audited(nn.Linear(4, 2), (torch.ones(1, 4),), capturing=False), name) == []


class Squeeze(nn.Module):
    def forward(self, obs):
        named = obs.squeeze(-1)
        return torch.squeeze(named, -1) if obs.dim() > 9 else obs.squeeze()


def test_squeeze_without_a_dimension() -> None:
    name = "squeeze-without-dim"
    args = (torch.ones(2, 1),)
    assert len(said(audited(Squeeze(), args, dynamic_shapes=BATCH, capturing=False), name)) == 1
    assert said(audited(Squeeze(), args, capturing=False), name) == []


def test_lengths() -> None:
    name = "lengths-frozen"
    assert said(observed(event("packed")), name) == [(name, "note")]
    assert said(observed(event("packed"), captured=False), name) == [(name, "error")]


def test_fast_path() -> None:
    name = "fast-path-specialisation"
    layer = nn.TransformerEncoderLayer(8, 2, batch_first=True).eval()
    subject = audited(layer, (torch.ones(2, 3, 8),))
    assert subject.fx is not None
    fused = any("_transformer_encoder_layer_fwd" in n.op for n in subject.fx.nodes)
    assert bool(said(subject, name)) == fused
    assert said(observed(), name) == []


def test_attention_takes_the_fast_path_unless_it_is_switched_off() -> None:
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.mha = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x):
            return self.mha(x, x, x)[0]

    name = "fast-path-specialisation"
    assert said(audited(Attention().eval(), (torch.ones(2, 3, 8),), capturing=False), name) == [(name, "note")]
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        assert said(audited(Attention().eval(), (torch.ones(2, 3, 8),), capturing=False), name) == []
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


def test_arrays_are_results() -> None:
    class Predict(nn.Module):
        def forward(self, obs):
            return obs.numpy().clip(-1, 1), {"size": obs.numpy().sum()}

    name = "python-output"
    assert said(audited(Predict(), (torch.ones(2, 3),), capturing=False), name) == [(name, "note"), (name, "note")]
