"""R2D2: sequences that begin with stored memories, their burn-in, values that are kept small, and priorities."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.r2d2 import R2D2, sequence_batch, sequence_loss
from kernel_rllib.data import columns
from kernel_rllib.envs.games.memory_chain import MemoryChain
from kernel_rllib.envs.multi_agent import make_multi_agent
from kernel_rllib.errors import ConfigError
from kernel_rllib.replay.episodes import Episodes, Piece, pieces_of
from kernel_rllib.replay.sequences import SequenceReplay, priority_of_sequences
from kernel_rllib.returns.rescaling import rescaled, unscaled
from kernel_rllib.testing.losses import loss_and_gradient, twin_and_gradient
from kernel_rllib.testing.reference import recurrent_q_learning as reference

SMALL: dict[str, Any] = {
    "env": "CartPole-v1",
    "seed": 3,
    "num_envs": 4,
    "num_env_runners": 0,
    "num_cpus_per_env_runner": 0,
    "min_time_s_per_iteration": 0,
    "min_sample_timesteps_per_iteration": 64,
    "rollout_fragment_length": 16,
    "batch_mode": "truncate_episodes",
    "num_steps_sampled_before_learning_starts": 64,
    "train_batch_size": 48,
    "training_intensity": 2.0,
    "target_network_update_freq": 100,
    "burn_in_len": 3,
    "n_step": 3,
    "lr": 1e-2,
    "model": {"fcnet_hiddens": [8], "lstm_cell_size": 4, "max_seq_len": 8},
    "hiddens": [6],
}
STREAM = np.random.default_rng(0)


def made(**settings: Any) -> R2D2:
    """Return a small algorithm with four lanes."""
    return R2D2({**SMALL, **settings})


def sampled(algorithm: R2D2, steps: int = 40) -> Any:
    """Return a fragment of all lanes, with the parameters of now."""
    algorithm.broadcast()
    runner = algorithm.runners.local
    assert runner is not None
    return runner.sampler.sample(steps)


@pytest.mark.parametrize("epsilon", [1e-3, 1e-2])
def test_values_are_kept_small_by_a_function_that_has_an_inverse(epsilon: float) -> None:
    x = np.concatenate([np.linspace(-300, 300, 61), [0.0, 1e-3, -1e-3, 1e5]])
    np.testing.assert_allclose(rescaled(x, epsilon), [reference.h(each, epsilon) for each in x], rtol=1e-12)
    y = rescaled(x, epsilon)
    np.testing.assert_allclose(unscaled(y, epsilon), [reference.inverse_of_h(each, epsilon) for each in y], atol=1e-5)
    np.testing.assert_allclose(unscaled(y.astype(np.float32), epsilon), x, rtol=1e-3, atol=1e-4)


def test_sequences_overlap_by_the_burn_in_and_none_reaches_past_an_end() -> None:
    algorithm = made()
    fragment = sampled(algorithm)
    ends = fragment.columns[columns.TERMINATEDS] | fragment.columns[columns.TRUNCATEDS]
    found = list(pieces_of(fragment, 8, 3))
    assert sum(piece.steps - piece.burn_in for piece in found) == fragment.steps
    assert {piece.burn_in for piece in found} == {0, 3} and max(piece.steps for piece in found) == 8
    for before, piece in pairwise(found):
        if piece.burn_in:
            np.testing.assert_array_equal(piece.columns[columns.OBS][:4], before.columns[columns.OBS][-4:])
            assert before.steps == 8
    assert sum(bool(piece.columns[columns.TERMINATEDS][-1]) for piece in found) == ends.sum() > 0
    assert not any(piece.columns[columns.TERMINATEDS][:-1].any() for piece in found)


def test_burn_in_with_the_parameters_that_acted_ends_where_the_runner_was() -> None:
    algorithm = made()
    fragment = sampled(algorithm)
    pieces = list(pieces_of(fragment, 8, 3))
    begun = algorithm.begun(pieces)
    for place, piece in enumerate(pieces):
        step, lane = np.argwhere((fragment.columns[columns.OBS] == piece.columns[columns.OBS][0]).all(axis=2))[0]
        for name, state in begun.state_in.items():
            remembered = fragment.state_in[name][step + piece.burn_in, lane]
            np.testing.assert_allclose(state[place], remembered, rtol=1e-4, atol=1e-6)


def test_the_target_network_remembers_by_itself() -> None:
    algorithm = made()
    pieces = list(pieces_of(sampled(algorithm), 8, 3))
    algorithm.learner.vector[...] += 0.1
    own, other = algorithm.begun(pieces), algorithm.begun(pieces, algorithm.target.vector)
    late = [bool(piece.burn_in) for piece in pieces]
    for name in own.state_in:
        differ = (own.state_in[name] != other.state_in[name]).any(axis=1)
        assert differ.tolist() == late
    np.testing.assert_array_equal(own.obs, other.obs)


def test_sequences_can_begin_with_an_empty_memory() -> None:
    algorithm = made(zero_init_states=True, burn_in_len=0)
    pieces = list(pieces_of(sampled(algorithm), 8))
    assert any(each.any() for piece in pieces for each in piece.state_in.values())
    assert not any(each.any() for each in algorithm.begun(pieces).state_in.values())


@pytest.mark.parametrize("settings", [{}, {"double_q": False, "n_step": 1}, {"burn_in_len": 0, "n_step": 5}])
def test_targets_are_those_of_equation_2(settings: dict[str, Any]) -> None:
    algorithm = made(gamma=0.9, **settings)
    pieces = list(pieces_of(sampled(algorithm), 8, algorithm.config.burn_in_len))
    noise = STREAM.normal(size=algorithm.learner.vector.shape).astype(np.float32)
    algorithm.learner.vector[...] += 0.5 * noise
    online, own = algorithm.begun(pieces), algorithm.begun(pieces, algorithm.target.vector)
    found = algorithm.targets_of_sequences(online, own)
    values = algorithm._values_of(own, algorithm.target.vector)
    chooser = algorithm._values_of(online) if algorithm.config.double_q else values
    for place, piece in enumerate(pieces):
        steps = piece.steps - piece.burn_in
        expected = reference.sequence_targets(
            piece.columns[columns.REWARDS][piece.burn_in :],
            bool(piece.columns[columns.TERMINATEDS][-1]),
            chooser[: steps + 1, place],
            values[: steps + 1, place],
            n=algorithm.config.n_step_most,
            gamma=0.9,
            epsilon=1e-3,
        )
        np.testing.assert_allclose(found[:steps, place], expected, rtol=1e-4, atol=1e-4)


def test_without_h_targets_are_plain() -> None:
    algorithm = made(use_h_function=False, n_step=1, gamma=0.9, burn_in_len=0, double_q=False)
    episodes = Episodes(list(pieces_of(sampled(algorithm), 8)))
    best = algorithm._values_of(episodes).max(axis=-1)[1:]
    expected = episodes.columns[columns.REWARDS] + 0.9 * best * ~episodes.columns[columns.TERMINATEDS]
    there = episodes.mask > 0
    np.testing.assert_allclose(algorithm.targets_of_sequences(episodes, episodes)[there], expected[there], rtol=1e-5)


def test_the_loss_and_its_gradient_are_those_of_the_twin() -> None:
    algorithm = made(td_error_loss_fn="mse")
    pieces = [*pieces_of(sampled(algorithm, 12), 8, 3)]
    episodes = algorithm.begun(pieces)
    targets = STREAM.normal(size=episodes.mask.shape).astype(np.float32)
    batch = sequence_batch(episodes, targets, STREAM.uniform(0.2, 1, len(pieces)).astype(np.float32))
    vector = algorithm.learner.weights.astype(np.float64)

    def twin(q_values: Any) -> float:
        given = (columns.ACTIONS, columns.VALUE_TARGETS, columns.LOSS_MASK, columns.WEIGHTS)
        return reference.sequence_loss(q_values, *(batch[name] for name in given))

    names = [columns.Q_VALUES]
    metrics, gradient = loss_and_gradient(sequence_loss(algorithm.config), algorithm.learner.module, vector, batch)
    value, expected = twin_and_gradient(twin, names, algorithm.learner.module, vector, batch)
    assert float(metrics["total_loss"]) == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-7)


def test_priorities_are_of_the_largest_error_and_the_mean() -> None:
    errors, mask = STREAM.normal(size=(5, 3)), np.ones((5, 3))
    mask[2:, 1] = 0
    expected = [reference.priority(errors[:2, 1] if place == 1 else errors[:, place], 0.9) for place in range(3)]
    np.testing.assert_allclose(priority_of_sequences(errors, mask, 0.9), expected)


def piece(number: int) -> Piece:
    """Return a sequence of two steps that is told from others by a number."""
    column = np.full(2, number)
    return Piece(
        {"obs": np.full((3, 1), number), "actions": column, "rewards": column, "terminateds": column > 99},
        {"memory": np.full(1, number)},
        number % 2,
    )


def test_sequences_are_drawn_by_priority_and_the_oldest_go() -> None:
    replay = SequenceReplay(4, alpha=1.0, beta=1.0)
    replay.add([piece(number) for number in range(6)])
    assert len(replay) == 4
    drawn = replay.sample(400, STREAM)
    assert {each.columns["rewards"][0] for each in drawn.pieces} == {2, 3, 4, 5}
    replay.update_priorities(drawn.places, np.where(np.array([each.burn_in for each in drawn.pieces]), 3.0, 1.0))
    drawn = replay.sample(4000, STREAM)
    odd = np.array([each.burn_in for each in drawn.pieces])
    assert odd.mean() == pytest.approx(0.75, abs=0.03)
    np.testing.assert_allclose(drawn.weights, np.where(odd, 1 / 3, 1.0), rtol=1e-4)
    other = SequenceReplay(4, alpha=1.0, beta=1.0)
    other.set_state(replay.state())
    again, same = (each.sample(50, np.random.default_rng(1)) for each in (replay, other))
    np.testing.assert_array_equal(again.places, same.places)
    assert [each.burn_in for each in again.pieces] == [each.burn_in for each in same.pieces]
    other.add([piece(7)]), replay.add([piece(7)])
    assert [each.columns["rewards"][0] for each in other._pieces] == [4, 5, 7, 3] or len(other) == 4


def test_it_goes_on_after_a_checkpoint_with_the_same_bits(tmp_path: Path) -> None:
    straight, resumed = (made(store_buffer_in_checkpoints=True) for _ in range(2))
    for _ in range(3):
        straight.train()
    resumed.restore(straight.save(str(tmp_path / "checkpoint")))
    for _ in range(3):
        straight.train(), resumed.train()
    assert straight.env_steps_trained > 0
    assert resumed.learner.weights.tobytes() == straight.learner.weights.tobytes()


@pytest.mark.usefixtures("session")
def test_two_runners_give_the_same_bits_as_none() -> None:
    found = []
    for runners in (0, 2):
        algorithm = made(num_env_runners=runners)
        for _ in range(3):
            algorithm.train()
        found.append(algorithm.learner.weights.tobytes())
        algorithm.stop()
    assert found[0] == found[1]


def test_it_learns_to_remember() -> None:
    algorithm = made(
        env=MemoryChain,
        env_config={"memory_length": 6},
        num_envs=8,
        rollout_fragment_length=12,
        train_batch_size=240,
        training_intensity=8.0,
        model={"fcnet_hiddens": [16], "lstm_cell_size": 16, "max_seq_len": 6},
        hiddens=[],
        burn_in_len=0,
        memory_horizon=6,
        epsilon=[[0, 1.0], [4000, 0.02]],
    )
    best = -1.0
    for _ in range(200):
        best = max(best, algorithm.train()["episode_reward_mean"])
        if best > 0.9:
            break
    assert best > 0.9, "without a memory it is 0"


def test_several_policies_learn_each_from_what_it_did() -> None:
    policies = {"left": (None, None, None, {}), "right": (None, None, None, {"lr": 0.0})}
    algorithm = made(
        env=make_multi_agent("CartPole-v1"),
        env_config={"num_agents": 2},
        multiagent={"policies": policies, "policy_mapping_fn": lambda agent, *_: ("left", "right")[agent]},
    )
    before = {policy: learner.weights.copy() for policy, learner in algorithm.learners.items()}
    for _ in range(3):
        algorithm.train()
    assert not np.array_equal(algorithm.learners["left"].weights, before["left"])
    assert np.array_equal(algorithm.learners["right"].weights, before["right"])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"model": {"use_lstm": False}}, "R2D2 remembers by an LSTM: leave model use_lstm=True, without use_attention"),
        ({"noisy": True}, "noisy=True is of DQN, and R2D2 does not have it; leave it out, or take DQN"),
        ({"num_atoms": 51}, "num_atoms=51 is of DQN"),
        ({"n_step": (1, 3)}, r"n_step=\(1, 3\), but sequences have rewards of one number of steps; give that"),
        ({"burn_in_len": 8}, "burn_in_len=8 leaves nothing of model max_seq_len=8 to learn from; make it smaller"),
        ({"replay_buffer_config": {"worker_side_prioritization": True}}, "leave type at 'PrioritizedEpisodeReplayBuf"),
        ({"replay_buffer_config": {"replay_sequence_length": 5}}, "replay_sequence_length=5, and model max_seq_len=8"),
        ({"env": "Pendulum-v1"}, "R2D2Config learns a value for each action of a Discrete space"),
    ],
)
def test_what_does_not_fit_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        made(**{**settings, "model": {**SMALL["model"], **settings.get("model", {})}})
