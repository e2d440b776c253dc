"""What is special about each searcher: order and counts, learning, warm starts, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_tune import search_space as tune
from kernel_tune.errors import SearchSpaceError
from kernel_tune.searchers import (
    FINISHED,
    BasicVariantGenerator,
    BOHBSearch,
    CMAESSearch,
    GPSearch,
    GridSearch,
    NelderMeadSearch,
    RandomSearch,
    Searcher,
    SobolSearch,
    TPESearch,
)

BOX = {"x": tune.uniform(-1, 1), "y": tune.uniform(-1, 1)}


def bowl(config: dict[str, Any]) -> float:
    return (config["x"] - 0.3) ** 2 + (config["y"] + 0.4) ** 2


def play(searcher: Searcher, trials: int, loss: Callable[[dict[str, Any]], float] = bowl, width: int = 1) -> list[Any]:
    """Run trials, `width` at a time, oldest first; return their losses."""
    losses: list[float] = []
    running: list[tuple[str, dict[str, Any]]] = []
    for number in range(trials):
        config = searcher.suggest(str(number))
        if isinstance(config, dict):
            running.append((str(number), config))
        if len(running) >= width or config is None:
            trial_id, ended = running.pop(0)
            losses.append(loss(ended))
            searcher.on_trial_complete(trial_id, {"loss": losses[-1]})
    return losses


def everything(searcher: Searcher) -> list[Any]:
    """Ask until it is finished."""
    configs = []
    while (config := searcher.suggest(str(len(configs)))) != FINISHED:
        configs.append(config)
    return configs


LEARNING = [
    (TPESearch, 60), (lambda **o: TPESearch(multivariate=False, **o), 60), (BOHBSearch, 80), (CMAESSearch, 80),
    (NelderMeadSearch, 40), (GPSearch, 25),
]  # fmt: skip


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize(("make", "trials"), LEARNING)
def test_searchers_that_learn_beat_chance(make: Any, trials: int, width: int) -> None:
    ours = [min(play(make(space=BOX, metric="loss", mode="min", seed=s), trials, width=width)) for s in range(5)]
    chance = [min(play(RandomSearch(BOX, "loss", "min", seed=s), trials)) for s in range(5)]
    assert np.median(ours) < np.median(chance) / 2


@pytest.mark.parametrize(("make", "trials"), LEARNING)
def test_the_mode_is_heeded(make: Any, trials: int) -> None:
    searcher = make(space=BOX, metric="loss", mode="max", seed=0)
    assert max(play(searcher, trials, lambda config: -bowl(config))) > -0.02


@pytest.mark.parametrize("make", [TPESearch, BOHBSearch, CMAESSearch, NelderMeadSearch, GPSearch])
def test_what_was_evaluated_before_is_learned_from(make: Any) -> None:
    def first(warm: bool) -> float:
        distances = []
        for seed in range(5):
            searcher = make(space=BOX, metric="loss", mode="min", seed=seed)
            if warm:
                generator = np.random.default_rng(seed)
                for _ in range(40):
                    config = {"x": generator.uniform(-1, 1), "y": generator.uniform(-1, 1)}
                    searcher.add_evaluated_point(config, bowl(config))
            distances += [bowl(searcher.suggest(str(n))) for n in range(3)]
        return float(np.median(distances))

    assert first(warm=True) < first(warm=False) / 2


def test_evaluated_rewards_replace_trials() -> None:
    points = [{"x": 0.0, "y": 0.0}, {"x": 0.5, "y": 0.5}]
    tried = RandomSearch(BOX, "loss", "min", points_to_evaluate=points)
    assert [tried.suggest("0"), tried.suggest("1")] == points
    told = RandomSearch(BOX, "loss", "min", points_to_evaluate=points, evaluated_rewards=[1, 2])
    assert told.suggest("0") not in points
    with pytest.raises(SearchSpaceError, match=r"2 points_to_evaluate and 1 evaluated_rewards"):
        RandomSearch(BOX, points_to_evaluate=points, evaluated_rewards=[1])


def test_a_searcher_needs_a_space_without_grids() -> None:
    with pytest.raises(SearchSpaceError, match=r"TPESearch has no search space: give it `space`"):
        TPESearch().suggest("0")
    with pytest.raises(SearchSpaceError, match=r"'a' is a grid_search"):
        TPESearch({"a": tune.grid_search([1])})
    with pytest.raises(SearchSpaceError, match=r"search space is list: it must be a dict"):
        TPESearch([1])  # type: ignore[arg-type]
    own = TPESearch(BOX, "loss", "min")
    assert own.set_search_properties("other", "max", {"z": 1}) is False and (own.metric, own.mode) == ("loss", "min")


def test_a_state_of_another_space_is_refused() -> None:
    saved = RandomSearch(BOX).get_state()
    with pytest.raises(SearchSpaceError, match=r"a search space with x, y; this one has z"):
        RandomSearch({"z": tune.uniform(0, 1)}).set_state(saved)
    late = RandomSearch()
    late.set_state(saved)
    with pytest.raises(SearchSpaceError, match=r"a search space with x, y"):
        late.set_search_properties("loss", "min", {"z": tune.uniform(0, 1)})


def test_functions_give_what_follows_from_what_was_chosen() -> None:
    space = {**BOX, "sum": tune.sample_from(lambda spec: spec.config.x + spec.config.y)}
    config = TPESearch(space, "loss", "min", seed=1).suggest("0")
    assert isinstance(config, dict) and config["sum"] == config["x"] + config["y"]


def test_basic_variants_count_and_repeat() -> None:
    space = {"a": tune.grid_search([1, 2, 3]), "b": tune.grid_search(["x", "z"]), "c": tune.uniform(0, 1)}
    searcher = BasicVariantGenerator(random_state=3)
    assert searcher.total_samples is None
    searcher.set_search_properties(None, None, space, num_samples=2)
    assert searcher.total_samples == 12
    configs = everything(searcher)
    assert len(configs) == 12 and len({c["c"] for c in configs}) == 12
    assert [(c["a"], c["b"]) for c in configs[:6]] == [(c["a"], c["b"]) for c in configs[6:]]
    again = BasicVariantGenerator(space=space, num_samples=2, random_state=np.random.default_rng(3))
    assert everything(again) == configs


def test_basic_variants_with_points_to_evaluate() -> None:
    space = {"a": tune.grid_search([1, 2]), "b": tune.randint(0, 3)}
    points = [{"a": 2, "b": 2}, {"a": 1}, {"b": 2}]
    searcher = BasicVariantGenerator(points, space=space, num_samples=4, seed=0)
    assert searcher.total_samples == 1 + 1 + 2 + 2
    configs = everything(searcher)
    assert configs[0] == {"a": 2, "b": 2} and configs[1]["a"] == 1
    assert configs[2:4] == [{"a": 1, "b": 2}, {"a": 2, "b": 2}] and len(configs) == 6


def test_basic_variants_shuffled_constant_and_limited() -> None:
    space = {"a": tune.grid_search(list(range(20))), "c": tune.uniform(0, 1)}
    shuffled = everything(BasicVariantGenerator(space=space, shuffle=True, constant_grid_search=True, seed=1))
    assert sorted(c["a"] for c in shuffled) == list(range(20)) != [c["a"] for c in shuffled]
    assert len({c["c"] for c in shuffled}) == 1
    limited = BasicVariantGenerator(space=space, max_concurrent=2)
    assert [limited.suggest("0") is None, limited.suggest("1") is None, limited.suggest("2")] == [False, False, None]
    limited.on_trial_complete("0")
    assert isinstance(limited.suggest("2"), dict)
    endless = BasicVariantGenerator(space={"x": tune.uniform(0, 1)}, num_samples=-1)
    assert endless.total_samples is None and all(isinstance(endless.suggest(str(n)), dict) for n in range(50))


def test_grid_search_tries_every_combination_once() -> None:
    space = {
        "n": tune.randint(3),
        "x": tune.loguniform(1e-2, 1),
        "m": tune.choice([{"k": tune.randint(2)}, "none", {"j": tune.grid_search(["ab", 1])}]),
    }
    searcher = GridSearch(space, points=3)
    configs = everything(searcher)
    assert searcher.total_samples == len(configs) == 3 * 3 * (2 + 1 + 2) == len({repr(c) for c in configs})
    assert sorted({round(c["x"], 9) for c in configs}) == [0.01, 0.1, 1.0]
    assert [c["n"] for c in configs[:4]] == [0, 1, 2, 0]
    assert sorted(map(repr, everything(GridSearch(space, points=3, shuffle=True, seed=1)))) == sorted(
        map(repr, configs)
    )
    with pytest.raises(SearchSpaceError, match="points is 0"):
        GridSearch(space, points=0)


def test_sobol_points_fill_the_space_evenly() -> None:
    searcher = SobolSearch(BOX, seed=3)
    points = np.array([[c["x"], c["y"]] for c in (searcher.suggest(str(n)) for n in range(128)) if isinstance(c, dict)])
    counts, *_ = np.histogram2d(points[:, 0], points[:, 1], bins=8, range=[[-1, 1], [-1, 1]])
    assert (counts == 2).all(), "each of the 64 boxes has two points"
    rest = SobolSearch(BOX, seed=3, skip=100)
    assert [rest.suggest(str(n)) for n in range(28)] == [{"x": x, "y": y} for x, y in points[100:]]


def test_tpe_with_several_metrics_finds_the_front() -> None:
    def share_near_front(searcher: Searcher) -> float:
        near = 0
        for number in range(80):
            config = searcher.suggest(str(number))
            assert isinstance(config, dict)
            near += number >= 30 and config["y"] < -0.7 and abs(config["x"]) <= 0.6
            worse = (config["y"] + 1) * 3
            result = {"cost": (config["x"] + 0.5) ** 2 + worse, "gain": -((config["x"] - 0.5) ** 2) - worse}
            searcher.on_trial_complete(str(number), result if number % 7 else {"cost": 1.0})
        return near / 50

    tpe = TPESearch(BOX, metric=["cost", "gain"], mode=["min", "max"], seed=1)
    assert (tpe.metric, tpe.mode) == (["cost", "gain"], ["min", "max"])
    assert share_near_front(tpe) > 3 * share_near_front(RandomSearch(BOX, "cost", "min", seed=1))
    with pytest.raises(ValueError, match="give 'min' or 'max' for each of the metrics cost, gain"):
        TPESearch(BOX, metric=["cost", "gain"], mode=["min"])


def test_running_trials_keep_suggestions_apart() -> None:
    def spread(liar: bool) -> float:
        searcher = TPESearch(BOX, "loss", "min", seed=2, constant_liar=liar)
        play(searcher, 40)
        configs = [searcher.suggest(f"many{n}") for n in range(12)]
        return float(np.std([[c["x"], c["y"]] for c in configs if isinstance(c, dict)], axis=0).mean())

    assert spread(liar=True) > 1.2 * spread(liar=False)


def test_bohb_goes_by_the_largest_budget_with_enough_results() -> None:
    searcher = BOHBSearch({"x": tune.uniform(0, 1)}, metric="loss", mode="min", seed=0, random_fraction=0)
    generator = np.random.default_rng(0)
    for number in range(30):
        config = searcher.suggest(str(number))
        assert isinstance(config, dict)
        # At the small budget large values look good, at the large one small values do.
        small = {"loss": -config["x"], "hyperband_info": {"budget": 1}}
        searcher.on_trial_result(str(number), small)
        if generator.random() < 0.6:
            searcher.on_trial_result(str(number), {"loss": config["x"], "hyperband_info": {"budget": 9}})
        searcher.on_trial_complete(str(number), small)
    assert np.median([searcher.suggest(f"more{n}")["x"] for n in range(20)]) < 0.3  # type: ignore[index]


def test_bohb_pauses_do_not_count_as_running() -> None:
    searcher = BOHBSearch(BOX, {"min_points_in_model": 5}, "loss", "min", max_concurrent=1)
    assert isinstance(searcher.suggest("0"), dict) and searcher.suggest("1") is None
    searcher.on_pause("0")
    assert isinstance(searcher.suggest("1"), dict)
    searcher.on_unpause("0")
    searcher.on_trial_complete("1", {"loss": 1})
    assert searcher.suggest("2") is None
    with pytest.raises(ValueError, match="bohb_config has no 'eta': it has min_points_in_model"):
        BOHBSearch(BOX, {"eta": 3})


def test_cmaes_chooses_integers_and_categories() -> None:
    space = {"n": tune.randint(0, 50), "kind": tune.choice(list("abcdef")), "x": tune.uniform(0, 1)}

    def loss(config: dict[str, Any]) -> float:
        return abs(config["n"] - 41) / 50 + (config["kind"] != "e") + config["x"]

    assert np.median([min(play(CMAESSearch(space, "loss", "min", seed=s), 150, loss)) for s in range(3)]) < 0.1


def test_cmaes_begins_again_elsewhere() -> None:
    searcher = CMAESSearch({"x": tune.uniform(0, 1)}, "loss", "min", seed=0, tolerance=1e-2)

    def two_valleys(config: dict[str, Any]) -> float:
        return min(abs(config["x"] - 0.5) + 0.1, 5 * abs(config["x"] - 0.93))

    assert min(play(searcher, 300, two_valleys)) < 0.1


def test_nelder_mead_says_nothing_rather_than_guess() -> None:
    searcher = NelderMeadSearch(BOX, "loss", "min")
    assert all(isinstance(searcher.suggest(str(n)), dict) for n in range(3)) and searcher.suggest("3") is None
    for number in range(3):
        searcher.on_trial_complete(str(number), {"loss": float(number)})
    asked = [searcher.suggest(f"step{n}") for n in range(5)]
    assert all(isinstance(config, dict) for config in asked[:4]) and asked[4] is None


@pytest.mark.parametrize("acquisition", ["ei", "ucb", "poi"])
def test_acquisitions_of_gp(acquisition: str) -> None:
    searcher = GPSearch(BOX, "loss", "min", seed=0, acquisition=acquisition)
    assert min(play(searcher, 30)) < 1e-3
    alike = GPSearch(BOX, "loss", "min", seed=0, utility_kwargs={"kind": acquisition, "kappa": 2.576, "xi": 0.0})
    assert alike.suggest("0") == GPSearch(BOX, "loss", "min", seed=0).suggest("0")
    with pytest.raises(ValueError, match=r"acquisition, or kind in utility_kwargs, is 'best', but must be one of ei, "):
        GPSearch(BOX, acquisition="best")
    with pytest.raises(ValueError, match=r"utility_kwargs has 'kapa', but may only have 'kind', 'kappa' and 'xi'$"):
        GPSearch(BOX, utility_kwargs={"kapa": 1.0})


def test_gp_keeps_running_trials_apart_and_tries_nothing_twice() -> None:
    searcher = GPSearch({"n": tune.randint(0, 12), "k": tune.choice(["a", "b"])}, "loss", "min", seed=0)
    seen = [searcher.suggest(str(n)) for n in range(6)]
    for number in range(6):
        searcher.on_trial_complete(str(number), {"loss": float(number)})
    more = [searcher.suggest(f"more{n}") for n in range(8)]
    assert len({repr(config) for config in more}) >= 7
    assert not any(config in seen for config in more)


def test_gp_is_fitted_to_so_many_points_at_most() -> None:
    searcher = GPSearch(BOX, "loss", "min", seed=0, most_points=40)
    generator = np.random.default_rng(0)
    for _ in range(2000):
        config = {"x": generator.uniform(-1, 1), "y": generator.uniform(-1, 1)}
        searcher.add_evaluated_point(config, bowl(config))
    searcher.suggest("0")
    points, losses = searcher._chosen(searcher._history.points, searcher._history.losses[:, 0])
    assert len(points) == 40 and losses.min() == searcher._history.losses.min()
