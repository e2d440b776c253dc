"""A policy as users have always asked for it: it computes actions, learns from a batch, and has weights and a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
from gymnasium import Space

from kernel_rllib.arrays import Array
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.errors import ConfigError, DataError, RLlibError
from kernel_rllib.learners.learner import Metrics
from kernel_rllib.nn.blas import blas_threads
from kernel_rllib.policy.action_distribution import ActionDistribution, distribution_class
from kernel_rllib.policy.exploration import PolicyExploration
from kernel_rllib.policy.inference import Inference
from kernel_rllib.policy.model import PolicyModel
from kernel_rllib.policy.parameters import HeldParameters, as_dict, replace_by_dict
from kernel_rllib.spaces.action_rows import actions_of
from kernel_rllib.spaces.squash import ActionScaler

Learn = Callable[[Batch], Metrics]


class WritesPolicy(Protocol):
    """Writes a policy into directories."""

    def write_checkpoint(self, directory: str) -> str:
        """Write a checkpoint that acts and learns on; return the directory."""
        ...

    def write_model(self, directory: str, onnx: int | None = None) -> None:
        """Write what is only played."""
        ...


class PolicyView:
    """One policy of an algorithm, or of one of its runners.

    Attributes:
        observation_space: The observation space of the environment.
        action_space: The action space of the environment.
        config: The settings, as a dict.
    """

    def __init__(
        self,
        held: HeldParameters,
        inference: Inference,
        *,
        observation_space: Space[Any],
        action_space: Space[Any],
        distribution: Distribution | None,
        stream: np.random.Generator,
        config: Mapping[str, Any],
        learn: Learn | None = None,
        timestep: Callable[[], int] = lambda: 0,
        files: WritesPolicy | None = None,
    ) -> None:
        """Show a policy.

        Args:
            held: Its parameters.
            inference: The inference, which chooses its actions.
            observation_space: The observation space of the environment.
            action_space: The action space of the environment.
            distribution: The distribution of its actions, where it has one.
            stream: The generator of random numbers for draws of `dist_class`.
            config: The settings.
            learn: Makes a step of learning from a batch; None where this is a copy that does not learn.
            timestep: The number of steps that the run has made; explorations go by it.
            files: The object that writes its files; None for a copy of a runner.
        """
        self.observation_space, self.action_space, self.config = observation_space, action_space, config
        self._held, self._inference, self._learn, self._timestep = held, inference, learn, timestep
        self._distribution, self._stream, self._files = distribution, stream, files

    # -- acting -------------------------------------------------------------------------------------------------------

    def compute_actions(
        self,
        obs_batch: Any,
        state_batches: Sequence[Any] | None = None,
        prev_action_batch: Any = None,
        prev_reward_batch: Any = None,
        info_batch: Any = None,
        episodes: Any = None,
        explore: bool | None = None,
        timestep: int | None = None,
        **further: Any,
    ) -> tuple[Any, list[Array], dict[str, Array]]:
        """Return actions, what the model remembers, and further columns, for observations that are preprocessed.

        Args:
            obs_batch: Rows [N, ...] as the preprocessor of the space gives them.
            state_batches: The state of a recurrent model, arrays [N, ...] in the order of `get_initial_state`.
            prev_action_batch, prev_reward_batch, info_batch, episodes: Accepted; no built-in model asks for them.
            explore: Whether actions are drawn, as while training; None for what the config says.
            timestep: The number of steps that the run has made; None for the actual one.
            further: Accepted, as older programs pass more.

        Returns:
            Actions [N, ...] as the space has them, neither stretched to its bounds nor clipped; a list of arrays
            [N, ...]; and columns such as `action_logp` and `vf_preds` by their names.
        """
        rows = np.asarray(obs_batch)
        rows = rows.astype(np.float32, copy=False) if rows.dtype == np.float64 else rows
        explore = bool(self.config.get("explore", True)) if explore is None else explore
        when = self._timestep() if timestep is None else timestep
        state = dict(zip(self._held.module.state(), map(np.asarray, state_batches or []), strict=False))
        chosen, outputs = self._inference.choose(rows, explore=explore, timestep=when, state=state or None)
        remembered = list(outputs.get(columns.STATE_OUT, {}).values())
        return actions_of(self.action_space, chosen), remembered, self._extra(rows, state, chosen, outputs)

    def preprocess(self, observations: Sequence[Any]) -> Array:
        """Return rows for `compute_actions` [N, ...] of observations as environments return them: also filtered."""
        return self._inference.rows(observations)

    def compute_single_action(
        self,
        obs: Any,
        state: Sequence[Any] | None = None,
        prev_action: Any = None,
        prev_reward: Any = None,
        info: Any = None,
        episode: Any = None,
        clip_actions: bool = False,
        explore: bool | None = None,
        timestep: int | None = None,
        **further: Any,
    ) -> tuple[Any, list[Array], dict[str, Any]]:
        """Return the action for one preprocessed observation, what is remembered, and further values.

        The arguments are those of `compute_actions` without the axis of rows; with `clip_actions` the action is cut
        off at the bounds of the space.
        """
        batches = [np.asarray(each)[None] for each in state or []]
        actions, states, extra = self.compute_actions(
            np.asarray(obs)[None], batches, explore=explore, timestep=timestep, **further
        )
        if clip_actions:
            actions = ActionScaler(self.action_space).clip(actions)
        first = _first(actions)
        return first, [each[0] for each in states], {name: value[0] for name, value in extra.items()}

    def compute_log_likelihoods(self, actions: Any, obs_batch: Any, **further: Any) -> Any:
        """Return the log-probabilities [N] of actions, counted from 0, for preprocessed observations [N, ...]."""
        logits, _ = self.model.from_batch({columns.OBS: np.asarray(obs_batch)})
        return self.dist_class(logits, self.model).logp(actions)

    def get_initial_state(self) -> list[Array]:
        """Return what the model remembers at first, arrays without an axis of rows."""
        return self.model.get_initial_state()

    def is_recurrent(self) -> bool:
        """Return whether the model remembers."""
        return bool(self._held.module.state())

    def num_state_tensors(self) -> int:
        """Return how many arrays it remembers."""
        return len(self._held.module.state())

    @property
    def exploration(self) -> PolicyExploration:
        """The exploration of its actions, to be used by hand: `get_exploration_action(distribution_inputs, ...)`."""
        if not hasattr(self, "_exploration"):
            self._exploration = PolicyExploration(self._inference.exploration, self._stream)
        return self._exploration

    def get_exploration_info(self) -> dict[str, Any]:
        """Return how far its exploration is by the steps of the run: `cur_epsilon` or `cur_scale`, where it has one."""
        self.exploration.last_timestep = max(self.exploration.last_timestep, self._timestep())
        return self.exploration.get_state()

    get_exploration_state = get_exploration_info

    # -- parameters and what they are of ------------------------------------------------------------------------------

    def get_weights(self) -> dict[str, Array]:
        """Return copies of all parameters by their names."""
        return as_dict(self._held)

    def set_weights(self, weights: Mapping[str, Any]) -> None:
        """Go on with what `get_weights` returned. Raises ModuleError if it is of another model."""
        replace_by_dict(self._held, weights)

    @property
    def model(self) -> PolicyModel:
        """The network, with the parameters that the policy has whenever it is called."""
        if not hasattr(self, "_model"):
            self._model = PolicyModel(self._held.module, self._held.evaluate)
        return self._model

    @property
    def dist_class(self) -> type[ActionDistribution]:
        """The class of its action distribution: `policy.dist_class(logits, policy.model)`."""
        if self._distribution is None:
            raise RLlibError("this policy has no distribution of actions: it gives the actions themselves")
        return distribution_class(self._distribution, self._stream)

    # -- learning -----------------------------------------------------------------------------------------------------

    def postprocess_trajectory(
        self, sample_batch: Batch, other_agent_batches: Any = None, episode: Any = None
    ) -> Batch:
        """Return the batch as it is: algorithms estimate what they learn from for whole fragments, before they do."""
        return sample_batch

    def learn_on_batch(self, samples: Mapping[str, Any]) -> dict[str, Any]:
        """Make a step of learning from a batch with the columns that the loss reads, and return what it reports.

        Raises:
            DataError: If a column is missing.
            RLlibError: If this is a runner's copy of the policy, which does not learn.
        """
        if self._learn is None:
            raise RLlibError(
                "this is a runner's copy of the policy, and copies do not learn: call learn_on_batch of "
                "algorithm.get_policy()"
            )
        batch = samples if isinstance(samples, Batch) else Batch(samples)
        with _missing_columns(batch), blas_threads(1):  # as in `train()`, with the same bits
            return {"learner_stats": self._learn(batch)}

    def get_state(self) -> dict[str, Any]:
        """Return the weights, and how many steps the run has made."""
        return {"weights": self.get_weights(), "global_timestep": self._timestep()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with the weights that `get_state` returned."""
        self.set_weights(state["weights"])

    # -- files --------------------------------------------------------------------------------------------------------

    def export_checkpoint(self, export_dir: str, filename_prefix: Any = "model") -> str:
        """Write the policy into a directory, as `Policy.from_checkpoint` reads it, and return that.

        Args:
            export_dir: The directory to write into.
            filename_prefix: Has no effect: files have the names that `Policy.from_checkpoint` looks for.

        Raises:
            CheckpointError: If it can't be written.
            RLlibError: If this is a runner's copy of the policy.
        """
        return self._written("export_checkpoint").write_checkpoint(str(export_dir))

    def export_model(self, export_dir: str, onnx: int | None = None) -> None:
        """Write files that numpy alone can play, and where torch learns `model.pt`; see `export_policy_model`."""
        self._written("export_model").write_model(str(export_dir), onnx)

    def import_model_from_h5(self, import_file: str) -> None:
        """Refuse: no model here reads files of Keras. Raises ConfigError always; it says what to use instead."""
        raise ConfigError(
            f"import_model_from_h5({import_file!r}) can't be done: no model here reads files of Keras. Read the file "
            "by h5py, and give the arrays to set_weights(), whose names get_weights() shows"
        )

    def _written(self, asked: str) -> WritesPolicy:
        if self._files is None:
            raise RLlibError(
                f"this is a runner's copy of the policy, and can't {asked}: call {asked} of algorithm.get_policy()"
            )
        return self._files

    def _extra(
        self, rows: Array, state: Mapping[str, Array], chosen: Array, outputs: Mapping[str, Any]
    ) -> dict[str, Array]:
        """Return the columns that are recorded beside actions, as far as this policy has them."""
        extra = {name: value for name, value in outputs.items() if name != columns.STATE_OUT}
        logits = outputs.get(columns.ACTION_DIST_INPUTS)
        if logits is not None and self._distribution is not None:
            extra[columns.ACTION_LOGP] = self.dist_class(logits).logp(chosen)
            extra[columns.ACTION_PROB] = np.exp(extra[columns.ACTION_LOGP])
        return extra

    def __repr__(self) -> str:
        return f"<policy of a {type(self._held.module).__name__} for {self.action_space}>"


def _first(actions: Any) -> Any:
    if isinstance(actions, dict):
        return {key: _first(value) for key, value in actions.items()}
    return tuple(map(_first, actions)) if isinstance(actions, tuple) else actions[0]


@contextmanager
def _missing_columns(batch: Batch) -> Iterator[None]:
    try:
        yield
    except KeyError as error:
        raise DataError(
            f"learn_on_batch was given a batch without the column {error.args[0]!r}, which the loss reads; it has "
            f"{sorted(batch)}. Add it, or let algorithm.train() do what comes before learning."
        ) from error
