"""Asynchronous advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.sections.training import TrainingArguments
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.value_types import Schedule

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class A3CConfig(AlgorithmConfig):
    """The settings of A3C."""

    algorithm = "A3C"

    defaults = values(
        lr=0.0001,
        grad_clip=40.0,
        num_env_runners=2,
        rollout_fragment_length=10,
        min_time_s_per_iteration=5,
        sample_async=True,
        use_exec_api=Default(False, older={"0.8.5": True}),
    )
    in_all_dicts = ("grad_clip",)
    more_in_0_8_5 = values(lr_schedule=None)

    use_critic = Field(True, "Whether advantages are measured against a value function.")
    use_gae = Field(True, "Whether they are generalised estimates (GAE), which need the value function.")
    lambda_ = Field(1.0, "How far these look ahead before the value function takes over.", range=(0, 1))
    vf_loss_coeff = Field(0.5, "The weight of the value function's loss.", range=(0, None))
    entropy_coeff = Field[float | Schedule](
        0.01, "The weight of the entropy that is added, or its schedule over env steps.", range=(0, None)
    )

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        use_critic: bool = NOT_PROVIDED,
        use_gae: bool = NOT_PROVIDED,
        lambda_: float = NOT_PROVIDED,
        vf_loss_coeff: float = NOT_PROVIDED,
        entropy_coeff: float | Schedule = NOT_PROVIDED,
        **common: Unpack[TrainingArguments],
    ) -> Self:
        """Set how A3C learns; return this config."""
        return self

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        if self.use_gae and not self.use_critic:
            yield "use_gae=True needs the value function that use_critic=False leaves out; set one of them otherwise"
        if self.sample_async and not self.num_env_runners and not self.in_evaluation and self.generation != "0.8.5":
            yield "sample_async=True needs runners, but num_env_runners=0; set that to 1, or sample_async to False"
