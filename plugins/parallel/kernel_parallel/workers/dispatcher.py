"""Moves chunks to workers and their results back. Whoever waits for a job drives idle workers itself.

A *driver* is a thread that has given chunks to workers and waits for them: the caller of a blocking method, or a thread
in the background. Each looks after the workers that it has given something, and takes idle ones as long as there is
something to do; so a blocking call costs no change of threads, and no thread waits for what another one has.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import kernel
from kernel.exceptions import (
    FaultError,
    NotInitializedError,
    SessionEndedError,
    WorkerDiedError,
)
from kernel_parallel.workers.functions import UNKEPT, Functions, is_plain
from kernel_parallel.workers.jobs import CALL, Chunk, ChunkJob
from kernel_parallel.workers.messages import Message, overdue, seconds_to_overdue
from kernel_parallel.workers.outcomes import encoding_error, remote_error, sending_error, wait_for_end
from kernel_parallel.workers.payload import pack, unpack
from kernel_parallel.workers.schedule import Schedule, ScheduledWorker
from kernel_parallel.workers.worker import KNOWN_FUNCTIONS, name_of
from kernel_spec.daemon_threads import DaemonThreads

Running = dict[kernel.ObjectRef, Message]


class ChunkDispatcher:
    """Runs jobs on `size` workers that `start_worker(number)` starts; each does at most `max_tasks` chunks.

    A chunk whose worker dies is given to another, up to `retries` times; then its job fails with WorkerDiedError.
    """

    def __init__(self, size: int, start_worker: Callable[[int], Any], max_tasks: int | None, retries: float) -> None:
        self.functions = Functions()
        self.closing = False
        """Whether nothing new is coming: all there is should be done, whether somebody reads the results or not."""
        self._start_worker = start_worker
        self._schedule = Schedule(max_tasks, retries, self.functions.burst)
        self._lock = threading.Lock()
        self._quiet = threading.Condition(self._lock)
        self._threads = DaemonThreads("kernel-pool", idle_s=1.0)
        self._started = 0
        self._ended_by: BaseException | None = None
        self._leaving: list[kernel.ObjectRef] = []
        for _ in range(size):
            self._add_worker()

    @property
    def workers(self) -> list[Any]:
        """The actors that there are now."""
        with self._lock:
            return [worker.actor for worker in self._schedule.workers]

    def submit(self, job: ChunkJob) -> None:
        """Have a job done in the background, or go on with one that has got more chunks."""
        self._queue(job)
        self._wake()

    def run(self, job: ChunkJob) -> None:
        """Have a job done, and help with it; returns when no worker is free for it or all of it is under way."""
        self._queue(job)
        self._drive({}, job)

    def end(self, job: ChunkJob) -> None:
        """Forget a job that was over without its last chunk saying so."""
        with self._quiet:
            self._schedule.end_job(job)
            self._quiet.notify_all()

    def drain(self) -> None:
        """Wait until all jobs are over, then end the workers, and wait until they have gone."""
        with self._quiet:
            self._quiet.wait_for(lambda: not self._schedule.jobs)
            workers, _ = self._schedule.clear()
        for worker in workers:
            self._retire(worker)
        leaving, self._leaving = self._leaving, []
        wait_for_end(leaving)

    def terminate(self, error: BaseException) -> None:
        """End all workers at once, and all jobs with this error. A job that comes later is ended with it, too."""
        with self._quiet:
            self._ended_by = error
            workers, jobs = self._schedule.clear()
            self._quiet.notify_all()
        for job in jobs:
            job.cancel(error)
        for worker in workers:
            if kernel.is_initialized():
                kernel.kill(worker.actor)

    # -- workers ---------------------------------------------------------------------------------------------------

    def _add_worker(self) -> None:
        try:
            worker = ScheduledWorker(self._start_worker(self._started))
        except (FaultError, NotInitializedError) as error:
            if not self._started:
                raise
            self.terminate(error)
            return
        self._started += 1
        with self._lock:
            if self._ended_by is None:
                self._schedule.add_worker(worker)

    def _retire(self, worker: ScheduledWorker) -> None:
        self._leaving = [ref for ref in self._leaving if not ref.is_ready()]
        self._leaving.append(worker.actor.leave.remote())

    # -- driving ---------------------------------------------------------------------------------------------------

    def _queue(self, job: ChunkJob) -> None:
        if job.how != CALL and job.reference is None and not is_plain(job.function):
            job.reference = kernel.put(job.function)
        with self._lock:
            if self._ended_by is None:
                self._schedule.add_job(job)
                return
        job.cancel(self._ended_by)

    def _wake(self) -> None:
        with self._lock:
            wanted = self._schedule.wants_driver
        if wanted:
            self._threads.submit(lambda: self._drive({}, None))

    def _drive(self, running: Running, only: ChunkJob | None) -> None:
        try:
            while True:
                self._send_what_can_be(running, only)
                if not running:
                    break
                if only is not None:
                    self._wake()
                for ref in self._ready(running):
                    self._take_in(ref, running)
        except Exception as error:  # what was not foreseen must not leave anybody waiting
            self.terminate(_end_of_session(error))
        except BaseException:
            if running:  # somebody else has to look after them: the caller was interrupted
                self._threads.submit(lambda: self._drive(running, None))
            raise
        if only is not None:
            self._wake()

    def _ready(self, running: Running) -> list[kernel.ObjectRef]:
        """Return answers that are there, or the only one to wait for; ask back what is overdue meanwhile."""
        refs = list(running)
        patience = seconds_to_overdue(running.values(), time.monotonic())
        if patience is None:
            return refs if len(refs) == 1 else kernel.wait(refs)[0]
        ready, _ = kernel.wait(refs, timeout=patience)
        if not ready:
            for message in overdue(running.values(), time.monotonic()):
                message.holds_up = False
                ref = message.worker.actor.give_back.remote(message.number)
                running[ref] = Message(message.worker, [], -1, 0.0, False, asks_back=message)
        return ready

    def _send_what_can_be(self, running: Running, only: ChunkJob | None) -> None:
        while True:
            with self._lock:
                assigned = self._schedule.assign(only)
                if not self._schedule.jobs:  # the last of them was cancelled by its caller
                    self._quiet.notify_all()
            if assigned is None:
                return
            worker, chunks = assigned
            try:
                ref, message = self._send(worker, chunks)
            except BaseException as error:
                self._not_sent(worker, chunks, error)
                if not isinstance(error, Exception):
                    raise
            else:
                running[ref] = message

    def _send(self, worker: ScheduledWorker, chunks: list[Chunk]) -> tuple[kernel.ObjectRef, Message]:
        job = chunks[0].job
        key = self.functions.key_of(job.function)
        payload = pack([chunk.items for chunk in chunks])
        with worker.sending:  # two drivers may send to one worker, and what it knows depends on the order
            function = None if key in worker.known else job.reference or job.function
            ref = worker.actor.run.remote(worker.sent, key, function, job.how, payload)
            number, worker.sent = worker.sent, worker.sent + 1
            if key != UNKEPT and function is not None:
                if len(worker.known) >= KNOWN_FUNCTIONS:
                    del worker.known[next(iter(worker.known))]
                worker.known[key] = None
        holds_up = len(chunks) > 1 or worker.unanswered > 1
        return ref, Message(worker, chunks, number, time.monotonic(), holds_up)

    def _not_sent(self, worker: ScheduledWorker, chunks: list[Chunk], error: BaseException) -> None:
        if len(chunks) == 1:
            self._settle(worker, chunks, [(False, sending_error(error))])
            return
        self._settle(worker, [], [])
        self._take_back(chunks)  # one by one, so that each has its own error

    def _take_in(self, ref: kernel.ObjectRef, running: Running) -> None:
        message = running[ref]
        if message.asks_back is not None:
            self._take_begun(ref, message.asks_back)
            del running[ref]
            return
        failure = answer = None
        try:
            answer = unpack(kernel.get(ref))
        except Exception as error:
            failure = error
        del running[ref]
        worker, chunks = message.worker, message.chunks
        message.answered = True
        if failure is not None and (isinstance(failure, SessionEndedError) or not kernel.is_initialized()):
            self.terminate(_end_of_session(failure))
        elif isinstance(failure, FaultError):
            self._lose(worker, chunks, failure)
        elif failure is not None:
            reason = encoding_error(failure, name_of(chunks[0].job.function))
            self._settle(worker, chunks, [(False, reason)] * len(chunks))
        else:
            self._take_answer(message, *answer)

    def _take_begun(self, ref: kernel.ObjectRef, asked: Message) -> None:
        try:
            begun = kernel.get(ref)
        except (FaultError, NotInitializedError):
            return  # the message itself will fail, too
        if not asked.answered:
            asked.chunks, returned = asked.chunks[:begun], asked.chunks[begun:]
            self._take_back(returned)

    def _take_answer(self, message: Message, seconds: float, outcomes: Any) -> None:
        if isinstance(outcomes, tuple):  # one error for all of them
            outcomes = [outcomes] * len(message.chunks)
        done, returned = message.chunks[: len(outcomes)], message.chunks[len(outcomes) :]
        calls = sum(chunk.size for chunk in done)
        if calls and seconds:
            done[0].job.learn(seconds / calls)
            self.functions.learn(done[0].job.function, seconds / calls, calls)
        self._settle(message.worker, done, [(ok, value if ok else remote_error(*value)) for ok, value in outcomes])
        self._take_back(returned)

    def _take_back(self, chunks: list[Chunk]) -> None:
        """Give chunks that never began to others, one by one."""
        if chunks:
            self.functions.keep_apart(chunks[0].job.function)
            with self._lock:
                self._schedule.give_back(chunks)
            self._wake()

    def _settle(self, worker: ScheduledWorker, chunks: list[Chunk], results: list[tuple[bool, Any]]) -> None:
        with self._lock:
            retired = self._schedule.finish(worker)
        if retired:
            self._retire(worker)
            self._add_worker()
        for chunk, (ok, value) in zip(chunks, results, strict=True):
            self._tell(chunk, ok, value)

    def _lose(self, worker: ScheduledWorker, chunks: list[Chunk], error: FaultError) -> None:
        with self._lock:
            if self._ended_by is not None:
                return
            new, failed = self._schedule.lose(worker, chunks)
        if new:
            self._add_worker()
        for chunk in failed:
            text = (
                f"{name_of(chunk.job.function)}() was tried {chunk.attempts} times, and each time its worker died; the "
                f'last time: {error}. How often is said by kernel_remote_args={{"max_task_retries": 3}}'
            )
            died = WorkerDiedError(text)
            died.__cause__ = error
            self._tell(chunk, False, died)

    def _tell(self, chunk: Chunk, ok: bool, value: Any) -> None:
        with self._lock:
            if chunk.job not in self._schedule.jobs:
                return  # cancelled
        if chunk.job.settle(chunk, ok, value):
            self.end(chunk.job)


def _end_of_session(error: Exception) -> Exception:
    """Return an error as it is, unless it is a symptom of a session that was shut down: then say that."""
    if kernel.is_initialized() or isinstance(error, SessionEndedError):
        return error
    ended = SessionEndedError("the session was shut down before this was done; make a new pool in the next one")
    ended.__cause__ = error
    return ended
