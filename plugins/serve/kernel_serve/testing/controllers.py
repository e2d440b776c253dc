"""A controller in the session of a test, and what tests ask of it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from typing import Any

import kernel
from kernel_serve.control.controller import Controller
from kernel_serve.values import CONTROLLER_NAME, NAMESPACE, ApplicationSpec, ReplicaSet

SECONDS = 120.0


class TestedController:
    """Makes the session's controller, or finds the existing one. Its actors are of the given classes."""

    __test__ = False

    def __init__(self, replica_class: type | None = None, proxy_class: type | None = None) -> None:
        options: dict[str, Any] = {"lifetime": "detached", "max_restarts": -1, "max_task_retries": -1}
        actor = kernel.remote(
            name=CONTROLLER_NAME, namespace=NAMESPACE, get_if_exists=True, max_concurrency=10_000, **options
        )(Controller)
        self.handle = actor.remote(replica_class, proxy_class)

    def ask(self, method: str, *arguments: Any) -> Any:
        """Return what a method of the controller returns."""
        return kernel.get(getattr(self.handle, method).remote(*arguments), timeout=SECONDS)

    def deploy(self, *specs: ApplicationSpec) -> None:
        """Deploy applications, and return when they run."""
        self.ask("deploy", list(specs))
        for spec in specs:
            self.wait(spec.name, "RUNNING")

    def wait(self, name: str, *statuses: str) -> str:
        """Wait for a status of an application; return the message."""
        found = self.ask("wait_until", name, statuses, SECONDS)
        assert found["status"] in statuses, found
        return str(found["message"])

    def view(self, name: str = "app", deployment: str = "main") -> dict[str, Any]:
        """Return the status of a deployment, as users see it."""
        found: dict[str, Any] = self.ask("status")["applications"][name]["deployments"][deployment]
        return found

    def replica_set(self, key: str = "app#main") -> ReplicaSet:
        """Return what routers know of a deployment."""
        found: ReplicaSet = self.ask("watch", {key: None})[key][1]
        return found

    def numbers(self, key: str = "app#main") -> list[dict[str, Any]]:
        """Return the numbers of each replica that takes requests."""
        return [kernel.get(each.actor.numbers.remote(), timeout=SECONDS) for each in self.replica_set(key).replicas]

    def await_pids(self, count: int, without: int = 0, key: str = "app#main") -> set[int]:
        """Wait until `count` replicas answer, and the process `without` is not among them; return their processes."""

        found: set[int] = set()

        def answer() -> bool:
            found.clear()
            with contextlib.suppress(kernel.exceptions.ActorDiedError):
                found.update(each["pid"] for each in self.numbers(key))
            return len(found) == count and without not in found

        wait_until(answer, SECONDS, f"{count} replicas")
        return found

    def pid(self) -> int:
        """Return the process id of the controller."""
        return int(self.ask("status")["controller_pid"])

    def kill(self) -> None:
        """Kill the controller's process, and wait until another one has taken over."""
        pid = self.pid()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: self.pid() != pid, SECONDS, "another life of the controller")

    def end(self) -> None:
        """End Serve."""
        self.ask("shutdown")
        kernel.kill(self.handle)
        wait_until(lambda: not self.actors(), SECONDS, "the end of all actors of Serve")

    @staticmethod
    def actors(state: Iterable[str] = ("ALIVE", "STARTING", "PENDING_CREATION", "RESTARTING")) -> list[str]:
        """Return the names of the living actors of Serve."""
        rows = kernel.actors()
        return [row["name"] for row in rows if row["namespace"] == NAMESPACE and row["state"] in tuple(state)]


def wait_until(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Return as soon as `condition()` is true. Raises AssertionError after `seconds`: `what` did not happen."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        time.sleep(0.01)
