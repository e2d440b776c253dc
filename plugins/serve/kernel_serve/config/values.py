"""The values of a configuration file; the same as plain values (`normal`); the differences of two (`changes`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, fields, replace
from typing import Any

from kernel_serve.settings import GRPCOptions, HTTPOptions
from kernel_spec.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class DeploymentConfig:
    """Settings of one deployment that replace those in the code."""

    name: str
    options: Mapping[str, Any]
    """The options, as `Deployment.options` takes them."""
    where: str = ""
    """Its place in the file, with which an error begins."""


@dataclass(frozen=True, slots=True)
class ApplicationConfig:
    """Holds an application: where its code is, and the settings that replace those in the code."""

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
    """Names one of an endpoint's targets: an application's ingress, or a certain deployment of it."""

    application: str
    deployment: str = ""
    weight: float = 1.0
    where: str = ""


@dataclass(frozen=True, slots=True)
class EndpointConfig:
    """Holds an endpoint that stands alone: requests are split among targets, and some are copied to shadows."""

    name: str
    prefix: str
    targets: tuple[TargetConfig, ...]
    methods: frozenset[str] = frozenset()
    shadows: tuple[TargetConfig, ...] = ()
    sticky: str = ""


@dataclass(frozen=True, slots=True)
class ServeConfig:
    """Holds all of a file. What the file does not set is None, or empty."""

    applications: tuple[ApplicationConfig, ...] = ()
    endpoints: tuple[EndpointConfig, ...] = ()
    proxy_location: str | None = None
    http_options: HTTPOptions | None = None
    grpc_options: GRPCOptions | None = None
    logging_config: Mapping[str, Any] = field(default_factory=dict)
    data: Mapping[str, Any] = field(default_factory=dict)
    """The same as plain values, without defaults: what is kept, shown and compared."""


def normal(config: ServeConfig) -> ServeConfig:
    """Return the configuration with its `data`."""
    data: dict[str, Any] = {}
    if config.proxy_location is not None:
        data["proxy_location"] = config.proxy_location
    for name in ("http_options", "grpc_options"):
        options = getattr(config, name)
        if options is not None:
            data[name] = unlike_default(options)
    if config.logging_config:
        data["logging_config"] = dict(config.logging_config)
    data["applications"] = [_application(each) for each in config.applications]
    if config.endpoints:
        data["endpoints"] = [_endpoint(each) for each in config.endpoints]
    return replace(config, data=data)


def unlike_default(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that do not have their defaults, as plain values."""
    default = type(value)()
    return {
        each.name: plain(getattr(value, each.name))
        for each in fields(value)
        if getattr(value, each.name) != getattr(default, each.name)
    }


def plain(value: Any) -> Any:
    """Return a value with tuples as lists and mappings as dicts, at all depths."""
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return value


def _application(config: ApplicationConfig) -> dict[str, Any]:
    data: dict[str, Any] = {
        "name": config.name,
        "route_prefix": config.route_prefix,
        "import_path": config.import_path,
    }
    for name in ("args", "runtime_env", "logging_config"):
        if getattr(config, name):
            data[name] = plain(dict(getattr(config, name)))
    if config.deployments:
        data["deployments"] = [{"name": each.name, **plain(dict(each.options))} for each in config.deployments]
    return data


def _endpoint(config: EndpointConfig) -> dict[str, Any]:
    data: dict[str, Any] = {
        "name": config.name,
        "prefix": config.prefix,
        "targets": [_target(each) for each in config.targets],
    }
    if config.shadows:
        data["shadows"] = [_target(each) for each in config.shadows]
    if config.sticky:
        data["sticky"] = config.sticky
    if config.methods:
        data["methods"] = sorted(config.methods)
    return data


def _target(config: TargetConfig) -> dict[str, Any]:
    data: dict[str, Any] = {"application": config.application}
    if config.deployment:
        data["deployment"] = config.deployment
    return {**data, "weight": config.weight}


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


NOTHING = _Nothing()
"""Marks an absent value in a difference."""


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """Describes a value that has changed, such as `applications[shop].deployments[Model].num_replicas`."""

    path: str
    before: Any = NOTHING
    after: Any = NOTHING

    def __str__(self) -> str:
        if self.before is NOTHING:
            return f"+ {self.path}" if isinstance(self.after, (dict, list)) else f"+ {self.path}: {self.after!r}"
        if self.after is NOTHING:
            return f"- {self.path}"
        return f"~ {self.path}: {self.before!r} -> {self.after!r}"


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[ConfigChange]:
    """Return the differences between the `data` of two configurations. Items with names are compared by name."""
    return list(_changes("", before, after))


def _changes(path: str, before: Any, after: Any) -> Iterator[ConfigChange]:
    if _same(before, after):
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in [*before, *(name for name in after if name not in before)]:
            inner = f"{path}.{name}" if path else str(name)
            yield from _changes(inner, before.get(name, NOTHING), after.get(name, NOTHING))
        return
    one, other = _by_name(before), _by_name(after)
    if one is not None and other is not None:
        for name in [*one, *(name for name in other if name not in one)]:
            yield from _changes(f"{path}[{name}]", one.get(name, NOTHING), other.get(name, NOTHING))
        return
    yield ConfigChange(path, before, after)


def _same(before: Any, after: Any) -> bool:
    return type(before) is type(after) and bool(before == after)


def _by_name(value: Any) -> dict[str, Any] | None:
    """Return a list of mappings with names as a mapping by these names; None for any other value."""
    if value is NOTHING or not isinstance(value, list):
        return None
    if not all(isinstance(each, Mapping) and "name" in each for each in value):
        return None
    return {str(each["name"]): each for each in value}
