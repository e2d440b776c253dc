"""The reference losses: gradients by formula against numerical ones, and numbers that RLax 0.1.9 gave once."""

from __future__ import annotations

import math

import numpy as np
import pytest
from kernel_rllib.testing.reference import (
    actor_critic,
    deterministic_policy_gradient,
    distributional_q_learning,
    evolution,
    policy_gradient,
    ppo,
    q_learning,
    rows,
    soft_actor_critic,
)
from kernel_rllib.testing.reference.numerical_gradients import numerical_gradient, numerical_gradients
from scipy import integrate, stats

Q1 = np.array([[-1.51, -0.64, -0.18], [-1.62, -0.14, -1.27], [0.79, 0.68, -0.08], [-1.25, 0.29, -0.64]])
Q2 = np.array([[-0.69, 1.11, -0.76], [-1.38, 0.79, 1.78], [1.61, 0.78, 2.09], [-0.36, 2.18, 2.1]])
Q3 = np.array([[-0.34, 0.41, -1.29], [-1.03, 0.57, -1.16], [0.21, 0.46, 0.14], [0.98, 1.96, 0.2]])
ACTIONS = [0, 2, 1, 1]
REWARDS = np.array([1.02, 1.51, -0.44, -0.65])
DISCOUNTS = np.array([0.9, 0.9, 0.0, 0.9])
ADVANTAGES = np.array([1.0, -2.0, 0.5, 3.0])
WEIGHTS = np.array([0.3, 1.0, 0.7, 0.2])

# [4 rows, 3 actions, 5 atoms from -2 to 2]: of the network that learns, of the target network, of one that chooses.
LOGITS = np.array([
    [[-2.41, 0.45, 1.08, 0.46, 2.13], [1.56, 0.85, -0.01, -0.85, 0.14], [0.53, -0.04, -0.28, -0.36, 0.73]],
    [[-1.68, -0.29, 0.1, 0.73, 0.73], [-0.2, -0.55, -1.14, 1.2, 0.62], [0.24, -0.7, -1.1, 1.2, 0.02]],
    [[0.51, 1.84, -1.5, -0.74, 0.4], [0.66, -1.01, -0.05, -0.57, -0.55], [0.42, 0.23, 1.21, 0.64, 1.53]],
    [[-0.79, 0.44, -1.4, -1.65, -1.38], [0.73, 0.21, -1.63, 1.32, 0.97], [-0.18, -0.24, -0.01, -1.22, 2.35]],
])  # fmt: skip
TARGET_LOGITS = np.array([
    [[-0.47, -0.2, -0.33, -0.67, -0.91], [0.33, -1.24, -1.05, -0.82, 0.8], [-1.0, -1.01, 0.32, -1.14, -0.34]],
    [[0.88, 0.4, 0.02, 1.52, -0.43], [-0.62, -1.77, 0.02, 0.62, -0.68], [1.87, 1.01, 0.91, -1.22, 0.28]],
    [[0.35, -2.06, -0.04, -0.26, -1.76], [0.48, 2.04, 0.74, -0.87, -0.27], [1.11, -0.85, 0.34, 0.02, 0.17]],
    [[1.65, -1.54, 1.17, 0.26, -0.1], [-1.68, 0.3, -0.42, -2.96, -1.38], [-1.21, -1.03, -0.62, -0.85, 1.56]],
])  # fmt: skip
CHOOSING_LOGITS = np.array([
    [[1.06, -0.09, 1.39, 2.14, 0.49], [-1.33, 0.37, 1.43, -1.01, -0.01], [0.94, 1.19, 0.85, 0.37, -0.14]],
    [[-0.57, 1.0, 0.93, -0.49, -0.69], [1.26, 1.0, -0.77, -1.66, 0.11], [0.81, 0.96, 0.82, -1.55, 0.04]],
    [[-0.39, -0.74, 2.64, -0.01, 0.25], [-0.31, 0.68, 1.16, -0.29, -0.04], [-0.45, -1.03, -0.19, 0.34, 0.01]],
    [[-0.25, -1.89, 0.33, 0.16, 1.52], [-0.66, -1.4, -1.96, -0.67, -0.09], [0.23, -1.61, -0.59, 0.99, 0.04]],
])  # fmt: skip


