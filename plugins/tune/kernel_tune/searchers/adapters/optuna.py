"""A searcher that asks Optuna."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernel_runs.optional import needed
from kernel_runs.reports import Report, look_up
from kernel_tune.search_space.domains import Float, Integer, Normal
from kernel_tune.search_space.flat import ALWAYS, Parameter
from kernel_tune.searchers.adapters.library import LibrarySearcher
from kernel_tune.searchers.metrics import finite_number


class OptunaSearch(LibrarySearcher):
    """Asks an Optuna study (pip install optuna).

    `space` is one of tune's (conditions included), a dict of Optuna's distributions, or a function that takes a trial,
    calls `suggest_...` on it, and may return a dict with further values of the configuration. `metric` and `mode` may
    be lists. `sampler`, `storage` and `study_name` are passed to the study; the default sampler is
    `TPESampler(seed=seed)`. Intermediate results are reported to the trial. Raises ValueError if the modes do not match
    the metrics.
    """

    def __init__(self, space: Any = None, metric: str | Sequence[str] | None = None,
                 mode: str | Sequence[str] | None = None, points_to_evaluate: Sequence[dict[str, Any]] | None = None,
                 sampler: Any = None, study_name: str | None = None, storage: Any = None, seed: int | None = None,
                 evaluated_rewards: Sequence[Any] | None = None, **unknown: Any) -> None:  # fmt: skip
        self._library = needed("optuna", "OptunaSearch", "optuna")
        names = [] if metric is None or isinstance(metric, str) else list(metric)
        super().__init__(
            space, None if names else metric, None if names else mode,  # type: ignore[arg-type]
            points_to_evaluate, evaluated_rewards, seed, **unknown,
        )  # fmt: skip
        modes = [mode or "max"] * len(names) if mode is None or isinstance(mode, str) else list(mode)
        if names and len(modes) != len(names):
            raise ValueError(f"mode is {mode!r}: give 'min' or 'max' for each of the metrics {', '.join(names)}")
        self._several = list(zip(names, modes, strict=False))
        self._sampler = sampler
        self._study_name = study_name
        self._storage = storage
        self._steps: dict[str, int] = {}

    @property
    def metric(self) -> Any:
        """The key of the result that is optimised, or a list of them."""
        return [name for name, _ in self._several] or super().metric

    @property
    def mode(self) -> Any:
        """ "max" or "min", or a list of them."""
        return [mode for _, mode in self._several] or super().mode

    def on_trial_result(self, trial_id: str, result: Report) -> None:
        if trial_id not in self._live or self._several:
            return
        step = self._steps[trial_id] = self._steps.get(trial_id, 0) + 1
        score = finite_number(look_up(result, self.metric))
        if score is not None:
            self._live[trial_id].report(score, step)

    def on_trial_complete(self, trial_id: str, result: Report | None = None, error: bool = False) -> None:
        trial = self._live.pop(trial_id, None)
        self._steps.pop(trial_id, None)
        if trial is not None:
            metrics = [name for name, _ in self._several] or [self.metric]
            self._finish(trial, None if error else [look_up(result or {}, name) for name in metrics])

    def _open(self) -> Any:
        optuna = self._library
        modes = [mode for _, mode in self._several] or [self.mode]
        logging = optuna.logging
        before = logging.get_verbosity()
        logging.set_verbosity(logging.WARNING)
        try:
            return optuna.create_study(
                storage=self._storage, sampler=self._sampler or optuna.samplers.TPESampler(seed=self._seed),
                study_name=self._study_name, load_if_exists=True,
                directions=["minimize" if mode == "min" else "maximize" for mode in modes],
            )  # fmt: skip
        finally:
            logging.set_verbosity(before)

    def _ask(self) -> tuple[Any, Any]:
        return self._choose(self._optimizer.ask())

    def _ask_for(self, chosen: Any) -> tuple[Any, Any]:
        self._optimizer.enqueue_trial(dict(chosen))
        return self._choose(self._optimizer.ask())

    def _tell(self, handle: Any, loss: float) -> None:
        """Is not used: a study knows its directions, and takes metrics as they are."""
        raise NotImplementedError

    def _begin(self) -> None:
        learn, self._to_learn = self._to_learn, []
        super()._begin()
        for point, value in learn:
            trial, _ = self._ask_for(self._values_of(point))
            self._finish(trial, list(value) if isinstance(value, (list, tuple)) else [value])

    def _finish(self, trial: Any, values: list[Any] | None) -> None:
        scores = [finite_number(value) for value in values or [None]]
        if None in scores:
            self._optimizer.tell(trial, state=self._library.trial.TrialState.FAIL)
        else:
            self._optimizer.tell(trial, scores)

    def _choose(self, trial: Any) -> tuple[Any, Any]:
        if self._flat is not None:
            return trial, self._choose_from_tunes(trial)
        if callable(self._native):
            more = self._native(trial)
            return trial, {**trial.params, **(more or {})}
        space = dict(self._native)
        return trial, {name: trial._suggest(name, distribution) for name, distribution in space.items()}

    def _choose_from_tunes(self, trial: Any) -> dict[str, Any]:
        chosen: dict[str, Any] = {}
        names = list(self._parameters)
        for name, parameter in self._parameters.items():
            parent, option = parameter.condition
            if parameter.condition == ALWAYS or chosen.get(names[parent]) == option:
                chosen[name] = _suggest(trial, name, parameter)
        return chosen


def _suggest(trial: Any, name: str, parameter: Parameter) -> Any:
    domain = parameter.domain
    if isinstance(domain, Float):
        return trial.suggest_float(name, domain.lower, domain.upper, log=domain.log and not domain.quantum,
                                   step=domain.quantum)  # fmt: skip
    if isinstance(domain, Integer):
        last = domain.upper - 1 if domain.quantum == 1 else domain.upper
        return trial.suggest_int(name, domain.lower, last, log=domain.log and domain.quantum == 1, step=domain.quantum)
    if isinstance(domain, Normal):
        return domain.from_unit(trial.suggest_float(f"{name}|quantile", 0.0, 1.0))
    return trial.suggest_categorical(name, list(range(parameter.cells)))
