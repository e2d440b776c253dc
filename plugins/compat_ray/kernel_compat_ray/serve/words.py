"""Constants with which programs of Ray Serve compare values."""

from __future__ import annotations

from enum import Enum


class _Word(str, Enum):
    """A word that is equal to the text that it stands for."""

    def __str__(self) -> str:
        return str(self.value)


class ProxyLocation(_Word):
    """On which nodes there are proxies: the values of `serve.start(proxy_location=...)`."""

    Disabled = "Disabled"
    HeadOnly = "HeadOnly"
    EveryNode = "EveryNode"
    # The words of an older release.
    NoServer = "Disabled"
    FixedNumber = "HeadOnly"


class ApplicationStatus(_Word):
    """How an application is: what `serve.status().applications[NAME].status` can be."""

    NOT_STARTED = "NOT_STARTED"
    DEPLOYING = "DEPLOYING"
    RUNNING = "RUNNING"
    DEPLOY_FAILED = "DEPLOY_FAILED"
    UNHEALTHY = "UNHEALTHY"
    DELETING = "DELETING"


class DeploymentStatus(_Word):
    """How a deployment is."""

    UPDATING = "UPDATING"
    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    UPSCALING = "UPSCALING"
    DOWNSCALING = "DOWNSCALING"
    DEPLOY_FAILED = "DEPLOY_FAILED"


class ProxyStatus(_Word):
    """How a proxy is."""

    STARTING = "STARTING"
    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    DRAINING = "DRAINING"
    DRAINED = "DRAINED"


class EncodingType(_Word):
    """How lines of logs are written: the values of `LoggingConfig(encoding=...)`."""

    TEXT = "TEXT"
    JSON = "JSON"


class AggregationFunction(_Word):
    """How numbers over a time are made one. Kernel takes the mean, and refuses the others."""

    MEAN = "mean"
    MAX = "max"
    MIN = "min"
