"""Without a seed of its own an experiment follows those of the program: `numpy.random.seed` and `random.seed`."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from kernel_tune.schedulers import PopulationBasedTraining
from kernel_tune.searchers import RandomSearch
from kernel_tune.testing.world import make_world

from kernel import tune

pytestmark = pytest.mark.usefixtures("results")


def configurations(space: dict[str, Any], **arguments: Any) -> list[dict[str, Any]]:
    analysis = tune.run(lambda config: {"loss": 1}, config=space, num_samples=3, verbose=0, **arguments)
    return [trial.config for trial in analysis.trials]


def seeded(module: Any) -> None:
    module.seed(5)


@pytest.mark.parametrize("search", [None, "random", "tpe"])
def test_domains_follow_the_seed_of_numpy(session: None, search: str | None) -> None:
    space = {"x": tune.uniform(0, 1), "many": tune.choice(range(1000))}
    found = []
    for _ in range(2):
        np.random.seed(5)
        found.append(configurations(space, search_alg=search))
    assert found[0] == found[1] != configurations(space, search_alg=search)


@pytest.mark.parametrize(("module", "draws"), [(random, random.random), (np.random, np.random.rand)])
def test_functions_follow_the_generator_that_they_draw_from(session: None, module: Any, draws: Any) -> None:
    space = {"x": tune.sample_from(lambda spec: draws())}
    found = []
    for _ in range(2):
        seeded(module)
        found.append(configurations(space))
    assert found[0] == found[1] != configurations(space)
    assert len({config["x"] for config in found[0]}) == 3


def test_the_seed_of_the_experiment_comes_first(session: None) -> None:
    space = {"x": tune.uniform(0, 1), "y": tune.sample_from(lambda spec: random.random())}
    seeded(random)
    first = configurations(space, seed=1)
    assert first == configurations(space, seed=1) != configurations(space, seed=2)


def test_single_draws_follow_the_seed_of_numpy() -> None:
    drawn = []
    for _ in range(2):
        np.random.seed(5)
        drawn.append((tune.uniform(0, 1).sample(), tune.randint(0, 10**9).sample(size=2)))
    assert drawn[0] == drawn[1] and tune.uniform(0, 1).sample() != drawn[0][0]
    points = []
    for _ in range(2):
        np.random.seed(5)
        searcher = RandomSearch({"x": tune.uniform(0, 1)}, metric="score", mode="max")
        points.append([searcher.suggest(str(number)) for number in range(3)])
    assert points[0] == points[1]


def test_a_population_follows_the_seed_of_random(session: None) -> None:
    class Walks(tune.Trainable):
        def step(self) -> dict[str, Any]:
            return {"score": self.config["x"], "done": self.iteration == 5}

        def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
            return {}

        def load_checkpoint(self, checkpoint: Any) -> None:
            pass

    def ends() -> list[float]:
        seeded(random)
        seeded(np.random)
        scheduler = PopulationBasedTraining(
            "training_iteration", perturbation_interval=1, hyperparam_mutations={"x": tune.uniform(0, 1)}, synch=True
        )
        analysis = tune.run(
            Walks, config={"x": tune.uniform(0, 1)}, num_samples=4, scheduler=scheduler, metric="score", mode="max",
            verbose=0,
        )  # fmt: skip
        return [trial.config["x"] for trial in analysis.trials]

    assert ends() == ends()


def test_what_was_drawn_for_an_experiment_is_drawn_again_when_it_resumes() -> None:
    """The seeds are part of its state: those of the program may be others then."""
    import pickle

    from kernel_tune.searchers import BasicVariantGenerator

    space = {"x": tune.sample_from(lambda spec: random.random())}

    def world() -> Any:
        searcher = BasicVariantGenerator(random_state=1, functions_seed=2)
        return make_world(searcher, PopulationBasedTraining("training_iteration", hyperparam_mutations={"y": [1]}),
                          space, lambda config, state, at: 1.0, samples=4, cpus=1)  # fmt: skip

    whole = world()
    whole.run()
    searcher = BasicVariantGenerator(random_state=1, functions_seed=2, space=space, num_samples=4)
    first = searcher.suggest("a")
    again = BasicVariantGenerator(random_state=9, functions_seed=9, space=space, num_samples=4)
    again.set_state(pickle.loads(pickle.dumps(searcher.get_state())))
    assert [config["x"] for config in (first, again.suggest("b"), again.suggest("c"))] == [
        trial.config["x"] for trial in whole.loop.trials[:3]
    ]
