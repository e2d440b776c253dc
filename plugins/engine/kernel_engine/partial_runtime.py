"""Defaults for a runtime that does not offer everything: it refuses missing operations by name.

    class ThreadsRuntime(PartialRuntime):
        engine = "threads"

A runtime overrides the operations that it offers. It must define tasks (`submit`) and objects itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from kernel.runtime.execution_context import NO_EXECUTION, current_execution
from kernel.runtime.worker_info import current_worker
from kernel_spec.errors import OptionError, ProtocolError
from kernel_spec.resources import CPU

if TYPE_CHECKING:
    import asyncio

    from kernel.runtime.definitions import ActorOptions, CallOptions, ClassDefinition, Shape
    from kernel.runtime.object_entry import ObjectEntry
    from kernel.runtime.object_ref import ObjectRef
    from kernel.runtime.streams import ObjectStream
    from kernel_spec.engines import SessionOptions
    from kernel_spec.ids import ActorId

NO_MATTER = frozenset({"namespace", "log_to_driver", "logging_level", "object_id_seed", "show_failures", "local_mode"})
"""Options of a session that every engine may ignore: they change only what is shown, or hold in any engine."""


def refuse_options(engine: str, options: SessionOptions, honoured: Collection[str]) -> None:
    """Raise OptionError for an option of the session that was given, and that the engine does not honour."""
    given = {name: getattr(options, name) for name in options.__dataclass_fields__ if name != "plugins"}  # type: ignore[attr-defined]
    for name, value in {**given, **options.plugins}.items():
        if value not in (None, (), {}) and name not in honoured and name not in NO_MATTER:
            takes = f"; it takes {', '.join(sorted(honoured))}" if honoured else ""
            raise OptionError(f"the engine {engine!r} can't honour {name}={value!r}{takes}")


class PartialRuntime:
    """Refuses actors, streams, placement groups and cancelling. See `kernel.runtime.interface`."""

    engine = "?"
    """The engine's name, for the refusals."""
    local_mode = False

    def refuse(self, what: str) -> NoReturn:
        """Raise the error that says what this engine does not have."""
        raise OptionError(f"the engine {self.engine!r} has no {what}; choose another one by KERNEL_ENGINE")

    def refuse_wishes(self, subject: str, asked: Shape | ActorOptions, **wishes: Any) -> None:
        """Raise OptionError if a function or class asks for resources other than CPUs, a strategy or an environment.

        It is also raised for the first of `wishes`, by name, that is not empty. `subject` names the function or class.
        """
        strategy = asked.strategy if asked.strategy != "DEFAULT" else ""
        wishes = {"scheduling_strategy": strategy, "runtime_env": asked.environment, **wishes}
        wishes["resources"] = sorted(set(asked.wanted) - {CPU})
        for name, value in wishes.items():
            if value:
                raise OptionError(
                    f"{subject} asks for {name}={value!r}, which the engine {self.engine!r} does not offer"
                )

    # -- tasks and actors ------------------------------------------------------------------------------------------

    def cancel(self, ref: ObjectRef, force: bool, recursive: bool) -> None:
        """Raise OptionError: no task can be cancelled."""
        self.refuse("way to cancel a task")

    def is_cancelled(self, task: bytes) -> bool:
        """Return False, since no task can be cancelled."""
        return False

    def create_actor(
        self, definition: ClassDefinition, options: ActorOptions, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[ActorId, ObjectRef | None, Mapping[str, Any] | None]:
        """Raise OptionError: there are no actors."""
        self.refuse("actors")

    def call_actor(
        self, actor: ActorId, method: str, options: CallOptions, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Raise OptionError: there are no actors."""
        self.refuse("actors")

    def kill_actor(self, actor: ActorId, no_restart: bool) -> None:
        """Raise OptionError: there are no actors."""
        self.refuse("actors")

    def find_actor(self, name: str, namespace: str | None) -> Mapping[str, Any] | None:
        """Return None, since there are no actors."""
        return None

    def list_named_actors(self, all_namespaces: bool) -> list[dict[str, str]]:
        """Return an empty list, since there are no actors."""
        return []

    def check_pending_calls(self, actor: ActorId, limit: int) -> None:
        """Do nothing, since there are no actors."""

    def watch_actor(self, actor: ActorId, name: str = "") -> None:
        """Do nothing, since there are no actors."""

    def current_actor(self) -> bytes:
        """Return the id of the actor that the calling code runs in, b"" outside of actors."""
        return current_worker().actor

    def describe_current_actor(self) -> Mapping[str, Any] | None:
        """Return the description of the actor that the calling code runs in, None outside of actors."""
        return current_worker().description

    def group_ready(self, group: str, value: Any) -> ObjectRef:
        """Raise OptionError: there are no placement groups."""
        self.refuse("placement groups")

    # -- streams ---------------------------------------------------------------------------------------------------

    def next_item(self, stream: ObjectStream, timeout: float | None) -> ObjectRef:
        """Raise OptionError: there are no generator tasks."""
        self.refuse("generator tasks")

    def take_item(self, stream: ObjectStream) -> tuple[ObjectRef | None, bool]:
        """Raise OptionError: there are no generator tasks."""
        self.refuse("generator tasks")

    def item_arrival(self, stream: ObjectStream, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        """Raise OptionError: there are no generator tasks."""
        self.refuse("generator tasks")

    def next_arrival(self, stream: ObjectStream) -> ObjectEntry:
        """Raise OptionError: there are no generator tasks."""
        self.refuse("generator tasks")

    def close_stream(self, stream: ObjectStream) -> None:
        """Raise OptionError: there are no generator tasks."""
        self.refuse("generator tasks")

    # -- about the session -----------------------------------------------------------------------------------------

    @property
    def is_driver(self) -> bool:
        """Whether the caller is the program itself, and no task or actor of it."""
        return current_execution.get() is NO_EXECUTION and not current_worker().actor

    def answers(self) -> Mapping[str, Callable[..., Any]]:
        """Return the functions that answer `query`, by the names of its methods."""
        return {}

    def query(self, method: str, *arguments: Any) -> Any:
        """Return what the function `method` of `answers` returns.

        Raises OptionError for a question about placement groups, ProtocolError for any other that has no answer.
        """
        answer = self.answers().get(method)
        if answer is not None:
            return answer(*arguments)
        if "placement_group" in method:
            self.refuse("placement groups")
        raise ProtocolError(f"the engine {self.engine!r} does not answer {method!r}")

    def explain(self, ref: ObjectRef) -> str:
        """Return in words whether the object is there."""
        return "it is there" if ref.is_ready() else "the task that makes it has not ended"

    def trace_span(self, name: str, begun: float, ended: float, extra: dict[str, Any]) -> None:
        """Do nothing, since there is no timeline."""

    def answer_promptly(self) -> None:
        """Do nothing, since no other process asks."""
