"""State that a module keeps between calls: found, and made an argument."""

from __future__ import annotations

import copy
from collections import deque

import pytest
import torch
from torch import nn

from graphaudit.policy import Policy
from graphaudit.policy.stateful import StateRefused, stepped, unlike_reset
from graphaudit.policy.stepping import KEYWORD, PHASE
from tests.stateful import (
    OBS,
    STATEFUL,
    Arrays,
    BufferGru,
    Cache,
    Chunk,
    Counter,
    Decay,
    FrameStack,
    Growing,
    Linear,
    Objects,
    TupleLstm,
    Window,
    episode,
    policy_of,
)


@pytest.mark.parametrize(
    ("module", "paths", "layouts"),
    [
        (BufferGru, ["hidden"], 1),
        (TupleLstm, ["state[0]", "state[1]"], 1),
        (Counter, ["ring", "t"], 1),
        (Decay, ["epsilon"], 1),
        (FrameStack, ["frames[0]", "frames[1]", "frames[2]", PHASE], 2),
        (Chunk, ["planned[0]", "planned[1]", PHASE], 3),
        (Window, ["frames[0]", "frames[1]", "frames[2]", PHASE], 4),
        (Objects, ["memory.count", "memory.average", "filter.kept['y']"], 1),
        (Arrays, ["mean", "total"], 1),
        (Cache, ["cache", "cache.early1", "cache.early2", PHASE], 4),
    ],
)
def test_every_way_of_keeping_state_is_found(module, paths, layouts) -> None:
    made = stepped(policy_of(module()))
    assert sorted(made.module.parts) == sorted(paths)
    assert len(made.module.layouts) == layouts


def test_constants_beside_state_are_no_state() -> None:
    assert "filter.kept['gain']" not in stepped(policy_of(Objects())).module.parts


@pytest.mark.parametrize("module", STATEFUL)
def test_steps_give_what_calls_in_a_row_give_and_leave_nothing_behind(module) -> None:
    made = stepped(policy_of(module()))
    calls, wanted = episode(module())
    state = made.example_kwargs[KEYWORD]
    before = copy.deepcopy(vars(made.module.policy))
    for args, expected in zip(calls, wanted):
        result, state = made.working(*args, **{KEYWORD: state})
        assert torch.equal(result, expected)
    assert vars(made.module.policy).keys() == before.keys()


def test_the_module_is_left_as_it_was() -> None:
    for module in (FrameStack(), Objects(), Window()):
        shown = repr([v for k, v in vars(module).items() if k in ("frames", "memory", "filter")])
        stepped(policy_of(module))
        assert repr([v for k, v in vars(module).items() if k in ("frames", "memory", "filter")]) == shown


def test_a_policy_without_state_is_none() -> None:
    class Plain(Linear):
        def forward(self, obs):
            return self.layer(obs)

    assert stepped(policy_of(Plain())) is None


def test_a_list_without_an_end_is_refused_by_name() -> None:
    with pytest.raises(StateRefused) as refused:
        stepped(policy_of(Growing()))
    assert refused.value.root == "history"
    assert "history has another structure after each of" in str(refused.value)


class Logs(Linear):
    """Lists without an end, beside state."""

    def __init__(self) -> None:
        super().__init__()
        self.actions: list[torch.Tensor] = []
        self.seen = {"obs": deque(), "big": set()}
        self.n = 0

    def forward(self, obs):
        action = self.layer(obs) + self.n
        self.actions.append(action)
        self.seen["obs"].append(obs)
        self.seen.setdefault("more", []).extend([obs, action])
        self.n += 1
        return self.summed(action)

    def summed(self, action):
        return action


class Counted(Logs):
    def summed(self, action):
        return action * (len(self.actions) > 100)


class Joined(Logs):
    def summed(self, action):
        return action + torch.stack(self.actions).mean(0)


def test_containers_that_are_only_written_to_are_left_out() -> None:
    assert list(stepped(policy_of(Logs())).module.parts) == ["n"]


@pytest.mark.parametrize("module", [Counted, Joined])
def test_a_list_that_is_read_is_no_log(module) -> None:
    with pytest.raises(StateRefused, match="actions has another structure"):
        stepped(policy_of(module()))


class Batched(nn.Module):
    """Hidden state on the second axis, sized by the batch; a counter that all rows share."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.rnn = nn.GRU(4, 3)
        self.hidden = None
        self.n = 0

    def forward(self, obs):
        if self.hidden is None:
            self.hidden = torch.zeros(1, obs.shape[0], 3)
        self.n += 1
        y, self.hidden = self.rnn(obs.unsqueeze(0), self.hidden)
        return y.squeeze(0) / self.n


@pytest.mark.parametrize("dynamic", [None, ({0: "batch"},)])
def test_the_axis_of_rows_is_found(dynamic) -> None:
    """At batch 3 and hidden size 3 the sizes alone do not say which axis it is."""
    made = stepped(Policy("batched", Batched().eval(), (torch.ones(3, 4),), dynamic_shapes=dynamic))
    state = {s.path: s for s in made.interface.state}
    assert (state["hidden"].rows, state["n"].rows) == (1, None)
    assert state["hidden"].input.shape == (1, "batch" if dynamic else 3, 3)


def test_an_example_of_zeros_does_not_hide_how_a_stack_is_filled() -> None:
    made = stepped(policy_of(FrameStack(), (torch.zeros_like(OBS),), inputs=None))
    assert PHASE in made.module.parts


class Resettable(BufferGru):
    def reset(self):
        self.hidden.zero_()


def test_a_reset_of_the_user_s_own_that_gives_other_values_is_said() -> None:
    module = Resettable()
    assert unlike_reset(stepped(policy_of(module))) == []
    module.hidden.fill_(0.5)  # handed over in the middle of an episode
    made = stepped(policy_of(module))
    assert unlike_reset(made) == ["hidden"]
    assert torch.equal(made.example_kwargs[KEYWORD][0], torch.full((1, 6), 0.5))
    assert torch.equal(module.hidden, torch.full((1, 6), 0.5)), "the module is as it was"
