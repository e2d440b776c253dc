"""Checkpoints as users ask for them: an algorithm out of a directory alone, and one policy of it by itself."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from kernel_rllib.checkpoints.files import whole_or_none
from kernel_rllib.checkpoints.layout import DESCRIPTION, MODULES, read_checkpoint, read_description
from kernel_rllib.checkpoints.settings_file import read_settings, write_settings
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.errors import CheckpointError, ConfigError, UnknownPolicyError
from kernel_rllib.nearest import did_you_mean
from kernel_rllib.runners.kept_samples import forget_reports
from kernel_rllib.training.policy_files import PolicyFiles, describe_policy
from kernel_rllib.training.policy_learning import PolicyLearning
from kernel_rllib.training.registry import ALGORITHMS
from kernel_rllib.training.saved_path import SavedPath
from kernel_rllib.training.weights import PolicyWeights
from kernel_runs.storage.directories import directory_name, written_as
from kernel_runs.trainable.trainable import Trainable
from kernel_spec.errors import SerializationError

PROGRESS = ("_iteration", "_timesteps_total", "_episodes_total", "_time_total", "_experiment_id")
"""The attributes of a trainable that hold its progress."""


class Keeping(PolicyWeights, Trainable):
    """Writes an algorithm into directories, and makes one out of them; what there is to keep, `get_state` returns."""

    _settings: AlgorithmConfig
    policies: dict[str, PolicyLearning]

    @abstractmethod
    def files_of(self, policy_id: str) -> PolicyFiles:
        """Return what writes a policy by itself."""

    # -- out of checkpoints -------------------------------------------------------------------------------------------

    @classmethod
    def from_checkpoint(
        cls,
        path: Any,
        filesystem: Any = None,
        *,
        policy_ids: Collection[str] | None = None,
        policy_mapping_fn: Callable[..., str] | None = None,
        policies_to_train: Collection[str] | Callable[..., bool] | None = None,
        config: Mapping[str, Any] | None = None,
        trust: bool = False,
    ) -> Any:
        """Return the algorithm that a checkpoint is of, as far as it was; its class and settings are in it.

        Without `trust` no pickle is read, so nothing runs that was not installed here. Training goes on from the same
        parameters, optimizers, counts and streams of random numbers, in environments that begin new episodes. With
        it, copies of environments are read as well, and training goes on with the same bits.

        Args:
            path: The directory that `save` returned, `checkpoint_000010/checkpoint-10` in it, or an object that has
                it as `path`.
            filesystem: None; a checkpoint that is elsewhere has to be copied here first.
            policy_ids: The ids of the policies to take, of several; None for all.
            policy_mapping_fn: The function that returns the policy of an agent, in place of the saved one.
            policies_to_train: The policies that learn, in place of the saved setting.
            config: Settings in place of the saved ones, under names of any generation.
            trust: True to read pickles, which can run any program: say it for what you wrote yourself.

        Raises:
            CheckpointError: If there is no checkpoint, it is damaged, needs trust, or is of another algorithm than
                this class.
        """
        if filesystem is not None:
            raise ConfigError(
                f"filesystem is {filesystem!r}, but checkpoints are read from local files: copy the directory here, "
                "and leave filesystem out"
            )
        root = checkpoint_directory(path)
        description = read_description(root)
        changed: dict[str, Any] = dict(config or {})
        if policy_mapping_fn is not None:
            changed["policy_mapping_fn"] = policy_mapping_fn
        if policies_to_train is not None:
            changed["policies_to_train"] = policies_to_train
        saved = read_settings(root, trust=trust, instead=changed)
        if not issubclass(saved.algorithm, cls):
            raise CheckpointError(
                f"{root} is a checkpoint of {saved.algorithm.__name__}, not of {cls.__name__}: call "
                f"{saved.algorithm.__name__}.from_checkpoint, or Algorithm.from_checkpoint for any"
            )
        state = read_checkpoint(root)
        if policy_ids is not None:
            _keep_policies(root, saved.config, state, policy_ids)
        if not trust:
            _forget_environments(state)
        algorithm = saved.algorithm(config=saved.config)
        algorithm.set_state(state)
        algorithm._set_progress(description.get("progress", {}))
        algorithm.checkpoint_loaded()
        return algorithm

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Any:
        """Return an algorithm that goes on with what `get_state` of another returned."""
        missing = [name for name in ("config", "algorithm_class") if name not in state]
        if missing:
            raise CheckpointError(
                f"the state has no {' and no '.join(missing)}: give what get_state() of an algorithm returned, whole"
            )
        algorithm = state["algorithm_class"](config=AlgorithmConfig.from_state(state["config"]))
        algorithm.set_state(state)
        return algorithm

    def checkpoint_loaded(self) -> None:
        """Be told that a checkpoint has been loaded."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refuse to be pickled or copied: runners and environments would not come along."""
        raise SerializationError(
            f"{type(self).__name__} can't be pickled or copied, as its runners would not come along: send the path "
            "that save() returns and call Algorithm.from_checkpoint(path) there, or send get_weights()"
        )

    def save(self, checkpoint_dir: str | None = None) -> SavedPath:
        """Write a checkpoint, and return its path, which `restore` and `from_checkpoint` take.

        It is there whole or not at all: where it can't be written, an older one in the directory is as it was.
        The path is a text. Its `checkpoint.path` is the same path, for programs that look for it there.

        Raises:
            CheckpointError: If it can't be written; the error of the operating system is chained.
        """
        directory = checkpoint_dir or os.path.join(self.logdir, directory_name(self._iteration))
        with whole_or_none(directory, DESCRIPTION) as unfinished:
            inside = os.path.relpath(super().save(str(unfinished)), unfinished)
        if checkpoint_dir is None:
            self.checkpoint_is_there(directory)
        return SavedPath(directory if inside == os.curdir else os.path.join(directory, inside))

    def save_to_path(self, path: str | os.PathLike[str] | None = None, **_: Any) -> str:
        """Write a checkpoint into a directory, by default one in the directory of results; return its path."""
        return str(self.save(None if path is None else os.fspath(path)))

    def restore_from_path(self, path: Any, **_: Any) -> None:
        """Go on from a checkpoint of such an algorithm, as `restore` does. It reads pickles."""
        self.restore(path)

    def refuse_checkpoint_of_another(self, checkpoint: Any) -> None:
        """Raise CheckpointError for a checkpoint of another algorithm, as far as it is known whose it is."""
        saved, own = read_description(checkpoint).get("algorithm"), self._settings.algorithm or type(self).__name__
        if saved != own and saved in ALGORITHMS and own in ALGORITHMS:
            raise CheckpointError(
                f"{checkpoint} is a checkpoint of {saved}, and this is {own}: call Algorithm.from_checkpoint for the "
                "algorithm that was saved, or take its parameters alone by set_weights()"
            )

    def describe(self, directory: str | Path) -> dict[str, Any]:
        """Write what a checkpoint is of, beside its state; return what its description says of this algorithm."""
        write_settings(directory, type(self), self._settings)
        for module_id, policy in self.policies.items():
            describe_policy(Path(directory) / MODULES / module_id, policy)
        return {"progress": {name[1:]: getattr(self, name) for name in PROGRESS}}

    def _set_progress(self, progress: Mapping[str, Any]) -> None:
        for name in PROGRESS:
            if name[1:] in progress:
                setattr(self, name, progress[name[1:]])
        self._restored_at = self._iteration

    # -- one policy by itself -----------------------------------------------------------------------------------------

    def export_policy_checkpoint(
        self, export_dir: str, filename_prefix: Any = -1, policy_id: str = "default_policy"
    ) -> str:
        """Write one policy alone into a directory, as `Policy.from_checkpoint` reads it, and `SavedModule` its module.

        Args:
            export_dir: The directory to write into; it is made.
            filename_prefix: Has no effect.
            policy_id: The id of the policy.

        Raises:
            KeyError: If there is none of this id.
            CheckpointError: If it can't be written.
        """
        return self.files_of(policy_id).write_checkpoint(export_dir)

    def import_policy_model_from_h5(self, import_file: str, policy_id: str = "default_policy") -> None:
        """Refuse: no built-in model reads files of Keras.

        Raises:
            ConfigError: Always; it says what to use instead.
        """
        raise ConfigError(
            f"import_policy_model_from_h5({import_file!r}) can't be done: no model here reads files of Keras. Read the "
            f"file by h5py, and give the arrays to algorithm.get_policy({policy_id!r}).set_weights(), whose names "
            "get_weights() shows"
        )

    def export_policy_model(self, export_dir: str, policy_id: str = "default_policy", onnx: int | None = None) -> None:
        """Write one policy as files that numpy alone can play: `policy.json`, `weights.npz` and `player.py`.

        Where torch learns, there is `model.pt` too, a module that `torch.load` loads; it is all there is of what numpy
        can't play.

        Args:
            export_dir: The directory to write into; it is made.
            policy_id: The id of the policy.
            onnx: None: there is no export to ONNX.

        Raises:
            KeyError: If there is no policy of this id.
            CheckpointError: If it can't be written.
            ConfigError: If ONNX is asked for.
            ModuleError: If numpy learns, and the network remembers or computes what the player does not know.
        """
        self.files_of(policy_id).write_model(export_dir, onnx)


