"""Resources of the algorithm's own process: `config.resources(num_cpus_for_main_process=2)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.settings_dict import DictSettings

if TYPE_CHECKING:
    from typing_extensions import Self

PlacementStrategy = Literal["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"]


class Resources(DictSettings):
    """Settings of the resources of the algorithm's own process, and of the placement of its processes on nodes."""

    section = "resources"

    num_cpus_for_main_process = Field[int | float](
        1, "CPUs of the algorithm's process, where Tune runs it; elsewhere it is the program itself.", range=(0, None)
    )
    custom_resources_for_main_process = Field[dict[str, Any]](
        {}, "Other resources of the algorithm's process, by name.", since="current"
    )
    placement_strategy = Field[PlacementStrategy](
        "PACK",
        "Whether the processes are packed onto few machines or spread over many; STRICT: onto one, or each on another.",
        since="1.x",
    )
    _fake_gpus = Field(False, "Whether CPUs play the part of GPUs, to debug learning on several.", since="1.x")
    memory = Field(0, "Memory of the algorithm's process; 0: any.", range=(0, None), unit="bytes", until="0.8.5")
    object_store_memory = Field(
        0, "Memory for objects of the algorithm's process; 0: any.", range=(0, None), unit="bytes", until="0.8.5"
    )
    memory_per_worker = Field(0, "Memory of each runner; 0: any.", range=(0, None), unit="bytes", until="0.8.5")
    object_store_memory_per_worker = Field(
        0, "Memory for objects of each runner; 0: any.", range=(0, None), unit="bytes", until="0.8.5"
    )

    @fluent()
    def resources(
        self,
        *,
        num_cpus_for_main_process: int | float = NOT_PROVIDED,
        custom_resources_for_main_process: dict[str, Any] = NOT_PROVIDED,
        num_gpus: int | float = NOT_PROVIDED,
        placement_strategy: PlacementStrategy = NOT_PROVIDED,
        _fake_gpus: bool = NOT_PROVIDED,
        memory: int = NOT_PROVIDED,
        object_store_memory: int = NOT_PROVIDED,
        memory_per_worker: int = NOT_PROVIDED,
        object_store_memory_per_worker: int = NOT_PROVIDED,
        num_cpus_per_worker: int | float = NOT_PROVIDED,
        num_gpus_per_worker: int | float = NOT_PROVIDED,
        custom_resources_per_worker: dict[str, Any] = NOT_PROVIDED,
        num_cpus_for_local_worker: int | float = NOT_PROVIDED,
        num_learner_workers: int = NOT_PROVIDED,
        num_cpus_per_learner_worker: int | float | Literal["auto"] = NOT_PROVIDED,
        num_gpus_per_learner_worker: int | float = NOT_PROVIDED,
        local_gpu_idx: int = NOT_PROVIDED,
    ) -> Self:
        """Set what the algorithm's own process reserves, and by older names what the others do; return this config."""
        return self
