"""PPO: it learns, gives the same bits for any number of runners, and goes on after a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_rllib.algorithms.advantages import explained_variance
from kernel_rllib.algorithms.ppo import PPO, PPOConfig
from kernel_rllib.errors import ConfigError
from kernel_rllib.testing.training import weights_after

LSTM = {"use_lstm": True, "lstm_cell_size": 8, "max_seq_len": 10}
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "steps": ({}, {}),
    "memory": ({}, {"model": LSTM}),
    "episodes": ({"batch_mode": "complete_episodes"}, {}),
    "episodes without a critic": ({"batch_mode": "complete_episodes"}, {"use_gae": False, "use_critic": False}),
    "fragments": ({"rollout_fragment_length": 10}, {"train_batch_size": 120, "minibatch_size": 40, "model": LSTM}),
    "episodes and memory": ({"batch_mode": "complete_episodes"}, {"model": LSTM}),
    "schedules": ({}, {"lr": [[0, 1e-3], [300, 1e-4]], "entropy_coeff": [[0, 0.1], [300, 0.0]]}),
}
"""Settings of sampling and of learning."""


def config(kind: str = "steps", **env_runners: Any) -> PPOConfig:
    """Return small settings with four lanes in all."""
    sampling, learning = KINDS[kind]
    return small(**{**sampling, **env_runners}).training(**learning)


def small(**env_runners: Any) -> PPOConfig:
    """Return small settings with four lanes in all."""
    return (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_envs=4, **{"num_env_runners": 0, "num_cpus_per_env_runner": 0, **env_runners})
        .training(train_batch_size=128, minibatch_size=64, num_epochs=2, lr=1e-3, model={"fcnet_hiddens": [16]})
        .debugging(seed=3)
    )


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize(("runners", "kind"), [(1, "steps"), (4, "steps"), *((2, kind) for kind in KINDS)])
def test_any_number_of_runners_ends_with_the_same_bits(runners: int, kind: str) -> None:
    alone, many = PPO(config(kind)), PPO(config(kind, num_env_runners=runners))
    results = [algorithm.train() for algorithm in (alone, many)]
    assert weights_after(2, many) == weights_after(2, alone)
    for key in ("episode_reward_mean", "episodes_total", "timesteps_total", "hist_stats"):
        np.testing.assert_equal(results[1][key], results[0][key])
    assert (results[0]["num_healthy_workers"], results[1]["num_healthy_workers"]) == (0, runners)
    many.stop()


def test_another_seed_gives_other_weights_and_the_same_seed_the_same() -> None:
    first, same, other = PPO(config()), PPO(config()), PPO(config().debugging(seed=4))
    assert weights_after(1, first) == weights_after(1, same) != weights_after(1, other)


@pytest.mark.parametrize(("before", "kind"), [(1, "steps"), *((3, kind) for kind in KINDS)])
def test_training_goes_on_after_a_checkpoint_with_the_same_bits(tmp_path: Path, before: int, kind: str) -> None:
    straight = PPO(config(kind))
    weights_after(before, straight)
    path = straight.save(str(tmp_path / "checkpoint"))
    expected, result = weights_after(1, straight), straight.train()
    resumed = PPO(config(kind))
    resumed.restore(path)
    assert weights_after(1, resumed) == expected
    again = resumed.train()
    for key in ("episode_reward_mean", "episodes_total", "timesteps_total", "training_iteration"):
        np.testing.assert_equal(again[key], result[key])
    assert again["info"]["learner"] == result["info"]["learner"]


def test_results_have_the_keys_of_all_generations() -> None:
    result = PPO(config()).train()
    assert result["env_runners"]["num_env_steps_sampled"] == 128
    assert result["num_env_steps_sampled_lifetime"] == result["timesteps_total"] == 128
    assert result["num_env_steps_trained"] == 256
    assert result["info"]["learner"]["default_policy"]["learner_stats"]["entropy"] == pytest.approx(0.69, abs=0.01)
    assert result["learners"]["default_policy"]["policy_loss"] == pytest.approx(0.0, abs=0.1)
    assert set(result["timers"]) == {"sample_time_ms", "learn_time_ms"}


def test_what_is_learned_by_is_reported_under_the_names_of_the_first_generation() -> None:
    algorithm = PPO(config())
    first, second = (algorithm.train()["info"]["learner"]["default_policy"]["learner_stats"] for _ in range(2))
    assert first["cur_lr"] == first["ppo_learning_rate"] and first["cur_kl_coeff"] == 0.2
    assert second["cur_kl_coeff"] == algorithm.config.kl_coeff * (0.5 if first["kl"] < 0.005 else 1.0)
    assert -1.0 <= first["vf_explained_var"] <= 1.0 and first["vf_explained_var"] != second["vf_explained_var"]
    (fragment,) = algorithm.sample_all().values()
    algorithm.experience([fragment])
    values, targets = fragment.columns["vf_preds"], fragment.columns["value_targets"]
    assert explained_variance([fragment]) == pytest.approx(1 - (targets - values).var() / targets.var(), abs=1e-4)
    fragment.columns["vf_preds"] = targets + 3.0
    assert explained_variance([fragment]) == pytest.approx(1.0)
    fragment.columns["vf_preds"] = -9.0 * targets
    assert explained_variance([fragment, fragment]) == -1.0


def test_rates_follow_their_schedules() -> None:
    algorithm = PPO(config("schedules"))
    found = [algorithm.train()["learners"]["default_policy"] for _ in range(3)]
    assert [part["ppo_learning_rate"] for part in found] == pytest.approx([6.16e-4, 2.32e-4, 1e-4])
    assert [part["entropy_coeff"] for part in found] == pytest.approx([0.1 * 172 / 300, 0.1 * 44 / 300, 0.0])


def test_the_names_of_schedules_of_older_generations_mean_the_same() -> None:
    given = {"lr_schedule": [[0, 1e-3], [300, 1e-4]], "entropy_coeff_schedule": [[0, 0.1], [300, 0.0]]}
    made = PPOConfig.from_dict({"env": "CartPole-v1", **given}, generation="0.8.5")
    assert (made.lr, made.entropy_coeff) == (given["lr_schedule"], given["entropy_coeff_schedule"])


@pytest.mark.parametrize("kind", ["episodes", "episodes without a critic", "episodes and memory"])
def test_whole_episodes_make_up_the_batch(kind: str) -> None:
    algorithm = PPO(config(kind))
    for _ in range(2):
        result = algorithm.train()
        steps = sum(algorithm.episodes._last[-1 - k].length for k in range(result["episodes_this_iter"]))
        assert result["env_runners"]["num_env_steps_sampled"] == steps >= 128


def test_fragments_are_sampled_until_they_make_up_the_batch() -> None:
    result = PPO(config("fragments")).train()
    assert result["timesteps_total"] == 120
    assert result["num_env_steps_trained"] == 240


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"use_gae": True, "use_critic": False}, "use_gae=True needs the value function"),
        ({"use_gae": False}, "set batch_mode to 'complete_episodes'"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        PPO(config().training(**wrong))


def test_it_learns_to_balance_the_pole() -> None:
    settings = config().training(train_batch_size=1024, minibatch_size=256, num_epochs=10, lr=2e-3, lambda_=0.9)
    settings.training(model={"fcnet_hiddens": [32, 32]})
    algorithm = PPO(settings.env_runners(num_envs=8))
    best = 0.0
    for _ in range(40):
        best = max(best, algorithm.train()["episode_reward_mean"])
        if best >= 150:
            break
    assert best >= 150


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda config: config.debugging(fake_sampler=True), "fake_sampler"),
        (lambda config: config.environment(horizon=9, soft_horizon=True), "soft_horizon"),
    ],
)
def test_settings_without_effect_are_refused(change: Any, named: str) -> None:
    with pytest.raises(ConfigError, match=f"no algorithm acts on .*{named}"):
        PPO(change(config()))


def test_an_action_is_chosen_for_an_observation() -> None:
    algorithm = PPO(config())
    observation = [0.0, 0.1, 0.0, -0.1]
    chosen = {int(algorithm.compute_single_action(observation)) for _ in range(50)}
    assert chosen == {0, 1}
    assert len({int(algorithm.compute_single_action(observation, explore=False)) for _ in range(50)}) == 1
