"""The service Session."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

from kernel_control_grpc.protocol import VERSION, messages
from kernel_control_grpc.services.service import Service, message_of, parse_id
from kernel_processes.head.deferred import Deferred
from kernel_spec.errors import OptionError
from kernel_spec.version import __version__

FAREWELL_SECONDS = 0.1


class Session(Service):
    """The cluster as a whole."""

    def status(self, request: Any) -> Deferred:
        """Return what the cluster has, does and waits for."""
        return message_of(self.ask("status"), _status)

    def explain(self, request: Any) -> Deferred:
        """Say what something waits for."""
        prefix = parse_id(request.id, "an object or actor")
        if not prefix:
            raise OptionError("the id is missing: give that of an object or an actor, or its first digits")
        return message_of(self.ask("explain_any", prefix), _explanations)

    def stop(self, request: Any) -> Any:
        """End the session, after the answer to the caller."""
        self.head.reactor.call_later(FAREWELL_SECONDS, lambda: self.ask("stop"))
        return messages.StopResponse()

    def versions(self, request: Any) -> Any:
        """Return which versions the head speaks."""
        return messages.VersionsResponse(kernel=__version__, protocols=[VERSION])


def _explanations(rows: list[tuple[str, str, str]]) -> Any:
    found = [messages.Explanation(kind=kind, id=id, text=text) for kind, id, text in rows]
    return messages.ExplainResponse(explanations=found)


def _status(found: dict[str, Any]) -> Any:
    alive = sum(row["Alive"] for row in found["nodes"])
    return messages.StatusResponse(
        name=os.path.basename(found["session"]),
        version=__version__,
        started=found["started"],
        scheduler=found["scheduler"],
        total=found["total"],
        available=found["available"],
        nodes_alive=alive,
        nodes_dead=len(found["nodes"]) - alive,
        workers=Counter(row["state"] for row in found["workers"]),
        actors=Counter(row["state"] for row in found["actors"]),
        programs=sum(not row["ended"] for row in found["jobs"]),
        waiting_count=found["waiting_count"],
        waiting=[
            messages.WaitingRequest(name=row["name"], wanted=row["wanted"], reason=row["reason"])
            for row in found["waiting"]
        ],
        object_store={name: int(value) for name, value in found["store"].items()},
        broken_plugins=found["problems"],
    )
