"""The endpoints of a proxy, in which it looks requests up."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

from kernel_serve.errors import DeploymentError, DeploymentUnavailableError
from kernel_serve.traffic.paths import Prefixes, normal
from kernel_serve.traffic.sticky import Draw, key_reader
from kernel_serve.traffic.turns import Shares, Turns
from kernel_serve.values import Endpoint
from kernel_spec.dataclass import dataclass

_TOLD = 5
"""The number of prefixes that a 404 lists."""


class ServedEndpoint:
    """Holds an endpoint, and the state of its splits."""

    def __init__(self, endpoint: Endpoint, random: Random) -> None:
        self.endpoint = endpoint
        self.prefix = normal(endpoint.prefix)
        """The prefix without a slash at its end: ASGI's root path."""
        answering = [target for target in endpoint.targets if target.weight > 0]
        self._keys = [target.deployment for target in answering]
        weights = [target.weight for target in answering]
        self._only = self._keys[0] if len(self._keys) == 1 else None
        self._turns = Turns(weights, random)
        self._key_of = key_reader(endpoint.sticky)
        self._draw = Draw(zip(self._keys, weights, strict=True))
        self._shadow_keys = [target.deployment for target in endpoint.shadows]
        self._shadows = Shares([target.weight for target in endpoint.shadows], random)

    @property
    def answers(self) -> bool:
        """Whether it has a deployment that answers its requests."""
        return bool(self._keys)

    def target(self, scope: Mapping[str, Any]) -> str:
        """Return the key of the deployment that answers the request with this ASGI scope.

        In a sticky endpoint the request's key decides; requests without one take turns, as in other endpoints. Raises
        DeploymentUnavailableError if the endpoint has no target.
        """
        if self._only is not None:
            return self._only
        if not self._keys:
            raise DeploymentUnavailableError(
                f"endpoint {self.endpoint.name!r} has nothing to answer yet: give it traffic with serve.set_traffic"
            )
        if self._key_of is not None and (key := self._key_of(scope)) is not None:
            return self._keys[self._draw.of(key)]
        return self._keys[self._turns.next()]

    def shadows(self) -> Sequence[str]:
        """Return the keys of the deployments that get a copy of the next request."""
        if not self._shadow_keys:
            return ()
        return [self._shadow_keys[index] for index in self._shadows.next()]


@dataclass(frozen=True, slots=True)
class MethodNotAllowed:
    """The path has endpoints, but none for the method: 405, with `allow` as the header of that name."""

    allow: str


class EndpointTable:
    """Holds a proxy's endpoints. Unchanged endpoints of the table `before` keep the state of their splits."""

    def __init__(self, endpoints: Iterable[Endpoint], random: Random, before: EndpointTable | None = None) -> None:
        self.endpoints = tuple(endpoints)
        kept = before._by_name if before is not None else {}
        self._served: list[ServedEndpoint] = []
        by_prefix: dict[str, dict[str, ServedEndpoint]] = {}
        for endpoint in self.endpoints:
            served = kept.get(endpoint.name)
            if served is None or served.endpoint != endpoint:
                served = ServedEndpoint(endpoint, random)
            self._served.append(served)
            if not endpoint.prefix:  # handles and gRPC reach it, by its name
                continue
            by_method = by_prefix.setdefault(served.prefix, {})
            for method in methods_of(endpoint) or ("",):
                by_method[method] = served
        self._by_name: dict[str, ServedEndpoint] = {served.endpoint.name: served for served in self._served}
        self._prefixes = Prefixes({prefix: (by_method, _allowed(by_method)) for prefix, by_method in by_prefix.items()})
        self.known = _told(sorted(prefix or "/" for prefix in by_prefix))
        """The prefixes that exist, for the answer to an unknown path."""

    def find(self, path: str, method: str = "GET") -> ServedEndpoint | MethodNotAllowed | None:
        """Return the endpoint for a request; None for an unknown path."""
        found = self._prefixes.find(path)
        if found is None:
            return None
        by_method, not_allowed = found
        return by_method.get(method) or by_method.get("") or not_allowed

    def named(self, name: str) -> ServedEndpoint | None:
        """Return the endpoint of that name; None for an unknown name."""
        return self._by_name.get(name)

    def text(self) -> str:
        """Return the answer of `/-/routes`: a JSON object of prefixes and the names of their endpoints."""
        table: dict[str, Any] = {}
        reached = [endpoint for endpoint in self.endpoints if endpoint.prefix]
        for endpoint in sorted(reached, key=lambda each: (each.prefix, each.name)):
            before = table.get(endpoint.prefix)
            if before is None:
                table[endpoint.prefix] = endpoint.name
            else:
                table[endpoint.prefix] = [*(before if isinstance(before, list) else [before]), endpoint.name]
        return json.dumps(table)


def _told(prefixes: Sequence[str]) -> str:
    if not prefixes:
        return "there is no route yet"
    left = len(prefixes) - _TOLD
    more = f" and {left} more" if left > 0 else ""
    return f"there {'is' if len(prefixes) == 1 else 'are'} {', '.join(prefixes[:_TOLD])}{more} (see /-/routes)"


def _allowed(by_method: Mapping[str, ServedEndpoint]) -> MethodNotAllowed:
    return MethodNotAllowed(", ".join(sorted(by_method)))


def methods_of(endpoint: Endpoint) -> frozenset[str]:
    """Return the methods that `endpoint` takes, empty for all. An endpoint that takes GET takes HEAD."""
    methods = frozenset(method.upper() for method in endpoint.methods)
    return methods | {"HEAD"} if "GET" in methods else methods


def check(endpoint: Endpoint, others: Iterable[Endpoint] = ()) -> None:
    """Raise DeploymentError if `endpoint` can't be served.

    It can't if one in `others` takes the same requests, either.
    """
    what = f"endpoint {endpoint.name!r}"
    if not endpoint.prefix.startswith("/"):
        raise DeploymentError(f"the prefix of {what} begins with '/', it is not {endpoint.prefix!r}")
    if not endpoint.targets:
        raise DeploymentError(f"{what} has no target: name at least one deployment")
    for target in endpoint.targets:
        if not 0 <= target.weight < float("inf"):
            raise DeploymentError(f"{what} gives {target.deployment} weight {target.weight!r}: weights are from 0 on")
    if not sum(target.weight for target in endpoint.targets) > 0:
        raise DeploymentError(f"all targets of {what} have weight 0: one at least needs more")
    for target in endpoint.shadows:
        if not 0 <= target.weight <= 1:
            raise DeploymentError(
                f"{what} gives its shadow {target.deployment} a share of {target.weight!r}: a share is from 0 to 1"
            )
    key_reader(endpoint.sticky)
    for other in others:
        if other.name != endpoint.name and normal(other.prefix) == normal(endpoint.prefix):
            _check_methods(endpoint, other)


def _check_methods(endpoint: Endpoint, other: Endpoint) -> None:
    mine, theirs = methods_of(endpoint), methods_of(other)
    if bool(mine) != bool(theirs):
        return  # the one with methods has these, the other one the rest
    shared = mine & theirs
    if not mine or shared:
        raise DeploymentError(
            f"endpoint {endpoint.name!r} can't have prefix {endpoint.prefix!r}"
            f"{' for ' + ', '.join(sorted(shared)) if shared else ''}: endpoint {other.name!r} has it already"
        )
