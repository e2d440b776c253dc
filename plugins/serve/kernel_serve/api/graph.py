"""Turn bound deployments into what the controller gets: every deployment once, with handles where others were bound."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kernel_serve.api.declared import Application, Deployment
from kernel_serve.api.handle import DeploymentHandle
from kernel_serve.errors import DeploymentError
from kernel_serve.settings import DeploymentSettings
from kernel_serve.values import ApplicationSpec, DeploymentSpec
from kernel_serve.wire import by_value
from kernel_spec.errors import SerializationError

_NEED_NEW_REPLICAS = (
    "actor_options", "placement_group_bundles", "placement_group_strategy", "max_replicas_per_node",
)  # fmt: skip

Change = Callable[[str, DeploymentSettings], DeploymentSettings]
"""Maps the name of a deployment and its settings to the settings to use."""


def unchanged(deployment: str, settings: DeploymentSettings) -> DeploymentSettings:
    """Return the settings as they are."""
    return settings


def flatten(
    application: Application,
    name: str,
    route_prefix: str | None,
    change: Change = unchanged,
    code_version: str = "",
) -> ApplicationSpec:
    """Return the specification of an application.

    Different bindings of deployments with one name are told apart by a number (`Model`, `Model_1`); one that is bound
    in several places is one deployment. `change(deployment, settings)` may replace settings. `code_version` says which
    code is the same, for callers that know it better than a digest of the pickles, which differs from process to
    process. Raises DeploymentError for what can't be deployed, and SerializationError for what can't be pickled.
    """
    specifying = _Specifying(name, change, code_version)
    ingress = specifying.add(application)
    return ApplicationSpec(name, ingress, tuple(specifying.specs.values()), check_prefix(route_prefix))


class Bound(NamedTuple):
    """Holds a deployment of an application: its name there, and its constructor's arguments."""

    name: str
    deployment: Deployment
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    settings: DeploymentSettings


class Flattening:
    """Collects bound deployments once each, after those that are bound to them."""

    def __init__(self, application: str, change: Change = unchanged) -> None:
        self.application = application
        self._change = change
        self._names: dict[int, str] = {}
        self._under_way: set[int] = set()

    def handle(self, deployment: str) -> DeploymentHandle:
        """Return the handle that a constructor gets for a bound deployment."""
        return DeploymentHandle(deployment, self.application)

    def keep(self, bound: Bound) -> None:
        """Add a deployment."""
        raise NotImplementedError

    def add(self, node: Application) -> str:
        """Add a bound deployment and all that are bound to it; return its name. Raises DeploymentError."""
        known = self._names.get(id(node))
        if known is not None:
            return known
        if id(node) in self._under_way:
            raise DeploymentError(f"deployment {node.deployment.name} is bound, in the end, to itself")
        self._under_way.add(id(node))
        args = self._filled(tuple(node.args))
        kwargs = self._filled(dict(node.kwargs))
        self._under_way.discard(id(node))
        name = self._free_name(node.deployment.name)
        self._names[id(node)] = name
        settings = self._change(name, node.deployment.settings)
        _check_reconfigurable(name, node.deployment.func_or_class, settings.user_config)
        self.keep(Bound(name, node.deployment, args, kwargs, settings))
        return name

    def _free_name(self, name: str) -> str:
        free, count = name, 0
        while free in self._names.values():
            count += 1
            free = f"{name}_{count}"
        return free

    def _filled(self, value: Any) -> Any:
        """Return `value` with handles in place of bound deployments, inside of containers, too."""
        if isinstance(value, Application):
            return self.handle(self.add(value))
        if type(value) in (list, tuple, set):
            return type(value)(self._filled(each) for each in value)
        if type(value) is dict:
            return {self._filled(key): self._filled(each) for key, each in value.items()}
        return value


class _Specifying(Flattening):
    def __init__(self, application: str, change: Change, code_version: str) -> None:
        super().__init__(application, change)
        self._code_version = code_version
        self.specs: dict[str, DeploymentSpec] = {}

    def keep(self, bound: Bound) -> None:
        name, deployment, args, kwargs, settings = bound
        try:
            code = by_value.dumps((deployment.func_or_class, args, kwargs))
        except Exception as error:
            raise SerializationError(
                f"deployment {name} can't be sent to its replicas: {error}; make what can't travel (locks, "
                "connections, open files) in its constructor"
            ) from error
        version = deployment.version or self._code_version or _digest(code)
        self.specs[name] = DeploymentSpec(self.application, name, code, settings, _digest(version, settings))


def _check_reconfigurable(name: str, target: Any, user_config: Any) -> None:
    if user_config is not None and not (inspect.isclass(target) and hasattr(target, "reconfigure")):
        raise DeploymentError(
            f"deployment {name} has a user_config, but no method reconfigure(self, user_config) to take it"
        )


def _digest(version: str | bytes, settings: DeploymentSettings | None = None) -> str:
    text = version if isinstance(version, bytes) else version.encode()
    if settings is not None:
        needs: Mapping[str, Any] = {name: getattr(settings, name) for name in _NEED_NEW_REPLICAS}
        text += repr(sorted(needs.items())).encode()
    return hashlib.sha256(text).hexdigest()[:16]


def check_prefix(prefix: str | None) -> str | None:
    """Return a route prefix in its normal form. Raises DeploymentError for a bad one."""
    if prefix is None:
        return None
    if not isinstance(prefix, str) or not prefix.startswith("/") or "{" in prefix:
        raise DeploymentError(f"a route_prefix is a path that begins with '/', without parameters, not {prefix!r}")
    return prefix.rstrip("/") or "/"
