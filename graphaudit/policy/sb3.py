"""Stable-Baselines3 archives (`model.save("policy.zip")`), as a module that returns what `model.predict` returns.

The archive is read with the library's own `load_from_zip_file`; the policy object is rebuilt from `policy_class`,
the spaces and `policy_kwargs`, as `BaseAlgorithm.load` does (stable_baselines3 2.9, common/base_class.py), without an
environment, an algorithm or a replay buffer.
"""

from __future__ import annotations

import inspect
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from graphaudit.errors import HostError, ModelError
from graphaudit.host import import_extra
from graphaudit.policy.policy import Policy
from graphaudit.policy.spaces import batch_names, sample
from graphaudit.policy.usercode import describe
from graphaudit.text import one_line, shown_path

_NEEDED = ("policy_class", "observation_space", "action_space", "policy_kwargs", "use_sde")


def load_sb3(path: Path, *, trust: bool) -> Policy:
    """The policy in the archive; `forward(obs)` equals `model.predict(obs, deterministic=True)`, batch first.

    Maskable policies take `forward(obs, action_masks)`, recurrent ones `forward(obs, hidden, cell, episode_starts)` and
    return the new state too. Raises ModelError without `trust`, HostError without stable_baselines3.
    """
    keys = _keys(path)
    if not trust:
        raise ModelError(
            f"{shown_path(path)} is a Stable-Baselines3 archive: loading it unpickles, so runs, code from the file",
            "Pass --trust if you know where it comes from.",
        )
    data, weights = _read(path, keys)
    policy = _rebuild(path, data)
    try:
        policy.load_state_dict(weights)
    except RuntimeError as error:
        raise ModelError(
            f"the weights in {shown_path(path)} do not fit its policy: {one_line(str(error))}",
            "Load it with the version of stable_baselines3 that wrote it, and save it again.",
        ) from error
    module = _wrap(policy)
    example = _arguments(module, 0, batch=2)
    return Policy(
        name=path.name,
        module=module.eval(),
        example_args=example,
        inputs=lambda seed: _arguments(module, seed, batch=1 + seed % 4),
        dynamic_shapes=module.dynamic_shapes(),
    )


class Adapter(nn.Module):
    """What the three kinds of policy share: the action in the units and the shape of the action space.

    Box actions are unscaled from [-1, 1] where the policy squashes, and clipped to the space where it does not
    (`BasePolicy.predict`, stable_baselines3/common/policies.py).
    """

    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.policy = policy
        low, high = getattr(policy.action_space, "low", None), getattr(policy.action_space, "high", None)
        self.bounded = low is not None and high is not None
        if self.bounded:
            self.register_buffer("low", torch.as_tensor(low))
            self.register_buffer("high", torch.as_tensor(high))

    def scale(self, action: torch.Tensor) -> torch.Tensor:
        """(batch, …) as the policy's network gives it → (batch, *action)."""
        action = action.reshape(-1, *self.policy.action_space.shape)
        if not self.bounded:
            return action
        low, high = self.get_buffer("low"), self.get_buffer("high")
        if self.policy.squash_output:
            return low + (0.5 * (action + 1.0) * (high - low))
        return torch.clamp(action, low, high)

    def extra_arguments(self, generator: torch.Generator, batch: int) -> tuple[torch.Tensor, ...]:
        """What forward takes after the observation."""
        del generator, batch
        return ()

    def dynamic_shapes(self) -> tuple[Any, ...]:
        """The batch dimension of every argument."""
        return (batch_names(self.policy.observation_space),)


class Predict(Adapter):
    """`predict(obs, deterministic=True)` of a policy, as tensors: (batch, *observation) → (batch, *action)."""

    def forward(self, obs: Any) -> torch.Tensor:
        """The action for each observation of the batch."""
        return self.scale(self.policy._predict(obs, deterministic=True))


class PredictMasked(Adapter):
    """As `Predict`, under `action_masks`, bool (batch, number of choices): `MaskablePPO.predict`."""

    def forward(self, obs: Any, action_masks: torch.Tensor) -> torch.Tensor:
        """The best allowed action."""
        return self.scale(self.policy._predict(obs, deterministic=True, action_masks=action_masks))

    def extra_arguments(self, generator: torch.Generator, batch: int) -> tuple[torch.Tensor, ...]:
        """Masks that allow about half of the choices, and at least the first of each discrete action."""
        sizes = _choices(self.policy.action_space)
        masks = torch.rand(batch, sum(sizes), generator=generator) > 0.5
        masks[:, [sum(sizes[:i]) for i in range(len(sizes))]] = True
        return (masks,)

    def dynamic_shapes(self) -> tuple[Any, ...]:
        """The batch dimension of every argument."""
        return (*super().dynamic_shapes(), {0: "batch"})


