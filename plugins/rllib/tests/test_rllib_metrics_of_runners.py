"""What callbacks log has the same numbers, whichever runner it was logged in."""

from __future__ import annotations

from typing import Any

import pytest
from kernel_rllib.algorithms.ppo import PPOConfig
from kernel_rllib.callbacks.callbacks import RLlibCallback
from kernel_rllib.envs.games.multi_agent_cart_pole import MultiAgentCartPole


class Logs(RLlibCallback):
    """Logs numbers whose means depend on the order in which they come."""

    def on_episode_start(self, *, episode: Any, metrics_logger: Any, **kwargs: Any) -> None:
        """Log what is seen first."""
        self.log(metrics_logger, "first", episode)

    def on_episode_step(self, *, episode: Any, metrics_logger: Any, **kwargs: Any) -> None:
        """Log what is seen."""
        self.log(metrics_logger, "seen", episode)

    def on_episode_end(self, *, episode: Any, metrics_logger: Any, **kwargs: Any) -> None:
        """Log how long it was."""
        metrics_logger.log_value("last_ones", len(episode), window=2)
        metrics_logger.log_value("each", len(episode), reduce=None, clear_on_reduce=True)

    def on_postprocess_trajectory(self, *, worker: Any, postprocessed_batch: Any, **kwargs: Any) -> None:
        """Log how long pieces are."""
        worker.metrics.log_value("pieces", postprocessed_batch.count, ema_coeff=0.5)

    @staticmethod
    def log(metrics_logger: Any, key: str, episode: Any) -> None:
        """Log the place of a cart as a mean that forgets, and as a sum, whose last bits depend on the order."""
        observed = episode.get_observations(-1)
        angle = float((observed if not isinstance(observed, dict) else next(iter(observed.values())))[0])
        metrics_logger.log_value(key, angle)
        metrics_logger.log_value(f"{key}_sum", angle, reduce="sum", clear_on_reduce=True)


def logged_with(runners: int, **changed: Any) -> list[dict[str, Any]]:
    several = changed.pop("several", False)
    config = (
        PPOConfig()
        .environment(MultiAgentCartPole if several else "CartPole-v1", env_config={"num_agents": 2} if several else {})
        .env_runners(num_env_runners=runners, num_envs=3, num_cpus_per_env_runner=0, **changed)
        .training(train_batch_size=90, minibatch_size=45, num_epochs=1, model={"fcnet_hiddens": [4]})
        .callbacks(Logs)
        .debugging(seed=5)
    )
    algorithm = config.build()
    names = ("first", "first_sum", "seen", "seen_sum", "last_ones", "each", "pieces")
    results = [algorithm.train()["env_runners"] for _ in range(2)]
    algorithm.stop()
    return [{name: result[name] for name in names} for result in results]


@pytest.mark.usefixtures("session")
@pytest.mark.parametrize("changed", [{}, {"batch_mode": "complete_episodes"}, {"several": True}])
def test_numbers_are_the_same_for_any_number_of_runners(changed: Any) -> None:
    here = logged_with(0, **changed)
    assert logged_with(2, **changed) == here
    assert len(here[1]["each"]) > 3 and here[0]["seen"] != here[1]["seen"]