def near(expected: object, tolerance: float = 1e-9) -> object:
    return pytest.approx(expected, rel=tolerance, abs=tolerance)


# -- the numerical gradient, and the terms of distributions ----------------------------------------------------------


def test_finite_differences_find_the_gradient_of_a_known_function() -> None:
    point = np.array([[0.3, -0.7], [1.1, 0.2]])
    found = numerical_gradient(lambda x: float(np.sin(x).sum() + x[0, 0] * x[1, 1]), point)
    expected = np.cos(point) + np.array([[0.2, 0], [0, 0.3]])
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    assert point[0, 0] == 0.3, "the point was moved"
    both = numerical_gradients(lambda x, y: float((x * y).sum()), ["x", "y"], x=np.array([2.0]), y=np.array([3.0]))
    assert both["x"] == near([3.0], 1e-8) and both["y"] == near([2.0], 1e-8)


def test_terms_of_a_softmax_policy_are_scipys_and_rlaxs() -> None:
    terms = rows.categorical_terms(Q1, ACTIONS, Q2)
    for row in range(4):
        p, old = rows.softmax(Q1[row]), rows.softmax(Q2[row])
        assert terms.entropies[row] == near(stats.entropy(p))
        assert terms.divergences[row] == near(stats.entropy(old, p))
        assert terms.log_probs[row] == near(math.log(p[ACTIONS[row]]))
    # RLax: `categorical_kl_divergence`, `entropy_loss` (a mean with its sign turned).
    assert terms.divergences == near([0.433743883832, 0.580850859109, 0.335428767436, 0.133976036815])
    assert terms.entropies.mean() == near(0.954468851612)


def test_terms_of_a_gaussian_policy_are_scipys() -> None:
    generator = np.random.default_rng(0)
    inputs, old, actions = (generator.normal(size=(3, width)) for width in (4, 4, 2))
    terms = rows.gaussian_terms(inputs, actions, old)
    for row in range(3):
        mean, std = inputs[row, :2], np.exp(inputs[row, 2:])
        assert terms.log_probs[row] == near(stats.norm(mean, std).logpdf(actions[row]).sum())
        assert terms.entropies[row] == near(stats.norm(mean, std).entropy().sum())
        grid = np.linspace(-40, 40, 400_001)
        expected = 0.0
        for i in range(2):
            old_norm = stats.norm(old[row, i], math.exp(old[row, 2 + i]))
            log_ratio = old_norm.logpdf(grid) - stats.norm(mean[i], std[i]).logpdf(grid)
            expected += integrate.trapezoid(old_norm.pdf(grid) * log_ratio, grid)
        assert terms.divergences[row] == near(expected, 1e-6)


# -- policy gradients ------------------------------------------------------------------------------------------------


def test_policy_gradient() -> None:
    loss = policy_gradient.softmax_policy_gradient_loss
    assert loss(Q1, ACTIONS, ADVANTAGES) == near(0.183405123167)  # RLax: `policy_gradient_loss`
    found = numerical_gradients(loss, ["logits"], logits=Q1, actions=ACTIONS, returns=ADVANTAGES)
    by_formula = policy_gradient.softmax_policy_gradient(Q1, ACTIONS, ADVANTAGES)
    np.testing.assert_allclose(found["logits"], by_formula, atol=1e-8)


def test_rows_that_are_not_valid_do_not_count() -> None:
    logs = rows.categorical_terms(Q1, ACTIONS).log_probs
    valid = [True, False, True, False]
    expected = -(logs[0] * 1.0 + logs[2] * 0.5)
    assert policy_gradient.policy_gradient_loss(logs, ADVANTAGES, valid) == near(expected / 2)
    assert policy_gradient.policy_gradient_loss(logs, ADVANTAGES, valid, "sum") == near(expected)


