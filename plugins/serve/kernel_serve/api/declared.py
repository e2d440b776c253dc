"""Declarations, before anything runs: deployments with their options, and applications that bind them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

import kernel
from kernel_serve.control.placement import wanted_of
from kernel_serve.errors import DeploymentError
from kernel_serve.settings import AUTOMATIC, AutoscalingConfig, DeploymentSettings, LoggingConfig, checked, with_values
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import OptionError

D = TypeVar("D", bound="Deployment")

_NAMES = "a deployment's name is its option `name`"
_RESTARTS = "a replica that dies is replaced by another one"
_REQUESTS = "max_ongoing_requests says how many requests a replica works on at a time"
_OF_SERVE = {
    "name": _NAMES,
    "namespace": _NAMES,
    "get_if_exists": _NAMES,
    "lifetime": "replicas live until their application is deleted",
    "max_restarts": _RESTARTS,
    "max_task_retries": _RESTARTS,
    "max_concurrency": _REQUESTS,
    "concurrency_groups": _REQUESTS,
}
"""Options of actors that a user can't set, with the reason."""


class _Unset:
    def __repr__(self) -> str:
        return "UNSET"

    def __reduce__(self) -> str:
        return "UNSET"  # Copies and pickles of it are the same object.


UNSET: Any = _Unset()
"""The route of a deployment for which none was given. None means that it has no route."""


class Deployment:
    """A function or a class with its options. `bind` adds its constructor's arguments."""

    def __init__(
        self,
        target: Callable[..., Any],
        name: str,
        settings: DeploymentSettings,
        version: str = "",
        *,
        route_prefix: str | None = UNSET,
    ) -> None:
        self.func_or_class = target
        self.name = name
        self.settings = settings
        self.version = version
        """The version that the user has set.

        Replicas are replaced when it changes; if it is "", when the code changes.
        """
        self.route_prefix = route_prefix
        """The route of the deployment if it is an application's ingress; UNSET if none was given."""
        self.__doc__ = target.__doc__

    def options(self: D, func_or_class: Callable[..., Any] | None = None, **options: Any) -> D:
        """Return a deployment with other options; this one stays as it is. Raises DeploymentError for a bad option."""
        name = options.pop("name", None)
        name = self.name if name is None else name
        version = options.pop("version", self.version)
        if not isinstance(name, str) or not name:
            raise DeploymentError(f"name of deployment {self.name} is a non-empty text, not {name!r}")
        if not isinstance(version or "", str):
            raise DeploymentError(f"version of deployment {name} is text, not {version!r}")
        route = options.pop("route_prefix", self.route_prefix)
        settings = with_options(self.settings, options, f"deployment {name}")
        return type(self)(func_or_class or self.func_or_class, name, settings, version or "", route_prefix=route)

    def bind(self, *args: Any, **kwargs: Any) -> Application:
        """Return an application of this deployment. Bound deployments among the arguments become handles of theirs.

        Raises DeploymentError when the constructor does not take these arguments.
        """
        target = self.func_or_class
        if not inspect.isclass(target) and (args or kwargs):
            raise DeploymentError(
                f"deployment {self.name} is a function: it is called for each request, and bind() takes no arguments"
            )
        _check_arguments(target, self.name, args, kwargs)
        return Application(self, args, kwargs)

    @property
    def num_replicas(self) -> int | None:
        """The number of replicas; None where autoscaling decides."""
        return self.settings.num_replicas

    @property
    def user_config(self) -> Any:
        """The argument of the object's `reconfigure`."""
        return self.settings.user_config

    @property
    def max_ongoing_requests(self) -> int:
        """The number of requests that a replica works on at a time."""
        return self.settings.max_ongoing_requests

    @property
    def max_queued_requests(self) -> int:
        """The number of requests that may wait in each caller; -1 for any number."""
        return self.settings.max_queued_requests

    @property
    def actor_options(self) -> Mapping[str, Any]:
        """The options of the replicas' actors."""
        return self.settings.actor_options

    @property
    def logging_config(self) -> Mapping[str, Any]:
        """The settings of `LoggingConfig` for the replicas."""
        return self.settings.logging_config

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise DeploymentError(
            f"deployment {self.name} can't be called directly: serve.run({self.name}.bind(...)) starts it, and returns "
            "a handle to call it with"
        )

    def __mro_entries__(self, bases: tuple[Any, ...]) -> Any:
        raise DeploymentError(
            f"deployment {self.name} is no class to derive from: derive from its class, before it is decorated or as "
            f"{self.name}.func_or_class"
        )

    def __repr__(self) -> str:
        return f"Deployment({self.name!r})"


