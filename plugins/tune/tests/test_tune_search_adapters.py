"""What searchers that ask other libraries have in common, without any of these libraries."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest
from kernel_tune import search_space as tune
from kernel_tune import searchers
from kernel_tune.errors import OptionalDependencyError, SearchSpaceError
from kernel_tune.optional import needed
from kernel_tune.searchers.adapters.library import LibrarySearcher
from kernel_tune.testing.searchers import SearcherConformance

ADAPTERS = {
    "ax": "AxSearch",
    "bayes_opt": "BayesOptSearch",
    "dragonfly": "DragonflySearch",
    "hebo": "HEBOSearch",
    "hyperopt": "HyperOptSearch",
    "nevergrad": "NevergradSearch",
    "optuna": "OptunaSearch",
    "skopt": "SkOptSearch",
    "zoopt": "ZOOptSearch",
}


class Dice:
    """A library: it proposes values, and remembers what it is told."""

    def __init__(self, sizes: dict[str, int], seed: int | None) -> None:
        self.random = random.Random(seed)
        self.sizes = sizes
        self.told: list[tuple[Any, float]] = []

    def roll(self) -> dict[str, float]:
        return {name: self.random.random() for name in self.sizes}


class DiceSearch(LibrarySearcher):
    """The smallest adapter there is."""

    def _open(self) -> Any:
        names = self._native if self._flat is None else self._parameters
        return Dice({name: 6 for name in names}, self._seed)

    def _ask(self) -> tuple[Any, Any]:
        rolled = self._optimizer.roll()
        return rolled, rolled if self._flat is None else self._values_at(list(rolled.values()))

    def _tell(self, handle: Any, loss: float) -> None:
        self._optimizer.told.append((handle, loss))


class TestDiceSearch(SearcherConformance):
    make_searcher = staticmethod(DiceSearch)


def test_a_space_of_the_library_is_handed_to_it() -> None:
    searcher = DiceSearch({"one": (1, 6), "two": (1, 6)}, "loss", "max", seed=1)
    config = searcher.suggest("0")
    assert isinstance(config, dict) and set(config) == {"one", "two"}
    assert searcher.set_search_properties("loss", "max", {"x": tune.uniform(0, 1)}) is False
    searcher.on_trial_complete("0", {"loss": 3.0})
    assert searcher._optimizer.told == [(config, -3.0)]


def test_failures_and_rewards_are_told() -> None:
    space = {"x": tune.uniform(0, 1)}
    searcher = DiceSearch(space, "loss", "min", points_to_evaluate=[{"x": 0.25}], evaluated_rewards=[7.0], seed=1)
    searcher.add_evaluated_point({"x": 0.5}, 2.0, error=True)
    searcher.suggest("0")
    searcher.on_trial_complete("0", {"loss": float("nan")})
    assert [loss for _, loss in searcher._optimizer.told] == [7.0, float("inf"), float("inf")]
    with pytest.raises(SearchSpaceError, match="1 points_to_evaluate and 2 evaluated_rewards"):
        DiceSearch(space, points_to_evaluate=[{"x": 0.25}], evaluated_rewards=[7.0, 1.0])
    with pytest.raises(SearchSpaceError, match="DiceSearch has no search space"):
        DiceSearch().suggest("0")


@pytest.mark.parametrize("module", sorted(ADAPTERS))
def test_a_missing_library_says_what_to_install(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(OptionalDependencyError, match=r"is not installed\. Run: pip install '?[a-zA-Z-]+"):
        getattr(searchers, ADAPTERS[module])(space={"x": tune.uniform(0, 1)})


def test_a_broken_library_shows_its_own_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_library.py").write_text("import a_module_that_nobody_has\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(
        OptionalDependencyError, match=r"'broken_library', which fails to import \(ModuleNotFoundError: "
    ) as caught:
        needed("broken_library", "SomeSearch", "broken-library")
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)
