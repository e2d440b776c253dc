"""Learners: `config.learners(num_learners=2, num_gpus_per_learner=1)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.settings_dict import DictSettings

if TYPE_CHECKING:
    from typing_extensions import Self


class Learners(DictSettings):
    """Settings of the processes and devices that compute updates."""

    section = "learners"

    num_learners = Field(0, "How many processes learn; with 0 the algorithm's own.", range=(0, None), since="2.x")
    num_cpus_per_learner = Field[int | float | Literal["auto"]](
        "auto",
        "CPUs of each learner; 'auto': one, or none beside a GPU.",
        older={"2.x": 1},
        range=(0, None),
        since="2.x",
    )
    num_gpus_per_learner = Field[int | float](0, "GPUs of each learner; may be a fraction.", range=(0, None))
    custom_resources_per_learner = Field[dict[str, Any]](
        {}, "Other resources of each learner, by name.", since="current"
    )
    num_aggregator_actors_per_learner = Field(
        0, "How many actors prepare batches for each learner.", range=(0, None), since="current"
    )
    max_requests_in_flight_per_aggregator_actor = Field(
        3, "How many requests for batches wait at such an actor.", range=(1, None), since="current"
    )
    max_requests_in_flight_per_learner = Field(
        3, "How many updates wait at a learner.", range=(1, None), since="current"
    )
    local_gpu_idx = Field(0, "Which GPU the algorithm's own process learns on.", range=(0, None), since="2.x")
    learner_class = Field[type | None](None, "The class of learners; None for that of the algorithm.", since="2.x")
    learner_connector = Field[Callable[..., Any] | None](
        None, "Makes connectors from samples to train batches.", since="current"
    )
    add_default_connectors_to_learner_pipeline = Field(
        True, "Whether the usual connectors follow one's own.", since="current"
    )
    learner_config_dict = Field[dict[str, Any]]({}, "What a custom learner reads.", merge=True, since="current")

    @fluent()
    def learners(
        self,
        *,
        num_learners: int = NOT_PROVIDED,
        num_cpus_per_learner: int | float | Literal["auto"] = NOT_PROVIDED,
        num_gpus_per_learner: int | float = NOT_PROVIDED,
        custom_resources_per_learner: dict[str, Any] = NOT_PROVIDED,
        num_aggregator_actors_per_learner: int = NOT_PROVIDED,
        max_requests_in_flight_per_aggregator_actor: int = NOT_PROVIDED,
        local_gpu_idx: int = NOT_PROVIDED,
        max_requests_in_flight_per_learner: int = NOT_PROVIDED,
        learner_class: type | None = NOT_PROVIDED,
        learner_connector: Callable[..., Any] | None = NOT_PROVIDED,
        add_default_connectors_to_learner_pipeline: bool = NOT_PROVIDED,
        learner_config_dict: dict[str, Any] = NOT_PROVIDED,
    ) -> Self:
        """Set where updates are computed, and by what; return this config."""
        return self
