"""Replicas and proxies that serve nothing, for tests of the controller: they do as their `user_config` says.

Words of that: `raises` (text: the constructor raises it), `raises_until` (path: it does until that file is there),
`start_seconds`, `sick` (path: checks fail while that file is there), `refuses` (`reconfigure` raises), `log` (path of a
file that gets a line for each thing that happens).
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
        """Be made."""
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
        """Raise when it is told so."""
        if "sick" in self._words and os.path.exists(self._words["sick"]):
            raise RuntimeError("I am sick")

    async def reconfigure(self, settings: DeploymentSettings, standing: Standing) -> None:
        """Take other words."""
        self._log("reconfigure")
        if (settings.user_config or {}).get("refuses"):
            raise ValueError("not these")
        self._words, self._standing = settings.user_config or {}, standing

    async def drain(self, wait_seconds: float, timeout_seconds: float) -> int:
        """There is nothing to wait for."""
        self._log("drain")
        return 0

    async def numbers(self) -> dict[str, Any]:
        """Return what a test may want to know."""
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
        """Say that it listens."""
        if self._address.endswith(":1"):
            raise PermissionError("the proxy can't listen on 127.0.0.1:1")
        return Listening(self._address, self._grpc_address)

    async def stand_by(self) -> None:
        """Never return."""
        await asyncio.Event().wait()

    async def check_health(self) -> None:
        """It is well."""

    async def await_news(self, versions: Mapping[str, str]) -> None:
        """It has nothing to learn."""

    async def step_aside(self, moved: bool = False) -> None:
        """It listens nowhere."""

    async def drain(self, patience: float = 0.0, moved: bool = False) -> None:
        """There is nothing to wait for."""
