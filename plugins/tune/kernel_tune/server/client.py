"""The client of a tune server."""

from __future__ import annotations

import contextlib
import json
import os
import urllib.error
import urllib.request
from typing import Any

from kernel_tune.errors import TuneError
from kernel_tune.server.service import DEFAULT_PORT, TOKEN_VARIABLE, token_file

_HERE = ("127.0.0.1", "localhost")


class TuneClient:
    """Controls a running experiment: `TuneClient("127.0.0.1", 4321).get_all_trials()`.

    `tune_address` is a host, `port_forward` the port of the server or of a tunnel to it (`ssh -L 4321:localhost:4321
    HOST`). `token` is the server's. By default it is the one of the session in the environment (KERNEL_TOKEN), or for a
    server of this machine and user the one that it has written into the directory of results. The experiment's
    directory has it too, in `server.token`. Methods raise TuneError if the server refuses or does not answer.
    """

    def __init__(
        self, tune_address: str = "127.0.0.1", port_forward: int = DEFAULT_PORT, token: str | None = None
    ) -> None:
        host, _, port = tune_address.removeprefix("http://").partition(":")
        self._root = f"http://{host}:{port or port_forward}"
        self._token = token or os.environ.get(TOKEN_VARIABLE, "")
        self._file = token_file(int(port or port_forward)) if host in _HERE else ""

    def get_all_trials(self, timeout: float | None = None) -> list[dict[str, Any]]:
        """Return descriptions of all trials. `timeout` is in seconds, 30 by default."""
        trials: list[dict[str, Any]] = self._ask("GET", "/trials", timeout=timeout)["trials"]
        return trials

    def get_trial(self, trial_id: str, timeout: float | None = None) -> dict[str, Any]:
        """Return the description of a trial. Raises TuneError if there is no such trial."""
        trial: dict[str, Any] = self._ask("GET", f"/trials/{trial_id}", timeout=timeout)["trial"]
        return trial

    def add_trial(self, name: str, specification: dict[str, Any]) -> list[str]:
        """Run the trials of a specification as well. Return their ids."""
        ids: list[str] = self._ask("POST", "/trials", {"name": name, "spec": specification})["trial_ids"]
        return ids

    def stop_trial(self, trial_id: str) -> dict[str, Any]:
        """Stop a trial when its present step is done. Return its description."""
        trial: dict[str, Any] = self._ask("PUT", f"/trials/{trial_id}")["trial"]
        return trial

    def stop_experiment(self) -> None:
        """Stop all trials."""
        self._ask("PUT", "/stop")

    def _found(self) -> str:
        """Return the token of the present server of this machine, which may have started after this client."""
        with contextlib.suppress(OSError), open(self._file, encoding="utf-8") as file:
            return file.read()
        return ""

    def _ask(self, method: str, path: str, body: Any = None, timeout: float | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._root + path, data, method=method)
        request.add_header("Authorization", f"Bearer {self._token or self._found()}")
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=timeout or 30.0) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            reason = json.loads(error.read() or b"{}").get("error", error.reason)
            raise TuneError(f"the tune server at {self._root} refused {method} {path}: {reason}") from None
        except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
            raise TuneError(
                f"no tune server answers at {self._root} ({getattr(error, 'reason', error)}): run with with_server=True"
            ) from error
