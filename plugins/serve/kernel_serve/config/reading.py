"""Read a configuration file. Errors name the line, the path and the most similar right name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from kernel_serve.api.declared import with_options
from kernel_serve.api.graph import check_prefix
from kernel_serve.config.document import Cursor, Document, parse
from kernel_serve.config.setting_names import SettingNames
from kernel_serve.config.values import (
    ApplicationConfig,
    DeploymentConfig,
    EndpointConfig,
    ServeConfig,
    TargetConfig,
    normal,
)
from kernel_serve.errors import DeploymentError
from kernel_serve.settings import AutoscalingConfig, DeploymentSettings, GRPCOptions, HTTPOptions, checked, with_values

T = TypeVar("T")

TOP = ("applications", "endpoints", "proxy_location", "http_options", "grpc_options", "logging_config")
APPLICATION = ("name", "import_path", "route_prefix", "args", "runtime_env", "deployments", "logging_config")
DEPLOYMENT = (
    "name", "autoscaling_config",
    *(field.name for field in fields(DeploymentSettings) if field.name != "autoscaling"),
)  # fmt: skip
"""The names of all settings: of a file, of an application, of a deployment."""
_LOCATIONS = ("EveryNode", "HeadOnly", "Disabled")


def read_file(path: str | Path) -> ServeConfig:
    """Return the configuration in a file. Raises DeploymentError, with the line, for a mistake; OSError as `open`."""
    return read(Path(path).read_text(encoding="utf-8"), str(path))


def read(text: str, source: str = "the configuration", names: SettingNames | None = None) -> ServeConfig:
    """Return the configuration in a text of YAML or JSON. Raises DeploymentError, with the line, for a mistake.

    `names` are the other names of settings that may be in it; None for those of the installed distributions.
    """
    return _read(parse(text, source, names))


def read_values(values: Mapping[str, Any], source: str, names: SettingNames | None = None) -> ServeConfig:
    """Return the configuration that plain values describe, as in a file.

    Raises DeploymentError, with the path, for a mistake.

    `names` are the other names of settings that they may have; None for those of the installed distributions.
    """
    return _read(Document(values, source, {}, names))


def _read(document: Document) -> ServeConfig:
    given = Cursor(document).fields("file", TOP)
    applications = tuple(_application(cursor) for cursor in _list(given, "applications"))
    endpoints = tuple(read_endpoint(cursor) for cursor in _list(given, "endpoints"))
    _check_unique(given, applications, endpoints)
    http = given.get("http_options")
    grpc = given.get("grpc_options")
    config = ServeConfig(
        applications=applications,
        endpoints=endpoints,
        proxy_location=_location(given["proxy_location"]) if "proxy_location" in given else None,
        http_options=_options(http, "http_options", HTTPOptions) if http else None,
        grpc_options=_options(grpc, "grpc_options", GRPCOptions) if grpc else None,
        logging_config=given["logging_config"].mapping() if "logging_config" in given else {},
    )
    return normal(config)


def _list(given: Mapping[str, Cursor], name: str) -> list[Cursor]:
    return given[name].items() if name in given else []


def _application(cursor: Cursor) -> ApplicationConfig:
    given = cursor.fields("application", APPLICATION)
    if "import_path" not in given:
        raise cursor.error('import_path is missing: where the application is, as "module:name"')
    path = given["import_path"].text()
    module, _, name = path.rpartition(":" if ":" in path else ".")
    if not module or not name or not all(part.isidentifier() for part in [*module.split("."), *name.split(".")]):
        raise given["import_path"].error(f'expected "module:name", not {path!r}')
    deployments = tuple(_deployment(each) for each in _list(given, "deployments"))
    return ApplicationConfig(
        name=given["name"].text() if "name" in given else "default",
        import_path=path,
        route_prefix=_at(given["route_prefix"], check_prefix) if "route_prefix" in given else "/",
        args=given["args"].mapping() if "args" in given else {},
        runtime_env=given["runtime_env"].mapping() if "runtime_env" in given else {},
        logging_config=given["logging_config"].mapping() if "logging_config" in given else {},
        deployments=_unique(deployments, _list(given, "deployments"), "deployment"),
        where=cursor.where,
    )


def _deployment(cursor: Cursor) -> DeploymentConfig:
    given = cursor.fields("deployment", DEPLOYMENT)
    if "name" not in given:
        raise cursor.error("name is missing: which deployment of the code is meant")
    name = given.pop("name").text()
    options = {setting: value.value for setting, value in given.items()}
    if (scaling := given.get("autoscaling_config")) is not None and scaling.value is not None:
        options["autoscaling_config"] = _autoscaling(scaling, options.get("num_replicas") == "auto")
    _blamed(cursor, given, options, lambda some: with_options(DeploymentSettings(), some, f"deployment {name}"))
    return DeploymentConfig(name, options, cursor.where)


def _autoscaling(cursor: Cursor, automatic: bool) -> dict[str, Any]:
    known = [each.name for each in fields(AutoscalingConfig)]
    names = cursor.document.names
    given = cursor.fields("autoscaling_config", [*known, *names.autoscaling_names])
    try:
        named = with_values(names.autoscaling({name: value.value for name, value in given.items()}))
    except ValueError as error:
        raise cursor.error(str(error)) from None
    default = {"max_replicas": 100} if automatic else {}
    _blamed(cursor, given, named, lambda some: checked(AutoscalingConfig, {**default, **some}))
    return named


def _options(cursor: Cursor, part: str, kind: type[T]) -> T:
    given = cursor.fields(part, [each.name for each in fields(kind)])  # type: ignore[arg-type]
    values = {
        name: tuple(value.value) if isinstance(value.value, list) else value.value for name, value in given.items()
    }
    return _blamed(cursor, given, values, lambda some: checked(kind, some))


def _blamed(
    cursor: Cursor, given: Mapping[str, Cursor], values: Mapping[str, Any], make: Callable[[Mapping[str, Any]], T]
) -> T:
    """Return `make(values)`. Raise its error at the place of the one value that causes it, else at that of all."""
    try:
        return make(values)
    except (DeploymentError, TypeError) as error:
        for name, value in values.items():
            try:
                make({name: value})
            except (DeploymentError, TypeError) as same:
                if str(same) == str(error) and name in given:
                    raise given[name].error(str(error)) from None
        raise cursor.error(str(error)) from None


def _at(cursor: Cursor, check: Callable[[Any], T]) -> T:
    try:
        return check(cursor.value)
    except DeploymentError as error:
        raise cursor.error(str(error)) from None


def _location(cursor: Cursor) -> str:
    for location in _LOCATIONS:
        if str(cursor.value).lower() == location.lower():
            return location
    raise cursor.error(f"expected one of {', '.join(_LOCATIONS)}, not {cursor.value!r}")


def _check_unique(
    given: Mapping[str, Cursor], applications: tuple[ApplicationConfig, ...], endpoints: tuple[EndpointConfig, ...]
) -> None:
    places = _list(given, "applications")
    _unique(applications, places, "application")
    _unique(endpoints, _list(given, "endpoints"), "endpoint")
    prefixes: dict[str, str] = {}
    named = [(each.route_prefix, f"application {each.name!r}") for each in applications]
    named += [(each.prefix, f"endpoint {each.name!r}") for each in endpoints]
    for (prefix, who), place in zip(named, [*places, *_list(given, "endpoints")], strict=True):
        if prefix is not None and prefixes.setdefault(prefix, who) != who:
            raise place.error(f"the route {prefix!r} belongs to {prefixes[prefix]} already; give it another, or null")


def _unique(values: tuple[T, ...], places: list[Cursor], what: str) -> tuple[T, ...]:
    names = set()
    for value, place in zip(values, places, strict=True):
        name = value.name  # type: ignore[attr-defined]
        if name in names:
            raise place.error(f"there is another {what} {name!r} above; each needs a name of its own")
        names.add(name)
    return values


_ENDPOINT = ("name", "prefix", "targets", "shadows", "sticky", "methods")
_TARGET = ("application", "deployment", "weight")
_STICKY = ("header:", "cookie:", "query:")


def read_endpoint(cursor: Cursor) -> EndpointConfig:
    """Return an endpoint. Raises DeploymentError with the place of a mistake."""
    given = cursor.fields("endpoint", _ENDPOINT)
    for name in ("name", "prefix", "targets"):
        if name not in given:
            raise cursor.error(f"{name} is missing")
    try:
        prefix = check_prefix(given["prefix"].text())
    except DeploymentError as error:
        raise given["prefix"].error(str(error)) from None
    targets = tuple(_target(each) for each in given["targets"].items())
    if not sum(target.weight for target in targets) > 0:
        raise given["targets"].error("at least one target needs a weight above 0")
    return EndpointConfig(
        name=given["name"].text(),
        prefix=prefix or "/",
        targets=targets,
        methods=frozenset(each.text().upper() for each in given["methods"].items())
        if "methods" in given
        else frozenset(),
        shadows=tuple(_target(each) for each in given["shadows"].items()) if "shadows" in given else (),
        sticky=_sticky(given["sticky"]) if "sticky" in given else "",
    )


def _target(cursor: Cursor) -> TargetConfig:
    given = cursor.fields("target", _TARGET)
    weight = given["weight"].value if "weight" in given else 1.0
    if isinstance(weight, bool) or not isinstance(weight, (int, float)) or weight < 0:
        raise given["weight"].error(f"expected a number from 0 on, not {weight!r}")
    application = given["application"].text() if "application" in given else ""
    deployment = given["deployment"].text() if "deployment" in given else ""
    if "#" in deployment and not application:
        application, _, deployment = deployment.partition("#")
    if not application:
        raise cursor.error("application is missing: whose ingress, or whose `deployment`, takes the requests")
    return TargetConfig(application, deployment, float(weight), cursor.where)


def _sticky(cursor: Cursor) -> str:
    value = cursor.text()
    if value != "client" and not any(value.startswith(kind) and len(value) > len(kind) for kind in _STICKY):
        raise cursor.error(f'expected "client", "header:NAME", "cookie:NAME" or "query:NAME", not {value!r}')
    return value
