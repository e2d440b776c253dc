"""A cluster on this machine, for tests: several nodes, each with an agent, workers, a store and a port of its own.

with Cluster(num_cpus=2, faulty_network=True) as cluster:
    node = cluster.add_node(num_cpus=4, labels={"zone": "b"})
    cluster.connect()
    with cluster.partitioned(node):
        ...
    cluster.kill_node(node)
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import field
from types import TracebackType
from typing import Any

import kernel
from kernel.api.session import SessionInfo
from kernel_processes.daemons.launch import await_agent, start_agent
from kernel_processes.node.session_ways import ways_at
from kernel_processes.node.sessions import make_session, remove
from kernel_processes.protocol.agent_config import AgentConfig
from kernel_processes.system.children import let_go
from kernel_processes.system.processes import children_of, descendants_of, is_alive
from kernel_processes.transport.authentication import make_token
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import UsageError
from kernel_testing.faults import PATIENCE_SECONDS, kill, slowed, title_of, wait_until, workers_of
from kernel_testing.leaks import no_leaks
from kernel_testing.network import FaultyNetwork, Weather
from kernel_testing.roots import temporary_root

HEAD = "kernel: head"
_STORE_BYTES = 256 << 20


@dataclass(slots=True, eq=False)
class ClusterNode:
    """One node. `id` is as `kernel.nodes()` says it, `gateway` where other nodes reach it."""

    id: str
    directory: str
    gateway: str
    process: subprocess.Popen[bytes]
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def agent(self) -> int:
        """The process id of its agent."""
        return self.process.pid

    def workers(self) -> list[int]:
        """Return the process ids of its workers, oldest first."""
        return workers_of(self.agent)

    def log(self, name: str = "agent.log") -> str:
        """Return what is in a log of the node; nothing if nothing was logged yet."""
        path = os.path.join(self.directory, "logs", name)
        if not os.path.exists(path):
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()


class Cluster:
    """A head and nodes that come and go. Options are those of `add_node`, for the head's own node.

    `death_seconds` is how long a node may be silent before it is declared dead; by default so long that a busy machine
    makes nobody dead, but with `head_apart` 5 s: for twice as long the next head waits for nodes that may be gone. With
    `head_apart` the head is a process of its own, which can be killed (`kill_head`) while all else goes on. With
    `faulty_network` everything that nodes say to each other passes through this process, where `partition`, `cut`,
    `slow` and `reset` act on it. A context manager: leaving it ends every node and this process's session in the
    cluster, and then raises AssertionError if anything was left behind (see `kernel_testing.leaks`), unless
    `leak_check` is off.
    """

    def __init__(
        self,
        *,
        death_seconds: float | None = None,
        head_apart: bool = False,
        faulty_network: bool = False,
        leak_check: bool = True,
        **options: Any,
    ) -> None:
        self._exits = ExitStack()
        self.root = self._exits.enter_context(temporary_root())
        if leak_check:
            self._exits.enter_context(no_leaks(self.root))
        self._token = make_token()
        self._death_seconds = (5.0 if head_apart else 30.0) if death_seconds is None else death_seconds
        self._head_apart = head_apart
        self._network = FaultyNetwork() if faulty_network else None
        self.nodes: list[ClusterNode] = []
        """The living nodes, the head's first."""
        self._exits.callback(self._end_everything)
        try:
            self.head = self.add_node(**options)
        except BaseException:
            self._exits.close()
            raise

    def add_node(
        self,
        num_cpus: float = 1,
        num_gpus: float = 0,
        resources: Mapping[str, float] | None = None,
        labels: Mapping[str, str] | None = None,
        object_store_memory: int = _STORE_BYTES,
        memory: int = 1 << 30,
        root: str = "",
        **settings: Any,
    ) -> ClusterNode:
        """Start a node and return it once it has joined. `settings` are further fields of its `AgentConfig`.

        Its files are below `root`, by default a directory of the cluster; see `kernel_testing.disks` for one that is
        full.
        """
        directory = make_session(self._token, False, root or self.root)
        head = f"tcp://{self.nodes[0].gateway}/head" if self.nodes else ""
        listen, advertised = self._network.add(directory) if self._network is not None else ("127.0.0.1:0", "")
        id = os.urandom(8)
        process = start_agent(
            AgentConfig(
                directory,
                self._token,
                id,
                True,
                resources={"CPU": num_cpus, "GPU": num_gpus, "memory": memory, **(resources or {})},
                labels=dict(labels or {}),
                store_bytes=object_store_memory,
                head=head,
                listen=listen,
                advertised=advertised,
                death_seconds=self._death_seconds,
                head_apart=self._head_apart and not head,
                **settings,
            ),
            False,
        )
        try:
            await_agent(process, directory)
        except BaseException:
            _end(process)
            remove(directory)
            raise
        node = ClusterNode(id.hex(), directory, ways_at(directory).gateway, process, dict(labels or {}))
        self.nodes.append(node)
        return node

    @property
    def address(self) -> str:
        """Where a program joins the cluster from outside: `kernel://HOST:PORT`."""
        return f"kernel://{self.head.gateway}"

    @property
    def token_file(self) -> str:
        """A file with the cluster's token."""
        return os.path.join(self.head.directory, "token")

    def connect(self, remote: bool = False, **options: Any) -> SessionInfo:
        """Make this process a driver of the cluster, on the head's node; `options` are those of `kernel.init`.

        With `remote` it joins from outside, through the head's one port.
        """
        if remote:
            elsewhere = {"address": self.address, "token_file": self.token_file, "temp_dir": self.root}
            return kernel.init(**{**elsewhere, **options})
        return kernel.init(address=self.head.directory, **options)

    def wait_for_nodes(self, count: int, seconds: float = PATIENCE_SECONDS) -> None:
        """Return when `count` nodes are alive. This process must be connected."""
        wait_until(lambda: self._alive() == count, seconds, f"{count} nodes alive (now {self._alive()})")

    def remove_node(self, node: ClusterNode) -> None:
        """Let a node end as `kernel stop` would, and wait until it has."""
        let_go(node.process)
        node.process.wait(timeout=PATIENCE_SECONDS)
        self._forget(node)

    def kill_node(self, node: ClusterNode) -> None:
        """End a node as a power cut would: every process of it at once, without a warning."""
        family = [node.agent, *descendants_of(node.agent)]
        for pid in family:
            _signal(pid, signal.SIGSTOP)
        for pid in {*family, *descendants_of(node.agent)}:
            _signal(pid, signal.SIGKILL)
        node.process.wait()
        wait_until(
            lambda: not any(is_alive(pid) for pid in family), PATIENCE_SECONDS, "the end of the node's processes"
        )
        self._forget(node)

    def head_process(self) -> int:
        """Return the process id of the head, which must be a process apart."""
        for pid in children_of(self.head.agent):
            if title_of(pid) == HEAD and is_alive(pid):
                return pid
        raise AssertionError(f"agent {self.head.agent} has no head of its own at present")

    def kill_head(self) -> int:
        """End the head as a fault would, and return the process id that it had; its agent starts another."""
        pid = self.head_process()
        kill(pid)
        return pid

    def kill_agent(self, node: ClusterNode) -> None:
        """End only a node's agent; what it started notices by itself."""
        kill(node.agent)
        node.process.wait()
        self._forget(node)

    @contextmanager
    def paused(self, node: ClusterNode) -> Iterator[None]:
        """Stop every process of a node, as a machine that hangs; let them go on when the block is left."""
        family = [node.agent, *descendants_of(node.agent)]
        for pid in family:
            _signal(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in family:
                _signal(pid, signal.SIGCONT)

    @contextmanager
    def slowed(self, node: ClusterNode, share: float) -> Iterator[None]:
        """Let every process that a node has now run only `share` (0 to 1) of the time, until the block is left."""
        with ExitStack() as slow:
            for pid in [node.agent, *descendants_of(node.agent)]:
                slow.enter_context(slowed(pid, share))
            yield

    # -- the network between the nodes -----------------------------------------------------------------------------

    def partition(self, node: ClusterNode, *others: ClusterNode, lose: bool = False) -> None:
        """Let nothing pass between a node and `others` (by default all), and nobody learn of it, until `heal`.

        What they say meanwhile arrives then, as with TCP; with `lose` it is lost, and its connections break then. A
        node that is killed while it is cut off goes as if its machine had lost its power: nobody hears of it.
        """
        pairs = self._pairs(node, others)
        self._faulty().set(pairs + [(there, here) for here, there in pairs], Weather(held=not lose, loses=lose))

    @contextmanager
    def partitioned(self, node: ClusterNode, *others: ClusterNode, lose: bool = False) -> Iterator[None]:
        """`partition`, until the block is left; then `heal`."""
        self.partition(node, *others, lose=lose)
        try:
            yield
        finally:
            self.heal()

    def cut(self, source: ClusterNode, target: ClusterNode, lose: bool = False) -> None:
        """Let nothing pass from one node to another; the way back stays open. `lose` as with `partition`."""
        self._faulty().set([(source.directory, target.directory)], Weather(held=not lose, loses=lose))

    def slow(
        self, source: ClusterNode, target: ClusterNode, delay_seconds: float = 0.0, bytes_per_second: float = 0.0
    ) -> None:
        """Have what one node says to another take longer, and no more than so many bytes pass in a second (0: any)."""
        weather = Weather(delay_seconds=delay_seconds, bytes_per_second=bytes_per_second)
        self._faulty().set([(source.directory, target.directory)], weather)

    def reset(self, node: ClusterNode, *others: ClusterNode) -> int:
        """Break every connection between a node and `others` (by default all); return how many there were."""
        return self._faulty().reset(self._pairs(node, others))

    def heal(self) -> None:
        """Undo every `partition`, `cut` and `slow`."""
        self._faulty().heal()

    def _pairs(self, node: ClusterNode, others: tuple[ClusterNode, ...]) -> list[tuple[str, str]]:
        return [(node.directory, other.directory) for other in others or self.nodes if other is not node]

    def _faulty(self) -> FaultyNetwork:
        if self._network is None:
            raise UsageError("this cluster's network has no faults; make it with Cluster(faulty_network=True)")
        return self._network

    # -- the end ---------------------------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """End this process's session and every node, and check what was left behind. Safe to call twice."""
        self._exits.close()

    def _end_everything(self) -> None:
        kernel.shutdown()
        if self._network is not None:
            self._network.heal()
        for node in reversed(self.nodes):
            _end(node.process)
        for node in self.nodes:
            remove(node.directory)
        self.nodes.clear()
        if self._network is not None:
            self._network.close()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()

    def _alive(self) -> int:
        return sum(row["Alive"] for row in kernel.nodes())

    def _forget(self, node: ClusterNode) -> None:
        let_go(node.process)
        self.nodes.remove(node)
        remove(node.directory)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let an agent end, and see to it that it does."""
    let_go(process)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    if process.poll() is None:
        process.kill()
        process.wait()
