"""A configuration as plain values by the names used here, without what is as it would be anyway."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from kernel_serve.config.values import ApplicationConfig, EndpointConfig, ServeConfig, TargetConfig


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
    """Return the fields of a dataclass that are not what they are by default, as plain values."""
    default = type(value)()
    return {
        each.name: plain(getattr(value, each.name))
        for each in fields(value)
        if getattr(value, each.name) != getattr(default, each.name)
    }


def plain(value: Any) -> Any:
    """Return tuples as lists, mappings as dicts, all the way down."""
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
