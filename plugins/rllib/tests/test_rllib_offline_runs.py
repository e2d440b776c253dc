"""Runs that read recorded experience, and runs that write it: the same steps, in any number of runners."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from kernel_rllib.data.batch import Batch, MultiAgentBatch
from kernel_rllib.data.fragment import Fragment
from kernel_rllib.envs.games.rock_paper_scissors import RockPaperScissors
from kernel_rllib.errors import ConfigError, DataError
from kernel_rllib.offline.action_rows import RecordedActions
from kernel_rllib.offline.input_reader import InputReader, OutputWriter
from kernel_rllib.offline.json_lines import of_line
from kernel_rllib.offline.json_reader import JsonReader
from kernel_rllib.offline.json_writer import JsonWriter
from kernel_rllib.offline.rows import fragment_of, rows_of
from kernel_rllib.testing.training import weights_after
from kernel_rllib.training.registry import algorithm_class

FEW = {
    "env": "CartPole-v1", "num_env_runners": 0, "num_envs": 2, "seed": 1, "model": {"fcnet_hiddens": [4]},
    "num_cpus_per_env_runner": 0, "min_time_s_per_iteration": 0,
}  # fmt: skip
DQN = {
    **FEW, "num_steps_sampled_before_learning_starts": 8, "train_batch_size": 8, "rollout_fragment_length": 4,
    "min_sample_timesteps_per_iteration": 1,
}  # fmt: skip


PPO = {**FEW, "train_batch_size": 60, "minibatch_size": 30}


def test_rows_of_a_fragment_become_that_fragment_again() -> None:
    obs = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    flags = np.array([[False, False], [True, False], [False, False]])
    fragment = Fragment(
        {"obs": obs, "actions": np.arange(6).reshape(3, 2), "rewards": np.ones((3, 2), np.float32),
         "terminateds": flags, "truncateds": np.zeros((3, 2), bool)},
        last_obs=np.full((2, 2), 50, np.float32), final_at=np.array([[1, 0]]), final_obs=np.full((1, 2), 9, np.float32),
        lanes=np.array([4, 5]), valid=np.array([[True, True], [True, True], [True, False]]),
    )  # fmt: skip
    first, second = rows_of(fragment)
    assert first["new_obs"].tolist() == [[4, 5], [9, 9], [50, 50]] and first["dones"].tolist() == [False, True, False]
    assert second.count == 2
    found = fragment_of(first, 4)
    np.testing.assert_array_equal(found.next_obs()[:, 0], first["new_obs"])
    assert found.columns["terminateds"].ravel().tolist() == [False, True, False]
    assert found.columns["truncateds"].ravel().tolist() == [False, False, True]  # nothing follows there


@pytest.mark.parametrize(
    ("columns", "terminated", "truncated", "after"),
    [
        ({"dones": [0, 1, 0, 0]}, [0, 1, 0], [0, 0, 1], [2, 0, 4]),  # the last one's next observation is not known
        ({"dones": [0, 1, 0, 1]}, [0, 1, 0, 1], [0, 0, 0, 0], [2, 0, 4, 0]),
        ({"terminateds": [0, 0, 0, 1], "truncateds": [0, 1, 0, 0]}, [0, 0, 1], [1, 0, 0], [2, 4, 0]),
        ({"dones": [0, 0, 0, 0], "eps_id": [1, 1, 2, 2], "new_obs": [2, 7, 4, 8]}, [0] * 4, [0, 1, 0, 1], [2, 7, 4, 8]),
        ({"dones": [0] * 4, "unroll_id": [1, 2, 2, 2], "new_obs": [6, 3, 4, 8]}, [0] * 4, [1, 0, 0, 1], [6, 3, 4, 8]),
        ({"dones": [0] * 4, "eps_id": [1] * 4, "unroll_id": [1, 2, 2, 2], "new_obs": [2, 3, 4, 8]},
         [0] * 4, [0, 0, 0, 1], [2, 3, 4, 8]),
    ],
)  # fmt: skip
def test_where_recorded_episodes_end_and_where_they_are_cut(
    columns: dict[str, Any], terminated: list[int], truncated: list[int], after: list[int]
) -> None:
    rows = Batch(obs=np.arange(1.0, 5)[:, None], actions=np.zeros(4), rewards=np.ones(4))
    for name, column in columns.items():
        rows[name] = np.array(column)[:, None] if name == "new_obs" else column
    found = fragment_of(rows, 0)
    assert found.columns["terminateds"].ravel().astype(int).tolist() == terminated
    assert found.columns["truncateds"].ravel().astype(int).tolist() == truncated
    alive = ~found.columns["terminateds"].ravel()
    np.testing.assert_array_equal(found.next_obs().ravel()[alive], np.array(after)[alive])


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"obs": [1, 2], "actions": [0, 0], "dones": [0, 1]}, "has no rewards, which is learned from; it has actions,"),
        ({"obs": [1, 2], "actions": [0, 0], "rewards": [0, 1]}, "says nowhere where episodes end; it has actions, obs"),
        ({"obs": [1], "actions": [0], "rewards": [0], "dones": [0]}, "no step whose next observation is known"),
    ],
)
def test_rows_that_miss_what_is_learned_from_say_so(columns: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        fragment_of(Batch(columns), 0)


def test_actions_of_files_are_those_that_environments_get() -> None:
    box = RecordedActions(gymnasium.spaces.Box(-2, 2, (1,)), unsquashes=True)
    rows = np.array([[0.5], [-1.0], [3.0]], np.float32)
    assert box.to_file(rows).ravel().tolist() == [1, -2, 2]
    assert box.of_file(box.to_file(rows), is_normalised=False).ravel().tolist() == [0.5, -1, 1]
    assert box.of_file(rows, is_normalised=True).ravel().tolist() == [0.5, -1, 3]
    first = RecordedActions(gymnasium.spaces.Discrete(3, start=5), unsquashes=True)
    assert first.to_file(np.array([0, 2])).tolist() == [5, 7]
    assert first.of_file(np.array([[5], [7]]), is_normalised=False).tolist() == [0, 2]
    flat = RecordedActions(gymnasium.spaces.Box(-2, 2, (2, 3)), unsquashes=False)
    assert flat.to_file(np.ones((4, 6))).shape == (4, 2, 3)
    assert flat.of_file(np.ones((4, 2, 3)), is_normalised=False).shape == (4, 6)


def written(path: Path, name: str = "PG", iterations: int = 1, **settings: Any) -> list[Batch]:
    """Train, write to a folder, and return the batches of it."""
    algorithm = algorithm_class(name)({**FEW, "train_batch_size": 60, "output": str(path), **settings})
    for _ in range(iterations):
        algorithm.train()
    algorithm.stop()
    lines = [line for file in sorted(path.iterdir()) for line in file.read_text().splitlines()]
    return [of_line(line) for line in lines]  # type: ignore[misc]


def test_an_algorithm_writes_what_it_samples(tmp_path: Path) -> None:
    seen: list[Fragment] = []

    class Watching(algorithm_class("PG")):  # type: ignore[misc]
        def learn(self, fragments: Any) -> Any:
            seen.extend(fragments)
            return super().learn(fragments)

    algorithm = Watching({**FEW, "batch_mode": "truncate_episodes", "train_batch_size": 60, "output": str(tmp_path)})
    algorithm.train()
    algorithm.train()
    algorithm.evaluate()
    algorithm.stop()
    (file,) = tmp_path.iterdir()
    batches = [of_line(line) for line in file.read_text().splitlines()]
    assert len(batches) == len(seen)
    for batch, fragment in zip(batches, seen, strict=True):
        assert isinstance(batch, Batch)
        lanes = [rows["obs"] for rows in rows_of(fragment)]
        np.testing.assert_array_equal(batch["obs"], np.concatenate(lanes))
        np.testing.assert_allclose(batch["action_prob"], np.exp(batch["action_logp"]), rtol=1e-5)
        for episode in batch.split_by_episode():
            assert np.array_equal(np.diff(episode["t"]), np.ones(episode.count - 1))
            np.testing.assert_array_equal(episode["prev_actions"][1:], episode["actions"][:-1])
            np.testing.assert_array_equal(episode["obs"][1:], episode["new_obs"][:-1])
            if episode["t"][0] == 0:
                assert episode["prev_rewards"][0] == 0 and episode["prev_actions"][0] == 0
    first, second = batches
    assert isinstance(first, Batch) and isinstance(second, Batch)
    # An episode that a batch cuts has the same number in the next one.
    going_on = {episode["eps_id"][0] for episode in first.split_by_episode() if not episode["dones"][-1]}
    assert going_on and going_on <= set(second["eps_id"].tolist())


@pytest.mark.usefixtures("session")
def test_runners_write_each_their_own_files(tmp_path: Path) -> None:
    written(tmp_path / "two", num_env_runners=2, output_compress_columns=[], batch_mode="truncate_episodes")
    written(tmp_path / "none", output_max_file_size=1, iterations=2, batch_mode="truncate_episodes")
    two = sorted((tmp_path / "two").iterdir())
    assert [file.name.partition("_worker-")[2] for file in two] == ["1_0.json", "2_0.json"]
    assert isinstance(json.loads(two[0].read_text().splitlines()[0])["obs"], list)
    none = sorted(file.name.partition("_worker-")[2] for file in (tmp_path / "none").iterdir())
    assert none == ["0_0.json", "0_1.json"]


def test_continuous_actions_come_back_as_they_were_chosen(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"env": "Pendulum-v1", "batch_mode": "truncate_episodes"}
    (batch,) = written(tmp_path, **settings)
    assert 1 < np.abs(batch["actions"]).max() <= 2
    seen: list[Fragment] = []

    class Watching(algorithm_class("PG")):  # type: ignore[misc]
        def learn(self, fragments: Any) -> Any:
            seen.extend(fragments)
            return super().learn(fragments)

    Watching({**FEW, **settings, "train_batch_size": 60, "input": str(tmp_path), "num_envs": 1}).train()
    np.testing.assert_allclose(seen[0].columns["actions"][:, 0] * 2, batch["actions"], atol=1e-6)
    Watching(
        {**FEW, **settings, "train_batch_size": 60, "input": str(tmp_path), "actions_in_input_normalized": True,
         "num_envs": 1}
    ).train()  # fmt: skip
    np.testing.assert_array_equal(seen[-1].columns["actions"][:, 0], batch["actions"])


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two files of CartPole."""
    path = tmp_path_factory.mktemp("recorded")
    written(path, iterations=6, output_max_file_size=20_000)
    assert len(list(path.iterdir())) > 1
    return path


