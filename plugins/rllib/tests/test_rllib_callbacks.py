"""Callbacks: those of all generations are called with what they name, when they should be, and say where they fail."""

from __future__ import annotations

import functools
from typing import Any

import kernel_rllib
import numpy as np
import pytest
from kernel_rllib.algorithms.dqn import DQNConfig
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.callbacks.callbacks import EVENTS, DefaultCallbacks, RLlibCallback
from kernel_rllib.callbacks.memory import MemoryTrackingCallbacks
from kernel_rllib.callbacks.metrics_logger import MetricsLogger
from kernel_rllib.callbacks.multi import make_multi_callbacks
from kernel_rllib.errors import CallbackError, ConfigError
from kernel_rllib.testing.counting import Counting
from kernel_rllib.training.algorithm import Algorithm


def config(callbacks: Any = None, /, **named: Any) -> PPOConfig:
    """Return small settings, whose episodes have four steps of reward 1."""
    made = PPOConfig().environment(Counting).env_runners(num_envs=2, num_env_runners=0).debugging(seed=0)
    made.training(train_batch_size=16, minibatch_size=16, num_epochs=1, model={"fcnet_hiddens": [4]})
    return made.callbacks(callbacks, **named) if named else made.callbacks(callbacks)


class Of085(DefaultCallbacks):
    """Callbacks as the documents of 0.8.5 write them."""

    def on_episode_start(self, worker: Any, base_env: Any, policies: Any, episode: Any, **kwargs: Any) -> None:
        """Begin a list."""
        assert list(policies) == ["default_policy"] and len(base_env.get_unwrapped()) == 2
        episode.user_data["counts"] = []

    def on_episode_step(self, worker: Any, base_env: Any, episode: Any, **kwargs: Any) -> None:
        """Add to it."""
        episode.user_data["counts"].append(episode.last_observation_for()[0])
        assert episode.last_action_for() in (0, 1, 2) and episode.last_info_for() == {}

    def on_episode_end(self, worker: Any, base_env: Any, policies: Any, episode: Any, **kwargs: Any) -> None:
        """Report of it."""
        assert episode.user_data["counts"] == [1, 2, 3, 4]
        assert episode.agent_rewards == {("agent0", "default_policy"): 4.0}
        episode.custom_metrics["last"] = episode.user_data["counts"][-1]
        episode.hist_data["counts"] = [1.0, 2.0]

    def on_sample_end(self, worker: Any, samples: Any, **kwargs: Any) -> None:
        """Change what is learned from."""
        assert samples.count == 16
        samples["rewards"][:] = 3.0

    def on_train_result(self, trainer: Any, result: dict[str, Any], **kwargs: Any) -> None:
        """Add to the result."""
        result["seen_by"] = type(trainer).__name__


class OfToday(RLlibCallback):
    """Callbacks as today's documents write them."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_algorithm_init(self, *, algorithm: Any, metrics_logger: Any, **kwargs: Any) -> None:
        """Note it."""
        algorithm.heard = self.heard
        self.heard.append("init")

    def on_episode_end(
        self, *, episode: Any, env_runner: Any, metrics_logger: Any, env: Any, env_index: int, rl_module: Any, **kw: Any
    ) -> None:
        """Report values."""
        assert env.envs[env_index].unwrapped.length == 4 and env_runner.worker_index == 0 and rl_module is not None
        assert len(episode) == 4 and episode.get_return() == 4.0 and episode.is_terminated and episode.is_done
        np.testing.assert_array_equal(episode.get_observations(slice(-2, None))[:, 0], [3, 4])
        assert episode.get_observations(-1)[0] == 4 and len(episode.get_actions()) == 4
        np.testing.assert_array_equal(episode.get_rewards([0, 1]), [1, 1])
        metrics_logger.log_value("biggest", episode.get_observations(-1)[0], reduce="max")
        metrics_logger.log_value(("nested", "episodes"), 1, reduce="sum", clear_on_reduce=True)

    def on_train_result(self, *, algorithm: Any, metrics_logger: Any, result: dict[str, Any], **kwargs: Any) -> None:
        """Report a value of the algorithm's own."""
        metrics_logger.log_value("results", 1, reduce="sum")
        self.heard.append("result")

    def on_checkpoint_loaded(self, *, algorithm: Any, **kwargs: Any) -> None:
        """Note it."""
        self.heard.append("loaded")


def test_callbacks_of_0_8_5_are_called_as_they_were() -> None:
    algorithm = config(Of085).build()
    result = algorithm.train()
    assert result["custom_metrics"] == {"last_mean": 4.0, "last_min": 4.0, "last_max": 4.0}
    assert result["hist_stats"]["counts"] == [1.0, 2.0] * 4 and result["seen_by"] == "PPO"


