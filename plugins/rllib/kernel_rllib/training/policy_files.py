"""Write one policy by itself: as a checkpoint that acts and learns on, or as a model for inference only.

settings.json                            the class of the algorithm, the settings of the policy, and its spaces
module.json, weights.npy, tree.json      its module, and the parameters
statistics                               what its filter has learned, where it has one

`saved_policies` reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from kernel_rllib.checkpoints.files import whole_or_none
from kernel_rllib.checkpoints.modules import MODULE, write_module
from kernel_rllib.checkpoints.settings_file import write_settings
from kernel_rllib.checkpoints.tree import write_tree
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.connectors.moments import Statistics
from kernel_rllib.errors import ConfigError, ModuleError
from kernel_rllib.export.numpy_policy import POLICY, write_numpy_policy
from kernel_rllib.training.policy_learning import PolicyLearning
from kernel_rllib.training.weights import parameters_of

STATISTICS = "statistics"
TORCH_MODEL = "model.pt"
_OF_THE_RUN = frozenset(
    {
        "env", "env_config", "env_task_fn", "render_env", "env_runner_cls",
        "policies", "policy_mapping_fn", "policies_to_train", "algorithm_config_overrides_per_module", "observation_fn",
        "input_", "input_config", "output", "output_config",
        "logger_config", "logger_creator", "custom_evaluation_function", "custom_stats_cls_lookup",
    }
)  # fmt: skip
"""Settings that are of a run, and say nothing of a policy; and what the names of others begin with."""
_OF_THE_RUN_TOO = ("callbacks_", "evaluation_", "offline_")


def describe_policy(directory: str | Path, policy: PolicyLearning) -> None:
    """Write what a policy is made of, into the directory of its parameters."""
    write_module(directory, policy.learner.module)
    values = {
        name: value
        for name, value in policy.config.set_values().items()
        if name not in _OF_THE_RUN and not name.startswith(_OF_THE_RUN_TOO)
    }
    values |= {"observation_space": policy.spaces.observation, "action_space": policy.spaces.action}
    own = AlgorithmConfig.from_state({**policy.config.get_state(), "settings": values})
    write_settings(directory, type(policy), own)


class PolicyFiles:
    """Writes a policy as it is when it is asked to."""

    def __init__(self, policy: PolicyLearning, statistics: Callable[[], Statistics]) -> None:
        """Write this policy; `statistics` returns what its filter has learned."""
        self._policy, self._statistics = policy, statistics

    def write_checkpoint(self, directory: str) -> str:
        """Write a checkpoint that acts and learns on; return its directory, which is complete or absent.

        Raises:
            CheckpointError: If it can't be written.
        """
        state = self._policy.learner.state()
        with whole_or_none(directory, MODULE, self._title) as unfinished:
            write_tree(unfinished, {"weights": state["weights"], "table": state["table"]})
            kept = {name: found.arrays() for name, found in self._statistics().items()}
            write_tree(Path(unfinished) / STATISTICS, kept)
            describe_policy(unfinished, self._policy)
        return directory

    def write_model(self, directory: str, onnx: int | None = None) -> None:
        """Write what is only played: what numpy alone plays, and where torch learns a module of torch, `model.pt`.

        Raises:
            CheckpointError: If it can't be written.
            ConfigError: If ONNX is asked for.
            ModuleError: If numpy alone can't play it, as the network remembers, or computes what the player does not
                know, and torch does not learn.
        """
        if onnx is not None:
            raise ConfigError(
                f"export_policy_model(onnx={onnx}): there is no export to ONNX; leave onnx out to get a policy that "
                "numpy alone can play"
            )
        learner = self._policy.learner
        if learner.backend.name != "torch":
            with whole_or_none(directory, POLICY, self._title) as unfinished:
                self._write_player(unfinished)
            return
        from kernel_rllib.export.torch_policy import write_torch_policy  # Imported here, as it imports torch.

        with whole_or_none(directory, TORCH_MODEL, self._title) as unfinished:
            with suppress(ModuleError):  # A module without a numpy form is played by torch only.
                self._write_player(unfinished)
            write_torch_policy(Path(unfinished) / TORCH_MODEL, learner.module, learner.weights)

    def _write_player(self, directory: Path) -> None:
        policy = self._policy
        blueprint = policy.policy_blueprint(policy.config, evaluates=True)
        write_numpy_policy(
            directory,
            policy.learner.module,
            parameters_of(policy.learner),
            blueprint.exploration,
            observation=blueprint.make_env_to_module().shape,
            action_space=blueprint.action_space,
            unsquash=blueprint.actions.unsquash,
            clip=blueprint.actions.clip,
        )

    @property
    def _title(self) -> str:
        return f"policy {self._policy.module_id!r}"
