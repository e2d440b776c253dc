"""Do the disk work of a node's object store: for spilled copies, and files of objects for which it has no room."""

from __future__ import annotations

from collections.abc import Callable

from kernel_processes.node.overflow_files import OverflowFiles
from kernel_processes.node.overflow_server import OverflowServer
from kernel_processes.node.overflow_table import FileFailed, FileMade, MakeFile, RemoveFile
from kernel_processes.node.spill_work import Done, SpillWork
from kernel_processes.transport.reactor import Reactor
from kernel_spec import store as contract
from kernel_spec.byte_sizes import readable
from kernel_spec.ids import ObjectId
from kernel_spec.spill import SpillTarget

DiskStep = contract.WriteSpill | contract.ReadSpill | contract.DeleteSpill | MakeFile | RemoveFile
"""A step that a store may order of its disk."""
DiskEvent = Done | contract.RestoreLate | FileMade | FileFailed
"""The result of a step."""


class StoreDisk:
    """Carries out the disk work of `server` in threads: copies go to `spill`, files into the server's directory.

    `warn(text)` tells users, once, that an object went into a file.
    """

    def __init__(
        self, server: OverflowServer, spill: SpillTarget, reactor: Reactor, warn: Callable[[str], None]
    ) -> None:
        self._server = server
        self._spill = SpillWork(server, spill, reactor)
        self._files = OverflowFiles(server.directory, reactor)
        self._warn: Callable[[str], None] | None = warn

    def begin(self, step: DiskStep, then: Callable[[DiskEvent], None]) -> None:
        """Begin to carry out an order; `then(event)` is called from the loop with what came of it, if anything does."""
        if isinstance(step, contract.WriteSpill | contract.ReadSpill):
            self._spill.begin(step, then)
        elif isinstance(step, contract.DeleteSpill):
            self._spill.delete(step.uri)
        elif isinstance(step, MakeFile):
            self._files.make(step, lambda event: self._file_came(event, then))
        else:
            self._files.remove(step.path)

    def finish(self) -> None:
        """Pass on what threads have done. Called from the loop."""
        self._spill.finish()
        self._files.finish()

    def explain(self, object: ObjectId) -> list[str]:
        """Describe the work in progress that a request for `object` may wait for."""
        return [text for text in (self._spill.explain(object), self._files.explain()) if text]

    def close(self) -> None:
        """Stop, and remove all copies and files."""
        self._files.close()
        self._spill.close()

    def _file_came(self, event: FileMade | FileFailed, then: Callable[[DiskEvent], None]) -> None:
        then(event)
        if self._warn is not None and isinstance(event, FileMade):
            warn, self._warn = self._warn, None
            warn(overflow_text(self._server.usage(), self._server.directory))


def overflow_text(usage: contract.StoreUsage, directory: str) -> str:
    """Return what users are told when the first object has gone into a file in `directory`."""
    store = f"the object store of {readable(usage.capacity)}"
    why = f"it is larger than {store}"
    if usage.overflow <= usage.capacity:
        taken = f"{readable(usage.used)} there are taken, {readable(usage.pinned)} of them by what is in use"
        why = f"{store} had no room for it: {taken}"
    return (
        f"an object of {readable(usage.overflow)} went into a file in {directory}, because {why}. "
        "Files may be slower than memory: drop references and views that are no longer needed, or raise "
        "object_store_memory. This is said once; `kernel memory` shows what lies in files"
    )
