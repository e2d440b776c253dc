"""The service Actors."""

from __future__ import annotations

from typing import Any, cast

from kernel_control_grpc.errors import NotKnownError
from kernel_control_grpc.protocol import messages
from kernel_control_grpc.services.service import Service, page_of, parse_id
from kernel_spec.errors import ActorNotFoundError
from kernel_spec.ids import ActorId

_PREFIX = "ACTOR_STATE_"


class Actors(Service):
    """The actors of a cluster."""

    def list(self, request: Any) -> Any:
        """Return a page of actors."""
        rows = [row for row in self.rows("actors") if request.state in (0, _state(row))]
        page, token = page_of(rows, lambda row: row["actor_id"], request)
        return messages.ListActorsResponse(actors=map(_message, page), next_page_token=token)

    def get(self, request: Any) -> Any:
        """Return one actor."""
        return messages.GetActorResponse(actor=_message(self._row(request.id)))

    def _row(self, id: str) -> dict[str, Any]:
        """Return the row of one actor. Raises NotKnownError when there is none."""
        wanted = parse_id(id, "an actor").hex()
        for row in self.rows("actors"):
            if row["actor_id"] == wanted:
                return cast("dict[str, Any]", row)
        raise NotKnownError(f"no actor {id!r} is known (any more); List shows the known ones")

    def find_by_name(self, request: Any) -> Any:
        """Return the living actor of a name."""
        for row in self.rows("actors"):
            if (row["name"], row["namespace"]) == (request.name, request.namespace) and row["state"] != "DEAD":
                return messages.FindActorByNameResponse(actor=_message(row))
        raise ActorNotFoundError(
            f"no actor named {request.name!r} lives in namespace {request.namespace!r}; List shows all actors"
        )

    def kill(self, request: Any) -> Any:
        """End an actor's process."""
        actor = ActorId(bytes.fromhex(self._row(request.id)["actor_id"]))
        self.ask("kill_actor", actor, not request.allow_restart)
        return messages.KillActorResponse()


def _state(row: dict[str, Any]) -> int:
    return int(messages.ActorState.get(_PREFIX + row["state"], 0))


def _message(row: dict[str, Any]) -> Any:
    return messages.Actor(
        id=row["actor_id"],
        class_name=row["class_name"],
        name=row["name"],
        namespace=row["namespace"],
        state=_state(row),
        pid=row["pid"],
        node_id=row["node_id"],
        worker_id=row["worker_id"],
        restarts=row["restarts"],
        detached=row["detached"],
        job_id=row["job_id"],
        cause=row["cause"],
    )
