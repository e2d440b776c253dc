"""A stand-in for an API server of Kubernetes, on loopback, and for the kubelet that runs its pods.

It keeps objects of any kind, lists them page by page, watches with resource versions (410 Gone for those that are
compacted away), merges patches, knows conflicts, preconditions, grace periods, owners, service accounts with roles,
and a quota of pods. What it is asked and what it answers is checked against `openapi_rules`; what breaks a rule is
in `broken`. No Kubernetes is in it: how a real one schedules, pulls and evicts is played by the tests.
"""

from __future__ import annotations

import copy
import datetime
import json
import re
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from plugins.provider_kubernetes.tests import openapi_rules

PATH = re.compile(
    r"/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<resource>[a-z]+)(?:/(?P<name>[^/]+))?(?:/(?P<part>status))?"
)
PODS = "pods"
Answer = tuple[int, dict[str, Any], dict[str, str]]


class StandInApi:
    """Serves until `close`. `accounts` has, by token, what it may do as (verb, resource); None allows all to all."""

    def __init__(
        self, accounts: dict[str, set[tuple[str, str]]] | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        self.accounts = accounts
        self.quota: int | None = None
        self.runs_pods = True
        self.kinds: set[tuple[str, str]] = set()
        """Custom resources that it knows, as (apiVersion, resource)."""
        self.check_custom: Callable[[dict[str, Any]], list[str]] = lambda body: []
        self.broken: list[str] = []
        self.requests: list[str] = []
        self.refuse: list[tuple[int, dict[str, Any], dict[str, str]]] = []
        """Answers that the next changes get, whatever they ask."""
        self.changed = threading.Condition(threading.RLock())
        self._objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self._history: list[tuple[int, str, tuple[str, str, str], dict[str, Any]]] = []
        self._version = 100
        self._compacted = 0
        self._closed = False
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"api": self}))
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End watches and the server."""
        with self.changed:
            self._closed = True
            self.changed.notify_all()
        self._server.shutdown()
        self._server.server_close()

    # -- what tests do to the cluster --------------------------------------------------------------------------------

    def objects(self, resource: str) -> list[dict[str, Any]]:
        """Return copies of all objects of a resource."""
        with self.changed:
            return [copy.deepcopy(one) for key, one in sorted(self._objects.items()) if key[0] == resource]

    def set_status(self, name: str, status: dict[str, Any], resource: str = PODS, **metadata: Any) -> None:
        """Let what runs the cluster say what became of an object."""
        with self.changed:
            key = next(key for key in self._objects if key[0] == resource and key[2] == name)
            body = copy.deepcopy(self._objects[key])
            body["status"] = {**(body.get("status") or {}), **status}
            body["metadata"] |= metadata
            self._store("MODIFIED", key, body)

    def remove(self, name: str, resource: str = PODS) -> None:
        """Let an object be gone, without grace."""
        with self.changed:
            key = next(key for key in self._objects if key[0] == resource and key[2] == name)
            self._drop(key)

    def compact(self) -> None:
        """Forget what happened until now: watches of older versions are refused, running ones end."""
        with self.changed:
            self._version += 1
            self._compacted = self._version
            self._history.clear()
            self.changed.notify_all()

    # -- requests ----------------------------------------------------------------------------------------------------

    def handle(self, method: str, target: str, token: str, body: Any) -> Answer:
        """Answer a request that is no watch."""
        url = urlsplit(target)
        query = dict(parse_qsl(url.query))
        found = PATH.fullmatch(url.path)
        self.requests.append(f"{method} {url.path}")
        if found is None:
            return _status(404, "NotFound", "the server could not find the requested resource")
        verb = {"GET": "get" if found["name"] else "list", "POST": "create", "PUT": "update", "PATCH": "patch"}.get(
            method, "delete"
        )
        refused = self._refused(verb, found["resource"], found["namespace"] or "", token)
        if refused:
            return refused
        if method != "GET" and self.refuse:
            return self.refuse.pop(0)
        with self.changed:
            answer = self._answer(method, found, query, body)
        self._check(answer[1], f"the answer to {method} {url.path}")
        return answer

    def watch(self, target: str, token: str) -> Iterator[dict[str, Any]] | Answer:
        """Return the events of a watch, or why there is none."""
        url = urlsplit(target)
        query = dict(parse_qsl(url.query))
        found = PATH.fullmatch(url.path)
        assert found is not None
        self.requests.append(f"WATCH {url.path}")
        refused = self._refused("watch", found["resource"], found["namespace"] or "", token)
        return refused or self._events(found["resource"], found["namespace"], query)

    def _events(self, resource: str, namespace: str | None, query: dict[str, str]) -> Iterator[dict[str, Any]]:
        version = int(query.get("resourceVersion") or self._version)
        until = time.monotonic() + float(query.get("timeoutSeconds", 300))
        while True:
            with self.changed:
                if version < self._compacted:
                    status = _status(410, "Expired", f"too old resource version: {version} ({self._compacted})")[1]
                    news: list[Any] = [{"type": "ERROR", "object": status}]
                else:
                    news = [
                        (number, type, one) for number, type, key, one in self._history
                        if number > version and key[0] == resource and namespace in (None, key[1])
                        and _selected(one, query)
                    ]  # fmt: skip
                if not news:
                    left = until - time.monotonic()
                    if self._closed or left <= 0:
                        return
                    self.changed.wait(left)
                    continue
            for one in news:
                if isinstance(one, dict):
                    yield one
                    return
                version = one[0]
                self._check(one[2], "an event")
                yield {"type": one[1], "object": one[2]}

    def _answer(self, method: str, found: re.Match[str], query: dict[str, str], body: Any) -> Answer:
        resource, namespace, name = found["resource"], found["namespace"] or "", found["name"]
        version = found["core"] or f"{found['group']}/{found['version']}"
        known = version in {pair[0] for pair in openapi_rules.KINDS} or (version, resource) in self.kinds
        if not known:
            return _status(404, "NotFound", "the server could not find the requested resource")
        if not name:
            if method == "POST":
                return self._create(resource, namespace, body)
            return self._list(resource, found["namespace"], version, query)
        key = (resource, namespace, name)
        if key not in self._objects:
            return _status(404, "NotFound", f'{resource} "{name}" not found')
        if method == "DELETE":
            return self._delete(key, body or {})
        if method == "GET":
            return 200, copy.deepcopy(self._objects[key]), {}
        return self._update(key, body, method == "PATCH", found["part"])

    def _list(self, resource: str, namespace: str | None, version: str, query: dict[str, str]) -> Answer:
        all = [
            copy.deepcopy(one) for key, one in sorted(self._objects.items())
            if key[0] == resource and namespace in (None, key[1]) and _selected(one, query)
        ]  # fmt: skip
        start, limit = int(query.get("continue") or 0), int(query.get("limit") or 0) or len(all) + 1
        metadata = {"resourceVersion": str(self._version)}
        if start + limit < len(all):
            metadata["continue"] = str(start + limit)
        kind = "PodList" if resource == PODS else "List"
        return 200, {"apiVersion": version, "kind": kind, "metadata": metadata, "items": all[start : start + limit]}, {}

    def _create(self, resource: str, namespace: str, body: Any) -> Answer:
        wrong = self._wrong(body, resource)
        if wrong:
            return _status(422, "Invalid", f"{resource} is invalid: {'; '.join(wrong)}")
        metadata = body["metadata"]
        name = metadata.get("name") or f"{metadata['generateName']}{uuid.uuid4().hex[:5]}"
        key = (resource, namespace, name)
        if key in self._objects:
            return _status(409, "AlreadyExists", f'{resource} "{name}" already exists')
        pods = [one for one in self._objects if one[0] == PODS]
        if resource == PODS and self.quota is not None and len(pods) >= self.quota:
            used = f"requested: pods=1, used: pods={len(pods)}, limited: pods={self.quota}"
            return _status(403, "Forbidden", f'pods "{name}" is forbidden: exceeded quota: pods, {used}')
        body = copy.deepcopy(body)
        stamp = _stamp(time.time())
        body["metadata"] |= {"name": name, "uid": str(uuid.uuid4()), "creationTimestamp": stamp}
        if namespace:
            body["metadata"]["namespace"] = namespace
        if resource == PODS:
            body["spec"].setdefault("terminationGracePeriodSeconds", 30)
            body["status"] = {"phase": "Pending"}
            if self.runs_pods:
                threading.Timer(0.02, self._run, (key, body["metadata"]["uid"])).start()
        return 201, self._store("ADDED", key, body), {}

    def _update(self, key: tuple[str, str, str], body: Any, merges: bool, part: str | None) -> Answer:
        old = self._objects[key]
        new = _merged(old, body) if merges else copy.deepcopy(body)
        asked = str((body.get("metadata") or {}).get("resourceVersion") or "")
        if asked and asked != old["metadata"]["resourceVersion"]:
            return _status(409, "Conflict", "the object has been modified; apply your changes to the latest version")
        wrong = self._wrong(new, key[0])
        if wrong:
            return _status(422, "Invalid", f"{key[0]} is invalid: {'; '.join(wrong)}")
        new = {**old, "status": new.get("status")} if part == "status" else {**new, "status": old.get("status")}
        if new["status"] is None:
            del new["status"]
        new["metadata"] = {**new["metadata"], **{one: old["metadata"][one] for one in ("uid", "creationTimestamp")}}
        if part is None and new.get("spec") != old.get("spec") and key[0] != PODS:
            new["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
        return 200, self._store("MODIFIED", key, new), {}

    def _delete(self, key: tuple[str, str, str], options: dict[str, Any]) -> Answer:
        found = self._objects[key]
        wanted = (options.get("preconditions") or {}).get("uid")
        if wanted and wanted != found["metadata"]["uid"]:
            return _status(409, "Conflict", f"Precondition failed: UID in precondition: {wanted}")
        grace = options.get("gracePeriodSeconds", found.get("spec", {}).get("terminationGracePeriodSeconds"))
        if key[0] != PODS or grace == 0 or found["status"].get("phase") in ("Failed", "Succeeded"):
            self._drop(key)
            if key[0] == PODS:
                return 200, copy.deepcopy(found), {}
            return 200, {"apiVersion": "v1", "kind": "Status", "status": "Success"}, {}
        if not found["metadata"].get("deletionTimestamp"):
            body = copy.deepcopy(found)
            body["metadata"] |= {"deletionTimestamp": _stamp(time.time() + grace), "deletionGracePeriodSeconds": grace}
            found = self._store("MODIFIED", key, body)
            threading.Timer(0.02, self._stop, (key, body["metadata"]["uid"])).start()
        return 200, copy.deepcopy(found), {}

    # -- what runs by itself -----------------------------------------------------------------------------------------

    def _run(self, key: tuple[str, str, str], uid: str) -> None:
        with self.changed:
            body = copy.deepcopy(self._objects.get(key))
            if body is None or body["metadata"]["uid"] != uid or body["metadata"].get("deletionTimestamp"):
                return
            if body["status"] != {"phase": "Pending"}:
                return
            body["status"] = {"phase": "Running", "podIP": "10.0.0.7", "conditions": [condition("Ready", "True")]}
            body["spec"]["nodeName"] = "machine-1"
            self._store("MODIFIED", key, body)

    def _stop(self, key: tuple[str, str, str], uid: str) -> None:
        with self.changed:
            if key in self._objects and self._objects[key]["metadata"]["uid"] == uid:
                self._drop(key)

    def _store(self, type: str, key: tuple[str, str, str], body: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        body = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self._version)}}
        if type != "DELETED":
            self._objects[key] = body
        self._history.append((self._version, type, key, copy.deepcopy(body)))
        self.changed.notify_all()
        return copy.deepcopy(body)

    def _drop(self, key: tuple[str, str, str]) -> None:
        body = self._objects.pop(key)
        self._store("DELETED", key, body)
        owned = [
            other for other, one in self._objects.items()
            if any(owner["uid"] == body["metadata"]["uid"] for owner in one["metadata"].get("ownerReferences") or ())
        ]  # fmt: skip
        for other in owned:
            if other in self._objects:
                self._drop(other)

    # -- rules -------------------------------------------------------------------------------------------------------

    def _refused(self, verb: str, resource: str, namespace: str, token: str) -> Answer | None:
        if self.accounts is None:
            return None
        if token not in self.accounts:
            return _status(401, "Unauthorized", "Unauthorized")
        if (verb, resource) in self.accounts[token]:
            return None
        text = f'{resource} is forbidden: User "tests" cannot {verb} resource "{resource}" in API group ""'
        return _status(403, "Forbidden", f'{text} in the namespace "{namespace}"')

    def _wrong(self, body: Any, resource: str) -> list[str]:
        if isinstance(body, dict) and (body.get("apiVersion"), resource) in self.kinds:
            return self.check_custom(body)
        found = openapi_rules.problems_of(body)
        self.broken += [f"a request: {text}" for text in found]
        return found

    def _check(self, body: dict[str, Any], what: str) -> None:
        if body.get("kind") == "List" or any(body.get("apiVersion") == version for version, _ in self.kinds):
            return
        self.broken += [f"{what}: {text}" for text in openapi_rules.problems_of(body)]


class _Handler(BaseHTTPRequestHandler):
    """Speaks HTTP for the stand-in."""

    api: StandInApi
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.command == "GET" and "watch=true" in self.path:
            found = self.api.watch(self.path, token)
            if not isinstance(found, tuple):
                self._stream(found)
                return
        else:
            found = self.api.handle(self.command, self.path, token, json.loads(text) if text else None)
        status, body, headers = found
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: Iterator[dict[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.close_connection = True
        try:
            for event in events:
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            return

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


def condition(type: str, status: str, reason: str = "", message: str = "", ago: float = 0.0) -> dict[str, Any]:
    """Return a condition of a pod, which is so since `ago` seconds."""
    more = {name: value for name, value in (("reason", reason), ("message", message)) if value}
    return {"type": type, "status": status, "lastTransitionTime": _stamp(time.time() - ago), **more}


def _status(code: int, reason: str, message: str) -> Answer:
    said = {"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "message": message}
    return code, {**said, "reason": reason, "code": code}, {}


def _stamp(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _selected(body: dict[str, Any], query: dict[str, str]) -> bool:
    """Return whether an object fits a selector by equality."""
    labels = body["metadata"].get("labels") or {}
    wanted = [one.split("=", 1) for one in query.get("labelSelector", "").split(",") if one]
    return all(labels.get(name) == value for name, value in wanted)


def _merged(old: Any, new: Any) -> Any:
    """Return the merge patch `new` of `old` (RFC 7396)."""
    if not isinstance(new, dict):
        return copy.deepcopy(new)
    merged = copy.deepcopy(old) if isinstance(old, dict) else {}
    for name, value in new.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged
