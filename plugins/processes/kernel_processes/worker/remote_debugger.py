"""Run Python's own debugger in a worker, with a `DebugSession` in place of a terminal.

It shows and stops in the user's code only, and releases the thread when the call in which it was started ends.
"""

from __future__ import annotations

import asyncio
import ctypes
import dis
import os
import pdb
import sys
import threading
from bdb import BdbQuit
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from kernel.runtime.critical_sections import calls_user_code
from kernel.runtime.execution_context import current_execution
from kernel.runtime.remote_traceback import is_internal

if TYPE_CHECKING:
    from kernel_processes.worker.debug_session import DebugSession

GOES_ON = "the program goes on"
QUIT = "the call was ended by the debugger"
RETURNED = "the call has ended"
CANCELLED = "the call was cancelled"

_SKIPPED = ("kernel", "kernel.*", "kernel_local_mode.*", "kernel_spec.*", "asyncio", "asyncio.*")
_LOOPS = os.path.dirname(asyncio.__file__) + os.sep
_SUSPENSIONS = ("YIELD_VALUE", "YIELD_FROM", "SEND", "RESUME", "INSTRUMENTED_YIELD_VALUE")


class RemotePdb(pdb.Pdb):
    """Debugs by `pdb`, with a session as the terminal."""

    def __init__(self, session: DebugSession) -> None:
        super().__init__(stdin=session, stdout=session, nosigint=True, readrc=False, skip=_SKIPPED)  # type: ignore[arg-type]
        self._session = session
        self._execution = current_execution.get()
        self._outermost: FrameType | None = None
        self._fails: FrameType | None = None

    # -- beginning -------------------------------------------------------------------------------------------------

    def stop_at(self, frame: FrameType) -> None:
        """Take commands while `frame` is stopped, then trace the user's code around it, if a command asks for that.

        That is here, and not with the next step of the frame, so that a cancellation strikes before what follows.
        """
        self._outermost = outermost = outermost_of_user(frame)
        self.reset()
        self.botframe = outermost
        inner: FrameType | None = frame
        while inner is not None:
            inner.f_trace = self.trace_dispatch
            inner = inner.f_back if inner is not outermost else None
        self.set_step()
        self.interaction(frame, None)
        _set_locals(frame)
        if self.quitting:
            raise BdbQuit(_told_to_quit(frame))
        if not self._session.talk.ended:
            sys.settrace(self.trace_dispatch)

    def look_at(self, traceback: TracebackType) -> None:
        """Take commands at the place where an exception was raised, until one of them goes on."""
        self.reset()
        self.interaction(None, traceback)
        self._end(GOES_ON)

    # -- stops -----------------------------------------------------------------------------------------------------

    @calls_user_code
    def interaction(self, frame: FrameType | None, *traceback: Any) -> None:  # type: ignore[override]
        """Take commands, and show the session the place where the program is stopped meanwhile."""
        self._session.stopped(frame, *traceback)
        self._session.has_control = True
        try:
            super().interaction(frame, *traceback)
        except BaseException:
            self._end(CANCELLED)
            raise
        finally:
            self._session.has_control = False

    @calls_user_code
    def _cmdloop(self) -> None:
        """Take commands. A cancellation of the call is no Ctrl-C at a prompt: it ends this."""
        self.cmdloop()

    # -- ends ------------------------------------------------------------------------------------------------------

    def trace_dispatch(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Handle an event of the program. Raises BdbQuit, with the place, after the command to quit."""
        try:
            return super().trace_dispatch(frame, event, arg)
        except BdbQuit:
            raise BdbQuit(_told_to_quit(frame)) from None

    def dispatch_call(self, frame: FrameType, arg: Any) -> Any:
        """Look into a call, if it belongs to the task or method that this was begun in."""
        if current_execution.get() is self._execution:
            return super().dispatch_call(frame, arg)
        if asyncio._get_running_loop() is None:
            self._leave()
        return None

    def dispatch_exception(self, frame: FrameType, arg: Any) -> Any:
        """Remember by what the outermost frame ends, if it does."""
        if frame is self._outermost:
            self._fails = frame
        return super().dispatch_exception(frame, arg)

    def dispatch_line(self, frame: FrameType) -> Any:
        """Go on: whatever was raised in the outermost frame was caught."""
        if frame is self._outermost:
            self._fails = None
        return super().dispatch_line(frame)

    def dispatch_return(self, frame: FrameType, arg: Any) -> Any:
        """Let go of the thread if this was the last frame of the user's."""
        trace = super().dispatch_return(frame, arg)
        if frame is self._outermost and (self._fails is frame or not _is_suspended(frame)):
            self._leave()
            return None
        return trace

    def set_continue(self) -> None:
        """Go on; that is the end unless breakpoints were set."""
        super().set_continue()
        if not self.breaks:
            self._end(GOES_ON)

    def set_quit(self) -> None:
        """End the call."""
        super().set_quit()
        self._end(QUIT)

    def _end(self, how: str) -> None:
        """Nothing is asked any more. Breakpoints that were set would stop the next call in this process."""
        self.clear_all_breaks()
        self._session.over(how)

    def _leave(self) -> None:
        sys.settrace(None)
        self._end(RETURNED)

    # -- commands --------------------------------------------------------------------------------------------------

    def do_quit(self, arg: str) -> bool:
        """quit: end the task or method here. It fails with BdbQuit."""
        self._user_requested_quit = True
        self.set_quit()
        return True

    do_q = do_exit = do_EOF = do_quit

    def do_run(self, arg: str) -> None:
        """run: there is no program here to begin anew."""
        self.error("a task or an actor's method can't be begun anew by its debugger; use quit, and submit it again")

    do_restart = do_run


def _set_locals(frame: FrameType) -> None:
    """Give the variables of a frame the values that they were given in `f_locals`, as after a trace function."""
    if sys.version_info < (3, 13):  # Later versions apply each change of `f_locals` at once.
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def outermost_of_user(frame: FrameType) -> FrameType:
    """Return the frame that the kernel, an event loop or a new thread has called, of those that have called `frame`."""
    while (back := frame.f_back) is not None and not _runs_calls(back.f_code.co_filename):
        frame = back
    return frame


def _told_to_quit(frame: FrameType) -> str:
    return f"the debugger was told to quit at {frame.f_code.co_filename}:{frame.f_lineno}"


def _runs_calls(filename: str) -> bool:
    return is_internal(filename) or filename == threading.__file__ or filename.startswith(_LOOPS)


def _is_suspended(frame: FrameType) -> bool:
    """Whether a frame that "returns" is a generator or a coroutine that goes on later."""
    if not frame.f_code.co_flags & 0x2A0:  # generators, coroutines and asynchronous generators
        return False
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] in _SUSPENSIONS