def test_actor_critic_adds_its_terms() -> None:
    values, targets = np.array([0.1, 0.2, 0.3, 0.4]), np.array([1.0, -1.0, 0.5, 0.0])
    arguments = {"actions": ACTIONS, "advantages": ADVANTAGES, "value_targets": targets}
    options = {"value_coefficient": 0.7, "entropy_coefficient": 0.05}
    losses = actor_critic.softmax_actor_critic_loss(Q1, values, **arguments, **options)
    assert losses.policy == near(0.183405123167) and losses.entropy == near(0.954468851612)
    assert losses.value == near((0.81 + 1.44 + 0.04 + 0.16) / 8)
    assert losses.total == near(losses.policy + 0.7 * losses.value - 0.05 * losses.entropy)
    found = numerical_gradients(
        actor_critic.softmax_actor_critic_loss, ["logits", "values"], logits=Q1, values=values, **arguments, **options
    )
    np.testing.assert_allclose(found["values"], 0.7 * (values - targets) / 4, atol=1e-8)
    policy_part = policy_gradient.softmax_policy_gradient(Q1, ACTIONS, ADVANTAGES)
    entropy_part = actor_critic.softmax_entropy_gradient(Q1) / 4
    np.testing.assert_allclose(found["logits"], policy_part - 0.05 * entropy_part, atol=1e-8)
    summed = actor_critic.softmax_actor_critic_loss(Q1, values, **arguments, **options, reduction="sum")
    assert summed.total == near(4 * losses.total)


# -- PPO -------------------------------------------------------------------------------------------------------------


def ppo_of(changes: np.ndarray, **options: object) -> ppo.PPOLosses:
    nothing = np.zeros(4)
    arguments = {
        "values": nothing, "old_values": nothing, "value_targets": nothing, "entropies": nothing,
        "divergences": nothing, "advantages": ADVANTAGES,
    } | options  # fmt: skip
    return ppo.ppo_loss(changes, nothing, **arguments)


def test_ppo_clips_what_would_help_and_nothing_else() -> None:
    assert ppo_of(np.array([0.3, -0.4, 0.1, -0.05])).policy == near(
        -0.751568433135
    )  # RLax: `clipped_surrogate_pg_loss`
    slopes = numerical_gradient(lambda x: ppo_of(x).total, np.array([0.3, -0.4, 0.1, -0.05]))
    ratios = np.exp([0.1, -0.05])
    np.testing.assert_allclose(slopes, [0, 0, -ratios[0] * 0.5 / 4, -ratios[1] * 3 / 4], atol=1e-8)
    harmful = numerical_gradient(lambda x: ppo_of(x).total, np.array([-0.9, 0.9, 0.0, 0.0]))
    assert harmful[0] < 0 < harmful[1], "a change for the worse is taken back, however large it was"


def test_ppo_has_two_ways_to_clip_the_value() -> None:
    values, old, targets = np.array([5.0, 0.4, 0, 0]), np.array([0.0, 0.0, 0, 0]), np.array([1.0, 1.0, 0, 0])
    of = {"values": values, "old_values": old, "value_targets": targets}
    by_error = ppo_of(np.zeros(4), **of, value_clip=9.0)
    assert by_error.value == near((9.0 + 0.36) / 4)
    by_change = ppo_of(np.zeros(4), **of, value_clip=0.2, value_clip_of="change")
    assert by_change.value == near((16.0 + 0.64) / 4)  # the larger ones of 16 and 0.64, of 0.36 and 0.64
    assert ppo_of(np.zeros(4), **of).value == near((16 + 0.36) / 4)


