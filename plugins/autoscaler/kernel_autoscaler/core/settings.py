"""How a cluster is scaled: its limits, and how long things are waited for."""

from __future__ import annotations

from kernel_spec.dataclass import dataclass
from kernel_spec.resources import GPU


@dataclass(frozen=True, slots=True)
class Settings:
    """How a cluster is scaled. Times are in seconds.

    A node that was idle for `idle_seconds` is drained. There are at most `maximum_nodes` made by the autoscaler, and
    they cost at most `maximum_price` per hour together. The tasks that wait behind requests count as no more workers
    than end them within `backlog_seconds`. A decision waits for `burst_seconds` after the first demand that is not met,
    and for as long as that grows, but no longer than `burst_limit_seconds`. A machine that has not joined after
    `join_factor` times the usual time, and `join_seconds`, is ended. `repeats`: a provider's `create` takes a token.
    """

    idle_seconds: float = 300.0
    maximum_nodes: int | None = None
    maximum_price: float | None = None
    backlog_seconds: float = 60.0
    burst_seconds: float = 0.05
    burst_limit_seconds: float = 1.0
    join_factor: float = 3.0
    join_seconds: float = 600.0
    repeats: bool = False
    devices: tuple[str, ...] = (GPU,)
