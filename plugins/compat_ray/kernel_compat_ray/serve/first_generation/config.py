"""Hold the settings of a backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from kernel.serve.errors import DeploymentError
from kernel.serve.settings import DeploymentSettings, checked
from kernel_spec.dataclass import dataclass

_LEAST_ONGOING = 8
"""Default number of requests that a replica holds, so that the next one is there when one is answered."""
_OLDER_NAMES = {"max_concurrent_requests": "max_concurrent_queries", "batch_wait_timeout_s": "batch_wait_timeout"}


@dataclass(frozen=True)
class BackendConfig:
    """Holds the settings of a backend.

    `max_batch_size` is for handlers with `@serve.accept_batch`: the maximum number of requests that they get, when
    those come within `batch_wait_timeout` seconds, or while the batch before is being answered.
    `max_concurrent_queries` is the number of requests that a replica is given at a time; those of a plain `def` wait
    there for each other. The other fields are the resources that each replica reserves, by default none. `user_config`
    is passed to the class's `reconfigure`.
    """

    num_replicas: int = 1
    max_batch_size: int | None = None
    batch_wait_timeout: float = 0.0
    max_concurrent_queries: int | None = None
    num_cpus: float | None = None
    num_gpus: float | None = None
    memory: float | None = None
    object_store_memory: float | None = None
    resources: Mapping[str, float] | None = None
    user_config: Any = None

    def __post_init__(self) -> None:
        whole = {"num_replicas": 0, "max_batch_size": 1, "max_concurrent_queries": 1}
        for name, least in whole.items():
            value = getattr(self, name)
            if name != "num_replicas" and value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise DeploymentError(f"{name} of a backend is a whole number from {least} on, not {value!r}")
        wait = self.batch_wait_timeout
        if not isinstance(wait, (int, float)) or isinstance(wait, bool) or not wait >= 0:
            raise DeploymentError(f"batch_wait_timeout of a backend is a number of seconds from 0 on, not {wait!r}")


RESERVED = ("num_cpus", "num_gpus", "memory", "resources")
"""The fields that are options of a replica's actor."""
_ACCEPTS = "accepts_batches"


def settings_of(
    config: BackendConfig, accepts_batches: bool, actor_options: Mapping[str, Any] | None = None
) -> DeploymentSettings:
    """Return the settings of the deployment that a backend is. `actor_options` are more of its replicas."""
    given = {name: value for name in RESERVED if (value := getattr(config, name)) is not None}
    told = {each.name: getattr(config, each.name) for each in fields(config)}
    return DeploymentSettings(
        num_replicas=config.num_replicas,
        max_ongoing_requests=config.max_concurrent_queries or max(_LEAST_ONGOING, 2 * (config.max_batch_size or 1)),
        user_config={**told, _ACCEPTS: accepts_batches},
        actor_options={"num_cpus": 0, **(actor_options or {}), **given},
    )


def config_in(settings: DeploymentSettings) -> BackendConfig:
    """Return the config from which `settings_of` made these settings."""
    return BackendConfig(**{name: value for name, value in settings.user_config.items() if name != _ACCEPTS})


def accepts_batches_in(settings: DeploymentSettings) -> bool:
    """Return whether the backend with these settings takes lists."""
    return bool(settings.user_config[_ACCEPTS])


def config_of(given: BackendConfig | Mapping[str, Any] | None, before: BackendConfig | None = None) -> BackendConfig:
    """Return the config that a user means; what a mapping does not name is as in `before`. Raises DeploymentError."""
    if isinstance(given, BackendConfig):
        return given
    if given is None:
        return before or BackendConfig()
    if not isinstance(given, Mapping):
        raise DeploymentError(f"the config of a backend is a BackendConfig or a dict, not a {type(given).__name__}")
    named = {_OLDER_NAMES.get(name, name): value for name, value in given.items()}
    fresh = checked(BackendConfig, named, "the config of a backend")
    return fresh if before is None else replace(before, **{name: getattr(fresh, name) for name in named})
