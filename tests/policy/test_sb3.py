"""Stable-Baselines3 archives: the loaded module gives exactly what `model.predict` gives."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graphaudit.errors import HostError, ModelError
from graphaudit.policy.loading import load_policy
from graphaudit.policy.spaces import sample

pytest.importorskip("stable_baselines3")
pytest.importorskip("sb3_contrib")

import gymnasium as gym
import sb3_contrib as contrib
import stable_baselines3 as sb3
from gymnasium import spaces

pytestmark = pytest.mark.zoo

BOX = spaces.Box(-2.0, 3.0, (3,), np.float32)
OBS = spaces.Box(-5.0, 5.0, (8,), np.float32)
IMAGE = spaces.Box(0, 255, (3, 36, 36), np.uint8)
DICT = spaces.Dict({"camera": IMAGE, "joints": OBS, "gear": spaces.Discrete(3)})
CHANNELS_LAST = spaces.Box(0, 255, (36, 36, 3), np.uint8)
ON_POLICY = {"n_steps": 16, "batch_size": 16}
OFF_POLICY = {"buffer_size": 10}

MODELS: dict[str, tuple[Any, str, spaces.Space, spaces.Space, dict[str, Any]]] = {
    "ppo box": (sb3.PPO, "MlpPolicy", OBS, BOX, ON_POLICY),
    "ppo squashed": (
        sb3.PPO, "MlpPolicy", OBS, BOX, {**ON_POLICY, "use_sde": True, "policy_kwargs": {"squash_output": True}},
    ),
    "ppo multidiscrete": (sb3.PPO, "MlpPolicy", OBS, spaces.MultiDiscrete([3, 4]), ON_POLICY),
    "a2c multibinary": (sb3.A2C, "MlpPolicy", spaces.Discrete(5), spaces.MultiBinary(4), {}),
    "ppo dict": (sb3.PPO, "MultiInputPolicy", DICT, spaces.Discrete(4), ON_POLICY),
    "dqn image": (sb3.DQN, "CnnPolicy", CHANNELS_LAST, spaces.Discrete(6), OFF_POLICY),
    "dqn": (sb3.DQN, "MlpPolicy", spaces.MultiDiscrete([3, 4]), spaces.Discrete(5), OFF_POLICY),
    "sac": (sb3.SAC, "MlpPolicy", OBS, BOX, OFF_POLICY),
    "td3": (sb3.TD3, "MlpPolicy", OBS, BOX, OFF_POLICY),
    "ars": (contrib.ARS, "LinearPolicy", OBS, BOX, {}),
    "crossq": (contrib.CrossQ, "MlpPolicy", OBS, BOX, OFF_POLICY),
    "maskable": (contrib.MaskablePPO, "MlpPolicy", OBS, spaces.MultiDiscrete([3, 2]), ON_POLICY),
    "recurrent": (contrib.RecurrentPPO, "MlpLstmPolicy", OBS, BOX, ON_POLICY),
    "tqc": (contrib.TQC, "MlpPolicy", OBS, BOX, OFF_POLICY),
}  # fmt: skip


class Still(gym.Env[Any, Any]):
    """An environment of the given spaces in which nothing happens."""

    def __init__(self, observation: spaces.Space, action: spaces.Space) -> None:
        self.observation_space, self.action_space = observation, action

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 0.0, False, False, {}

    def action_masks(self) -> Any:
        return np.ones(5, dtype=bool)


def saved(name: str, folder: Path) -> tuple[Any, Path]:
    algorithm, policy, observation, action, options = MODELS[name]
    torch.manual_seed(0)
    model = algorithm(policy, Still(observation, action), device="cpu", seed=0, **options)
    file = folder / "model.zip"
    model.save(file)
    return model, file


@pytest.mark.parametrize("name", MODELS)
def test_forward_is_predict(name: str, tmp_path: Path) -> None:
    model, file = saved(name, tmp_path)
    policy = load_policy(str(file), trust=True)
    assert policy.inputs is not None
    assert all(slot.shape.count("batch") == 1 for slot in policy.interface.inputs)
    for seed in range(4):
        args = policy.inputs(seed)
        obs = {k: v.numpy() for k, v in args[0].items()} if isinstance(args[0], dict) else args[0].numpy()
        more: dict[str, Any] = {}
        if name == "maskable":
            more = {"action_masks": args[1].numpy()}
        elif name == "recurrent":
            more = {"state": (args[1].numpy(), args[2].numpy()), "episode_start": args[3].numpy()}
        want, state = model.predict(obs, deterministic=True, **more)
        got = policy.working(*args)
        action = got[0] if isinstance(got, tuple) else got
        assert want.dtype == action.numpy().dtype
        np.testing.assert_array_equal(want, action.numpy())
        if name == "recurrent":
            np.testing.assert_array_equal(state[0], got[1].numpy())
            np.testing.assert_array_equal(state[1], got[2].numpy())


def test_without_trust_nothing_is_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, file = saved("dqn", tmp_path)
    monkeypatch.setattr("stable_baselines3.common.save_util.json_to_data", lambda *_, **__: pytest.fail("unpickled"))
    with pytest.raises(ModelError, match="unpickles") as caught:
        load_policy(str(file))
    assert "--trust" in caught.value.remedy


def test_a_missing_library_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, file = saved("dqn", tmp_path)
    monkeypatch.setitem(sys.modules, "stable_baselines3.common.save_util", None)
    with pytest.raises(HostError, match="stable_baselines3") as caught:
        load_policy(str(file), trust=True)
    assert "pip install 'graphaudit[rl]'" in caught.value.remedy


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and so on", b"text"])
def test_damaged_archives_are_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "broken.zip"
    file.write_bytes(content)
    with pytest.raises(ModelError, match="not a readable Stable-Baselines3 archive"):
        load_policy(str(file), trust=True)


def test_other_archives_are_named(tmp_path: Path) -> None:
    file = tmp_path / "other.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(ModelError, match="is not a Stable-Baselines3 archive"):
        load_policy(str(file), trust=True)


def test_weights_that_do_not_fit_are_named(tmp_path: Path) -> None:
    _, file = saved("dqn", tmp_path)
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(other, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == "policy.pth":
                with target.open(name, "w") as entry:
                    torch.save({"nothing": torch.zeros(1)}, entry)
            else:
                target.writestr(name, content)
    with pytest.raises(ModelError, match="do not fit its policy"):
        load_policy(str(other), trust=True)


def test_draws_stay_moderate_where_a_space_is_as_good_as_unbounded() -> None:
    limit = np.finfo(np.float32).max
    space = spaces.Box(np.array([-limit, -1.0, 0.0], np.float32), np.array([limit, 1.0, np.inf], np.float32))
    drawn = sample(space, 0, 64)
    assert drawn.shape == (64, 3)
    assert drawn.dtype == torch.float32
    assert drawn.abs().max() < 100
    assert (drawn[:, 1].abs() <= 1).all()
    assert (drawn[:, 2] >= 0).all()
    assert torch.equal(drawn, sample(space, 0, 64))
    assert not torch.equal(drawn, sample(space, 1, 64))
