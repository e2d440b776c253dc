"""What happens to an application of Serve while it has traffic: updates, scaling, kills, nodes that go.

A `Site` is a cluster with such an application; each of `SCENES` does something to it, and returns when all is well
again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kernel_serve.api.handle import DeploymentHandle
from kernel_serve.api.run import wait_until_running
from kernel_serve.control.attempts import SETTLED_SECONDS
from kernel_serve.errors import DeployFailedError

import kernel
from kernel import serve
from kernel.testing.cluster import Cluster, ClusterNode
from kernel.testing.faults import wait_until

SECONDS = 120.0
KILLS = 4
ALIVE = ("ALIVE",)


def echo(version: str = "1", **options: Any) -> Any:
    """Return an application that answers with the text of the query. Version "bad" can't start, "sick" is not well."""

    class Echo:
        def __init__(self, version: str) -> None:
            if version == "bad":
                raise ValueError("no weights in /models")
            self.version = version

        def reconfigure(self, config: Any) -> None:
            self.config = config

        async def check_health(self) -> None:
            if self.version == "sick":
                raise RuntimeError("the model answers nonsense")

        async def __call__(self, request: Any) -> str:
            await asyncio.sleep(0.01)
            return str(request.url.query)

        async def value(self, text: str) -> str:
            await asyncio.sleep(0.01)
            return text

    given = {"num_replicas": 2, "max_ongoing_requests": 50, **options}
    return serve.deployment(name="Echo", **given)(Echo).bind(version)


def build(args: dict[str, str]) -> Any:
    """Return the application, for a configuration file."""
    return echo(args.get("version", "1"), max_constructor_retry_count=1)


class Site:
    """The application in a cluster whose head is a process apart, with durable metadata."""

    def __init__(self, cluster: Cluster, nodes: tuple[ClusterNode, ...] = ()) -> None:
        self.cluster = cluster
        self.nodes = nodes
        """Those besides the head's, on which the replicas are."""
        self.options: dict[str, Any] = {"actor_options": {"num_cpus": 0.1}, "max_constructor_retry_count": 1}
        self.await_answers: Callable[[], None] = lambda: None
        """Waits for the answers to what is under way, where this process has the traffic."""

    @property
    def session(self) -> str:
        """What a client of the handle connects to."""
        return self.cluster.head.directory

    @property
    def addresses(self) -> list[str]:
        """Where the proxies listen."""
        return [each["address"] for each in serve.status()["proxies"].values() if each["status"] == "HEALTHY"]

    @property
    def handle(self) -> DeploymentHandle:
        """What calls are made with."""
        return DeploymentHandle("Echo").options(retry=True, method_name="value")

    def deploy(self, version: str = "1", **options: Any) -> None:
        """Deploy, and return when nothing is left of what was before."""
        self.options.update(options)
        serve.run(echo(version, **self.options), timeout_s=SECONDS)
        self.await_replicas()

    def replicas(self) -> list[dict[str, Any]]:
        """Return the actors of the replicas."""
        return self._actors("serve replica ")

    def proxies(self) -> list[dict[str, Any]]:
        """Return the actors of the proxies."""
        return self._actors("serve proxy ")

    def _actors(self, prefix: str) -> list[dict[str, Any]]:
        return [row for row in kernel.actors() if row["name"].startswith(prefix) and row["state"] in ALIVE]

    def await_replicas(self, number: int | None = None) -> None:
        """Wait until there are so many replicas (those that are wanted), and no others."""
        wanted = number or self.options.get("num_replicas", 2)

        def right() -> bool:
            found = serve.status()["applications"].get("default", {})
            return found.get("replica_states") == {"RUNNING": wanted} and len(self.replicas()) == wanted

        wait_until(right, SECONDS, f"{wanted} replicas")

    def retried(self) -> int:
        """Return how many requests the proxies that live have sent once more."""
        total = 0.0
        for address in self.addresses[:1]:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{address}/-/metrics", timeout=10) as got:
                for line in got.read().decode().splitlines():
                    if line.startswith("serve_router_retries_total{") and 'router="proxy ' in line:
                        total += float(line.rpartition(" ")[2])
        return int(total)


@contextmanager
def site(nodes: int = 0, **more: Any) -> Iterator[Site]:
    """Make a site; with `nodes`, the replicas and proxies are on so many nodes besides the head's.

    `more` are options of the cluster.
    """
    kernel.shutdown()
    options: dict[str, Any] = {"head_apart": True, "plugins": {"metadata_store": "sqlite"}, **more}
    with Cluster(num_cpus=8, leak_check=False, **options) as cluster:  # this process's data loop stays
        others = tuple(cluster.add_node(num_cpus=8, resources={"seat": 10}) for _ in range(nodes))
        cluster.connect(log_to_driver=False)
        cluster.wait_for_nodes(nodes + 1, SECONDS)
        place = Site(cluster, others)
        if nodes:
            place.options["actor_options"] = {"num_cpus": 0.1, "resources": {"seat": 1}}
            place.options["max_replicas_per_node"] = 2
        serve.start(http_options={"port": 0, "access_log": False})
        place.deploy()
        try:
            yield place
        finally:
            serve.shutdown()


# -- what happens ------------------------------------------------------------------------------------------------------


def update(site: Site) -> None:
    """Deploy other code."""
    site.deploy("2")
    site.deploy("3")


def bad_update(site: Site) -> None:
    """Deploy code whose constructor raises; the version before goes on."""
    before = {row["pid"] for row in site.replicas()}
    _fails(site, "bad", "no weights in /models")
    assert before == {row["pid"] for row in site.replicas()}


