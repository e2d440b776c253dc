"""Random programs over references, beside a model of who holds what: nothing is freed early, and nothing is kept.

A program has holders: this process, and actors on all nodes. Each has slots with references, which it puts, has made
by tasks, wraps in other objects, hands on, reads and drops; and holders are killed. The model knows what each slot
stands for, and whose death may have taken it.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import kernel
from benchmarks.chaos.work import SPREAD, fill, twice
from benchmarks.outcome import Outcome
from kernel import exceptions
from kernel.testing.faults import kill

SMALL, LARGE = 10, 20_000
"""Numbers of eight bytes: the ones travel inside messages, the others lie in stores."""
GONE = (exceptions.ObjectLostError,)
"""What reading raises when the owner has died."""


def describe(value: Any) -> tuple[str, int, int]:
    """Return what a value is, in little: equal for equal values."""
    if isinstance(value, list):
        return "references", len(value), 0
    assert (value == value[0]).all(), "a value is torn"
    return "array", int(value[0]), len(value)


class Slots:
    """References by number, and everything that can be done with them."""

    def __init__(self) -> None:
        self.refs: dict[int, kernel.ObjectRef] = {}

    def pid(self) -> int:
        """Return the process that holds them."""
        return os.getpid()

    def put(self, slot: int, number: int, size: int) -> None:
        """Own a new object."""
        self.refs[slot] = kernel.put(np.full(size, number, np.int64))

    def make(self, slot: int, number: int, size: int) -> None:
        """Own what a task makes."""
        self.refs[slot] = fill.remote(number, size)

    def derive(self, slot: int, source: int) -> None:
        """Own what a task makes of another object."""
        self.refs[slot] = twice.remote(self.refs[source])

    def wrap(self, slot: int, sources: Sequence[int]) -> None:
        """Own an object that holds references."""
        self.refs[slot] = kernel.put([self.refs[source] for source in sources])

    def unwrap(self, slot: int, source: int, index: int) -> tuple[str, int, int] | str:
        """Take a reference out of an object; return what it stands for."""
        self.refs[slot] = kernel.get(self.refs[source])[index]
        return self.read(slot)

    def keep(self, slot: int, refs: list[kernel.ObjectRef]) -> None:
        """Take a reference."""
        [self.refs[slot]] = refs

    def give(self, slot: int) -> list[kernel.ObjectRef]:
        """Give a reference."""
        return [self.refs[slot]]

    def hand_on(self, slot: int, other: Any, there: int) -> None:
        """Give a reference to another actor."""
        kernel.get(other.keep.remote(there, [self.refs[slot]]))

    def read(self, slot: int) -> tuple[str, int, int] | str:
        """Return what a reference stands for, or the name of the error where its owner is gone."""
        try:
            return describe(kernel.get(self.refs[slot]))
        except GONE as error:
            return f"{type(error).__name__}: {error}"

    def drop(self, slot: int) -> None:
        """Hold a reference no longer."""
        del self.refs[slot]


Hand = kernel.remote(num_cpus=0, **SPREAD)(Slots)


@dataclass(eq=False)
class Holder:
    """One process with slots, as the model knows it; `actor` is None for this process."""

    actor: Any = None
    pid: int = 0
    dead: bool = False
    slots: dict[int, Made] = field(default_factory=dict)


@dataclass(eq=False)
class Made:
    """An object, as the model knows it: what reading it gives, what is inside, and whose death may take it."""

    value: tuple[str, int, int]
    hangs_on: set[Holder]
    inside: list[Made] = field(default_factory=list)


class Died(Exception):
    """A holder was found dead, which nobody had planned."""


class RandomProgram:
    """One program of so many steps. With `deaths`, holders are killed.

    `undisturbed`: nobody else kills anything; then only the death of an owner excuses a lost object, else also that of
    somebody who has handed it on.
    """

    def __init__(
        self, seed: int, outcome: Outcome, steps: int, deaths: bool, undisturbed: bool, hands: int = 3
    ) -> None:
        self.seed = seed
        self._dice = random.Random(seed)
        self._outcome = outcome
        self._steps = steps
        self._undisturbed = undisturbed
        self._numbers = itertools.count(1)
        self._here = Slots()
        self._me = Holder(pid=os.getpid())
        self._holders = [self._me]
        self._pending: list[tuple[Holder, Any]] = []
        self._count = hands
        self._verbs = [
            self._put, self._put, self._make, self._derive, self._wrap, self._unwrap, self._exchange, self._exchange,
            self._exchange, self._read, self._drop, self._drop, self._add_hand, *([self._kill] if deaths else []),
        ]  # fmt: skip
        self.history: list[str] = []

    def run(self) -> None:
        """Run the program, read everything that is still held, and drop it."""
        for step in range(-self._count, self._steps):
            try:
                (self._dice.choice(self._verbs) if step >= 0 else self._add_hand)()
            except (Died, IndexError):
                continue  # there is nobody, or nothing, to do that with
        self._settle()
        for holder in list(self._living()):
            with suppress(Died):
                self._read_all(holder)
        for holder in self._living():
            if holder.actor is not None and self._dice.random() < 0.5:
                for slot in list(holder.slots):
                    holder.actor.drop.remote(slot)
        self._here.refs.clear()
        for holder in self._holders:
            holder.slots.clear()
            holder.actor = None
        self._holders.clear()

    # -- steps -----------------------------------------------------------------------------------------------------

    def _add_hand(self) -> None:
        if len(self._living()) > 2 * self._count:
            return
        actor = Hand.remote()
        holder = Holder(actor)
        holder.pid = self._result(holder, actor.pid.remote())
        self._holders.append(holder)

    def _put(self) -> None:
        holder, slot, number, size = self._somebody(), self._slot(), next(self._numbers), self._size()
        self._note("put", holder, slot, number, size)
        holder.slots[slot] = Made(("array", number, size), {holder})
        self._do(holder, "put", slot, number, size)

    def _make(self) -> None:
        holder, slot, number, size = self._somebody(), self._slot(), next(self._numbers), self._size()
        self._note("make", holder, slot, number, size)
        holder.slots[slot] = Made(("array", number, size), {holder})
        self._do(holder, "make", slot, number, size)

    def _derive(self) -> None:
        holder = self._somebody()
        source = self._choose(slot for slot, made in holder.slots.items() if not made.inside)
        base, slot = holder.slots[source], self._slot()
        self._note("derive", holder, slot, source)
        _, number, size = base.value
        holder.slots[slot] = Made(("array", 2 * number, size), {holder, *base.hangs_on})
        self._do(holder, "derive", slot, source)

    def _wrap(self) -> None:
        holder = self._somebody()
        sources = self._dice.sample(sorted(holder.slots), min(len(holder.slots), self._dice.randrange(1, 4)))
        if not sources:
            return
        inside, slot = [holder.slots[source] for source in sources], self._slot()
        self._note("wrap", holder, slot, sources)
        holder.slots[slot] = Made(("references", len(inside), 0), {holder}, inside)
        self._do(holder, "wrap", slot, sources)

    def _unwrap(self) -> None:
        holder = self._somebody()
        source = self._choose(slot for slot, made in holder.slots.items() if made.inside)
        outer, slot = holder.slots[source], self._slot()
        if any(one.dead for one in outer.hangs_on):
            return
        index = self._dice.randrange(len(outer.inside))
        inner = outer.inside[index]
        if not self._undisturbed:
            inner.hangs_on |= outer.hangs_on
        self._note("unwrap", holder, slot, source, index)
        holder.slots[slot] = inner
        self._compare(holder, slot, self._now(holder, "unwrap", slot, source, index))

    def _exchange(self) -> None:
        """Hand a reference on: from here to an actor, back, or between actors. The first then often drops it."""
        giver, taker = self._somebody(), self._somebody()
        if giver is taker:
            return
        source, slot = self._choose(giver.slots), self._slot()
        made = giver.slots[source]
        self._note("exchange", giver, source, taker, slot)
        if not self._undisturbed:
            made.hangs_on.add(giver)
        if giver is self._me:
            self._do(taker, "keep", slot, self._here.give(source))
            taker.slots[slot] = made
        elif taker is self._me:
            self._here.keep(slot, self._now(giver, "give", source))
            taker.slots[slot] = made
            self._compare(taker, slot, self._here.read(slot))
        else:
            self._settle_with(taker)
            self._now(giver, "hand_on", source, taker.actor, slot)
            taker.slots[slot] = made
        if self._dice.random() < 0.5 and not giver.dead:  # which may just have been found out
            self._note("drop", giver, source)
            del giver.slots[source]
            self._do(giver, "drop", source)

    def _read(self) -> None:
        holder = self._somebody()
        slot = self._choose(holder.slots)
        self._note("read", holder, slot)
        self._compare(holder, slot, self._now(holder, "read", slot))

    def _drop(self) -> None:
        holder = self._somebody()
        slot = self._choose(holder.slots)
        self._note("drop", holder, slot)
        del holder.slots[slot]
        self._do(holder, "drop", slot)

    def _kill(self) -> None:
        holder = self._dice.choice(self._living()[1:])
        self._settle()
        self._note("kill", holder)
        with suppress(ProcessLookupError):
            kill(holder.pid)
        self._bury(holder)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _living(self) -> list[Holder]:
        return [holder for holder in self._holders if not holder.dead]

    def _somebody(self) -> Holder:
        return self._dice.choice(self._living())

    def _choose(self, slots: Any) -> int:
        return self._dice.choice(sorted(slots))

    def _slot(self) -> int:
        return next(self._numbers)

    def _size(self) -> int:
        return self._dice.choice((SMALL, LARGE))

    def _bury(self, holder: Holder) -> None:
        holder.dead = True
        holder.slots.clear()

    def _do(self, holder: Holder, verb: str, *arguments: Any) -> None:
        """Have something done without waiting for it; what comes after on the same holder comes after it."""
        if holder is self._me:
            getattr(self._here, verb)(*arguments)
        else:
            self._pending.append((holder, getattr(holder.actor, verb).remote(*arguments)))

    def _now(self, holder: Holder, verb: str, *arguments: Any) -> Any:
        if holder is self._me:
            return getattr(self._here, verb)(*arguments)
        return self._result(holder, getattr(holder.actor, verb).remote(*arguments))

    def _result(self, holder: Holder, ref: Any) -> Any:
        found, value = self._outcome.take("references", ref, (exceptions.ActorDiedError,))
        if not found:
            if self._undisturbed:
                self._blame(f"a call of a holder that lives failed: {holder.pid}")
            self._bury(holder)
            raise Died
        return value

    def _settle(self) -> None:
        pending, self._pending = self._pending, []
        for holder, ref in pending:
            if not holder.dead:
                with suppress(Died):
                    self._result(holder, ref)

    def _settle_with(self, holder: Holder) -> None:
        """Wait for what one holder was told to do: what another one tells it next is not in order with that."""
        mine = [ref for one, ref in self._pending if one is holder]
        self._pending = [(one, ref) for one, ref in self._pending if one is not holder]
        for ref in mine:
            self._result(holder, ref)

    def _read_all(self, holder: Holder) -> None:
        for slot in list(holder.slots):
            self._compare(holder, slot, self._now(holder, "read", slot))

    def _compare(self, holder: Holder, slot: int, found: Any) -> None:
        made = holder.slots[slot]
        if not isinstance(found, str):
            if tuple(found) != made.value:
                self._blame(f"slot {slot}: expected {made.value}, got {found}")
            else:
                self._outcome.compare("references", tuple(found), made.value)
            return
        if not any(one.dead or self._is_dead(one) for one in made.hangs_on):
            self._blame(f"slot {slot} was lost though everybody lives: {found}")
        else:
            self._outcome.excuse("references", exceptions.ObjectLostError())

    def _is_dead(self, holder: Holder) -> bool:
        if holder is self._me or self._undisturbed:
            return False
        try:
            self._now(holder, "pid")
        except Died:
            return True
        return False

    def _note(self, *what: Any) -> None:
        self.history.append(" ".join(f"<{one.pid}>" if isinstance(one, Holder) else str(one) for one in what))

    def _blame(self, what: str) -> None:
        story = "\n    ".join(self.history)
        self._outcome.blame(f"references, program {self.seed}: {what}\n    {story}")
