"""Finding faults: `config.debugging(seed=42, log_level="DEBUG")`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from kernel_rllib.config.fields import Field
from kernel_rllib.config.fluent import fluent
from kernel_rllib.config.sentinels import NOT_PROVIDED, is_deprecated_value
from kernel_rllib.config.settings_dict import DictSettings

if TYPE_CHECKING:
    from typing_extensions import Self

LogLevel = Literal["DEBUG", "INFO", "WARN", "ERROR"]


def _level(value: Any) -> Any:
    word = value.upper() if isinstance(value, str) else value
    return {"WARNING": "WARN"}.get(word, word)


class Debugging(DictSettings):
    """Settings of the log, and of the seeds by which runs repeat."""

    section = "debugging"

    log_level = Field[LogLevel]("WARN", "From which level on this library logs, here and in runners.", convert=_level)
    log_sys_usage = Field(True, "Whether CPU, memory and GPU use are metrics.")
    seed = Field[int | None](
        None, "What all randomness follows from: the same seed gives the same results; None: another each time.",
        range=(0, None),
    )  # fmt: skip
    fake_sampler = Field(
        False, "Whether the first batch is returned again and again, to measure learning.", since="1.x"
    )
    logger_creator = Field[Callable[..., Any] | None](
        None, "Called with the config, returns a logger.", since="2.x", until="2.x"
    )
    logger_config = Field[dict[str, Any] | None](None, "What the logger reads.", since="1.x", until="2.x")
    worker_cls = Field[type | None](
        None,
        "A class of rollout workers, for tests.",
        convert=lambda value: None if is_deprecated_value(value) else value,
        since="2.x",
        until="2.x",
    )

    @fluent()
    def debugging(
        self,
        *,
        log_level: LogLevel = NOT_PROVIDED,
        log_sys_usage: bool = NOT_PROVIDED,
        fake_sampler: bool = NOT_PROVIDED,
        seed: int | None = NOT_PROVIDED,
        logger_creator: Callable[..., Any] | None = NOT_PROVIDED,
        logger_config: dict[str, Any] | None = NOT_PROVIDED,
        worker_cls: type | None = NOT_PROVIDED,
    ) -> Self:
        """Set the log, and the seeds by which runs repeat; return this config."""
        return self
