"""The callbacks of an experiment, called one after the other. An error names the callback."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kernel_runs.callbacks import Callback
from kernel_tune.errors import TuneError

_log = logging.getLogger("kernel.tune")


class Listeners:
    """Calls all callbacks of a run, in their order. `directory` is the experiment's, for messages.

    `hears_only` limits callbacks, by `id(callback)`, to the trials of the experiments with these names.
    """

    def __init__(
        self, callbacks: Sequence[Callback], directory: str, hears_only: Mapping[int, Collection[str]] | None = None
    ) -> None:
        self._callbacks = list(callbacks)
        self._directory = directory
        self._hears_only = hears_only or {}

    def tell(self, method: str, *arguments: Any, again: bool = False) -> None:
        """Call a method of each callback. An event that happens `again` after a kill is passed to loggers only.

        Raises TuneError that names the callback if it raises.
        """
        for callback in self._callbacks:
            if (not again or callback.hears_again) and self._hears(callback, arguments):
                self._call(callback, method, *arguments)

    def _hears(self, callback: Callback, arguments: Sequence[Any]) -> bool:
        """Return whether a callback is called for this event. Methods about trials have the trial as third argument."""
        names = self._hears_only.get(id(callback)) if self._hears_only and len(arguments) > 2 else None
        return names is None or arguments[2].extra.get("experiment") in names

    def tell_all(self, method: str, *arguments: Any) -> TuneError | None:
        """Call a method of each callback, also after an error. Return the first error, and log the others."""
        first: TuneError | None = None
        for callback in self._callbacks:
            try:
                self._call(callback, method, *arguments)
            except TuneError as error:
                if first is not None:
                    _log.error("%s", error)
                first = first or error
        return first

    def states(self) -> list[Any]:
        """Return the states that the callbacks want to keep."""
        return [self._call(callback, "get_state") for callback in self._callbacks]

    def set_states(self, states: Sequence[Any]) -> None:
        """Give each callback the state that it has kept."""
        for callback, state in zip(self._callbacks, states, strict=False):
            if state is not None:
                self._call(callback, "set_state", state)

    def _call(self, callback: Callback, method: str, *arguments: Any) -> Any:
        try:
            return getattr(callback, method)(*arguments)
        except TuneError:
            raise
        except Exception as error:
            raise TuneError(
                f"callback {type(callback).__name__} raised {type(error).__name__} in {method}(): {error}. The state "
                f"of the experiment is saved in {self._directory}: mend the callback, then resume with "
                "resume='AUTO' or Tuner.restore"
            ) from error
