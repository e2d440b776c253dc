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
    """Asks and tells a running experiment: `TuneClient("127.0.0.1", 4321).get_all_trials()`.

    `tune_address` is a host, `port_forward` the port of the server or of a tunnel to it
    (`ssh -L 4321:localhost:4321 HOST`). `token` is the server's: by default the one of the session in the
    environment (KERNEL_TOKEN), or for a server of this machine and user the one that it has left in the directory of
    results; the experiment's directory has it in `server.token`, too.
    """

    def __init__(
        self, tune_address: str = "127.0.0.1", port_forward: int = DEFAULT_PORT, token: str | None = None
    ) -> None:
        host, _, port = tune_address.removeprefix("http://").partition(":")
        self._root = f"http://{host}:{port or port_forward}"
        self._token = token or os.environ.get(TOKEN_VARIABLE, "")
        self._file = token_file(int(port or port_forward)) if host in _HERE else ""

    def get_all_trials(self, timeout: float | None = None) -> list[dict[str, Any]]:
        """Return what is known of all trials."""
        trials: list[dict[str, Any]] = self._ask("GET", "/trials", timeout=timeout)["trials"]
        return trials

    def get_trial(self, trial_id: str, timeout: float | None = None) -> dict[str, Any]:
        """Return what is known of a trial. Raises TuneError if there is none."""
        trial: dict[str, Any] = self._ask("GET", f"/trials/{trial_id}", timeout=timeout)["trial"]
        return trial

    def add_trial(self, name: str, specification: dict[str, Any]) -> list[str]:
        """Have the trials of a specification run as well; return their ids."""
        ids: list[str] = self._ask("POST", "/trials", {"name": name, "spec": specification})["trial_ids"]
        return ids

    def stop_trial(self, trial_id: str) -> dict[str, Any]:
        """Have a trial stopped when its present step is done."""
        trial: dict[str, Any] = self._ask("PUT", f"/trials/{trial_id}")["trial"]
        return trial

    def stop_experiment(self) -> None:
        """Have all trials stopped."""
        self._ask("PUT", "/stop")

    def _found(self) -> str:
        """Return the token of the server that there is now: it may have begun after this was made."""
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
