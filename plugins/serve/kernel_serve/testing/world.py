"""A world of nodes and replicas that is only imagined: it carries out the controller's instructions, with a clock.

world = World(nodes={"a": 4})
world.deploy(application("shop", web=settings()))
world.run(5.0)
assert world.ready("shop#web") == 1
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from kernel_serve.control.instructions import (
    CheckProxy,
    CheckReplica,
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
from kernel_serve.control.proxy_states import NodeFacts
from kernel_serve.control.scaling import Scaling
from kernel_serve.control.state import ServeState
from kernel_serve.settings import AutoscalingConfig, DeploymentSettings
from kernel_serve.values import ApplicationSpec, DeploymentSpec, RouterReport, Standing
from kernel_spec.dataclass import dataclass


@dataclass(slots=True)
class Behaviour:
    """The behaviour of a version's replicas: seconds until they take requests, failures of constructor and checks."""

    start_seconds: float = 0.2
    drain_seconds: float = 0.5
    constructor_error: str = ""
    check_error: str = ""
    reconfigure_error: str = ""


@dataclass(slots=True)
class Loads:
    """Holds the load of deployments, set directly: key to (queued, ongoing)."""

    loads: dict[str, tuple[int, int]] = field(default_factory=dict)

    def take(self, now: float, report: RouterReport) -> None:
        """Take the report of the only router."""
        for key, queued in report.queued.items():
            self.loads[key] = (queued, sum(report.ongoing.get(key, {}).values()))

    def load(self, now: float, key: str, alive: Any = None) -> Any:
        """Return the load that was set, None without one."""
        if key not in self.loads:
            return None
        queued, ongoing = self.loads[key]
        return _Load(queued, ongoing)


@dataclass(slots=True)
class _Load:
    queued: int
    ongoing: int


class PlainAutoscaler:
    """Wants a replica for each request, at once."""

    def __init__(self, settings: AutoscalingConfig, name: str = "") -> None:
        self.settings = settings
        self._seen: int | None = None

    def observe(self, now: float, queued: int, ongoing: int) -> None:
        """Take in the numbers."""
        self._seen = queued + ongoing

    def decide(self, now: float, current_target: int, ready: int) -> int:
        """Return the number of replicas that there should be."""
        wanted = current_target if self._seen is None else self._seen
        return min(max(wanted, self.settings.min_replicas), self.settings.max_replicas)

    def update(self, settings: AutoscalingConfig) -> None:
        """Take other settings."""
        self.settings = settings

    def saved(self, epoch: float) -> dict[str, Any]:
        """Return {}: it needs only what is reported."""
        return {}

    def restore(self, saved: Mapping[str, Any], now: float, epoch: float) -> None:
        """Do nothing: it has no state."""

    def explanation(self, now: float, current_target: int) -> str:
        """Return its reason."""
        return f"{self._seen} requests"


