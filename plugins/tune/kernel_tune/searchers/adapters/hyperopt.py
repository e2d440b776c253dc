"""A searcher that asks HyperOpt."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernel_runs.optional import needed
from kernel_tune.search_space.domains import Float, Integer, Normal
from kernel_tune.search_space.flat import Parameter
from kernel_tune.searchers.adapters.library import LibrarySearcher


class HyperOptSearch(LibrarySearcher):
    """Asks HyperOpt's TPE (pip install hyperopt).

    `space` is one of tune's, or any of HyperOpt's; points to evaluate in the latter give choices by their index. The
    first `n_initial_points` are random, a share `gamma` counts as good. `random_state_seed` is the seed.
    """

    def __init__(self, space: Any = None, metric: str | None = None, mode: str | None = None,
                 points_to_evaluate: Sequence[dict[str, Any]] | None = None, n_initial_points: int = 20,
                 random_state_seed: int | None = None, gamma: float = 0.25, seed: int | None = None,
                 evaluated_rewards: Sequence[float] | None = None, **unknown: Any) -> None:  # fmt: skip
        self._library = needed("hyperopt", "HyperOptSearch", "hyperopt")
        seed = random_state_seed if seed is None else seed
        super().__init__(space, metric, mode, points_to_evaluate, evaluated_rewards, seed, **unknown)
        self._initial = n_initial_points
        self._gamma = gamma

    def _portable(self) -> Any:
        return None if self._optimizer is None else self._optimizer[1]

    def _restored(self, portable: Any) -> Any:
        return None if portable is None else (self._open()[0], portable)

    def _is_tunes(self, space: Any) -> bool:
        return super()._is_tunes(space) and not _has_native(space)

    def _open(self) -> Any:
        hp = self._library
        space = self._native
        if self._flat is not None:
            space = {name: _dimension(hp.hp, name, parameter) for name, parameter in self._parameters.items()}
        return hp.Domain(lambda config: config, space), hp.Trials()

    def _ask(self) -> tuple[Any, Any]:
        hp = self._library
        domain, trials = self._optimizer
        trials.refresh()
        (number,) = trials.new_trial_ids(1)
        tpe = functools.partial(hp.tpe.suggest, n_startup_jobs=self._initial, gamma=self._gamma, verbose=False)
        new = tpe([number], domain, trials, int(self._generator.integers(2**31 - 1)))
        trials.insert_trial_docs(new)
        trials.refresh()
        return number, self._point_of(new[0]["misc"])

    def _ask_for(self, chosen: Any) -> tuple[Any, Any]:
        """Add a point, with values by label, as HyperOpt itself stores it."""
        domain, trials = self._optimizer
        trials.refresh()
        (number,) = trials.new_trial_ids(1)
        labels = list(domain.params)
        misc = {
            "tid": number, "cmd": ("domain_attachment", "FMinIter_Domain"), "workdir": None,
            "idxs": {label: [number] if label in chosen else [] for label in labels},
            "vals": {label: [chosen[label]] if label in chosen else [] for label in labels},
        }  # fmt: skip
        docs = trials.new_trial_docs([number], [None], [{"status": "new"}], [misc])
        trials.insert_trial_docs(docs)
        trials.refresh()
        return number, self._point_of(misc)

    def _tell(self, handle: Any, loss: float) -> None:
        hp = self._library
        trials = self._optimizer[1]
        trials.refresh()
        (doc,) = [doc for doc in trials._dynamic_trials if doc["tid"] == handle]
        if np.isfinite(loss):
            doc["state"], doc["result"] = hp.base.JOB_STATE_DONE, {"loss": loss, "status": "ok"}
        else:
            doc["state"] = hp.base.JOB_STATE_ERROR
            doc["misc"]["error"] = ("TuneError", "the trial failed")
        trials.refresh()

    def _point_of(self, misc: dict[str, Any]) -> Any:
        domain = self._optimizer[0]
        values = {label: found[0] for label, found in misc["vals"].items() if len(found)}
        point = self._library.space_eval(domain.expr, values)
        return {name: _plain(value) for name, value in point.items()}


def _dimension(hp: Any, name: str, parameter: Parameter) -> Any:
    domain = parameter.domain
    if isinstance(domain, Float) and domain.quantum is None:
        if domain.log:
            return hp.loguniform(name, np.log(domain.lower), np.log(domain.upper))
        return hp.uniform(name, domain.lower, domain.upper)
    if isinstance(domain, Float) and not domain.log:
        return hp.quniform(name, domain.lower, domain.upper, domain.quantum)
    if isinstance(domain, Float):
        return hp.qloguniform(name, np.log(domain.lower), np.log(domain.upper), domain.quantum)
    if isinstance(domain, Normal):
        return hp.normal(name, domain.mean, domain.sd)
    if isinstance(domain, Integer) and domain.quantum == 1:
        if domain.log:
            return hp.qloguniform(name, np.log(domain.lower), np.log(domain.upper - 1), 1)
        return hp.uniformint(name, domain.lower, domain.upper - 1)
    if isinstance(domain, Integer):
        return hp.quniform(name, domain.lower, domain.upper, domain.quantum)
    return hp.choice(name, list(range(parameter.cells)))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _has_native(space: Any) -> bool:
    return any(type(value).__module__.startswith("hyperopt") for value in space.values())
