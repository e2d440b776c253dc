"""Policies out of directories: one that was written by itself, or those of the checkpoint of an algorithm."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernel_rllib.checkpoints.layout import MODULES, RUNNERS
from kernel_rllib.checkpoints.modules import MODULE
from kernel_rllib.checkpoints.settings_file import SETTINGS, read_settings
from kernel_rllib.checkpoints.tree import read_tree
from kernel_rllib.connectors.moments import Moments, Statistics
from kernel_rllib.connectors.policy_statistics import of_policy
from kernel_rllib.errors import CheckpointError, UnknownPolicyError
from kernel_rllib.nearest import did_you_mean
from kernel_rllib.policy.inference import Inference
from kernel_rllib.policy.parameters import LearnerParameters
from kernel_rllib.policy.view import PolicyView
from kernel_rllib.training.policy_files import STATISTICS, PolicyFiles
from kernel_rllib.training.policy_learning import PolicyLearning
from kernel_rllib.training.policy_views import view_of
from kernel_rllib.training.progress import Progress
from kernel_rllib.training.reports import Reports
from kernel_rllib.training.spaces import Spaces


def policies_of(
    root: Path, policy_ids: Collection[str] | None = None, *, trust: bool = False
) -> PolicyView | dict[str, PolicyView]:
    """Return the policy of a directory, or those of the checkpoint of an algorithm, by their ids.

    Args:
        root: The directory.
        policy_ids: The ids of the policies to take of an algorithm; None for all that learn.
        trust: True to read pickles, where settings have such.

    Raises:
        CheckpointError: If there is none, or it is damaged.
        UnknownPolicyError: If there is none of such an id.
    """
    if (root / MODULE).exists():
        kept = read_tree(root / STATISTICS) if (root / STATISTICS).is_dir() else {}
        return _policy_of(root, _moments(kept), trust=trust)
    modules = root / MODULES
    there = sorted(each.name for each in modules.iterdir() if (each / MODULE).exists()) if modules.is_dir() else []
    if not there:
        raise CheckpointError(
            f"{root} has no policy: there is no {MODULE} in it, and no {MODULES}. Give what export_policy_checkpoint() "
            "was given, or the directory that save() of an algorithm returned"
        )
    for name in policy_ids or ():
        if name not in there:
            raise UnknownPolicyError(
                f"{root} has no policy {name!r} with a module{did_you_mean(name, there)}; it has {', '.join(there)}"
            )
    statistics = _moments(read_tree(root / RUNNERS)["connectors"])
    wanted = there if policy_ids is None else list(policy_ids)
    return {
        name: _policy_of(modules / name, of_policy(statistics, name) or statistics, name, trust=trust)
        for name in wanted
    }


@dataclass(frozen=True)
class SavedPolicy:
    """Holds a policy from a directory: its learning part, its parameters, and the inference by them."""

    policy: PolicyLearning
    held: LearnerParameters
    inference: Inference


def read_policy(
    directory: Path,
    statistics: Callable[[], Statistics],
    name: str | None = None,
    *,
    trust: bool = False,
    seed: int | None = None,
) -> SavedPolicy:
    """Return the policy of a directory.

    Args:
        directory: The directory that `PolicyFiles.write_checkpoint` has written.
        statistics: The function that returns the statistics of its filter.
        name: The id of the policy; None for that which its algorithm gives it.
        trust: True to read pickles, where settings have such.
        seed: The seed of the policy's noise; None for that of its settings.

    Raises:
        CheckpointError: If there is none, or it is damaged.
    """
    if not (directory / SETTINGS).exists():
        raise CheckpointError(
            f"{directory} has no {SETTINGS}, so how the policy acts is not known: an earlier release wrote it. Act "
            "with SavedModule.from_checkpoint, or load the algorithm by Algorithm.from_checkpoint"
        )
    saved, weights = read_settings(directory, trust=trust), read_tree(directory)["weights"]
    saved.config.freeze()
    policy: PolicyLearning = saved.algorithm.__new__(saved.algorithm)
    policy.seed = int(saved.config.seed or 0) if seed is None else seed
    policy.progress, policy.reports = Progress(), Reports(saved.config)
    policy.begin_learning(
        name or policy.module_id, saved.config, Spaces(saved.config.observation_space, saved.config.action_space)
    )
    table = policy.learner.module.table
    if table.size != np.size(weights):
        raise CheckpointError(
            f"{directory}: {SETTINGS} describes {table.size} parameters, and the file of weights has "
            f"{np.size(weights)}: they are of different checkpoints"
        )
    policy.learner.vector[...] = policy.learner.backend.vector(np.asarray(weights, np.float32))
    held = LearnerParameters(policy.learner)
    inference = Inference.of_blueprint(
        policy.policy_blueprint(policy.config), held, policy.stream("inference"), statistics
    )
    return SavedPolicy(policy, held, inference)


def _policy_of(directory: Path, statistics: Statistics, name: str | None = None, *, trust: bool) -> PolicyView:
    saved = read_policy(directory, lambda: statistics, name, trust=trust)
    return view_of(
        saved.policy,
        saved.held,
        saved.inference,
        learn=saved.policy.update,
        timestep=lambda: 0,
        files=PolicyFiles(saved.policy, lambda: statistics),
    )


def _moments(kept: Mapping[str, Any]) -> Statistics:
    return {name: Moments.of_arrays(found) for name, found in kept.items()}
