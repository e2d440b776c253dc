"""Calls of functions in the runners of a group: how long they are waited for, and what is done where one dies."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
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
            function: It is called with the `EnvRunner`, where that runs.
            arguments: What it is called with besides.
            timeout_s: How long answers are waited for; those that have not come by then are left out, with a warning
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
        while asked:
            refs = {call[-1]: self._remote[index] for index, call in asked.items()}
            first = self._patience.first(refs, calls=True, deadline=deadline)
            if first is None:
                self._warn_of_late(sorted(asked), timeout_s)
                break
            runner, lost = first
            index = runner.place.index
            call = asked.pop(index)
            try:
                if lost is not None:
                    raise lost
                answers[index] = kernel.get(call)[-1]
            except FaultError as error:
                self._replace(index, error, call)
                made = self._remote.get(index)
                if made is not None:
                    asked[index] = self._call(made, function, arguments, hands_over=True)
            except Exception:  # raised by what users wrote
                take_as_heard([call[-1], *(ref for other in asked.values() for ref in other)])
                raise
        return [answers[index] for index in sorted(answers)]

    def _call(
        self, runner: RemoteRunner, function: Callable[..., Any], arguments: Sequence[Any], *, hands_over: bool
    ) -> list[kernel.ObjectRef]:
        """Call a function in a runner, after what is to come before; return references, the function's last."""
        apply = runner.handle.apply.remote
        before = []
        if hands_over and self._weights is not None:
            before.append(apply(EnvRunner.set_weights, *self._weights))
            runner.version = self._weights[1]
        if hands_over and self.statistics:
            before.append(apply(EnvRunner.set_statistics, self.statistics))
        return [*before, apply(function, *arguments)]

    def _warn_of_late(self, indices: Sequence[int], timeout_s: float | None) -> None:
        for index in indices:
            _log.warning(
                "runner %d has not answered a call within %g s, and its result is left out: %s. Wait longer "
                "(timeout_seconds), or call others alone (remote_worker_ids)",
                index, timeout_s, self._patience.place_of(self._remote[index]),
            )  # fmt: skip
