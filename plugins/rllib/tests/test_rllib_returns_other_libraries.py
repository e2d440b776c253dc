"""Returns against numbers that other libraries gave for the same input, computed once."""

from __future__ import annotations

import numpy as np
from kernel_rllib.returns import gae, lambda_returns, project_categorical, retrace, vtrace

# [6 rows, 2 lanes]: lane 0 terminates in row 2, lane 1 is truncated in row 3, both are cut after row 5.
REWARDS = [[0.7, -0.98], [-1.57, -2.92], [-0.35, 1.25], [0.03, 0.51], [1.02, -0.88], [2.65, -0.88]]
VALUES = [[0.37, 2.74], [-0.11, 0.11], [-0.51, 0.33], [-2.13, -0.65], [1.69, 0.21], [-0.24, 0.37]]
NEXT_VALUES = [[-0.11, 0.11], [-0.51, 0.33], [-0.3, -0.65], [1.69, -1.1], [-0.24, 0.37], [0.41, 1.43]]
LOG_RATIOS = np.array([[0.21, 0.08], [0.29, -0.83], [0.3, -0.34], [0.39, -0.01], [-0.5, -0.04], [-0.5, 0.51]])
TERMINATEDS = [[0, 0], [0, 0], [1, 0], [0, 0], [0, 0], [0, 0]]
TRUNCATEDS = [[0, 0], [0, 0], [0, 0], [0, 1], [0, 0], [0, 0]]
ENDS = TERMINATEDS, TRUNCATEDS

rewards, values, next_values = (np.array(column, np.float64) for column in (REWARDS, VALUES, NEXT_VALUES))

ADVANTAGES = [
    [-1.361212519024, -5.696529938129], [-1.815020010471, -2.386288522143], [0.16, 0.370688956324],
    [5.516807289159, 0.092999968529], [1.96736218803, -0.611411650167], [3.28770001173, 0.137100040913],
]  # fmt: skip
"""TorchRL 0.14.1, `generalized_advantage_estimate` with gamma 0.97 and lambda 0.9, which it holds as float32."""


def test_gae_is_that_of_torchrl_and_of_stable_baselines3() -> None:
    advantages, targets = gae(rewards, values, next_values, *ENDS, gamma=0.97, lambda_=0.9)
    np.testing.assert_allclose(advantages, ADVANTAGES, rtol=1e-6)
    # Stable-Baselines3 2.9.2, `RolloutBuffer.compute_returns_and_advantage`, float32, printed with six places. The
    # value of the final observation of the truncated episode was added to its reward, as that library's algorithms do.
    sb3 = [
        [-1.361213, -5.69653], [-1.81502, -2.386288], [0.16, 0.370689],
        [5.516808, 0.093], [1.967362, -0.611412], [3.2877, 0.1371],
    ]  # fmt: skip
    np.testing.assert_allclose(advantages, sb3, atol=1e-6)
    sb3_returns = [
        [-0.991213, -2.95653], [-1.92502, -2.276289], [-0.35, 0.700689],
        [3.386807, -0.557], [3.657362, -0.401412], [3.0477, 0.5071],
    ]  # fmt: skip
    np.testing.assert_allclose(targets, sb3_returns, atol=1e-6)


def test_lambda_returns_are_those_of_torchrl() -> None:
    # TorchRL 0.14.1, `td_lambda_return_estimate` with gamma 0.97 and lambda 0.9.
    torchrl = [
        [-0.99121246, -2.956529863119], [-1.92502, -2.276288503], [-0.35, 0.700689],
        [3.3868071133, -0.557], [3.6573621, -0.4014117], [3.0477, 0.5071],
    ]  # fmt: skip
    found = lambda_returns(rewards, next_values, *ENDS, gamma=0.97, lambda_=0.9)
    np.testing.assert_allclose(found, torchrl, rtol=1e-9)


