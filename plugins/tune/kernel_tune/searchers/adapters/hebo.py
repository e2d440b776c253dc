"""A searcher that asks HEBO."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from kernel_runs.optional import needed
from kernel_tune.errors import SearchSpaceError
from kernel_tune.search_space.flat import Parameter
from kernel_tune.search_space.randomness import global_randomness_from
from kernel_tune.searchers.adapters.library import LibrarySearcher, Values

_INSTALL = "'HEBO>=0.3.6' 'GPy<1.14' 'numpy<1.25' 'pandas<2.3'"
"""The versions of HEBO and of its dependencies that work together. By itself pip installs a broken older HEBO."""


class HEBOSearch(LibrarySearcher):
    """Asks a `HEBO` (pip install 'HEBO>=0.3.6' 'GPy<1.14' 'numpy<1.25' 'pandas<2.3', so Python 3.11 at most;
    heteroscedastic evolutionary Bayesian optimisation).

    `space` is one of tune's, or a `DesignSpace` of HEBO's. HEBO chooses several points at once, as many as may still
    run, which is `max_concurrent` in the beginning. With 1 each choice is made with all results before it.
    `random_state_seed` is the seed; other arguments are passed to the `HEBO` that is made. Raises SearchSpaceError for
    `max_concurrent` below 1.
    """

    def __init__(self, space: Any = None, metric: str | None = None, mode: str | None = None,
                 points_to_evaluate: Sequence[dict[str, Any]] | None = None,
                 evaluated_rewards: Sequence[float] | None = None, random_state_seed: int | None = None,
                 max_concurrent: int = 8, seed: int | None = None, **hebo_options: Any) -> None:  # fmt: skip
        self._library = needed("hebo.optimizers.hebo", "HEBOSearch", _INSTALL)
        if not isinstance(max_concurrent, int) or max_concurrent < 1:
            raise SearchSpaceError(f"max_concurrent is {max_concurrent!r}: at least one trial must be able to run")
        seed = random_state_seed if seed is None else seed
        super().__init__(space, metric, mode, points_to_evaluate, evaluated_rewards, seed)
        self._max_concurrent = max_concurrent
        self._options = hebo_options
        self._chosen: list[dict[str, Any]] = []
        """The points that HEBO has chosen for trials to come."""

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        self._max_concurrent = max_concurrent
        return True

    def suggest(self, trial_id: str) -> dict[str, Any] | str | None:
        return None if len(self._live) >= self._max_concurrent else super().suggest(trial_id)

    def _open(self) -> Any:
        space = self._native
        if self._flat is not None:
            design = needed("hebo.design_space.design_space", "HEBOSearch", _INSTALL).DesignSpace()
            space = design.parse([_parameter(f"x{n}", p) for n, p in enumerate(self._parameters.values())])
        with self._seeded() as seed:
            return self._library.HEBO(space, **{"scramble_seed": seed, **self._options})

    def _ask(self) -> tuple[Any, Any]:
        if not self._chosen:
            with self._seeded():
                frame = self._optimizer.suggest(n_suggestions=self._max_concurrent - len(self._live))
            self._chosen = [
                {str(name): value.item() if hasattr(value, "item") else value for name, value in row.items()}
                for row in frame.to_dict("records")
            ]
        row = self._chosen.pop(0)
        return row, row if self._flat is None else self._read(row)

    def _ask_for(self, chosen: Any) -> tuple[Any, Any]:
        return chosen if self._flat is None else self._write(chosen), chosen

    def _tell(self, handle: Any, loss: float) -> None:
        if math.isfinite(loss):
            pandas = needed("pandas", "HEBOSearch", _INSTALL)
            frame = pandas.DataFrame([handle], columns=self._optimizer.space.para_names)
            self._optimizer.observe(frame, np.array([[loss]]))

    @contextmanager
    def _seeded(self) -> Iterator[int]:
        """Seed the draws of HEBO from numpy and torch by the searcher's generator, and provide a seed."""
        torch = needed("torch", "HEBOSearch", _INSTALL)
        with (
            global_randomness_from(self._generator), _new_generators_from(self._generator),
            torch.random.fork_rng(devices=[]),
        ):  # fmt: skip
            seed = int(self._generator.integers(2**31 - 1))
            torch.manual_seed(seed)
            yield seed

    def _read(self, row: dict[str, Any]) -> Values:
        """Return HEBO's numbers as values. Ordered parameters with few values are numbers of cells there."""
        units = []
        for number, parameter in enumerate(self._parameters.values()):
            value, edges = row[f"x{number}"], parameter.edges
            units.append(float(value) if edges is None else float(edges[int(value) : int(value) + 2].mean()))
        return self._values_at(units)

    def _write(self, values: Values) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for number, (unit, parameter) in enumerate(zip(self._units_of(values), self._parameters.values(), strict=True)):
            row[f"x{number}"] = unit if parameter.edges is None else int(parameter.cell_of(unit))
        return row


@contextmanager
def _new_generators_from(generator: np.random.Generator) -> Iterator[None]:
    """Seed numpy generators that are made without a seed from `generator`, during a `with` block. pymoo, which HEBO
    optimises with, makes such generators."""
    make = np.random.default_rng

    def seeded(seed: Any = None) -> np.random.Generator:
        return make(int(generator.integers(2**63 - 1)) if seed is None else seed)

    np.random.default_rng = seeded  # type: ignore[assignment]
    try:
        yield
    finally:
        np.random.default_rng = make


def _parameter(name: str, parameter: Parameter) -> dict[str, Any]:
    if parameter.is_categorical:
        return {"name": name, "type": "cat", "categories": list(range(parameter.cells))}
    if parameter.cells:
        return {"name": name, "type": "int", "lb": 0, "ub": parameter.cells - 1}
    return {"name": name, "type": "num", "lb": 0.0, "ub": 1.0}
