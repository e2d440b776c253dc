"""IMPALA: importance weighted actor-learners (Espeholt et al., 2018, arXiv 1802.01561).

Runners sample without a pause, each with the parameters that it was last given; the learner takes fragments as they
come. So the policy that learns is some updates ahead of those that acted. V-trace (section 4.1) corrects for that: see
`returns/vtrace.py`. In which order fragments come is for the machine to say: with several runners, two runs with the
same seed end differently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from kernel_rllib.algorithms.a3c import READ, actor_critic_loss
from kernel_rllib.algorithms.advantages import estimate_advantages, estimate_by_v_trace
from kernel_rllib.algorithms.on_policy import actor_critic, experience
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import values
from kernel_rllib.config.name_table import Name
from kernel_rllib.config.sections.training import TrainingArguments
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.value_types import Schedule
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.data.sequences import Sequences
from kernel_rllib.distributions.distribution import Distribution
from kernel_rllib.learners.learner import Loss, Metrics, Objective
from kernel_rllib.modules.module import Module
from kernel_rllib.nn.schedules import schedule
from kernel_rllib.replay.fragments import FragmentReplay
from kernel_rllib.training.algorithm import Algorithm
from kernel_rllib.training.exploring_for_reward import REWARDS
from kernel_rllib.training.honoured import ACTOR_CRITIC
from kernel_rllib.training.results import mean_metrics

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

Optimizer = Literal["adam", "rmsprop"]

_NO_QUEUE = "the learner takes fragments from the store as runners bring them"


class IMPALAConfig(AlgorithmConfig):
    """The settings of IMPALA."""

    algorithm = "IMPALA"

    defaults = values(
        lr=0.0005,
        grad_clip=40.0,
        num_env_runners=2,
        rollout_fragment_length=50,
        train_batch_size=500,
        max_requests_in_flight_per_env_runner=2,
        min_time_s_per_iteration=10,
    )
    in_all_dicts = ("grad_clip", "num_epochs", "max_requests_in_flight_per_env_runner")
    more_in_0_8_5 = values(lr_schedule=None, entropy_coeff_schedule=None, _fake_sampler=False)
    rows = (Name("max_requests_in_flight_per_env_runner", "max_sample_requests_in_flight_per_worker"),)

    vtrace = Field(True, "Whether V-trace corrects for older policies; otherwise returns are taken as they are.")
    vtrace_clip_rho_threshold = Field(1.0, "The largest importance ratio in the targets of values.", above=0)
    vtrace_clip_pg_rho_threshold = Field(1.0, "The largest importance ratio in advantages.", above=0)
    replay_proportion = Field(0.0, "How many kept fragments are learned from again for each new one.", range=(0, None))
    replay_buffer_num_slots = Field(0, "How many fragments are kept for that.", range=(0, None))
    broadcast_interval = Field(1, "After how many updates runners are given the parameters.", range=(1, None))
    opt_type = Field[Optimizer]("adam", "What makes the steps.")
    decay = Field(0.99, "How slowly rmsprop's mean of squares changes.", range=(0, 1))
    momentum = Field(0.0, "How much of rmsprop's last step goes on.", range=(0, 1))
    epsilon = Field(0.1, "What rmsprop adds to the root of that mean.", above=0)
    vf_loss_coeff = Field(0.5, "The weight of the value function's loss.", range=(0, None))
    entropy_coeff = Field[float | Schedule](
        0.01, "The weight of the entropy that is added, or its schedule over env steps.", range=(0, None)
    )
    learner_queue_size = Field(16, "How many batches wait for the learner.", range=(1, None), inert=_NO_QUEUE)
    learner_queue_timeout = Field(300, "Seconds that it waits for one.", range=(0, None), inert=_NO_QUEUE)
    num_data_loader_buffers = Field(1, "Batches that GPUs load at a time.", until="0.8.5", inert=_NO_QUEUE)
    minibatch_buffer_size = Field(
        1, "Batches among which passes take turns.", range=(1, None), inert="all passes over a batch follow one another"
    )
    num_aggregation_workers = Field(
        0, "Processes that join fragments.", range=(0, None), inert="fragments are read where runners wrote them"
    )

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        vtrace: bool = NOT_PROVIDED,
        vtrace_clip_rho_threshold: float = NOT_PROVIDED,
        vtrace_clip_pg_rho_threshold: float = NOT_PROVIDED,
        replay_proportion: float = NOT_PROVIDED,
        replay_buffer_num_slots: int = NOT_PROVIDED,
        broadcast_interval: int = NOT_PROVIDED,
        opt_type: Optimizer = NOT_PROVIDED,
        decay: float = NOT_PROVIDED,
        momentum: float = NOT_PROVIDED,
        epsilon: float = NOT_PROVIDED,
        vf_loss_coeff: float = NOT_PROVIDED,
        entropy_coeff: float | Schedule = NOT_PROVIDED,
        learner_queue_size: int = NOT_PROVIDED,
        learner_queue_timeout: int = NOT_PROVIDED,
        num_data_loader_buffers: int = NOT_PROVIDED,
        minibatch_buffer_size: int = NOT_PROVIDED,
        num_aggregation_workers: int = NOT_PROVIDED,
        **common: Unpack[TrainingArguments],
    ) -> Self:
        """Set how IMPALA learns; return this config."""
        return self

    @property
    def use_critic(self) -> bool:
        """Whether advantages are measured against a value function: always."""
        return True


class IMPALA(Algorithm):
    """Trains on fragments as they come, and corrects for the older policies that made them."""

    config: IMPALAConfig
    config_class = IMPALAConfig
    intrinsic_rewards = frozenset({REWARDS})
    acts_on = ACTOR_CRITIC | {"max_requests_in_flight_per_env_runner"}
    learns_from = (columns.ACTION_LOGP, columns.ACTION_DIST_INPUTS)
    read: ClassVar[tuple[str, ...]] = READ
    """The columns that the loss reads."""
    _updates_kept = 0
    """The number of updates since the runners last got parameters."""

    # -- building -----------------------------------------------------------------------------------------------------

    def make_module(self, observation: tuple[int, ...], distribution: Distribution) -> Module:
        """Return a policy and a value."""
        return actor_critic(self.config, observation, distribution)

    def make_objectives(self) -> Mapping[str, Objective]:
        """Return the loss of advantage actor-critics, which is that of section 4.2."""
        entropy = schedule(self.config.entropy_coeff, "entropy_coeff")
        loss = actor_critic_loss(self.config, self.distribution, lambda: entropy.value(self.env_steps_sampled))
        return {"impala": self.objective(loss)}

    def objective(self, loss: Loss, trainable: tuple[str, ...] | None = None, *, lr: str = "lr") -> Objective:
        """Return an objective with the optimizer that `opt_type` names."""
        found, config = super().objective(loss, trainable, lr=lr), self.config
        if config.opt_type == "adam":
            return found
        settings = {"alpha": config.decay, "momentum": config.momentum, "epsilon": config.epsilon}
        return replace(found, optimizer="rmsprop", optimizer_settings={**settings, **found.optimizer_settings})

    def setup_learning(self) -> None:
        """Make the replay of fragments, which are learned from again."""
        config = self.config
        slots, proportion = config.replay_buffer_num_slots, config.replay_proportion
        self.replay = FragmentReplay(slots, proportion, self.stream("replay"))

    # -- an iteration -------------------------------------------------------------------------------------------------

    def sample_for_training(self) -> dict[str, list[Fragment]]:
        """Return fragments by module, as runners bring them, until there are enough steps for an update.

        Each runner has its next requests before the learner goes on, so none ever waits for it.
        """
        found: dict[str, list[Fragment]] = {}
        self.progress.policy_lags = lags = []
        before, least = self.env_steps_sampled, self.config.total_train_batch_size
        while not found or self.env_steps_sampled - before < least:
            with self.timed("sample"):
                requests = self.config.max_requests_in_flight_per_env_runner
                self.runners.keep_asked(self.config.get_rollout_fragment_length, requests)
                sample = self.runners.collect_first()
            self.take_in([sample])
            for module_id, fragment in sample.fragments.items():
                found.setdefault(module_id, []).append(fragment)
                lags.append(self.learners.version - fragment.weights_version)
        self.progress.env_steps_new = self.env_steps_sampled - before
        return found

    def learn(self, fragments: Sequence[Fragment]) -> Metrics:
        """Make `num_epochs` passes; before each of them, what actions were worth is estimated anew."""
        found = self.replay.with_older(fragments)
        reports = []
        for epoch in range(self.config.num_epochs):
            reports += self.one_pass(self.experience(found), epoch)
        return {**mean_metrics(reports), **self.lags()}

    def one_pass(self, batch: Batch | Sequences, epoch: int) -> list[Metrics]:
        """Make a step for each minibatch of a batch, and return what they report."""
        config, stream = self.config, self.stream("minibatches", self.iteration, self.learner.version, epoch)
        size, shuffle = config.minibatch_size or batch.count, config.shuffle_batch_per_epoch
        return [self.update(part) for part in batch.minibatches(size, stream, epochs=1, shuffle=shuffle)]

    def experience(self, fragments: Sequence[Fragment]) -> Batch | Sequences:
        """Return what is learned from: steps with advantages, in sequences where the module remembers."""
        estimated = [replace(fragment, columns=dict(fragment.columns)) for fragment in fragments]
        for fragment in estimated:
            self.estimate(fragment)
        return experience(self.learner.module, estimated, self.read, self.config.model.max_seq_len)

    def estimate(self, fragment: Fragment) -> None:
        """Add the columns of what actions were worth, and of what values are drawn to."""
        config = self.config
        if not config.vtrace:
            estimate_advantages(self.learner, fragment, gamma=config.gamma)
            return
        estimate_by_v_trace(
            self.learner,
            fragment,
            self.distribution,
            gamma=config.gamma,
            rho_bar=config.vtrace_clip_rho_threshold,
            policy_rho_bar=config.vtrace_clip_pg_rho_threshold,
        )

    def lags(self) -> Metrics:
        """Return how many updates the policies that acted were behind those that learn: mean, least and most."""
        found = self.progress.policy_lags or [0]
        return {"policy_lag": sum(found) / len(found), "policy_lag_min": min(found), "policy_lag_max": max(found)}

    def hand_over_update(self) -> None:
        """Let runners act with what was learned, once in `broadcast_interval` updates."""
        self._updates_kept += 1
        if self._updates_kept >= self.config.broadcast_interval:
            self._updates_kept = 0
            self.broadcast()

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def own_state(self) -> dict[str, Any]:
        """Return the fragments that are kept, and where draws of them are."""
        return {"replay": self.replay.state()}

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `own_state` returned; runners begin with the parameters of now."""
        self.replay.set_state(state["replay"])
        self._updates_kept = 0
