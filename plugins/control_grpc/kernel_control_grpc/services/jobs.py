"""The service Jobs."""

from __future__ import annotations

from typing import Any

from kernel_control_grpc.errors import NotKnownError
from kernel_control_grpc.protocol import messages
from kernel_control_grpc.services.service import Service, page_of, parse_id


class Jobs(Service):
    """The programs of a cluster."""

    def list(self, request: Any) -> Any:
        """Return a page of jobs."""
        rows = [row for row in self.rows("jobs") if not (request.running_only and row["ended"])]
        page, token = page_of(rows, lambda row: row["job_id"], request)
        return messages.ListJobsResponse(jobs=map(_message, page), next_page_token=token)

    def get(self, request: Any) -> Any:
        """Return one job."""
        wanted = parse_id(request.id, "a job").hex()
        for row in self.rows("jobs"):
            if row["job_id"] == wanted:
                return messages.GetJobResponse(job=_message(row))
        raise NotKnownError(f"no job {request.id!r} is known (any more); List shows the known ones")


def _message(row: dict[str, Any]) -> Any:
    return messages.Job(
        id=row["job_id"],
        running=not row["ended"],
        driver_pid=row["pid"],
        namespace=row["namespace"],
        script=row["script"],
        started=row["started"],
        ended=row["ended"],
    )
