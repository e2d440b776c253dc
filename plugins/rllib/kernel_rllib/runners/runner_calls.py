"""Calls of functions in the runners of a group: how long they are waited for, and what is done where one dies."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import kernel
from kernel_rllib.connectors.moments import Statistics
from kernel_rllib.runners.env_runner import EnvRunner
from kernel_rllib.runners.patience import Patience
from kernel_rllib.runners.remote_runner import RemoteRunner, Weights, take_as_heard
from kernel_spec.errors import FaultError

_log = logging.getLogger("kernel.rllib")


class RunnerCalls(ABC):
    """The half of a group of runners that calls functions where they are."""

    local: EnvRunner | None
    statistics: Statistics
    _patience: Patience
    _remote: dict[int, RemoteRunner]
    _weights: Weights | None

    @abstractmethod
    def _replace(self, index: int, error: FaultError, failed: Sequence[kernel.ObjectRef] = ()) -> None:
        """Take a runner that died out of the group, and ask another in its place for the same."""

    def foreach(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        timeout_s: float | None = None,
        only: Collection[int] | None = None,
        hands_over: bool = False,
    ) -> list[Any]:
        """Return what the function returns for each runner, in the order of their numbers.

        Args:
            function: The function, of the `EnvRunner`; it is called where that runs.
            arguments: Further arguments of the function.
            timeout_s: The number of seconds to wait for answers; later ones are left out, with a warning
                that says where these runners are. None: as long as it takes.
            only: The numbers of the runners that are called; None for all.
            hands_over: Whether runners are to have the last parameters and statistics before.

        Raises:
            RunnersLostError: If a runner has died or hangs, and none can take its place; one that does is asked again.
        """
        if self.local is not None:
            return [self.local.apply(function, *arguments)] if only is None or 0 in only else []
        deadline = None if timeout_s is None else self._patience.now() + timeout_s
        asked = {
            index: self._call(runner, function, arguments, hands_over=hands_over)
            for index, runner in self._remote.items()
            if only is None or index in only
        }
        answers: dict[int, Any] = {}
        try:
            while asked:
                refs = {call[-1]: self._remote[index] for index, call in asked.items()}
                first = self._patience.first(refs, calls=True, deadline=deadline)
                if first is None:
                    self._leave_out(asked, timeout_s)
                    break
                runner, lost = first
                index = runner.place.index
                try:
                    if lost is not None:
                        raise lost
                    answers[index] = kernel.get(asked[index])[-1]
                    runner.is_made = True
                except FaultError as error:
                    self._replace(index, error, asked[index])
                del asked[index]
                made = self._remote.get(index)
                if made is not None and index not in answers:
                    asked[index] = self._call(made, function, arguments, hands_over=True)
        except Exception:  # The other calls are not waited for.
            take_as_heard([ref for call in asked.values() for ref in call])
            raise
        return [answers[index] for index in sorted(answers)]

    def await_made(self) -> None:
        """Wait until the runners are made that nothing was heard of yet: to start one may take longer than a call.

        Raises:
            RunnersLostError: If one has died or hangs, and none can take its place.
            TaskError: If a constructor raised, and no runner has shown that it can work.
        """
        self.foreach(nothing, only=[index for index, runner in self._remote.items() if not runner.is_made])

    def _call(
        self, runner: RemoteRunner, function: Callable[..., Any], arguments: Sequence[Any], *, hands_over: bool
    ) -> list[kernel.ObjectRef]:
        """Call a function in a runner, after what is to come before; return references, the function's last."""
        before = self._hand_over(runner) if hands_over else []
        return [*before, runner.handle.apply.remote(function, *arguments)]

    def _hand_over(self, runner: RemoteRunner) -> list[kernel.ObjectRef]:
        """Let a runner take the last parameters and statistics; return references that say whether it has."""
        apply, told = runner.handle.apply.remote, []
        if self._weights is not None:
            told.append(apply(EnvRunner.set_weights, *self._weights))
            runner.version = self._weights[1]
        if self.statistics:
            told.append(apply(EnvRunner.set_statistics, self.statistics))
        return told

    def _leave_out(self, late: Mapping[int, Sequence[kernel.ObjectRef]], timeout_s: float | None) -> None:
        for index in sorted(late):
            runner = self._remote[index]
            late[index][-1].future().add_done_callback(partial(_tell_of_failure, index))
            _log.warning(
                "runner %d has not answered a call within %g s, and its result is left out: %s. Wait longer "
                "(timeout_seconds), or call others alone (remote_worker_ids)",
                index, timeout_s, self._patience.place_of(runner),
            )  # fmt: skip


def _tell_of_failure(index: int, answer: Future[Any]) -> None:
    """Log the error of a function whose result was left out. Deaths of runners are reported otherwise."""
    error = answer.exception()
    if error is not None and not isinstance(error, FaultError):
        _log.warning("a call that runner %d answered too late failed there: %s", index, error)


def nothing(runner: EnvRunner) -> None:
    """Answer: what is called before has come to an end then."""


def changed(runner: EnvRunner, function: Callable[[EnvRunner, Any], None], given: Any) -> Mapping[str, Any]:
    """Change a runner; return its state afterwards."""
    function(runner, given)
    return runner.state()
