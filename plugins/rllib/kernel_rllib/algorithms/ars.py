"""Augmented random search (Mania et al. 2018, arXiv:1803.07055)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.sections.training import TrainingArguments
from kernel_rllib.config.sentinels import NOT_PROVIDED

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

_NO_TENSORFLOW = "runners compute in numpy, in one thread"


class ARSConfig(AlgorithmConfig):
    """The settings of ARS."""

    algorithm = "ARS"

    defaults = values(
        num_env_runners=2,
        observation_filter="MeanStdFilter",
        evaluation_config=Default(
            values(num_envs_per_env_runner=1, observation_filter="NoFilter"), older={"0.8.5": values()}
        ),
    )

    noise_stdev = Field(0.02, "The deviation of what disturbs the parameters.", above=0)
    num_rollouts = Field(32, "How many directions are tried, each in both senses.", range=(1, None))
    rollouts_used = Field(32, "How many of the best of them make the update.", range=(1, None))
    sgd_stepsize = Field(0.01, "The step of an update.", above=0)
    eval_prob = Field(0.03, "How often an episode is played undisturbed.", range=(0, 1))
    action_noise_std = Field(0.0, "The deviation of what disturbs actions.", range=(0, None))
    noise_size = Field(250_000_000, "Numbers in the shared table of noise.", range=(1, None))
    report_length = Field(
        10, "Over how many undisturbed episodes the return is a mean.", range=(1, None), unit="episodes"
    )
    offset = Field[int | float](0, "What is taken off each reward, such as what surviving a step gives.")
    tf_single_threaded = Field(
        True, "Whether TensorFlow uses one thread.", since="1.x", until="2.x", inert=_NO_TENSORFLOW
    )

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        noise_stdev: float = NOT_PROVIDED,
        num_rollouts: int = NOT_PROVIDED,
        rollouts_used: int = NOT_PROVIDED,
        sgd_stepsize: float = NOT_PROVIDED,
        eval_prob: float = NOT_PROVIDED,
        action_noise_std: float = NOT_PROVIDED,
        noise_size: int = NOT_PROVIDED,
        report_length: int = NOT_PROVIDED,
        offset: int | float = NOT_PROVIDED,
        tf_single_threaded: bool = NOT_PROVIDED,
        **common: Unpack[TrainingArguments],
    ) -> Self:
        """Set how ARS learns; return this config."""
        return self

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        if self.rollouts_used > self.num_rollouts:
            yield (
                f"rollouts_used={self.rollouts_used} of num_rollouts={self.num_rollouts} can't be used; "
                "make the one smaller or the other larger"
            )
