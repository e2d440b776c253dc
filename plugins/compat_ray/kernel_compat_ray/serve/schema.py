"""Parts of a configuration as objects, for programs that write, check or read one by the names of Ray Serve's schemas.

The reading of configuration files decides what is allowed, and the defaults: these objects are views of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, ClassVar, TypeVar

from kernel.serve.api.declared import with_options
from kernel.serve.api.status_types import Facts, facts_of
from kernel.serve.config.reading import APPLICATION, DEPLOYMENT, TOP, read_values
from kernel.serve.config.values import ServeConfig, unlike_default
from kernel.serve.names import nearest
from kernel.serve.settings import DeploymentSettings, GRPCOptions, HTTPOptions
from kernel_compat_ray.serve.setting_names import ALL_NAMES

S = TypeVar("S", bound="_Schema")
Values = dict[str, Any]


class _Schema:
    """Holds a part of a configuration: `Part(name=value, ...)`, or `Part.model_validate({...})`.

    Its attributes are the settings; those that were not set have their present defaults.
    `model_dump(exclude_unset=True)` returns those that were set, as plain values for a file or the REST API. Raises
    DeploymentError for an invalid setting.
    """

    _names: ClassVar[tuple[str, ...]]
    _aliases: ClassVar[Mapping[str, str]] = {}
    _parts: ClassVar[Mapping[str, Callable[..., Any]]] = {}
    """Makes the settings that are schemas themselves."""

    def __init__(self, **given: Any) -> None:
        made = {name: self._part(self._aliases.get(name, name), value) for name, value in given.items()}
        self.__dict__["_given"] = made
        self.__dict__["_read"] = self._found(read_values(self._whole(_plain(made)), type(self).__name__, ALL_NAMES))

    def _part(self, name: str, value: Any) -> Any:
        make = self._parts.get(name)
        if make is None or value is None:
            return value
        return [_made(make, each) for each in value] if isinstance(value, (list, tuple)) else _made(make, value)

    def _whole(self, given: Values) -> Values:
        """Return a whole configuration that says this."""
        raise NotImplementedError

    def _found(self, config: ServeConfig) -> Any:
        """Return what has this schema's settings as attributes."""
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        own = self._aliases.get(name, name)
        if own in self._parts:
            said = [value for given, value in self._given.items() if self._aliases.get(given, given) == own]
            return said[0] if said else [] if own in ("applications", "deployments") else self._parts[own]()
        if own in self._names:
            return getattr(self._read, own)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{nearest(name, self._names)}")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self._aliases.get(name, name)
        others = {given: each for given, each in self._given.items() if self._aliases.get(given, given) != own}
        self.__init__(**others, **{name: value})  # type: ignore[misc]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.model_dump() == other.model_dump()  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in self._given.items())
        return f"{type(self).__name__}({said})"

    @classmethod
    def model_validate(cls: type[S], obj: Mapping[str, Any]) -> S:
        """Return the schema of plain values."""
        return cls(**obj)

    def model_dump(self, *, mode: str = "python", exclude_unset: bool = False, exclude_none: bool = False) -> Values:
        """Return all settings as plain values; with `exclude_unset` those that were said, by the names they had."""
        values = self._given if exclude_unset else {name: getattr(self, name) for name in self._names}
        plain = {name: _plain(each, exclude_unset, exclude_none) for name, each in values.items()}
        return {name: each for name, each in plain.items() if each is not None} if exclude_none else plain

    def model_dump_json(self, **options: Any) -> str:
        """Return the same as JSON."""
        return json.dumps(self.model_dump(**options))

    parse_obj = model_validate
    dict = model_dump
    json = model_dump_json


class HTTPOptionsSchema(_Schema):
    """Holds where and how proxies listen."""

    _names = tuple(each.name for each in fields(HTTPOptions) if each.name not in ALL_NAMES.refused_in("http_options"))
    _aliases = ALL_NAMES.aliases_of("http_options")

    def _whole(self, given: Values) -> Values:
        return {"http_options": given}

    def _found(self, config: ServeConfig) -> Any:
        return config.http_options


class gRPCOptionsSchema(_Schema):
    """Holds where proxies take gRPC, and which services."""

    _names = tuple(each.name for each in fields(GRPCOptions))

    def _whole(self, given: Values) -> Values:
        return {"grpc_options": given}

    def _found(self, config: ServeConfig) -> Any:
        return config.grpc_options


class DeploymentSchema(_Schema):
    """Holds the settings of one deployment that replace those in the code."""

    _names = DEPLOYMENT
    _aliases = ALL_NAMES.aliases_of("deployment")

    def _whole(self, given: Values) -> Values:
        return {"applications": [{"import_path": "code:application", "deployments": [given]}]}

    def _found(self, config: ServeConfig) -> Any:
        (said,) = config.applications[0].deployments
        settings = with_options(DeploymentSettings(), said.options, said.where)
        values = {each.name: getattr(settings, each.name) for each in fields(settings)}
        values["placement_group_bundles"] = list(settings.placement_group_bundles) or None  # an empty list is a mistake
        return Facts(values, name=said.name, autoscaling_config=values.pop("autoscaling"))


class ServeApplicationSchema(_Schema):
    """Holds an application: where its code is, and the settings that replace those in the code."""

    _names = APPLICATION
    _aliases = ALL_NAMES.aliases_of("application")
    _parts: ClassVar[Mapping[str, Callable[..., Any]]] = {"deployments": DeploymentSchema}

    def _whole(self, given: Values) -> Values:
        return {"applications": [given]}

    def _found(self, config: ServeConfig) -> Any:
        return config.applications[0]


class ServeDeploySchema(_Schema):
    """Holds a whole configuration, as `kernel serve deploy` takes it."""

    _names = TOP
    _parts: ClassVar[Mapping[str, Callable[..., Any]]] = {
        "applications": ServeApplicationSchema,
        "http_options": HTTPOptionsSchema,
        "grpc_options": gRPCOptionsSchema,
    }

    def _whole(self, given: Values) -> Values:
        return given

    def _found(self, config: ServeConfig) -> Any:
        return config


class Details(Facts):
    """Holds the result of `serve.status()` or the REST API, with the entries at all depths as attributes, too."""

    def __init__(self, **given: Any) -> None:
        super().__init__(facts_of(given))

    @classmethod
    def model_validate(cls, obj: Mapping[str, Any]) -> Details:
        """Return what was read from JSON."""
        return cls(**obj)

    parse_obj = model_validate


def _made(make: Callable[..., Any], value: Any) -> Any:
    return value if isinstance(value, _Schema) else make(**value)


def _plain(value: Any, exclude_unset: bool = True, exclude_none: bool = False) -> Any:
    if isinstance(value, _Schema):
        return value.model_dump(exclude_unset=exclude_unset, exclude_none=exclude_none)
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):  # These are settings, such as LoggingConfig.
        return unlike_default(value)
    if isinstance(value, (list, tuple)):
        return [_plain(each, exclude_unset, exclude_none) for each in value]
    if isinstance(value, Mapping):
        return {name: _plain(each, exclude_unset, exclude_none) for name, each in value.items()}
    return value
