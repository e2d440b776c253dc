"""The control plane through the port of a real cluster: with and without TLS, with the head beside and apart."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from kernel_control_grpc.client import ControlPlane
from kernel_control_grpc.errors import NotAllowedError, NotKnownError
from kernel_control_grpc.protocol import messages

import kernel
from kernel.testing.cluster import Cluster
from kernel.testing.faults import wait_until
from kernel_processes.cli import certificates
from kernel_processes.node.sessions import session_at
from kernel_processes.system.processes import is_alive
from kernel_spec.errors import ActorNotFoundError, OptionError, SessionEndedError
from kernel_spec.tls_files import TlsFiles

SECONDS = 120.0


@kernel.remote(num_cpus=0)
class Counter:
    def up(self) -> int:
        return 1


@kernel.remote
def work(fail: bool = False) -> None:
    if fail:
        raise ValueError("as it was asked to")


def token_of(cluster: Cluster) -> bytes:
    session = session_at(cluster.head.directory)
    assert session is not None
    return session.token()


def libraries_of(pid: int) -> str:
    """Return what a process has mapped: one that uses gRPC has its library."""
    return Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster of two nodes, this process a driver of it."""
    with Cluster(num_cpus=2, labels={"zone": "a"}) as cluster:
        cluster.add_node(num_cpus=1, resources={"seat": 3})
        cluster.connect()
        cluster.wait_for_nodes(2)
        yield cluster


@pytest.fixture(scope="module")
def plane(cluster: Cluster) -> Iterator[ControlPlane]:
    assert "cygrpc" not in libraries_of(cluster.head.agent), "nobody has asked yet"
    with ControlPlane(cluster.head.gateway, token_of(cluster), seconds=SECONDS) as plane:
        yield plane


def test_the_head_says_what_there_is(cluster: Cluster, plane: ControlPlane) -> None:
    status = plane.session.status()
    assert status.name == os.path.basename(cluster.head.directory)
    assert (status.nodes_alive, status.nodes_dead, status.programs) == (2, 0, 1)
    assert (status.total["CPU"], status.total["seat"], status.scheduler) == (3, 3, "fifo")
    assert "cygrpc" in libraries_of(cluster.head.agent)
    for pid in (os.getpid(), cluster.nodes[1].agent, *cluster.head.workers(), *cluster.nodes[1].workers()):
        assert pid == os.getpid() or "cygrpc" not in libraries_of(pid)


def test_nodes_can_be_listed_and_given_resources(cluster: Cluster, plane: ControlPlane) -> None:
    nodes = {node.id: node for node in plane.nodes.each(alive_only=True)}
    assert set(nodes) == {node.id for node in cluster.nodes}
    head = nodes[cluster.head.id]
    assert head.state == messages.NodeState["NODE_STATE_ALIVE"]
    assert (head.address, head.agent_pid, dict(head.labels)) == (
        cluster.head.gateway,
        cluster.head.agent,
        {"zone": "a", "kernel/node-id": cluster.head.id},
    )
    assert (head.total["CPU"], head.available["CPU"]) == (2, 2)
    plane.nodes.set_resource(node_id=head.id, name="desk", quantity=2)
    assert kernel.cluster_resources()["desk"] == 2
    plane.nodes.set_resource(node_id=head.id, name="desk", quantity=0)
    assert "desk" not in kernel.cluster_resources()
    with pytest.raises(OptionError, match="CPU is fixed when the node starts"):
        plane.nodes.set_resource(node_id=head.id, name="CPU", quantity=2)
    with pytest.raises(NotKnownError, match="there is no living node 'abcd'; the living nodes are "):
        plane.nodes.set_resource(node_id="abcd", name="desk", quantity=2)


def test_a_node_that_comes_and_goes_is_watched(cluster: Cluster, plane: ControlPlane) -> None:
    stream = plane.nodes.watch()
    node = cluster.add_node()
    (joined,) = next(stream).nodes
    assert (joined.id, joined.state) == (node.id, messages.NodeState["NODE_STATE_ALIVE"])
    cluster.remove_node(node)
    (left,) = next(stream).nodes
    assert (left.id, left.state) == (node.id, messages.NodeState["NODE_STATE_DEAD"])
    assert left.cause != "" and dict(left.total) == {}
    stream.cancel()
    assert node.id in {one.id for one in plane.nodes.each()} - {one.id for one in plane.nodes.each(alive_only=True)}


def test_a_node_that_is_drained_leaves_and_says_so(cluster: Cluster, plane: ControlPlane) -> None:
    node = cluster.add_node()
    drained = messages.NodeState["NODE_STATE_DRAINED"]
    plane.nodes.drain(id=node.id, seconds=SECONDS)
    wait_until(lambda: {one.id: one.state for one in plane.nodes.each()}[node.id] == drained, SECONDS, "its end")
    with pytest.raises(NotKnownError, match="there is no living node"):
        plane.nodes.drain(id=node.id)
    with pytest.raises(OptionError, match="is beside the head, which can't do without it"):
        plane.nodes.drain(id=cluster.head.id)


