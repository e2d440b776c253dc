"""Settings that algorithms share which learn from a replay buffer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.fields import Field
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.parts import Part
from kernel_rllib.config.replay_config import ReplayBufferConfig
from kernel_rllib.config.sections.training import TrainingArguments


def _n_step_problem(value: Any) -> str | None:
    steps = value if isinstance(value, tuple) else (value,)
    if min(steps) < 1:
        return "it is 1 step or more"
    return "the lower bound is above the upper one" if len(steps) == 2 and steps[0] > steps[1] else None


class OffPolicyConfig(AlgorithmConfig):
    """Settings of algorithms that learn from a buffer of past experience."""

    defaults = values(
        rollout_fragment_length="auto",
        num_env_runners=0,
        min_time_s_per_iteration=Default(None, older={"1.x": 1}),
        min_sample_timesteps_per_iteration=1000,
    )

    replay_buffer_config = Part(ReplayBufferConfig, "The buffer: its size, and how it is sampled.", since="2.x")
    num_steps_sampled_before_learning_starts = Field(
        1000, "Steps that are sampled before anything is learned.", range=(0, None), unit="env steps"
    )
    target_network_update_freq = Field(
        500, "After how many steps the target network follows.", range=(0, None), unit="env steps"
    )
    tau = Field(1.0, "How far it then follows: 1 all the way.", above=0, range=(None, 1))
    n_step = Field[int | tuple[int, int]](
        1,
        "Over how many steps rewards are added up; of a pair of bounds, one is drawn each time.",
        check=_n_step_problem,
    )
    training_intensity = Field[float | None](
        None, "Steps learned from for each step sampled; None: as batch and fragment say.", above=0, since="1.x"
    )
    store_buffer_in_checkpoints = Field(False, "Whether checkpoints have the buffer's content.", since="1.x")

    @property
    def n_step_most(self) -> int:
        """The greatest number of steps over which rewards are added up."""
        return self.n_step if isinstance(self.n_step, int) else self.n_step[1]

    def get_rollout_fragment_length(self, worker_index: int = 0) -> int:
        """Return how many steps each environment of a runner makes for one fragment: "auto" is `n_step`."""
        if self.rollout_fragment_length == "auto":
            return self.n_step_most
        fragment = int(self.rollout_fragment_length)
        return max(fragment, self.n_step_most) if self.generation == "0.8.5" else fragment

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        if self.in_evaluation or self.generation == "0.8.5":
            return
        fragment = self.rollout_fragment_length
        if isinstance(fragment, int) and fragment < self.n_step_most:
            yield (
                f"rollout_fragment_length={fragment} is shorter than n_step={self.n_step}; "
                f"set it to 'auto' or to {self.n_step_most}"
            )
        if self.exploration_config.get("type") == "ParameterNoise" and self.batch_mode != "complete_episodes":
            yield (
                "exploration_config type='ParameterNoise' changes parameters once an episode, but batch_mode="
                f"{self.batch_mode!r}; set batch_mode to 'complete_episodes'"
            )


class OffPolicyArguments(TrainingArguments, total=False):
    """The common arguments of `training()` of such algorithms, for type checkers and editors."""

    replay_buffer_config: dict[str, Any] | ReplayBufferConfig
    num_steps_sampled_before_learning_starts: int
    target_network_update_freq: int
    tau: float
    n_step: int | tuple[int, int]
    training_intensity: float | None
    store_buffer_in_checkpoints: bool
