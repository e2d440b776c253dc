"""Estimators with a model of values: exact on a chain of two states whose episodes can all be counted, and in runs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from kernel_rllib.data.batch import Batch
from kernel_rllib.errors import ConfigError, DataError
from kernel_rllib.offline.estimators.batch_estimator import BatchEstimator
from kernel_rllib.offline.estimators.batch_importance_sampling import ImportanceSampling, WeightedImportanceSampling
from kernel_rllib.offline.estimators.direct_method import DirectMethod
from kernel_rllib.offline.estimators.doubly_robust import DoublyRobust
from kernel_rllib.offline.estimators.fitted_q import FittedQEvaluation
from kernel_rllib.offline.estimators.importance_sampling import ImportanceSamplingEstimator
from kernel_rllib.offline.json_writer import JsonWriter
from kernel_rllib.training.registry import algorithm_class

GAMMA, HORIZON = 0.9, 3
MOVES = np.array([[[0.8, 0.2], [0.3, 0.7]], [[0.5, 0.5], [0.1, 0.9]]])
"""How likely each state [s, a, s'] comes next."""
REWARDS = np.array([[1.0, 0.0], [-0.5, 2.0]])
"""What each action brings [s, a]."""
RECORDED = np.array([[0.6, 0.4], [0.7, 0.3]])
"""How likely each action was in each state."""
ASKED = np.array([[0.2, 0.8], [0.5, 0.5]])
"""How likely it is by the policy that is estimated."""
PLACES = 2 * HORIZON
"""An observation says which of so many pairs of a step and a state this is: a one in a row of zeros."""


class Table:
    """A policy of two states."""

    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, shares: Any) -> None:
        self._shares = shares

    def compute_log_likelihoods(self, actions: Any, obs_batch: Any) -> Any:
        return np.log(self._shares[np.asarray(obs_batch).argmax(axis=1) % 2, actions])


def values(shares: Any) -> np.ndarray[Any, Any]:
    """Return what each action is worth at each step [T, s, a], by going back from the end."""
    found, after = np.zeros((HORIZON, 2, 2)), np.zeros(2)
    for t in reversed(range(HORIZON)):
        found[t] = REWARDS + GAMMA * MOVES @ after
        after = (shares * found[t]).sum(axis=1)
    return found


def value(shares: Any) -> float:
    """Return what a policy is worth from state 0."""
    return float((shares * values(shares)[0]).sum(axis=1)[0])


class TableModel:
    """A model of values that is right, or wrong by what is added."""

    def __init__(self, policy: Any, gamma: float, wrong: float = 0.0) -> None:
        assert gamma == GAMMA
        noise = np.random.default_rng(1).normal(size=(HORIZON, 2, 2))
        self.q = (values(ASKED) + wrong * noise).reshape(PLACES, 2)
        self.policy, self.trained = policy, 0

    def train(self, batch: Batch) -> float:
        self.trained += batch.count
        return 0.5

    def estimate_q(self, batch: Batch) -> Any:
        return self.q[batch["obs"].argmax(axis=1), batch["actions"]]

    def estimate_v(self, batch: Batch) -> Any:
        places = batch["obs"].argmax(axis=1)
        shares = [np.exp(self.policy.compute_log_likelihoods(np.full(len(places), a), batch["obs"])) for a in (0, 1)]
        return (np.stack(shares, axis=1) * self.q[places]).sum(axis=1)


def episode(states: Any, actions: Any) -> Batch:
    """Return an episode; its last observation is of no step."""
    t, places = np.arange(HORIZON), (np.array(states[:HORIZON]), np.array(actions))
    rows = np.eye(PLACES, dtype=np.float32)[2 * t + places[0]]
    return Batch(
        obs=rows, new_obs=np.concatenate([rows[1:], np.zeros((1, PLACES), np.float32)]), actions=places[1],
        rewards=REWARDS[places], action_prob=RECORDED[places], dones=t == HORIZON - 1,
    )  # fmt: skip