def test_placement_groups_can_be_listed_watched_and_removed(plane: ControlPlane) -> None:
    stream = plane.events.watch(kinds=["placement_group"])
    group = kernel.placement_group([{"CPU": 1}, {"seat": 1}], name="gang")
    kernel.get(group.ready(), timeout=SECONDS)
    (found,) = plane.placement_groups.each()
    assert (found.name, found.state) == ("gang", messages.PlacementGroupState["PLACEMENT_GROUP_STATE_CREATED"])
    assert [dict(bundle.resources) for bundle in found.bundles] == [{"CPU": 1}, {"seat": 1}]
    assert all(bundle.node_id for bundle in found.bundles)
    plane.placement_groups.remove(id=found.id)
    removed = plane.placement_groups.get(id=found.id).placement_group
    assert removed.state == messages.PlacementGroupState["PLACEMENT_GROUP_STATE_REMOVED"] and removed.cause
    told: list[str] = []
    while told[-1:] != ["REMOVED"]:
        told += [event.state for event in next(stream).events]
    stream.cancel()
    assert told == ["CREATED", "REMOVED"]


def test_actors_can_be_found_and_killed(plane: ControlPlane) -> None:
    actor = Counter.options(name="counter", namespace="here", max_restarts=1).remote()
    kernel.get(actor.up.remote(), timeout=SECONDS)
    found = plane.actors.find_by_name(name="counter", namespace="here").actor
    assert found.class_name == "Counter" and is_alive(found.pid)
    assert plane.actors.get(id=found.id).actor == found
    alive = messages.ActorState["ACTOR_STATE_ALIVE"]
    assert found in plane.actors.list(state=alive).actors
    plane.actors.kill(id=found.id, allow_restart=True)
    wait_until(lambda: plane.actors.get(id=found.id).actor.restarts == 1, SECONDS, "its restart")
    plane.actors.kill(id=found.id)
    wait_until(
        lambda: plane.actors.get(id=found.id).actor.state == messages.ActorState["ACTOR_STATE_DEAD"], SECONDS, "its end"
    )
    assert plane.actors.get(id=found.id).actor.cause
    with pytest.raises(ActorNotFoundError, match="no actor named 'counter' lives in namespace 'here'"):
        plane.actors.find_by_name(name="counter", namespace="here")
    with pytest.raises(NotKnownError, match="no actor 'abcd' is known"):
        plane.actors.kill(id="abcd")


def test_programs_are_jobs(plane: ControlPlane) -> None:
    (job,) = plane.jobs.each(running_only=True)
    assert (job.driver_pid, job.running, job.ended) == (os.getpid(), True, 0)
    assert plane.jobs.get(id=job.id).job == job
    with pytest.raises(NotKnownError, match="no job '00' is known"):
        plane.jobs.get(id="00")


def test_values_are_those_that_programs_see(plane: ControlPlane) -> None:
    assert plane.key_value.put(namespace="n", key=b"k", value=b"1", keep_existing=True).stored
    assert not plane.key_value.put(namespace="n", key=b"k", value=b"2", keep_existing=True).stored
    assert plane.key_value.put(namespace="n", key=b"k", value=b"").stored
    kept = plane.key_value.get(namespace="n", key=b"k")
    assert kept.HasField("value") and kept.value == b""
    assert list(plane.key_value.each(namespace="n", prefix=b"k")) == [b"k"]
    assert plane.key_value.delete(namespace="n", key=b"k").existed
    assert not plane.key_value.get(namespace="n", key=b"k").HasField("value")


def test_what_waits_is_explained(plane: ControlPlane) -> None:
    reference = work.options(resources={"moon": 1}).remote()
    wait_until(lambda: plane.session.status().waiting_count == 1, SECONDS, "the request")
    (waiting,) = plane.session.status().waiting
    assert waiting.name == "work" and dict(waiting.wanted)["moon"] == 1 and "moon" in waiting.reason
    (told,) = plane.session.explain(id=reference.hex()).explanations
    assert told.kind == "object" and told.id == reference.hex() and "moon" in told.text
    kernel.cancel(reference)
    assert not plane.session.explain(id="abcdef").explanations


def test_tasks_are_told_while_somebody_listens_and_not_those_before(plane: ControlPlane) -> None:
    kernel.get([work.remote() for _ in range(20)])
    with Listening(plane, kinds=["task"]) as events:
        kernel.get([work.options(name="listened").remote() for _ in range(10)])
        with pytest.raises(ValueError):
            kernel.get(work.options(name="failing").remote(fail=True))
        told = events.until(11)
    assert sorted((event.state, event.detail["name"]) for event in told) == sorted(
        [("FAILED", "failing"), *[("FINISHED", "listened")] * 10]
    )


