"""Pull one object to this node: room is found, the plan decides which bytes to request, threads fetch, the store seals.

The memory is given back, or used otherwise, only when no thread reads or writes it any more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kernel_network_tcp.transfer import protocol, pull_plan
from kernel_network_tcp.transfer.connections import Connections
from kernel_network_tcp.transfer.fetching import Fetch, say_end
from kernel_network_tcp.transfer.limits import TransferLimits
from kernel_network_tcp.transfer.uploads import Uploads
from kernel_processes.node.store_link import StoreLink
from kernel_processes.transport.background import Background
from kernel_spec import store as contract
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import ObjectLostError
from kernel_spec.ids import ObjectId, ProcessId

QUEUED, LOOKING, WAITING, RECEIVING = "waits for its turn", "asks the store", "waits for room", "is on its way"
ENDING, OVER = "is being given up", "is over"


@dataclass(frozen=True, slots=True)
class Means:
    """Holds the parts that all pulls of a node share. `address` is that of its transfer service."""

    address: str
    limits: TransferLimits
    clock: Callable[[], float]
    store: StoreLink
    uploads: Uploads
    connections: Connections
    threads: Background


class Pull:
    """Pulls an object of `size` bytes that `owner` owns; `ended(pull, error)` is called once, from the loop."""

    def __init__(
        self,
        object: ObjectId,
        size: int,
        owner: ProcessId,
        means: Means,
        ended: Callable[[Pull, Exception | None], None],
    ) -> None:
        self.object = object
        self.size = size
        self.owner = owner
        self.urgent = False
        self.keep = False
        """Whether the copy must not be dropped when space is short: it is going to be the only one."""
        self.state = QUEUED
        self._means = means
        self._ended = ended
        self._error: Exception | None = None
        self._sources: dict[str, None] = {}
        self._plan: pull_plan.PullPlan | None = None
        self._memory: memoryview | None = None
        self._fetches: dict[int, Fetch] = {}

    def add_source(self, address: str) -> None:
        """Add a node from which the object can be fetched."""
        self._sources[address] = None
        self._handle(pull_plan.SourceAdded(address))

    def begin(self) -> None:
        """Start the pull. It ends at once if the store has the object already."""
        self.state = LOOKING
        self._means.store.pin(self.object, self._looked)

    def tick(self) -> None:
        """Look at the clock."""
        self._handle(pull_plan.PullTick())

    def stop(self, error: Exception) -> None:
        """Give up, for the reason `error`; it ends when its threads have. Nothing happens when it is ending already."""
        if self.state in (ENDING, OVER):
            return
        before, self.state, self._error = self.state, ENDING, error
        if before == RECEIVING:
            for fetch in self._fetches.values():
                fetch.cancel()
            self._means.uploads.not_received(self.object, "gave up pulling it")
            self.look_quiet()
        else:
            if before == WAITING:
                self._means.store.abort(self.object)
            self._end()

    def break_off(self) -> None:
        """End its threads' work, and let nothing follow from that."""
        self.state = OVER
        for fetch in self._fetches.values():
            fetch.cancel()

    def look_quiet(self) -> None:
        """After `stop`: give the memory back if nothing is received into it, nor sent from it, any more."""
        if self.state == ENDING and not self._fetches and not self._means.uploads.is_sending(self.object):
            self._means.store.abort(self.object)
            self._end()

    def describe(self) -> str:
        """Say what it waits for."""
        return self.state if self._plan is None else f"{self.state}: {self._plan.describe()}"

    def validate(self) -> None:
        """Raise AssertionError when an invariant is broken."""
        if self._plan is not None:
            self._plan.validate()
            if self.state == RECEIVING:
                assert self._plan.asks.keys() == self._fetches.keys(), "asks and threads differ"

    # -- room ------------------------------------------------------------------------------------------------------

    def _looked(self, answer: tuple[contract.Location, int] | None, error: Exception | None) -> None:
        if self.state == LOOKING and answer is None and isinstance(error, ObjectLostError):
            self._create()
            return
        if self.state == LOOKING:
            self._error = error
            self._keep_it()
            self._end()
        if answer is not None:  # Only now: all waiters have pinned it.
            self._means.store.unpin(self.object)

    def _create(self) -> None:
        self.state = WAITING
        self._means.store.create(self.object, self.size, self.owner, self._placed)

    def _placed(self, location: contract.Location, error: Exception | None) -> None:
        if error is not None:
            self._error = error
            self._end()
            return
        means = self._means
        self.state = RECEIVING
        self._memory = means.store.view(location, self.size)
        self._plan = pull_plan.PullPlan(self.size, means.address, means.limits, means.clock())
        means.uploads.receiving(self.object, self._memory, self._plan.present)
        for address in self._sources:
            self._handle(pull_plan.SourceAdded(address))
        self._handle(pull_plan.PullTick())

    # -- bytes -----------------------------------------------------------------------------------------------------

    def _handle(self, event: pull_plan.PlanEvent) -> None:
        if self.state != RECEIVING or self._plan is None:
            return
        for step in self._plan.handle(event, self._means.clock()):
            if isinstance(step, pull_plan.AskSource):
                self._ask(step)
            elif isinstance(step, pull_plan.PullDone):
                self._complete()
            else:
                text = f"object {self.object.hex()} of {self.size} bytes can't be fetched from another node"
                advice = "see whether these nodes live and can be reached, or make the object again"
                self.stop(ObjectLostError(f"{text}: {step.reason}; {advice}"))

    def _ask(self, step: pull_plan.AskSource) -> None:
        assert self._memory is not None
        means, limits = self._means, self._means.limits
        place = (self.object, self.size, step.offset, step.length)
        want = protocol.Want(*place, limits.wait_seconds, means.address, limits.checksums)
        fetch = Fetch(step.number, step.source, want, self._memory[step.offset : step.offset + step.length])
        self._fetches[step.number] = fetch
        means.threads.do(partial(fetch.run, means.connections), self._fetched, self.urgent)

    def _fetched(self, answer: pull_plan.Answer) -> None:
        del self._fetches[answer.ask]
        self._handle(answer)
        if self.state == RECEIVING:
            self._means.uploads.progress(self.object)
        self.look_quiet()

    # -- the end ---------------------------------------------------------------------------------------------------

    def _complete(self) -> None:
        self._means.uploads.received(self.object, self._seal)
        self._keep_it()
        self._end()
        self._means.store.unpin(self.object)

    def _seal(self, sending: bool) -> None:
        """Seal the object, pinned until its waiters have pinned it, and once more while it is being sent."""
        store = self._means.store
        store.seal(self.object, pin=True)
        if sending:
            store.pin(self.object, lambda found, error: None)

    def _keep_it(self) -> None:
        if self.keep or (self._plan is not None and self._plan.damaged):
            self._means.store.keep(self.object)

    def _end(self) -> None:
        self.state = OVER
        self._memory = None
        means = self._means
        if self._plan is not None and self.size > means.limits.chunk_bytes:
            end = protocol.WantNoMore(self.object, means.address, self._error is None)
            for source in self._plan.delivering():
                means.threads.do(partial(say_end, source, end, means.connections))
        self._ended(self, self._error)
        means.uploads.pull_ended(self.object)
