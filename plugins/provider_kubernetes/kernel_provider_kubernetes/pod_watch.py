"""Know the pods of a cluster without asking each time: a list, then a watch from its version on, in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from kernel_provider_kubernetes.access import ServerAccess
from kernel_provider_kubernetes.api_errors import ApiServerError
from kernel_provider_kubernetes.api_server import ApiServer
from kernel_provider_kubernetes.pod_mirror import PodMirror
from kernel_spec.errors import NodeProviderError

LIST_SECONDS = 60.0
"""Seconds after which the whole list is asked for all the same: a watch may have died silently."""
PAUSE_SECONDS, MOST_SECONDS = 0.5, 30.0
"""Seconds after which a watch that has failed is begun again: twice as many each time, and at most."""
PAGE = "500"
_GONE = 410
_log = structlog.get_logger("kernel.provider.kubernetes")


class PodWatch:
    """Watches the pods at `path` that `selector` selects. `clock` returns seconds that never go back."""

    def __init__(self, access: ServerAccess, path: str, selector: str, clock: Callable[[], float]) -> None:
        self._lists = ApiServer(access)
        self._watches = ApiServer(access)
        self._path = path
        self._selector = selector
        self._clock = clock
        self._lock = threading.Lock()
        self._mirror = PodMirror()
        self._listed_at = float("-inf")
        self._version = ""
        self._is_current = False
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def pods(self) -> list[Mapping[str, Any]]:
        """Return the pods that there are. Raises NodeProviderError where they have to be asked for, and that fails."""
        with self._lock:
            known = self._is_current and self._clock() - self._listed_at < LIST_SECONDS
        if not known:
            self.refresh()
        return self.known()

    def known(self) -> list[Mapping[str, Any]]:
        """Return the pods that were heard of last, without asking."""
        with self._lock:
            return self._mirror.pods()

    def refresh(self) -> None:
        """Ask for all pods, and watch from then on. Raises NodeProviderError."""
        pods, version = self._ask(self._lists)
        self._take_list(pods, version)
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="watch pods", daemon=True)
            self._thread.start()

    def take(self, pod: Mapping[str, Any]) -> None:
        """Take in what an answer says of a pod."""
        with self._lock:
            self._mirror.take(pod)

    def stop(self) -> None:
        """Let the watch end. What was heard stays."""
        self._stopped.set()
        self._watches.close()

    def _take_list(self, pods: list[Mapping[str, Any]], version: str) -> None:
        with self._lock:
            self._mirror.replace(pods, version)
            self._listed_at = self._clock()
            self._version = self._version or version

    def _ask(self, server: ApiServer) -> tuple[list[Mapping[str, Any]], str]:
        """Return all pods, asked for page by page, and the version of the list."""
        found: list[Mapping[str, Any]] = []
        query = {"labelSelector": self._selector, "limit": PAGE}
        while True:
            page = server.get(self._path, query)
            found += page.get("items") or ()
            metadata = page.get("metadata") or {}
            if not metadata.get("continue"):
                return found, str(metadata.get("resourceVersion", ""))
            query = {**query, "continue": str(metadata["continue"])}

    def _watch(self) -> None:
        """Watch until the end: from the last version that is known, or from a new list where that one is too old."""
        pause = PAUSE_SECONDS
        while not self._stopped.is_set():
            try:
                if not self._version:
                    self._take_list(*self._ask(self._watches))
                self._follow()
                pause = PAUSE_SECONDS
            except NodeProviderError as error:
                self._is_current = False
                if isinstance(error, ApiServerError) and error.status == _GONE:
                    self._version = ""  # What happened since then is not kept: the list tells.
                _log.debug("the watch of pods failed", error=str(error), pause=pause)
                self._stopped.wait(pause)
                pause = min(2 * pause, MOST_SECONDS)

    def _follow(self) -> None:
        """Take in what one watch tells."""
        query = {"labelSelector": self._selector, "resourceVersion": self._version}
        with self._lock:
            self._is_current = True
        for event in self._watches.watch(self._path, query):
            type, said = event.get("type"), event.get("object") or {}
            if type == "ERROR":
                status = int(said.get("code") or 0)
                raise ApiServerError(
                    f"the watch of pods ended: {said.get('message')}",
                    status=status, reason=str(said.get("reason", "")), code="unknown", retry_after=None,
                )  # fmt: skip
            with self._lock:
                self._version = str(said["metadata"].get("resourceVersion") or self._version)
                if type == "DELETED":
                    self._mirror.remove(said)
                elif type in ("ADDED", "MODIFIED"):
                    self._mirror.take(said)
