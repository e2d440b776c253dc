"""Carry out the instructions for proxies."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import kernel
from kernel_serve.control.actor_driver import ActorDriver
from kernel_serve.control.instructions import CheckProxy, DrainProxy, Instruction, KillProxy, StartProxy
from kernel_serve.errors import original, said_by
from kernel_spec.errors import ActorDiedError, KernelError

START_SECONDS = 60.0
SPREAD_SECONDS = 10.0
"""The longest time in seconds to wait until a proxy knows a new version: no longer than a check of its health takes."""


class ProxyDriver(ActorDriver):
    """Proxies: actors that are bound to their nodes."""

    kind = "proxy"

    def carry_out(self, instruction: Instruction) -> None:
        """Begin to carry out an instruction. Events report what comes of it."""
        if isinstance(instruction, StartProxy):
            self.run(self._start(instruction))
        elif isinstance(instruction, CheckProxy):
            self.run(self._check(instruction))
        elif isinstance(instruction, DrainProxy):
            self.run(self._drain(instruction))
        elif isinstance(instruction, KillProxy):
            self.run(self._kill(instruction.id))

    async def spread(self, versions: Mapping[str, str]) -> None:
        """Return once all proxies know topics in these versions.

        A proxy that takes more than `SPREAD_SECONDS` is left out.
        """
        asked = [handle.await_news.remote(versions).as_future() for handle in self.handles.values()]
        if asked:
            done, _ = await asyncio.wait(asked, timeout=SPREAD_SECONDS)
            for each in done:
                each.exception()  # a proxy that has ended answers no requests either

    async def _start(self, start: StartProxy) -> None:
        options: dict[str, Any] = {
            "num_cpus": 0,
            "scheduling_strategy": kernel.NodeAffinitySchedulingStrategy(start.node, soft=False),
        }
        arguments = (start.index, start.http, start.grpc, start.shares_grpc, start.beside, start.ports_before)
        try:
            handle = await self.make(start.id, start.resume, options, *arguments)
            listening = await asyncio.wait_for(handle.start.remote().as_future(), START_SECONDS)
        except (asyncio.TimeoutError, TimeoutError):
            await self._give_up(start.id, f"it did not listen within {START_SECONDS:g} s")
        except ActorDiedError as error:
            await self._give_up(start.id, said_by(error))
        except Exception as error:
            await self._give_up(start.id, said_by(error).partition("\n")[0] or repr(original(error)))
        else:
            self._told("ready", start.id, listening.http, listening.grpc)

    async def _give_up(self, id: str, message: str) -> None:
        if not self.is_doomed(id):
            await self.end(id)
            self._told("failed", id, message, True)

    async def _check(self, check: CheckProxy) -> None:
        handle = self.handles.get(check.id)
        if handle is None:
            self._told("failed", check.id, "its process is gone", True)
            return
        try:
            await asyncio.wait_for(handle.check_health.remote().as_future(), check.timeout)
        except (asyncio.TimeoutError, TimeoutError):
            self._told("failed", check.id, f"it did not answer a check of health within {check.timeout:g} s", False)
        except ActorDiedError as error:
            self._told("failed", check.id, said_by(error), True)
        except Exception as error:
            self._told("failed", check.id, said_by(error), False)
        else:
            self._told("healthy", check.id)

    async def _drain(self, drain: DrainProxy) -> None:
        handle = self.handles.get(drain.id)
        if handle is not None:
            with suppress(asyncio.TimeoutError, TimeoutError, KernelError):  # it hangs, or has ended
                await asyncio.wait_for(handle.step_aside.remote(drain.moved).as_future(), SPREAD_SECONDS)
            self._told("aside", drain.id)
            with suppress(asyncio.TimeoutError, TimeoutError, KernelError):  # it is killed then, or has ended
                await asyncio.wait_for(handle.drain.remote(drain.patience, drain.moved).as_future(), drain.timeout)
        await self._kill(drain.id)

    async def _kill(self, id: str) -> None:
        await self.end(id)
        self._told("gone", id)