class ControlWorld:
    """Nodes with room for a number of replicas each, on which the instructions of a `ServeState` are carried out."""

    def __init__(self, nodes: Mapping[str, int], state: ServeState | None = None) -> None:
        numbers = itertools.count()
        self.now = 1000.0
        self.loads = Loads()
        self.state = state or ServeState(lambda key: f"{key}#{next(numbers)}", Scaling(PlainAutoscaler, self.loads))
        self.room = dict(nodes)
        self.leaving: set[str] = set()
        self.placed: dict[str, str] = {}
        """The node of each replica that holds a place, by its id."""
        self.alive: dict[str, str] = {}
        """The version of each replica that takes requests, by its id."""
        self.waiting: dict[str, StartReplica] = {}
        self.behaviours: dict[str, Behaviour] = {}
        self.settings: dict[str, DeploymentSettings] = {}
        self.standings: dict[str, Standing] = {}
        """The standing that each replica that takes requests was sent last."""
        self.proxies: dict[str, str] = {}
        self.proxy_error = ""
        self.done: list[tuple[float, Instruction]] = []
        self.watchers: list[Callable[[ControlWorld, Instruction], None]] = []
        """Called before each instruction is carried out."""
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self.see()

    # -- actions of users and faults -------------------------------------------------------------------------------

    def deploy(self, *specs: ApplicationSpec) -> None:
        """Deploy applications."""
        self.state.deploy(specs, self.now, 0.0)
        self.settle()

    def delete(self, *names: str) -> list[str]:
        """Delete applications; return a sentence for each unknown name."""
        unknown = self.state.delete(names, self.now)
        self.settle()
        return unknown

    def load(self, key: str, queued: int, ongoing: int = 0) -> None:
        """Set how many requests wait and are worked on, as a router reports them."""
        self.state.report(RouterReport("r", "a", {key: queued}, {key: {"x": ongoing}}), self.now)
        self.settle()

    def see(self) -> None:
        """Show the controller the nodes as they are."""
        facts = {name: NodeFacts(index == 0, name in self.leaving) for index, name in enumerate(self.room)}
        self.state.see_nodes(facts, self.now)
        self.settle()

    def drain(self, node: str) -> None:
        """Mark a node as about to leave."""
        self.leaving.add(node)
        self.see()

    def lose(self, node: str) -> None:
        """End a node with everything on it."""
        del self.room[node]
        for id in [id for id, place in self.placed.items() if place == node]:
            self.kill(id)
        self.see()

    def kill(self, id: str) -> None:
        """Kill a replica."""
        if id in self.placed:
            self._forget(id)
            self._tell(lambda: self._deployment(id, "failed", "its process ended: signal 9"))
            self.settle()

    def ready(self, key: str, version: str | None = None) -> int:
        """Return the number of replicas of a deployment that take requests."""
        return sum(id.rpartition("#")[0] == key and version in (None, of) for id, of in self.alive.items())

    def ranks(self, key: str) -> dict[str, int]:
        """Return the ranks of the replicas that take requests, as they were sent; check that all know their number."""
        told = {id: self.standings[id] for id in self.alive if id.rpartition("#")[0] == key}
        assert {each.world_size for each in told.values()} <= {self.state.deployments[key].target}
        return {id: each.rank for id, each in told.items()}

    # -- time ------------------------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Let `seconds` pass."""
        end = self.now + seconds
        while True:
            due = min(self._agenda[0][0] if self._agenda else end, max(self.now, self.state.next_step), end)
            self.now = due
            while self._agenda and self._agenda[0][0] <= self.now:
                heapq.heappop(self._agenda)[2]()
            self.settle()
            if self.now >= end:
                return

    def settle(self) -> None:
        """Have the controller do what is due now."""
        for _ in range(50):
            if self.state.next_step > self.now:
                return
            for instruction in self.state.step(self.now):
                for watcher in self.watchers:
                    watcher(self, instruction)
                self.done.append((self.now, instruction))
                self._carry_out(instruction)
            self.state.validate()
        raise AssertionError("the controller does not come to rest")

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        """Call `what` in `seconds`."""
        heapq.heappush(self._agenda, (self.now + seconds, next(self._order), what))

    # -- instructions ----------------------------------------------------------------------------------------------

    def _carry_out(self, instruction: Instruction) -> None:
        if isinstance(instruction, StartReplica):
            self.waiting[instruction.id] = instruction
            self._place()
        elif isinstance(instruction, KillReplica):
            self.waiting.pop(instruction.id, None)
            self._forget(instruction.id)
            self.after(0.01, lambda: self._deployment(instruction.id, "gone"))
        elif isinstance(instruction, DrainReplica):
            version = self.alive.pop(instruction.id, "")
            seconds = min(self._behaviour(version).drain_seconds, instruction.timeout)
            self.after(seconds, lambda: self._drained(instruction.id))
        elif isinstance(instruction, CheckReplica):
            self.after(0.01, lambda: self._checked(instruction.id))
        elif isinstance(instruction, Reconfigure):
            self.after(0.05, lambda: self._reconfigured(instruction))
        elif isinstance(instruction, StartProxy):
            self.after(0.1, lambda: self._proxy_started(instruction))
        elif isinstance(instruction, (DrainProxy, KillProxy)):
            self.proxies.pop(instruction.id, None)
            if isinstance(instruction, DrainProxy):
                self.after(0.05, lambda: self.state.proxies.aside(instruction.id, self.now))
            self.after(0.1, lambda: self.state.proxies.gone(instruction.id, self.now))
        elif isinstance(instruction, CheckProxy):
            self.after(0.01, lambda: self.state.proxies.healthy(instruction.id, self.now))
        else:
            assert isinstance(instruction, PublishTopic)

    def _place(self) -> None:
        for id, start in list(self.waiting.items()):
            nodes = [n for n in self.room if n not in self.leaving and self._free(n) > 0]
            if not nodes:
                self._tell(lambda id=id: self._deployment(id, "waits", "there is no room", True))  # type: ignore[misc]
                continue
            del self.waiting[id]
            self.placed[id] = max(nodes, key=self._free)
            self._tell(lambda id=id: self._deployment(id, "waits", "", True))  # type: ignore[misc]
            behaviour = self._behaviour(start.spec.version)
            self.after(behaviour.start_seconds, lambda start=start: self._started(start))  # type: ignore[misc]

    def _started(self, start: StartReplica) -> None:
        if start.id not in self.placed:
            return
        behaviour = self._behaviour(start.spec.version)
        error = behaviour.constructor_error
        if start.spec.settings.user_config == "bad":
            error = error or "ValueError: bad user_config"
        if error:
            self._forget(start.id)
            self._deployment(start.id, "failed", error)
            return
        self.alive[start.id] = start.spec.version
        self.settings[start.id] = start.spec.settings
        self.standings[start.id] = start.standing
        self._deployment(start.id, "ready", self.placed[start.id], f"socket of {start.id}")

    def _drained(self, id: str) -> None:
        self._forget(id)
        self._deployment(id, "gone")

    def _checked(self, id: str) -> None:
        error = self._behaviour(self.alive.get(id, "")).check_error
        if id not in self.placed:
            return
        self._deployment(id, "unhealthy", error) if error else self._deployment(id, "healthy")

    def _reconfigured(self, instruction: Reconfigure) -> None:
        if instruction.id not in self.alive:
            return
        if instruction.settings.user_config == "bad":
            self._deployment(instruction.id, "reconfigure_failed", "ValueError: bad user_config")
        else:
            self.settings[instruction.id] = instruction.settings
            self.standings[instruction.id] = instruction.standing
            self._deployment(instruction.id, "reconfigured")

    def _proxy_started(self, start: StartProxy) -> None:
        if self.proxy_error:
            self.state.proxies.failed(start.id, self.proxy_error, False, self.now)
        else:
            self.proxies[start.id] = start.node
            grpc = f"{start.http.host}:{start.grpc.port}" if start.grpc.grpc_servicer_functions else ""
            self.state.proxies.ready(start.id, f"{start.http.host}:{start.http.port}", grpc, self.now)

    # -- helpers ---------------------------------------------------------------------------------------------------

    def _deployment(self, id: str, event: str, *details: Any) -> None:
        state = self.state.deployment_of(id)
        if state is not None:
            getattr(state, event)(id, *details, self.now)

    def _forget(self, id: str) -> None:
        self.alive.pop(id, None)
        if self.placed.pop(id, None) is not None:
            self._place()

    def _free(self, node: str) -> int:
        return self.room[node] - sum(place == node for place in self.placed.values())

    def _behaviour(self, version: str) -> Behaviour:
        return self.behaviours.setdefault(version, Behaviour())

    def _tell(self, event: Callable[[], None]) -> None:
        self.after(0.0, event)


def settings(**given: Any) -> DeploymentSettings:
    """Return settings."""
    return DeploymentSettings(**given)


def application(
    name: str = "app", prefix: str | None = "/", version: str = "1", **deployments: DeploymentSettings
) -> ApplicationSpec:
    """Return an application of these deployments, all of one version; the first one is the ingress."""
    given = deployments or {"main": settings()}
    specs = tuple(DeploymentSpec(name, each, b"", values, version) for each, values in given.items())
    return ApplicationSpec(name, next(iter(given)), specs, prefix)
