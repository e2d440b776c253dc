"""A searcher that asks ZOOpt."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any

from kernel_runs.optional import needed
from kernel_tune.errors import SearchSpaceError
from kernel_tune.search_space.randomness import global_randomness_from
from kernel_tune.searchers.adapters.library import LibrarySearcher


class ZOOptSearch(LibrarySearcher):
    """Asks ZOOpt's asynchronous racing (pip install zoopt), which plans for `budget` trials.

    `dim_dict` is a space of tune's, or of ZOOpt's dimensions by name: `(ValueType.CONTINUOUS, [low, high], precision)`,
    `(ValueType.DISCRETE, [low, high], has_order)`, `(ValueType.GRID, values)`. `algo` is "asracos" or "sracos". The
    default mode is "min", as in the library itself. Raises SearchSpaceError without a budget, and for another `algo`.
    """

    def __init__(self, algo: str = "asracos", budget: int | None = None, dim_dict: dict[str, Any] | None = None,
                 metric: str | None = None, mode: str | None = None,
                 points_to_evaluate: Sequence[dict[str, Any]] | None = None, parallel_num: int = 1,
                 space: dict[str, Any] | None = None, seed: int | None = None,
                 evaluated_rewards: Sequence[float] | None = None, **options: Any) -> None:  # fmt: skip
        self._library = needed("zoopt", "ZOOptSearch", "zoopt")
        if budget is None:
            raise SearchSpaceError(
                "ZOOptSearch: budget is missing; give the number of configurations that it may try, such as budget=100"
            )
        if algo.lower() not in ("asracos", "sracos"):
            raise SearchSpaceError(f"ZOOptSearch: algo is {algo!r}, but must be 'asracos' or 'sracos'")
        options.pop("max_concurrent", None)
        space = dim_dict if space is None else space
        super().__init__(space, metric, mode, points_to_evaluate, evaluated_rewards, seed)
        self._budget = budget
        self._parallel = parallel_num
        self._options = options
        self._worst = 0.0

    @property
    def mode(self) -> Any:
        """ "max" or "min"."""
        return self._mode or "min"

    def _open(self) -> Any:
        types, racing = (
            importlib.import_module("zoopt.dimension").ValueType,
            importlib.import_module("zoopt.algos.opt_algorithms.racos.sracos"),
        )
        if self._flat is None:
            dimensions = list(self._native.values())
        else:
            dimensions = [
                (types.DISCRETE, [0, parameter.cells - 1], not parameter.is_categorical)
                if parameter.cells
                else (types.CONTINUOUS, [0.0, 1.0], 1e-12)
                for parameter in self._parameters.values()
            ]
        with global_randomness_from(self._generator):
            return racing.SRacosTune(
                dimension=self._library.Dimension2(dimensions), parallel_num=self._parallel,
                parameter=self._library.Parameter(budget=self._budget), **self._options,
            )  # fmt: skip

    def _ask(self) -> tuple[Any, Any] | str | None:
        with global_randomness_from(self._generator):
            asked = self._optimizer.suggest()
            if asked is None and not self._live:
                # It waits for the end of its first trials without noticing that they have ended already.
                self._optimizer.semaphore = 1
                asked = self._optimizer.suggest()
        if asked is None or isinstance(asked, str):
            return asked
        numbers = [value.item() if hasattr(value, "item") else value for value in asked.get_x()]
        if self._flat is None:
            return asked, dict(zip(self._native, numbers, strict=True))
        units = []
        for number, parameter in zip(numbers, self._parameters.values(), strict=True):
            edges = parameter.edges
            units.append(float(number) if edges is None else float(edges[number : number + 2].mean()))
        return asked, self._values_at(units)

    def _ask_for(self, chosen: Any) -> tuple[Any, Any]:
        # The library takes no given points once it has begun.
        return None, chosen

    def _tell(self, handle: Any, loss: float) -> None:
        # It waits for all points that it has proposed, so a failed trial is reported as worse than all others.
        self._worst = max(self._worst, loss) if math.isfinite(loss) else self._worst
        with global_randomness_from(self._generator):
            self._optimizer.complete(handle, loss if math.isfinite(loss) else self._worst + 1.0)
