"""Settings for failures of runners and environments: `config.fault_tolerance(recovery="exact")`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.sentinels import NOT_PROVIDED
from kernel_rllib.config.settings_dict import DictSettings

if TYPE_CHECKING:
    from typing_extensions import Self

Recovery = Literal["ignore", "recreate", "exact"]


def _recovery(config: Any) -> str | None:
    """Return the way of recovery that the two older switches amount to; None: a lost runner is an error."""
    if config.restart_failed_env_runners:
        return "recreate"
    return "ignore" if config.ignore_env_runner_failures else None


class FaultTolerance(DictSettings):
    """Settings for failures of runners and environments."""

    section = "fault_tolerance"

    recovery = Field[Recovery | None](
        None,
        "What becomes of a lost runner: the others go on (ignore), a new one takes its place (recreate), or a new one "
        "goes on where it was, so that results are as if nothing had happened (exact). None: as the next two say.",
        infer=_recovery,
        since="current",
    )
    restart_failed_env_runners = Field(
        True,
        "Whether a new runner takes the place of a lost one; the next switch then has no effect.",
        older={"2.x": False},
        since="1.x",
    )
    ignore_env_runner_failures = Field(False, "Whether the others go on without a lost runner.")
    max_num_env_runner_restarts = Field(1000, "How many new runners there may be in all.", range=(0, None), since="2.x")
    delay_between_env_runner_restarts_s = Field[int | float](
        60.0,
        "How long to wait between two new runners.",
        range=(0, None),
        unit="seconds",
        since="2.x",
        inert="one that died is replaced when its sample is missed",
    )
    restart_failed_sub_environments = Field(
        False, "Whether an environment that raises is made again, and the runner goes on.", since="2.x"
    )
    num_consecutive_env_runner_failures_tolerance = Field(
        100,
        "How many failures of runners in a row are borne; environments that were made again don't count.",
        range=(0, None),
        since="2.x",
    )
    env_runner_health_probe_timeout_s = Field[int | float](
        30.0,
        "How long one step of the environments may take in a runner whose sample is late; then it counts as lost.",
        older={"2.x": 60},
        range=(0, None),
        unit="seconds",
        since="2.x",
    )
    env_runner_restore_timeout_s = Field[int | float](
        1800.0,
        "How long a new runner has to be ready.",
        range=(0, None),
        unit="seconds",
        since="2.x",
    )

    @fluent()
    def fault_tolerance(
        self,
        *,
        recovery: Recovery | None = NOT_PROVIDED,
        restart_failed_env_runners: bool = NOT_PROVIDED,
        ignore_env_runner_failures: bool = NOT_PROVIDED,
        max_num_env_runner_restarts: int = NOT_PROVIDED,
        delay_between_env_runner_restarts_s: int | float = NOT_PROVIDED,
        restart_failed_sub_environments: bool = NOT_PROVIDED,
        num_consecutive_env_runner_failures_tolerance: int = NOT_PROVIDED,
        env_runner_health_probe_timeout_s: int | float = NOT_PROVIDED,
        env_runner_restore_timeout_s: int | float = NOT_PROVIDED,
    ) -> Self:
        """Set what happens when runners or environments fail; return this config."""
        return self
