"""Decentralised distributed PPO (Wijmans et al., 2019, arXiv 1911.00357).

Each worker samples, and learns from what it has sampled: PPO's loss and passes, see `ppo.py`. The gradient of each
minibatch is the mean of all workers' (equation 1 of the paper), by an all-reduce between them: see `ddppo_worker.py`.
There is no learner in the middle: all workers make the same steps, and have the same bits after each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from kernel_rllib.algorithms.ddppo_worker import Learned, LearningWork, join, set_learner_state
from kernel_rllib.algorithms.on_policy import refuse_several_agents
from kernel_rllib.algorithms.ppo import PPO, PPOConfig
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.sections.training import TrainingArguments
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.value_types import Schedule
from kernel_rllib.errors import ConfigError, RunnersLostError
from kernel_rllib.learners.learner import Metrics
from kernel_rllib.runners.env_runner import Sample
from kernel_rllib.runners.group_settings import GroupSettings
from kernel_rllib.training.honoured import PIPELINED
from kernel_rllib.training.results import mean_metrics

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

Backend = Literal["gloo", "mpi", "nccl"]


class DDPPOConfig(PPOConfig):
    """The settings of DD-PPO. Batches and minibatches are those of one worker: all together learn from as many more."""

    algorithm = "DDPPO"

    defaults = values(
        num_envs_per_env_runner=5,
        rollout_fragment_length=Default("auto", older={"1.x": 100}),
        train_batch_size=Default(500, older={"1.x": -1}),
        minibatch_size=50,
        num_epochs=10,
        kl_coeff=Default(0.0, older={"0.8.5": 0.2}),
        kl_target=Default(0.0, older={"0.8.5": 0.01}),
        framework_str=Default("auto", older={"2.x": "torch"}),
        num_gpus_per_env_runner=Default(0, older={"2.x": 1}),
    )
    more_in_0_8_5 = values(truncate_episodes=True)

    keep_local_weights_in_sync = Field(
        True, "Whether the algorithm's own process gets the weights each time.", since="1.x"
    )
    torch_distributed_backend = Field[Backend]("gloo", "What averages gradients of torch.", since="1.x")

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        keep_local_weights_in_sync: bool = NOT_PROVIDED,
        torch_distributed_backend: Backend = NOT_PROVIDED,
        use_critic: bool = NOT_PROVIDED,
        use_gae: bool = NOT_PROVIDED,
        lambda_: float = NOT_PROVIDED,
        use_kl_loss: bool = NOT_PROVIDED,
        kl_coeff: float = NOT_PROVIDED,
        kl_target: float = NOT_PROVIDED,
        vf_loss_coeff: float = NOT_PROVIDED,
        vf_clip_param: float = NOT_PROVIDED,
        entropy_coeff: float | Schedule = NOT_PROVIDED,
        clip_param: float = NOT_PROVIDED,
        **common: Unpack[TrainingArguments],
    ) -> Self:
        """Set how DD-PPO learns; return this config."""
        return self

    @property
    def total_train_batch_size(self) -> int:
        """Env steps of one update in all workers together."""
        own = self.train_batch_size
        if own == -1:
            own = self.get_rollout_fragment_length() * len(self.lanes_of(1))
        return own * max(self.num_env_runners, 1)

    def get_rollout_fragment_length(self, worker_index: int = 0) -> int:
        """Return how many steps each environment of a worker makes for one fragment: "auto" makes up its batch."""
        if self.rollout_fragment_length == "auto":
            return max(self.train_batch_size // max(len(self.lanes_of(1)), 1), 1)
        return int(self.rollout_fragment_length)

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        if self.num_env_runners < 1 and not self.in_evaluation:
            yield "num_env_runners=0 leaves nobody to learn, as workers do it themselves; set it to 1 or more"
        if self.batch_mode != "truncate_episodes" and not self.in_evaluation:
            yield (
                f"batch_mode={self.batch_mode!r} makes batches of different sizes, whose gradients can't be averaged; "
                "set it to 'truncate_episodes'"
            )
        if self.num_gpus_per_learner:
            yield (
                f"num_gpus={self.num_gpus_per_learner} is for a learner, and there is none; "
                "set it to 0 and num_gpus_per_env_runner to what each worker needs"
            )
        if self.train_batch_size != -1 and self.is_set("train_batch_size") and self.generation == "0.8.5":
            yield (
                f"train_batch_size={self.train_batch_size} follows from the fragments here; "
                "set it to -1, and rollout_fragment_length"
            )
        if self.kl_coeff and self.generation != "0.8.5":
            yield f"kl_coeff={self.kl_coeff}: workers can't adapt it together; set it to 0"


class DDPPO(PPO):
    """PPO whose workers learn themselves, in step with one another."""

    config: DDPPOConfig
    config_class = DDPPOConfig
    intrinsic_rewards: ClassVar[frozenset[str]] = frozenset()
    learns_in_runners = True
    acts_on = PPO.acts_on - PIPELINED
    without: ClassVar[Mapping[str, str]] = {
        "input_": "its workers learn in step from as many steps each, which recorded batches don't have; take PPO"
    }

    def setup(self, config: dict[str, Any]) -> None:
        """Make the workers, and let them know one another.

        Raises:
            ConfigError: If a setting asks for what there is not.
        """
        _refuse_what_is_missing(self._settings)
        self._losses, self._groups, self._is_broken = 0, 0, False
        super().setup(config)
        self._connect()

    def group_settings(self) -> GroupSettings:
        """Return those of all algorithms, for runners that learn, and hear from one another meanwhile."""
        refuse_several_agents(self.config.title, self.has_several_agents)
        found = super().group_settings()
        options = {**(found.options or {}), "max_concurrency": 4}
        work = LearningWork(self.config, self.spaces, self.seed)
        return replace(found, work=work, options=options, recovery=None)

    def training_step(self) -> Metrics:
        """Let all workers sample and learn; take over what the first of them has learned.

        Where one is lost, all begin again: with new environments, and the parameters of before this step.

        Raises:
            RunnersLostError: If the settings don't allow for losses, or too many came one after another.
        """
        while True:
            if self._is_broken:
                self._start_again()
            self._is_broken = True  # Until each worker has answered: one that has not may be waiting for another.
            try:
                with self.timed("learn"):
                    samples = self.runners.sample(self.config.get_rollout_fragment_length)
            except RunnersLostError:
                self._losses += 1
                most = self.config.num_consecutive_env_runner_failures_tolerance
                if self.config.recovery is None or self._losses > most:
                    self.runners.close()  # The other workers may be waiting for that one.
                    raise
                continue
            self._is_broken, self._losses = False, 0
            return self._take(samples)

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `get_state` returned."""
        super().set_state(state)
        self._hand_over()

    def _take(self, samples: Sequence[Sample]) -> Metrics:
        """Count what workers sampled and learned, and take over the parameters, which all of them have."""
        self.take_in(samples)
        learned: list[Learned] = [sample.made for sample in samples]
        self.env_steps_trained += sum(one.count for one in learned)
        self.learner.set_state(learned[0].state)
        return mean_metrics([one.metrics for one in learned])

    def _start_again(self) -> None:
        """Make all workers anew."""
        self._groups += 1
        self.runners.close()
        before = self.env_steps_sampled // self.config.total_envs
        settings = replace(self.group_settings(), incarnation=self._groups, steps_before=before)
        statistics = self.runners.statistics
        self.runners = self.make_runners(settings)
        self.runners.set_statistics(statistics)
        self.broadcast()
        self._connect()

    def _connect(self) -> None:
        """Let workers know one another, and begin with the same parameters."""
        handles = [handle for _, handle in self.runners.actors()]
        self.runners.foreach(join, handles)
        self._hand_over()

    def _hand_over(self) -> None:
        """Let all workers have the parameters and moments of now."""
        self.runners.foreach(set_learner_state, self.learner.state())


def _refuse_what_is_missing(config: Any) -> None:
    """Raise ConfigError for settings that would have no effect."""
    backend, recovery, problem = config.torch_distributed_backend, config.recovery, ""
    if backend != "gloo":
        problem = (
            f"torch_distributed_backend={backend!r}, but gradients are averaged in main memory; leave it at 'gloo'"
        )
    elif not config.keep_local_weights_in_sync:
        problem = (
            "keep_local_weights_in_sync=False, but evaluations, checkpoints and actions need the parameters of now; "
            "leave it at True"
        )
    elif recovery not in (None, "recreate"):
        problem = (
            f"recovery={recovery!r}, but workers learn in step: where one is lost, all begin again with the parameters "
            "of before; set recovery to 'recreate', or restart_failed_env_runners to False"
        )
    if problem:
        raise ConfigError(f"{config.title}: {problem}")
