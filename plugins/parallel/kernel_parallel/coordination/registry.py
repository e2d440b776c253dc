"""The named actor that keeps all locks, semaphores, counters, barriers and events of a namespace."""

from __future__ import annotations

import asyncio
import time
from dataclasses import field
from itertools import count
from typing import Any

import kernel
from kernel_parallel.coordination.errors import CoordinationError
from kernel_parallel.coordination.permits import Claim, Permits
from kernel_spec.dataclass import dataclass

NAME = "kernel.parallel.coordination"
_SLOWEST_LOOK_SECONDS = 1.0


@dataclass(slots=True)
class BarrierState:
    """A barrier: who waits in this generation. Its outcome is True (all came) or the reason why it broke."""

    parties: int
    waiting: int = 0
    broken: str = ""
    outcome: asyncio.Future[str] | None = None


@dataclass(slots=True)
class Flag:
    """An event."""

    set: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class CoordinationRegistry:
    """The actor's methods, all coroutines. `name` is whatever the users of a thing agreed on."""

    def __init__(self) -> None:
        self._permits: dict[str, Permits] = {}
        self._fences = count(time.time_ns() // 1000)  # higher than those of an actor that was here before
        self._grants: dict[str, asyncio.Future[Claim]] = {}
        self._counters: dict[str, int] = {}
        self._gates: dict[str, BarrierState] = {}
        self._flags: dict[str, Flag] = {}
        self._keeper: asyncio.Task[None] | None = None

    # -- locks and semaphores ----------------------------------------------------------------------------------------

    async def acquire(
        self, name: str, capacity: int, token: str, owner: str, lease: float, timeout: float | None
    ) -> int | None:
        """Wait for a permit and return its fence; None when there was none within `timeout` seconds."""
        permits = self._permits.setdefault(name, Permits(capacity, self._fences))
        if permits.capacity != capacity:
            raise CoordinationError(
                f"{name} has {permits.capacity} permits, and was asked for as if it had {capacity}: all who use it "
                "must say the same"
            )
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep())
        grant = self._grants[token] = asyncio.get_running_loop().create_future()
        self._tell(permits.ask(token, owner, lease, time.monotonic()))
        if (held := permits.holders.get(token)) is not None and not grant.done():
            grant.set_result(held)  # it asks again, as after an answer that was lost
        try:
            claim: Claim = await asyncio.wait_for(grant, timeout)
            return claim.fence
        except asyncio.TimeoutError:
            self._let_go(name, token)
            return None
        except asyncio.CancelledError:  # the one who waited was cancelled, or is gone
            self._let_go(name, token)
            raise
        finally:
            self._grants.pop(token, None)

    async def renew(self, name: str, token: str) -> bool:
        """Begin a lease anew; False when it is lost."""
        permits = self._permits.get(name)
        return permits is not None and permits.renew(token, time.monotonic())

    async def release(self, name: str, token: str) -> bool:
        """Take a permit back, or somebody out of the line; return whether it still held one."""
        return self._let_go(name, token)

    async def owners(self, name: str) -> list[str]:
        """Return who holds permits."""
        permits = self._permits.get(name)
        if permits is None:
            return []
        self._tell(permits.advance(time.monotonic()))
        return [claim.owner for claim in permits.holders.values()]

    def _let_go(self, name: str, token: str) -> bool:
        permits = self._permits.get(name)
        if permits is None:
            return False
        held, granted = permits.release(token, time.monotonic())
        self._tell(granted)
        if permits.idle:
            del self._permits[name]
        return held

    def _tell(self, granted: list[Claim]) -> None:
        for claim in granted:
            grant = self._grants.get(claim.token)
            if grant is not None and not grant.done():
                grant.set_result(claim)

    async def _keep(self) -> None:
        """Take back permits whose lease has ended, as soon as it has."""
        while True:
            now = time.monotonic()
            for name, permits in list(self._permits.items()):
                self._tell(permits.advance(now))
                if permits.idle:
                    del self._permits[name]
            ends = [end for permits in self._permits.values() if (end := permits.next_expiry()) is not None]
            await asyncio.sleep(max(0.005, min([_SLOWEST_LOOK_SECONDS, *(end - now for end in ends)])))

    # -- counters ----------------------------------------------------------------------------------------------------

    async def add(self, name: str, start: int, amount: int) -> int:
        """Add to a counter and return its value."""
        self._counters[name] = self._counters.get(name, start) + amount
        return self._counters[name]

    async def exchange(self, name: str, start: int, expected: int | None, value: int) -> tuple[bool, int]:
        """Set a counter, if it is what is expected (None: whatever it is); return whether, and what it was."""
        before = self._counters.get(name, start)
        if expected is not None and before != expected:
            return False, before
        self._counters[name] = value
        return True, before

    # -- events ------------------------------------------------------------------------------------------------------

    async def set_event(self, name: str, value: bool) -> None:
        """Set or clear an event."""
        flag = self._flags.setdefault(name, Flag())
        flag.set = value
        if value:
            flag.changed.set()
        else:
            flag.changed = asyncio.Event()

    async def event_is_set(self, name: str) -> bool:
        """Return whether an event is set."""
        return name in self._flags and self._flags[name].set

    async def wait_for_event(self, name: str, timeout: float | None) -> bool:
        """Wait until an event is set; return whether it was within `timeout` seconds."""
        flag = self._flags.setdefault(name, Flag())
        try:
            await asyncio.wait_for(flag.changed.wait(), timeout)
        except asyncio.TimeoutError:
            return False
        return True

    # -- barriers ----------------------------------------------------------------------------------------------------

    async def pass_barrier(self, name: str, parties: int, timeout: float | None) -> tuple[int, str]:
        """Wait until all parties have come; return in which place this one came (0: first), and why it broke if so."""
        gate = self._gates.setdefault(name, BarrierState(parties))
        if gate.parties != parties:
            raise CoordinationError(f"{name} is for {gate.parties} parties, and was used as if it were for {parties}")
        if gate.broken:
            return -1, gate.broken
        place = gate.waiting
        gate.waiting += 1
        if gate.outcome is None:
            gate.outcome = asyncio.get_running_loop().create_future()
        outcome = gate.outcome
        if gate.waiting == parties:
            self._end(gate, "")
        try:
            return place, await asyncio.wait_for(asyncio.shield(outcome), timeout)
        except asyncio.TimeoutError:
            came = gate.waiting
            gate.broken = f"only {came} of {parties} came to {name} within {timeout:g} s"
            self._end(gate, gate.broken)
            return -1, gate.broken
        except asyncio.CancelledError:
            gate.broken = f"one of those who waited at {name} was cancelled"
            self._end(gate, gate.broken)
            raise

    async def break_barrier(self, name: str, parties: int, reason: str, stays: bool) -> None:
        """Let all who wait go with an error; with `stays`, also all who come later."""
        gate = self._gates.setdefault(name, BarrierState(parties))
        gate.broken = reason if stays else ""
        self._end(gate, reason)

    async def barrier_state(self, name: str) -> tuple[int, str]:
        """Return how many wait at a barrier, and why it is broken, if it is."""
        gate = self._gates.get(name)
        return (0, "") if gate is None else (gate.waiting, gate.broken)

    def _end(self, gate: BarrierState, reason: str) -> None:
        if gate.outcome is not None and not gate.outcome.done():
            gate.outcome.set_result(reason)
        gate.outcome, gate.waiting = None, 0

    async def delete(self, kind: str, name: str) -> None:
        """Forget a thing."""
        things: dict[str, dict[str, Any]] = {
            "counter": self._counters,
            "barrier": self._gates,
            "event": self._flags,
        }
        things[kind].pop(name, None)


def registry() -> Any:
    """Return the actor of this namespace; it is made if it is not there, and lives until the session ends."""
    actor = kernel.remote(CoordinationRegistry)
    options = {"name": NAME, "get_if_exists": True, "lifetime": "detached", "max_restarts": -1}
    return actor.options(max_concurrency=100_000, **options).remote()
