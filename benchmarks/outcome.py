"""What a soak has seen: right results, documented errors, and everything that must not be."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import kernel
from kernel import exceptions

HANG_SECONDS = 60.0


class Hang(Exception):
    """Something did not come in time: there is no use in going on."""


@dataclass
class Outcome:
    """What was seen so far. Any thread may add to it."""

    right: Counter[str] = field(default_factory=Counter)
    documented: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    memory: list[str] = field(default_factory=list)
    logs: str = ""
    """Where logs are kept when something was wrong."""
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def check(self, kind: str, ref: Any, expected: Any, allowed: tuple[type[Exception], ...] = ()) -> bool:
        """Compare a result with what it must be; return whether it was there."""
        found, value = self.take(kind, ref, allowed)
        return found and self.compare(kind, value, expected)

    def take(self, kind: str, ref: Any, allowed: tuple[type[Exception], ...] = ()) -> tuple[bool, Any]:
        """Return whether a result was there, and the result; an error that is not `allowed` is noted as wrong."""
        try:
            return True, kernel.get(ref, timeout=HANG_SECONDS)
        except exceptions.GetTimeoutError as error:
            self.blame(f"{kind}: hangs: {error}")
            raise Hang from error
        except allowed as error:
            self.excuse(kind, error)
        except Exception as error:
            self.blame(f"{kind}: {type(error).__name__}: {error}")
        return False, None

    def compare(self, kind: str, value: Any, expected: Any) -> bool:
        """Note whether a value is what it must be, and return it."""
        if value != expected:
            self.blame(f"{kind}: expected {expected!r}, got {value!r}")
            return False
        with self.lock:
            self.right[kind] += 1
        return True

    def excuse(self, kind: str, error: Exception) -> None:
        """Note an error that is documented for what was asked."""
        with self.lock:
            self.documented[f"{kind}: {type(error).__name__}"] += 1

    def blame(self, text: str) -> None:
        """Note something that must not be."""
        print(f"  WRONG: {text}", file=sys.stderr, flush=True)
        with self.lock:
            self.wrong.append(text)

    def fault(self, kind: str) -> None:
        """Note that a fault was injected."""
        with self.lock:
            self.faults[kind] += 1

    @property
    def checked(self) -> int:
        """How many results were compared with what they must be, or failed."""
        with self.lock:
            return self.right.total() + self.documented.total() + len(self.wrong)

    def summary(self) -> str:
        """Return the state in a line."""
        with self.lock:
            return (
                f"{self.faults.total():,} faults, {self.right.total():,} right results, "
                f"{self.documented.total():,} documented errors, {len(self.wrong)} wrong"
            )
