"""The settings that ES and ARS have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.fields import Field
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.settings import Origin

if TYPE_CHECKING:
    from typing_extensions import Self


class EvolutionConfig(AlgorithmConfig):
    """The settings that evolution algorithms share."""

    defaults = values(
        observation_filter="MeanStdFilter",
        evaluation_config=Default(
            values(num_envs_per_env_runner=1, observation_filter="NoFilter"), older={"0.8.5": values()}
        ),
    )

    noise_stdev = Field(0.02, "The deviation of what disturbs the parameters.", above=0)
    eval_prob = Field(0.03, "How often an episode is played undisturbed.", range=(0, 1))
    action_noise_std = Field(0.01, "The deviation of what disturbs actions.", range=(0, None))
    noise_size = Field(250_000_000, "Numbers in the shared table of noise.", range=(1, None))
    report_length = Field(
        10, "Over how many undisturbed episodes the return is a mean.", range=(1, None), unit="episodes"
    )
    tf_single_threaded = Field(
        True,
        "Whether TensorFlow uses one thread.",
        since="1.x",
        until="2.x",
        inert="runners compute in numpy, in one thread",
    )

    def problems(self) -> Iterator[str]:
        """Yield what contradicts itself."""
        yield from super().problems()
        if self.env_to_module_connector is not None:
            yield (
                f"env_to_module_connector={self.env_to_module_connector!r} has no effect on {self.algorithm}, whose "
                "policies see single observations; leave it out, or wrap the environment"
            )
        if not self.update_worker_filter_stats:
            yield f"update_worker_filter_stats=False has no effect on {self.algorithm}: all trials share one filter"

    def get_evaluation_config_object(self) -> Self | None:
        """Return the whole config of the runners that evaluate; None where this is one already.

        The filter belongs to the policy: it is that of training whatever `evaluation_config` says.
        """
        made = super().get_evaluation_config_object()
        if made is not None:
            made._change({"observation_filter": self.observation_filter}, Origin("evaluation"))
        return made
