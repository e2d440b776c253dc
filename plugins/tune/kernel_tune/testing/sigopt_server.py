"""A simulation of SigOpt's servers: it has their API, keeps what it receives, and suggests at random.

    with SigOptServer() as server:
        searcher = SigOptSearch(space, connection=SigOptClient("any token", server.url), metric="loss", mode="min")

Answers have the forms that SigOpt documents. A suggestion depends on the token that created the experiment and on the
trial, so that a search can be repeated.
"""

from __future__ import annotations

import base64
import json
import random
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Object = dict[str, Any]


class SigOptServer:
    """Serves on a port of this machine during a `with` block. `refusals` are statuses that refuse the next requests."""

    def __init__(self) -> None:
        self.experiments: list[Object] = []
        self.suggestions: list[Object] = []
        self.observations: list[Object] = []
        self.requests: list[tuple[str, str, Any]] = []
        """Method, path and body of each request."""
        self.refusals: list[int] = []
        self.page = 100
        """The largest number of objects on a page of a list."""
        self._tokens: dict[str, str] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> SigOptServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, method: str, target: str, body: Any, token: str) -> tuple[int, Object]:
        """Return status and body of the answer to a request."""
        address = urlsplit(target)
        self.requests.append((method, address.path, body))
        if self.refusals:
            return self.refusals.pop(0), {"error": {"message": "Too many requests."}}
        if not token:
            return 401, {"error": {"message": "No API token provided."}}
        version, *path = address.path.strip("/").split("/")
        if version != "v1" or not path or path[0] != "experiments":
            return 404, {"error": {"message": "Not Found"}}
        if len(path) == 1:
            return self._experiments(method, body, token, address.query)
        experiment = next((each for each in self.experiments if each["id"] == path[1]), None)
        if experiment is None:
            return 404, {"error": {"message": f"No experiment {path[1]}"}}
        if len(path) == 2:
            return 200, experiment
        made = self.suggestions if path[2] == "suggestions" else self.observations
        if method == "GET":
            return self._listed([each for each in made if each["experiment"] == experiment["id"]], address.query)
        make = self._suggestion if path[2] == "suggestions" else self._observation
        return make(experiment, body)

    def _experiments(self, method: str, body: Any, token: str, query: str) -> tuple[int, Object]:
        if method == "GET":
            return self._listed(self.experiments, query)
        if not body.get("name") or not body.get("parameters"):
            return 400, {"error": {"message": "Missing required json key in request: name, parameters"}}
        made = {
            "object": "experiment", "id": str(len(self.experiments) + 1), "state": "active", "client": "1",
            "metadata": None, "created": 1414800000 + len(self.experiments), **body,
        }  # fmt: skip
        self._tokens[made["id"]] = token
        self.experiments.append(made)
        return 200, made

    def _suggestion(self, experiment: Object, body: Object) -> tuple[int, Object]:
        mark = str((body.get("metadata") or {}).get("kernel_tune", len(self.suggestions)))
        draw = random.Random(f"{self._tokens[experiment['id']]} {mark.split()[-1]}")
        drawn = {parameter["name"]: _drawn(parameter, draw) for parameter in experiment["parameters"]}
        made = {
            "object": "suggestion", "id": str(len(self.suggestions) + 1), "experiment": experiment["id"],
            "state": "open", "assignments": body.get("assignments") or drawn, "metadata": body.get("metadata"),
            "created": 1414800000 + len(self.suggestions),
        }  # fmt: skip
        self.suggestions.append(made)
        return 200, made

    def _observation(self, experiment: Object, body: Object) -> tuple[int, Object]:
        if ("suggestion" in body) == ("assignments" in body) or body.get("failed", False) == ("values" in body):
            return 400, {"error": {"message": "Give suggestion or assignments, and failed or values"}}
        made = {
            "object": "observation", "id": str(len(self.observations) + 1), "experiment": experiment["id"],
            "suggestion": None, "failed": False, "values": [], "metadata": None, **body,
        }  # fmt: skip
        for suggestion in self.suggestions:
            if suggestion["id"] == made["suggestion"]:
                suggestion["state"], made["assignments"] = "closed", suggestion["assignments"]
        self.observations.append(made)
        return 200, made

    def _listed(self, objects: list[Object], query: str) -> tuple[int, Object]:
        options = parse_qs(query)
        before = int(options.get("before", [str(len(objects) + 1)])[0])
        limit = min(int(options.get("limit", ["25"])[0]), self.page)
        newest_first = list(enumerate(objects, start=1))[::-1]
        page = [(number, each) for number, each in newest_first if number < before][:limit]
        more = str(page[-1][0]) if page and page[-1][0] > 1 else None
        paging = {"before": more, "after": None}
        return 200, {
            "object": "pagination",
            "count": len(objects),
            "data": [each for _, each in page],
            "paging": paging,
        }

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                credentials = self.headers.get("Authorization", "").removeprefix("Basic ")
                token = base64.b64decode(credentials).decode().partition(":")[0]
                status, answer = owner.answer(self.command, self.path, body, token)
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_POST = do_GET

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


def _drawn(parameter: Object, draw: random.Random) -> Any:
    if parameter["type"] == "categorical":
        named = [each["name"] if isinstance(each, dict) else each for each in parameter["categorical_values"]]
        return draw.choice(named)
    if parameter.get("grid"):
        return draw.choice(parameter["grid"])
    low, high = parameter["bounds"]["min"], parameter["bounds"]["max"]
    return draw.randint(low, high) if parameter["type"] == "int" else draw.uniform(low, high)
