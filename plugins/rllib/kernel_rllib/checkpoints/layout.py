"""The layout of an algorithm's checkpoint: which part of its state is in which file.

    algorithm.json, rllib_checkpoint.json           what it is: its name, format, counts
    settings.json                                   its class and settings; see `checkpoints.settings_file`
    learner_group/learner/rl_module/<id>/           the parameters of each module, and their table
    learner_group/learner/optimizers/<id>/          what their optimizers remember
    env_runners/                                    the lanes of all runners, for going on bit for bit

Programs that load a module alone find it where RLlib has it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kernel_rllib.checkpoints.files import write_file
from kernel_rllib.checkpoints.tree import read_tree, write_tree
from kernel_rllib.errors import CheckpointError

FORMAT = 1
MODULES = "learner_group/learner/rl_module"
OPTIMIZERS = "learner_group/learner/optimizers"
RUNNERS = "env_runners"
DESCRIPTION = "algorithm.json"
RAY_DESCRIPTION = "rllib_checkpoint.json"


def write_checkpoint(
    directory: str | Path,
    description: Mapping[str, Any],
    state: Mapping[str, Any],
    describe: Callable[[Path], Mapping[str, Any]] = lambda root: {},
) -> None:
    """Write a checkpoint.

    Args:
        directory: The directory to write into.
        description: The facts that people and programs ask first, values of JSON.
        state: The result of `Algorithm.get_state`.
        describe: Writes more beside the state, and returns more for the description. The description is written last:
            a directory that has it is complete.
    """
    root = Path(directory)
    (root / DESCRIPTION).unlink(missing_ok=True)  # A checkpoint that is written over is incomplete until the end.
    for module, learner in state["learners"].items():
        write_tree(root / MODULES / module, {"weights": learner["weights"], "table": learner["table"]})
        write_tree(root / OPTIMIZERS / module, {"optimizers": learner["optimizers"], "version": learner["version"]})
    write_tree(root / RUNNERS, state["runners"])
    write_tree(root / "algorithm", state["algorithm"])
    described = {"format": FORMAT, **description, **describe(root), "modules": [*state["learners"]]}
    of_ray = {"type": "Algorithm", "checkpoint_version": "2.1", "format": "json"}
    write_file(root / RAY_DESCRIPTION, json.dumps(of_ray, indent=1))
    write_file(root / DESCRIPTION, json.dumps(described, indent=1))


def read_description(directory: str | Path) -> dict[str, Any]:
    """Return the description of a checkpoint.

    Raises:
        CheckpointError: If there is none, or it was written by a later release.
    """
    path = Path(directory) / DESCRIPTION
    try:
        description: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(
            f"{directory} is no checkpoint of an algorithm: there is no {DESCRIPTION} in it. Give the directory that "
            "`save` returned."
        ) from None
    except ValueError as error:
        raise CheckpointError(f"{path} is damaged: {error}. Restore an older checkpoint.") from error
    if description.get("format", 0) > FORMAT:
        raise CheckpointError(
            f"{directory} has the format {description['format']}, and this release reads up to {FORMAT}: a later "
            "release wrote it. Install that one."
        )
    return description


def read_checkpoint(directory: str | Path) -> dict[str, Any]:
    """Return the state that a checkpoint holds, as `Algorithm.set_state` takes it.

    Raises:
        CheckpointError: If it is none, or damaged.
    """
    root = Path(directory)
    description = read_description(root)
    learners = {
        module: {**read_tree(root / MODULES / module), **read_tree(root / OPTIMIZERS / module)}
        for module in description["modules"]
    }
    return {
        "algorithm": read_tree(root / "algorithm"),
        "learners": learners,
        "runners": read_tree(root / RUNNERS),
    }
