"""The faults: each kind is a method that injects one, waits, and leaves a cluster that is whole again."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import kernel
from benchmarks.outcome import Outcome
from kernel.testing.clocks import JumpingClock
from kernel.testing.cluster import Cluster, ClusterNode
from kernel.testing.disks import SmallDisk
from kernel.testing.faults import kill, paused, slowed, template_of, wait_until

SECONDS = 30.0
"""How long the cluster may take to be whole again."""
PERIPHERAL = ("worker killed", "worker paused", "worker slowed", "template killed")
"""Kinds that hit single processes: they go on at any time, also during the others."""
_PROGRAM = """
import sys
import kernel
from benchmarks.chaos.work import Counter, fill, total
kernel.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
counter = Counter.remote()
kept = [fill.remote(1, 50_000) for _ in range(8)] + [kernel.put([0] * 100_000)]
print("ready", flush=True)
while True:
    kernel.get([counter.next.remote(), total.remote(*kept[:8]), fill.remote(2, 100_000)])
"""


class Disturbances:
    """Everything that can be done to a cluster. The head's own node, where the program is, is never ended.

    `disk` is where the node with the label `disk` has its files, if there is such a node.
    """

    def __init__(
        self, cluster: Cluster, outcome: Outcome, dice: random.Random, clock: JumpingClock, disk: SmallDisk | None
    ) -> None:
        self.cluster = cluster
        self.outcome = outcome
        self.dice = dice
        self.clock = clock
        self.disk = disk
        self.death_seconds = 0.0
        self.patience = SECONDS
        self.tolerance = 3.0
        """How much later than after `death_seconds` a silent node may be given up."""
        self._lock = threading.RLock()

    def kinds(self) -> dict[str, Callable[[], None]]:
        """Return all of them by name."""
        found = {
            "worker killed": self.kill_worker,
            "worker paused": self.pause_worker,
            "worker slowed": self.slow_worker,
            "template killed": self.kill_template,
            "agent killed": self.kill_agent,
            "node killed": self.kill_node,
            "node stopped": self.stop_node,
            "node paused": self.pause_node,
            "node paused until it was given up": self.pause_node_for_long,
            "node slowed": self.slow_node,
            "node cut off": self.cut_off_node,
            "node cut off, with losses": lambda: self.cut_off_node(lose=True),
            "node cut off until it was given up": self.cut_off_node_for_long,
            "one way cut": self.cut_one_way,
            "one way cut until a node was given up": self.cut_one_way_for_long,
            "connections reset": self.reset,
            "network slowed": self.slow_network,
            "head killed": self.kill_head,
            "head killed twice": self.kill_head_twice,
            "head and node killed": self.kill_head_and_node,
            "program killed": self.kill_program,
            "clock set": self.set_clock,
        }
        if self.disk is not None:
            found["disk filled"] = self.fill_disk
        return found

    # -- single processes ------------------------------------------------------------------------------------------

    def kill_worker(self) -> None:
        """Kill a worker of any node."""
        with suppress(ProcessLookupError, IndexError):
            kill(self._worker())

    def pause_worker(self) -> None:
        """Stop a worker for a moment."""
        with suppress(ProcessLookupError, IndexError), paused(self._worker()):
            time.sleep(self.dice.uniform(0, 0.5))

    def slow_worker(self) -> None:
        """Give a worker a fifth of its time for a moment."""
        with suppress(ProcessLookupError, IndexError), slowed(self._worker(), 0.2):
            time.sleep(self.dice.uniform(0, 0.5))

    def kill_template(self) -> None:
        """Kill what workers are forked from."""
        with suppress(ProcessLookupError, AssertionError, IndexError):
            kill(template_of(self.dice.choice(self.cluster.nodes).agent))

    # -- nodes -----------------------------------------------------------------------------------------------------

    def kill_agent(self) -> None:
        """Kill the agent of a node, and nothing else of it."""
        with self._replaced() as node:
            self.cluster.kill_agent(node)

    def kill_node(self) -> None:
        """Pull the plug."""
        with self._replaced() as node:
            self.cluster.kill_node(node)

    def stop_node(self) -> None:
        """End a node in good order."""
        with self._replaced() as node:
            self.cluster.remove_node(node)

    def pause_node(self) -> None:
        """Stop all processes of a node, not for long enough to be given up."""
        with self.cluster.paused(self._node()):
            self._short()

    def pause_node_for_long(self) -> None:
        """Stop a node until it was given up; when it goes on, it must end."""
        with self._replaced() as node:
            with self.cluster.paused(node):
                self._until_given_up(node)
            self._must_end(node)

    def slow_node(self) -> None:
        """Give every process of a node a third of its time."""
        with self.cluster.slowed(self._node(), 0.3):
            self._short()

    # -- the network -----------------------------------------------------------------------------------------------

    def cut_off_node(self, lose: bool = False) -> None:
        """Cut a node off, not for long enough to be given up."""
        with self.cluster.partitioned(self._node(), lose=lose):
            self._short()

    def cut_off_node_for_long(self) -> None:
        """Cut a node off until it was given up; when it hears so, it must end."""
        with self._replaced() as node:
            with self.cluster.partitioned(node, lose=self.dice.random() < 0.5):
                self._until_given_up(node)
            self._must_end(node)

    def cut_one_way(self) -> None:
        """Let nothing pass from one node to another for a moment."""
        source, target = self.dice.sample(self.cluster.nodes, 2)
        self.cluster.cut(source, target, lose=self.dice.random() < 0.5)
        self._short()
        self.cluster.heal()

    def cut_one_way_for_long(self) -> None:
        """Let nothing pass from a node to the head's, or back, until the node was given up."""
        with self._replaced() as node:
            pair = [node, self.cluster.head]
            self.dice.shuffle(pair)
            self.cluster.cut(*pair)
            self._until_given_up(node)
            self.cluster.heal()
            self._must_end(node)

    def reset(self) -> None:
        """Break every connection of a node."""
        self.cluster.reset(self._node())

    def slow_network(self) -> None:
        """Have two nodes hear each other late, and little at a time."""
        one, other = self.dice.sample(self.cluster.nodes, 2)
        for pair in ((one, other), (other, one)):
            self.cluster.slow(*pair, delay_seconds=0.02, bytes_per_second=4e6)
        self._short()
        self.cluster.heal()

    # -- the head --------------------------------------------------------------------------------------------------

    def kill_head(self) -> None:
        """Kill the head; its agent starts another."""
        with suppress(AssertionError, ProcessLookupError):
            self.cluster.kill_head()
        self._until_whole()

    def kill_head_twice(self) -> None:
        """Kill the head, and the next one as soon as it is there."""
        with suppress(AssertionError, ProcessLookupError):
            self.cluster.kill_head()
        time.sleep(self.dice.uniform(0, 1.0))
        self.kill_head()

    def kill_head_and_node(self) -> None:
        """Kill the head and a node at once."""
        with self._replaced() as node:
            with suppress(AssertionError, ProcessLookupError):
                self.cluster.kill_head()
            self.cluster.kill_node(node)

    # -- the rest --------------------------------------------------------------------------------------------------

    def kill_program(self) -> None:
        """Start another program on some node, and kill it while it works."""
        node = self.dice.choice(self.cluster.nodes)
        program = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, node.directory],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        with program:
            assert program.stdout is not None
            timer = threading.Timer(self.patience, program.kill)
            timer.start()
            program.stdout.readline()
            timer.cancel()
            time.sleep(self.dice.uniform(0, 0.5))
            program.kill()

    def set_clock(self) -> None:
        """Set the wall clock of all nodes forward or back by up to a day."""
        self.clock.jump(self.dice.uniform(-86400, 86400))

    def fill_disk(self) -> None:
        """Leave no room on the disk of one node for a moment."""
        assert self.disk is not None
        self.disk.fill()
        self._short()
        self.disk.free()

    # -- inside ----------------------------------------------------------------------------------------------------

    def _worker(self) -> int:
        workers = [pid for node in list(self.cluster.nodes) for pid in node.workers()]
        return self.dice.choice(workers)

    def _node(self) -> ClusterNode:
        return self.dice.choice(self.cluster.nodes[1:])

    def _short(self) -> None:
        time.sleep(self.dice.uniform(0.1, 0.6 * self.death_seconds))

    @contextmanager
    def _replaced(self) -> Iterator[ClusterNode]:
        """Choose a node that the block may end; start another in its place."""
        with ExitStack() as whole:
            whole.callback(self._until_whole)
            node = self.dice.choice([node for node in self.cluster.nodes[1:] if "disk" not in node.labels])
            yield node
            if node in self.cluster.nodes:
                self.cluster.kill_node(node)
            self.add_node()

    def add_node(self) -> None:
        """Start another node."""
        self.cluster.add_node(num_cpus=2, object_store_memory=64 << 20)

    def _until_whole(self) -> None:
        self._replace_the_ended()
        expected = len(self.cluster.nodes)

        def whole() -> bool:
            return sum(row["Alive"] for row in kernel.nodes()) == expected

        try:
            wait_until(whole, self.patience, f"a cluster of {expected} nodes")
        except AssertionError as error:
            self.outcome.blame(f"{error}: {[(row['NodeID'][:8], row['State']) for row in kernel.nodes()]}")

    def _replace_the_ended(self) -> None:
        """Put others in the place of nodes that were given up though it was not for long: this machine is busy."""
        for node in self.cluster.nodes[1:]:
            if node.process.poll() is None:
                continue
            self.outcome.fault("node given up sooner than meant")
            self.cluster.remove_node(node)
            if "disk" in node.labels and self.disk is not None:
                add_small_node(self.cluster, self.disk)
            else:
                self.add_node()

    def _until_given_up(self, node: ClusterNode) -> None:
        begun = time.monotonic()

        def given_up() -> bool:
            return any(row["NodeID"] == node.id and not row["Alive"] for row in kernel.nodes())

        try:
            wait_until(given_up, self.death_seconds + self.patience, f"node {node.id[:8]} to be given up")
        except AssertionError as error:
            self.outcome.blame(str(error))
            return
        if time.monotonic() - begun > self.death_seconds + self.tolerance:
            self.outcome.blame(f"a silent node was given up after {time.monotonic() - begun:.1f} s")

    def _must_end(self, node: ClusterNode) -> None:
        try:
            node.process.wait(self.patience)
        except subprocess.TimeoutExpired:
            self.outcome.blame(f"node {node.id[:8]} was given up and has not ended {self.patience:g} s later")
        else:
            self.cluster.remove_node(node)


