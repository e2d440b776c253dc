"""The service PlacementGroups."""

from __future__ import annotations

from typing import Any

from kernel_control_grpc.errors import NotKnownError
from kernel_control_grpc.protocol import messages
from kernel_control_grpc.services.service import Service, page_of, parse_id

_PREFIX = "PLACEMENT_GROUP_STATE_"


class PlacementGroups(Service):
    """Bundles of resources that are reserved together."""

    def list(self, request: Any) -> Any:
        """Return a page of groups."""
        rows = [row for row in self.rows("placement_groups") if request.state in (0, _state(row))]
        page, token = page_of(rows, lambda row: row["placement_group_id"], request)
        return messages.ListPlacementGroupsResponse(placement_groups=map(_message, page), next_page_token=token)

    def get(self, request: Any) -> Any:
        """Return one group."""
        return messages.GetPlacementGroupResponse(placement_group=_message(self._row(request.id)))

    def remove(self, request: Any) -> Any:
        """End a group."""
        self.ask("remove_placement_group", self._row(request.id)["placement_group_id"])
        return messages.RemovePlacementGroupResponse()

    def _row(self, id: str) -> dict[str, Any]:
        wanted = parse_id(id, "a placement group").hex()
        for row in self.rows("placement_groups"):
            if row["placement_group_id"] == wanted:
                return dict(row)
        raise NotKnownError(f"no placement group {id!r} is known (any more); List shows the known ones")


def _state(row: dict[str, Any]) -> int:
    return int(messages.PlacementGroupState.get(_PREFIX + row["state"], 0))


def _message(row: dict[str, Any]) -> Any:
    where = row["bundles_to_node_id"]
    return messages.PlacementGroup(
        id=row["placement_group_id"],
        name=row["name"],
        namespace=row["namespace"],
        strategy=row["strategy"],
        state=_state(row),
        bundles=[
            messages.Bundle(index=index, resources=resources, node_id=where.get(index, ""))
            for index, resources in sorted(row["bundles"].items())
        ],
        detached=row["is_detached"],
        job_id=row["job_id"],
        cause=row["cause"],
    )