def test_what_callbacks_change_in_samples_is_learned_from() -> None:
    algorithm = config(Of085).build()
    assert (algorithm.sample().columns["rewards"] == 3.0).all()


def test_callbacks_of_today_are_called_as_they_are(tmp_path: Any) -> None:
    algorithm = config(OfToday).build()
    first, second = algorithm.train(), algorithm.train()
    assert first["env_runners"]["biggest"] == 4 and first["env_runners"]["nested"] == {"episodes": 4}
    assert second["env_runners"]["nested"] == {"episodes": 4} and second["results"] == 1
    algorithm.restore(algorithm.save(str(tmp_path)))
    assert algorithm.heard == ["init", "result", "result", "loaded"]
    assert algorithm.train()["results"] == 2


def test_functions_are_called_beside_classes() -> None:
    heard: list[Any] = []
    made = config(
        [OfToday, Of085],
        on_train_result=[lambda result, **_: heard.append(result["training_iteration"]), lambda algorithm: None],
        on_episode_created=lambda *, episode, **_: heard.append(episode.t),
        on_environment_created=lambda env_runner, env_context, **_: heard.append(env_context.worker_index),
        on_algorithm_init=lambda **kwargs: heard.append(sorted(kwargs)),
    )
    result = made.build().train()
    assert heard[:4] == [0, ["algorithm", "metrics_logger", "trainer"], 0, 0] and heard[-1] == 1
    assert result["seen_by"] == "PPO" and result["env_runners"]["biggest"] == 4


def test_functions_of_one_dict_are_called_as_in_0_8_5() -> None:
    heard: dict[str, Any] = {}

    def on_postprocess_traj(info: dict[str, Any]) -> None:
        policy, before = info["pre_batch"]
        heard["weights"], heard["before"] = policy.get_weights(), before["rewards"]
        info["post_batch"]["rewards"][-1] = 50.0

    functions = {
        "on_episode_start": lambda info: heard.setdefault("start", (info["env"].num_envs, [*info["policy"]])),
        "on_episode_end": lambda info: info["episode"].custom_metrics.update(length=info["episode"].length),
        "on_sample_end": lambda info: heard.setdefault("samples", info["samples"].count),
        "on_postprocess_traj": on_postprocess_traj,
        "on_train_result": lambda info: info["result"].update(trained=info["trainer"].iteration),
    }
    for given in (functions, functools.partial(DefaultCallbacks, functions)):
        heard.clear()
        algorithm = config(given).build()
        fragment = algorithm.sample()
        np.testing.assert_array_equal(fragment.columns["rewards"][:, 0], [1, 1, 1, 50] * 2)
        result = algorithm.train()
        assert result["custom_metrics"]["length_mean"] == 4 and result["trained"] == 1
        assert heard["start"] == (2, ["default_policy"]) and heard["samples"] == 16
        np.testing.assert_array_equal(heard["before"], [1, 1, 1, 1])
        assert "policy/head/bias" in heard["weights"]


def test_trajectories_may_get_other_arrays_and_further_columns() -> None:
    def on_postprocess_trajectory(
        self: Any, worker: Any, episode: Any, agent_id: str, policy_id: str, policies: Any, postprocessed_batch: Any,
        original_batches: Any, **kwargs: Any,
    ) -> None:  # fmt: skip
        assert (agent_id, policy_id, worker.worker_index) == ("agent0", "default_policy", 0)
        episode.custom_metrics["pieces"] = episode.custom_metrics.get("pieces", 0) + 1
        postprocessed_batch["rewards"] = np.full(postprocessed_batch.count, 7, np.float32)
        postprocessed_batch["bonus"] = np.arange(postprocessed_batch.count, dtype=np.float32)

    made = type("Changes", (DefaultCallbacks,), {"on_postprocess_trajectory": on_postprocess_trajectory})
    settings = config(made).env_runners(rollout_fragment_length=3)
    settings.training(train_batch_size=6, minibatch_size=6)
    algorithm = settings.build()
    first, second = algorithm.sample(), algorithm.sample()
    assert (first.columns["rewards"] == 7).all()
    np.testing.assert_array_equal(second.columns["bonus"][:, 1], [0, 0, 1])
    assert algorithm.reports.episodes.results()["custom_metrics"]["pieces_max"] == 2