def episodes() -> Iterator[tuple[float, Batch]]:
    """Yield each episode that there can be, with how likely the recorded policy plays it."""
    for actions in itertools.product((0, 1), repeat=HORIZON):
        for later in itertools.product((0, 1), repeat=HORIZON - 1):
            states = (0, *later)
            chance = float(np.prod([RECORDED[s, a] for s, a in zip(states, actions, strict=True)]))
            moves = zip(states, actions, states[1:], strict=False)
            chance *= float(np.prod([MOVES[s, a, following] for s, a, following in moves]))
            yield chance, episode(states, actions)


def sampled(count: int, seed: int) -> list[Batch]:
    """Return episodes that the recorded policy plays."""
    random, made = np.random.default_rng(seed), []
    for number in range(count):
        states, actions = [0], []
        for _ in range(HORIZON):
            actions.append(int(random.random() < RECORDED[states[-1], 1]))
            states.append(int(random.random() < MOVES[states[-1], actions[-1], 1]))
        made.append(Batch(episode(states, actions), eps_id=np.full(HORIZON, number)))
    return made


def joined(batches: list[Batch]) -> Batch:
    found = Batch.concat_samples(batches)
    assert isinstance(found, Batch)
    return found


def mean_of(estimator: BatchEstimator) -> tuple[float, float]:
    """Return the mean of an estimator over all episodes, by how likely they are, and the variance."""
    found = [(chance, estimator.estimate_on_single_episode(batch)["v_target"]) for chance, batch in episodes()]
    mean = sum(chance * each for chance, each in found)
    return mean, sum(chance * (each - mean) ** 2 for chance, each in found)


def test_doubly_robust_has_no_bias_whatever_the_model_is() -> None:
    spreads = []
    for wrong in (0.0, 1.0, 20.0):
        model = {"type": TableModel, "wrong": wrong}
        mean, spread = mean_of(DoublyRobust(Table(ASKED), GAMMA, q_model_config=model))
        np.testing.assert_allclose(mean, value(ASKED), rtol=1e-12)
        spreads.append(spread)
    assert spreads[0] < spreads[1] < spreads[2]
    plain = mean_of(ImportanceSampling(Table(ASKED), GAMMA))
    np.testing.assert_allclose(plain[0], value(ASKED), rtol=1e-12)
    assert spreads[0] < plain[1]  # a right model makes it vary less


def test_doubly_robust_is_right_by_the_model_where_probabilities_are_wrong() -> None:
    """What is seen differs from a right model by 0 on average, however it is weighed."""
    estimator = DoublyRobust(Table(ASKED), GAMMA, q_model_config={"type": TableModel})
    total = 0.0
    for chance, batch in episodes():
        batch["action_prob"] = np.full(HORIZON, 0.9)
        total += chance * estimator.estimate_on_single_episode(batch)["v_target"]
    np.testing.assert_allclose(total, value(ASKED), rtol=1e-12)


def test_doubly_robust_is_the_formula_of_the_paper() -> None:
    (batch,) = sampled(1, 5)
    model = TableModel(Table(ASKED), GAMMA, 1.0)
    q, v, expected = model.estimate_q(batch), model.estimate_v(batch), 0.0
    for t in reversed(range(HORIZON)):
        state = int(batch["obs"][t].argmax() % 2)
        ratio = ASKED[state, batch["actions"][t]] / batch["action_prob"][t]
        expected = v[t] + ratio * (batch["rewards"][t] + GAMMA * expected - q[t])
    estimator = DoublyRobust(Table(ASKED), GAMMA, q_model_config={"type": TableModel, "wrong": 1.0})
    found = estimator.estimate(batch)
    np.testing.assert_allclose(found["v_target"], expected, rtol=1e-12)
    np.testing.assert_allclose(found["v_behavior"], batch["rewards"] @ GAMMA ** np.arange(HORIZON), rtol=1e-12)