@pytest.mark.parametrize("name", ["DQN", "SimpleQ", "PPO", "A2C", "IMPALA"])
def test_algorithms_learn_from_what_is_recorded(name: str, recorded: Path) -> None:
    settings = (
        DQN
        if name in ("DQN", "SimpleQ")
        else {**FEW, "train_batch_size": 64, **({"minibatch_size": 32} if name == "PPO" else {})}
    )
    algorithm = algorithm_class(name)({**settings, "input": str(recorded), "evaluation_duration": 2})
    before = algorithm.learner.vector.copy()
    result = algorithm.train()
    assert np.isnan(result["episode_reward_mean"]) and result["timesteps_total"] >= 60
    assert not np.array_equal(before, algorithm.learner.vector)
    assert algorithm.evaluate()["episodes_this_iter"] == 2  # played in the environment
    algorithm.stop()


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("runners", [1, 2])
def test_the_bits_are_the_same_for_any_number_of_runners_and_after_a_checkpoint(
    runners: int, recorded: Path, tmp_path: Path
) -> None:
    settings = {**DQN, "input": str(recorded), "shuffle_buffer_size": 0, "store_buffer_in_checkpoints": True}
    cls = algorithm_class("DQN")
    alone, several = cls(settings), cls({**settings, "num_env_runners": runners})
    expected = weights_after(3, alone)
    assert weights_after(3, several) == expected
    alone.stop()
    several.stop()
    algorithm = cls(settings)
    algorithm.train()
    path = algorithm.save(str(tmp_path / "kept"))
    algorithm.stop()
    resumed = cls(settings)
    resumed.restore(path)
    assert weights_after(2, resumed) == expected
    resumed.stop()