def test_ppo_of_policies_is_the_sum_of_its_terms() -> None:
    values, old_values, targets = np.zeros(4), np.ones(4), np.array([1.0, 2.0, 3.0, 4.0])
    options = {"kl_coefficient": 0.3, "entropy_coefficient": 0.02, "value_coefficient": 0.5, "value_clip": 10.0}
    losses = ppo.softmax_ppo_loss(Q1, values, ACTIONS, Q2, old_values, ADVANTAGES, targets, **options)
    terms = rows.categorical_terms(Q1, ACTIONS, Q2)
    assert losses.kl == near(terms.divergences.mean()) and losses.entropy == near(terms.entropies.mean())
    assert losses.value == near((1 + 4 + 9 + 10) / 4)
    expected = losses.policy + 0.5 * losses.value + 0.3 * losses.kl - 0.02 * losses.entropy
    assert losses.total == near(expected)
    same = ppo.softmax_ppo_loss(Q1, values, ACTIONS, Q1, old_values, ADVANTAGES, targets)
    assert same.policy == near(-ADVANTAGES.mean()) and same.kl == near(0)
    slopes = numerical_gradients(
        ppo.softmax_ppo_loss, ["logits"], logits=Q1, values=values, actions=ACTIONS, old_logits=Q1,
        old_values=old_values, advantages=ADVANTAGES, value_targets=targets,
    )  # fmt: skip
    plain = policy_gradient.softmax_policy_gradient(Q1, ACTIONS, ADVANTAGES)
    np.testing.assert_allclose(slopes["logits"], plain, atol=1e-8)  # where the policies are the same


def test_ppo_of_gaussian_policies() -> None:
    generator = np.random.default_rng(1)
    inputs, actions = generator.normal(size=(4, 4)) * 0.3, generator.normal(size=(4, 2))
    old = inputs + generator.normal(size=(4, 4)) * 0.02
    losses = ppo.gaussian_ppo_loss(inputs, np.zeros(4), actions, old, np.zeros(4), ADVANTAGES, np.zeros(4))
    new, before = rows.gaussian_terms(inputs, actions, old), rows.gaussian_terms(old, actions)
    ratios = np.exp(new.log_probs - before.log_probs)
    assert (abs(ratios - 1) < 0.2).all() and losses.policy == near(-(ratios * ADVANTAGES).mean())
    assert losses.kl == near(new.divergences.mean())


@pytest.mark.parametrize(("kl", "expected"), [(0.021, 0.3), (0.019, 0.2), (0.0051, 0.2), (0.0049, 0.1)])
def test_the_penalty_follows_the_divergence(kl: float, expected: float) -> None:
    assert ppo.next_kl_coefficient(0.2, kl, 0.01) == near(expected)


# -- Q-learning ------------------------------------------------------------------------------------------------------


def test_q_learning_is_rlaxs() -> None:
    targets = q_learning.q_targets(Q2, REWARDS, DISCOUNTS)
    errors = q_learning.q_loss(Q1, ACTIONS, targets).errors
    assert errors == near([-3.529, -4.382, 1.12, -1.022])  # RLax: `q_learning`, with the sign turned
    doubled = q_learning.q_targets(Q2, REWARDS, DISCOUNTS, Q3)
    assert q_learning.q_loss(Q1, ACTIONS, doubled).errors == near([-3.529, -3.491, 1.12, -1.022])
    assert [rows.huber(x) for x in (0.3, -0.8, 1.5, -4.0)] == near([0.045, 0.32, 1.0, 3.5])  # RLax: `huber_loss`
    assert rows.huber(3.0, 0.5) == near(0.5 * (3 - 0.25))
    squares = q_learning.q_loss(Q1, ACTIONS, targets, huber_threshold=None)
    assert squares.total == near((errors**2).mean() / 2)


def test_the_gradient_of_q_learning_is_the_clipped_error() -> None:
    targets = q_learning.q_targets(Q2, REWARDS, DISCOUNTS) - 0.7  # so that errors are on both sides of the threshold
    found = numerical_gradients(
        q_learning.q_loss, ["values"], values=Q1, actions=ACTIONS, targets=targets, weights=WEIGHTS
    )
    by_formula = q_learning.q_loss_gradient(Q1, ACTIONS, targets, WEIGHTS)
    np.testing.assert_allclose(found["values"], by_formula, atol=1e-8)


