"""Endpoints: those of applications, and those set by hand, which split requests among several deployments."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from kernel_serve.control.application_state import ApplicationState, normal_prefix
from kernel_serve.errors import DeploymentError, NotServingError
from kernel_serve.names import missing, nearest
from kernel_serve.values import ApplicationSpec, Endpoint, Target, key_of

_STICKY = ("header:", "cookie:", "query:")


class Endpoints:
    """Endpoints that were set by hand, by name. One with the name of an application replaces the application's own."""

    def __init__(self) -> None:
        self.by_hand: dict[str, Endpoint] = {}

    def set(self, endpoint: Endpoint, applications: Mapping[str, ApplicationState], keys: Collection[str]) -> None:
        """Create or change an endpoint. `keys` are those of all deployments.

        Raises DeploymentError for a bad endpoint and for a prefix that another one has, and NotServingError for unknown
        deployments.
        """
        if endpoint.prefix or not endpoint.stands_alone:
            endpoint = replace(endpoint, prefix=checked_prefix(endpoint.prefix, f"endpoint {endpoint.name!r}"))
        _check(endpoint, keys)
        application = applications.get(endpoint.name)
        if endpoint.stands_alone and application is not None and not application.goal.is_backend:
            raise DeploymentError(
                f"an endpoint can't be named {endpoint.name!r}: there is an application of that name, whose requests "
                "it would take; give it another"
            )
        others = [each for each in self.all(applications).values() if each.name != endpoint.name]
        _check_conflict(endpoint, others, applications)
        self.by_hand[endpoint.name] = endpoint

    def delete(self, name: str, applications: Mapping[str, ApplicationState]) -> None:
        """Delete an endpoint that was set by hand. Raises NotServingError for an unknown name."""
        if self.by_hand.pop(name, None) is None:
            if name in applications:
                raise NotServingError(
                    f"endpoint {name!r} is that of an application, and goes with it: serve.delete({name!r})"
                )
            raise NotServingError(missing("endpoint", name, self.by_hand))

    def all(self, applications: Mapping[str, ApplicationState]) -> dict[str, Endpoint]:
        """Return every endpoint by name."""
        own = {name: endpoint for name, state in applications.items() if (endpoint := state.endpoint()) is not None}
        return {**own, **self.by_hand}

    def published(self, applications: Mapping[str, ApplicationState], keys: Collection[str]) -> tuple[Endpoint, ...]:
        """Return the endpoints for proxies, longest prefixes first, without targets whose deployments do not exist.

        Applications without a route are included with an empty prefix: gRPC finds them by their names.
        """
        told = []
        entries = {name: entry for name, state in applications.items() if (entry := state.entry()) is not None}
        for endpoint in {**entries, **self.all(applications)}.values():
            targets = _existing(endpoint.targets, keys)
            if targets or endpoint.stands_alone:
                told.append(replace(endpoint, targets=targets, shadows=_existing(endpoint.shadows, keys)))
        return tuple(sorted(told, key=lambda endpoint: (-len(endpoint.prefix), endpoint.prefix, endpoint.name)))

    def check_unused(self, backend: str) -> None:
        """Raise DeploymentError if an endpoint sends requests to a backend."""
        users = [
            each.name
            for each in self.by_hand.values()
            if any(target.deployment == key_of(backend, backend) for target in (*each.targets, *each.shadows))
        ]
        if users:
            raise DeploymentError(
                f"backend {backend!r} can't be deleted: endpoint {', '.join(map(repr, sorted(users)))} sends requests "
                f"to it; give them to others with serve.set_traffic, or delete the endpoint, first"
            )

    def forget_application(self, name: str) -> None:
        """Forget the endpoint that replaces the one of an application that is deleted."""
        if name in self.by_hand and not self.by_hand[name].stands_alone:
            del self.by_hand[name]

    def follow(self, application: ApplicationState, before: str | None) -> None:
        """Move an endpoint that replaces an application's own to the application's new route.

        It moves only if it had the route `before`; an endpoint that was set to another prefix stays there. Its traffic,
        shadows and the rest stay. Without a route it has no prefix: handles and gRPC reach it.
        """
        endpoint = self.by_hand.get(application.name)
        if endpoint is not None and endpoint.prefix == _prefix_of(before):
            prefix = _prefix_of(application.serving.route_prefix)
            self.by_hand[application.name] = replace(endpoint, prefix=prefix)

    def check_application(
        self,
        spec: ApplicationSpec,
        applications: Mapping[str, ApplicationState],
        before: ApplicationState | None = None,
    ) -> None:
        """Raise DeploymentError if an application can't have its prefix.

        `before` is its present state, if it exists.
        """
        by_hand = self.by_hand.get(spec.name)
        if by_hand is not None and by_hand.stands_alone and not spec.is_backend:
            raise DeploymentError(
                f"an application can't be named {spec.name!r}: there is an endpoint of that name, and its requests "
                f"would be that one's; give it another, or serve.delete_endpoint({spec.name!r}) first"
            )
        if spec.route_prefix is None:
            return
        prefix = checked_prefix(spec.route_prefix, f"application {spec.name!r}")
        if by_hand is not None:
            stands_apart = before is None or by_hand.prefix != _prefix_of(before.serving.route_prefix)
            if stands_apart or by_hand.prefix == prefix:
                return  # The prefix stays the same.
        own = replace(by_hand or Endpoint(spec.name, "", ()), prefix=prefix)
        others = {name: state for name, state in applications.items() if name != spec.name}
        _check_conflict(own, (each for each in self.all(others).values() if each.name != spec.name), others)
        for other in others.values():  # The goal of another application counts as well.
            route = other.goal.route_prefix
            theirs = self.by_hand.get(other.name)
            follows = theirs is None or theirs.prefix == _prefix_of(other.serving.route_prefix)
            if route is not None and follows and not other.deleting:
                wanted = theirs or Endpoint(other.name, "", ())
                _check_conflict(own, [replace(wanted, prefix=normal_prefix(route))], others)


