"""Credentials that a program prints, as kubeconfig's `exec` names one: the logins of clouds."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import CREDENTIALS, INVALID

EXEC_SECONDS = 60.0
EARLY_SECONDS = 60.0
"""Seconds before its end at which a token is replaced."""
_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


class ExecCredentials:
    """Runs the program that `said` (the kubeconfig's `exec`) names, and keeps what it prints while that is good.

    `cluster` is told to the program if it asks for it. `clock` returns seconds since the epoch. Raises
    NodeProviderError for a program of another version, one that fails, or one that prints no credentials.
    """

    def __init__(
        self, said: Mapping[str, Any], cluster: Mapping[str, Any], where: str, clock: Callable[[], float]
    ) -> None:
        self._said = said
        self._where = where
        self._clock = clock
        self._cluster = cluster
        self._status: Mapping[str, Any] = {}
        self._good_until = 0.0
        self._version = str(said.get("apiVersion", ""))
        if self._version not in _VERSIONS:
            raise NodeProviderError(
                f"{where} runs a program of version {self._version!r} for its credentials; known are "
                f"{' and '.join(_VERSIONS)}",
                code=INVALID,
            )
        if said.get("interactiveMode") == "Always":
            raise NodeProviderError(
                f"{where} runs {said.get('command')!r}, which wants to ask somebody (interactiveMode: Always); "
                "an autoscaler has nobody to ask: use a service account",
                code=CREDENTIALS,
            )

    def token(self) -> str:
        """Return the token, "" if the program gives a certificate alone."""
        return str(self._current().get("token") or "")

    def certificate(self) -> tuple[str, str]:
        """Return the certificate and the key as PEM, both "" if the program gives none."""
        status = self._current()
        return str(status.get("clientCertificateData") or ""), str(status.get("clientKeyData") or "")

    def _current(self) -> Mapping[str, Any]:
        if not self._status or self._clock() >= self._good_until:
            self._status = self._run()
            self._good_until = _end_of(self._status) - EARLY_SECONDS
        return self._status

    def _run(self) -> Mapping[str, Any]:
        command = [str(self._said.get("command", "")), *map(str, self._said.get("args") or ())]
        info: dict[str, Any] = {"kind": "ExecCredential", "apiVersion": self._version, "spec": {"interactive": False}}
        if self._said.get("provideClusterInfo"):
            info["spec"]["cluster"] = dict(self._cluster)
        own = {str(one["name"]): str(one["value"]) for one in self._said.get("env") or ()}
        environment = {**os.environ, **own, "KUBERNETES_EXEC_INFO": json.dumps(info)}
        try:
            done = subprocess.run(
                command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=EXEC_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            hint = self._said.get("installHint") or "it must be on the PATH of the head"
            raise NodeProviderError(
                f"{self._where} runs {command[0]!r} for its credentials, which failed: {error}; {hint}",
                code=CREDENTIALS,
            ) from None
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
            raise NodeProviderError(
                f"{command[0]!r}, which {self._where} runs for its credentials, ended with {done.returncode}: {last}",
                code=CREDENTIALS,
            )
        return self._status_in(done.stdout, command[0])

    def _status_in(self, text: str, program: str) -> Mapping[str, Any]:
        try:
            status = json.loads(text)["status"]
            if not isinstance(status, dict) or not (status.get("token") or status.get("clientCertificateData")):
                raise ValueError("it has neither a token nor a certificate")
        except (ValueError, KeyError, TypeError) as error:
            raise NodeProviderError(
                f"{program!r}, which {self._where} runs for its credentials, printed no ExecCredential: {error}",
                code=CREDENTIALS,
            ) from None
        return status


def _end_of(status: Mapping[str, Any]) -> float:
    said = status.get("expirationTimestamp")
    if not said:
        return float("inf")
    return datetime.datetime.fromisoformat(str(said).replace("Z", "+00:00")).timestamp()