def test_dueling_values_have_the_state_value_as_their_mean() -> None:
    found = q_learning.dueling_values(np.array([1.0, 2.0]), np.array([[0.5, -0.5, 3.0], [1.0, 1.0, 1.0]]))
    assert found.mean(1) == near([1.0, 2.0]) and found[0, 2] - found[0, 0] == near(2.5)


def test_prioritised_replay() -> None:
    given = q_learning.priorities(np.array([-1.0, 3.0]), 0.0)
    assert given == near([1.0, 3.0])
    chances = q_learning.sampling_probabilities(given, 0.5)
    assert chances == near(np.array([1, 3**0.5]) / (1 + 3**0.5))
    assert q_learning.sampling_probabilities(given, 0.0) == near([0.5, 0.5])
    assert q_learning.importance_weights(np.array([0.2, 0.8]), [0, 1, 1], 1.0) == near([1.0, 0.25, 0.25])
    assert q_learning.importance_weights(np.array([0.2, 0.8]), [0, 1], 0.0) == near([1.0, 1.0])


def test_c51_is_rlaxs() -> None:
    bounds = -2.0, 2.0
    targets = distributional_q_learning.categorical_targets(TARGET_LOGITS, REWARDS, DISCOUNTS, *bounds)
    losses = distributional_q_learning.categorical_loss(LOGITS, ACTIONS, targets)
    # RLax: `categorical_q_learning`, and `categorical_double_q_learning` below.
    assert losses.rows == near([1.211447502553, 1.818752997196, 1.952347711766, 1.38012350508])
    arguments = TARGET_LOGITS, REWARDS, DISCOUNTS, *bounds, CHOOSING_LOGITS
    doubled = distributional_q_learning.categorical_targets(*arguments)
    losses = distributional_q_learning.categorical_loss(LOGITS, ACTIONS, doubled, WEIGHTS)
    assert losses.rows == near([1.568049430112, 1.981513019872, 1.952347711766, 2.060749158096])
    assert losses.total == near((losses.rows * WEIGHTS).mean())
    loss = distributional_q_learning.categorical_loss
    found = numerical_gradients(loss, ["logits"], logits=LOGITS, actions=ACTIONS, targets=doubled, weights=WEIGHTS)
    by_formula = distributional_q_learning.categorical_loss_gradient(LOGITS, ACTIONS, doubled, WEIGHTS)
    np.testing.assert_allclose(found["logits"], by_formula, atol=1e-8)


@pytest.mark.parametrize(
    ("kappa", "expected"),
    [(1.0, [0.81052034, 3.938003, 0.63812, 1.99226376]), (0.0, [1.4898, 5.0931, 1.546, 2.964])],
)
def test_quantile_regression_is_rlaxs(kappa: float, expected: list[float]) -> None:
    """The same numbers as above, now as five quantiles of each action."""
    best = TARGET_LOGITS.mean(2).argmax(1)
    targets = REWARDS[:, None] + DISCOUNTS[:, None] * TARGET_LOGITS[range(4), best]
    losses = distributional_q_learning.quantile_loss(LOGITS, ACTIONS, targets, kappa=kappa)
    assert losses.rows == near(expected)  # RLax: `quantile_q_learning`


def test_the_quantile_loss_is_least_at_the_quantiles() -> None:
    """Of 0 to 99 the quantiles at levels 0.25 and 0.75 are 24.5 and 74.5, half way between two."""
    targets = np.arange(100.0)[None]

    def loss(low: float, high: float) -> float:
        quantiles = np.array([[[low, high]]])
        return distributional_q_learning.quantile_loss(quantiles, [0], targets, kappa=0.0).total

    least = loss(24.5, 74.5)
    assert all(loss(24.5 + a, 74.5 + b) > least for a in (-3, 0, 3) for b in (-3, 0, 3) if a or b)


# -- actors and critics of continuous actions ------------------------------------------------------------------------