def test_vtrace_is_that_of_torchrl() -> None:
    # TorchRL 0.14.1, `vtrace_advantage_estimate` with gamma 0.97 and both thresholds 1.
    advantages = [
        [-1.522215064344, -4.648878088206], [-1.799500010014, -1.067606248256], [0.16, 0.26962738814],
        [4.406148630565, 0.092074603381], [0.625617076613, -0.574660601751], [1.994090857052, 0.137100040913],
    ]  # fmt: skip
    targets = [
        [-1.152215064344, -1.908878088206], [-1.909500010014, -0.957606248256], [-0.35, 0.59962738814],
        [2.276148630565, -0.557925396619], [2.315617076613, -0.364660601751], [1.754090857052, 0.507100040913],
    ]  # fmt: skip
    found = vtrace(LOG_RATIOS, rewards, values, next_values, *ENDS, gamma=0.97)
    np.testing.assert_allclose(found.value_targets, targets, rtol=1e-6)
    np.testing.assert_allclose(found.advantages, advantages, rtol=1e-6)


LANE_REWARDS = [0.63, -0.18, -1.52, -1.56, 0.2]
LANE_TERMINATEDS = [0, 0, 1, 0, 0]
NEVER = [0, 0, 0, 0, 0]


def test_vtrace_with_lambda_is_that_of_rlax() -> None:
    # RLax 0.1.9, `vtrace_td_error_and_advantage` with gamma 0.9, lambda 0.8, thresholds 1.2 and 1.5. It gives
    # differences to the values; its threshold of the traces is always 1.
    lane_values = np.array([-1.41, -0.25, -0.55, 0.05, 0.11, 1.13])
    log_ratios = np.array([0.375, -0.415, 0.45, 0.815, 0.155])
    found = vtrace(
        log_ratios, LANE_REWARDS, lane_values[:-1], lane_values[1:], LANE_TERMINATEDS, NEVER,
        gamma=0.9, lambda_=0.8, rho_bar=1.2, policy_rho_bar=1.5,
    )  # fmt: skip
    differences = [1.577474926738, -0.834062601753, -1.164, -0.882529898681, 1.292597362943]
    np.testing.assert_allclose(found.value_targets - lane_values[:-1], differences, rtol=1e-10)
    # It bootstraps advantages by lambda-weighed targets, ours by the targets: they agree at the ends only.
    np.testing.assert_allclose(found.advantages[[2, 4]], [-1.455, 1.292597362943], rtol=1e-10)


def test_retrace_is_that_of_rlax() -> None:
    # RLax 0.1.9, `retrace` with gamma 0.9 and lambda 0.8. It gives differences to the values, and adds 1e-8 to the
    # probabilities that it divides by.
    q = np.array([
        [-1.43, -0.94, 0.39], [-0.52, 0.53, 0.81], [-1.44, 1.02, -0.6],
        [2.09, 0.73, -0.54], [0.2, 0.21, 0.33], [1.39, 0.53, 1.66],
    ])  # fmt: skip
    policy = np.array([
        [0.646, 0.265, 0.089], [0.307, 0.671, 0.022], [0.92, 0.025, 0.055],
        [0.255, 0.625, 0.12], [0.358, 0.128, 0.514], [0.281, 0.152, 0.567],
    ])  # fmt: skip
    behaviour = np.array([0.092, 0.727, 0.293, 0.284, 0.028, 0.564])
    actions, rows = np.array([0, 2, 1, 1, 0, 2]), np.arange(6)
    log_ratios = np.log(policy[rows, actions] / behaviour)
    taken = q[rows, actions]
    found = retrace(
        log_ratios[:-1], LANE_REWARDS, taken[:-1], (policy * q).sum(1)[1:], LANE_TERMINATEDS, NEVER,
        gamma=0.9, lambda_=0.8,
    )  # fmt: skip
    differences = [2.201333323326, -2.345110950306, -2.54, -1.13349424, 1.271133]
    np.testing.assert_allclose(found - taken[:-1], differences, rtol=1e-8)


def test_projection_is_that_of_rlax() -> None:
    # RLax 0.1.9, `categorical_l2_project` on five atoms from -2 to 2.
    probabilities = np.array([[0.1, 0.2, 0.3, 0.25, 0.15], [0.4, 0.1, 0.1, 0.1, 0.3], [0.05, 0.05, 0.6, 0.2, 0.1]])
    found = project_categorical(probabilities, [0.3, -1.2, 5.0], [0.9, 0.0, 0.9], v_min=-2, v_max=2)
    rlax = [[0.05, 0.17, 0.29, 0.29, 0.2], [0.2, 0.8, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]]
    np.testing.assert_allclose(found, rlax, atol=1e-12)
