"""APPO: PPO (Schulman et al., 2017, arXiv 1707.06347) whose runners never wait, as those of IMPALA (see `impala.py`).

The policy that acted is some updates older than the one that learns. V-trace accounts for how these two differ, once
for each batch; PPO's clipped surrogate bounds how far the passes over the batch take the policy from there. Without
V-trace, advantages are those of PPO, and the surrogate bounds the way from the policy that acted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernel_rllib.algorithms.advantages import estimate_advantages
from kernel_rllib.algorithms.impala import IMPALA, IMPALAConfig, Optimizer
from kernel_rllib.algorithms.on_policy import critic_problems
from kernel_rllib.algorithms.ppo import READ, adapted, ppo_loss
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.sections.training import TrainingArguments
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.value_types import Schedule
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.learners.learner import Metrics, Objective
from kernel_rllib.nn.schedules import schedule
from kernel_rllib.training.results import mean_metrics

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class APPOConfig(IMPALAConfig):
    """The settings of APPO."""

    algorithm = "APPO"

    defaults = values(vtrace=Default(True, older={"1.x": False}), replay_buffer_num_slots=100)

    use_critic = Field(True, "Whether advantages are measured against a value function.")
    use_gae = Field(True, "Whether they are generalised estimates (GAE), where vtrace is off.")
    lambda_ = Field(1.0, "How far these look ahead before the value function takes over.", range=(0, 1))
    clip_param = Field(0.4, "How far the ratio of new to old probabilities counts: from 1 - it to 1 + it.", above=0)
    use_kl_loss = Field(False, "Whether the distance to the policy before the update is a part of the loss.")
    kl_coeff = Field(1.0, "The first weight of that distance.", range=(0, None))
    kl_target = Field(0.01, "The distance that its weight is adapted to reach.", range=(0, None))

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        use_critic: bool = NOT_PROVIDED,
        use_gae: bool = NOT_PROVIDED,
        lambda_: float = NOT_PROVIDED,
        clip_param: float = NOT_PROVIDED,
        use_kl_loss: bool = NOT_PROVIDED,
        kl_coeff: float = NOT_PROVIDED,
        kl_target: float = NOT_PROVIDED,
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
        """Set how APPO learns; return this config."""
        return self

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        yield from critic_problems(self)
        if self.vtrace and not self.use_critic:
            yield "vtrace=True needs the value function that use_critic=False leaves out; set one of them otherwise"


class APPO(IMPALA):
    """Trains on fragments as they come, by passes over them with PPO's clipped surrogate."""

    config: APPOConfig
    config_class = APPOConfig
    read = READ

    def make_objectives(self) -> Mapping[str, Objective]:
        """Return the clipped surrogate, with half the squared error of values, as in IMPALA."""
        config = self.config
        self.kl_coefficient = config.kl_coeff
        entropy = schedule(config.entropy_coeff, "entropy_coeff")
        loss = ppo_loss(
            config,
            self.distribution,
            lambda: self.kl_coefficient,
            lambda: entropy.value(self.env_steps_sampled),
            value_weight=config.vf_loss_coeff / 2,
        )
        return {"appo": self.objective(loss)}

    def learn(self, fragments: Sequence[Fragment]) -> Metrics:
        """Estimate once what actions were worth, and make `num_epochs` passes."""
        batch = self.experience(self.replay.with_older(fragments))
        reports = [report for epoch in range(self.config.num_epochs) for report in self.one_pass(batch, epoch)]
        metrics = {**mean_metrics(reports), "cur_kl_coeff": self.kl_coefficient}
        self.kl_coefficient = adapted(self.kl_coefficient, metrics, self.config.kl_target)
        return {**metrics, **self.lags()}

    def estimate(self, fragment: Fragment) -> None:
        """Add the columns of what actions were worth, and of what values are drawn to."""
        config = self.config
        if config.vtrace:
            super().estimate(fragment)
            return
        estimate_advantages(
            self.learner,
            fragment,
            gamma=config.gamma,
            lambda_=config.lambda_,
            use_gae=config.use_gae,
            use_critic=config.use_critic,
        )

    def own_state(self) -> dict[str, Any]:
        """Return the coefficient of the penalty, beside what IMPALA keeps."""
        return {**super().own_state(), "kl_coefficient": self.kl_coefficient}

    def set_own_state(self, state: Mapping[str, Any]) -> None:
        """Go on with what `own_state` returned."""
        super().set_own_state(state)
        self.kl_coefficient = float(state["kl_coefficient"])