def checked_prefix(prefix: str, what: str) -> str:
    """Return a prefix in its normal form. Raises DeploymentError for a bad one."""
    if not isinstance(prefix, str) or not prefix.startswith("/"):
        raise DeploymentError(f"the route prefix of {what} must begin with '/', not {prefix!r}")
    if any(character in prefix for character in "{}?# "):
        raise DeploymentError(
            f"the route prefix of {what} is compared as it is, so it can't hold any of '{{}}?# ', as {prefix!r} does"
        )
    if prefix.startswith("/-/") or prefix == "/-":
        raise DeploymentError(
            f"the route prefix of {what} can't be {prefix!r}: what is below /- the proxies answer themselves"
        )
    return normal_prefix(prefix)


def _prefix_of(route: str | None) -> str:
    return "" if route is None else normal_prefix(route)


def _check(endpoint: Endpoint, keys: Collection[str]) -> None:
    name = endpoint.name
    if not name:
        raise DeploymentError("an endpoint needs a name")
    if not endpoint.targets and not endpoint.stands_alone:
        raise DeploymentError(f"endpoint {name!r} needs a deployment that its requests go to")
    for target in (*endpoint.targets, *endpoint.shadows):
        if target.deployment not in keys:
            raise NotServingError(
                f"endpoint {name!r} names the deployment {target.deployment!r}, which there is not"
                f"{nearest(target.deployment, keys)}"
            )
        if not target.weight >= 0:
            raise DeploymentError(
                f"the weight of {target.deployment} at endpoint {name!r} is {target.weight!r}, not 0 or more"
            )
    if endpoint.targets and not sum(target.weight for target in endpoint.targets) > 0:
        raise DeploymentError(f"the weights of endpoint {name!r} are all 0, so its requests could go nowhere")
    for shadow in endpoint.shadows:
        if shadow.weight > 1:
            raise DeploymentError(
                f"the shadow {shadow.deployment} of endpoint {name!r} gets a share of the requests, at most 1, "
                f"not {shadow.weight!r}"
            )
    sticky = endpoint.sticky
    if sticky not in ("", "client") and not any(sticky.startswith(kind) and sticky != kind for kind in _STICKY):
        raise DeploymentError(
            f"sticky of endpoint {name!r} is 'header:NAME', 'cookie:NAME', 'query:NAME' or 'client', not {sticky!r}"
        )


def _check_conflict(
    endpoint: Endpoint, others: Iterable[Endpoint], applications: Mapping[str, ApplicationState]
) -> None:
    for other in others if endpoint.prefix else ():
        apart = endpoint.methods and other.methods and not endpoint.methods & other.methods
        if other.prefix == endpoint.prefix and not apart:
            is_its_own = other.name in applications and not other.stands_alone
            what = "application" if is_its_own else "endpoint"
            raise DeploymentError(
                f"{endpoint.name!r} can't have the route prefix {endpoint.prefix!r}: the {what} {other.name!r} has it. "
                f"Give it another, or delete {other.name!r} first"
            )


def _existing(targets: tuple[Target, ...], keys: Collection[str]) -> tuple[Target, ...]:
    return tuple(target for target in targets if target.deployment in keys)
