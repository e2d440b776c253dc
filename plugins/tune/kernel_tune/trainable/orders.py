"""What a runner and the process of a trial say to each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kernel_runs.place import Place
from kernel_runs.reports import Report


@dataclass
class Setup:
    """Become this trial."""

    place: Place
    config: dict[str, Any]
    changes_directory: bool = True
    """Whether the trial's directory becomes the working directory of the process."""
    printed: tuple[str, str] = ("", "")
    """The files of the trial's directory that what it prints goes to as well: stdout, stderr."""


@dataclass
class Saved:
    """A checkpoint that a trial has made: in `path` of its machine, or as bytes."""

    iteration: int
    path: str = ""
    data: Any = None
    """The bytes of a state in memory, or the files of `path` for another machine; at the runner perhaps a reference."""
    sizes: dict[str, int] | None = None
    """How long the files in `path` are, in bytes: shorter ones are damaged. None where nobody knows."""

    @property
    def is_in_memory(self) -> bool:
        """Whether there are no files."""
        return not self.path


@dataclass
class Order:
    """One call of a trial's process: perhaps become a trial, perhaps take a state, then train for a while.

    It trains until a result was made (`strict`), or for `slice_seconds` of results, until the trial has ended or until
    one of the thresholds in `stop` is reached. The first `skip` results are known already, and are not given again.
    """

    setup: Setup | None = None
    restore: Saved | None = None
    skip: int = 0
    trains: bool = True
    strict: bool = True
    slice_seconds: float = 0.05
    patience_seconds: float = 2.0
    """How long a call waits for a function that reports nothing."""
    stop: dict[str, float] = field(default_factory=dict)
    checkpoint_every: int = 0
    checkpoint_at_end: bool = False
    save: str = ""
    """After this, save: "memory" or "disk"."""


@dataclass
class Answer:
    """What came of an order. `saved` belongs to results by their number, counted from 0 in this answer."""

    results: list[Report] = field(default_factory=list)
    saved: list[tuple[int, Saved]] = field(default_factory=list)
    ended: bool = False
    """The function has returned, or the class has said `done`, or a threshold was reached."""
    error: str = ""
    """The traceback of what the trainable raised."""
    raised: bytes = b""
    """The exception itself, nothing where it can't be pickled."""
    state: Saved | None = None
    """What `Order.save` asked for."""
    refused: str = ""
    """Why an order could not be carried out, where that is no failure of the trial: it can't become another trial."""
    is_clean: bool = False
    """Nothing of the trainable is left: its process may be ended without asking it."""
    process: tuple[str, int] = ("", 0)
    """Address and id."""
