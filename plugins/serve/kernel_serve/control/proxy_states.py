"""The proxies that should exist, and the state of those that do. Pure, as the states of deployments."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from kernel_serve.control.attempts import SETTLED_SECONDS, Attempts
from kernel_serve.control.instructions import CheckProxy, DrainProxy, Instruction, KillProxy, StartProxy
from kernel_serve.settings import GRPCOptions, HTTPOptions, ProxyLocation
from kernel_spec.dataclass import dataclass

STARTING = "STARTING"
HEALTHY = "HEALTHY"
UNHEALTHY = "UNHEALTHY"
DRAINING = "DRAINING"

CHECK_SECONDS = 5.0
CHECK_TIMEOUT = 10.0
FAILED_CHECKS = 3
DRAIN_SECONDS = 30.0
IDLE_SECONDS = 5.0
"""Seconds that a stopping proxy keeps connections without requests, where other proxies serve."""
STOP_MARGIN = 10.0


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Describes a living node. `leaving`: it is about to leave."""

    head: bool = False
    leaving: bool = False


@dataclass(frozen=True, slots=True)
class ProxyWish:
    """Says where proxies should run, and their options."""

    location: ProxyLocation
    http: HTTPOptions
    grpc: GRPCOptions


@dataclass(slots=True)
class ProxyState:
    """Holds the state of one proxy."""

    id: str
    node: str
    index: int
    wish: ProxyWish
    round: int
    phase: str = STARTING
    address: str = ""
    grpc_address: str = ""
    """The address of its gRPC server; "" without one."""
    ready_at: float = 0.0
    checking: bool = False
    next_check: float = 0.0
    failed_checks: int = 0
    stop_by: float = 0.0
    killed: bool = False
    aside: bool = False
    """Whether it takes no more connections."""