@pytest.mark.parametrize("kind", [PPOConfig, DQNConfig])
def test_what_is_learned_from_is_seen_first(kind: Any) -> None:
    class Watches(DefaultCallbacks):
        def on_learn_on_batch(self, *, policy: Any, train_batch: Any, result: dict[str, Any], **kwargs: Any) -> None:
            result["rows"] = train_batch.count

    made = kind().environment(Counting).env_runners(num_envs=2, num_env_runners=0).callbacks(Watches)
    made.training(train_batch_size=16, model={"fcnet_hiddens": [4]})
    if kind is PPOConfig:
        made.training(minibatch_size=16, num_epochs=1)
    else:
        made.training(num_steps_sampled_before_learning_starts=0)
        made.reporting(min_sample_timesteps_per_iteration=32, min_time_s_per_iteration=0)
    result = made.build().train()
    assert result["learners"]["default_policy"]["rows"] > 0


def test_each_sub_environment_is_shown() -> None:
    seen: list[Any] = []

    class Shows(DefaultCallbacks):
        def on_sub_environment_created(self, *, worker: Any, sub_environment: Any, env_context: Any, **kw: Any) -> None:
            seen.append((type(sub_environment).__name__, env_context.vector_index))

    config(Shows).build()
    assert seen == [("Counting", 0), ("Counting", 1)]


def test_several_classes_make_one() -> None:
    result = config(make_multi_callbacks([Of085, OfToday])).build().train()
    assert result["custom_metrics"]["last_mean"] == 4 and result["env_runners"]["biggest"] == 4


def test_memory_is_tracked() -> None:
    result = config(MemoryTrackingCallbacks).build().train()
    assert result["custom_metrics"]["tracemalloc/worker/rss_mean"] > 1e6
    assert any(name.endswith("/count_mean") for name in result["custom_metrics"])
    import tracemalloc

    tracemalloc.stop()


def test_custom_metrics_are_kept_episode_by_episode_where_that_is_asked_for() -> None:
    result = config(Of085).reporting(keep_per_episode_custom_metrics=True).build().train()
    assert result["custom_metrics"] == {"last": [4.0] * 4}


def test_callbacks_change_nothing_where_they_only_look() -> None:
    plain, watched = config().build(), config(OfToday).build()
    assert plain.runners.local.sampler.observer is None  # nothing is kept where nothing asks for it
    for algorithm in (plain, watched):
        algorithm.train()
    assert plain.learner.weights.tobytes() == watched.learner.weights.tobytes()
    only_results = config(on_train_result=lambda **_: None).build()
    assert only_results.runners.local.sampler.observer is None


def test_open_episodes_go_on_with_what_callbacks_keep(tmp_path: Any) -> None:
    settings = config(Of085).env_runners(rollout_fragment_length=3).training(train_batch_size=6, minibatch_size=6)
    settings.callbacks(type("NoSamples", (Of085,), {"on_sample_end": RLlibCallback.on_sample_end}))
    algorithm = settings.build()
    algorithm.train()
    again = Algorithm.from_checkpoint(algorithm.save(str(tmp_path)), trust=True)
    assert again.train()["custom_metrics"] == algorithm.train()["custom_metrics"] == {
        "last_mean": 4.0, "last_min": 4.0, "last_max": 4.0,
    }  # fmt: skip


def test_whole_episodes_are_seen_and_only_counted_ones_are_reported() -> None:
    settings = config(type("NoSamples", (Of085,), {"on_sample_end": RLlibCallback.on_sample_end}))
    result = settings.env_runners(batch_mode="complete_episodes").build().train()
    assert result["hist_stats"]["counts"] == [1.0, 2.0] * result["episodes_this_iter"]


@pytest.mark.usefixtures("session")
def test_runners_in_actors_have_callbacks_of_their_own() -> None:
    class Tells(DefaultCallbacks):
        def on_episode_end(self, *, worker: Any, episode: Any, metrics_logger: Any, **kwargs: Any) -> None:
            episode.custom_metrics["runner"] = worker.worker_index
            metrics_logger.log_value("ended", 1, reduce="sum")

    settings = config(Tells).env_runners(num_env_runners=2, num_cpus_per_env_runner=0)
    algorithm = settings.build()
    result = algorithm.train()
    assert (result["custom_metrics"]["runner_min"], result["custom_metrics"]["runner_max"]) == (1.0, 2.0)
    assert result["env_runners"]["ended"] == 4
    algorithm.stop()


@pytest.mark.usefixtures("session")
def test_callbacks_hear_of_new_runners() -> None:
    heard: list[Any] = []
    settings = config(on_env_runners_recreated=lambda env_runner_indices, is_evaluation, **_: heard.append(
        (env_runner_indices, is_evaluation)
    ))  # fmt: skip
    algorithm = settings.env_runners(num_env_runners=2, num_cpus_per_env_runner=0).build()
    algorithm.train()
    import kernel

    kernel.kill(algorithm.runners._remote[2].handle)
    algorithm.train()
    assert heard == [([2], False)]
    algorithm.stop()