def checkpoint_directory(path: Any) -> Path:
    """Return the directory of the checkpoint that a path, or an object that has one, means.

    Raises:
        CheckpointError: If there is none.
    """
    found = getattr(path, "path", path)
    if not isinstance(found, (str, os.PathLike)):
        raise CheckpointError(f"{path!r} is no path of a checkpoint: give the directory that save() returned")
    root = Path(written_as(os.path.expanduser(os.fspath(found))))
    if not root.is_dir() and root.name.startswith(("checkpoint-", DESCRIPTION)):
        root = root.parent
    return root


def _keep_policies(root: Path, config: AlgorithmConfig, state: dict[str, Any], policy_ids: Collection[str]) -> None:
    there = state["learners"]
    for policy in policy_ids:
        if policy not in there:
            raise UnknownPolicyError(
                f"{root} has no policy {policy!r}{did_you_mean(policy, there)}; it has {', '.join(there)}"
            )
    if config.policies.keys() > set(policy_ids):
        config.policies = {name: spec for name, spec in config.policies.items() if name in policy_ids}
    state["learners"] = {name: learner for name, learner in there.items() if name in policy_ids}


def _forget_environments(state: Mapping[str, Any]) -> None:
    for lane in state["runners"]["lanes"].values():
        lane.pop("env", None)
    state["runners"].pop("casts", None)
    forget_reports(state["runners"].get("rounds", {}))
    state["runners"].get("tasks", {}).pop("pickles", None)
