"""All own searchers pass the suite that is given away."""

from __future__ import annotations

from typing import Any

from kernel_tune import search_space as tune
from kernel_tune import searchers
from kernel_tune.testing.searchers import SearcherConformance


class TestRandomSearch(SearcherConformance):
    make_searcher = staticmethod(searchers.RandomSearch)


class TestSobolSearch(SearcherConformance):
    make_searcher = staticmethod(searchers.SobolSearch)


class TestTPESearch(SearcherConformance):
    make_searcher = staticmethod(searchers.TPESearch)


class TestUnivariateTPESearch(SearcherConformance):
    make_searcher = staticmethod(lambda **options: searchers.TPESearch(multivariate=False, **options))


class TestBOHBSearch(SearcherConformance):
    make_searcher = staticmethod(searchers.BOHBSearch)


class TestCMAESSearch(SearcherConformance):
    make_searcher = staticmethod(searchers.CMAESSearch)


class TestGPSearch(SearcherConformance):
    make_searcher = staticmethod(searchers.GPSearch)
    trials = 20


class TestNelderMeadSearch(SearcherConformance):
    make_searcher = staticmethod(searchers.NelderMeadSearch)

    def space_is_a_grid(self) -> bool:
        return True  # It begins in the middle, whatever the seed.


class TestBasicVariantGenerator(SearcherConformance):
    make_searcher = staticmethod(searchers.BasicVariantGenerator)


class TestGridSearch(SearcherConformance):
    make_searcher = staticmethod(searchers.GridSearch)

    def space_is_a_grid(self) -> bool:
        return True


class TestConcurrencyLimiter(SearcherConformance):
    make_searcher = staticmethod(
        lambda **options: searchers.ConcurrencyLimiter(searchers.TPESearch(**options), 3, batch=True)
    )


class TestRepeater(SearcherConformance):
    make_searcher = staticmethod(
        lambda **options: searchers.Repeater(searchers.TPESearch(**options), 2, set_index=False)
    )


class TestGridsAndFunctions(SearcherConformance):
    """The default, with what only it can have."""

    make_searcher = staticmethod(
        lambda **options: searchers.BasicVariantGenerator(constant_grid_search=True, **options)
    )
    space: dict[str, Any] = {"a": tune.grid_search([1, 2]), "b": tune.grid_search(["x", "y"]), "shift": tune.randn()}
    point = {"a": 1, "b": "y", "shift": 0.5}
