"""A searcher that asks SigOpt, a service, over HTTP."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from kernel_runs.arguments import refuse_unknown
from kernel_runs.reports import Report, look_up
from kernel_tune.errors import SearchSpaceError
from kernel_tune.search_space.domains import Float, Integer
from kernel_tune.search_space.flat import Parameter
from kernel_tune.searchers.adapters.library import LibrarySearcher
from kernel_tune.searchers.adapters.sigopt_client import SigOptClient
from kernel_tune.searchers.metrics import finite_number

MARK = "kernel_tune"
"""The key in the metadata of SigOpt's objects that says which searcher and which trial they belong to."""

_OBJECTIVES = {
    "max": {"objective": "maximize", "strategy": "optimize"},
    "min": {"objective": "minimize", "strategy": "optimize"},
    "obs": {"strategy": "store"},
}


class SigOptSearch(LibrarySearcher):
    """Asks SigOpt's servers, or others with the same API, without a library. The token is SIGOPT_KEY of the
    environment.

    `space` is one of tune's, or a list of SigOpt's parameters: dicts of `name`, `type` ("int", "double" or
    "categorical") and `bounds` (`{"min": 0, "max": 20}`), `categorical_values` or `grid`. When the first trial is
    requested, an experiment called `name` is created for it, in `project`, with `observation_budget` if given. With
    `experiment_id` an existing experiment is used instead of a space. `metric` and `mode` may be lists; metrics with
    the mode "obs" are stored without being optimised. At most `max_concurrent` trials run at once (the SigOpt plan
    limits it). `connection` is a `SigOptClient`. Failed trials are reported as such. A resumed experiment looks up the
    suggestions for its trials, and uses them again. There is no seed. Raises SigOptError if SigOpt refuses or does not
    answer.
    """

    def __init__(self, space: Any = None, name: str = "Default Tune Experiment", max_concurrent: int = 1,
                 connection: SigOptClient | None = None, experiment_id: str | None = None,
                 observation_budget: int | None = None, project: str | None = None,
                 metric: str | Sequence[str] | None = None, mode: str | Sequence[str] | None = None,
                 points_to_evaluate: Sequence[dict[str, Any]] | None = None,
                 evaluated_rewards: Sequence[float] | None = None,
                 seed: int | None = None, **unknown: Any) -> None:  # fmt: skip
        refuse_unknown(self, unknown, type(self).__init__)
        if space is not None and experiment_id is not None:
            raise SearchSpaceError("SigOptSearch has a space and an experiment_id, which has one too: give one of them")
        if max_concurrent < 1:
            raise SearchSpaceError(f"max_concurrent is {max_concurrent!r}: at least one trial must be able to run")
        names = [] if metric is None or isinstance(metric, str) else list(metric)
        self._several = list(zip(names, _modes(names, mode), strict=True))
        one_metric, one_mode = (None, None) if names else (metric, mode)
        super().__init__(  # an existing experiment counts as a space of SigOpt's
            space if experiment_id is None else experiment_id, one_metric, one_mode,  # type: ignore[arg-type]
            points_to_evaluate, evaluated_rewards, seed,
        )  # fmt: skip
        self._client = connection or SigOptClient()
        self._experiment_id = experiment_id
        self._max_concurrent = max_concurrent
        self._options = {"name": name, "project": project, "observation_budget": observation_budget}
        self._mark = uuid.uuid4().hex
        self._asking = ""
        self._is_restored = False
        self._earlier: dict[str, dict[str, Any]] = {}
        """After a restore, the suggestions that SigOpt has made for this searcher, by their marks."""
        self._observed: set[str] = set()
        """After a restore, the ids of the suggestions that have been observed already."""

    @property
    def metric(self) -> Any:
        """The key of the result that is optimised, or a list of them."""
        return [name for name, _ in self._several] or super().metric

    @property
    def mode(self) -> Any:
        """ "max" or "min", or a list of them."""
        return [mode for _, mode in self._several] or super().mode

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        self._max_concurrent = max_concurrent
        return True

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        if len(self._live) >= self._max_concurrent:
            return None
        self._asking = trial_id
        return super().suggest(trial_id)

    def on_trial_complete(self, trial_id: str, result: Report | None = None, error: bool = False) -> None:
        suggestion = self._live.pop(trial_id, None)
        if suggestion is not None:
            values = {name: finite_number(look_up(result or {}, name)) for name, _ in self._metrics}
            self._observe(suggestion, None if error or None in values.values() else values)

    def get_state(self) -> dict[str, Any]:
        return {key: value for key, value in super().get_state().items() if key != "_client"}

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state({**state, "_is_restored": True})

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _is_restored=True)

    @property
    def _metrics(self) -> list[tuple[str, str]]:
        return self._several or [(super().metric, super().mode)]

    # -- SigOpt's objects --------------------------------------------------------------------------------------------

    def _open(self) -> Any:
        """Return the id of the experiment: the given one, one that was created before, or a new one."""
        if self._experiment_id is not None:
            return self._client.fetch(f"experiments/{self._experiment_id}")["id"]
        if self._is_restored:
            for experiment in self._client.list("experiments"):
                if (experiment.get("metadata") or {}).get(MARK) == self._mark:
                    return experiment["id"]
        parameters = self._native
        if self._flat is not None:
            parameters = [_parameter(name, parameter) for name, parameter in self._parameters.items()]
        made = self._client.create("experiments", {
            **{name: value for name, value in self._options.items() if value is not None},
            "parameters": parameters, "parallel_bandwidth": self._max_concurrent, "metadata": {MARK: self._mark},
            "metrics": [{"name": name, **_OBJECTIVES[mode]} for name, mode in self._metrics],
        })  # fmt: skip
        return made["id"]

    def _ask(self) -> tuple[Any, Any]:
        return self._suggestion({})

    def _ask_for(self, chosen: Any) -> tuple[Any, Any]:
        return self._suggestion({"assignments": self._said(chosen)})

    def _suggestion(self, body: dict[str, Any]) -> tuple[Any, Any]:
        """Request a suggestion for a trial, or return the one that was made for it before a kill."""
        self._find_earlier()
        mark = f"{self._mark} {self._asking}"
        suggestion = self._earlier.get(mark) or self._client.create(
            f"experiments/{self._optimizer}/suggestions", {**body, "metadata": {MARK: mark}}
        )
        return suggestion, self._heard(suggestion["assignments"])

    def _observe(self, suggestion: dict[str, Any], values: dict[str, Any] | None) -> None:
        """Report the result of a suggestion, None for a failure, unless that was done before a kill."""
        self._find_earlier()
        if suggestion["id"] in self._observed:
            return
        said = {"failed": True} if values is None else {"values": _evaluations(values)}
        self._client.create(f"experiments/{self._optimizer}/observations", {"suggestion": suggestion["id"], **said})

    def _find_earlier(self) -> None:
        """After a restore, once: look up suggestions and observations that were made after the saved state."""
        if not self._is_restored:
            return
        self._is_restored = False
        path = f"experiments/{self._optimizer}"
        self._observed = {observation["suggestion"] for observation in self._client.list(f"{path}/observations")}
        running = {suggestion["id"] for suggestion in self._live.values()}
        for suggestion in self._client.list(f"{path}/suggestions"):
            mark = (suggestion.get("metadata") or {}).get(MARK)
            if mark is not None and suggestion["id"] not in running:
                self._earlier.setdefault(mark, suggestion)

    def _begin(self) -> None:
        """Report points that were evaluated elsewhere. SigOpt takes observations without a suggestion."""
        learn, self._to_learn = self._to_learn, []
        super()._begin()
        for point, value in learn:
            score = finite_number(value)
            said = {"failed": True} if score is None else {"values": _evaluations({self._metrics[0][0]: score})}
            body = {"assignments": self._said(self._values_of(point)), **said}
            self._client.create(f"experiments/{self._optimizer}/observations", body)

    def _tell(self, handle: Any, loss: float) -> None:
        """Is not used: SigOpt knows the directions of metrics, and takes metrics as they are."""
        raise NotImplementedError

    def _heard(self, assignments: dict[str, Any]) -> dict[str, Any]:
        """Return SigOpt's assignments as values."""
        if self._flat is None:
            return dict(assignments)
        return {name: _heard(parameter, assignments[name]) for name, parameter in self._parameters.items()}

    def _said(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return values as SigOpt's assignments."""
        if self._flat is None:
            return dict(values)
        return {name: _said(parameter, values[name]) for name, parameter in self._parameters.items()}


def _modes(names: list[str], mode: Any) -> list[str]:
    modes = [mode or "max"] * len(names) if mode is None or isinstance(mode, str) else list(mode)
    if names and len(modes) != len(names):
        raise ValueError(f"mode is {mode!r}: give 'min', 'max' or 'obs' for each of the metrics {', '.join(names)}")
    for each in modes:
        if each not in _OBJECTIVES:
            raise ValueError(f"mode is {mode!r}: it has 'min', 'max' or, for what is only stored, 'obs'")
    return modes


def _evaluations(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def _parameter(name: str, parameter: Parameter) -> dict[str, Any]:
    """Return one of tune's parameters as SigOpt's. Categories are texts there; unbounded ones are quantiles."""
    domain = parameter.domain
    if parameter.is_categorical:
        options = [{"name": str(number)} for number in range(parameter.cells)]
        return {"name": name, "type": "categorical", "categorical_values": options}
    if isinstance(domain, Integer) and domain.quantum == 1 and not domain.log:
        return {"name": name, "type": "int", "bounds": {"min": domain.lower, "max": domain.upper - 1}}
    if parameter.cells:
        kind = "int" if isinstance(domain, Integer) else "double"
        return {"name": name, "type": kind, "grid": _grid(parameter)}
    if isinstance(domain, Float):
        scale = {"transformation": "log"} if domain.log else {}
        return {"name": name, "type": "double", "bounds": {"min": domain.lower, "max": domain.upper}, **scale}
    return {"name": name, "type": "double", "bounds": {"min": 0.0, "max": 1.0}}


def _grid(parameter: Parameter) -> list[Any]:
    assert parameter.edges is not None
    return [parameter.domain.from_unit(float(middle)) for middle in (parameter.edges[1:] + parameter.edges[:-1]) / 2]


def _heard(parameter: Parameter, assigned: Any) -> Any:
    if parameter.is_categorical:
        return int(assigned)
    has_bounds = isinstance(parameter.domain, (Float, Integer))
    return assigned if has_bounds else parameter.domain.from_unit(float(assigned))


def _said(parameter: Parameter, value: Any) -> Any:
    domain = parameter.domain
    if parameter.is_categorical:
        return str(value)
    if isinstance(domain, Integer) and domain.quantum == 1 and not domain.log:
        return value
    if parameter.cells:
        return _grid(parameter)[int(parameter.cell_of(domain.to_unit(value)))]
    return value if isinstance(domain, Float) else domain.to_unit(value)
