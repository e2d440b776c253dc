"""A running experiment over HTTP: list, show, add and stop trials.

Every request needs the session's token, as `Authorization: Bearer TOKEN`. The server listens on loopback.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import secrets
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from kernel_runs.loggers.encoding import to_json
from kernel_runs.storage.places import results_directory
from kernel_tune.errors import TuneError
from kernel_tune.trial import Trial

_log = logging.getLogger("kernel.tune")

DEFAULT_PORT = 4321
TOKEN_VARIABLE = "KERNEL_TOKEN"
_LARGEST_BODY = 1 << 20


def token_file(port: int) -> str:
    """Return the file in which programs of the same user find the token of the server on a port of this machine."""
    return os.path.join(results_directory(), f".server_{port}.token")


class Experimenter(Protocol):
    """What the server needs of a running experiment. The methods may be called in any thread."""

    def trials(self) -> list[Trial]:
        """Return all trials."""

    def stop_trial(self, trial_id: str) -> None:
        """Stop a trial soon."""

    def stop_all(self) -> None:
        """Stop all trials soon."""

    def add_trials(self, name: str, specification: dict[str, Any]) -> list[str]:
        """Run the trials of a specification as well. Return their ids. Raises TuneError for an invalid one."""


class TuneServer:
    """Serves from `start` to `stop`. `port` 0 takes any free one. Raises TuneError if it can't listen there."""

    def __init__(
        self, experimenter: Experimenter, token: str, port: int = DEFAULT_PORT, host: str = "127.0.0.1"
    ) -> None:
        handler = type("Handler", (_Handler,), {"experimenter": experimenter, "token": token})
        try:
            self._server = ThreadingHTTPServer((host, port), handler)
        except OSError as error:
            raise TuneError(
                f"the tune server can't listen on {host}:{port}: {error.strerror}; give it another port (server_port=0 "
                "takes any)"
            ) from error
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="tune server", daemon=True)

    @property
    def address(self) -> str:
        """The address on which it listens: `127.0.0.1:4321`."""
        host, port = self._server.server_address[:2]
        return f"{host!s}:{port}"

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Begin to serve, in a thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def make_token() -> str:
    """Return the token of a server: the session's if the environment has it, else a new one."""
    return os.environ.get(TOKEN_VARIABLE) or secrets.token_hex(16)


def write_token(path: str, token: str) -> None:
    """Write a token into a file that only the same user can read."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(token)


class _Handler(BaseHTTPRequestHandler):
    experimenter: Experimenter
    token: str
    timeout = 30
    server_version = "kernel-tune"
    sys_version = ""

    def do_GET(self) -> None:
        """Answer `/trials` with all trials, `/trials/ID` with one."""
        if not self._is_allowed():
            return
        parts = self._parts()
        if parts == ["trials"]:
            self._answer(200, {"trials": [describe(trial) for trial in self.experimenter.trials()]})
        elif len(parts) == 2 and parts[0] == "trials":
            trial = self._trial(parts[1])
            if trial is not None:
                self._answer(200, {"trial": describe(trial)})
        else:
            self._refuse(404, f"nothing is at {self.path}: there are /trials and /trials/ID")

    def do_PUT(self) -> None:
        """Stop a trial at `/trials/ID`, all trials at `/trials` or `/stop`."""
        if not self._is_allowed():
            return
        self._body()
        parts = self._parts()
        if parts in (["trials"], ["stop"]):
            self.experimenter.stop_all()
            self._answer(200, {"trials": [describe(trial) for trial in self.experimenter.trials()]})
        elif len(parts) == 2 and parts[0] == "trials":
            trial = self._trial(parts[1])
            if trial is not None:
                self.experimenter.stop_trial(trial.trial_id)
                self._answer(200, {"trial": describe(trial)})
        else:
            self._refuse(404, f"nothing can be stopped at {self.path}: there are /trials/ID and /stop")

    def do_POST(self) -> None:
        """Add trials at `/trials`: the body has `name`, and `spec` as in `tune.run_experiments`."""
        if not self._is_allowed():
            return
        body = self._body()
        if body is None:
            return
        if self._parts() == ["stop"]:
            self.experimenter.stop_all()
            self._answer(200, {})
            return
        try:
            ids = self.experimenter.add_trials(str(body["name"]), dict(body["spec"]))
        except (KeyError, TypeError, ValueError, TuneError) as error:
            self._refuse(400, f"no trial was added: {error}; a name and a spec such as {{'run': ..., 'config': ...}}")
            return
        self._answer(200, {"trial_ids": ids})

    # -- requests and answers --------------------------------------------------------------------------------------

    def _is_allowed(self) -> bool:
        scheme, _, given = self.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), self.token.encode()):
            return True
        self._refuse(
            401,
            "a token is needed, as the header 'Authorization: Bearer TOKEN' or TuneClient(..., token=TOKEN): that of "
            "the session (KERNEL_TOKEN), which is in the experiment's directory as server.token",
        )
        return False

    def _parts(self) -> list[str]:
        return [part for part in urlsplit(self.path).path.split("/") if part]

    def _trial(self, trial_id: str) -> Trial | None:
        for trial in self.experimenter.trials():
            if trial.trial_id == trial_id:
                return trial
        self._refuse(404, f"there is no trial {trial_id}")
        return None

    def _body(self) -> dict[str, Any] | None:
        """Return the body, which is JSON or a form. If it is neither, answer with an error and return None."""
        try:
            length = int(self.headers.get("Content-Length") or 0)
        except ValueError:
            length = -1
        if not 0 <= length <= _LARGEST_BODY:
            self._refuse(413, f"a request has a Content-Length of at most {_LARGEST_BODY} bytes")
            return None
        text = self.rfile.read(length).decode("utf-8", "replace")
        try:
            if "json" in self.headers.get("Content-Type", "") or text.lstrip().startswith("{"):
                value = json.loads(text or "{}")
                return value if isinstance(value, dict) else {}
            form = {key: values[-1] for key, values in parse_qs(text).items()}
            return {**form, **({"spec": json.loads(form["spec"])} if "spec" in form else {})}
        except ValueError as error:
            self._refuse(400, f"the body can't be read: {error}")
            return None

    def _answer(self, status: int, value: dict[str, Any]) -> None:
        data = to_json(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _refuse(self, status: int, reason: str) -> None:
        self.close_connection = True
        self._answer(status, {"error": reason})

    def log_message(self, format: str, *args: Any) -> None:
        """Log at level DEBUG, without headers: they include the token."""
        _log.debug("tune server: " + format, *args)


def describe(trial: Trial) -> dict[str, Any]:
    """Return the description of a trial for clients."""
    return {
        "id": trial.trial_id,
        "name": str(trial),
        "trainable_name": trial.trainable_name,
        "experiment_tag": trial.experiment_tag,
        "config": trial.config,
        "status": str(trial.status),
        "result": trial.last_result,
        "logdir": trial.logdir,
        "error_file": trial.error_file,
    }