def test_the_direct_method_is_what_its_model_says() -> None:
    estimator = DirectMethod(Table(ASKED), GAMMA, q_model_config={"type": TableModel})
    batch = joined(sampled(20, 2))
    for each in (batch, batch.only([name for name in batch if name != "action_prob"])):
        found = estimator.estimate(each)
        np.testing.assert_allclose(found["v_target"], value(ASKED), rtol=1e-12)
        assert found["v_target_std"] < 1e-12 < found["v_behavior_std"]
    assert estimator.train(batch) == {"loss": 0.5} and estimator.model.trained == 60  # type: ignore[attr-defined]


def test_means_are_over_episodes_and_gains_beside_what_was_recorded() -> None:
    batches = sampled(50, 3)
    found = ImportanceSampling(Table(ASKED), GAMMA).estimate(joined(batches))
    old = ImportanceSamplingEstimator(Table(ASKED), GAMMA)
    each = [old.estimate(batch).metrics for batch in batches]
    for name, of_old in (("v_behavior", "V_prev"), ("v_target", "V_step_IS")):
        column = [one[of_old] for one in each]
        np.testing.assert_allclose([found[name], found[f"{name}_std"]], [np.mean(column), np.std(column)], rtol=1e-12)
    np.testing.assert_allclose(found["v_gain"], found["v_target"] / found["v_behavior"], rtol=1e-12)
    np.testing.assert_allclose(found["v_delta"], found["v_target"] - found["v_behavior"], rtol=1e-12)


def test_weighted_sampling_divides_by_the_mean_ratio_of_each_step_in_the_batch() -> None:
    batches = sampled(30, 4)
    batches[2] = batches[2].slice(0, 2)  # a shorter one counts in the first steps only
    ratios = [
        np.cumprod([ASKED[int(row["obs"].argmax() % 2), row["actions"]] / row["action_prob"] for row in batch.rows()])
        for batch in batches
    ]
    means = [np.mean([each[t] for each in ratios if len(each) > t]) for t in range(HORIZON)]
    expected = np.mean([
        sum(r / means[t] * reward * GAMMA**t for t, (r, reward) in enumerate(zip(each, batch["rewards"], strict=True)))
        for each, batch in zip(ratios, batches, strict=True)
    ])  # fmt: skip
    found = WeightedImportanceSampling(Table(ASKED), GAMMA).estimate(joined(batches))
    np.testing.assert_allclose(found["v_target"], expected, rtol=1e-12)


def test_single_steps_are_estimated_as_if_each_were_an_episode() -> None:
    batch = joined(sampled(40, 6)).only(["obs", "actions", "rewards", "action_prob"])  # says nothing of episodes
    states = batch["obs"].argmax(axis=1) % 2
    ratios, rewards = ASKED[states, batch["actions"]] / batch["action_prob"], batch["rewards"]
    model = TableModel(Table(ASKED), GAMMA)
    q, v = model.estimate_q(batch), model.estimate_v(batch)
    even, right = ratios / ratios.mean(), {"q_model_config": {"type": TableModel}}
    expected = {
        ImportanceSampling(Table(ASKED), GAMMA): ratios * rewards,
        WeightedImportanceSampling(Table(ASKED), GAMMA): even * rewards,
        DirectMethod(Table(ASKED), GAMMA, **right): v,  # type: ignore[arg-type]
        DoublyRobust(Table(ASKED), GAMMA, **right): v + even * (rewards - q),  # type: ignore[arg-type]
        DoublyRobust(Table(ASKED), GAMMA, normalize_weights=False, **right): v + ratios * (rewards - q),  # type: ignore[arg-type]
    }
    for estimator, each in expected.items():
        found = estimator.estimate(batch, split_batch_by_episode=False)
        np.testing.assert_allclose([found["v_target"], found["v_target_std"]], [each.mean(), each.std()], rtol=1e-12)
        np.testing.assert_allclose(found["v_behavior"], rewards.mean(), rtol=1e-12)


