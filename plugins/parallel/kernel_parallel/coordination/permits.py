"""Who holds the permits of a semaphore, and who waits: events in, grants out. A lock is a semaphore of one permit.

Time is passed in as seconds of any clock that never goes back.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from kernel_spec.dataclass import dataclass


@dataclass(slots=True)
class Claim:
    """Somebody who holds a permit or waits for one. `expires`: when the permit is taken back; `fence`: its number."""

    token: str
    owner: str
    lease: float
    expires: float = 0.0
    fence: int = 0


class Permits:
    """The permits of one semaphore. They are given in the order in which they were asked for.

    A holder that does not renew its lease in time loses its permit. Every grant has a number, its fence, higher than
    all before it, by which storage can tell a holder that came too late.
    """

    def __init__(self, capacity: int, fences: Iterator[int] | None = None) -> None:
        """fences: rising numbers, which go on where those of an earlier object for the same permits ended."""
        self.capacity = capacity
        self.holders: dict[str, Claim] = {}
        self.waiting: dict[str, Claim] = {}
        self._fences = fences if fences is not None else count(1)

    @property
    def idle(self) -> bool:
        """Whether nobody holds a permit or waits."""
        return not self.holders and not self.waiting

    def ask(self, token: str, owner: str, lease: float, now: float) -> list[Claim]:
        """Let somebody wait for a permit, if it does not wait or hold one already. Return what is granted."""
        if token not in self.holders and token not in self.waiting:
            self.waiting[token] = Claim(token, owner, lease)
        return self.advance(now)

    def renew(self, token: str, now: float) -> bool:
        """Begin the lease of a holder anew. Return False when it does not hold a permit (any more)."""
        claim = self.holders.get(token)
        if claim is None or claim.expires <= now:
            return False
        claim.expires = now + claim.lease
        return True

    def release(self, token: str, now: float) -> tuple[bool, list[Claim]]:
        """Take a permit back, or somebody out of the line. Return whether it held one, and what is granted then."""
        claim = self.holders.pop(token, None)
        self.waiting.pop(token, None)
        return claim is not None and claim.expires > now, self.advance(now)

    def advance(self, now: float) -> list[Claim]:
        """Take back what has expired, give what is free to those who wait longest; return these."""
        for claim in [claim for claim in self.holders.values() if claim.expires <= now]:
            del self.holders[claim.token]
        granted = []
        while self.waiting and len(self.holders) < self.capacity:
            claim = self.waiting.pop(next(iter(self.waiting)))
            claim.fence, claim.expires = next(self._fences), now + claim.lease
            self.holders[claim.token] = claim
            granted.append(claim)
        self.validate()
        return granted

    def next_expiry(self) -> float | None:
        """Return when the next lease ends, None when nothing is held."""
        return min((claim.expires for claim in self.holders.values()), default=None)

    def validate(self) -> None:
        """Raise AssertionError when more is given than there is, or somebody both waits and holds."""
        assert len(self.holders) <= self.capacity, f"{len(self.holders)} of {self.capacity} permits are given"
        assert not self.holders.keys() & self.waiting.keys(), "somebody waits for what it holds"
