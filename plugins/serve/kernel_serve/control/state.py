"""The whole state of Serve, and the decision what to do next. Pure: the shell brings events and the time.

Events are the methods; `step` returns instructions. `changed` says that there is something to write down (see
`checkpoint.py`); the caller that has written it resets it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from kernel_serve.control.application_state import ApplicationState
from kernel_serve.control.checks import check_application, check_same_kind
from kernel_serve.control.deployment_state import DeploymentState
from kernel_serve.control.deployment_step import DeploymentStep
from kernel_serve.control.endpoints import Endpoints
from kernel_serve.control.instructions import (
    DrainProxy,
    DrainReplica,
    Instruction,
    KillProxy,
    KillReplica,
    PublishTopic,
    Reconfigure,
    StartProxy,
    StartReplica,
)
from kernel_serve.control.proxy_states import NodeFacts, ProxyStates
from kernel_serve.control.replica_state import STOPPING
from kernel_serve.control.scaling import Scaling
from kernel_serve.errors import DeploymentError
from kernel_serve.names import missing
from kernel_serve.values import ENDPOINTS, ApplicationSpec, Endpoint, RouterReport, key_of


class ServeState:
    """Applications with their deployments, endpoints, and proxies.

    `new_id` makes the id of a replica from a deployment's key.
    """

    def __init__(self, new_id: Callable[[str], str], scaling: Scaling) -> None:
        self.applications: dict[str, ApplicationState] = {}
        self.deployments: dict[str, DeploymentState] = {}
        self.endpoints = Endpoints()
        self.proxies = ProxyStates()
        self.scaling = scaling
        self.changed = False
        self._new_id = new_id
        self._leaving: frozenset[str] = frozenset()
        self._asked = True
        self._published: tuple[Endpoint, ...] | None = None

    # -- goals -----------------------------------------------------------------------------------------------------

    def deploy(self, specs: Iterable[ApplicationSpec], now: float, wall: float) -> None:
        """Set the goals of these applications, of all or (if one of them is bad) of none.

        `wall`: seconds since the epoch.

        Raises DeploymentError for a bad application.
        """
        given = list(specs)
        names = [spec.name for spec in given]
        planned = {name: state for name, state in self.applications.items() if name not in names}
        for spec in given:
            check_application(spec)
            if spec.name in self.applications:
                check_same_kind(spec, self.applications[spec.name].goal)
            if names.count(spec.name) > 1:
                raise DeploymentError(f"application {spec.name!r} is there twice in one deployment")
            self.endpoints.check_application(spec, planned, self.applications.get(spec.name))
            planned[spec.name] = ApplicationState(spec, wall)
        for spec in given:
            known = self.applications.get(spec.name)
            if known is None:
                self.applications[spec.name] = ApplicationState(spec, wall)
            else:
                route = known.serving.route_prefix
                known.deploy(spec, wall)
                self.endpoints.follow(known, route)
            self._aim(spec, now)
        self.changed = self._asked = True

    def delete(self, names: Iterable[str], now: float) -> list[str]:
        """Delete applications. Their endpoints end at once, their replicas when their requests are answered.

        Returns a sentence for each unknown name. Raises DeploymentError for a backend that is in use.
        """
        known, unknown = [], []
        for name in names:
            if name in self.applications:
                known.append(name)
            else:
                unknown.append(missing("application", name, self.applications))
        for name in known:
            if self.applications[name].goal.is_backend:
                self.endpoints.check_unused(name)
        for name in known:
            self.applications[name].deleting = True
            self.endpoints.forget_application(name)
        self.changed = self._asked = True
        return unknown

    def set_endpoint(self, endpoint: Endpoint) -> None:
        """Create or change an endpoint. Raises DeploymentError or NotServingError."""
        self.endpoints.set(endpoint, self.applications, self._existing())
        self.changed = self._asked = True

    def delete_endpoint(self, name: str) -> None:
        """Delete an endpoint that was set by hand. Raises NotServingError."""
        self.endpoints.delete(name, self.applications)
        self.changed = self._asked = True

    # -- events ----------------------------------------------------------------------------------------------------

    def deployment_of(self, replica: str) -> DeploymentState | None:
        """Return the deployment of a replica, None if the replica is unknown."""
        found = self.deployments.get(replica.rpartition("#")[0])
        return found if found is not None and replica in found.replicas else None

    def see_nodes(self, nodes: Mapping[str, NodeFacts], now: float) -> None:
        """Take in the living nodes, by id."""
        leaving = frozenset(node for node, facts in nodes.items() if facts.leaving)
        if leaving != self._leaving:
            self._leaving = leaving
            for state in self.deployments.values():
                state.touch()
        self.proxies.see_nodes(nodes, now)

    def report(self, report: RouterReport, now: float) -> None:
        """Take in a router's report. A deployment without replicas wakes if requests wait for it."""
        self.scaling.take(report, now)
        for key, queued in report.queued.items():
            state = self.deployments.get(key)
            if queued and state is not None and not state.running():
                self.scaling.hurry(key)
                if state.target == 0 and state.spec.settings.autoscaling is not None:
                    self.changed |= state.scale(1, f"{queued} requests wait for it", now)

    # -- decisions -------------------------------------------------------------------------------------------------

    def step(self, now: float) -> list[Instruction]:
        """Return the instructions of this moment. Call it after events, and at `next_step`."""
        out: list[Instruction] = []
        self._asked = False
        for key, target, why in self.scaling.decide(self.deployments, now):
            self.changed |= self.deployments[key].scale(target, why, now)
        self.changed |= self.scaling.is_unsaved(now)
        for _ in range(3):  # a result of one step may concern another one
            for application in list(self.applications.values()):
                self._judge(application, now)
            self._step_deployments(now, out)
        if self.proxies.next_step <= now:
            out += self.proxies.step(now)
        self.changed |= any(type(each) in _REMEMBERED for each in out)
        published = self.endpoints.published(self.applications, self._existing())
        if published != self._published:
            self._published = published
            out.append(PublishTopic(ENDPOINTS))
        return out

    @property
    def next_step(self) -> float:
        """The time at which to call `step`, if nothing happens before."""
        if self._asked:
            return -math.inf
        times = [state.next_step for state in self.deployments.values()]
        return min([*times, self.proxies.next_step, self.scaling.next_look], default=math.inf)

    def _step_deployments(self, now: float, out: list[Instruction]) -> None:
        due = [state for state in self.deployments.values() if state.next_step <= now]
        if not due:
            return
        per_node: dict[str, int] = {}
        for state in self.deployments.values():
            for replica in state.replicas.values():
                if replica.node and replica.phase != STOPPING:
                    per_node[replica.node] = per_node.get(replica.node, 0) + 1
        for state in due:
            before = state.converged
            out += DeploymentStep(state, now, self._leaving, per_node).take()
            self.changed |= state.converged != before
            if state.deleting and not state.replicas:
                del self.deployments[state.key]
                self.scaling.forget(state.key)
                self.changed = True
                out.append(PublishTopic(state.key))

    def _judge(self, application: ApplicationState, now: float) -> None:
        """Find out whether an application is deleted, has reached its goal, or must go back to the good version."""
        if application.deleting:
            self._let_go(application, now)
            return
        parts = [self.deployments[each.key] for each in application.goal.deployments]
        if application.goal is not application.good:
            bad = next((state for state in parts if state.failing), None)
            if bad is not None and application.good is not None:
                self._roll_back(application, bad, now)
            elif all(state.converged for state in parts):
                route = application.serving.route_prefix
                application.good = application.goal
                self.endpoints.follow(application, route)
                self.changed = True
        wanted = application.wanted_keys()
        for state in self._parts(application.name):
            if state.key not in wanted:
                state.delete(now)

    def _roll_back(self, application: ApplicationState, bad: DeploymentState, now: float) -> None:
        version = bad.spec.version
        message = (
            f"deployment {bad.spec.name!r} could not be made to run (it failed {bad.attempts.in_a_row}), so the "
            f"application stays at what ran before. The last failure:\n{bad.attempts.message}"
        )
        bad.note(now, f"version {version} is given up")
        application.roll_back(message)
        self._aim(application.goal, now)
        bad.rolled_back = message
        self.changed = True

    def _let_go(self, application: ApplicationState, now: float) -> None:
        """Delete the ingress first: while it has requests, it may still call the other deployments."""
        first = {key_of(spec.name, spec.ingress) for spec in (application.goal, application.serving)}
        parts = self._parts(application.name)
        entries = [state for state in parts if state.key in first]
        for state in entries or parts:
            state.delete(now)
        if not parts:
            del self.applications[application.name]
            self.changed = True

    def _aim(self, spec: ApplicationSpec, now: float) -> None:
        """Make `spec` the goal of the deployments of an application."""
        for each in spec.deployments:
            state = self.deployments.get(each.key)
            if state is None:
                target = self.scaling.first_target(each)
                self.deployments[each.key] = DeploymentState(each, target, spec.route_prefix, self._new_id)
            else:
                scaling = self.scaling
                target = scaling.first_target(each) if state.deleting else scaling.next_target(state.target, each)
                state.change(each, spec.route_prefix, now)
                state.scale(target, "it was deployed so", now, by_user=True)

    def _parts(self, application: str) -> list[DeploymentState]:
        return [state for state in self.deployments.values() if state.spec.application == application]

    def _existing(self) -> set[str]:
        return {key for key, state in self.deployments.items() if not state.deleting}

    @property
    def published_endpoints(self) -> tuple[Endpoint, ...]:
        """The endpoints that were published last."""
        return self._published or ()

    # -- queries ---------------------------------------------------------------------------------------------------

    def validate(self) -> None:
        """Raise AssertionError if the state is not consistent."""
        replicas: set[str] = set()
        for key, state in self.deployments.items():
            assert key == state.key, f"{state.key} is kept as {key}"
            state.validate()
            assert not replicas & state.replicas.keys(), f"a replica of {key} is one of another deployment, too"
            replicas |= state.replicas.keys()
            bounds = state.spec.settings.autoscaling
            if bounds is not None and not state.deleting:
                assert state.target <= bounds.max_replicas, f"{key} is to have {state.target} replicas"
                assert state.target >= bounds.min_replicas, f"{key} is to have {state.target} replicas"
        for application in self.applications.values():
            if not application.deleting:
                for each in application.goal.deployments:
                    assert each.key in self.deployments, f"{each.key} of a goal is missing"
        self.proxies.validate()


_REMEMBERED = (StartReplica, Reconfigure, DrainReplica, KillReplica, PublishTopic, StartProxy, DrainProxy, KillProxy)