class PredictRecurrent(Adapter):
    """As `Predict`, with the LSTM's state, (layers, batch, units) each, and `episode_starts`, float (batch,)."""

    def forward(
        self, obs: Any, hidden: torch.Tensor, cell: torch.Tensor, episode_starts: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The action, and the state for the next step."""
        action, (hidden, cell) = self.policy._predict(obs, (hidden, cell), episode_starts, deterministic=True)
        return self.scale(action), hidden, cell

    def extra_arguments(self, generator: torch.Generator, batch: int) -> tuple[torch.Tensor, ...]:
        """A state as an LSTM may be in, and starts for some of the batch."""
        layers, _, units = self.policy.lstm_hidden_state_shape
        state = 2 * torch.rand(2, layers, batch, units, generator=generator) - 1
        return state[0], state[1], (torch.rand(batch, generator=generator) < 0.25).float()

    def dynamic_shapes(self) -> tuple[Any, ...]:
        """The batch dimension of every argument."""
        return (*super().dynamic_shapes(), {1: "batch"}, {1: "batch"}, {0: "batch"})


def _wrap(policy: Any) -> Adapter:
    parameters = inspect.signature(policy._predict).parameters
    if "lstm_states" in parameters:
        return PredictRecurrent(policy)
    return PredictMasked(policy) if "action_masks" in parameters else Predict(policy)


def _arguments(module: Adapter, seed: int, batch: int) -> tuple[Any, ...]:
    generator = torch.Generator().manual_seed(seed)
    return (sample(module.policy.observation_space, seed, batch), *module.extra_arguments(generator, batch))


def _choices(space: Any) -> list[int]:
    if hasattr(space, "nvec"):
        return [int(n) for n in space.nvec]
    return [2] * int(space.shape[0]) if space.shape else [int(space.n)]


def _keys(path: Path) -> list[str]:
    """The names of the saved attributes, read without unpickling anything."""
    try:
        with zipfile.ZipFile(path) as archive:
            if "data" not in archive.namelist() or "policy.pth" not in archive.namelist():
                raise ModelError(
                    f"{shown_path(path)} is not a Stable-Baselines3 archive: it has no data or no policy.pth",
                    "Save the model with model.save(path).",
                )
            return list(json.loads(archive.read("data")))
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, NotImplementedError) as error:
        raise ModelError(
            f"{shown_path(path)} is not a readable Stable-Baselines3 archive: {describe(error)}",
            "Save the model again with model.save(path).",
        ) from error


def _read(path: Path, keys: list[str]) -> tuple[Mapping[str, Any], Mapping[str, torch.Tensor]]:
    library = import_extra("stable_baselines3.common.save_util", "rl")
    # What is not needed (buffers, schedules, the last observation) is not unpickled, so it cannot fail either.
    skipped = {key: None for key in keys if key not in _NEEDED}
    try:
        data, weights, _ = library.load_from_zip_file(str(path), device="cpu", custom_objects=skipped)
    except ModuleNotFoundError as error:
        raise HostError(
            f"{shown_path(path)} needs the module {error.name!r}, which is not installed",
            "Install it (sb3_contrib: pip install 'graphaudit[rl]'), or put its folder on PYTHONPATH.",
        ) from error
    except Exception as error:  # unpickling runs code of the file's own
        raise ModelError(
            f"{shown_path(path)} cannot be loaded: {describe(error)}",
            "Load it with the version of stable_baselines3 that wrote it, and save it again.",
        ) from error
    missing = [key for key in _NEEDED[:3] if (data or {}).get(key) is None]
    if missing:
        raise ModelError(
            f"{shown_path(path)}: {missing[0]} could not be restored",
            "Make the module that defines it importable, or save the model with this version of the library.",
        )
    return data or {}, weights["policy"]


def _rebuild(path: Path, data: Mapping[str, Any]) -> Any:
    convert = import_extra("stable_baselines3.common.vec_env.patch_gym", "rl")._convert_space
    policy_class = data["policy_class"]
    parameters = inspect.signature(policy_class).parameters
    arguments = {k: v for k, v in (data.get("policy_kwargs") or {}).items() if k != "device"}
    architecture = arguments.get("net_arch")
    if isinstance(architecture, list) and architecture and isinstance(architecture[0], dict):
        arguments["net_arch"] = architecture[0]  # as written before stable_baselines3 1.8
    if "lr_schedule" in parameters:
        arguments["lr_schedule"] = _no_learning
    if data.get("use_sde") and "use_sde" in parameters:
        arguments["use_sde"] = True
    try:
        return policy_class(convert(data["observation_space"]), convert(data["action_space"]), **arguments)
    except Exception as error:  # the policy's class may be the user's own
        raise ModelError(
            f"the policy in {shown_path(path)} cannot be rebuilt: {describe(error)}",
            "Build it in a Python file instead, and name file.py:build.",
        ) from error


def _no_learning(progress: float) -> float:
    """A learning rate for the optimiser that the policy's constructor wants; nothing is trained."""
    del progress
    return 0.0
