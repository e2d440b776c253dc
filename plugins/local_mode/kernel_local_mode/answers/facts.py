"""The facts that never change about a session in one process."""

from __future__ import annotations

from collections.abc import Mapping

from kernel_spec.dataclass import dataclass
from kernel_spec.ids import JobId, NodeId, ProcessId


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """Identifies this process, and the directory of its files. `started` is in seconds since the epoch."""

    job: JobId
    node: NodeId
    process: ProcessId
    namespace: str
    labels: Mapping[str, str]
    directory: str
    started: float
