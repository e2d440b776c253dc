"""Calls of all runners of a group that bear runners which die or do not answer in time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import kernel
from kernel_rllib.runners.group import RunnerGroup
from kernel_rllib.runners.remote_runner import take_as_heard
from kernel_spec.errors import FaultError

_log = logging.getLogger("kernel.rllib")


class PatientCalls:
    """Calls functions in all runners of a group. One that is late is left out until it has answered."""

    def __init__(self, group: RunnerGroup, *, timeout_s: float | None = None, what: str = "call") -> None:
        """Call in the runners of a group.

        Args:
            group: The runners.
            timeout_s: The number of seconds that each call may take, once runners are there; None for no limit.
            what: The name of a call, for messages.
        """
        self._group, self._timeout, self._what = group, timeout_s, what
        self._late: dict[int, kernel.ObjectRef] = {}

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Return what the function returns for each runner, in the order of their numbers, of those that answer.

        A runner that dies meanwhile is replaced, or left out, as the mode of recovery says; a new one is asked again.
        One whose constructor hangs counts as dead.

        Raises:
            RunnersLostError: If the mode says that a death is an error, or none is left.
        """
        group = self._group
        if group.local is not None:
            with group.stalls:
                return [group.local.apply(function, *arguments)]
        self._forget_answered()
        group.await_made()
        asked = {
            index: handle.apply.remote(function, *arguments)
            for index, handle in group.actors()
            if index not in self._late
        }
        calls, answers = [*asked.values()], dict[int, Any]()
        try:
            while asked:
                ready, _ = kernel.wait([*asked.values()], num_returns=len(asked), timeout=self._timeout)
                there = set(ready)
                again: dict[int, kernel.ObjectRef] = {}
                for index, ref in asked.items():
                    if ref not in there:
                        self._late[index] = ref
                        continue
                    try:
                        answers[index] = kernel.get(ref)
                    except FaultError as error:
                        handle = group.restart(index, error)
                        if handle is not None:
                            again[index] = handle.apply.remote(function, *arguments)
                            calls.append(again[index])
                asked = again
        except Exception:  # The other calls are not waited for.
            take_as_heard([*calls, *self._late.values()])
            raise
        group.forget_failures()
        if self._late:
            _log.warning(
                "runners %s have not answered within %s s: this %s goes on without them. Let episodes end sooner, wait "
                "longer (evaluation_sample_timeout_s), or count timesteps (evaluation_duration_unit='timesteps')",
                sorted(self._late), self._timeout, self._what,
            )  # fmt: skip
        return [answers[index] for index in sorted(answers)]

    def _forget_answered(self) -> None:
        """Let runners take part again whose late answer has come. One that died meanwhile is met by the next call."""
        if not self._late:
            return
        ready, _ = kernel.wait([*self._late.values()], num_returns=len(self._late), timeout=0)
        there = set(ready)
        for index in [index for index, ref in self._late.items() if ref in there]:
            try:
                kernel.get(self._late.pop(index))
            except FaultError as error:
                _log.debug("runner %d, which was late, died: %s", index, error)
            except Exception as error:
                _log.warning("runner %d, which was left out of one %s, failed there: %s", index, self._what, error)
