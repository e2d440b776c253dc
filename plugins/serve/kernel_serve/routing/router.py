"""The router of a process: a dispatcher for each deployment it sends requests to, links, and news of the controller.

It goes on with what it knows while the controller can't be reached.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import secrets
import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import kernel
from kernel_serve.errors import NotServingError, said_by
from kernel_serve.logs import logger
from kernel_serve.metrics.callers import TELL_SECONDS, CallerMetrics
from kernel_serve.routing.dispatcher import Dispatcher
from kernel_serve.routing.loops import data_loop, in_data_loop
from kernel_serve.traffic.endpoint_table import EndpointTable
from kernel_serve.values import (
    CONTROLLER_NAME,
    ENDPOINTS,
    NAMESPACE,
    Endpoint,
    Replica,
    ReplicaSet,
    RouterReport,
)
from kernel_serve.wire.link import RequestLink
from kernel_serve.wire.opening import open_link
from kernel_spec.errors import KernelError, NotInitializedError, SessionEndedError

_log = logger()
REPORT_SECONDS = 1.0
_LONGEST_PAUSE = 1.0
_HEAR_SECONDS = 10.0
"""Seconds to wait until the router of this process knows new versions: as long as for a proxy."""
_GONE_SECONDS = 1.0
"""Seconds without a known controller after which Serve counts as ended: a restarted head does not know it at first."""


class Router:
    """Sends requests to deployments. All methods are for the data loop's thread."""

    def __init__(self, node: str, random: Random | None = None, metrics: CallerMetrics | None = None) -> None:
        self.id = secrets.token_hex(8)
        self.node = node
        self._metrics = metrics
        self.endpoints: tuple[Endpoint, ...] = ()
        self._random = random or Random()
        self.endpoint_table = EndpointTable((), self._random)
        """The endpoints, in which requests are looked up."""
        self._listeners: list[Callable[[], None]] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._dispatchers: dict[str, Dispatcher] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._topics_changed = asyncio.Event()
        self._report_now = asyncio.Event()
        self._known: dict[str, Any] = {}
        self._closed = False
        self._gone_since: float | None = None
        """The time since which no controller is known, by the monotonic clock; None while one is."""
        self._run(self._watch())
        self._run(self._report())

    # -- requests --------------------------------------------------------------------------------------------------

    def dispatcher(self, key: str) -> Dispatcher:
        """Return the dispatcher for a deployment, and follow the deployment's news from now on."""
        found = self._dispatchers.get(key)
        if found is None:
            found = self._dispatchers[key] = Dispatcher(key, self.node, self._random, self._report_now.set)
            self._topics_changed.set()
        return found

    @property
    def dispatchers(self) -> Mapping[str, Dispatcher]:
        """All dispatchers by key. From any thread."""
        return self._dispatchers.copy()

    @property
    def knows_endpoints(self) -> bool:
        """Whether the endpoints are known."""
        return ENDPOINTS in self._known

    def listen(self, function: Callable[[], None]) -> None:
        """Call `function` each time that the endpoints have changed."""
        self._listeners.append(function)

    async def await_news(self, versions: Mapping[str, str]) -> None:
        """Return when these topics, those that are followed here, are known in these versions or later ones."""
        while any(
            (topic == ENDPOINTS or topic in self._dispatchers) and is_older(self._known.get(topic), version)
            for topic, version in versions.items()
        ):
            await self._next_news()

    async def await_endpoints(self) -> None:
        """Return when the endpoints are known."""
        while not self.knows_endpoints:
            await self._next_news()

    async def _next_news(self) -> None:
        heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(heard)
        await heard

    # -- links -----------------------------------------------------------------------------------------------------

    async def _link(self, dispatcher: Dispatcher, replica: Replica) -> None:
        id = replica.id

        def on_lost(reason: str) -> None:
            dispatcher.unlinked(id)
            if id in dispatcher.chooser.candidates and not self._closed:
                self._run(self._lost(dispatcher, replica, reason))

        try:
            link = await open_link(
                replica,
                self.node,
                lambda said: dispatcher.on_notice(id, said),
                lambda load: dispatcher.on_load(id, load),
                on_lost,
            )
        except (OSError, KernelError) as error:
            _log.info("a replica can't be reached", replica=id, deployment=dispatcher.key, error=said_by(error))
            await self._lost(dispatcher, replica, said_by(error))
            return
        self._linked(dispatcher, id, link)

    @staticmethod
    def _linked(dispatcher: Dispatcher, id: str, link: RequestLink) -> None:
        if id in dispatcher.chooser.candidates:
            dispatcher.linked(id, link)

    async def _lost(self, dispatcher: Dispatcher, replica: Replica, reason: str) -> None:
        """Report a lost link to the controller; if the replica is still in the set after a while, link to it again."""
        self._run(self._tell_lost(dispatcher.key, replica.id, reason))  # the controller may be away: nothing here waits
        await asyncio.sleep(_LONGEST_PAUSE)
        if replica.id in dispatcher.chooser.candidates and replica.id not in dispatcher.links:
            await self._link(dispatcher, replica)

    @staticmethod
    async def _tell_lost(key: str, id: str, reason: str) -> None:
        with contextlib.suppress(KernelError):
            controller = await find_controller()
            await controller.lost.remote(key, id, reason)

    # -- the controller --------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Ask the controller, again and again, for changed topics."""
        controller: Any = None
        pause = 0.05
        while not self._closed:
            self._topics_changed.clear()
            topics = {topic: self._known.get(topic) for topic in (ENDPOINTS, *self._dispatchers)}
            try:
                if controller is None:
                    controller = await find_controller()
                asked = controller.watch.remote(topics).as_future()
                changed = asyncio.ensure_future(self._topics_changed.wait())
                await asyncio.wait((asked, changed), return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                if asked.done():
                    self._learn(asked.result())
                    self._gone_since = None
                else:
                    asked.add_done_callback(_forget)
                pause = 0.05
            except (NotInitializedError, SessionEndedError):
                self.close()
            except KernelError as error:
                _log.debug("the controller does not answer", error=said_by(error))
                controller = None
                forget_controller()
                if isinstance(error, NotServingError):
                    self._not_serving(str(error))
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            except Exception:  # one topic that can't be read must not stop the others
                _log.exception("an update from the controller could not be read")
                await asyncio.sleep(_LONGEST_PAUSE)

    def _not_serving(self, why: str) -> None:
        """Fail requests that wait for replicas which will never start. Dispatchers with a link go on."""
        now = time.monotonic()
        if self._gone_since is None:
            self._gone_since = now
        if now - self._gone_since < _GONE_SECONDS:
            return
        for key, dispatcher in list(self._dispatchers.items()):
            if not dispatcher.links:
                dispatcher.update(ReplicaSet(key, (), -1, None, exists=False, message=why))
                del self._dispatchers[key]
                self._known.pop(key, None)

    def _learn(self, news: dict[str, tuple[Any, Any]]) -> None:
        for topic, (version, value) in news.items():
            if topic == ENDPOINTS:
                self._known[topic] = version
                self.endpoints = value
                self.endpoint_table = EndpointTable(value, self._random, self.endpoint_table)
                for listener in list(self._listeners):
                    listener()
            elif topic in self._dispatchers:
                self._known[topic] = version
                dispatcher = self._dispatchers[topic]
                existed = dispatcher.replica_set is not None and dispatcher.replica_set.exists
                new, gone = dispatcher.update(value)
                for replica in new:
                    self._run(self._link(dispatcher, replica))
                for replica in gone:
                    dispatcher.links.pop(replica.id, None)
                if existed and not value.exists:  # it was deleted; a new dispatcher asks again
                    del self._dispatchers[topic], self._known[topic]
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    async def _report(self) -> None:
        """Report the numbers of requests to the controller: each second, and at once when a deployment must wake."""
        last, told = RouterReport("", ""), 0.0
        while not self._closed:
            with contextlib.suppress(asyncio.TimeoutError, TimeoutError):
                await asyncio.wait_for(self._report_now.wait(), REPORT_SECONDS)
            self._report_now.clear()
            report = self._numbers()
            waits = report.snapshot is None or time.monotonic() - told < TELL_SECONDS
            if report == last and waits and not report.ongoing and not report.queued:
                continue
            try:
                controller = await find_controller()
                await controller.report.remote(report)
                last, told = report, time.monotonic()
            except (NotInitializedError, SessionEndedError):
                self.close()
            except KernelError as error:
                _log.debug("the controller does not answer", error=said_by(error))

    def _numbers(self) -> RouterReport:
        queued, ongoing = {}, {}
        for key, dispatcher in self._dispatchers.items():
            waiting, sent = dispatcher.numbers()
            if waiting:
                queued[key] = waiting
            if busy := {id: number for id, number in sent.items() if number}:
                ongoing[key] = busy
        snapshot = self._metrics.snapshot() if self._metrics is not None and self._dispatchers else None
        return RouterReport(self.id, self.node, queued, ongoing, snapshot)

    def close(self) -> None:
        """Stop asking and reporting."""
        self._closed = True
        for task in self._tasks:
            task.cancel()

    def _run(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


_controller: tuple[str, Any] | None = None
_router: tuple[str, Router] | None = None


async def find_controller() -> Any:
    """Return the controller's handle, in an event loop. Raises NotServingError if Serve does not run."""
    try:
        found = asyncio.get_running_loop().run_in_executor(None, controller_handle)
    except RuntimeError as error:  # Python's executors take nothing more when its main thread has ended
        raise SessionEndedError("this process is ending") from error
    return await found


def controller_handle() -> Any:
    """Return the controller's handle. It is cached for the session, until `forget_controller`.

    Raises NotServingError if Serve does not run.
    """
    global _controller
    session = kernel.get_runtime_context().get_worker_id()
    if _controller is None or _controller[0] != session:
        try:
            _controller = (session, kernel.get_actor(CONTROLLER_NAME, NAMESPACE))
        except ValueError:
            raise NotServingError(
                "Serve does not run in this session: start it with serve.run(...) or serve.start()"
            ) from None
    return _controller[1]


def forget_controller() -> None:
    """Clear the cached handle of the controller, which has ended."""
    global _controller
    _controller = None


def process_router() -> Router:
    """Return the router of this process and session. On the data loop."""
    global _router
    session = kernel.get_runtime_context().get_worker_id()
    if _router is None or _router[0] != session:
        if _router is not None:
            _router[1].close()
        node = kernel.get_runtime_context().get_node_id()
        metrics = CallerMetrics(f"caller {node[:12]}-{os.getpid()}", dispatchers_of_process)
        metrics.show()
        _router = (session, Router(node, metrics=metrics))
    return _router[1]


def dispatchers_of_process() -> Mapping[str, Dispatcher]:
    """Return the dispatchers of this process's router; {} without a router. From any thread."""
    return _router[1].dispatchers if _router is not None else {}


def hear_here(versions: Mapping[str, str]) -> None:
    """Return when this process's router, if there is one, knows topics in these versions, as the proxies do."""
    if _router is None or in_data_loop():
        return
    try:
        session = kernel.get_runtime_context().get_worker_id()
    except NotInitializedError:  # the router belongs to a session that has ended
        return
    if _router[0] == session:
        hearing = asyncio.run_coroutine_threadsafe(_router[1].await_news(versions), data_loop())
        with contextlib.suppress(concurrent.futures.TimeoutError, TimeoutError):
            hearing.result(_HEAR_SECONDS)
        hearing.cancel()  # a wait that took too long is cancelled


def is_older(version: str | None, other: str) -> bool:
    """Return whether a version of a topic is older than another one, or unknown (None).

    Versions of another process of the controller count as older.
    """
    if version is None:
        return True
    life, _, number = version.rpartition(":")
    other_life, _, other_number = other.rpartition(":")
    return life != other_life or int(number) < int(other_number)


def _forget(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()