def add_small_node(cluster: Cluster, disk: SmallDisk) -> None:
    """Start a node whose files are on a disk that gets full."""
    cluster.add_node(num_cpus=1, object_store_memory=32 << 20, root=disk.path, labels={"disk": "small"})


class Disturber(threading.Thread):
    """Injects faults of some kinds, with pauses of `every` seconds on average, until it is stopped."""

    def __init__(self, disturbances: Disturbances, kinds: list[str], every: float, seed: int) -> None:
        super().__init__(name="disturber", daemon=True)
        self._disturbances = disturbances
        self.kinds = kinds
        self._every = every
        self._dice = random.Random(seed)
        self._done = threading.Event()
        self.kind = ""
        """What is being done."""

    def run(self) -> None:
        """Disturb."""
        faults = self._disturbances.kinds()
        left: list[str] = []
        while not self._done.wait(self._dice.expovariate(1 / self._every)):
            if not left:  # every kind comes up, in another order each time
                left = self._dice.sample(self.kinds, len(self.kinds))
            self.kind = left.pop()
            try:
                faults[self.kind]()
            except Exception as error:
                self._disturbances.outcome.blame(f"{self.kind}: could not be done: {type(error).__name__}: {error}")
            self._disturbances.outcome.fault(self.kind)
            self.kind = ""

    def stop(self) -> None:
        """End, after what is being done."""
        self._done.set()
        self.join()