def test_a_policy_may_be_taken_to_act_at_random_at_times() -> None:
    mixed = Table(0.7 * ASKED + 0.3 / 2)
    batch = joined(sampled(10, 7))
    model = {"q_model_config": {"type": TableModel, "wrong": 1.0}}
    for kind, own in ((ImportanceSampling, {}), (DirectMethod, model), (DoublyRobust, model)):
        found = kind(Table(ASKED), GAMMA, epsilon_greedy=0.3, **own).estimate(batch)  # type: ignore[arg-type]
        expected = kind(mixed, GAMMA, **own).estimate(batch)  # type: ignore[arg-type]
        np.testing.assert_allclose(found["v_target"], expected["v_target"], rtol=1e-12)


def test_fitted_values_are_those_of_the_policy_whatever_was_recorded() -> None:
    """Each episode that there can be is in the batch as often as it is likely: then one-hot values are exact."""
    counts = [(round(chance * 20_000), batch) for chance, batch in episodes()]
    batch = joined([each for count, each in counts for _ in range(count // 100)])
    estimator = DirectMethod(Table(ASKED), GAMMA, q_model_config={
        "type": FittedQEvaluation, "model_config": {"fcnet_hiddens": []}, "n_iters": 150, "lr": 0.02,
        "minibatch_size": 128, "min_loss_threshold": 0.0,
    })  # fmt: skip
    estimator.train(batch)
    # What the batch says of moves, by counting: the values of the policy there.
    places, actions = batch["obs"].argmax(axis=1), batch["actions"]
    exact, after = np.zeros((PLACES, 2)), np.zeros(PLACES + 1)
    following = np.where(batch["dones"], PLACES, batch["new_obs"].argmax(axis=1))
    for place, action in itertools.product(reversed(range(PLACES)), (0, 1)):
        here = (places == place) & (actions == action)
        if here.any():
            exact[place, action] = (batch["rewards"][here] + GAMMA * after[following[here]]).mean()
        after[place] = (ASKED[place % 2] * exact[place]).sum()
    np.testing.assert_allclose(estimator.model.estimate_q(batch), exact[places, actions], atol=0.1)
    np.testing.assert_allclose(estimator.estimate(batch)["v_target"], after[0], atol=0.05)
    assert abs(after[0] - value(ASKED)) < 0.05 < abs(value(RECORDED) - value(ASKED))


def fitted(batch: Batch, **settings: Any) -> tuple[float, Any]:
    model = FittedQEvaluation(Table(ASKED), GAMMA, **settings)
    return model.train(batch), model.estimate_q(batch)


def test_settings_have_their_effects_by_all_their_names_and_the_same_seed_gives_the_same_bits() -> None:
    batch = joined(sampled(20, 8))
    loss, found = fitted(batch, n_iters=3, minibatch_size=16, polyak_coef=0.5)
    again = fitted(batch, n_iters=3, batch_size=16, tau=0.5, delta=1e-4, model={"fcnet_hiddens": [32, 32]})
    assert again[0] == loss and again[1].tobytes() == found.tobytes()
    others: list[dict[str, Any]] = [
        {"seed": 1}, {"n_iters": 2}, {"minibatch_size": 8}, {"polyak_coef": 1.0}, {"lr": 0.1}, {"clip_grad_norm": 1e-3},
        {"model_config": {"fcnet_hiddens": [32, 32], "fcnet_activation": "tanh"}}, {"min_loss_threshold": 1e9},
    ]  # fmt: skip
    for other in others:
        changed = fitted(batch, **{"n_iters": 3, "minibatch_size": 16, "polyak_coef": 0.5, **other})
        assert changed[1].tobytes() != found.tobytes(), other
    once = {"n_iters": 1, "minibatch_size": 16, "polyak_coef": 0.5}
    assert fitted(batch, **once)[0] == fitted(batch, **{**once, "n_iters": 9, "min_loss_threshold": 1e9})[0]


def test_values_go_on_where_an_episode_was_only_cut_off() -> None:
    (batch,) = sampled(1, 9)
    cut = Batch(batch, terminateds=np.zeros(HORIZON, bool), truncateds=batch["dones"])
    assert not np.array_equal(fitted(batch, n_iters=2)[1], fitted(cut, n_iters=2)[1])
    ended = Batch(batch, terminateds=batch["dones"], truncateds=np.zeros(HORIZON, bool))
    np.testing.assert_array_equal(fitted(batch, n_iters=2)[1], fitted(ended, n_iters=2)[1])


class Continuous:
    action_space = gymnasium.spaces.Box(-1, 1, (2,))


def test_what_does_not_fit_is_refused() -> None:
    (batch,) = sampled(1, 3)
    for kind in (DirectMethod, DoublyRobust, FittedQEvaluation):
        with pytest.raises(ConfigError, match=r"fitted Q evaluation is for discrete actions, .*Box.*: take Importance"):
            kind(Continuous(), GAMMA)
    with pytest.raises(ConfigError, match="epsilon_greedy is for discrete actions"):
        ImportanceSampling(Continuous(), GAMMA, epsilon_greedy=0.1)
    with pytest.raises(ConfigError, match="has no setting 'n_iter'; did you mean 'n_iters'"):
        FittedQEvaluation(Table(ASKED), GAMMA, n_iter=3)
    with pytest.raises(ConfigError, match="no 'fcnet_hidden'; did you mean 'fcnet_hiddens'"):
        FittedQEvaluation(Table(ASKED), GAMMA, model_config={"fcnet_hidden": [4]})
    with pytest.raises(ConfigError, match="q_model_config has the type 'fqe': give a class with train, estimate_q"):
        DirectMethod(Table(ASKED), GAMMA, q_model_config={"type": "fqe"})
    with pytest.raises(DataError, match="needs the columns new_obs, and the batch has action_prob, actions"):
        FittedQEvaluation(Table(ASKED), GAMMA).train(batch.only([name for name in batch if name != "new_obs"]))
    with pytest.raises(ConfigError, match=r"are of the shape \[4, 4, 3\]: give q_model_config a type"):
        FittedQEvaluation(Table(ASKED), GAMMA).estimate_v(Batch(obs=np.zeros((1, 4, 4, 3))))
    with pytest.raises(DataError, match="has neither action_prob nor action_logp"):
        DoublyRobust(Table(ASKED), GAMMA).estimate(batch.only(["obs", "actions", "rewards", "dones"]))
    with pytest.raises(DataError, match="DirectMethod was given a batch without steps"):
        DirectMethod(Table(ASKED), GAMMA).estimate(Batch())


SMALL: dict[str, Any] = {
    "env": None, "observation_space": gymnasium.spaces.Box(0, 1, (PLACES,), np.float32), "seed": 1,
    "action_space": gymnasium.spaces.Discrete(2), "num_env_runners": 0, "train_batch_size": 60, "lr": 0.0,
    "gamma": GAMMA, "model": {"fcnet_hiddens": [4]}, "rollout_fragment_length": 60,
}  # fmt: skip


def recorded(path: Path, *, probabilities: bool = True) -> str:
    """Write episodes, and return their folder."""
    writer = JsonWriter(str(path))
    for batch in sampled(20, 4):
        batch["rewards"] = batch["rewards"].astype(np.float32)
        writer.write(batch if probabilities else batch.only([name for name in batch if name != "action_prob"]))
    writer.close()
    return str(path)


def test_runs_that_read_fit_a_model_and_estimate_by_it(tmp_path: Path) -> None:
    fqe = {"q_model_config": {"type": FittedQEvaluation, "n_iters": 3, "lr": 0.01}}
    methods = {
        "dm": {"type": DirectMethod, **fqe}, "dr": {"type": "dr", **fqe},
        "sampled": {"type": f"{ImportanceSampling.__module__}.ImportanceSampling"},
    }  # fmt: skip
    settings = {**SMALL, "input_": recorded(tmp_path), "off_policy_estimation_methods": methods}
    algorithm = algorithm_class("MARWIL")(settings)
    found = algorithm.train()["off_policy_estimator"]
    policy, batch = algorithm.get_policy(), joined(sampled(20, 4))
    batch["rewards"] = batch["rewards"].astype(np.float32)
    expected = DoublyRobust(policy, GAMMA, **fqe)  # type: ignore[arg-type]
    loss = expected.train(batch)
    for name, value_of in {**expected.estimate(batch), **loss}.items():
        np.testing.assert_allclose(found["dr"][name], value_of, rtol=1e-3)
    np.testing.assert_allclose(found["dm"]["v_behavior"], found["sampled"]["v_behavior"])
    assert found["dm"]["loss"] == found["dr"]["loss"] and "loss" not in found["sampled"]
    assert algorithm.train()["off_policy_estimator"]["dm"]["loss"] < found["dm"]["loss"]  # it goes on learning
    algorithm.stop()


def test_the_direct_method_needs_no_probabilities_and_steps_may_be_estimated(tmp_path: Path) -> None:
    settings = {**SMALL, "input_": recorded(tmp_path, probabilities=False), "ope_split_batch_by_episode": False}
    algorithm = algorithm_class("BC")({**settings, "off_policy_estimation_methods": {"mine": {"type": "dm"}}})
    rewards = joined(sampled(20, 4))["rewards"]
    found = algorithm.train()["off_policy_estimator"]["mine"]
    np.testing.assert_allclose(
        [found["v_behavior"], found["v_behavior_std"]], [rewards.mean(), rewards.std()], rtol=1e-4
    )
    algorithm.stop()
    with pytest.raises(DataError, match="action_logp"):
        algorithm_class("MARWIL")({**settings, "off_policy_estimation_methods": {"dr": {"type": "dr"}}}).train()


def test_old_estimators_see_single_steps_as_well(tmp_path: Path) -> None:
    settings = {**SMALL, "input_": recorded(tmp_path), "ope_split_batch_by_episode": False}
    algorithm = algorithm_class("MARWIL")({**settings, "off_policy_estimation_methods": {"is": {"type": "is"}}})
    rewards = joined(sampled(20, 4))["rewards"]
    np.testing.assert_allclose(algorithm.train()["off_policy_estimator"]["is"]["V_prev"], rewards.mean(), rtol=1e-4)
    algorithm.stop()


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ({"type": "drr"}, "the estimator 'mine' is 'drr'; did you mean 'dr'?.*: take is, wis, dm, dr, or a class"),
        ({"type": "os.path"}, "the estimator 'mine' is 'os.path'.*: take is, wis"),
        ({"type": "dr", "q_model_type": "qreg", "k": 5}, "has (k and q_model_type|q_model_type and k), of RLlib 1.x"),
        (
            {"type": "dm", "q_model": {}},
            "has no setting 'q_model'; did you mean 'q_model_config'.*: DirectMethod has epsilon_greedy, q_",
        ),
        ({"type": "is", "gama": 1}, "has no setting 'gama': ImportanceSamplingEstimator has none"),
    ],
)
def test_methods_that_are_none_are_refused(method: dict[str, Any], said: str, tmp_path: Path) -> None:
    settings = {**SMALL, "input_": recorded(tmp_path), "off_policy_estimation_methods": {"mine": method}}
    with pytest.raises(ConfigError, match=said):
        algorithm_class("MARWIL")(settings)