def test_soft_actor_critic() -> None:
    targets = soft_actor_critic.soft_q_targets(
        np.array([1.0, 2.0]),
        np.array([3.0, 1.5]),
        np.array([-1.0, 0.5]),
        np.array([0.1, 0.2]),
        np.array([0.9, 0.0]),
        0.2,
    )
    assert targets == near([0.1 + 0.9 * 1.2, 0.2])
    assert soft_actor_critic.soft_q_loss(np.array([3.0, 1.0]), np.array([2.0, 4.0])) == near((1 + 9) / 4)
    huber = soft_actor_critic.soft_q_loss(np.array([1.0, 0.0]), np.array([0.0, 3.0]), np.array([1, 0.5]), 1.0)
    assert huber == near((0.5 + 0.5 * 2.5) / 2)
    policy = soft_actor_critic.soft_policy_loss(np.array([-1.0, 2.0]), np.array([5.0, 1.0]), np.array([4.0, 3.0]), 0.5)
    assert policy == near((-0.5 - 4 + 1 - 1) / 2)
    logs = np.array([-1.0, 2.0])
    assert soft_actor_critic.temperature_loss(math.log(0.5), logs, -3.0) == near(-0.5 * (-2.5))
    assert soft_actor_critic.log_temperature_loss(math.log(0.5), logs, -3.0) == near(-math.log(0.5) * (-2.5))


def test_the_density_of_squashed_actions_is_that_of_a_change_of_variables() -> None:
    inputs = np.array([[0.3, -0.2, -0.5, 0.1], [2.0, -1.0, 0.2, 0.3]])
    noise = np.array([[0.5, -1.0], [1.5, 0.1]])
    actions, log_probs = soft_actor_critic.squashed_gaussian_actions(inputs, noise)
    for row in range(2):
        expected = 0.0
        for i in range(2):
            normal, a, step = stats.norm(inputs[row, i], math.exp(inputs[row, 2 + i])), actions[row, i], 1e-6
            mass = normal.cdf(math.atanh(a + step)) - normal.cdf(math.atanh(a - step))
            expected += math.log(mass / (2 * step))
        assert log_probs[row] == near(expected, 1e-5)


def test_discrete_soft_actor_critic_is_the_mean_over_actions() -> None:
    alpha, logits = 0.3, Q3
    p = np.array([rows.softmax(row) for row in logits])
    lower = np.minimum(Q1, Q2)
    entropies = -(p * np.log(p)).sum(1)
    targets = soft_actor_critic.discrete_soft_q_targets(Q1, Q2, logits, REWARDS, DISCOUNTS, alpha)
    assert targets == near(REWARDS + DISCOUNTS * ((p * lower).sum(1) + alpha * entropies))
    policy = soft_actor_critic.discrete_soft_policy_loss(logits, Q1, Q2, alpha)
    assert policy == near((-alpha * entropies - (p * lower).sum(1)).mean())
    best = np.log(np.exp(lower / alpha) / np.exp(lower / alpha).sum(1, keepdims=True))
    slopes = numerical_gradients(
        lambda logits: soft_actor_critic.discrete_soft_policy_loss(logits, Q1, Q2, alpha), ["logits"], logits=best
    )
    np.testing.assert_allclose(slopes["logits"], 0, atol=1e-8)  # the softmax of Q / alpha is the best policy
    temperature = soft_actor_critic.discrete_temperature_loss(math.log(alpha), logits, 0.5)
    assert temperature == near(-alpha * (0.5 - entropies.mean()))