@dataclass(frozen=True, eq=False)
class Application:
    """A bound deployment, with those that are bound to it: the argument of `serve.run`."""

    deployment: Deployment
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"an application has no {name!r}: deploy it with serve.run(app), and call the handle that this returns"
        )


def with_options(settings: DeploymentSettings, options: Mapping[str, Any], what: str) -> DeploymentSettings:
    """Return the settings with other options, as users give them. Raises DeploymentError, which begins with `what`."""
    given = dict(options)
    if "autoscaling" in given:
        raise DeploymentError(f"{what} has no setting 'autoscaling'; did you mean 'autoscaling_config'?")
    no_longer_scaled = "autoscaling_config" in given and settings.autoscaling is not None
    scaling = given.pop("autoscaling_config", None)
    if given.get("num_replicas") == "auto":
        given["num_replicas"] = None
        given["autoscaling"] = _autoscaling(scaling or {}, AUTOMATIC)
    elif scaling is not None:
        if given.get("num_replicas") is not None:
            raise DeploymentError(f"{what}: num_replicas and autoscaling_config can't both say how many")
        given["num_replicas"] = None
        given["autoscaling"] = _autoscaling(scaling, AutoscalingConfig())
    elif given.get("num_replicas") is not None:
        given["autoscaling"] = None
    elif no_longer_scaled:
        given["num_replicas"], given["autoscaling"] = DeploymentSettings().num_replicas, None
    if "placement_group_bundles" in given:
        bundles = given["placement_group_bundles"]
        if bundles is None:
            bundles = ()
        elif not isinstance(bundles, (list, tuple)) or bundles == []:
            raise DeploymentError(f"{what}: placement_group_bundles is a list such as [{{'CPU': 1}}], not {bundles!r}")
        given["placement_group_bundles"] = tuple(bundles)
    if isinstance(given.get("logging_config"), LoggingConfig):
        default = asdict(LoggingConfig())  # Default values are left out: a file may still set them.
        said = asdict(given["logging_config"]).items()
        given["logging_config"] = {name: value for name, value in said if value != default[name]}
    for name in ("actor_options", "logging_config"):
        if name in given:
            if not isinstance(given[name] or {}, Mapping):
                raise DeploymentError(f"{what}: {name} is a mapping of names to values, not {given[name]!r}")
            given[name] = dict(given[name] or {})
    _check_actor_options(given.get("actor_options"), what)
    checked_fields = {field: getattr(settings, field) for field in DeploymentSettings.__dataclass_fields__}
    found = checked(DeploymentSettings, {**checked_fields, **given}, what)
    _check_bundles(found, what)
    return found


def _check_bundles(settings: DeploymentSettings, what: str) -> None:
    """Raise DeploymentError for bundles in which no replica could start, and for a strategy without bundles."""
    bundles, strategy = settings.placement_group_bundles, settings.placement_group_strategy
    if not bundles:
        if strategy != DeploymentSettings().placement_group_strategy:
            raise DeploymentError(f"{what}: placement_group_strategy={strategy!r} is for placement_group_bundles")
        return
    lacking = {
        name: amount for name, amount in wanted_of(settings.actor_options).items() if bundles[0].get(name, 0.0) < amount
    }
    if lacking:
        raise DeploymentError(
            f"{what}: a replica's actor runs in the first of placement_group_bundles, {dict(bundles[0])}, which does "
            f"not have what actor_options want: {lacking}"
        )


def _check_actor_options(options: Mapping[str, Any] | None, what: str) -> None:
    """Raise DeploymentError for options that `@kernel.remote` does not take, before any replica starts."""
    if not options:
        return
    for name in _OF_SERVE:
        if name in options:
            raise DeploymentError(
                f"{what}: actor_options: {name} of a replica's actor is Serve's own; {_OF_SERVE[name]}"
            )
    for name, value in options.items():
        if isinstance(value, float) and math.isinf(value):
            raise DeploymentError(f"{what}: actor_options: {name} is a finite number, not {value!r}")
    try:
        kernel.remote(**options)(_Unset)
    except OptionError as error:
        raise DeploymentError(f"{what}: actor_options: {error}") from None


def _autoscaling(given: Any, default: AutoscalingConfig) -> AutoscalingConfig:
    if isinstance(given, AutoscalingConfig):
        return given
    if not isinstance(given, Mapping):
        raise DeploymentError(f"autoscaling_config is a mapping or an AutoscalingConfig, not {given!r}")
    whole = {"max_replicas": default.max_replicas, **with_values(given)}
    return checked(AutoscalingConfig, whole, "autoscaling_config")


def _check_arguments(target: Callable[..., Any], name: str, args: Any, kwargs: Any) -> None:
    if not inspect.isclass(target):
        return
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise DeploymentError(f"{name}.bind(): {error}") from None
