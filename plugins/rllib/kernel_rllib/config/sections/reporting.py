"""Iterations and their metrics: `config.reporting(min_sample_timesteps_per_iteration=1000)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.settings_dict import DictSettings

if TYPE_CHECKING:
    from typing_extensions import Self


class Reporting(DictSettings):
    """Settings of the length of an iteration, and of the episodes in its metrics. Neither changes what is learned."""

    section = "reporting"

    keep_per_episode_custom_metrics = Field(False, "Whether custom metrics are kept episode by episode.", since="1.x")
    metrics_episode_collection_timeout_s = Field[int | float](
        60.0,
        "How long runners' episodes are waited for; late ones count in the next iteration.",
        older={"1.x": 180},
        range=(0, None),
        unit="seconds",
        inert="episodes come with samples",
    )
    metrics_num_episodes_for_smoothing = Field(
        100,
        "Over how many of the last episodes means are taken, and over all new ones if these are more.",
        range=(1, None),
    )
    min_time_s_per_iteration = Field[int | float | None](
        None,
        "How long an iteration lasts at least; 0 or None: no minimum.",
        older={"0.8.5": 0},
        range=(0, None),
        unit="seconds",
    )
    min_train_timesteps_per_iteration = Field[int | None](
        0,
        "How many steps are trained on in an iteration at least.",
        older={"1.x": None},
        range=(0, None),
        unit="env steps",
        since="1.x",
    )
    min_sample_timesteps_per_iteration = Field[int | None](
        0,
        "How many steps are sampled in an iteration at least.",
        older={"1.x": None, "0.8.5": 0},
        range=(0, None),
        unit="env steps",
    )
    log_gradients = Field(False, "Whether norms of gradients are metrics.", since="current", inert="they always are")
    custom_stats_cls_lookup = Field[dict[str, Any] | None](
        None, "Classes of one's own that reduce metrics, by name.", since="current"
    )

    @fluent()
    def reporting(
        self,
        *,
        keep_per_episode_custom_metrics: bool = NOT_PROVIDED,
        metrics_episode_collection_timeout_s: int | float = NOT_PROVIDED,
        metrics_num_episodes_for_smoothing: int = NOT_PROVIDED,
        min_time_s_per_iteration: int | float | None = NOT_PROVIDED,
        min_train_timesteps_per_iteration: int | None = NOT_PROVIDED,
        min_sample_timesteps_per_iteration: int | None = NOT_PROVIDED,
        log_gradients: bool = NOT_PROVIDED,
        custom_stats_cls_lookup: dict[str, Any] | None = NOT_PROVIDED,
    ) -> Self:
        """Set how long an iteration is, and what its metrics are; return this config."""
        return self
