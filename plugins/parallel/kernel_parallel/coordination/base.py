"""The common base of locks and their like: a name, and questions to the registry."""

from __future__ import annotations

from typing import Any, TypeVar

import kernel
from kernel_parallel.coordination.errors import CoordinationError
from kernel_parallel.coordination.registry import registry

Self = TypeVar("Self", bound="Named")


class Named:
    """Something that all processes of a namespace know by its name. It can be passed on, or made again by name."""

    kind = "thing"

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise CoordinationError(f"a {self.kind} needs a name, by which others find it, and not {name!r}")
        self.name = name
        self._registry: Any = None
        self._job = ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_registry": None, "_job": ""}

    @property
    def _key(self) -> str:
        """The name in messages and in the registry."""
        return f"{self.kind} {self.name!r}"

    def _call(self, method: str, *arguments: Any) -> Any:
        """Return the reference of a call of the registry."""
        job = kernel.get_runtime_context().get_job_id() if kernel.is_initialized() else None
        if self._registry is None or self._job != job:
            self._registry = registry()
            self._job = kernel.get_runtime_context().get_job_id()
        return getattr(self._registry, method).remote(*arguments)

    def _ask(self, method: str, *arguments: Any) -> Any:
        """Return what the registry answers."""
        return kernel.get(self._call(method, *arguments))


def check_timeout(timeout: float | None) -> float | None:
    """Return a timeout in seconds, None for no limit (which -1 means too). Raises CoordinationError for others."""
    if timeout is None or timeout == -1:
        return None
    if not isinstance(timeout, int | float) or timeout < 0:
        raise CoordinationError(f"a timeout is a number of seconds from 0 on, or None, and not {timeout!r}")
    return float(timeout)
