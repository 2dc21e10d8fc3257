from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from graphaudit.capture import capture
from graphaudit.policy.isolation import Fingerprint
from tests.capture import policies as p


def test_a_clean_policy_is_captured_and_gives_eagers_numbers() -> None:
    policy = p.policy(p.clean, dynamic_shapes=({0: "batch"},))
    captured = capture(policy)
    assert captured.method == "torch.export" and captured.program is not None and captured.frozen == []
    for batch in (1, 2, 7):
        obs = torch.randn(batch, 4)
        assert torch.equal(captured.program.runner()([obs])[0], policy.working(obs))


def test_an_example_of_batch_one_does_not_freeze_the_batch() -> None:
    captured = capture(p.policy(p.clean, torch.ones(1, 4), dynamic_shapes=({0: "batch"},)))
    assert captured.program is not None
    assert captured.program.runner()([torch.ones(5, 4)])[0].shape == (5, 2)


def test_a_failed_capture_says_why_and_where() -> None:
    captured = capture(p.policy(p.three_decisions))
    assert captured.program is None and captured.method is None
    assert all(b.reason and b.place is not None and b.place.file == p.__file__ for b in captured.blockers)
    assert "Traceback" in captured.blockers[0].detail and "Traceback" not in captured.blockers[0].reason


def test_values_drawn_in_python_are_found_frozen() -> None:
    for function in (p.random_scale, p.numpy_noise):
        frozen = capture(p.policy(function)).frozen
        assert [f.cause for f in frozen] == ["seed"]
        assert frozen[0].was != frozen[0].became


def test_a_size_read_through_python_is_refused_or_found_frozen() -> None:
    captured = capture(p.policy(p.half_the_batch, torch.ones(4, 4), dynamic_shapes=({0: "batch"},)))
    assert captured.program is None or any(f.cause == "size" for f in captured.frozen)


def test_validation_is_off_inside_the_trace_only() -> None:
    before = torch.distributions.Distribution.__init__
    captured = capture(p.policy(p.validated))
    assert captured.program is not None
    assert torch.distributions.Distribution.__init__ is before


def test_numbers_among_the_results_become_tensors_and_none_is_dropped() -> None:
    policy = p.policy(p.constant_count)
    captured = capture(policy)
    assert captured.program is not None
    results = captured.program.runner()([torch.ones(2, 4)])
    assert [r.shape for r in results] == [(2, 2), ()] and int(results[1]) == 3
    assert [o.name for o in policy.interface.outputs] == ["output_0", "output_1"]


def test_capture_is_functional_and_names_what_forward_writes() -> None:
    captured = capture(p.policy(p.remembers))
    assert captured.program is not None
    assert list(captured.program.mutated) == ["memory"]
    assert not any(str(n.target).rstrip("0123456789").endswith("_.Tensor") for n in captured.program.graph.nodes)


def test_the_users_module_is_untouched() -> None:
    policy = p.policy(p.remembers)
    policy.module.train()
    hook = policy.module.net.register_forward_hook(lambda module, args, out: out)
    fingerprint = Fingerprint(policy.module)
    capture(policy)
    fingerprint.verify()
    assert policy.module.training and list(policy.module.net._forward_hooks.values()) == [
        policy.module.net._forward_hooks[hook.id]
    ]


def test_a_module_that_cannot_be_copied_is_put_back() -> None:
    class Locked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(4, 2)
            self.frames = (frame for frame in ())  # a generator: deepcopy refuses it
            self.register_buffer("count", torch.zeros(()))

        def forward(self, obs: torch.Tensor) -> torch.Tensor:
            self.count.add_(1)
            return self.net(obs) + self.count

    policy = p.policy(p.clean)
    policy.module = Locked().train()
    assert not policy.working.is_copy
    assert capture(policy).program is not None
    assert policy.module.training and policy.module.count.item() == 0


def test_a_node_s_place_is_the_line_of_the_helper_that_computes_it() -> None:
    program = capture(p.policy(p.helped)).program
    assert program is not None
    source = Path(p.__file__).read_text().splitlines()
    lines = {n.name: source[place.line - 1].strip() for n in program.graph.nodes if (place := program.place(n))}
    assert lines["exp"] == "weights = torch.exp(scores)"
    assert lines["div"] == "return weights / weights.sum(-1, keepdim=True)"
    assert lines["linear"] == "return by_hand(self.net(obs))"


def test_the_data_of_a_tensor_is_that_tensor() -> None:
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x * 2
        y.data[x > 0] = 0.5
        y.data.mul_(self.scale.data)
        if y.sum().data > 0:
            y = y + 1
        return y.argmax(-1).data, y

    class Old(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

    Old.forward = forward
    policy = p.Policy(name="old", module=Old(), example_args=(torch.ones(2, 3),))
    captured = capture(policy)
    assert captured.program is not None and captured.frozen == []
    for seed in range(4):
        x = torch.randn(2, 3, generator=torch.Generator().manual_seed(seed))
        for got, wanted in zip(captured.program.runner()([x]), policy.working(x), strict=True):
            assert torch.equal(got, wanted)
