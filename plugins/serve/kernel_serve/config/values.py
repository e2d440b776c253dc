"""What a configuration file says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from kernel_serve.settings import GRPCOptions, HTTPOptions
from kernel_spec.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class DeploymentConfig:
    """Settings of one deployment that are to be others than in the code."""

    name: str
    options: Mapping[str, Any]
    """As `Deployment.options` takes them."""
    where: str = ""
    """Its place in the file, to begin an error with."""


@dataclass(frozen=True, slots=True)
class ApplicationConfig:
    """An application: where its code is, and what is to be different from what the code says."""

    name: str
    import_path: str
    route_prefix: str | None = "/"
    args: Mapping[str, Any] = field(default_factory=dict)
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    logging_config: Mapping[str, Any] = field(default_factory=dict)
    deployments: tuple[DeploymentConfig, ...] = ()
    where: str = ""


@dataclass(frozen=True, slots=True)
class TargetConfig:
    """One of an endpoint's targets: an application's ingress, or a certain deployment of it."""

    application: str
    deployment: str = ""
    weight: float = 1.0
    where: str = ""


@dataclass(frozen=True, slots=True)
class EndpointConfig:
    """A way in of its own: requests are split among targets, and some are copied to shadows."""

    name: str
    prefix: str
    targets: tuple[TargetConfig, ...]
    methods: frozenset[str] = frozenset()
    shadows: tuple[TargetConfig, ...] = ()
    sticky: str = ""


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """All of a file. What it does not say is None, or empty."""

    applications: tuple[ApplicationConfig, ...] = ()
    endpoints: tuple[EndpointConfig, ...] = ()
    proxy_location: str | None = None
    http_options: HTTPOptions | None = None
    grpc_options: GRPCOptions | None = None
    logging_config: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    """The same as plain values, by the names that are used here: what is kept, shown and compared."""
