"""What the autoscaler is told, and what it has done."""

from __future__ import annotations

from collections.abc import Sequence

from kernel_autoscaler.core.snapshot import Snapshot
from kernel_spec.dataclass import dataclass
from kernel_spec.providers import ProvidedNode

# -- events in -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Observed:
    """The cluster needs and has this now."""

    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Listed:
    """The provider lists these machines of the cluster."""

    machines: Sequence[ProvidedNode]


@dataclass(frozen=True, slots=True)
class Created:
    """The `MakeMachines` with this token has made machines with these ids, which may be fewer than were asked for."""

    token: str
    ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class CreateFailed:
    """The `MakeMachines` with this token failed. `code` and `retry_after` are those of the NodeProviderError."""

    token: str
    code: str
    text: str
    retry_after: float | None = None


@dataclass(frozen=True, slots=True)
class TerminateFailed:
    """A `Terminate` failed: these machines may still be there."""

    ids: Sequence[str]
    text: str


@dataclass(frozen=True, slots=True)
class InterruptionAnnounced:
    """The provider will take a machine away in so many seconds."""

    id: str
    seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class StopAll:
    """The cluster ends: give every machine back, and make no other."""


Event = Observed | Listed | Created | CreateFailed | TerminateFailed | InterruptionAnnounced | StopAll

# -- instructions out ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MakeMachines:
    """Ask the provider for machines. It has to be written down, with its token, before the provider is called."""

    kind: str
    count: int
    token: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Drain:
    """Let a node finish its work and leave, within `seconds` if they are given."""

    node: str
    why: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class KeepNode:
    """Cancel the drain of a node, which is needed after all."""

    node: str
    why: str


@dataclass(frozen=True, slots=True)
class Terminate:
    """Ask the provider to end machines, none of which runs anything."""

    ids: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class ListMachines:
    """Ask the provider for its list soon."""


@dataclass(frozen=True, slots=True)
class LookAgain:
    """Observe the cluster again in so many seconds."""

    seconds: float


Instruction = MakeMachines | Drain | KeepNode | Terminate | ListMachines | LookAgain
