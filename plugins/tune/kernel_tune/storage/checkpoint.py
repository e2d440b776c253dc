"""Checkpoints and their directories, which are those of all runs (`kernel_runs`)."""

from __future__ import annotations

from kernel_runs.checkpoint import Checkpoint
from kernel_runs.storage.directories import (
    METADATA_FILE,
    being_written,
    checkpoint_directories,
    clear_unfinished,
    damage_of,
    directory_name,
    pack,
    publish,
    sizes_of,
    unfinished_directory,
    unpack,
    written_as,
)

__all__ = [
    "METADATA_FILE", "Checkpoint", "being_written", "checkpoint_directories", "clear_unfinished", "damage_of",
    "directory_name", "pack", "publish", "sizes_of", "unfinished_directory", "unpack", "written_as",
]  # fmt: skip
