"""The base of algorithms that learn values from replay: the loop over samples, a buffer, and a target network."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from kernel_rllib.algorithms.off_policy import Pace, replay_of
from kernel_rllib.arrays import Array
from kernel_rllib.config.off_policy import OffPolicyConfig
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.errors import ConfigError
from kernel_rllib.learners.learner import Loss, Metrics
from kernel_rllib.learners.targets import TargetParameters
from kernel_rllib.replay.replay import Replay, UniformReplay
from kernel_rllib.replay.shard import Experience
from kernel_rllib.replay.transitions import Transitions
from kernel_rllib.training.algorithm import Algorithm
from kernel_rllib.training.results import mean_metrics

TD_ERRORS = "td_errors"
"""The metric of a loss that is an array: the error of each row, of which priorities are made."""


class ReplayingAlgorithm(Algorithm):
    """Keeps what it samples, and learns from minibatches of it, towards targets that a slower copy gives."""

    config: OffPolicyConfig
    train_rounds = True
    followed: ClassVar[tuple[str, ...]] = ("*",)
    """The names of the parameters, or what they begin with, that the slower copy follows."""
    keeps_samples = True
    """Whether the algorithm keeps its samples. It does not where it only computes the errors of transitions."""

    @abstractmethod
    def make_loss(self) -> Loss:
        """Return the loss of values against `value_targets`, among whose metrics are `TD_ERRORS`."""

    @abstractmethod
    def targets_of(self, batch: Batch) -> Array:
        """Return what the values of the steps of a minibatch are drawn to."""

    def prepare(self, batch: Batch) -> None:
        """Add to a minibatch what the loss of values reads beside it: their targets."""
        batch[columns.VALUE_TARGETS] = self.targets_of(batch)

    @abstractmethod
    def learn_once(self) -> Metrics:
        """Learn from one minibatch."""

    def setup_learning(self) -> None:
        """Make replay and the slower copy. Raises ConfigError if agents are to be replayed together."""
        mode = self.config.replay_buffer_config.replay_mode
        if mode != "independent":
            raise ConfigError(
                f"{self.config.title}: replay_mode is {mode!r}, and each policy has a buffer of its own, from which it "
                "draws alone: leave it at 'independent', or let agents that "
                "learn together act as one by env.with_agent_groups(...)"
            )
        self.replay = self.make_replay() if self.keeps_samples else UniformReplay(1)
        self.transitions = Transitions(n=self.config.n_step, gamma=self.config.gamma, stream=self.stream("n_step"))
        (followed,) = self.learner.module.table.mask(self.followed)
        self.target = TargetParameters(self.learner.vector, self.learner.backend, followed)
        self.pace = Pace(self.learning_intensity())
        self.draws = self.stream("replay")
        self.steps_at_last_target = 0
        self.last_metrics: Metrics = {}

    def make_replay(self) -> Replay:
        """Return the buffer that is learned from."""
        return replay_of(self.config.replay_buffer_config)

    def learning_intensity(self) -> float:
        """Return how many steps are learned from for each one sampled: as the settings say, or a batch a round."""
        if self.config.training_intensity is not None:
            return float(self.config.training_intensity)
        return self.config.train_batch_size / (self.config.get_rollout_fragment_length() * self.config.total_envs)

    def learn(self, fragments: Sequence[Fragment]) -> Metrics:
        """Keep what was sampled, and learn from what was kept as often as the settings say.

        Returns:
            What the last updates report; nothing before the first one.
        """
        for fragment in fragments:
            self.keep(self.transitions.of(fragment))
        if self.env_steps_sampled < self.config.num_steps_sampled_before_learning_starts:
            return {}
        due = self.pace.updates(self.progress.env_steps_new, self.config.train_batch_size)
        if due:
            self.last_metrics = mean_metrics([self.learn_once() for _ in range(due)])
        return self.last_metrics

    def keep(self, batch: Batch) -> None:
        """Add transitions to the buffer; with the errors of now as priorities, where the settings say so."""
        if batch.count and self.config.replay_buffer_config.worker_side_prioritization:
            self.replay.add(batch, self.errors_of(batch))
        elif batch.count:
            self.replay.add(batch)

    def draw(self) -> Batch:
        """Return a minibatch of what was kept."""
        return self.replay.sample(self.config.train_batch_size, self.draws, self.env_steps_sampled)

    def errors_of(self, batch: Batch) -> Array:
        """Return the errors [N] of transitions by the networks of now."""
        weighed = Batch(batch, **{columns.WEIGHTS: np.ones(batch.count, np.float32)})
        self.prepare(weighed)
        loss, module = self.make_loss(), self.learner.module
        errors: Array = self.learner.evaluate(lambda nn, p: loss(nn, module, p, weighed)[1][TD_ERRORS])
        return errors

    def experience_of(self, fragment: Fragment, vector: Array | None = None) -> Experience:
        """Return transitions of a fragment, and their errors where `worker_side_prioritization` asks for them.

        Args:
            fragment: The sampled steps.
            vector: The parameters that acted [size], which this and its slower copy have from then on; None for those
                that they have.
        """
        rows, errors = self.transitions.of_whole(fragment), None
        if rows.count and self.config.replay_buffer_config.worker_side_prioritization:
            if vector is not None:
                self.learner.vector[...] = self.learner.backend.vector(vector)
                self.target.follow(self.learner.vector)
            errors = self.errors_of(rows)
        return Experience(rows, errors, fragment.weights_version)

    def follow(self) -> None:
        """Let the slower copy follow, if it is time."""
        if self.env_steps_sampled - self.steps_at_last_target >= self.config.target_network_update_freq:
            self.steps_at_last_target = self.env_steps_sampled
            self.target.follow(self.learner.vector, self.config.tau)

    def own_state(self) -> dict[str, Any]:
        """Return the slower copy and how far things are; the buffer too, where settings say so."""
        state = {
            "target": self.learner.backend.to_numpy(self.target.vector).copy(),
            "steps_at_last_target": self.steps_at_last_target,
            "owed": self.pace.owed,
            "draws": self.draws.bit_generator.state,
            "transitions": self.transitions.state(),
        }
        if self.config.store_buffer_in_checkpoints:
            state["replay"] = dict(self.replay.state())
        return state

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `own_state` returned."""
        self.target.vector[...] = self.learner.backend.vector(state["target"])
        self.steps_at_last_target = int(state["steps_at_last_target"])
        self.pace.owed = float(state["owed"])
        self.draws.bit_generator.state = state["draws"]
        self.transitions.set_state(state["transitions"])
        if "replay" in state:
            self.replay.set_state(state["replay"])
