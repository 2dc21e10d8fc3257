"""Trains PPO on CartPole, bundles it for ONNX Runtime, and plays both side by side from the same seeds.

    pip install -e '.[rl]'
    python examples/cartpole_ppo.py

Prints the report of the rewrite, then one line for each episode: every action and every return is the same.
"""

import sys
import tempfile
from pathlib import Path

import gymnasium
import numpy as np
import torch
from rich.console import Console
from stable_baselines3 import PPO

import graphaudit
from graphaudit.policy.loading import load_policy
from graphaudit.report.terminal import print_report

EPISODES = 10
TIMESTEPS = 8_192


def train() -> PPO:
    """PPO with the library's defaults; some seconds on a laptop."""
    torch.set_num_threads(1)
    model = PPO("MlpPolicy", "CartPole-v1", seed=0, device="cpu")
    return model.learn(TIMESTEPS)


def play(act, seed: int) -> tuple[list[int], float]:
    """One episode: the actions taken and the return."""
    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=seed)
    actions, total, done = [], 0.0, False
    while not done:
        action = act(observation)
        observation, reward, terminated, truncated, _ = env.step(action)
        actions.append(action)
        total += float(reward)
        done = terminated or truncated
    return actions, total


def main() -> int:
    model = train()
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "cartpole.zip"
        model.save(archive)
        policy = load_policy(str(archive), trust=True)  # we wrote this archive ourselves
        report = graphaudit.rewrite(policy, target="onnxruntime", output=Path(folder) / "cartpole-bundle")
        print_report(report, Console())
        if report.bundle is None:
            return 1
        deployed = graphaudit.load(report.bundle)

    def original(observation: np.ndarray) -> int:
        return int(model.predict(observation, deterministic=True)[0])

    def bundled(observation: np.ndarray) -> int:
        return int(deployed(observation[None])[0])

    same = True
    for seed in range(EPISODES):
        (theirs, return_there), (ours, return_here) = play(original, seed), play(bundled, seed)
        equal = theirs == ours and return_there == return_here
        same = same and equal
        verdict = "the same" if equal else "DIFFERENT"
        print(f"episode {seed}: {len(theirs)} actions, return {return_there:.0f}: {verdict}")
    print("every action and every return is the same" if same else "the bundle acts differently")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
