"""Handles of an application in this process. Their calls run on its data loop, and in threads, without a session."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from kernel import ObjectRef
from kernel_serve.api.handle import DeploymentHandle
from kernel_serve.context import ReplicaContext, RequestContext, end_request, enter_here, enter_request
from kernel_serve.errors import UserCodeError
from kernel_serve.replica.calls import check_items, check_result
from kernel_serve.replica.user_code import UserCode
from kernel_serve.routing.sending import FAILED, ITEM, OVER, RESULT, HandleCall, Pending
from kernel_serve.tracebacks import told_from_the_user
from kernel_serve.wire.arguments import value_of
from kernel_serve.wire.pickling import dumps, loads

_AHEAD = 100
"""The number of items of a stream that are computed before they are asked for."""


class InProcessReplica(Protocol):
    """Holds one deployment: its object, made by `code`, and its context."""

    code: UserCode
    context: ReplicaContext


class LocalHandle(DeploymentHandle):
    """Calls a deployment of an application in this process. `replicas` has all of them by name."""

    def __init__(
        self, deployment: str, application: str, replicas: Mapping[str, InProcessReplica], **options: Any
    ) -> None:
        super().__init__(deployment, application, **options)
        self._replicas = replicas

    def _like(self, **options: Any) -> LocalHandle:
        return LocalHandle(self.deployment_name, self.app_name, self._replicas, **options)

    def _call(self, meta: dict[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> LocalCall:
        return LocalCall(self._replicas[self.deployment_name], self._key, meta, args, kwargs, self._timeout)

    def __reduce__(self) -> tuple[Any, ...]:
        _applications[id(self._replicas)] = self._replicas
        return _rebuild, (self.deployment_name, self.app_name, id(self._replicas), self._options())


_applications: dict[int, Mapping[str, InProcessReplica]] = {}
"""The applications whose handles were arguments of calls, and so pickled. They live as long as the process."""


def _rebuild(deployment: str, application: str, id: int, options: dict[str, Any]) -> LocalHandle:
    return LocalHandle(deployment, application, _applications[id], **options)


class LocalCall(HandleCall):
    """Represents a call that this process carries out. Arguments and results are copied, as if they had travelled."""

    def __init__(
        self,
        replica: InProcessReplica,
        key: str,
        meta: dict[str, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        timeout: float | None,
    ) -> None:
        super().__init__(key, meta, args, kwargs, timeout, False)
        self._replica = replica
        self._room: asyncio.Event | None = None

    def prepare(self) -> None:
        """Copy the arguments in the caller's thread, so that the caller may change them afterwards. Raises nothing."""
        try:
            self._args = tuple(_copied(each) for each in self._args)
            self._kwargs = {name: _copied(each) for name, each in self._kwargs.items()}
        except Exception as error:
            self._refusal = error

    async def _resolve(self) -> None:
        """Wait for the arguments that are results of other calls, and call the method."""
        context = self._replica.context
        enter_here(context)
        request = RequestContext(
            self.meta["id"], "", context.app_name, context.deployment, self.meta.get("model", ""), []
        )
        try:
            args = [await _settled(each) for each in self._args]
            kwargs = {name: await _settled(each) for name, each in self._kwargs.items()}
            enter_request(request)
            await self._carry_out(self._replica.code, args, kwargs)
        except BaseException as error:  # user code may raise anything
            if self.over:  # it was cancelled
                return
            told = told_from_the_user(error)
            failure = told if isinstance(told, Exception) else UserCodeError(f"{self.key} raised {told!r}")
            self._end(FAILED, failure)
        finally:
            end_request(request)

    async def _carry_out(self, code: UserCode, args: list[Any], kwargs: dict[str, Any]) -> None:
        method, deployment = self.meta["method"], self._replica.context.deployment
        function, kind = code.method(method)
        result = await code.run(function, kind, args, kwargs)
        if not self.meta.get("stream"):
            check_result(deployment, method, kind, result)
            self._end(RESULT, dumps(result))
            return
        check_items(deployment, method, result)
        self._room = asyncio.Event()
        async for item in code.items(result):
            self.outcomes.append((ITEM, dumps(item)))
            self._tell()
            self.held = len(self.outcomes) >= _AHEAD
            while self.held and self.outcomes:
                self._room.clear()
                await self._room.wait()
        self._end(OVER, None)

    def take_more(self) -> None:
        """Compute more items: all that there were have been taken. On the data loop."""
        self.held = False
        if self._room is not None:
            self._room.set()


def _copied(argument: Any) -> Any:
    return argument if isinstance(argument, (Pending, ObjectRef)) else loads(dumps(argument))


async def _settled(argument: Any) -> Any:
    """Return the value that an argument stands for, on the data loop."""
    if isinstance(argument, ObjectRef):
        return await value_of(argument)
    if isinstance(argument, Pending):
        raw = await argument.call.raw_result()
        return await value_of(raw) if isinstance(raw, ObjectRef) else loads(raw)
    return argument
