"""The state of one object in a process: its value or its location, and what still needs it.

An entry is made by the owner when it submits a task or puts a value, and by a borrower when it receives a
reference. It is removed when no reference is left in this process (`local`), nothing in flight needs it
(`holds`) and, at the owner, no other process borrows it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from kernel.logs import Logger
from kernel.runtime.waiter import Waiter
from kernel_spec.ids import ObjectId, ProcessId

PENDING = 0
"""The value is being made, or (at a borrower) not asked for yet."""
INLINE = 1
"""`value` is the head, or `(head, buffers)`."""
STORED = 2
"""The value is in object stores; `value` is its size in bytes, and the nodes that have it (see `value_placement`)."""
FAILED = 3
"""`value` is `(kind, data)` of a failure, see `kernel_engine.messages.process_messages`."""

_log = Logger("kernel.runtime")

LOST = 4
"""At the owner: it was stored, and no copy is left. It is made again when it is asked for.
`value` is as it was, with the errors of readers; "" when the nodes are gone."""
FREED = 5
"""At the owner: the value is not needed any more, but may have to be made again for other objects (`lineage`)."""

STATE_NAMES = ("pending", "inline", "stored", "failed", "lost", "freed")


class ObjectDetails:
    """Attributes that few entries need. `may_go()` is asked before an entry is freed; after a no, ask again later.

    `recipe` is the task that can make the object again, `recipe_users` the number of recipes that need the object.
    """

    __slots__ = (
        "address", "borrowers", "contained", "debt", "fetching", "may_go", "owner", "recipe", "recipe_users", "site",
        "view",
    )  # fmt: skip

    def __init__(self) -> None:
        self.owner: ProcessId | None = None
        self.address = ""
        self.debt = 0
        self.borrowers: dict[ProcessId, int] | None = None
        self.contained: list[ObjectEntry] | None = None
        self.may_go: Callable[[], bool] | None = None
        self.fetching = False
        self.view: memoryview | None = None
        self.recipe: Any = None
        self.recipe_users = 0
        self.site: tuple[Any, int] | None = None


class ObjectEntry:
    """One object, as this process sees it. Changed only under the process's lock (`local` as its users say)."""

    __slots__ = ("details", "holds", "id", "local", "site", "state", "task", "value", "waiters")

    def __init__(self, id: ObjectId, local: int, task: Any = None) -> None:
        self.id = id
        self.local = local
        self.task = task
        """The task that makes the object, until it has; afterwards only the place of its call is kept, in `site`."""
        self.state = PENDING
        self.value: Any = None
        self.holds = 0
        self.waiters: list[Waiter | Callable[[ObjectEntry], None]] | None = None
        self.details: ObjectDetails | None = None

    def more(self) -> ObjectDetails:
        """Return the details, which are created at first use."""
        details = self.details
        if details is None:
            details = self.details = ObjectDetails()
        return details

    @property
    def owner(self) -> ProcessId | None:
        """The owner's id, or None when this process owns it."""
        return None if self.details is None else self.details.owner

    def resolve(self, state: int, value: Any) -> None:
        """Set the value (or the failure), and notify the waiters."""
        self.state = state
        self.value = value
        task = self.task
        if task is not None:
            self.site = task.site
            self.task = None
        waiters = self.waiters
        if waiters is not None:
            self.waiters = None
            for waiter in waiters:
                if isinstance(waiter, Waiter):
                    if state == FAILED:
                        waiter.fail()
                    else:
                        waiter.complete()
                else:
                    try:
                        waiter(self)
                    except Exception:  # the others wait all the same
                        _log.exception("what waited for an object failed", object=self.id.hex())

    def when_ready(self, waiter: Waiter | Callable[[ObjectEntry], None]) -> None:
        """Notify `waiter` once, when the entry is no longer pending."""
        if self.waiters is None:
            self.waiters = [waiter]
        else:
            self.waiters.append(waiter)

    def size(self) -> int | None:
        """Return the size in bytes, or None while unknown."""
        if self.state == STORED:
            return int(self.value[0])
        if self.state == INLINE:
            head, buffers = self.value if type(self.value) is tuple else (self.value, ())
            return len(head) + sum(map(len, buffers))
        return None

    @property
    def needed(self) -> bool:
        """Whether this process or a borrower still needs it."""
        return self.local > 0 or self.holds > 0 or self.borrowed

    @property
    def borrowed(self) -> bool:
        """Whether another process holds a reference to it."""
        return self.details is not None and bool(self.details.borrowers)


dropped: deque[ObjectEntry] = deque()
"""Entries one of whose references was collected. Filled by `__del__`, drained by the runtime: counting never runs
inside the garbage collector."""
