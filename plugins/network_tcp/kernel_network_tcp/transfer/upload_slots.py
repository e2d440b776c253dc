"""Decide which nodes take one object from this one, and to which nodes all others are sent. Without clocks.

A node that takes the object has a *slot*, until it says that it wants no more, is silent, or leaves. A *helper* is a
node that has a slot, or had one lately: it sends on what it has.
"""

from __future__ import annotations

from collections.abc import Container

from kernel_network_tcp.transfer.limits import TransferLimits
from kernel_processes.transport.addresses import is_relayed

RECOMMENDED = 4
"""Number of nodes that a redirection names."""
MAXIMUM_HELPERS = 64
"""Number of nodes that are remembered for one object."""


class _Slot:
    __slots__ = ("connections", "has_ended", "used_at")

    def __init__(self) -> None:
        self.connections: set[int] = set()
        self.used_at = 0.0
        self.has_ended = False
        """Whether its node wants no more; that news may arrive before the last send is known to have ended."""


class _Helper:
    __slots__ = ("recommended", "until")

    def __init__(self, until: float) -> None:
        self.recommended = 0
        self.until = until


class UploadSlots:
    """Holds the slots and helpers of one object, by the addresses of the nodes. Times are in seconds, of any origin."""

    __slots__ = ("_helpers", "_limits", "_slots")

    def __init__(self, limits: TransferLimits) -> None:
        self._limits = limits
        self._slots: dict[str, _Slot] = {}
        self._helpers: dict[str, _Helper] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, asker: str) -> bool:
        return asker in self._slots

    @property
    def has_helpers(self) -> bool:
        """Whether nodes are remembered that may have the object."""
        return bool(self._helpers)

    def has_room(self, asker: str) -> bool:
        """Return whether the node has a slot, or there is one for it."""
        return asker in self._slots or len(self._slots) < self._limits.uploads_per_object

    def take(self, asker: str, connection: int, now: float) -> None:
        """Give the node a slot, if it has none, for what it asks over a connection."""
        slot = self._slots.setdefault(asker, _Slot())
        slot.connections.add(connection)
        slot.used_at = now
        slot.has_ended = False
        if is_relayed(asker):
            return  # A detour by the relay is not recommended.
        if asker in self._helpers or len(self._helpers) < MAXIMUM_HELPERS:
            helper = self._helpers.setdefault(asker, _Helper(now))
            helper.until = now + self._limits.idle_seconds

    def use(self, asker: str, now: float) -> bool:
        """Note that sending to a node begins or ends, if it has a slot. Return whether it wants no more."""
        slot = self._slots.get(asker)
        if slot is None:
            return False
        slot.used_at = now
        return slot.has_ended

    def end(self, asker: str) -> None:
        """Note that a node wants no more."""
        if asker in self._slots:
            self._slots[asker].has_ended = True

    def distrust(self, asker: str) -> None:
        """Stop naming a node as a source: it does not have the object, or has another."""
        self._helpers.pop(asker, None)

    def free(self, asker: str) -> None:
        """Take the slot of a node back, if it has one."""
        self._slots.pop(asker, None)

    def recommend(self, asker: str) -> tuple[str, ...]:
        """Return nodes that may have the object for `asker`, those that were recommended least first."""
        others = [(helper.recommended, address) for address, helper in self._helpers.items() if address != asker]
        named = tuple(address for _, address in sorted(others)[:RECOMMENDED])
        for address in named[:1]:
            self._helpers[address].recommended += 1
        return named

    def connection_lost(self, connection: int) -> None:
        """Forget the nodes that had only this connection: they died, as far as anybody knows."""
        for asker, slot in list(self._slots.items()):
            if connection in slot.connections:
                slot.connections.discard(connection)
                if not slot.connections:
                    del self._slots[asker]
                    self._helpers.pop(asker, None)

    def expire(self, at_work: Container[str], now: float) -> None:
        """Take the slots of silent nodes back, but for those `at_work`, and forget helpers of long ago."""
        for asker, slot in list(self._slots.items()):
            if asker not in at_work and slot.used_at + self._limits.stall_seconds <= now:
                del self._slots[asker]
        for address, helper in list(self._helpers.items()):
            if address not in self._slots and helper.until <= now:
                del self._helpers[address]

    def clear(self) -> None:
        """Forget all nodes."""
        self._slots.clear()
        self._helpers.clear()
