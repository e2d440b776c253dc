"""One application: deployments that are deployed, rolled back and deleted together.

The version that was deployed last is the *goal*. Once all of it runs, it is *good*. If a part of a goal can't be made
to run, the whole application goes back to the last good version: deployments call each other, so their versions belong
together.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernel_serve.control import deployment_status
from kernel_serve.control.deployment_state import DeploymentState
from kernel_serve.values import ApplicationSpec, Endpoint, Target, key_of

NOT_STARTED = "NOT_STARTED"
DEPLOYING = "DEPLOYING"
RUNNING = "RUNNING"
DEPLOY_FAILED = "DEPLOY_FAILED"
UNHEALTHY = "UNHEALTHY"
DELETING = "DELETING"


class ApplicationState:
    """Holds the goal and the last good version of one application.

    `deployed` is the time of the last deploy, in seconds since the epoch.
    """

    def __init__(self, goal: ApplicationSpec, deployed: float) -> None:
        self.name = goal.name
        self.goal = goal
        self.good: ApplicationSpec | None = None
        self.deployed = deployed
        self.deleting = False
        self.failure = ""
        """The reason why the last goal was given up, or is not reached."""

    def deploy(self, goal: ApplicationSpec, deployed: float) -> None:
        """Set a new goal."""
        if self.deleting:
            self.good = None
        self.goal, self.deployed, self.failure, self.deleting = goal, deployed, "", False

    def roll_back(self, failure: str) -> None:
        """Go back to the good version, because of `failure`."""
        assert self.good is not None
        self.goal, self.failure = self.good, failure

    @property
    def serving(self) -> ApplicationSpec:
        """The version that answers requests from outside: a new one only once it runs."""
        return self.good or self.goal

    def wanted_keys(self) -> set[str]:
        """Return the keys of the deployments that should exist."""
        if self.deleting:
            return set()
        specs = (self.goal, *((self.good,) if self.good else ()))
        return {each.key for spec in specs for each in spec.deployments}

    def endpoint(self) -> Endpoint | None:
        """The application's own endpoint, None without a route."""
        spec = self.serving
        if self.deleting or spec.route_prefix is None:
            return None
        return Endpoint(self.name, normal_prefix(spec.route_prefix), (Target(key_of(spec.name, spec.ingress)),))

    def entry(self) -> Endpoint | None:
        """The endpoint for requests that name the application, as gRPC calls do, and no path; None for a backend."""
        spec = self.serving
        if self.deleting or spec.is_backend:
            return None
        return self.endpoint() or Endpoint(self.name, "", (Target(key_of(spec.name, spec.ingress)),))

    def status(self, deployments: Mapping[str, DeploymentState]) -> str:
        """Return the status, one of those above. `deployments` are all deployments by key."""
        if self.deleting:
            return DELETING
        found = [deployments[each.key] for each in self.goal.deployments if each.key in deployments]
        statuses = [deployment_status.status_of(state) for state in found]
        if self.failure or deployment_status.DEPLOY_FAILED in statuses:
            return DEPLOY_FAILED
        if deployment_status.UNHEALTHY in statuses:
            return UNHEALTHY
        return RUNNING if found and all(state.converged for state in found) else DEPLOYING

    def message(self, deployments: Mapping[str, DeploymentState], now: float) -> str:
        """Return what explains the status, or "" when all is well."""
        if self.failure:
            return self.failure
        said = []
        for each in self.goal.deployments:
            if each.key in deployments and (text := deployment_status.message_of(deployments[each.key], now)):
                said.append(f"{each.name}: {text}")
        return "\n".join(said)


def normal_prefix(prefix: str) -> str:
    """Return a prefix without a slash at its end; "/" stays as it is."""
    return prefix.rstrip("/") or "/"
