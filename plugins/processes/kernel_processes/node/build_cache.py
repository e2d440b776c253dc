"""Decide which parts of runtime environments a node builds, which it has, and which it removes. Pure.

A *part* is one field of an environment with one value. It is built once for all that need it, and remembered.
"""

from __future__ import annotations

from collections.abc import Collection

from kernel_spec.dataclass import dataclass
from kernel_spec.environments import WorkerStart
from kernel_spec.errors import RuntimeEnvError

FAILED_SECONDS = 10.0
"""Seconds for which a failed part answers all requests with its failure.

So a thousand tasks do not each try to build the same part, and after a repair the user need not wait long.
"""


@dataclass(frozen=True, slots=True)
class EnvironmentPart:
    """Names one field of an environment, with the digest of its value."""

    field: str
    digest: str

    @property
    def name(self) -> str:
        """The name of the directory where it is built."""
        return f"{self.field}-{self.digest}"


@dataclass(slots=True)
class _Record:
    """Holds the state of a part, which is being built as long as there is neither a start nor an error."""

    start: WorkerStart | None = None
    bytes: float = 0.0
    used_at: float = 0.0
    error: RuntimeEnvError | None = None
    failed_at: float = 0.0


class BuildCache:
    """Holds every part that was asked for on this node. Times are in seconds, of one clock."""

    def __init__(self) -> None:
        self._records: dict[EnvironmentPart, _Record] = {}

    def want(self, part: EnvironmentPart, now: float) -> WorkerStart | RuntimeEnvError | bool:
        """Return what was built, or why it could not be; True where it is to be built now, False while that goes on."""
        record = self._records.get(part)
        if record is not None and record.error is not None and now - record.failed_at >= FAILED_SECONDS:
            record = None
        if record is None:
            self._records[part] = _Record(used_at=now)
            return True
        record.used_at = now
        return record.start or record.error or False

    def built(self, part: EnvironmentPart, start: WorkerStart, size: float, now: float) -> None:
        """A part is there, and takes `size` bytes."""
        self._records[part] = _Record(start, size, now)

    def failed(self, part: EnvironmentPart, error: RuntimeEnvError, now: float) -> None:
        """A part could not be built."""
        self._records[part] = _Record(error=error, failed_at=now, used_at=now)

    def evict(self, field: str, limit: float, in_use: Collection[EnvironmentPart]) -> list[EnvironmentPart]:
        """Forget, and return, the parts of a field that must be removed for the rest to take at most `limit` bytes.

        Those that were asked for longest ago go first; what is in use stays, whatever it takes.
        """
        built = {part: record for part, record in self._records.items() if part.field == field and record.start}
        total = sum(record.bytes for record in built.values())
        gone = []
        for part, record in sorted(built.items(), key=lambda item: item[1].used_at):
            if total <= limit:
                break
            if part not in in_use:
                total -= record.bytes
                gone.append(part)
                del self._records[part]
        return gone

    def validate(self) -> None:
        """Raise AssertionError when a record contradicts itself."""
        for part, record in self._records.items():
            assert record.start is None or record.error is None, f"{part.name} was built, and was not"
            assert record.bytes == 0 or record.start is not None, f"{part.name} takes room, and is not there"
