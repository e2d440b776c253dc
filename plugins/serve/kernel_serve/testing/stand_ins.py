"""Replicas and proxies that serve nothing, for tests of the controller: their `user_config` says what they do.

Its keys: `raises` (text: the constructor raises it), `raises_until` (path: the constructor raises until that file
exists), `start_seconds`, `sick` (path: checks fail while that file exists), `refuses` (`reconfigure` raises), `log`
(path of a file that gets a line for each event).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kernel
from kernel_serve.settings import DeploymentSettings, GRPCOptions, HTTPOptions
from kernel_serve.values import DeploymentSpec, Listening, Standing


class StandInReplica:
    """Has the methods of `ReplicaActor`."""

    def __init__(self, replica_id: str, spec: DeploymentSpec, route_prefix: str | None, standing: Standing) -> None:
        self._id = replica_id
        self._standing = standing
        self._spec = spec
        self._words: dict[str, Any] = spec.settings.user_config or {}
        self._started: asyncio.Future[tuple[str, str]] | None = None

    async def start(self) -> tuple[str, str]:
        """Start, as the configuration says."""
        if self._started is None:
            self._started = asyncio.ensure_future(self._start())
        return await asyncio.shield(self._started)

    async def _start(self) -> tuple[str, str]:
        words = self._words
        self._log("start")
        await asyncio.sleep(words.get("start_seconds", 0.0))
        if "raises" in words or not os.path.exists(words.get("raises_until", "/")):
            users = compile("def construct(text):\n    raise ValueError(text)", "/home/me/model.py", "exec")
            exec(users, names := {})  # type: ignore[var-annotated]
            names["construct"](words.get("raises", "not yet"))
        return f"socket of {self._id}", kernel.get_runtime_context().get_node_id()

    async def stand_by(self) -> None:
        """Never return."""
        await asyncio.Event().wait()

    async def check_health(self) -> None:
        """Raise an error if the configuration says so."""
        if "sick" in self._words and os.path.exists(self._words["sick"]):
            raise RuntimeError("I am sick")

    async def reconfigure(self, settings: DeploymentSettings, standing: Standing) -> None:
        """Take another configuration."""
        self._log("reconfigure")
        if (settings.user_config or {}).get("refuses"):
            raise ValueError("not these")
        self._words, self._standing = settings.user_config or {}, standing

    async def drain(self, wait_seconds: float, timeout_seconds: float) -> int:
        """Return at once: there are no requests."""
        self._log("drain")
        return 0

    async def numbers(self) -> dict[str, Any]:
        """Return numbers for tests."""
        return {"pid": os.getpid(), "words": self._words, "version": self._spec.version, "standing": self._standing}

    def _log(self, what: str) -> None:
        if path := self._words.get("log"):
            with Path(path).open("a") as file:
                file.write(f"{what} {self._spec.name} {self._spec.version} {os.getpid()}\n")


class StandInProxy:
    """Has the methods of `ProxyActor`. It can't listen on port 1."""

    def __init__(
        self,
        index: int,
        http: HTTPOptions,
        grpc: GRPCOptions,
        shares_grpc: bool = False,
        beside: tuple[str, ...] = (),
        ports_before: tuple[int, ...] = (),
    ) -> None:
        self._address = f"{http.host}:{http.port + index}"
        self._grpc_address = f"{http.host}:{grpc.port}" if grpc.grpc_servicer_functions else ""

    async def start(self) -> Listening:
        """Return an address, without listening."""
        if self._address.endswith(":1"):
            raise PermissionError("the proxy can't listen on 127.0.0.1:1")
        return Listening(self._address, self._grpc_address)

    async def stand_by(self) -> None:
        """Never return."""
        await asyncio.Event().wait()

    async def check_health(self) -> None:
        """Return: it is healthy."""

    async def await_news(self, versions: Mapping[str, str]) -> None:
        """Return: it follows no topics."""

    async def step_aside(self, moved: bool = False) -> None:
        """Return: it does not listen."""

    async def drain(self, patience: float = 0.0, moved: bool = False) -> None:
        """Return at once: there are no requests."""
