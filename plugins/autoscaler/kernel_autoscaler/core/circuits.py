"""Know which kinds of machines are not to be had now, and when to try again. A pure state machine.

Each kind has a circuit: while it is open, no machine of the kind is asked for, so that the next cheapest kind is taken
at once. It closes after some time, which doubles with every failure in a row. What concerns the account, such as
refused credentials, opens all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel_spec.dataclass import dataclass
from kernel_spec.providers import CAPACITY, CREDENTIALS, INVALID, QUOTA, THROTTLED, UNKNOWN

FIRST_SECONDS: Mapping[str, float] = {
    CAPACITY: 60.0,
    QUOTA: 600.0,
    CREDENTIALS: 300.0,
    THROTTLED: 5.0,
    INVALID: 1800.0,
    UNKNOWN: 10.0,
}
"""For how long a circuit is open after the first failure of each code."""
MOST_SECONDS = 1800.0
OF_ALL = (CREDENTIALS, THROTTLED)
"""Codes of failures that concern every kind."""
_ALL = ""


@dataclass(slots=True)
class Circuit:
    """An open circuit: until when, how many failures in a row there were, and the latest."""

    until: float
    failures: int
    code: str
    text: str


class Circuits:
    """Holds the circuits of all kinds that have failed since they last worked."""

    def __init__(self) -> None:
        self._circuits: dict[str, Circuit] = {}

    def failed(self, kind: str, code: str, text: str, retry_after: float | None, now: float) -> None:
        """Open the circuit of a kind, or of all; for `retry_after` seconds, if the provider says so."""
        key = _ALL if code in OF_ALL else kind
        failures = self._circuits[key].failures + 1 if key in self._circuits else 1
        first = FIRST_SECONDS.get(code, FIRST_SECONDS[UNKNOWN])
        seconds = retry_after if retry_after is not None else min(MOST_SECONDS, first * 2.0 ** min(failures - 1, 20))
        self._circuits[key] = Circuit(now + max(seconds, 1.0), failures, code, text)

    def worked(self, kind: str) -> None:
        """Close the circuit of a kind, and that of all: a machine has been made, or has joined."""
        self._circuits.pop(kind, None)
        self._circuits.pop(_ALL, None)

    def open(self, kind: str, now: float) -> Circuit | None:
        """Return what keeps a kind from being asked for; None if nothing does."""
        for key in (_ALL, kind):
            circuit = self._circuits.get(key)
            if circuit is not None and now < circuit.until:
                return circuit
        return None

    def latest(self, kind: str) -> str:
        """Return what the latest failure of a kind was, "" if it has worked since."""
        return self._circuits[kind].text if kind in self._circuits else ""

    def next_end(self, now: float) -> float | None:
        """Return in how many seconds the first open circuit closes; None if none is open."""
        return min((one.until - now for one in self._circuits.values() if now < one.until), default=None)

    def plain(self) -> dict[str, Any]:
        """Return all as plain values, for a journal."""
        return {key: [one.until, one.failures, one.code, one.text] for key, one in self._circuits.items()}

    def restore(self, plain: Mapping[str, Any]) -> None:
        """Take what `plain` returned."""
        self._circuits = {key: Circuit(*values) for key, values in plain.items()}
