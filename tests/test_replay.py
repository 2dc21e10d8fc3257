"""Whole episodes of sampled policies from Stable-Baselines3: the original and its bundle, action by action.

Each side steps an environment of its own. The original is asked as its users ask it, through `predict`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import graphaudit

pytestmark = pytest.mark.zoo
pytest.importorskip("stable_baselines3", reason="needs the `rl` extra")
pytest.importorskip("sb3_contrib", reason="needs the `rl` extra")

import gymnasium as gym  # noqa: E402
import sb3_contrib as contrib  # noqa: E402
import stable_baselines3 as sb3  # noqa: E402

Act = Callable[[np.ndarray, bool], Any]  # observation, whether the episode begins → action
CLOSE = 1e-4  # of actions in [-2, 2], after up to 200 steps of dynamics that start from the same numbers


class Sampled(nn.Module):
    """`predict(obs)` of a policy without memory, as tensors."""

    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        action = self.policy._predict(obs, deterministic=False)
        if not self.policy.squash_output:
            return action
        low, high = (torch.as_tensor(end) for end in (self.policy.action_space.low, self.policy.action_space.high))
        return low + 0.5 * (action + 1.0) * (high - low)


class SampledRecurrent(nn.Module):
    """`predict(obs, state, episode_start)` of a recurrent policy: the state is an argument and a result."""

    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, obs: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, starts: torch.Tensor) -> Any:
        distribution, (hidden, cell) = self.policy.get_distribution(obs, (hidden, cell), starts)
        return distribution.get_actions(deterministic=False), hidden, cell


def trained(algorithm: Any, policy: str, environment: str, steps: int, **options: Any) -> Any:
    model = algorithm(policy, environment, seed=1, device="cpu", **options)
    return model.learn(steps)


MODELS: dict[str, tuple[str, Callable[[], Any]]] = {
    "ppo": ("CartPole-v1", lambda: trained(sb3.PPO, "MlpPolicy", "CartPole-v1", 512, n_steps=256, n_epochs=2)),
    "sac": (
        "Pendulum-v1",
        lambda: trained(sb3.SAC, "MlpPolicy", "Pendulum-v1", 220, learning_starts=200, buffer_size=1000),
    ),
    "recurrent": (
        "CartPole-v1",
        lambda: trained(
            contrib.RecurrentPPO, "MlpLstmPolicy", "CartPole-v1", 128, n_steps=128, n_epochs=1,
            policy_kwargs={"lstm_hidden_size": 32},
        ),
    ),
}  # fmt: skip


def original(model: Any, seed: int) -> Act:
    """The trained model itself."""
    torch.manual_seed(seed)
    state = None

    def act(obs: np.ndarray, begins: bool) -> Any:
        nonlocal state
        action, state = model.predict(obs, state=state, episode_start=np.array([begins]), deterministic=False)
        return action

    return act


def deployed(model: Any, bundle: Path, seed: int) -> Act:
    """The bundle, in NumPy alone."""
    policy = graphaudit.load(bundle)
    policy.seed(seed)
    state = initial_state(model)

    def act(obs: np.ndarray, begins: bool) -> Any:
        nonlocal state
        if not state:
            return policy(obs[None])[0]
        action, *state = policy(obs[None], *state, np.array([begins], dtype=np.float32))
        return action[0]

    return act


def initial_state(model: Any) -> list[np.ndarray]:
    if not isinstance(model, contrib.RecurrentPPO):
        return []
    return [np.zeros(model.policy.lstm_hidden_state_shape, np.float32)] * 2


def bundled(model: Any, folder: Path) -> Path:
    obs = torch.as_tensor(model.observation_space.sample()[None])
    state = [torch.as_tensor(s) for s in initial_state(model)]
    module = SampledRecurrent(model.policy) if state else Sampled(model.policy)
    args = (obs, *state, torch.zeros(1)) if state else (obs,)
    report = graphaudit.rewrite(module.eval(), args, target="onnxruntime", output=folder, count=16)
    assert report.bundle, [f.message for f in report.findings if f.blocks]
    return folder


def episode(environment: str, seed: int, act: Act) -> Iterator[tuple[Any, float]]:
    """Action and reward of each step; the environment starts from `seed`."""
    env = gym.make(environment)
    obs, _ = env.reset(seed=seed)
    begins, done = True, False
    while not done:
        action = act(obs, begins)
        obs, reward, terminated, truncated, _ = env.step(action)
        yield action, float(reward)
        begins, done = False, terminated or truncated


@pytest.mark.parametrize("episodes", [1, pytest.param(10, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", MODELS)
def test_whole_episodes_replay_from_their_seeds(name: str, episodes: int, tmp_path: Path) -> None:
    environment, make = MODELS[name]
    model = make()
    bundle = bundled(model, tmp_path / "bundle")
    assert graphaudit.load(bundle).manifest.replay == "exact"
    steps, furthest = 0, 0.0
    for seed in range(episodes):
        ours = episode(environment, seed, deployed(model, bundle, seed))
        theirs = episode(environment, seed, original(model, seed))
        for (got, reward), (wanted, rewarded) in zip(ours, theirs, strict=True):
            steps += 1
            if np.issubdtype(np.asarray(wanted).dtype, np.integer):
                assert int(got) == int(wanted), f"another action in step {steps} of all, episode {seed}"
                assert reward == rewarded
            else:
                furthest = max(furthest, float(np.abs(got - wanted).max()))
                assert furthest <= CLOSE, f"another action in step {steps} of all, episode {seed}"
                assert reward == pytest.approx(rewarded, abs=1e-2)
    print(f"{name}: {episodes} episodes, {steps} actions, |Δ| ≤ {furthest:.2e}")
    assert steps >= 8 * episodes