def test_sources_are_mixed_with_the_environment(recorded: Path) -> None:
    algorithm = algorithm_class("DQN")({**DQN, "input": {str(recorded): 0.5, "sampler": 0.5}, "num_envs": 2})
    for _ in range(30):
        result = algorithm.train()
    assert result["episodes_total"] > 0 and result["episode_reward_mean"] < 200
    algorithm.stop()


class Reader(InputReader):
    """Reads what the environment gives, and counts."""

    made: list[Any] = []

    def __init__(self, ioctx: Any) -> None:
        self.inside = ioctx.default_sampler_input()
        Reader.made.append(ioctx)

    def next(self) -> Any:
        return self.inside.next()


class Writer(OutputWriter):
    """Keeps batches."""

    kept: list[Any] = []

    def write(self, sample_batch: Any) -> None:
        Writer.kept.append(sample_batch)


@pytest.mark.parametrize("given", [lambda ioctx: Reader(ioctx), f"{__name__}.Reader"])
def test_readers_and_writers_may_be_of_the_users_own(given: Any) -> None:
    Reader.made.clear()
    Writer.kept.clear()
    settings = {**PPO, "input": given, "output": lambda ioctx: Writer()}
    algorithm = algorithm_class("PPO")({**settings, "input_config": {"a": 1}})
    algorithm.train()
    algorithm.stop()
    assert [context.worker_index for context in Reader.made] == [0, 0]
    assert Reader.made[0].input_config == {"a": 1} and Reader.made[0].config["gamma"] == 0.99
    assert sum(batch.count for batch in Writer.kept) >= 60


