"""SlateQ: its slates are the best ones, its losses those of the paper, and its values right where they are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.algorithms.slateq import CLICKED, SlateQ, choice_loss, value_loss
from kernel_rllib.data import columns
from kernel_rllib.data.batch import Batch
from kernel_rllib.envs.context import EnvContext
from kernel_rllib.envs.games.long_term_satisfaction import LongTermSatisfaction
from kernel_rllib.envs.making import make_vector
from kernel_rllib.errors import ConfigError, EnvError, ModuleError
from kernel_rllib.exploration.slates import SlateEpsilonGreedy, best_slates
from kernel_rllib.modules.slate_network import CHOICE_LOGITS, SlateLayout, SlateNetwork
from kernel_rllib.nn.numpy_ops import NumpyOps
from kernel_rllib.spaces.nested import leaves
from kernel_rllib.testing.losses import in_float64, loss_and_gradient, twin_and_gradient
from kernel_rllib.testing.reference import slate_q

SMALL = {
    "env": LongTermSatisfaction,
    "env_config": {"num_candidates": 4, "max_episode_steps": 10},
    "seed": 1,
    "num_envs": 4,
    "fcnet_hiddens_per_candidate": [8],
    "train_batch_size": 16,
    "num_steps_sampled_before_learning_starts": 16,
    "target_network_update_freq": 32,
    "min_sample_timesteps_per_iteration": 64,
    "min_time_s_per_iteration": 0,
    "store_buffer_in_checkpoints": True,
}


def made(**settings: Any) -> SlateQ:
    return SlateQ({**SMALL, **settings})


@pytest.mark.parametrize(("documents", "size"), [(3, 1), (5, 2), (7, 3), (4, 4)])
def test_the_best_slates_are_those_of_all_there_are(documents: int, size: int) -> None:
    generator = np.random.default_rng(documents)
    values = generator.normal(size=(200, documents + 1)) * 10
    logits = generator.normal(size=(200, documents + 1)) * 2
    slates, found = best_slates(values, logits, size)
    for row in range(200):
        expected, value = slate_q.best_slate(values[row], logits[row], size)
        assert found[row] == pytest.approx(value, rel=1e-12)
        assert set(slates[row].tolist()) == expected
        assert slate_q.slate_value(values[row], logits[row], slates[row].tolist()) == pytest.approx(value, rel=1e-12)


def test_a_document_that_lures_users_from_a_better_one_is_left_out() -> None:
    values, logits = np.array([[10.0, 4.0, 3.0, 0.0]]), np.array([[0.0, 5.0, 0.0, 0.0]])
    assert set(best_slates(values, logits, 2)[0][0].tolist()) == {0, 2}, "the first by v Q would be 1 and 0"


def test_slates_are_random_as_often_as_it_is_said_and_have_each_document_once() -> None:
    sampling = SlateEpsilonGreedy(5, 3, 0.25)
    outputs = {"q_values": np.tile([9.0, 8, 7, 1, 0, 0], (4000, 1)), CHOICE_LOGITS: np.zeros((4000, 6))}
    noise = np.random.default_rng(0).random((4000, sampling.noise.width))
    slates = sampling.choose(NumpyOps(), outputs, noise, 0)
    assert all(len(set(slate)) == 3 for slate in slates.tolist())
    is_best = np.all(np.sort(slates, axis=1) == [0, 1, 2], axis=1)
    assert 1 - is_best.mean() == pytest.approx(0.25 * 0.9, abs=0.02)  # one of ten slates is the best by chance
    others = slates[~is_best]
    assert len({tuple(sorted(slate)) for slate in others.tolist()}) == 9
    assert sampling.info(0) == {"cur_epsilon": 0.25}


def layout() -> SlateLayout:
    env = LongTermSatisfaction(SMALL["env_config"])
    return SlateLayout.of(env.observation_space, env.action_space)


def batch_of(module: SlateNetwork, generator: np.random.Generator, rows: int = 6) -> Batch:
    width = 1 + 4 + 2 * 3
    slates = np.stack([generator.permutation(4)[:2] for _ in range(rows)])
    return Batch({
        columns.OBS: generator.random((rows, width)).astype(np.float32),
        columns.ACTIONS: slates,
        CLICKED: np.arange(rows) % 3,
        columns.VALUE_TARGETS: generator.normal(size=rows).astype(np.float32),
        columns.WEIGHTS: generator.random(rows).astype(np.float32),
    })  # fmt: skip


@pytest.mark.parametrize("which", [0, 1])
def test_losses_and_gradients_are_those_of_the_paper(which: int) -> None:
    module, generator = SlateNetwork(layout(), (5, 4)), np.random.default_rng(3)
    vector, batch = module.initial(generator).astype(np.float64), in_float64(batch_of(module, generator))

    def twin(**outputs: Any) -> float:
        return slate_q.losses(
            outputs["q_values"], outputs[CHOICE_LOGITS], batch[columns.ACTIONS], batch[CLICKED],
            batch[columns.VALUE_TARGETS], batch[columns.WEIGHTS],
        )[which]  # fmt: skip

    loss = (value_loss(None), choice_loss())[which]
    metrics, gradient = loss_and_gradient(loss, module, vector, batch)
    names = (columns.Q_VALUES, CHOICE_LOGITS)
    value, expected = twin_and_gradient(twin, names, module, vector, batch)
    assert metrics[("total_loss", "choice_loss")[which]] == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-9)


def test_a_bound_makes_the_error_of_values_that_of_huber() -> None:
    module, generator = SlateNetwork(layout(), (5,)), np.random.default_rng(3)
    vector, batch = module.initial(generator), batch_of(module, generator)
    batch[columns.VALUE_TARGETS] += 100
    metrics = loss_and_gradient(value_loss(2.0), module, vector, batch)[0]
    expected = (batch[columns.WEIGHTS] * 2 * (np.abs(metrics["td_errors"]) - 1)).mean()
    assert metrics["total_loss"] == pytest.approx(expected, rel=1e-5)


def test_targets_are_those_of_the_paper() -> None:
    algorithm = made()
    algorithm.train()
    batch = algorithm.draw()
    found = algorithm.targets_of(batch)
    module = algorithm.learner.module
    inputs = {columns.OBS: batch[columns.NEXT_OBS]}
    outputs = algorithm.learner.evaluate(lambda nn, p: module.train(nn, p, inputs), algorithm.target.vector)
    values, logits = (outputs[name].astype(float) for name in (columns.Q_VALUES, CHOICE_LOGITS))
    expected = slate_q.targets(values, logits, batch[columns.REWARDS], batch["discounts"], 2)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_what_was_clicked_on_is_told_by_the_next_observation() -> None:
    env = LongTermSatisfaction(SMALL["env_config"])
    env.reset(seed=0)
    places = set()
    for _ in range(30):
        seen, reward, *_ = env.step(np.array([2, 0]))
        flat = spaces.flatten(env.observation_space, seen)[None]
        clicked = int(layout().clicked(flat)[0])
        assert (reward > 0) == (clicked < 2)
        assert [response["click"] for response in seen["response"]] == [clicked == 0, clicked == 1]
        places.add(clicked)
        pairs = layout().pairs(flat)[0]
        np.testing.assert_allclose(pairs[:-1, 0], seen["user"][0])
        np.testing.assert_allclose(pairs[:-1, 1], [seen["doc"][str(number)][0] for number in range(4)])
        np.testing.assert_array_equal(pairs[-1], [seen["user"][0], 0, 1])
    assert places == {0, 1, 2}


class Toy(gymnasium.Env[Any, Any]):
    """Two moods and three documents, which all are told by: a document brings a reward by the mood, and sets the next.

    Document 0 brings most now, and a mood in which all bring little; document 2 brings nothing, and a good mood.
    """

    rewards = np.array([[2.0, 1.0, 0.0, 0.0], [1.0, 0.2, 0.0, 0.0]])
    following = np.array([[1, 0, 0, 0], [1, 1, 0, 1]])
    logits = np.log(np.array([[3.0, 1.0, 1.0, 0.5], [1.0, 1.0, 2.0, 0.5]]))

    def __init__(self, config: Any = None) -> None:
        response = spaces.Dict({"click": spaces.Discrete(2)})
        self._size = int(config["size"])
        self.observation_space = spaces.Dict({
            "user": spaces.Box(0, 1, (2,), np.float32),
            "doc": spaces.Box(0, 1, (3, 3), np.float32),
            "response": spaces.Tuple([response] * self._size),
        })  # fmt: skip
        self.action_space = spaces.MultiDiscrete([3] * self._size)
        self._mood = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._mood = 0
        return self._seen(None), {}

    def step(self, action: Any) -> Any:
        shown = [*action.tolist(), 3]
        masses = np.exp(self.logits[self._mood][shown])
        place = int(self.np_random.choice(len(shown), p=masses / masses.sum()))
        reward = self.rewards[self._mood][shown[place]]
        self._mood = int(self.following[self._mood][shown[place]])
        return self._seen(place), reward, False, False, {}

    def _seen(self, place: int | None) -> Any:
        return {
            "user": np.eye(2, dtype=np.float32)[self._mood],
            "doc": np.eye(3, dtype=np.float32),
            "response": tuple({"click": int(each == place)} for each in range(self._size)),
        }


def exact(size: int, gamma: float) -> Any:
    """Return what consuming each document, and none, is worth in each mood [2, 4], by value iteration."""
    values = np.zeros((2, 4))
    for _ in range(500):
        states = [slate_q.best_slate(values[mood], Toy.logits[mood], size)[1] for mood in (0, 1)]
        values = Toy.rewards + gamma * np.array(states)[Toy.following]
    return values


@pytest.mark.parametrize("size", [1, 2])
def test_values_of_documents_are_the_exact_ones_in_a_toy(size: int) -> None:
    algorithm = SlateQ({
        "env": Toy, "env_config": {"size": size}, "seed": 1, "num_envs": 8, "gamma": 0.8,
        "lr": [[0, 0.01], [6000, 1e-3]], "fcnet_hiddens_per_candidate": [32], "train_batch_size": 64,
        "training_intensity": 16, "horizon": 50,
        "num_steps_sampled_before_learning_starts": 200, "target_network_update_freq": 64,
        "exploration_config": {"type": "SlateEpsilonGreedy", "epsilon": 1.0}, "min_time_s_per_iteration": 0,
        "replay_buffer_config": {"type": "EpisodeReplayBuffer", "capacity": 10_000},
    })  # fmt: skip
    while algorithm.env_steps_sampled < 7000:
        algorithm.train()
    obs = np.concatenate([np.tile(np.eye(3).ravel(), (2, 1)), np.zeros((2, 2 * size)), np.eye(2)], axis=1)
    module = algorithm.learner.module
    inputs = {columns.OBS: obs.astype(np.float32)}
    outputs = algorithm.learner.evaluate(lambda nn, p: module.train(nn, p, inputs))
    expected = exact(size, 0.8)
    np.testing.assert_allclose(outputs[columns.Q_VALUES], expected, atol=0.25)
    best, _ = best_slates(outputs[columns.Q_VALUES], outputs[CHOICE_LOGITS], size)
    for mood in (0, 1):
        assert set(best[mood].tolist()) == slate_q.best_slate(expected[mood], Toy.logits[mood], size)[0]
        shares = np.exp(outputs[CHOICE_LOGITS][mood] - outputs[CHOICE_LOGITS][mood, -1]) * 0.5
        np.testing.assert_allclose(shares, np.exp(Toy.logits[mood]), rtol=0.35)


def test_it_goes_on_after_a_checkpoint_with_the_same_bits(tmp_path: Path) -> None:
    straight, resumed = made(), made()
    straight.train()
    resumed.restore(straight.save(str(tmp_path / "checkpoint")))
    for algorithm in (straight, resumed):
        algorithm.train()
    assert resumed.learner.weights.tobytes() == straight.learner.weights.tobytes()
    loaded = SlateQ.from_checkpoint(str(tmp_path / "checkpoint"), trust=True)
    loaded.train()
    assert loaded.learner.weights.tobytes() == straight.learner.weights.tobytes()


@pytest.mark.usefixtures("session")
def test_the_bits_are_the_same_for_any_number_of_runners() -> None:
    found = []
    for runners in (0, 2):
        algorithm = made(num_env_runners=runners)
        algorithm.train()
        found.append(algorithm.learner.weights.tobytes())
        algorithm.stop()
    assert found[0] == found[1]


def test_single_slates_are_the_best_known() -> None:
    algorithm = made()
    seen = algorithm.spaces.observation.sample()
    slate = algorithm.compute_single_action(seen, explore=False)
    assert algorithm.spaces.action.contains(slate) and len(set(slate.tolist())) == 2


def space_of(**changed: Any) -> Any:
    known = dict(LongTermSatisfaction(SMALL["env_config"]).observation_space.spaces)
    return spaces.Dict({name: space for name, space in {**known, **changed}.items() if space is not None})


DISCRETE = spaces.Dict({"click": spaces.Discrete(2)})
SLATE = spaces.MultiDiscrete([4, 4])


@pytest.mark.parametrize(
    ("observation", "action", "said"),
    [
        (space_of(), spaces.Discrete(4), r"a slate is an action of MultiDiscrete\(\[documents\] \* size\), but the"),
        (space_of(), spaces.MultiDiscrete([4, 3]), "a slate is an action of MultiDiscrete"),
        (space_of(doc=None, user=None), SLATE, "Dict of user, doc and response, but user, doc are missing in"),
        (spaces.Box(0, 1, (3,)), SLATE, "but user, doc, response are missing in Box"),
        (space_of(doc=spaces.Box(0, 1, (3, 2))), SLATE, r"choose from 4 documents, so observations\['doc'\] is a Dict"),
        (space_of(response=spaces.Tuple([DISCRETE])), SLATE, "a slate has 2 documents, so observations.'response'. is"),
    ],
)  # fmt: skip
def test_spaces_that_are_none_of_slates_are_refused(observation: Any, action: Any, said: str) -> None:
    with pytest.raises(ModuleError, match=said):
        SlateLayout.of(observation, action)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"env": "CartPole-v1", "env_config": {}}, "SlateQConfig: a slate is an action of MultiDiscrete"),
        ({"n_step": 3}, "n_step=3: what was consumed is told one step later, so n_step has to be 1"),
        (
            {"exploration_config": {"type": "SoftQ"}},
            "slates are explored by the type 'SlateEpsilonGreedy' with initial",
        ),
        ({"model": {"fcnet_hiddens": [4]}}, "has no effect on SlateQ: give the layers to fcnet_hiddens_per_candidate"),
    ],
)
def test_what_does_not_fit_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        made(**settings)


def test_chocolate_pays_at_once_and_kale_later() -> None:
    def played(worst: int, steps: int) -> float:
        env = LongTermSatisfaction({"sensitivity": 0.3, "max_episode_steps": None, "num_candidates": 6})
        env.reset(seed=1)
        total = 0.0
        for _ in range(steps):
            order = np.argsort(worst * env.game.documents[:, 0])
            total += float(env.step(order[:2])[1])
        return total / steps

    assert played(1, 1500) > 1.3 * played(-1, 1500)


def test_satisfaction_follows_what_is_read() -> None:
    env = LongTermSatisfaction({"innovation_stddev": 0.0, "no_click_mass": 0.0, "sensitivity": 0.5, "slate_size": 1})
    env.reset(seed=4)
    exposure = float(env.game.exposure[0])
    for _ in range(5):
        shown = float(env.game.documents[3, 0])
        seen, *_ = env.step(np.array([3]))
        exposure = 0.7 * exposure + 1 - 2 * shown
        assert seen["user"][0] == pytest.approx(1 / (1 + np.exp(-0.5 * exposure)), abs=1e-6)


def test_documents_are_in_the_order_of_their_numbers() -> None:
    env = LongTermSatisfaction({"num_candidates": 12})
    seen, _ = env.reset(seed=0)
    assert list(env.observation_space["doc"]) == list(seen["doc"]) == [f"{number:02}" for number in range(12)]
    found = SlateLayout.of(env.observation_space, env.action_space)
    pairs = found.pairs(spaces.flatten(env.observation_space, seen)[None])[0]
    np.testing.assert_allclose(pairs[:-1, 1], env.game.documents[:, 0])


def test_many_users_are_stepped_like_one() -> None:
    one, many = (
        make_vector(LongTermSatisfaction, 3, EnvContext({"num_candidates": 4}), kind=kind)
        for kind in ("loop", "native")
    )
    seen = [env.reset([1, 2, 3]) for env in (one, many)]
    for step in range(12):
        for ours, theirs in zip(*map(leaves, seen), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        steps = [env.step(np.array([[0, 1], [2, 3], [step % 4, (step + 1) % 4]])) for env in (one, many)]
        np.testing.assert_array_equal(steps[0].rewards, steps[1].rewards)
        seen = [each.obs for each in steps]


def test_slates_have_as_many_documents_as_there_can_be() -> None:
    with pytest.raises(EnvError, match="slate_size is 11, but a slate has from 1 to num_candidates=10 documents"):
        LongTermSatisfaction({"slate_size": 11})