# -- what is wrong ---------------------------------------------------------------------------------------------------


class Fails(DefaultCallbacks):
    """A callback with a mistake in it."""

    def on_episode_step(self, *, episode: Any, **kwargs: Any) -> None:
        """Read what nobody wrote."""
        episode.user_data["missing"].append(1)


def test_a_callback_that_raises_is_named_with_its_line() -> None:
    said = r"the callback Fails\.on_episode_step raised KeyError: 'missing' in .*test_rllib_callbacks\.py, line \d+: e"
    with pytest.raises(CallbackError, match=said) as caught:
        config(Fails).build().train()
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(CallbackError, match=r"the callback callbacks\['on_train_result'\] raised KeyError"):
        config({"on_train_result": lambda info: info["algorithm"]}).build().train()


@pytest.mark.usefixtures("session")
def test_a_callback_that_raises_in_an_actor_is_named_as_well() -> None:
    algorithm = config(Fails).env_runners(num_env_runners=1, num_cpus_per_env_runner=0).build()
    with pytest.raises(CallbackError, match=r"the callback Fails\.on_episode_step raised KeyError: 'missing'"):
        algorithm.train()
    algorithm.stop()


@pytest.mark.parametrize(
    ("callbacks", "said"),
    [
        ({"on_episode_ended": print}, "callbacks has 'on_episode_ended'; did you mean 'on_episode_end'"),
        ("no_such_module.Callbacks", "there is no class at that path"),
        (
            type("Wrong", (DefaultCallbacks,), {"on_episode_end": lambda self, epsiode: None}),
            r"Wrong\.on_episode_end has the parameter 'epsiode', which nothing is given for: on_episode_end has",
        ),
        (
            type("Needs", (DefaultCallbacks,), {"__init__": lambda self, size: None}),
            "the callbacks .*Needs can't be made without arguments: TypeError",
        ),
    ],
)
def test_wrong_callbacks_are_refused_when_the_algorithm_is_built(callbacks: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        config(callbacks).build()


def test_custom_metrics_are_numbers() -> None:
    def on_episode_end(*, episode: Any, **_: Any) -> None:
        episode.custom_metrics["name"] = "text"

    with pytest.raises(CallbackError, match=r"custom_metrics\['name'\] to 'text', a str: give a number"):
        config(on_episode_end=on_episode_end).build().train()


# -- values that are logged ------------------------------------------------------------------------------------------


def test_values_are_reduced_as_they_were_asked_to_be() -> None:
    logger = MetricsLogger()
    for value in (1.0, 2.0, 6.0):
        logger.log_value("windowed", value, window=2)
        logger.log_value("cleared", value, clear_on_reduce=True)
        logger.log_value("moving", value, ema_coeff=0.5)
        logger.log_value("sum", value, reduce="sum")
        logger.log_value("least", value, reduce="min", window=2)
        logger.log_value("listed", value, reduce=None, clear_on_reduce=True)
    expected = {"windowed": 4.0, "cleared": 3.0, "moving": 3.75, "sum": 9.0, "least": 2.0, "listed": [1.0, 2.0, 6.0]}
    assert logger.peek("windowed") == 4.0 and logger.peek("nothing", 5) == 5
    assert logger.reduce() == expected
    again = logger.reduce()
    assert np.isnan(again.pop("cleared")) and again == {
        **{name: value for name, value in expected.items() if name != "cleared"}, "listed": [],
    }  # fmt: skip


def test_trees_and_times_are_logged() -> None:
    logger = MetricsLogger()
    logger.log_dict({"a": 1, "b": {"c": 2}}, key="above", reduce="sum")
    with logger.log_time("seconds"):
        pass
    logger.set_value("set", 3)
    logger.set_value("set", 4)
    found = logger.reduce()
    assert found["above"] == {"a": 1, "b": {"c": 2}} and 0 <= found["seconds"] < 1 and found["set"] == 4


def test_wrong_values_are_refused() -> None:
    logger = MetricsLogger()
    with pytest.raises(ConfigError, match="reduce is 'median', but must be one of"):
        logger.log_value("a", 1, reduce="median")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="got 'text', a str: give one number"):
        logger.log_value("a", "text")
    logger.log_value("a", 1, window=3)
    with pytest.raises(ConfigError, match="a was reported with .*give it the same ones each time"):
        logger.log_value("a", 1, window=4)


def test_all_events_have_a_method() -> None:
    assert all(callable(getattr(RLlibCallback, event)) for event in EVENTS)
    assert kernel_rllib.RLlibCallback is RLlibCallback
