"""Hold an object store to its contract: end the node when the store raises, because its clients would wait for ever.

If the node is the session's own, the session ends, too. The reason names the plugin and its lines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kernel.logs import Logger
from kernel.plugin_faults import missing_members, told
from kernel_spec import store as contract
from kernel_spec.errors import ContractError, KernelError, PluginError

_INSTRUCTIONS = frozenset(
    (
        contract.Reply,
        contract.Failed,
        contract.WriteSpill,
        contract.ReadSpill,
        contract.DeleteSpill,
        contract.ReleaseIdle,
    )
)
_T = TypeVar("_T")
_D = TypeVar("_D")


def open_server(
    store: contract.ObjectStore, label: str, capacity: int, directory: str | None, on_broken: Callable[[str], None]
) -> StoreGuard:
    """Return the server of a store that is called `label`, under guard. `on_broken(reason)` is called once.

    Raises what the store says when it can't be opened, PluginError when that is no error of ours, and ContractError
    when what it returns is no server.
    """
    try:
        server = store.open_server(capacity, directory)
    except KernelError:
        raise
    except Exception as error:
        raise PluginError(told(f"{label}: its open_server()", error)) from error
    missing = missing_members(server, contract.StoreServer)
    if missing:
        raise ContractError(
            f"{label}: its open_server() returned {server!r:.100}, which is no StoreServer: it lacks "
            f"{', '.join(missing)}"
        )
    return StoreGuard(server, label, on_broken)


class StoreGuard:
    """Wraps the `kernel_spec.store.StoreServer` of a plugin, which is asked nothing more once it has raised."""

    def __init__(self, server: contract.StoreServer, label: str, on_broken: Callable[[str], None]) -> None:
        self.name = server.name
        self._server = server
        self._label = label
        self._on_broken = on_broken
        self._broken, self._why = False, ""
        self._usage = contract.StoreUsage(0, 0, 0, 0, 0, 0, 0)

    def handle(self, event: contract.StoreEvent) -> list[contract.StoreInstruction]:
        """Take one event in and return what to do, in order; nothing once the plugin has raised."""
        if self._broken:
            return []
        try:
            steps = self._server.handle(event)
            for step in steps:
                if type(step) not in _INSTRUCTIONS:
                    raise ContractError(f"it returned {step!r:.100}, which is no instruction")
            return steps
        except Exception as error:
            self._break(f"handle({type(event).__name__})", error)
            return []

    def give_up_waiting(self) -> list[contract.StoreInstruction]:
        """Answer what can't be satisfied."""
        return self._ask("give_up_waiting()", self._server.give_up_waiting, [])

    def view(self, location: contract.Location, size: int) -> memoryview:
        """Return the object's memory. Raises PluginError when the plugin raises (any thread)."""
        try:
            return self._server.view(location, size)
        except Exception as error:
            raise PluginError(told(f"{self._label}: its view()", error)) from error

    def descriptors(self) -> list[int]:
        """Return the file descriptors that a client needs. Raises PluginError once the plugin has raised."""
        return self._told_client("descriptors()", self._server.descriptors)

    def client_options(self) -> Mapping[str, Any]:
        """Return what else a client needs to know. Raises PluginError once the plugin has raised."""
        return self._told_client("client_options()", self._server.client_options)

    def usage(self) -> contract.StoreUsage:
        """Return exact counts, the last ones once the plugin has raised."""
        self._usage = self._ask("usage()", self._server.usage, self._usage)
        return self._usage

    def objects(self) -> list[contract.StoredObject]:
        """Return every object held, largest first."""
        return self._ask("objects()", self._server.objects, [])

    def validate(self) -> None:
        """Raise AssertionError when an invariant is broken."""
        self._server.validate()

    def close(self) -> None:
        """Free everything outside the process; what the plugin raises is written into the log."""
        try:
            self._server.close()
        except Exception as error:
            Logger("kernel.node").warning(told(f"{self._label}: its close()", error))

    def _told_client(self, what: str, method: Callable[[], _T]) -> _T:
        found = self._ask(what, method, None)
        if found is None:
            raise PluginError(self._why)
        return found

    def _ask(self, what: str, method: Callable[[], _T], otherwise: _D) -> _T | _D:
        if self._broken:
            return otherwise
        try:
            return method()
        except Exception as error:
            self._break(what, error)
            return otherwise

    def _break(self, what: str, error: Exception) -> None:
        self._broken, self._why = True, told(f"{self._label}: its {what}", error)
        self._on_broken(self._why)
