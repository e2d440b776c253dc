"""The client of a policy server: for simulators and services that are no part of a run, and need only reach it."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from kernel_rllib import errors
from kernel_rllib.errors import ConfigError, EpisodeError, PolicyServerError, RLlibError
from kernel_rllib.serving.access import client_token
from kernel_rllib.serving.http_connection import ConnectionLostError, HttpConnection
from kernel_rllib.serving.wire import ARRAYS, packed, require_sendable, unpacked

MODES = ("local", "remote")
BATCH_STEPS = 1000
"""After how many steps of an episode they are sent, where actions are chosen here."""

_GIVEN = ("observation", "action", "reward", "info")
"""The arguments that users give, of calls that are sent later."""

_log = logging.getLogger("kernel.rllib")


class PolicyClient:
    """Plays episodes by the policy of a server, which learns from them. Its methods are those of `ExternalEnv`.

    Any thread may call it; each has a connection of its own. An episode goes on in one thread at a time.
    """

    def __init__(
        self,
        address: str,
        inference_mode: str = "local",
        update_interval: float = 10.0,
        token: str | None = None,
        *,
        connect_seconds: float = 10.0,
        answer_seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the server; it is reached with the first call.

        Args:
            address: Its address, "localhost:9900" or "http://localhost:9900".
            inference_mode: "local": actions are chosen here, by a copy of the policy, and steps sent in batches;
                "remote": the server is asked for each action.
            update_interval: The number of seconds after which a copy of the policy is brought up to date.
            token: The server's token; None for that of KERNEL_POLICY_TOKEN, or of the file of a server on this machine.
            connect_seconds: The number of seconds in which the server must be reached.
            answer_seconds: The number of seconds that an answer may take; None for any, as a server that learns is
                slow.
            clock: Tells seconds.

        Raises:
            ConfigError: If the address or the mode is none.
        """
        if inference_mode not in MODES:
            raise ConfigError(f"inference_mode is {inference_mode!r}, but must be 'local' or 'remote'")
        parts = urlsplit(address if "//" in address else f"//{address}")
        if parts.scheme not in ("", "http") or not parts.hostname or parts.port is None:
            raise ConfigError(f"the address of a policy server is {address!r}, but must be as 'localhost:9900'")
        self._link = _Link(parts.hostname, parts.port, token, connect_seconds, answer_seconds)
        self._acting = _LocalActing(self._link, update_interval, clock) if inference_mode == "local" else None

    def start_episode(self, episode_id: str | None = None, training_enabled: bool = True) -> str:
        """Begin an episode, and return its id.

        Args:
            episode_id: The id; None for a new one.
            training_enabled: Whether its steps are learned from.

        Raises:
            ConfigError: If there is no token.
            EpisodeError: If it is open already, or more are than may be.
            PolicyServerError: If the server can't be reached, or refuses the token.
        """
        given = uuid.uuid4().hex if episode_id is None else episode_id
        self._link.call({"method": "start_episode", "episode_id": given, "training_enabled": training_enabled})
        if self._acting is not None:
            self._acting.begin(given)
        return given

    def get_action(self, episode_id: str, observation: Any) -> Any:
        """Return an action for what is observed; of several agents, actions by agent for observations by agent.

        Raises:
            EpisodeError: If the episode is not open.
            SpaceError: If an observation is not of its space.
            PolicyServerError: If the server can't be reached.
        """
        if self._acting is not None:
            return self._acting.act(episode_id, observation)
        call = {"method": "get_action", "episode_id": episode_id, "observation": observation}
        return self._link.call(call)[-1]

    def log_action(self, episode_id: str, observation: Any, action: Any) -> None:
        """Say what was observed and done, whatever the policy would have done.

        Raises:
            DataError: If one of them can't be sent.
        """
        call = {"method": "log_action", "episode_id": episode_id, "observation": observation, "action": action}
        self._say(call)

    def log_returns(self, episode_id: str, reward: Any, info: Any = None) -> None:
        """Add a reward to what the last action has brought; what is never logged is 0.

        Raises:
            DataError: If the reward or the info can't be sent.
        """
        self._say({"method": "log_returns", "episode_id": episode_id, "reward": reward, "info": info})

    def end_episode(self, episode_id: str, observation: Any) -> None:
        """End an episode with what is observed last."""
        call = {"method": "end_episode", "episode_id": episode_id, "observation": observation}
        if self._acting is not None:
            self._acting.end(episode_id, call)
        else:
            self._link.call(call)

    def update_policy_weights(self) -> None:
        """Ask for newer parameters now, where actions are chosen here."""
        if self._acting is not None:
            self._acting.update()

    def close(self) -> None:
        """Close the connection of the calling thread."""
        self._link.close()

    def _say(self, call: dict[str, Any]) -> None:
        """Send a call that returns nothing: now, or with others."""
        for name in _GIVEN:
            if name in call:
                require_sendable(call[name], f"the {name} of {call['method']}() of the episode {call['episode_id']!r}")
        if self._acting is not None:
            self._acting.note(call)
        else:
            self._link.later(call)


