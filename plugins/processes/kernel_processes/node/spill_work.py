"""Write to, read from and delete at the spill target, outside the agent's loop and within a time limit."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Sequence

from kernel.logs import Logger
from kernel.plugin_faults import told
from kernel_processes.system.daemon_pool import MOST_HANGING, DaemonJob, DaemonPool
from kernel_processes.transport.reactor import Reactor
from kernel_spec import store as contract
from kernel_spec.dataclass import dataclass
from kernel_spec.errors import KernelError, SpillError
from kernel_spec.ids import ObjectId
from kernel_spec.spill import SpillTarget

THREADS = 2
CALL_SECONDS = 60.0
SLOWEST_BYTES_PER_SECOND = 4 << 20
"""Rate for the time limit of a call, which is CALL_SECONDS at least."""
LOOK_SECONDS = 0.5
CLOSE_SECONDS = 10.0
DELETE_MANY = 1000

Step = contract.WriteSpill | contract.ReadSpill
Done = contract.SpillDone | contract.SpillFailed | contract.RestoreDone | contract.RestoreFailed


@dataclass(eq=False)
class _Work:
    """Holds one step in progress. `asked` is when it began; `late` says that its waiters were told that it is late."""

    step: Step
    then: Callable[[Done | contract.RestoreLate], None]
    asked: float
    job: DaemonJob | None = None
    late: bool = False


class SpillWork:
    """Carries out the store's disk work. Its methods are called from the agent's loop.

    Bytes that are read back must have the checksum of those written, or the object counts as lost.
    A write that takes too long has failed, and its copy is deleted if it is made after all. A read that takes too
    long is `RestoreLate`: the target may still write to that memory.
    """

    def __init__(self, server: contract.StoreServer, target: SpillTarget, reactor: Reactor) -> None:
        self._server = server
        self._target = target
        self._label = f"the spill target {target.name!r}"
        self._reactor = reactor
        self._threads = DaemonPool(THREADS, "spill", reactor.clock)
        self._works: dict[ObjectId, _Work] = {}
        """Steps in progress by object, oldest first; the store orders one step at a time for an object."""
        self._finished: list[tuple[_Work, Done]] = []
        self._checksums: dict[str, int] = {}
        """The CRC-32 of each copy, by uri."""
        self._unwanted: list[str] = []
        self._deleting: DaemonJob | None = None
        self._looking = False
        self._log = Logger("kernel.node")

    def begin(self, step: Step, then: Callable[[Done | contract.RestoreLate], None]) -> None:
        """Write or read an object; `then(event)` is called with what the store is to know of it."""
        work = self._works[step.object] = _Work(step, then, self._reactor.clock())
        if self._threads.is_blocked:
            self._finished.append((work, self._failed(step, self._blocked_error())))
            self._reactor.call_later(0.0, self.finish)
            return
        work.job = self._threads.begin(lambda: self._carry_out(work))
        self._look_later()

    def delete(self, uri: str) -> None:
        """Remove a copy; those that become unwanted while others are removed go together."""
        self._checksums.pop(uri, None)
        self._unwanted.append(uri)
        self._delete_unwanted()

    def finish(self) -> None:
        """Pass the results of finished work to the store."""
        while self._finished:
            work, done = self._finished.pop(0)
            if self._works.get(work.step.object) is work:
                del self._works[work.step.object]
                if work.late:
                    self._log.warning("the spill target answered at last", target=self._target.name, answer=repr(done))
                elif isinstance(work.step, contract.ReadSpill) and isinstance(done, contract.RestoreFailed):
                    self._log.warning("a spilled copy is lost", uri=work.step.uri, reason=str(done.error))
                work.then(done)
            elif isinstance(done, contract.SpillDone):
                self.delete(done.uri)
        if self._deleting is not None and self._deleting.ended:
            self._deleting = None
            self._delete_unwanted()

    def explain(self, object: ObjectId) -> str:
        """Describe the step in progress for `object`, or else the oldest one; "" when there is none."""
        work = self._works.get(object) or next(iter(self._works.values()), None)
        if work is None:
            return ""
        step = work.step
        verb = "written to" if isinstance(step, contract.WriteSpill) else "read from"
        return (
            f"object {step.object.hex()} of {step.size} bytes is being {verb} the spill target {self._target.name!r} "
            f"for {self._reactor.clock() - work.asked:.0f} s now; see whether its place (spill_directory) answers"
        )

    def close(self) -> None:
        """Wait some seconds for what is under way, and have the target remove everything, if it still answers."""
        self._threads.close(CLOSE_SECONDS / 2)
        closing = threading.Thread(target=self._close_target, name="spill-close", daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)
        if closing.is_alive():
            self._log.warning("the spill target hangs and may leave copies behind", target=self._target.name)

    # -- in threads ------------------------------------------------------------------------------------------------

    def _carry_out(self, work: _Work) -> None:
        step = work.step
        done: Done
        method = "write" if isinstance(step, contract.WriteSpill) else "read_into"
        try:
            with self._server.view(step.location, step.size) as data:
                if isinstance(step, contract.WriteSpill):
                    checksum = zlib.crc32(data)
                    uri = self._target.write(step.object, data)
                    if not isinstance(uri, str):
                        raise SpillError(f"{self._label}: its write() returned {uri!r:.100}, which is no uri (a str)")
                    self._checksums[uri] = checksum
                    done = contract.SpillDone(step.object, uri)
                else:
                    self._target.read_into(step.uri, data)
                    self._compare(step.uri, data)
                    done = contract.RestoreDone(step.object)
        except Exception as error:
            known = (
                error if isinstance(error, KernelError) else SpillError(told(f"{self._label}: its {method}()", error))
            )
            done = self._failed(step, known)
        self._finished.append((work, done))
        self._reactor.wake()

    def _compare(self, uri: str, data: memoryview) -> None:
        """Raise SpillError unless `data` is what was written to `uri`."""
        written, read = self._checksums[uri], zlib.crc32(data)
        if read != written:
            raise SpillError(
                f"the spilled copy is damaged: {data.nbytes} bytes with the CRC-32 {written:08x} were written, those "
                f"that were read have {read:08x}; something else wrote to it, or its disk is failing"
            )

    def _delete(self, uris: Sequence[str]) -> None:
        try:
            delete_many = getattr(self._target, "delete_many", None)
            if delete_many is not None:
                delete_many(uris)
            else:
                for uri in uris:
                    self._target.delete(uri)
        except Exception as error:
            self._log.warning("spilled copies could not be deleted", reason=told(f"{self._label}: its delete()", error))
        self._reactor.wake()

    def _close_target(self) -> None:
        try:
            self._target.close()
        except Exception as error:
            self._log.warning("the spill target could not be closed", reason=told(f"{self._label}: its close()", error))

    # -- time ------------------------------------------------------------------------------------------------------

    def _look_later(self) -> None:
        if not self._looking:
            self._looking = True
            self._reactor.call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        """Give up what takes too long."""
        self._looking = False
        self.finish()
        now = self._reactor.clock()
        for work in list(self._works.values()):
            job, seconds = work.job, self._limit(work.step.size)
            if job is None or work.late:
                continue
            if job.begun is None:
                if self._threads.is_blocked and self._threads.abandon(job):
                    self._give_up(work, self._blocked_error())
            elif now - job.begun > seconds and self._threads.abandon(job):
                self._give_up(work, self._late_error(work.step, seconds))
        deleting = self._deleting
        late = deleting is not None and deleting.begun is not None and now - deleting.begun > self._limit(0)
        if late and self._threads.abandon(deleting):
            self._deleting = None
        self._delete_unwanted()
        if self._works or self._deleting is not None:
            self._look_later()

    def _give_up(self, work: _Work, error: SpillError) -> None:
        work.late = True
        step, begun = work.step, work.job is not None and work.job.begun is not None
        self._log.warning("the spill target hangs", target=self._target.name, reason=str(error))
        if isinstance(step, contract.ReadSpill) and begun:
            work.then(contract.RestoreLate(step.object, error))
        else:
            del self._works[step.object]
            work.then(self._failed(step, error))

    def _limit(self, size: int) -> float:
        """Return how many seconds a call for `size` bytes may take."""
        own: float | None = getattr(self._target, "timeout_seconds", None)
        return own if own is not None else CALL_SECONDS + size / SLOWEST_BYTES_PER_SECOND

    def _late_error(self, step: Step, seconds: float) -> SpillError:
        verb = "write" if isinstance(step, contract.WriteSpill) else "read"
        return SpillError(
            f"the spill target {self._target.name!r} did not {verb} object {step.object.hex()} of {step.size} bytes "
            f"within {seconds:.0f} s: it hangs; see whether its place (spill_directory) answers, or name another"
        )

    def _blocked_error(self) -> SpillError:
        return SpillError(
            f"the spill target {self._target.name!r} hangs: {MOST_HANGING} calls have not come back; "
            "see whether its place (spill_directory) answers. Spilling goes on when one of them does"
        )

    # -- the rest --------------------------------------------------------------------------------------------------

    def _delete_unwanted(self) -> None:
        if self._unwanted and self._deleting is None and not self._threads.is_blocked:
            uris, self._unwanted = self._unwanted[:DELETE_MANY], self._unwanted[DELETE_MANY:]
            self._deleting = self._threads.begin(lambda: self._delete(uris))
            self._look_later()

    @staticmethod
    def _failed(step: Step, error: KernelError) -> Done:
        failed = contract.SpillFailed if isinstance(step, contract.WriteSpill) else contract.RestoreFailed
        return failed(step.object, error)
