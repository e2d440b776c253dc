"""What a config amounts to: each value, who has set it, what it costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Text, Tuple
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.config import AlgorithmConfig
from kernel_rllib.config.explain import bytes_of

pytestmark = pytest.mark.filterwarnings("ignore:.*older names:DeprecationWarning")


def test_it_says_who_has_set_what() -> None:
    config = PPOConfig().training(lr=0.1, model={"dim": 42}).update_from_dict({"num_workers": 4, "my_own": 1})
    config.update_from_dict({"gamma": 0.5}, source="tune").env_runners(num_envs_per_env_runner=8)
    config.seed = 3
    config["log_level"] = "INFO"
    config.env_config["size"] = 5
    config.model["fcnet_hiddens"].append(4)
    by = {row.name: row.set_by for row in config.explain().rows if not row.is_default}
    assert by == {
        "lr": ".training()",
        "model.dim": ".training()",
        "model.fcnet_hiddens": "changed in place",
        "num_env_runners": "dict as num_workers",
        "my_own": "dict",
        "gamma": "tune",
        "num_envs_per_env_runner": ".env_runners()",
        "seed": "attribute",
        "log_level": "item",
        "env_config": "changed in place",
    }


def test_defaults_are_those_of_a_generation() -> None:
    today, older = PPOConfig().explain(), PPOConfig(generation="0.8.5").explain()
    assert all(row.is_default for row in [*today.rows, *older.rows])
    assert (today["lr"].set_by, older["lr"].set_by) == ("default of today", "default of 0.8.5")
    assert (today["clip_actions"].value, older["clip_actions"].value) == (False, True)
    assert older["model.fcnet_hiddens"].set_by == "default of 0.8.5"
    assert older.title == "PPOConfig, defaults of 0.8.5"
    with pytest.raises(KeyError):
        today["nothing"]


def test_every_setting_has_a_row_and_every_row_says_what_it_means() -> None:
    rows = {row.name: row for row in DQNConfig().explain().rows}
    for name, field in DQNConfig.fields.items():
        assert name in rows or any(each.startswith(f"{name}.") for each in rows)
        assert field.doc.endswith(".") and len(field.doc) > 10, name
    assert rows["use_env_runner_state_server"].doc.endswith("No effect here: states are objects in the store.")


@pytest.mark.parametrize(
    ("config", "costs"),
    [
        (
            PPOConfig().env_runners(num_envs_per_env_runner=4),
            {"env steps an iteration": ("4,000", "1 x 500 steps in 8 environments"),
             "CPUs": ("3", "the algorithm, 2 runners, 0 learners")},
        ),
        (
            DQNConfig().environment(observation_space=Box(-1, 1, (4,)), action_space=Discrete(2)),
            {"env steps an iteration": (
                "1,000", "1000 x 1 steps in 1 environment, at least min_sample_timesteps_per_iteration=1000"
             ),
             "CPUs": ("1", "the algorithm, 0 runners, 0 learners"),
             "replay": ("2.3 MB", "50,000 steps of 46 bytes: two observations, an action, a reward, two flags")},
        ),
        (
            DQNConfig(generation="0.8.5").training(replay_buffer_config={"capacity": 10}),
            {"env steps an iteration": (
                "1,000", "250 x 4 steps in 1 environment, at least min_sample_timesteps_per_iteration=1000, "
                         "and as many as fit into min_time_s_per_iteration=1"
             ),
             "CPUs": ("1", "the algorithm, 0 runners, 0 learners"),
             "replay": (
                "unknown", "capacity=10 steps; how large one is shows when the environment's spaces are known"
             )},
        ),
        (
            AlgorithmConfig().learners(num_learners=2, num_gpus_per_learner=0.5),
            {"env steps an iteration": ("200", "1 x 200 steps in 1 environment"),
             "CPUs": ("1", "the algorithm, 0 runners, 2 learners"),
             "GPUs": ("1", "the algorithm, 0 runners, 2 learners")},
        ),
    ],
)  # fmt: skip
def test_it_says_what_an_iteration_costs(config: Any, costs: dict[str, Any]) -> None:
    found = {cost.name: (cost.amount, cost.because) for cost in config.explain().costs if cost.name != "learns in"}
    assert found == costs


FLAT, IMAGE = Box(-1, 1, (4,)), Box(0, 255, (84, 84, 3), np.uint8)


@pytest.mark.parametrize(
    ("framework", "space", "expected"),
    [
        ("auto", None, ("numpy", "framework='auto': torch is no quicker in one thread; ")),
        ("auto", FLAT, ("numpy", "framework='auto': torch is no quicker in one thread; ")),
        ("auto", IMAGE, ("torch", "framework='auto': observations are images, ")),
        ("tf2", FLAT, ("numpy", "framework='tf2': torch is no quicker in one thread; ")),
        ("numpy", FLAT, ("numpy", "framework='numpy'")),
        ("torch", FLAT, ("torch", "framework='torch'")),
    ],
)
def test_it_says_what_learns_and_why(framework: Any, space: Any, expected: tuple[str, str]) -> None:
    config = PPOConfig().framework(framework).environment(observation_space=space)
    (found,) = (cost for cost in config.explain().costs if cost.name == "learns in")
    assert found.amount == expected[0] and found.because.startswith(expected[1])


def test_it_reads_well() -> None:
    config = PPOConfig().environment("CartPole-v1").training(lr=0.1, model={"dim": 42}).callbacks(on_episode_end=len)
    assert (
        str(config.explain())
        == repr(config.explain())
        == (
            "PPOConfig, defaults of today\n"
            "\n"
            "callbacks:\n"
            "  callbacks_on_episode_end  len  .callbacks()\n"
            "\n"
            "training:\n"
            "  lr         0.1  .training()\n"
            "  model.dim  42   .training()\n"
            "\n"
            "environment:\n"
            "  env  'CartPole-v1'  .environment()\n"
            "\n"
            "costs:\n"
            "  env steps an iteration  4,000  1 x 2000 steps in 2 environments\n"
            "  CPUs                    3      the algorithm, 2 runners, 0 learners\n"
            "  learns in               numpy  framework='auto': torch is no quicker in one thread; it is taken for "
            "images and for models in torch"
        )
    )
    everything = config.explain().text(everything=True)
    assert "  gamma " in everything and "What a reward one step later is worth." in everything


def test_settings_of_ones_own_are_shown_last() -> None:
    *_, last = AlgorithmConfig().update_from_dict({"my_own": 3}).explain().rows
    assert tuple(last) == ("of your own", "my_own", 3, "dict", False, "")


@pytest.mark.parametrize(
    ("capacity", "amount"),
    [(1, "46 bytes"), (1000, "46 kB"), (10**6, "46 MB"), (10**9, "46 GB"), (10**12, "4.6e+04 GB")],
)
def test_the_size_of_a_buffer(capacity: int, amount: str) -> None:
    config = DQNConfig().environment(observation_space=Box(-1, 1, (4,)), action_space=Discrete(2))
    config.training(replay_buffer_config={"capacity": capacity})
    assert config.explain().costs[-1].amount == amount


@pytest.mark.parametrize(
    ("space", "size"),
    [
        (Discrete(3), 8),
        (Box(0, 255, (84, 84, 4), "uint8"), 84 * 84 * 4),
        (Tuple([Discrete(3), Box(0, 1, (2,))]), 16),
        (Dict({"a": MultiBinary(3)}), 3),
        (Dict({"a": Text(3)}), None),
        (None, None),
    ],
)
def test_the_size_of_a_value_of_a_space(space: Any, size: int | None) -> None:
    assert bytes_of(space) == size
