"""Settings of deployments, of their autoscaling, and of the proxies: plain values, checked when they are made.

All are frozen dataclasses with the defaults that users know. `checked(Class, given)` makes one of a mapping; its error
names an unknown setting, and the most similar known one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, Literal, TypeVar

from kernel_serve.errors import DeploymentError
from kernel_serve.value_checks import (
    each_is,
    is_amount,
    is_text,
    is_texts,
    is_whole,
    not_negative,
    port_number,
    positive,
    tls_options,
    truths,
    whole,
)
from kernel_spec.dataclass import dataclass
from kernel_spec.nearest import nearest

UNLIMITED = -1
_STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AutoscalingConfig:
    """Settings by which the number of replicas follows the number of requests.

    `target_ongoing_requests` is the mean number of requests, waiting ones included, that one replica should have.
    Numbers of requests are means over `look_back_period_s` seconds. A decision is carried out when it has held for
    `upscale_delay_s` or `downscale_delay_s` seconds, for the last replica `downscale_to_zero_delay_s`. The factors,
    above 0, multiply the step towards the right number: 1 goes there at once. With `min_replicas=0` the first request
    wakes the deployment without delay. `policy` is a function or its import path (`"module:function"`); None is
    `kernel_serve.autoscaling.policy.default_policy`.

    Raises DeploymentError for a bad value.
    """

    min_replicas: int = 1
    initial_replicas: int | None = None
    max_replicas: int = 1
    target_ongoing_requests: float = 2.0
    metrics_interval_s: float = 1.0
    look_back_period_s: float = 30.0
    upscaling_factor: float = 1.0
    downscaling_factor: float = 1.0
    upscale_delay_s: float = 30.0
    downscale_delay_s: float = 600.0
    downscale_to_zero_delay_s: float | None = None
    policy: Any = None
    policy_arguments: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        whole(self, 0, "min_replicas", "initial_replicas")
        whole(self, 1, "max_replicas")
        not_negative(self, "upscale_delay_s", "downscale_delay_s", "downscale_to_zero_delay_s")
        positive(self, "target_ongoing_requests", "metrics_interval_s", "look_back_period_s")
        positive(self, "upscaling_factor", "downscaling_factor")
        if self.max_replicas < self.min_replicas:
            raise DeploymentError(
                f"max_replicas ({self.max_replicas}) must be at least min_replicas ({self.min_replicas})"
            )
        if self.initial_replicas is not None and not self.min_replicas <= self.initial_replicas <= self.max_replicas:
            raise DeploymentError(
                f"initial_replicas ({self.initial_replicas}) must be between min_replicas ({self.min_replicas}) and "
                f"max_replicas ({self.max_replicas})"
            )


@dataclass(frozen=True, slots=True)
class LoggingConfig:
    """The logging of a deployment's replicas: of the loggers `kernel.serve`, `ray.serve`, and those below them.

    `encoding` is "TEXT" or "JSON" (an object a line), with `additional_log_standard_attrs` of `logging.LogRecord` among
    its fields. `log_level` is a level of `logging`, or its number. Lines go to standard error, and with `logs_dir` also
    to a file for each replica in that directory. `enable_access_log` writes a line for each request that a replica
    carries out, calls by handles included; requests from outside are in the proxies' access log anyway.

    Raises DeploymentError for a bad value.
    """

    encoding: str = "TEXT"
    log_level: str | int = "INFO"
    logs_dir: str | None = None
    enable_access_log: bool = False
    additional_log_standard_attrs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.encoding not in ("TEXT", "JSON"):
            raise DeploymentError(f'encoding of logging_config is "TEXT" or "JSON", not {self.encoding!r}')
        if not isinstance(self.level_number, int):
            raise DeploymentError(f'log_level of logging_config is a level such as "DEBUG", not {self.log_level!r}')
        each_is(self, ("logs_dir",), lambda value: isinstance(value, (str, os.PathLike)), "the path of a directory")
        truths(self, "enable_access_log")
        each_is(self, ("additional_log_standard_attrs",), is_texts, "a list of names")

    @property
    def level_number(self) -> int:
        """The level as a number."""
        import logging

        level = self.log_level
        return level if isinstance(level, int) else logging.getLevelName(str(level).upper())


@dataclass(frozen=True, slots=True)
class DeploymentSettings:
    """The settings of a deployment besides its code and its constructor's arguments.

    `num_replicas` is None where `autoscaling` decides. `max_ongoing_requests` is how many requests a replica works on
    at a time, `max_queued_requests` how many may wait in each caller (-1: any number). `actor_options` are those of
    `@kernel.remote` (`num_cpus`, `resources`, `runtime_env`, ...). Times are in seconds.

    Raises DeploymentError for a bad value.
    """

    num_replicas: int | None = 1
    autoscaling: AutoscalingConfig | None = None
    max_ongoing_requests: int = 5
    max_queued_requests: int = UNLIMITED
    user_config: Any = None
    actor_options: Mapping[str, Any] = field(default_factory=dict)
    placement_group_bundles: tuple[Mapping[str, float], ...] = ()
    placement_group_strategy: str = "PACK"
    max_replicas_per_node: int | None = None
    graceful_shutdown_wait_loop_s: float = 2.0
    graceful_shutdown_timeout_s: float = 20.0
    health_check_period_s: float = 10.0
    health_check_timeout_s: float = 30.0
    max_constructor_retry_count: int = 3
    rolling_update_percentage: float = 0.2
    request_timeout_s: float | None = None
    logging_config: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.num_replicas is not None and (not is_whole(self.num_replicas) or self.num_replicas < 0):
            raise DeploymentError(f'num_replicas is a number from 0 on, or "auto", not {self.num_replicas!r}')
        whole(self, 1, "max_ongoing_requests", "max_replicas_per_node", "max_constructor_retry_count")
        positive(self, "health_check_period_s", "health_check_timeout_s", "request_timeout_s")
        not_negative(self, "graceful_shutdown_wait_loop_s", "graceful_shutdown_timeout_s")
        if not is_whole(self.max_queued_requests) or self.max_queued_requests < UNLIMITED:
            raise DeploymentError(
                f"max_queued_requests is a number from 0 on, or -1 for no limit, not {self.max_queued_requests!r}"
            )
        share = self.rolling_update_percentage
        if not is_amount(share) or not 0 < share <= 1:
            raise DeploymentError(f"rolling_update_percentage is a share above 0 and up to 1, not {share!r}")
        if self.logging_config:
            checked(LoggingConfig, self.logging_config, "logging_config")
        for bundle in self.placement_group_bundles:
            if not isinstance(bundle, Mapping) or not bundle or not all(is_amount(each) for each in bundle.values()):
                raise DeploymentError(f"each of placement_group_bundles is like {{'CPU': 1}}, not {bundle!r}")
        if self.placement_group_strategy not in _STRATEGIES:
            raise DeploymentError(
                f"placement_group_strategy is one of {', '.join(_STRATEGIES)}, not {self.placement_group_strategy!r}"
            )
        if self.max_replicas_per_node is not None and self.placement_group_bundles:
            raise DeploymentError("max_replicas_per_node can't be combined with placement_group_bundles")


@dataclass(frozen=True, slots=True)
class HTTPOptions:
    """Settings of HTTP at the proxies.

    They listen on loopback by default. The default of `port` is KERNEL_SERVE_HTTP_PORT, else 8000; that of `host` is
    KERNEL_SERVE_HTTP_HOST.

    `proxies_per_node` processes share the port. `access_log` says whether each request has a line in the session's
    logs, or is the directory for files of such lines. `request_timeout_s` limits all requests; a deployment may have a
    smaller limit. A client may pause for `stall_timeout_s` in the middle of a body, and as long in reading an answer.
    `root_path` is what a server in front removes from the beginning of paths. Sizes are in bytes: of all headers
    together, and of a body.

    Raises DeploymentError for a bad value.
    """

    host: str = field(default_factory=lambda: os.environ.get("KERNEL_SERVE_HTTP_HOST", "127.0.0.1"))
    port: int = field(default_factory=lambda: default_port(os.environ.get("KERNEL_SERVE_HTTP_PORT", "")))
    proxies_per_node: int = 1
    root_path: str = ""
    request_timeout_s: float | None = None
    keep_alive_timeout_s: float = 90.0
    header_timeout_s: float = 30.0
    stall_timeout_s: float = 60.0
    maximum_header_bytes: int = 64 << 10
    maximum_body_bytes: int = 1 << 30
    ssl_keyfile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile_password: str | None = None
    ssl_ca_certs: str | None = None
    access_log: bool | str = True
    middlewares: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        port_number(self.port)
        whole(self, 1, "proxies_per_node", "maximum_header_bytes", "maximum_body_bytes")
        positive(self, "request_timeout_s", "keep_alive_timeout_s", "header_timeout_s", "stall_timeout_s")
        each_is(self, ("host",), lambda value: is_text(value) and value, 'an address such as "127.0.0.1"')
        each_is(
            self,
            ("root_path",),
            lambda value: is_text(value) and value[:1] in ("", "/"),
            'a path such as "/app", or ""',
        )
        each_is(
            self,
            ("access_log",),
            lambda value: isinstance(value, (bool, str, os.PathLike)),
            "True, False, or the path of a directory",
        )
        each_is(self, ("middlewares",), _are_middlewares, "a list of starlette's Middleware")
        tls_options(self)


@dataclass(frozen=True, slots=True)
class GRPCOptions:
    """Settings of gRPC at the proxies: the port, and the services by import paths of `add_..._to_server` functions.

    Without such a function gRPC is off. They are imported by new proxies, also from the directory `app_dir`. Proxies
    are replaced whenever an option changes: set `services_version` when services have changed. With `ssl_certfile` gRPC
    is taken by TLS alone, and with `ssl_ca_certs` only from clients with a certificate of these authorities.

    Raises DeploymentError for a bad value.
    """

    port: int = 9000
    grpc_servicer_functions: tuple[str, ...] = ()
    request_timeout_s: float | None = None
    enable_reflection: bool = True
    app_dir: str | None = None
    services_version: str = ""
    ssl_keyfile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile_password: str | None = None
    ssl_ca_certs: str | None = None

    def __post_init__(self) -> None:
        port_number(self.port)
        positive(self, "request_timeout_s")
        if isinstance(self.grpc_servicer_functions, str):
            raise DeploymentError(
                f"grpc_servicer_functions is a list of import paths, not the text {self.grpc_servicer_functions!r}"
            )
        each_is(self, ("grpc_servicer_functions",), is_texts, "a list of import paths")
        truths(self, "enable_reflection")
        each_is(self, ("app_dir", "services_version"), is_text, "text")
        tls_options(self)


ProxyLocation = Literal["EveryNode", "HeadOnly", "Disabled"]


def default_port(given: str) -> int:
    """Return the port that `given`, the value of KERNEL_SERVE_HTTP_PORT, says; 8000 if it is empty.

    Raises DeploymentError.
    """
    if not given:
        return 8000
    if not given.isdecimal() or int(given) > 65535:
        raise DeploymentError(f"KERNEL_SERVE_HTTP_PORT is a number from 0 (any free one) to 65535, not {given!r}")
    return int(given)


def checked(kind: type[T], given: Mapping[str, Any], what: str = "") -> T:
    """Return a `kind` with the given fields. Raises DeploymentError, which names an unknown field."""
    known = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    for name in given:
        if name not in known:
            close = nearest(name, known)
            hint = f"; did you mean {close!r}?" if close else f"; there are {', '.join(known)}"
            raise DeploymentError(f"{what or kind.__name__} has no setting {name!r}{hint}")
    return kind(**given)


def with_values(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of autoscaling that have a value: None stands for the default, unless it has a meaning."""
    return {name: value for name, value in given.items() if value is not None or name in _MAY_BE_NONE}


_MAY_BE_NONE = ("initial_replicas", "downscale_to_zero_delay_s", "policy")


def _are_middlewares(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(callable(getattr(each, "cls", each)) for each in value)


AUTOMATIC = AutoscalingConfig(min_replicas=1, max_replicas=100)
"""The settings that `num_replicas="auto"` means."""
