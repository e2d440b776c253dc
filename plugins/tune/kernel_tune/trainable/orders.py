"""The messages between a runner and the process of a trial."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kernel_runs.place import Place
from kernel_runs.reports import Report


@dataclass
class Setup:
    """Makes the process become a trial."""

    place: Place
    config: dict[str, Any]
    changes_directory: bool = True
    """Whether the trial's directory becomes the working directory of the process."""
    printed: tuple[str, str] = ("", "")
    """The files in the trial's directory for copies of stdout and stderr; "" for none."""


@dataclass
class Saved:
    """Locates a checkpoint of a trial: in `path` of its machine, or as bytes."""

    iteration: int
    path: str = ""
    data: Any = None
    """The bytes of a state in memory, or the files of `path` for another machine; at the runner perhaps a reference."""
    sizes: dict[str, int] | None = None
    """The sizes of the files in `path`, in bytes: smaller files are damaged. None if they are not known."""

    @property
    def is_in_memory(self) -> bool:
        """Whether there are no files."""
        return not self.path


@dataclass
class Order:
    """Describes one call of a trial's process: it may become a trial, restore a state, and then trains for a while.

    It trains until a result was made (`strict`), or for `slice_seconds` of results, until the trial has ended or until
    one of the thresholds in `stop` is reached. The first `skip` results are known already, and are not returned again.
    """

    setup: Setup | None = None
    restore: Saved | None = None
    skip: int = 0
    trains: bool = True
    strict: bool = True
    slice_seconds: float = 0.05
    patience_seconds: float = 2.0
    """Seconds that a call waits for a function that does not report."""
    stop: dict[str, float] = field(default_factory=dict)
    checkpoint_every: int = 0
    checkpoint_at_end: bool = False
    save: str = ""
    """Where to save the state afterwards: "memory" or "disk"; "" for not at all."""


@dataclass
class Answer:
    """Holds the answer to an order. `saved` has checkpoints with the number of their result, from 0 in this answer."""

    results: list[Report] = field(default_factory=list)
    saved: list[tuple[int, Saved]] = field(default_factory=list)
    ended: bool = False
    """Whether the function has returned, or the class has reported `done`, or a threshold was reached."""
    error: str = ""
    """The traceback of an exception of the trainable."""
    raised: bytes = b""
    """The pickled exception; empty if it can't be pickled."""
    state: Saved | None = None
    """The state that `Order.save` has requested."""
    refused: str = ""
    """Why the process can't carry out the order, although the trial has not failed: it can't become another trial."""
    is_clean: bool = False
    """Whether the process has nothing to clean up, so that it may be killed."""
    process: tuple[str, int] = ("", 0)
    """The address and the id of the process."""
