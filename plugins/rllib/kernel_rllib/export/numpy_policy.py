"""A policy as three files: its network as a list of operations, its weights, and a program that plays it by numpy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from kernel_rllib.checkpoints.files import naming, write_file
from kernel_rllib.checkpoints.values import Writer
from kernel_rllib.data import columns
from kernel_rllib.errors import ModuleError
from kernel_rllib.exploration.exploration import Exploration
from kernel_rllib.export import player
from kernel_rllib.export.program import ROWS, Recorded, Recorder
from kernel_rllib.modules.module import Module

POLICY = "policy.json"
"""The file in a policy's directory that describes it."""


def write_numpy_policy(
    directory: str | Path,
    module: Module,
    parameters: Mapping[str, Any],
    exploration: Exploration,
    *,
    observation: tuple[int, ...],
    action_space: spaces.Space[Any],
    unsquash: bool,
    clip: bool,
) -> None:
    """Write a policy.

    Args:
        directory: The directory to write into; it is made.
        module: The network.
        parameters: Its parameters, arrays by name.
        exploration: The exploration, which knows the best action.
        observation: The shape of one row of observations, as the network takes them.
        action_space: The action space of the environment.
        unsquash: Whether actions are from -1 to 1, and stretched to the bounds of the space.
        clip: Whether they are cut off at these bounds.

    Raises:
        ModuleError: If the network remembers, or computes what the player does not know.
    """
    if module.state():
        raise ModuleError(
            "a network that remembers can't be played by itself: export the checkpoint of the policy "
            "(export_policy_checkpoint), and act with SavedModule"
        )
    if module.learns_in == "torch":
        raise ModuleError(f"a {type(module).__name__} computes in torch, and can't be played by numpy alone")
    record = Recorder(parameters)
    obs = Recorded(record, np.zeros((ROWS, *observation), np.float32), {"obs": None})
    outputs = dict(module.infer(record, record.parameters, {columns.OBS: obs}))  # type: ignore[arg-type]
    best = exploration.best(record, outputs)  # type: ignore[arg-type]
    outputs[columns.ACTIONS] = _as_the_environment_takes(record, best, action_space, unsquash, clip)
    description = {
        "observation": list(observation),
        "dtype": "float32",
        "action_space": Writer()(action_space),
        "program": record.program,
        "outputs": {name: record.written(value) for name, value in outputs.items()},
    }
    root = Path(directory)
    root.mkdir(parents=True, exist_ok=True)
    with naming(root / "weights.npz"):
        np.savez(root / "weights.npz", **record.weights)
    write_file(root / "player.py", Path(player.__file__).read_bytes())
    write_file(root / POLICY, json.dumps(description))


def _as_the_environment_takes(record: Recorder, best: Any, space: spaces.Space[Any], unsquash: bool, clip: bool) -> Any:
    """Return actions as numbers of the space: counted from where it begins, or stretched to its bounds."""
    if isinstance(space, spaces.Discrete):
        return best + int(space.start) if space.start else best
    if not isinstance(space, spaces.Box) or np.dtype(space.dtype).kind != "f":
        raise ModuleError(f"the player knows actions of Discrete and of Boxes of floats, and these are of {space}")
    low, high = space.low.astype(np.float32), space.high.astype(np.float32)
    if unsquash:
        bounded = np.isfinite(low) & np.isfinite(high)
        half = np.where(bounded, (np.where(bounded, high, 0) - np.where(bounded, low, 0)) / 2, 1).astype(np.float32)
        middle = np.where(bounded, np.where(bounded, low, 0) + half, 0).astype(np.float32)
        best = record.clip(best * half + middle, low, high)
    return record.clip(best, low, high) if clip else best
