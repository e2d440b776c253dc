"""`Policy`: what users derive from to act and to learn by code of their own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from gymnasium import Space

from kernel_rllib.errors import RLlibError
from kernel_rllib.training.keeping import checkpoint_directory
from kernel_rllib.training.saved_policies import policies_of

Actions = Any
"""As many actions of the space as there are observations: a list, an array, or a struct of arrays [N, ...]."""


class Policy:
    """Acts and learns by its own code. Define `compute_actions`, and what else is to differ.

    Attributes:
        observation_space: The observation space.
        action_space: The action space.
        config: The settings, which can be read as a dict.
        exploration: None: it explores by itself.
    """

    def __init__(self, observation_space: Space[Any], action_space: Space[Any], config: Any) -> None:
        """Take the spaces and the settings."""
        self.observation_space, self.action_space, self.config = observation_space, action_space, config
        self.exploration: Any = None
        self.global_timestep = 0

    @classmethod
    def from_checkpoint(cls, checkpoint: Any, policy_ids: Collection[str] | None = None, *, trust: bool = False) -> Any:
        """Return a policy out of a directory: it acts and learns without an algorithm and without environments.

        Args:
            checkpoint: The directory that `export_policy_checkpoint`, or `export_checkpoint` of a policy, was given, or
                that `save` of an algorithm returned; or an object that has such a path as `path`.
            policy_ids: The ids of the policies of an algorithm to return; None for all that learn.
            trust: Whether pickles are read, which can run any program: say True for what you wrote yourself.

        Returns:
            The policy; of the checkpoint of an algorithm a dict of policies by their ids.

        Raises:
            CheckpointError: If there is none, it is damaged, or needs trust.
            UnknownPolicyError: If there is none of such an id.
        """
        return policies_of(checkpoint_directory(checkpoint), policy_ids, trust=trust)

    def export_checkpoint(self, export_dir: str, filename_prefix: Any = "model") -> str:
        """Write the policy into a directory; by default it can't be."""
        raise self._missing("export_checkpoint")

    def export_model(self, export_dir: str, onnx: int | None = None) -> None:
        """Write a player of the policy into a directory; by default it can't be."""
        raise self._missing("export_model")

    def compute_actions(
        self,
        obs_batch: Any,
        state_batches: Sequence[Any] | None = None,
        prev_action_batch: Any = None,
        prev_reward_batch: Any = None,
        info_batch: Any = None,
        episodes: Any = None,
        explore: bool | None = None,
        **further: Any,
    ) -> tuple[Actions, list[Any], dict[str, Any]]:
        """Return actions, what is remembered, and further columns. A policy has to define it.

        Args:
            obs_batch: Preprocessed observations [N, ...].
            state_batches: The state, a column [N, ...] for each of `get_initial_state`.
            prev_action_batch, prev_reward_batch, info_batch, episodes: None.
            explore: Whether actions are drawn, as while training; None for what the settings say.
            further: `timestep`.
        """
        return self._actions_for(obs_batch, state_batches, explore)

    def _actions_for(
        self, obs_batch: Any, state_batches: Sequence[Any] | None, explore: bool | None
    ) -> tuple[Actions, list[Any], dict[str, Any]]:
        """Return what `compute_actions` does."""
        raise NotImplementedError(f"{type(self).__name__} has no compute_actions(): a policy has to define it")

    def compute_single_action(
        self, obs: Any, state: Sequence[Any] | None = None, *ignored: Any, **further: Any
    ) -> tuple[Any, list[Any], dict[str, Any]]:
        """Return the action for one observation, what is remembered after it, and further values."""
        for unused in ("clip_actions", "prev_action", "prev_reward", "info", "episode"):
            further.pop(unused, None)
        before = self.get_initial_state() if state is None else state
        actions, states, extra = self.compute_actions([obs], [[each] for each in before], **further)
        return actions[0], [each[0] for each in states], {name: value[0] for name, value in extra.items()}

    def postprocess_trajectory(self, sample_batch: Any, other_agent_batches: Any = None, episode: Any = None) -> Any:
        """Return what is learned from, for a piece of one episode; by default the piece itself."""
        return sample_batch

    def learn_on_batch(self, samples: Any) -> Mapping[str, Any]:
        """Learn, and return what is reported of it. By default nothing is learned."""
        return {}

    def compute_gradients(self, postprocessed_batch: Any) -> Any:
        """Return gradients and what is reported of them."""
        raise self._missing("compute_gradients")

    def apply_gradients(self, gradients: Any) -> Any:
        """Take a step along gradients."""
        raise self._missing("apply_gradients")

    def compute_log_likelihoods(self, actions: Any, obs_batch: Any, *further: Any, **named: Any) -> Any:
        """Return the log-probabilities of actions."""
        raise self._missing("compute_log_likelihoods")

    def get_weights(self) -> Any:
        """Return what it has learned; by default nothing."""
        return {}

    def set_weights(self, weights: Any) -> None:
        """Go on with what `get_weights` returned. By default there is nothing to set."""

    def get_initial_state(self) -> list[Any]:
        """Return what it remembers at the start of an episode: numbers or arrays."""
        return []

    def is_recurrent(self) -> bool:
        """Return whether it remembers anything."""
        return bool(self.get_initial_state())

    def num_state_tensors(self) -> int:
        """Return how many things it remembers."""
        return len(self.get_initial_state())

    def get_state(self) -> Any:
        """Return all that is kept in checkpoints: by default the weights."""
        return self.get_weights()

    def set_state(self, state: Any) -> None:
        """Go on with what `get_state` returned."""
        self.set_weights(state)

    def on_global_var_update(self, global_vars: Mapping[str, Any]) -> None:
        """Be told of numbers that all copies share: `timestep`."""
        self.global_timestep = int(global_vars["timestep"])

    def get_exploration_info(self) -> dict[str, Any]:
        """Return what is known of its exploration; by default nothing."""
        return {}

    def _missing(self, method: str) -> RLlibError:
        return RLlibError(f"{type(self).__name__} has no {method}(): define it, where it is asked for")
