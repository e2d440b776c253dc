"""A searcher that asks Ax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernel_runs.optional import needed
from kernel_runs.reports import Report, look_up
from kernel_tune.errors import SearchSpaceError
from kernel_tune.search_space.domains import Float, Integer
from kernel_tune.search_space.flat import Parameter
from kernel_tune.searchers.adapters.library import LibrarySearcher
from kernel_tune.searchers.metrics import finite_number


class AxSearch(LibrarySearcher):
    """Asks an `AxClient` (pip install ax-platform).

    `space` is one of tune's, or a list of Ax's parameters (dicts with `name`, `type` and `bounds`, `values` or
    `value`). `parameter_constraints` such as "x3 >= x4" and `outcome_constraints` such as "m1 <= 3" are Ax's; the
    metrics of the latter must be in the results. Alternatively, `ax_client` is a client with an experiment, made with
    `enforce_sequential_optimization=False`; metric and mode are then those of its objective. Other arguments are passed
    to the `AxClient` that is made. Raises SearchSpaceError for an `ax_client` with a space or constraints besides.
    """

    def __init__(self, space: Any = None, metric: str | None = None, mode: str | None = None,
                 points_to_evaluate: Sequence[dict[str, Any]] | None = None,
                 parameter_constraints: Sequence[str] | None = None, outcome_constraints: Sequence[str] | None = None,
                 ax_client: Any = None, seed: int | None = None, evaluated_rewards: Sequence[float] | None = None,
                 use_early_stopped_trials: bool | None = None, max_concurrent: int | None = None,
                 **ax_kwargs: Any) -> None:  # fmt: skip
        self._library = needed("ax.service.ax_client", "AxSearch", "ax-platform")
        if isinstance(space, self._library.AxClient):
            space, ax_client = None, space
        if ax_client is not None and (space is not None or parameter_constraints or outcome_constraints):
            raise SearchSpaceError("AxSearch has an ax_client with an experiment: give no space or constraints besides")
        space = ax_client if ax_client is not None else space
        super().__init__(space, metric, mode, points_to_evaluate, evaluated_rewards, seed)
        self._client = ax_client
        self._constraints = list(parameter_constraints or []), list(outcome_constraints or [])
        self._ax_kwargs = ax_kwargs
        if ax_client is not None:
            self._metric = ax_client.objective_name
            self._mode = "min" if ax_client.experiment.optimization_config.objective.minimize else "max"

    def on_trial_complete(self, trial_id: str, result: Report | None = None, error: bool = False) -> None:
        index = self._live.pop(trial_id, None)
        if index is None:
            return
        names = list(self._optimizer.experiment.metrics)
        data = {name: finite_number(look_up(result or {}, name)) for name in names}
        if error or None in data.values():
            self._optimizer.log_trial_failure(index)
        else:
            self._optimizer.complete_trial(index, raw_data=data)

    def _open(self) -> Any:
        if self._client is not None:
            return self._client
        ax = self._library
        options = {"enforce_sequential_optimization": False, "verbose_logging": False, **self._ax_kwargs}
        client = ax.AxClient(random_seed=self._seed, **options)
        parameters = self._native
        if self._flat is not None:
            parameters = [_parameter(name, parameter) for name, parameter in self._parameters.items()]
        client.create_experiment(
            parameters=parameters,
            objectives={self.metric: ax.ObjectiveProperties(minimize=self.mode == "min")},
            parameter_constraints=self._constraints[0], outcome_constraints=self._constraints[1],
        )  # fmt: skip
        return client

    def _ask(self) -> tuple[Any, Any]:
        chosen, index = self._optimizer.get_next_trial()
        return index, dict(chosen)

    def _ask_for(self, chosen: Any) -> tuple[Any, Any]:
        _, index = self._optimizer.attach_trial(dict(chosen))
        return index, chosen

    def _tell(self, handle: Any, loss: float) -> None:
        if finite_number(loss) is None:
            self._optimizer.log_trial_failure(handle)
        else:
            self._optimizer.complete_trial(handle, raw_data={self.metric: loss if self.mode == "min" else -loss})

    def _portable(self) -> Any:
        return None if self._optimizer is None else self._optimizer.to_json_snapshot()

    def _restored(self, portable: Any) -> Any:
        return None if portable is None else self._library.AxClient.from_json_snapshot(portable)


def _parameter(name: str, parameter: Parameter) -> dict[str, Any]:
    domain = parameter.domain
    if isinstance(domain, Float) and not parameter.cells:
        return {"name": name, "type": "range", "bounds": [domain.lower, domain.upper], "log_scale": domain.log,
                "value_type": "float"}  # fmt: skip
    if isinstance(domain, Integer) and domain.quantum == 1:
        return {"name": name, "type": "range", "bounds": [domain.lower, domain.upper - 1], "log_scale": domain.log,
                "value_type": "int"}  # fmt: skip
    if parameter.is_categorical:
        # Ax treats two values as ordered in any case, and ordered ones must be sorted.
        return {"name": name, "type": "choice", "values": list(range(parameter.cells)), "value_type": "int",
                "is_ordered": parameter.cells == 2, "sort_values": True}  # fmt: skip
    if parameter.edges is not None:
        middles = (parameter.edges[1:] + parameter.edges[:-1]) / 2
        values = [domain.from_unit(float(middle)) for middle in middles]
        return {"name": name, "type": "choice", "values": values, "is_ordered": True, "sort_values": True,
                "value_type": "int" if isinstance(domain, Integer) else "float"}  # fmt: skip
    low, high = domain.from_unit(0.0001), domain.from_unit(0.9999)
    return {"name": name, "type": "range", "bounds": [low, high], "value_type": "float"}