class _LocalActing:
    """Acts by a copy of the policy, and keeps what is to be sent of each episode."""

    def __init__(self, link: _Link, interval: float, clock: Callable[[], float]) -> None:
        self._link, self._interval, self._clock = link, interval, clock
        self._lock = threading.Lock()
        self._policy: Any = None
        self._updated = 0.0
        self._calls: dict[str, list[dict[str, Any]]] = {}

    def begin(self, episode_id: str) -> None:
        """Begin an episode."""
        self._calls[episode_id] = []

    def act(self, episode_id: str, observation: Any) -> Any:
        """Choose an action, and note it."""
        calls = self._calls_of(episode_id)
        with self._lock:
            if self._policy is None or self._clock() - self._updated >= self._interval:
                self._update()
            action, outputs = self._policy.act(observation)
        calls.append(
            {
                "method": "log_action",
                "episode_id": episode_id,
                "observation": observation,
                "action": action,
                "outputs": outputs,
            }
        )
        return action

    def note(self, call: dict[str, Any]) -> None:
        """Note a call; send those of its episode if they are many."""
        calls = self._calls_of(call["episode_id"])
        calls.append(call)
        if len(calls) >= 2 * BATCH_STEPS:
            self._send(calls)

    def end(self, episode_id: str, call: dict[str, Any]) -> None:
        """Send what is left of an episode, and its end."""
        calls = self._calls_of(episode_id)
        del self._calls[episode_id]
        calls.append(call)
        self._send(calls)

    def update(self) -> None:
        """Ask for newer parameters."""
        with self._lock:
            self._update()

    def _send(self, calls: list[dict[str, Any]]) -> None:
        steps = sum(call["method"] == "log_action" for call in calls)
        _log.info("Sending batch of %d steps back to server.", steps)
        sent = list(calls)
        calls.clear()
        self._link.call(*sent)

    def _update(self) -> None:
        if self._policy is None:
            from kernel_rllib.serving.local_policy import LocalPolicy  # here: it imports all that learns

            self._policy = LocalPolicy(self._link.get("/v1/policy"))
        _log.info("Querying server for new policy weights.")
        told = self._link.get(f"/v1/weights?have={self._policy.version}")
        if told is not None:
            self._policy.update(told)
        self._updated = self._clock()

    def _calls_of(self, episode_id: str) -> list[dict[str, Any]]:
        found = self._calls.get(episode_id)
        if found is None:
            raise EpisodeError(
                f"no episode {episode_id!r} is open: begin it by start_episode(), and call nothing for it after "
                "end_episode()"
            )
        return found


class _Link:
    """Connections to a server, one for each thread."""

    def __init__(
        self, host: str, port: int, token: str | None, connect_seconds: float, answer_seconds: float | None
    ) -> None:
        self._host, self._port, self._token, self._connect_seconds = host, port, token, connect_seconds
        self._answer_seconds = answer_seconds
        self._of_thread = threading.local()
        self._later: dict[str, list[dict[str, Any]]] = {}

    def later(self, call: dict[str, Any]) -> None:
        """Send a call together with the next one of its episode."""
        self._later.setdefault(call["episode_id"], []).append(call)

    def call(self, *calls: dict[str, Any]) -> list[Any]:
        """Make calls of one episode, after those that wait to be sent with them; return what each returned."""
        waiting = self._later.pop(calls[0]["episode_id"], [])
        answer = self._answer("POST", "/v1/calls", packed({"calls": [*waiting, *calls]}, ARRAYS))
        return list(answer["results"])

    def get(self, path: str) -> Any:
        """Return what a path has; None where that is nothing new."""
        return self._answer("GET", path, None)

    def close(self) -> None:
        """Close the connection of this thread."""
        connection = self._of_thread.__dict__.pop("connection", None)
        if connection is not None:
            connection.close()

    def _answer(self, method: str, path: str, body: bytes | None) -> Any:
        connection = self._connection()
        try:
            status, kind, content = connection.request(method, path, body, self._of_thread.headers)
        except (OSError, ConnectionLostError) as error:
            self.close()
            raise PolicyServerError(
                f"the policy server at {self._host}:{self._port} is gone, or has not answered: "
                f"{type(error).__name__}: {error}. Its open episodes are lost: begin new ones once it runs again"
            ) from error
        if not connection.is_open:
            self.close()
        if status == 204:
            return None
        answer = unpacked(content, kind)
        if status == 200:
            return answer
        self._raise(status, answer)

    def _raise(self, status: int, answer: Any) -> None:
        error = answer.get("error") if isinstance(answer, dict) else None
        if not isinstance(error, dict):
            raise PolicyServerError(f"{self._host}:{self._port} answered {status}, which is not what a server says")
        kind, message = str(error.get("kind")), str(error.get("message"))
        if status == 401:
            raise PolicyServerError(
                f"the policy server at {self._host}:{self._port} refuses the token: {message}. Pass the one that it has"
            )
        found = getattr(errors, kind, None)
        raise (found if isinstance(found, type) and issubclass(found, RLlibError) else PolicyServerError)(message)

    def _connection(self) -> HttpConnection:
        connection: HttpConnection | None = getattr(self._of_thread, "connection", None)
        if connection is None:
            connection = self._connected()
            token = client_token(self._host, self._port, self._token)  # a server writes it before it listens
            self._of_thread.headers = {"Authorization": f"Bearer {token}", "Accept": ARRAYS, "Content-Type": ARRAYS}
            self._of_thread.connection = connection
        return connection

    def _connected(self) -> HttpConnection:
        until = time.monotonic() + self._connect_seconds
        pause = threading.Event()
        while True:
            try:
                return HttpConnection(self._host, self._port, self._answer_seconds)
            except OSError as error:
                if time.monotonic() >= until:
                    raise PolicyServerError(
                        f"no policy server can be reached at {self._host}:{self._port} within "
                        f"{self._connect_seconds:g} s: {error.strerror or error}. Start it, or correct the address"
                    ) from error
                pause.wait(0.1)
