"""Evolution strategies (Salimans et al. 2017, arXiv:1703.03864)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.sections.training import TrainingArguments
from kernel_rllib.config.sentinels import NOT_PROVIDED

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

_NO_TENSORFLOW = "runners compute in numpy, in one thread"


class ESConfig(AlgorithmConfig):
    """The settings of ES."""

    algorithm = "ES"

    defaults = values(
        train_batch_size=10_000,
        num_env_runners=10,
        observation_filter="MeanStdFilter",
        evaluation_config=Default(
            values(num_envs_per_env_runner=1, observation_filter="NoFilter"), older={"0.8.5": values()}
        ),
    )

    noise_stdev = Field(0.02, "The deviation of what disturbs the parameters.", above=0)
    stepsize = Field(0.01, "The step of Adam.", above=0)
    l2_coeff = Field(0.005, "The weight of the squared parameters.", range=(0, None))
    episodes_per_batch = Field(1000, "How many episodes an update sees at least.", range=(1, None), unit="episodes")
    eval_prob = Field(0.03, "How often an episode is played undisturbed.", older={"1.x": 0.003}, range=(0, 1))
    action_noise_std = Field(0.01, "The deviation of what disturbs actions.", range=(0, None))
    noise_size = Field(250_000_000, "Numbers in the shared table of noise.", range=(1, None))
    report_length = Field(
        10, "Over how many undisturbed episodes the return is a mean.", range=(1, None), unit="episodes"
    )
    return_proc_mode = Field[Literal["centered_rank", "sign", "centered_sign_rank"]](
        "centered_rank", "What becomes of returns before they are weights.", until="1.x"
    )
    tf_single_threaded = Field(
        True, "Whether TensorFlow uses one thread.", since="1.x", until="2.x", inert=_NO_TENSORFLOW
    )

    @fluent()
    def training(  # type: ignore[override]
        self,
        *,
        noise_stdev: float = NOT_PROVIDED,
        stepsize: float = NOT_PROVIDED,
        l2_coeff: float = NOT_PROVIDED,
        episodes_per_batch: int = NOT_PROVIDED,
        eval_prob: float = NOT_PROVIDED,
        action_noise_std: float = NOT_PROVIDED,
        noise_size: int = NOT_PROVIDED,
        report_length: int = NOT_PROVIDED,
        return_proc_mode: Literal["centered_rank", "sign", "centered_sign_rank"] = NOT_PROVIDED,
        tf_single_threaded: bool = NOT_PROVIDED,
        **common: Unpack[TrainingArguments],
    ) -> Self:
        """Set how ES learns; return this config."""
        return self
