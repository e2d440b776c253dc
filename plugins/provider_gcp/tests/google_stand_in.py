"""Compute Engine and the Secret Manager for tests: what is asked and answered is as Google's descriptions say.

Machines are made by operations that end a while later, with an error where a zone has no capacity. Lists come in pages.
A requestId has its effect once. As a test wants it, calls fail, answers get lost, and connections break.
"""

from __future__ import annotations

import itertools
import json
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from plugins.provider_gcp.tests.google_schemas import SchemaError, description

PROJECT, ACCOUNT = "a-project", "machines@a-project.iam.gserviceaccount.com"
TYPES: dict[str, dict[str, Any]] = {
    "n2-standard-4": {"guestCpus": 4, "memoryMb": 16384},
    "a2-highgpu-1g": {
        "guestCpus": 12, "memoryMb": 87040,
        "accelerators": [{"guestAcceleratorType": "nvidia-tesla-a100", "guestAcceleratorCount": 1}],
    },
}  # fmt: skip
Answer = tuple[int, dict[str, Any]]


class GoogleStandIn:
    """The server. `clock` returns seconds; tests set what goes wrong."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self.instances: dict[tuple[str, str], dict[str, Any]] = {}
        self.secrets: dict[str, dict[str, Any]] = {}
        self.calls: Counter[str] = Counter()
        self.asked: list[dict[str, Any]] = []
        """The body of each insert."""
        self.problems: list[str] = []
        """What was not as Google's descriptions say."""
        self.forget()
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            """Hands calls on."""

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                stand_in.handle(self, body)

            do_GET = do_POST = do_DELETE = answer

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(target=lambda: self._server.serve_forever(0.05), daemon=True).start()

    def forget(self) -> None:
        """Be as new."""
        self.instances.clear()
        self.secrets.clear()
        self.calls.clear()
        self.asked.clear()
        self.problems.clear()
        self._operations: dict[str, dict[str, Any]] = {}
        self._looks: Counter[str] = Counter()
        self._requests: dict[str, dict[str, Any]] = {}
        self._pages: dict[str, list[Any]] = {}
        self._numbers = itertools.count(1)
        self.fail: Callable[[str, dict[str, str]], str | Answer] = lambda method, given: ""
        """Returns an answer that is given instead, "drop" to break the connection before, "lose" after; else ""."""
        self.no_capacity: Callable[[str], bool] = lambda zone: False
        self.boot_seconds = 0.0
        self.looks_needed = 1
        """How often an operation is looked at until it has ended."""
        self.page_size = 500

    def stop(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._server.server_close()

    def living(self) -> list[str]:
        """Return the names of the machines that there are."""
        return [name for (_, name), said in self.instances.items() if said["status"] != "STOPPING"]

    # -- one call --------------------------------------------------------------------------------------------------

    def handle(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        """Answer a call."""
        with self._lock:
            status, answer, trouble = self._checked(handler, body)
        if trouble:
            handler.connection.shutdown(socket.SHUT_RDWR)
            handler.close_connection = True
            return
        data = json.dumps(answer).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def _checked(self, handler: BaseHTTPRequestHandler, data: bytes) -> tuple[int, dict[str, Any], str]:
        place, body = urlsplit(handler.path), json.loads(data or b"null")
        query = dict(parse_qsl(place.query))
        service = description("compute.v1" if place.path.startswith("/compute/") else "secretmanager.v1")
        known = service.method(handler.command, place.path)
        if known is None:
            self.problems.append(f"there is no method {handler.command} {place.path}")
            return (*error(404, "notFound"), "")
        method, given = known
        self.calls[method["id"]] += 1
        try:
            service.check_call(method, query, body)
        except SchemaError as problem:
            self.problems.append(str(problem))
            return (*error(400, "invalid", str(problem)), "")
        if handler.headers["Authorization"] != "Bearer a-token":
            return (*error(401, "authError"), "")
        trouble = self.fail(method["id"], {**given, **query})
        if trouble == "drop":
            return 0, {}, "drop"
        if isinstance(trouble, tuple):
            return (*trouble, "")
        status, answer = getattr(self, f"_{method['id'].replace('.', '_')}")(given, query, body)
        if status < 300:
            service.check_answer(method, answer)
        return status, answer, trouble

    # -- Compute Engine --------------------------------------------------------------------------------------------

    def _compute_projects_get(self, given: Mapping[str, str], query: Any, body: Any) -> Answer:
        return 200, {"name": given["project"], "defaultServiceAccount": ACCOUNT}

    def _compute_machineTypes_get(self, given: Mapping[str, str], query: Any, body: Any) -> Answer:
        name = given["machineType"]
        return (200, {"name": name, **TYPES[name]}) if name in TYPES else error(404, "notFound", f"no {name}")

    def _compute_instances_insert(self, given: Mapping[str, str], query: Mapping[str, str], body: Any) -> Answer:
        self.asked.append(body)
        zone, name, request = given["zone"], body["name"], query.get("requestId", "")
        if request in self._requests:
            return 200, self._requests[request]
        if (zone, name) in self.instances:
            return error(409, "alreadyExists")
        operation = {"name": f"operation-{next(self._numbers)}", "status": "RUNNING", "operationType": "insert"}
        self._operations[operation["name"]] = operation
        self._requests[request] = operation
        if self.no_capacity(zone):
            one = {"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": f"{zone} has no capacity"}
            operation["error"] = {"errors": [one]}  # type: ignore[assignment]
        else:
            self.instances[zone, name] = {**body, "zone": f"https://x/zones/{zone}", "made": self.clock()}
            self.instances[zone, name]["status"] = "PROVISIONING"
        return 200, {key: value for key, value in operation.items() if key != "error"}

    def _compute_zoneOperations_get(self, given: Mapping[str, str], query: Any, body: Any) -> Answer:
        operation = self._operations[given["operation"]]
        self._looks[given["operation"]] += 1
        if self._looks[given["operation"]] < self.looks_needed:
            return 200, {key: value for key, value in operation.items() if key != "error"}
        operation["status"] = "DONE"
        return 200, operation

    def _compute_instances_delete(self, given: Mapping[str, str], query: Any, body: Any) -> Answer:
        if (given["zone"], given["instance"]) not in self.instances:
            return error(404, "notFound")
        said = self.instances[given["zone"], given["instance"]]
        if said["status"] != "STOPPING":
            said |= {"status": "STOPPING", "ended": self.clock()}
        return 200, {"name": f"operation-{next(self._numbers)}", "status": "RUNNING", "operationType": "delete"}

    def _compute_instances_aggregatedList(
        self, given: Mapping[str, str], query: Mapping[str, str], body: Any
    ) -> Answer:
        if "pageToken" in query:
            found = self._pages.pop(query["pageToken"])
        else:
            conditions = dict(re.findall(r"\(labels\.([\w-]+) = ([\w-]+)\)", query["filter"]))
            found = [one for one in self._all() if conditions.items() <= one["labels"].items()]
        answer: dict[str, Any] = {"items": {"zones/empty": {"warning": {"code": "NO_RESULTS_ON_PAGE"}}}}
        for one in found[: self.page_size]:
            zone = one["zone"].rpartition("/")[2]
            answer["items"].setdefault(f"zones/{zone}", {"instances": []})["instances"].append(one)
        if found[self.page_size :]:
            answer["nextPageToken"] = f"page-{next(self._numbers)}"
            self._pages[answer["nextPageToken"]] = found[self.page_size :]
        return 200, answer

    def _all(self) -> list[dict[str, Any]]:
        now = self.clock()
        for key, said in list(self.instances.items()):
            if said["status"] == "PROVISIONING" and now - said["made"] >= self.boot_seconds:
                said["status"] = "RUNNING"
            if said["status"] == "STOPPING" and now - said["ended"] >= self.boot_seconds:
                del self.instances[key]
        return [
            {name: value for name, value in said.items() if name not in ("made", "ended")}
            for said in self.instances.values()
        ]

    # -- Secret Manager --------------------------------------------------------------------------------------------

    def _secretmanager_projects_secrets_create(self, given: Any, query: Mapping[str, str], body: Any) -> Answer:
        name = query["secretId"]
        if name in self.secrets:
            return error(409, "ALREADY_EXISTS")
        self.secrets[name] = {"versions": [], "policy": {"etag": "QUJD"}}
        return 200, {"name": name}

    def _secretmanager_projects_secrets_addVersion(self, given: Mapping[str, str], query: Any, body: Any) -> Answer:
        self.secrets[given["secretsId"]]["versions"].append(body["payload"])
        return 200, {"name": "1"}

    def _secretmanager_projects_secrets_getIamPolicy(self, given: Mapping[str, str], query: Any, body: Any) -> Answer:
        return 200, self.secrets[given["secretsId"]]["policy"]

    def _secretmanager_projects_secrets_setIamPolicy(self, given: Mapping[str, str], query: Any, body: Any) -> Answer:
        self.secrets[given["secretsId"]]["policy"] = body["policy"]
        return 200, body["policy"]

    def _secretmanager_projects_secrets_delete(self, given: Mapping[str, str], query: Any, body: Any) -> Answer:
        return (200, {}) if self.secrets.pop(given["secretsId"], None) else error(404, "NOT_FOUND")

    def _secretmanager_projects_secrets_versions_access(
        self, given: Mapping[str, str], query: Any, body: Any
    ) -> Answer:
        return 200, {"name": "1", "payload": self.secrets[given["secretsId"]]["versions"][-1]}


def error(status: int, reason: str, message: str = "the test says so") -> Answer:
    """Return an answer that is an error."""
    return status, {"error": {"code": status, "message": message, "errors": [{"reason": reason, "message": message}]}}
