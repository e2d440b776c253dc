"""A server of policies: programs elsewhere begin episodes, ask for actions and log rewards over HTTP.

| request | answer |
|---|---|
| `POST /v1/calls` with `{"calls": [{"method": ..., "episode_id": ..., ...}, ...]}` | `{"results": [...]}`, one each |
| `GET /v1/policy` | how the policy is made, for clients that act by it themselves |
| `GET /v1/weights?have=VERSION` | its parameters; 204 if that is the version of now |

Methods and arguments are those of `ExternalEnv`. Bodies are of a kind of `wire`, answers of the kind of `Accept`. Each
request needs `Authorization: Bearer TOKEN`. A call that fails ends its request: calls before it are done, and the
answer has `{"error": {"kind": ..., "message": ...}}`. An episode that no open connection has touched for a while is
abandoned.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Mapping
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kernel_rllib.envs.external import ExternalEnv
from kernel_rllib.errors import ConfigError, DataError, RLlibError
from kernel_rllib.serving.access import forget_token, server_token
from kernel_rllib.serving.http_requests import BadRequestError, Request, read_head, response
from kernel_rllib.serving.policy_files import described
from kernel_rllib.serving.wire import ARRAYS, JSON, packed, unpacked

LARGEST_BODY = 64 << 20
"""The largest size of a request, in bytes."""
ABANDONED_SECONDS = 30.0
"""After how long without an open connection an episode is abandoned."""
_ARGUMENTS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "start_episode": ((), ("episode_id", "training_enabled")),
    "get_action": (("episode_id", "observation"), ()),
    "log_action": (("episode_id", "observation", "action"), ("outputs",)),
    "log_returns": (("episode_id", "reward"), ("info",)),
    "end_episode": (("episode_id", "observation"), ()),
}
"""By method: the arguments that must be there, and those that may be."""


class PolicyServer:
    """Serves the episodes of an external environment over HTTP. It listens from when it is made."""

    def __init__(
        self,
        external_env: Any,
        address: str = "127.0.0.1",
        port: int = 9900,
        token: str | None = None,
        *,
        abandoned_seconds: float = ABANDONED_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Listen.

        Args:
            external_env: The environment whose episodes clients play.
            address: The name or address of an interface of this machine.
            port: The port; 0 for any that is free.
            token: The token of clients; None for that of KERNEL_POLICY_TOKEN, or a new one in a file of this user's.
            abandoned_seconds: The number of seconds without an open connection after which an episode is abandoned.
            clock: Tells seconds.

        Raises:
            ConfigError: If nothing can listen there, or it is beyond this machine and there is no token.
        """
        self.env, self.address = external_env, address
        self._server = _Server((address, port), self)
        try:
            self._server.server_bind()
            self.port = int(self._server.server_address[1])
            self.token = server_token(address, self.port, token)  # before anybody can connect
            self._server.server_activate()
        except OSError as error:
            self._server.server_close()
            raise ConfigError(
                f"no policy server can listen at {address}:{port}: {error.strerror or error}. Give an address of this "
                "machine, and a port that is free"
            ) from error
        except ConfigError:
            self._server.server_close()
            raise
        self._attendance = _Attendance(abandoned_seconds, clock)
        self._description: dict[str, Any] | None = None

    @property
    def url(self) -> str:
        """The URL for clients."""
        return f"http://{self.address}:{self.port}"

    def serve_forever(self) -> None:
        """Answer until `close` is called. Requests are answered in threads of their own."""
        self._server.serve_forever(poll_interval=0.2)

    def close(self) -> None:
        """Listen no more. May be called from any thread, while another one serves."""
        self._server.shutdown()
        self._server.server_close()
        forget_token(self.port, self.token)

    def look(self) -> None:
        """Abandon the episodes that no client continues."""
        for episode_id in self._attendance.abandoned():
            self.env.calls.abandon(episode_id)

    # -- requests -----------------------------------------------------------------------------------------------------

    def is_allowed(self, authorization: str | None) -> bool:
        """Return whether a request with this header may be answered."""
        return hmac.compare_digest((authorization or "").encode(), f"Bearer {self.token}".encode())

    def results(self, body: Any, connection: object) -> list[Any]:
        """Make the calls of a request, and return what each returned.

        Args:
            body: The request's.
            connection: The object that stands for its connection.

        Raises:
            DataError: If the body has no calls, or one has not the arguments of its method.
            RLlibError: What a call raised.
        """
        calls = body.get("calls") if isinstance(body, dict) else None
        if not isinstance(calls, list):
            raise DataError('the body has no calls: send {"calls": [{"method": "get_action", ...}, ...]}')
        return [self._result(call, connection) for call in calls]

    def _result(self, call: Any, connection: object) -> Any:
        method, given = _checked(call)
        episode_id = given.get("episode_id")
        if episode_id is not None:
            self._attendance.touched(episode_id, connection)
        returned = getattr(self.env, method)(**self._named(given))
        if method == "start_episode":
            self._attendance.touched(returned, connection)
        elif method == "end_episode":
            self._attendance.ended(given["episode_id"])
        return returned

    def _named(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return arguments by the names that the environment has for them."""
        if isinstance(self.env, ExternalEnv):
            return given
        return {f"{name}_dict" if name in _BY_AGENT else name: value for name, value in given.items()}

    def policy(self) -> dict[str, Any]:
        """Return how the policy is made that acts: files by name, and the version of the parameters.

        Raises:
            ConfigError: If clients can't act by it themselves.
        """
        get_policy = self.env.acting.get_policy
        if get_policy is None or not isinstance(self.env, ExternalEnv):
            raise ConfigError(
                "clients can act by themselves for one agent, by a policy that learns in the process of the server: "
                "set num_env_runners=0, or let clients use inference_mode='remote'"
            )
        if self._description is None:
            self._description = described(get_policy())
        return self._description

    def weights(self, have: int) -> dict[str, Any] | None:
        """Return the parameters that act now; None if they are of the version that is there already."""
        version, timestep, vector, statistics = self.env.acting.now
        if version == have:
            return None
        return {
            "version": version,
            "timestep": timestep,
            "weights": vector,
            "statistics": {name: moments.arrays() for name, moments in statistics.items()},
        }

    def disconnected(self, connection: object) -> None:
        """Hear that a connection was closed."""
        self._attendance.left(connection)


_BY_AGENT = ("observation", "action", "reward", "info", "outputs")


def _checked(call: Any) -> tuple[str, dict[str, Any]]:
    """Return the method of a call and its arguments. Raises DataError where they do not fit."""
    if not isinstance(call, dict) or call.get("method") not in _ARGUMENTS:
        named = call.get("method") if isinstance(call, dict) else call
        raise DataError(f"{named!r} is no method: there are {', '.join(_ARGUMENTS)}")
    given = {name: value for name, value in call.items() if name != "method"}
    needed, further = _ARGUMENTS[call["method"]]
    missing = [name for name in needed if name not in given]
    unknown = [name for name in given if name not in (*needed, *further)]
    if missing or unknown:
        problem = f"has no {missing[0]}" if missing else f"has {unknown[0]!r}"
        raise DataError(f"a call of {call['method']} {problem}: it takes {', '.join((*needed, *further))}")
    if not isinstance(given.get("episode_id", ""), str | None):
        raise DataError(f"the episode_id of a call is {given['episode_id']!r}, but must be a text")
    return call["method"], given


class _Attendance:
    """Tracks which open connections have used each episode, and since when none has."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        """Call an episode abandoned after so many seconds."""
        self._seconds, self._clock = seconds, clock
        self._lock = Lock()
        self._connections: dict[str, set[object]] = {}
        self._alone_since: dict[str, float] = {}

    def touched(self, episode_id: str, connection: object) -> None:
        """Hear of a call for an episode."""
        with self._lock:
            self._connections.setdefault(episode_id, set()).add(connection)
            self._alone_since.pop(episode_id, None)

    def ended(self, episode_id: str) -> None:
        """Hear that an episode has ended."""
        with self._lock:
            self._connections.pop(episode_id, None)
            self._alone_since.pop(episode_id, None)

    def left(self, connection: object) -> None:
        """Hear that a connection was closed."""
        with self._lock:
            for episode_id, connections in self._connections.items():
                connections.discard(connection)
                if not connections:
                    self._alone_since.setdefault(episode_id, self._clock())

    def abandoned(self) -> list[str]:
        """Return the episodes that have been alone for too long, and forget them."""
        with self._lock:
            until = self._clock() - self._seconds
            found = [episode_id for episode_id, since in self._alone_since.items() if since <= until]
            for episode_id in found:
                del self._connections[episode_id], self._alone_since[episode_id]
        return found


class _Server(ThreadingTCPServer):
    """Listens for one `PolicyServer`."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], policies: PolicyServer) -> None:
        self.policies = policies
        super().__init__(address, _Requests, bind_and_activate=False)

    def service_actions(self) -> None:
        """Look after episodes now and then."""
        self.policies.look()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that is gone is no error of the server's."""


class _Requests(StreamRequestHandler):
    """The requests of one connection."""

    disable_nagle_algorithm = True
    server: _Server

    def handle(self) -> None:
        """Answer requests, until the client or an error ends the connection."""
        self._request, self._keeps = Request("", "", {}, keeps=False), True
        while self._keeps:
            try:
                head = read_head(self.rfile)
            except BadRequestError as error:
                self._keeps = False
                self._send(error.status, _said("BadRequest", str(error)))
                return
            if head is None:
                return
            self._request, self._keeps = head, head.keeps
            body = self._body()
            if body is not None:
                self._answer(body)

    def finish(self) -> None:
        """Hear that the connection was closed."""
        try:
            super().finish()
        finally:
            self.server.policies.disconnected(self)

    # -- answers ------------------------------------------------------------------------------------------------------

    def _answer(self, body: bytes) -> None:
        asked = self._request
        self._read, self._asked = body, urlsplit(asked.target)
        if not self.server.policies.is_allowed(asked.headers.get("authorization")):
            self._send(401, _said("Unauthorized", "the request has no token of this server's, or another one"))
            return
        routes = {
            ("POST", "/v1/calls"): self._calls,
            ("GET", "/v1/policy"): self._policy,
            ("GET", "/v1/weights"): self._weights,
        }
        route = routes.get((asked.command, self._asked.path))
        if route is None:
            self._send(404, _said("NotFound", f"there is no {asked.command} {asked.target}"))
            return
        try:
            found = route()
        except DataError as error:
            self._send(400, _said("DataError", str(error)))
        except RLlibError as error:
            self._send(409, _said(type(error).__name__, str(error)))
        except Exception as error:  # what a call of a client's brings about must not end its connection unanswered
            self._send(500, _said("InternalError", f"{type(error).__name__}: {error}"))
        else:
            self._send(204 if found is None else 200, found)

    def _calls(self) -> Any:
        body = unpacked(self._read, self._request.content_type)
        return {"results": self.server.policies.results(body, self)}

    def _policy(self) -> Any:
        return self.server.policies.policy()

    def _weights(self) -> Any:
        have = parse_qs(self._asked.query).get("have", ["-1"])[0]
        if not have.lstrip("-").isdigit():
            raise DataError(f"have={have!r} is no version: give the number that came with the parameters")
        return self.server.policies.weights(int(have))

    def _body(self) -> bytes | None:
        """Return the body; answer and return None if it is too large, or its length is not said."""
        headers = self._request.headers
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or "transfer-encoding" in headers:
            self._keeps = False
            self._send(411, _said("LengthRequired", "the request does not say how long its body is: Content-Length"))
            return None
        if int(length) > LARGEST_BODY:
            self._keeps = False
            self._send(413, _said("TooLarge", f"a body may have {LARGEST_BODY} bytes, and this one has {length}"))
            return None
        if headers.get("expect", "").lower() == "100-continue":
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return self.rfile.read(int(length))

    def _send(self, status: int, value: Any) -> None:
        kind = ARRAYS if ARRAYS in self._request.headers.get("accept", "") else JSON
        body = None if status == 204 else packed(value, kind)
        self.wfile.write(response(status, kind, body, keeps=self._keeps))


def _said(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"kind": kind, "message": message}}