def test_strangers_learn_nothing_and_the_log_says_who_came(cluster: Cluster) -> None:
    with (
        ControlPlane(cluster.head.gateway, bytes(32), seconds=SECONDS) as wrong,
        pytest.raises(NotAllowedError, match="a wrong token"),
    ):
        wrong.session.status()
    with grpc.insecure_channel(cluster.head.gateway) as channel:
        with pytest.raises(grpc.RpcError) as failure:
            channel.unary_unary("/kernel.v1.Session/Status")(b"", timeout=SECONDS)
        assert failure.value.code() is grpc.StatusCode.UNAUTHENTICATED
    wait_until(lambda: cluster.head.log().count("call refused") >= 2, SECONDS, "both in the log")
    assert token_of(cluster).hex() not in cluster.head.log()


def test_a_million_bytes_of_noise_cost_nothing_else(cluster: Cluster, plane: ControlPlane) -> None:
    host, _, port = cluster.head.gateway.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=SECONDS) as noisy:
        with pytest.raises(OSError):
            for _ in range(1000):
                noisy.sendall(os.urandom(1000))
                time.sleep(0)
            while noisy.recv(1000):
                pass
            raise ConnectionResetError
    assert plane.session.versions().protocols == ["v1"]


def test_the_command_line_shows_events_of_a_cluster_elsewhere(cluster: Cluster) -> None:
    command = [sys.executable, "-m", "kernel.cli.main", "events", "--json", "--kind", "actor", "--count", "1"]
    environment = {**os.environ, "KERNEL_TOKEN": token_of(cluster).hex()}
    with subprocess.Popen(
        [*command, "--address", cluster.head.gateway], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None:
            actor = Counter.remote()
            kernel.get(actor.up.remote(), timeout=SECONDS)
        assert process.stdout is not None
        shown = json.loads(process.stdout.readline())
    assert process.returncode == 0
    assert (shown["kind"], shown["detail"]["name"]) == ("actor", "Counter")


@pytest.mark.parametrize(
    ("token", "said"),
    [("", "the token of the cluster at 127.0.0.1:1 is not known here"), ("00" * 32, "the head can't be reached")],
)
def test_the_command_line_says_what_is_wrong(token: str, said: str) -> None:
    command = [sys.executable, "-m", "kernel.cli.main", "events", "--address", "127.0.0.1:1"]
    environment = {**os.environ, "KERNEL_TOKEN": token}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode != 0 and said in done.stderr and done.stderr.count("\n") == 1


def test_a_head_apart_in_tls_is_reached_again_after_its_death_and_stopped(tmp_path: Path) -> None:
    certificates.create(tmp_path / "good")
    tls = TlsFiles.of_directory(str(tmp_path / "good"))
    settings = {"plugins": {"metadata_store": "sqlite"}, "death_seconds": 30.0}
    with Cluster(num_cpus=1, head_apart=True, tls=tls, **settings) as cluster:
        token = token_of(cluster)
        with ControlPlane(cluster.head.gateway, token, tls, seconds=SECONDS) as plane:
            plane.key_value.put(namespace="n", key=b"k", value=b"kept")
            assert "cygrpc" not in libraries_of(cluster.head.agent), "the head is another process"
            for wrong in (
                ControlPlane(cluster.head.gateway, token, seconds=SECONDS),
                ControlPlane(cluster.head.gateway, bytes(32), tls, seconds=SECONDS),
            ):
                with wrong, pytest.raises((SessionEndedError, NotAllowedError)):
                    wrong.session.versions()
            wait_until(lambda: "a peer speaks no TLS" in cluster.head.log(), SECONDS, "the plain client in the log")
            wait_until(lambda: "call refused" in cluster.head.log("head.log"), SECONDS, "the wrong token in the log")
            stream = plane.events.watch()
            cluster.kill_head()
            with pytest.raises(SessionEndedError):
                next(stream)
            assert again(plane, b"k") == b"kept"
            plane.session.stop()
            wait_until(lambda: cluster.head.process.poll() is not None, SECONDS, "the end of the session")


def again(plane: ControlPlane, key: bytes) -> Any:
    """Return a value once there is a head again."""

    def ask() -> Any:
        try:
            return plane.key_value.get(namespace="n", key=key, seconds=20.0).value
        except SessionEndedError:
            return None

    found: list[Any] = []
    wait_until(lambda: found.append(ask()) or found[-1], SECONDS, "a head that answers")
    return found[-1]


class Listening:
    """The events of a block. A context manager; `until(count)` waits for so many."""

    def __init__(self, plane: ControlPlane, kinds: list[str]) -> None:
        self._stream = plane.events.watch(kinds=kinds, seconds=SECONDS)

    def until(self, count: int) -> list[Any]:
        found: list[Any] = []
        while len(found) < count:
            response = next(self._stream)
            assert response.missed == 0
            found += response.events
        return found

    def __enter__(self) -> Listening:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stream.cancel()
