"""Stop a worker at a `breakpoint()`, where it waits for a debugger that attaches by `kernel debug`.

No port is opened for it: requests come through the head like all others, whose users have proved the session's token.
"""

from __future__ import annotations

import builtins
import importlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from kernel.logs import Logger
from kernel.runtime import critical_sections
from kernel.runtime.execution_context import current_execution
from kernel.runtime.remote_traceback import user_traceback
from kernel.runtime.worker_info import worker_info
from kernel_engine.failures.task_error import record_of
from kernel_processes.protocol.debug_conversation import ANSWER, ATTACH, DETACH, ID_DIGITS
from kernel_processes.runtime.process import Process
from kernel_processes.worker.import_watch import when_imported
from kernel_spec.errors import NoInputError

if TYPE_CHECKING:
    from kernel_processes.worker.debug_session import DebugSession

POST_MORTEM = "KERNEL_POST_MORTEM"
"""Environment variable: with 1, a task or method that fails waits for a debugger where it raised."""

_NO = ("", "0", "false", "no", "off")
_log = Logger("kernel")


class Breakpoints:
    """Holds the waiting breakpoints by id. `name_of_actor()` is the class of the actor that this process is, if any."""

    def __init__(self, process: Process, name_of_actor: Callable[[], str]) -> None:
        self._process = process
        self._name_of_actor = name_of_actor
        self._sessions: dict[str, DebugSession] = {}
        self._input = builtins.input
        self._stdin = sys.stdin
        self._here: dict[int, DebugSession] = {}
        """The debugger in whose hands a thread is."""
        process.methods["debug"] = self._on_debug

    def install(self) -> None:
        """Let `breakpoint()`, `pdb.set_trace()` and `input()` in this process mean what they do in a worker."""
        sys.breakpointhook = self._breakpointhook
        builtins.input = self._refuse_input
        when_imported("pdb", self._adapt_pdb)

    # -- stopping (in the thread that is debugged) -----------------------------------------------------------------

    def _breakpointhook(self, *args: Any, **kwargs: Any) -> Any:
        if os.environ.get("PYTHONBREAKPOINT") not in (None, "", "pdb.set_trace"):
            return sys.__breakpointhook__(*args, **kwargs)  # The user has chosen no debugger, or another one.
        return self._stop(sys._getframe(1), kwargs.get("header"))

    def _set_trace(self, *args: Any, header: str | None = None, **others: Any) -> None:
        """Stand in for `pdb.set_trace`."""
        self._stop(sys._getframe(1), header)

    def _stop(self, frame: FrameType, header: str | None) -> None:
        if critical_sections.holds_lock():
            _log.warning("a breakpoint was passed by: amid the handling of messages a process can't wait")
            return
        from kernel_processes.worker.remote_debugger import RemotePdb

        session = self._here.get(threading.get_ident())
        if session is None or session.talk.ended:
            session = self._session("")
            session.stop_at = RemotePdb(session).stop_at
        session.header = f"{header}\n" if header else ""
        session.stop_at(frame)

    @critical_sections.calls_user_code
    def post_mortem(self, error: BaseException) -> BaseException:
        """Wait for a debugger where `error` was raised, if that is wanted; return the error of the call.

        That is the cancellation, if the call was cancelled meanwhile.
        """
        if os.environ.get(POST_MORTEM, "").lower() in _NO or not _is_to_be_looked_at(error):
            return error
        try:
            self._look_at(error)
        except BaseException as end:
            return error if isinstance(end, Exception) else end
        return error

    def _look_at(self, error: BaseException) -> None:
        traceback = user_traceback(error.__traceback__)
        if traceback is None:
            return
        from kernel_processes.worker.remote_debugger import RemotePdb

        session = self._session(f"{type(error).__name__}: {error}"[:500])
        session.header = f"{session.row['error']}\n"
        RemotePdb(session).look_at(traceback)

    def _session(self, error: str) -> DebugSession:
        from kernel_processes.worker.debug_session import DebugSession

        execution, thread = current_execution.get(), threading.get_ident()
        row = {
            "id": os.urandom(ID_DIGITS // 2).hex(),
            "task": bytes(execution.task),
            "name": f"{execution.name}()" if execution.name else f"thread {threading.current_thread().name}",
            "actor": self._name_of_actor(),
            "actor_id": bytes(worker_info.actor or b""),
            "host": socket.gethostname(),
            "error": error,
            "since": time.time(),
        }
        session = DebugSession(row, thread, self._process, self._tell)
        with self._process.lock:
            self._sessions[session.id] = session
            self._here[thread] = session
        return session

    def _tell(self, session: DebugSession) -> None:
        """Tell the head where a session stands now."""
        process, talk = self._process, session.talk
        with process.lock:
            if talk.ended:
                self._forget(session)
            if process.agent is None or process.agent.closed:
                return
            row = {**session.row, "state": talk.state, "debugger": talk.debugger}
            process.request(process.agent, "note_breakpoint", row)
        process.flush()

    # -- the head asks (under the lock) ----------------------------------------------------------------------------

    def _on_debug(self, id: str, debugger: bytes, verb: str, number: int, text: str) -> tuple[Any, ...]:
        """Carry out a command of the attached user; return what is new, or the reason why there is nothing."""
        session = self._sessions.get(id)
        if session is None:
            return ("it waits no more",)
        talk = session.talk
        if verb == ATTACH:
            if not talk.attach(debugger):
                return ("another user is attached to it",)
            self._tell(session)
        elif talk.debugger != debugger:
            return ("this terminal is not attached to it any more",)
        elif verb == DETACH:
            talk.detach(debugger)
            self._tell(session)
        elif verb == ANSWER:
            session.answer(debugger, number, text)
        reply = tuple(talk.reply())
        if talk.ended:
            talk.detach(debugger)
            self._forget(session)
        return reply

    def _forget(self, session: DebugSession) -> None:
        """Forget a session that is over, as soon as the attached user has got its end."""
        if self._here.get(session.thread) is session:
            del self._here[session.thread]
        if not session.talk.debugger:
            self._sessions.pop(session.id, None)

    def cancelled(self, task: bytes) -> None:
        """A call is cancelled: it waits for no debugger any more."""
        for session in list(self._sessions.values()):
            if session.row["task"] == task:
                session.let_go()

    # -- input and pdb ---------------------------------------------------------------------------------------------

    def _refuse_input(self, prompt: object = "", /) -> str:
        session = self._here.get(threading.get_ident())
        if session is not None and session.has_control:
            session.write(str(prompt))
            return session.readline().rstrip("\n")
        if sys.stdin is not self._stdin:
            return self._input(prompt)
        where = current_execution.get().name
        raise NoInputError(
            f"input() was called in {f'{where}()' if where else 'a worker'}, in a process that has no terminal. Pass "
            "what it needs as an argument; or run the program with kernel.init(local_mode=True), where tasks run in "
            "the program itself; or call breakpoint() there, and attach with `kernel debug`"
        )

    def _adapt_pdb(self) -> None:
        pdb: Any = importlib.import_module("pdb")
        pdb.set_trace = self._set_trace


def _is_to_be_looked_at(error: BaseException) -> bool:
    """Whether an error was raised by the user's code here; that of another task was debugged there."""
    told_to_quit = isinstance(error, getattr(sys.modules.get("bdb"), "BdbQuit", ()))
    return isinstance(error, Exception) and not told_to_quit and record_of(error) is None
