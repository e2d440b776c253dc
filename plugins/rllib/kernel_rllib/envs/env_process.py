"""One process that steps lanes, as the runner that made it sees it."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from typing import Any

from kernel_rllib.envs import process_wire as wire
from kernel_rllib.envs.whereabouts import Whereabouts
from kernel_rllib.errors import EnvError

_log = logging.getLogger("kernel.rllib")
_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from kernel_rllib.envs.process_child import main; "
    "numbers = json.loads(sys.argv[2]); main(*numbers[:5], numbers[5:])"
)
_PATIENCE_SECONDS = 60
"""The time after which a step that is still not done is reported."""
_CLOSE_SECONDS = 5.0
_ANSWER_SECONDS = 0.5
"""The longest time to say where a process is: callers of this process wait for the answer, too."""
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Processes that share the cores of a machine need no threads of their own for linear algebra."""


class ProcessDied(Exception):
    """The process is gone; the message says how it ended."""


class EnvProcess:
    """A process that was just started; `facts` waits until its environments are made.

    memory: the descriptor of the shared slots. whose: the lanes that it steps, for messages ("lanes 0 to 3").
    """

    def __init__(self, hello: wire.Hello, memory: int, whose: str) -> None:
        self._whose = whose
        parts = len(hello.makers)
        theirs_commands, self._commands = os.pipe()
        theirs_life, self._life = os.pipe()
        self._answers, theirs_answers = os.pipe()
        self._places, theirs_places = os.pipe()
        replies = [os.pipe() for _ in range(parts)]
        self._replies = [ours for ours, _ in replies]
        theirs = [theirs_commands, theirs_life, memory, theirs_answers, theirs_places, *(their for _, their in replies)]
        path = json.dumps([entry for entry in sys.path if isinstance(entry, str)])
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BOOT, path, json.dumps(theirs)],
                pass_fds=theirs,
                stdin=subprocess.DEVNULL,
                env={**_ONE_THREAD, **os.environ},
            )
        finally:
            for descriptor in theirs:
                if descriptor != memory:
                    os.close(descriptor)
        self._asking, self._unanswered = threading.Lock(), 0
        self._pollers = [_poller(descriptor) for descriptor in self._replies]
        with contextlib.suppress(ProcessDied):  # Raised again by the call that waits for its facts.
            self._guarded(wire.send, self._commands, b"", hello)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def facts(self) -> tuple[Any, Any, str]:
        """Return the spaces of observations and actions, and the environment's name, when it is ready.

        Raises what making the environments raised, or ProcessDied.
        """
        found: tuple[Any, Any, str] = self._answer()
        return found

    def start_step(self, part: int, turn: int) -> None:
        """Ask for a step of a part. Raises ProcessDied."""
        self._guarded(os.write, self._commands, wire.step_command(part, turn))

    def finish_step(self, part: int) -> tuple[Any, Any, Any] | None:
        """Wait for a step; return infos, infos of resets and faults by lane, or None where there are none.

        Raises what the step raised, or ProcessDied.
        """
        while not self._pollers[part].poll(_PATIENCE_SECONDS * 1000):
            _log.warning("a step takes more than %d s: it is in %s", _PATIENCE_SECONDS, self.inside().place)
        status = os.read(self._replies[part], 1)
        if status == wire.QUIET:
            return None
        told: tuple[Any, Any, Any] = self._guarded(self._message, self._replies[part], status)
        return told

    def request(self, method: str, *arguments: Any) -> Any:
        """Call a method of the process and return what it returns. Raises what it raises, or ProcessDied."""
        self._guarded(wire.send, self._commands, wire.REQUEST, (method, arguments))
        return self._answer()

    def inside(self) -> Whereabouts:
        """Return where the process is. Can be called by any thread.

        A process that does not answer soon counts as in its environments, one that waits for a command does not.
        """
        this = f"process {self.pid}, which steps {self._whose}"
        found: Whereabouts | None = None
        with self._asking, contextlib.suppress(OSError, EOFError):  # it has ended, or is being closed
            os.write(self._life, b"?")
            self._unanswered += 1
            poller = _poller(self._places)
            while self._unanswered and poller.poll(_ANSWER_SECONDS * 1000):
                os.read(self._places, 1)
                found = wire.receive(self._places)
                self._unanswered -= 1
        if self._unanswered or found is None:
            return Whereabouts(0, f"{this} and does not say where it is", is_in_environments=True)
        return replace(found, place=f"{found.place}, in {this}" if found.place else f"{this} and waits for a command")

    def close(self) -> None:
        """End the process: kindly, and after some seconds by force. Calling it twice does nothing more."""
        if self._commands < 0:
            return
        with contextlib.suppress(Exception):
            wire.send(self._commands, wire.REQUEST, ("close", ()))
        for descriptor in (self._commands, self._answers, self._places, *self._replies):
            os.close(descriptor)
        try:
            self._process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._life)
        self._commands = -1

    def _answer(self) -> Any:
        return self._guarded(lambda: self._message(self._answers, os.read(self._answers, 1)))

    def _message(self, descriptor: int, status: bytes) -> Any:
        if not status:
            raise EOFError
        if status == wire.FAILED:
            raise _Raised(wire.receive_error(descriptor))
        return wire.receive(descriptor)

    def _guarded(self, function: Any, *arguments: Any) -> Any:
        """Call what reads or writes; raise ProcessDied where the other end is gone, and what the process raised."""
        try:
            return function(*arguments)
        except _Raised as raised:
            raise raised.error from raised.error.__cause__
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise ProcessDied(self._death()) from None

    def _death(self) -> str:
        try:
            code = self._process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        if code < 0:
            how = f"was killed by signal {-code} ({signal.Signals(-code).name})"
        else:
            how = f"ended with exit code {code}"
        return f"process {self.pid}, which stepped {self._whose}, {how}"


class _Raised(Exception):
    """An error of the process, on its way through `_guarded`."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def _poller(descriptor: int) -> select.poll:
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return poller


def died(name: str, error: ProcessDied) -> EnvError:
    """Return the error of the lanes whose process died."""
    return EnvError(
        f"{name}: {error}. The machine may be short of memory, or the environment's own code crashed; with "
        "restart_failed_sub_environments=True its lanes begin anew"
    )
