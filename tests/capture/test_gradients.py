from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from graphaudit.capture import capture
from graphaudit.policy import Policy
from graphaudit.policy.gradients import with_gradients
from graphaudit.policy.stateful import stepped
from graphaudit.policy.stepping import KEYWORD

OBS = torch.linspace(-1, 1, 12).reshape(3, 4)


class Energy(nn.Module):
    """A network whose gradient by an action the policies below take, each in its own way."""

    def __init__(self, activation: nn.Module | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(6, 16), activation or nn.SiLU(), nn.Linear(16, 1))

    def energy(self, obs, action):
        return self.net(torch.cat([obs, action], -1))


class Langevin(Energy):
    """Leaves it to the caller to have gradients on."""

    def forward(self, obs):
        action = torch.zeros(obs.shape[0], 2)
        for _ in range(3):
            action.requires_grad_(True)
            slope = torch.autograd.grad(self.energy(obs, action).sum(), action)[0]
            action = (action - 0.1 * slope).detach()
        return action


class Backward(Energy):
    """`backward()` in a method that is decorated, and a step of an optimiser of PyTorch's."""

    @torch.enable_grad()
    def refined(self, obs, action):
        action = action.detach().requires_grad_()
        optimiser = torch.optim.SGD([action], lr=0.1)
        self.energy(obs, action).sum().backward()
        optimiser.step()
        return action.detach()

    def forward(self, obs):
        action = torch.zeros(obs.shape[0], 2)
        if obs.sum() > 0:
            action = action + 0.5
        return self.refined(obs, action)


class OfRows(Energy):
    def forward(self, obs):
        def energy(action, row):
            return self.energy(row, action).squeeze(-1)

        action = torch.zeros(obs.shape[0], 2)
        return action - torch.vmap(torch.func.grad(energy))(action, obs)


class Second(Energy):
    """A gradient of a gradient."""

    def forward(self, obs):
        with torch.enable_grad():
            action = torch.zeros(obs.shape[0], 2, requires_grad=True)
            (slope,) = torch.autograd.grad(self.energy(obs, action).sum(), action, create_graph=True)
            (bent,) = torch.autograd.grad(slope.square().sum(), action)
        return slope.detach() + bent


class Descends(Energy):
    """Ends when the slope is small."""

    def forward(self, obs):
        action = torch.zeros(obs.shape[0], 2)
        for _ in range(4):
            with torch.enable_grad():
                action = action.detach().requires_grad_(True)
                (slope,) = torch.autograd.grad(self.energy(obs, action).sum(), action)
            if slope.abs().max() < 0.2:
                break
            action = action - slope
        return action.detach()


class Cut(Energy):
    """No gradient flows where it is off."""

    def forward(self, obs):
        with torch.enable_grad():
            action = torch.full((obs.shape[0], 2), 0.3, requires_grad=True)
            with torch.no_grad():
                weight = self.energy(obs, action)
            loss = weight * self.energy(obs, action) + self.energy(obs, action).detach() * action.sum(-1, keepdim=True)
            (slope,) = torch.autograd.grad(loss.sum(), action)
        return slope


class Adapts(Energy):
    """Moves a copy of its weights by their gradient."""

    def forward(self, obs):
        action = torch.zeros(obs.shape[0], 2)
        with torch.enable_grad():
            loss = self.energy(obs, action).square().mean()
            slopes = torch.autograd.grad(loss, list(self.net[0].parameters()))
        weight, bias = (p - 0.1 * s for p, s in zip(self.net[0].parameters(), slopes))
        return F.linear(torch.cat([obs, action], -1), weight, bias).detach()


class Warm(Energy):
    """Its plan is state, and starts where the last call left it."""

    def __init__(self) -> None:
        super().__init__()
        self.plan = None

    def forward(self, obs):
        if self.plan is None:
            self.plan = torch.zeros(obs.shape[0], 2)
        with torch.enable_grad():
            plan = self.plan.detach().requires_grad_(True)
            (slope,) = torch.autograd.grad(self.energy(obs, plan).sum(), plan)
        self.plan = self.plan - 0.3 * slope
        return self.plan


def policy_of(module: nn.Module) -> Policy:
    return with_gradients(Policy(type(module).__name__, module.eval(), (OBS,), dynamic_shapes=({0: "batch"},)))


def test_every_way_of_taking_a_gradient_is_captured_at_every_batch_size() -> None:
    for module in (Langevin(), Backward(), OfRows(), Second(nn.Softplus()), Descends(), Cut(), Adapts()):
        policy = policy_of(module)
        captured = capture(policy, look_for_frozen=isinstance(module, OfRows))
        assert captured.program is not None, (policy.name, captured.blockers)
        assert captured.frozen == [], policy.name
        assert not any("backward" in str(n.target) for n in captured.program.graph.nodes), policy.name
        for batch in (1, 2, 5):
            obs = torch.randn(batch, 4, generator=torch.Generator().manual_seed(batch))
            wanted = policy.working(obs).detach()
            torch.testing.assert_close(captured.program.runner()([obs])[0], wanted, rtol=1e-5, atol=1e-6)


def test_a_gradient_that_starts_from_state() -> None:
    made = stepped(policy_of(Warm()))
    assert made is not None
    captured = capture(made)
    assert captured.program is not None
    plan = torch.full((3, 2), 0.4)
    wanted, (after,) = made.working(OBS, **{KEYWORD: (plan,)})
    action, moved = captured.program.lift_state().runner()([OBS, plan])
    torch.testing.assert_close(action, wanted)
    torch.testing.assert_close(moved, after)


def test_the_lines_of_the_backward_pass_are_the_users() -> None:
    captured = capture(policy_of(Second()))
    assert captured.program is not None
    computed = [n for n in captured.program.graph.nodes if isinstance(n.meta.get("val"), torch.Tensor) and n.args]
    places = [captured.program.place(n) for n in computed]
    assert {p.file if p is not None else None for p in places} == {__file__}


def test_gradients_are_switched_on_only_for_those_that_leave_it_to_the_caller() -> None:
    assert policy_of(Langevin()).gradients and not policy_of(Second()).gradients
    assert not policy_of(Langevin()).working(OBS).requires_grad


def test_what_starts_autograd_is_put_back() -> None:
    before = (torch.autograd._engine_run_backward, torch.func.grad, torch._functorch.eager_transforms.jvp)
    capture(policy_of(Second()))
    assert before == (torch.autograd._engine_run_backward, torch.func.grad, torch._functorch.eager_transforms.jvp)


def test_the_gradient_of_a_mean_over_windows() -> None:
    class Pooled(nn.Module):
        def forward(self, image):
            with torch.enable_grad():
                image = image.detach().requires_grad_()
                pooled = F.avg_pool2d(F.avg_pool2d(image, 3, 2, 1), 2)
                return torch.autograd.grad(pooled.square().sum(), image)[0]

    image = torch.randn(2, 3, 9, 8, generator=torch.Generator().manual_seed(0))
    policy = Policy("pooled", Pooled().eval(), (image,))
    captured = capture(policy)
    assert captured.program is not None
    torch.testing.assert_close(captured.program.runner()([image])[0], policy.working(image))
    assert any("convolution" in str(n.target) for n in captured.program.graph.nodes)
