"""Synchronous advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783), with micro-batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kernel_rllib.algorithms.a3c import A3CConfig
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.sections.training import TrainingArguments
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.validate import fragment_problem
from kernel_rllib.config.value_types import Schedule

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class A2CConfig(A3CConfig):
    """The settings of A2C."""

    algorithm = "A2C"

    defaults = values(
        rollout_fragment_length=Default("auto", older={"1.x": 20}),
        min_time_s_per_iteration=10,
        sample_async=False,
    )

    microbatch_size = Field[int | None](
        None,
        "Env steps of one part of a batch, whose gradients are added up before the update; None: all at once.",
        range=(1, None),
        unit="env steps",
    )

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        microbatch_size: int | None = NOT_PROVIDED,
        use_critic: bool = NOT_PROVIDED,
        use_gae: bool = NOT_PROVIDED,
        lambda_: float = NOT_PROVIDED,
        vf_loss_coeff: float = NOT_PROVIDED,
        entropy_coeff: float | Schedule = NOT_PROVIDED,
        **common: Unpack[TrainingArguments],
    ) -> Self:
        """Set how A2C learns; return this config."""
        return self

    def get_rollout_fragment_length(self, worker_index: int = 0) -> int:
        """Return how many steps each environment of a runner makes for one fragment: "auto" is the micro-batch."""
        if self.rollout_fragment_length == "auto" and self.microbatch_size is not None:
            return self.microbatch_size
        return super().get_rollout_fragment_length(worker_index)

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        yield from filter(None, [fragment_problem(self)])
        if self.microbatch_size is not None and self.microbatch_size > self.total_train_batch_size:
            yield (
                f"microbatch_size={self.microbatch_size} is more than train_batch_size={self.total_train_batch_size}; "
                "make it smaller, or None"
            )
        if self.microbatch_size is not None and max(self.num_learners, self.num_gpus_per_learner) > 1:
            yield f"microbatch_size={self.microbatch_size} is for one learner; set num_learners to 0 and num_gpus to 1"
