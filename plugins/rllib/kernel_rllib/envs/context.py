"""The context of an environment while it is made: its settings, and its number among all copies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class EnvContext(dict[str, Any]):
    """The `env_config` of the user, a dict as it is, with attributes that say which copy is made.

    worker_index: 0 for the runner in the algorithm's own process, from 1 for others. vector_index: which lane of the
    runner. remote: whether it is in an actor of its own. num_workers: how many runners there are besides the local one.
    recreated_worker: whether the runner takes the place of one that died.
    """

    def __init__(
        self,
        env_config: Mapping[str, Any] | None = None,
        worker_index: int = 0,
        vector_index: int = 0,
        remote: bool = False,
        num_workers: int | None = None,
        recreated_worker: bool = False,
    ) -> None:
        super().__init__(env_config or {})
        self.worker_index = worker_index
        self.vector_index = vector_index
        self.remote = remote
        self.num_workers = num_workers
        self.recreated_worker = recreated_worker

    @property
    def num_rollout_workers(self) -> int | None:
        """The same as `num_workers`."""
        return self.num_workers

    @property
    def num_env_runners(self) -> int | None:
        """The same as `num_workers`."""
        return self.num_workers

    def copy_with_overrides(
        self,
        env_config: Mapping[str, Any] | None = None,
        worker_index: int | None = None,
        vector_index: int | None = None,
        remote: bool | None = None,
        num_workers: int | None = None,
        recreated_worker: bool | None = None,
    ) -> EnvContext:
        """Return a copy in which what is given, and is not None, replaces what is here."""

        def chosen(given: Any, here: Any) -> Any:
            return here if given is None else given

        return EnvContext(
            chosen(env_config, dict(self)),
            chosen(worker_index, self.worker_index),
            chosen(vector_index, self.vector_index),
            chosen(remote, self.remote),
            chosen(num_workers, self.num_workers),
            chosen(recreated_worker, self.recreated_worker),
        )

    def set_defaults(self, defaults: Mapping[str, Any]) -> None:
        """Add settings that the user left out."""
        for name, value in defaults.items():
            self.setdefault(name, value)