def test_deterministic_policy_gradients() -> None:
    values, others, targets = np.array([1.0, 2.0]), np.array([0.5, 3.0]), np.array([0.0, 4.0])
    arguments = np.array([0.1, 0.2]), np.array([0.9, 0.0])
    assert deterministic_policy_gradient.critic_targets(values, *arguments) == near([1.0, 0.2])
    assert deterministic_policy_gradient.critic_targets(values, *arguments, others) == near([0.55, 0.2])
    assert deterministic_policy_gradient.critic_loss(values, targets) == near((1 + 4) / 2)
    assert deterministic_policy_gradient.critic_loss(values, targets, others) == near((1 + 4 + 0.25 + 1) / 2)
    weighed = deterministic_policy_gradient.critic_loss(values, targets, None, np.array([1.0, 0.5]), 1.0)
    assert weighed == near((0.5 + 0.5 * 1.5) / 2)
    assert deterministic_policy_gradient.actor_loss(values) == near(-1.5)

    def critic(actions: np.ndarray) -> np.ndarray:
        return np.sin(actions[:, 0]) + actions[:, 0] * actions[:, 1]

    actions = np.array([[0.1, 0.2], [0.3, -0.4]])
    slopes = np.stack([np.cos(actions[:, 0]) + actions[:, 1], actions[:, 0]], 1)
    found = numerical_gradient(lambda a: deterministic_policy_gradient.actor_loss(critic(a)), actions)
    np.testing.assert_allclose(found, deterministic_policy_gradient.actor_gradient(slopes), atol=1e-8)


def test_td3_smooths_its_targets_within_limits_and_bounds() -> None:
    low, high = np.array([-1.0, -2.0]), np.array([1.0, 2.0])
    found = deterministic_policy_gradient.smoothed_target_actions(
        np.array([[0.9, 0.0], [0.0, -1.9]]), np.array([[0.3, 9.0], [-0.1, -0.4]]), 0.5, low, high
    )
    np.testing.assert_allclose(found, [[1.0, 0.5], [-0.1, -2.0]])


def test_targets_move_and_noise_returns() -> None:
    moved = deterministic_policy_gradient.soft_update(np.array([1.0, 2.0]), np.array([3.0, 2.0]), 0.1)
    assert moved == near([1.2, 2.0])
    noise = deterministic_policy_gradient.ornstein_uhlenbeck(np.array([1.0]), np.array([0.5]), 0.15, 0.2, 0.25)
    assert noise == near([1 - 0.15 * 0.25 + 0.2 * 0.5 * 0.5])


# -- evolution -------------------------------------------------------------------------------------------------------


def test_ranks_are_centered() -> None:
    assert evolution.centered_ranks(np.array([10.0, -3.0, 7.0])) == near([0.5, -0.5, 0.0])
    pairs = evolution.centered_ranks(np.array([[1.0, 2.0], [4.0, 3.0]]))
    assert pairs == near(np.array([[-0.5, -1 / 6], [0.5, 1 / 6]]))
    assert evolution.centered_ranks(np.array([5.0, 5.0])) == near([-0.5, 0.5])


def test_es_finds_the_slope_of_a_linear_function() -> None:
    slope, sigma = np.array([1.0, -2.0, 0.5]), 0.1
    directions = np.random.default_rng(2).normal(size=(20_000, 3))
    fitness = np.stack([(sigma * directions) @ slope + 7, (-sigma * directions) @ slope + 7], 1)
    found = evolution.antithetic_es_gradient(directions, fitness, sigma)
    np.testing.assert_allclose(found, slope, atol=0.05)
    by_hand = (fitness[:, 0] - fitness[:, 1]) @ directions / (2 * 20_000 * sigma)
    assert found == near(by_hand)
    both = np.concatenate([directions, -directions])
    assert evolution.es_gradient(both, fitness.T.ravel(), sigma) == near(found)


def test_ars_uses_the_best_directions_and_their_spread() -> None:
    directions = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    returns = np.array([[3.0, 1.0], [0.0, 2.0], [-5.0, 5.0]])
    spread = np.std([3.0, 1.0, -5.0, 5.0])
    found = evolution.ars_gradient(directions, returns, top=2)
    assert found == near(np.array([2.0 - 10.0, -10.0]) / (2 * spread))
    everything = evolution.ars_gradient(directions, returns)
    assert everything == near(np.array([2.0 - 10.0, -2.0 - 10.0]) / (3 * np.std(returns)))
