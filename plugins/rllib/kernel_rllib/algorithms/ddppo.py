"""Decentralised PPO (Wijmans et al. 2019, arXiv:1911.00357): each worker samples and learns, gradients are averaged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.generations import Default, values
from kernel_rllib.config.sections.training import TrainingArguments
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.value_types import Schedule

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
            own = self.get_rollout_fragment_length() * self.num_envs_per_env_runner
        return own * max(self.num_env_runners, 1)

    def get_rollout_fragment_length(self, worker_index: int = 0) -> int:
        """Return how many steps each environment of a worker makes for one fragment: "auto" makes up its batch."""
        if self.rollout_fragment_length == "auto":
            return max(self.train_batch_size // self.num_envs_per_env_runner, 1)
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
