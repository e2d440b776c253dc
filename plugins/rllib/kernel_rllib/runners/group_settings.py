"""The settings of a group of runners: how many there are, which lanes they step, and how they live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernel_rllib.runners.env_runner import Work
from kernel_rllib.runners.patience import Limits
from kernel_rllib.runners.recovery import Recovery


@dataclass
class GroupSettings:
    """The settings of a group of runners.

    Attributes:
        lanes: The numbers of the lanes of each runner.
        remote: Whether runners are actors; otherwise there is one, and it is here.
        options: Options of the actors, as of `kernel.remote`.
        recovery: The treatment of the lanes of a runner that died; None: its death is an error.
        tolerated_failures: The most failures in a row, without a sample between them, that are tolerated.
        incarnation: The number of groups before this one that were lost; see `RunnerPlace`.
        steps_before: The number of steps of each lane in them.
        work: The work of each runner on its samples before it sends them, or None; see `EnvRunner`.
        most_restarts: The most runners that may be replaced in all.
        limits: The times to wait for runners.
    """

    lanes: Sequence[Sequence[int]]
    remote: bool = False
    options: Mapping[str, Any] | None = None
    recovery: Recovery | None = "recreate"
    tolerated_failures: int = 100
    incarnation: int = 0
    steps_before: int = 0
    work: Work | None = None
    most_restarts: int = 1000
    limits: Limits = field(default_factory=Limits)