def test_the_dataset_of_later_generations_names_its_files(recorded: Path) -> None:
    for key, value in (("path", str(recorded)), ("paths", [str(recorded)])):
        given = {"input_": "dataset", "input_config": {"format": "json", key: value}}
        algorithm = algorithm_class("DQN")({**DQN, **given})
        assert algorithm.train()["timesteps_total"] >= 60
        algorithm.stop()
    with pytest.raises(ConfigError, match="input_='dataset' reads what input_config names, and that is {}: give it"):
        algorithm_class("DQN")({**DQN, "input_": "dataset"})


def test_no_environment_is_needed_where_spaces_are_given(recorded: Path) -> None:
    env = gymnasium.make("CartPole-v1")
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space}
    algorithm = algorithm_class("DQN")({**DQN, "env": None, "input": str(recorded), **spaces})
    algorithm.train()
    assert algorithm.compute_single_action(np.zeros(4, np.float32)) in (0, 1)
    algorithm.stop()


def test_several_policies_are_written_and_read(tmp_path: Path) -> None:
    settings = {
        **FEW, "env": RockPaperScissors, "train_batch_size": 40, "num_envs": 1, "minibatch_size": 20,
        "multiagent": {
            "policies": {"a": (None, None, None, {}), "b": (None, None, None, {})},
            "policy_mapping_fn": lambda agent, *_, **__: "a" if str(agent).endswith("1") else "b",
        },
    }  # fmt: skip
    algorithm = algorithm_class("PPO")({**settings, "output": str(tmp_path)})
    algorithm.train()
    algorithm.stop()
    batch = JsonReader(str(tmp_path)).next()
    assert isinstance(batch, MultiAgentBatch) and sorted(batch.policy_batches) == ["a", "b"]
    reading = algorithm_class("PPO")({**settings, "input": str(tmp_path)})
    result = reading.train()
    assert sorted(result["info"]["learner"]) == ["a", "b"] and reading.progress.agent_steps_sampled >= 80
    with pytest.raises(ConfigError, match="policies can't be added or taken away where experience is recorded"):
        reading.add_policy("c")
    reading.stop()


def test_experience_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    def wrong(rows: Any, said: str, **settings: Any) -> None:
        for file in tmp_path.iterdir():
            file.unlink()
        writer = JsonWriter(str(tmp_path))
        writer.write(rows)
        writer.close()
        algorithm = algorithm_class("PPO")({**PPO, "input": str(tmp_path), **settings})
        with pytest.raises(DataError, match=said):
            algorithm.train()
        algorithm.stop()

    few = Batch(
        obs=np.zeros((2, 4)), new_obs=np.zeros((2, 4)), actions=[0, 1], rewards=[1.0, 1.0], dones=[False, True],
    )  # fmt: skip
    wrong(few, "has no action_logp, action_dist_inputs, which is learned from")
    wrong(few.only(["actions", "rewards", "dones"]), "has no obs, action_logp, action_dist_inputs, which is learned")
    wide = Batch(few, obs=np.zeros((2, 5)))
    wrong(wide, r"the recorded column 'obs' has rows of shape \[5\], and the policy takes \[4\]: write observations as")
    wrong(MultiAgentBatch({"other": few}, 2), "has steps of other, and the policies are default_policy: name them")
    with pytest.raises(DataError, match=r"the function that input_ names returned 3, and not an InputReader"):
        algorithm_class("PPO")({**PPO, "input": lambda ioctx: 3})
    with pytest.raises(ConfigError, match="input_='no.Reader' was taken for the dotted path of a reader, and that"):
        algorithm_class("PPO")({**PPO, "input": "no.Reader"})
    algorithm = algorithm_class("PPO")({**PPO, "output": lambda ioctx: 3})
    with pytest.raises(DataError, match=r"the function that output names returned 3, and not an OutputWriter"):
        algorithm.train()
    with pytest.raises(ConfigError, match="env_task_fn sets tasks of environments, and experience is recorded"):
        algorithm_class("PPO")({**PPO, "input": str(tmp_path), "env_task_fn": len})