class ProxyStates:
    """Holds the proxies of all nodes. Without a wish no proxy should exist."""

    def __init__(self) -> None:
        self.wish: ProxyWish | None = None
        self.nodes: dict[str, NodeFacts] = {}
        self.proxies: dict[str, ProxyState] = {}
        self.attempts: dict[tuple[str, int], Attempts] = {}
        self.next_step = -math.inf
        self.history: deque[str] = deque(maxlen=200)
        self._number = 0
        self._ports: dict[tuple[str, int], tuple[int, int]] = {}
        """The last ports for HTTP and gRPC (0: off) of the proxy in each place.

        "Any free port" should stay the same one.
        """

    # -- goals and events ------------------------------------------------------------------------------------------

    def configure(self, wish: ProxyWish | None, now: float) -> bool:
        """Set how proxies should be; None to have none.

        Return whether that is new. Proxies with other options are replaced.
        """
        if wish == self.wish:
            return False
        self.wish = wish
        self.attempts.clear()
        for proxy in self.proxies.values():
            self._know_port(proxy)
        self._note(now, f"are to be at {wish.location}, {wish.http.host}:{wish.http.port}" if wish else "are to go")
        return True

    def see_nodes(self, nodes: Mapping[str, NodeFacts], now: float) -> None:
        """Take in the living nodes, by id."""
        if nodes == self.nodes:
            return
        self.nodes = dict(nodes)
        for proxy in [each for each in self.proxies.values() if each.node not in nodes]:
            del self.proxies[proxy.id]
            self._note(now, f"{proxy.id} went with its node")
        for place in [each for each in (*self.attempts, *self._ports) if each[0] not in nodes]:
            self.attempts.pop(place, None)
            self._ports.pop(place, None)
        self.next_step = -math.inf

    def restore(self, proxy: ProxyState) -> None:
        """Add a proxy that an earlier process of the controller recorded."""
        self.proxies[proxy.id] = proxy
        self._number = max(self._number, int(proxy.id.rpartition("-")[2]))
        self._know_port(proxy)
        self.next_step = -math.inf

    def ready(self, id: str, address: str, grpc_address: str, now: float) -> None:
        """Note that a proxy listens at `address`, and for gRPC at `grpc_address`."""
        proxy = self.proxies.get(id)
        if proxy is not None and proxy.phase == STARTING:
            proxy.phase, proxy.address, proxy.grpc_address = HEALTHY, address, grpc_address
            proxy.ready_at, proxy.next_check = now, now + CHECK_SECONDS
            self._know_port(proxy)
            self._attempts_of(proxy).succeed(proxy.round)
            self._note(now, f"{id} listens at {address}")

    def healthy(self, id: str, now: float) -> None:
        """Note that a proxy has passed a check of its health."""
        proxy = self.proxies.get(id)
        if proxy is not None:
            proxy.checking, proxy.failed_checks, proxy.next_check = False, 0, now + CHECK_SECONDS
            if proxy.phase == UNHEALTHY:
                proxy.phase = HEALTHY
            self.next_step = -math.inf

    def failed(self, id: str, message: str, ended: bool, now: float) -> None:
        """Note that a proxy could not start, or failed a check of its health. `ended`: its process has ended."""
        proxy = self.proxies.get(id)
        if proxy is None:
            return
        proxy.checking = False
        self._note(now, f"{id} failed: {message}")
        if ended or proxy.phase == STARTING:
            del self.proxies[id]
        if proxy.phase == DRAINING:
            return
        attempts = self._attempts_of(proxy)
        if proxy.phase == STARTING:
            self._ports.pop((proxy.node, proxy.index), None)  # that port may be the reason for the failure
            attempts.fail(proxy.round, message, now)
        elif ended and now - proxy.ready_at < SETTLED_SECONDS:
            attempts.fail(proxy.round, message, now)
        elif ended:
            attempts.fail(attempts.current, message, now)
        else:
            proxy.phase, proxy.next_check = UNHEALTHY, now + 1.0
            proxy.failed_checks += 1

    def aside(self, id: str, now: float) -> None:
        """Note that a proxy that is to end takes no more connections."""
        proxy = self.proxies.get(id)
        if proxy is not None:
            proxy.aside = True
            self._note(now, f"{id} takes no more connections")

    def gone(self, id: str, now: float) -> None:
        """Note that a proxy that was stopped has ended."""
        if self.proxies.pop(id, None) is not None:
            self._note(now, f"{id} is gone")

    # -- decisions -------------------------------------------------------------------------------------------------

    def step(self, now: float) -> list[Instruction]:
        """Return the instructions of this moment."""
        out: list[Instruction] = []
        wanted = self._wanted()
        taken = {(each.node, each.index) for each in self.proxies.values() if not self._makes_way(each)}
        served = {(each.node, each.index) for each in self.proxies.values() if self._serves(each)}
        for proxy in list(self.proxies.values()):
            place = (proxy.node, proxy.index)
            if proxy.phase == DRAINING:
                if now >= proxy.stop_by:
                    proxy.stop_by = now + STOP_MARGIN
                    out.append(KillProxy(proxy.id))
            elif place not in wanted or (proxy.wish != self.wish and (place in served or not self._makes_way(proxy))):
                self._let_go(proxy, now, out)
            elif proxy.failed_checks >= FAILED_CHECKS:
                self._note(now, f"{proxy.id} does not get well, and is replaced")
                proxy.phase, proxy.stop_by, proxy.killed = DRAINING, now + STOP_MARGIN, True
                out.append(KillProxy(proxy.id))
            elif proxy.phase != STARTING and not proxy.checking and now >= proxy.next_check:
                proxy.checking = True
                out.append(CheckProxy(proxy.id, CHECK_TIMEOUT))
        for node, index in wanted:
            attempts = self.attempts.setdefault((node, index), Attempts())
            if (node, index) not in taken and now >= attempts.not_before:
                out.append(self._begin(node, index, attempts, now))
        self.next_step = min(self._times(now), default=math.inf)
        return out

    def _serves(self, proxy: ProxyState) -> bool:
        return proxy.phase == HEALTHY and proxy.wish == self.wish

    def _makes_way(self, proxy: ProxyState) -> bool:
        """Return whether the successor of a proxy may start beside it."""
        wish = self.wish
        return wish is not None and proxy.wish != wish and proxy.phase != STARTING and not proxy.killed

    def _wanted(self) -> list[tuple[str, int]]:
        wish = self.wish
        if wish is None or wish.location == "Disabled":
            return []
        return [
            (node, index)
            for node, facts in self.nodes.items()
            if not facts.leaving and (facts.head or wish.location == "EveryNode")
            for index in range(wish.http.proxies_per_node)
        ]

    def _begin(self, node: str, index: int, attempts: Attempts, now: float) -> StartProxy:
        assert self.wish is not None
        self._number += 1
        id = f"{node[:12]}-{index}-{self._number}"
        self.proxies[id] = ProxyState(id, node, index, self.wish, attempts.current)
        self._note(now, f"{id} is to start")
        http, grpc = self.wish.http, self.wish.grpc
        http_port, grpc_port = self._ports.get((node, index), (0, 0))
        if http.port == 0 and http_port:
            http = replace(http, port=http_port)
        if grpc.port == 0 and grpc_port:
            grpc = replace(grpc, port=grpc_port)
        others = [each for each in self.proxies.values() if each.node == node and each.id != id]
        shares = http.proxies_per_node > 1 or any(_takes(each, grpc.port) for each in others)
        beside = tuple(each.address for each in others if each.address)
        before = tuple(port for port in (http_port, grpc_port) if port)
        return StartProxy(id, node, index, http, grpc, shares_grpc=shares, beside=beside, ports_before=before)

    def _know_port(self, proxy: ProxyState) -> None:
        if proxy.address:
            place = (proxy.node, proxy.index)
            before = self._ports.get(place, (0, 0))[1]  # gRPC may have been off for some time
            self._ports[place] = _port(proxy.address), _port(proxy.grpc_address) or before

    def _let_go(self, proxy: ProxyState, now: float, out: list[Instruction]) -> None:
        self._note(now, f"{proxy.id} is to end")
        starting = proxy.phase == STARTING
        others = self.wish is not None and self.wish.location != "Disabled"
        drain = DrainProxy(proxy.id, DRAIN_SECONDS, IDLE_SECONDS if others else 0.0, self._has_moved(proxy))
        out.append(KillProxy(proxy.id) if starting else drain)
        proxy.killed = starting
        proxy.phase, proxy.stop_by = DRAINING, now + STOP_MARGIN + (0 if starting else DRAIN_SECONDS)

    def _has_moved(self, proxy: ProxyState) -> bool:
        """Return whether other proxies of its node take requests at its port, but at another address."""
        others = [each.address for each in self.proxies.values() if each.node == proxy.node and self._serves(each)]
        return any(each != proxy.address and _port(each) == _port(proxy.address) for each in others)

    def _times(self, now: float) -> Iterator[float]:
        for proxy in self.proxies.values():
            if proxy.phase == DRAINING:
                yield proxy.stop_by
            elif proxy.phase != STARTING and not proxy.checking:
                yield proxy.next_check
        for attempts in self.attempts.values():
            if attempts.not_before > now:
                yield attempts.not_before

    # -- queries ---------------------------------------------------------------------------------------------------

    @property
    def settled(self) -> bool:
        """Whether every proxy of the wish listens, and new connections reach no other proxy."""
        living = {(each.node, each.index) for each in self.proxies.values() if self._serves(each)}
        others = [each for each in self.proxies.values() if each.wish != self.wish]
        return all(place in living for place in self._wanted()) and all(each.aside for each in others)

    def trouble(self) -> str:
        """Return why a proxy could not start; "" if none has failed."""
        places = self._wanted()
        return next((found.message for place in places if (found := self.attempts.get(place)) and found.failed), "")

    def view(self) -> dict[str, Any]:
        """Return all proxies by id, as plain values."""
        return {
            proxy.id: {
                "node_id": proxy.node,
                "index": proxy.index,
                "status": proxy.phase,
                "address": proxy.address,
                "tls": proxy.wish.http.ssl_certfile is not None,
                "grpc_address": proxy.grpc_address,
                "grpc_tls": proxy.wish.grpc.ssl_certfile is not None,
                "message": found.message if (found := self.attempts.get((proxy.node, proxy.index))) else "",
            }
            for proxy in self.proxies.values()
        }

    def validate(self) -> None:
        """Raise AssertionError if the state is not consistent."""
        proxies = self.proxies.values()
        living = [(each.node, each.index) for each in proxies if each.phase != DRAINING and each.wish == self.wish]
        assert len(living) == len(set(living)), f"two proxies in one place: {living}"
        for proxy in self.proxies.values():
            assert proxy.address or proxy.phase in (STARTING, DRAINING), f"{proxy.id} listens nowhere"

    def _attempts_of(self, proxy: ProxyState) -> Attempts:
        return self.attempts.setdefault((proxy.node, proxy.index), Attempts())

    def _note(self, now: float, text: str) -> None:
        self.history.append(f"{now:.3f} proxies: {text}")
        self.next_step = -math.inf


def _takes(proxy: ProxyState, port: int) -> bool:
    """Return whether a proxy has a port for gRPC."""
    return port != 0 and port == _port(proxy.grpc_address)


def _port(address: str) -> int:
    port = address.rpartition(":")[2]
    return int(port) if port.isdecimal() else 0