def sick_update(site: Site) -> None:
    """Deploy code that is never well; the version before goes on."""
    before = {row["pid"] for row in site.replicas()}
    _fails(site, "sick", "answers nonsense")
    assert before == {row["pid"] for row in site.replicas()}


def _fails(site: Site, version: str, message: str) -> None:
    try:
        serve.run(echo(version, **site.options), timeout_s=SECONDS)
    except DeployFailedError as error:
        assert message in str(error), error
    else:
        raise AssertionError(f"version {version} runs")
    site.await_replicas()


def scale(site: Site) -> None:
    """Have one replica, eight, and one again."""
    for number in (1, 8, 1):
        site.deploy(num_replicas=number)


def kill_replicas(site: Site, kills: int = KILLS) -> None:
    """End replicas as faults would, one after the other.

    A request under which two of them died looks like one that ends its replicas, and is refused: the next one goes only
    when what the one before had is answered.
    """
    for _ in range(kills):
        victim = site.replicas()[0]["pid"]
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda gone=victim: gone not in {row["pid"] for row in site.replicas()}, SECONDS, "its end")
        site.await_replicas()
        site.await_answers()


def kill_last_replica(site: Site) -> None:
    """End the only replica that there is."""
    site.deploy(num_replicas=1)
    kill_replicas(site, 1)


def kill_controller(site: Site) -> None:
    """End the controller, twice, the second time while it updates."""
    for version in ("", "2"):
        pid = serve.status()["controller_pid"]
        if version:
            serve.run(echo(version, **site.options), wait=False)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda before=pid: serve.status()["controller_pid"] != before, SECONDS, "another controller")
        site.await_replicas()


def kill_proxy(site: Site, pauses: tuple[float, ...] = (0.0, SETTLED_SECONDS + 1)) -> None:
    """End a proxy as a fault would; and the next one, when it has run so long that it counts as well."""
    for pause in pauses:
        time.sleep(pause)
        (victim,) = site.proxies()
        os.kill(victim["pid"], signal.SIGKILL)
        wait_until(
            lambda gone=victim["pid"]: any(row["pid"] != gone for row in site.proxies()) and site.addresses,
            SECONDS,
            "another proxy",
        )


def change_options(site: Site) -> None:
    """Have proxies with other options, and replicas with other settings."""
    before = site.addresses
    (proxy,) = site.proxies()
    serve.start(http_options={"port": 0, "access_log": False, "keep_alive_timeout_s": 60.0})
    wait_until(lambda: proxy["pid"] not in {row["pid"] for row in site.proxies()}, SECONDS, "the end of the old one")
    assert site.addresses == before
    site.deploy(user_config={"threshold": 2}, max_ongoing_requests=40)


def change_by_rest(site: Site) -> None:
    """Deploy other arguments, and other settings, by the REST API."""
    from kernel_serve.rest.server import start_rest, stop_rest
    from kernel_serve.rest.token import session_token

    url = f"http://{start_rest(port=0)}/api/serve/applications/"
    header = {"Authorization": f"Bearer {session_token()}"}
    for version, limit in (("2", 50), ("2", 30), ("3", 30)):
        deployment = {"name": "Echo", "max_ongoing_requests": limit, "num_replicas": 2}
        application = {
            "name": "default", "route_prefix": "/", "import_path": "plugins.serve.tests.scenes:build",
            "args": {"version": version}, "deployments": [deployment],
        }  # fmt: skip
        body = json.dumps({"applications": [application]}).encode()
        with urllib.request.urlopen(urllib.request.Request(url, body, header, method="PUT"), timeout=SECONDS):
            pass
        wait_until_running("default", SECONDS)
        site.await_replicas()
    stop_rest()


def drain_node(site: Site) -> None:
    """Drain a node with replicas and a proxy, and wait until it is gone."""
    node = site.nodes[0]
    kernel.drain_node(node.id)
    wait_until(lambda: not _alive(node), SECONDS, "the end of the drained node")
    site.await_replicas()


def kill_node(site: Site) -> None:
    """End a node with replicas and a proxy as a power cut would."""
    node = site.nodes[0]
    site.cluster.kill_node(node)
    wait_until(lambda: not _alive(node), SECONDS, "the end of the node")
    site.await_replicas()


def kill_head(site: Site) -> None:
    """End the head as a fault would; another one goes on with what it wrote down. Then update."""
    site.cluster.kill_head()
    site.deploy("2")


def nothing(site: Site) -> None:
    """Let it work, to compare with."""
    time.sleep(5.0)


def _alive(node: ClusterNode) -> bool:
    return any(row["NodeID"] == node.id and row["Alive"] for row in kernel.nodes())


SCENES: dict[str, tuple[Callable[[Site], None], int]] = {
    "nothing": (nothing, 0),
    "update of code": (update, 0),
    "update that can't start": (bad_update, 0),
    "update that is never well": (sick_update, 0),
    "scale 1, 8, 1": (scale, 0),
    "change by REST": (change_by_rest, 0),
    "other HTTP options": (change_options, 0),
    "kill -9 of replicas": (kill_replicas, 0),
    "kill -9 of the only replica": (kill_last_replica, 0),
    "kill -9 of the controller": (kill_controller, 0),
    "kill -9 of the proxy": (kill_proxy, 0),
    "kill -9 of the head": (kill_head, 0),
    "drain of a node": (drain_node, 3),
    "kill -9 of a node": (kill_node, 3),
}
"""What happens by name, and on how many nodes besides the head's."""
BREAKING = ("kill -9 of the proxy", "kill -9 of a node")
"""Scenes in which what has clients' connections dies."""
