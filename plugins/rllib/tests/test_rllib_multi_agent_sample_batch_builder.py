"""Batches of several policies, row by row: agents' rows go to their policies, postprocessed with those of others."""

from __future__ import annotations

from typing import Any

import pytest
from kernel_rllib.data.batch import MultiAgentBatch
from kernel_rllib.errors import DataError
from kernel_rllib.first_generation.multi_agent_sample_batch_builder import MultiAgentSampleBatchBuilder


class Watched:
    """A policy that writes down what it is given, and adds a column."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def postprocess_trajectory(self, batch: Any, others: Any = None, episode: Any = None) -> Any:
        """Return the batch with the number of others."""
        self.seen.append((batch["rewards"].tolist(), {agent: each[1].count for agent, each in others.items()}, episode))
        batch["beside"] = [len(others)] * batch.count
        return batch


def test_rows_by_agent_become_batches_by_policy() -> None:
    shared = Watched()
    builder = MultiAgentSampleBatchBuilder({"shared": shared, "own": None}, clip_rewards=False, callbacks=None)
    assert not builder.has_pending_agent_data() and builder.total() == 0
    for step in range(3):
        builder.add_values("a", "shared", obs=[step], rewards=step)
        builder.add_values("b", "shared", obs=[10 + step], rewards=10 + step)
        builder.add_values("c", "own", obs=[20 + step], rewards=20 + step)
        builder.count += 1
    assert builder.total() == 9 and builder.has_pending_agent_data()
    builder.postprocess_batch_so_far("an episode")
    assert builder.total() == 0 and not builder.has_pending_agent_data()
    assert shared.seen == [
        ([0, 1, 2], {"b": 3, "c": 3}, "an episode"), ([10, 11, 12], {"a": 3, "c": 3}, "an episode"),
    ]  # fmt: skip
    builder.add_values("a", "own", obs=[5], rewards=5)
    found = builder.build_and_reset("an episode")
    assert isinstance(found, MultiAgentBatch) and found.env_steps() == 3
    assert (
        found["shared"]["rewards"].tolist() == [0, 1, 2, 10, 11, 12] and found["shared"]["beside"].tolist() == [2] * 6
    )
    assert found["own"]["rewards"].tolist() == [20, 21, 22, 5]
    assert builder.build_and_reset().policy_batches == {} and builder.count == 0


def test_rewards_may_become_their_signs() -> None:
    builder = MultiAgentSampleBatchBuilder({"own": None}, clip_rewards=True, callbacks=None)
    for reward in (-3.0, 0.0, 7.0):
        builder.add_values("a", "own", rewards=reward)
    assert builder.build_and_reset()["own"]["rewards"].tolist() == [-1, 0, 1]


def test_callbacks_hear_of_each_agent() -> None:
    heard: list[Any] = []

    class Callbacks:
        def on_postprocess_trajectory(self, **told: Any) -> None:
            """Write down what is told."""
            heard.append((told["agent_id"], told["policy_id"], sorted(told["original_batches"]), told["episode"]))

    def by_event(info: Any) -> None:
        heard.append((info["agent_id"], info["post_batch"].count, sorted(info["all_pre_batches"]), info["episode"]))

    for callbacks, second in ((Callbacks(), "own"), ({"on_postprocess_traj": by_event}, 1)):
        builder = MultiAgentSampleBatchBuilder({"own": None}, False, callbacks)
        builder.add_values(1, "own", rewards=1.0)
        builder.add_values(2, "own", rewards=1.0)
        builder.build_and_reset("here")
        assert heard == [(1, second, [1, 2], "here"), (2, second, [1, 2], "here")]
        heard.clear()


def test_what_does_not_fit_is_refused() -> None:
    builder = MultiAgentSampleBatchBuilder({"own": None, "other": None}, False, None)
    with pytest.raises(DataError, match="there is no policy 'none' that acts for agent 'a': the builder was"):
        builder.add_values("a", "none", rewards=1.0)
    builder.add_values("a", "own", rewards=1.0)
    with pytest.raises(DataError, match="the rows of agent 'a' were those of the policy 'own', and now there is"):
        builder.add_values("a", "other", rewards=1.0)
    with pytest.raises(DataError, match="row 1 has no rewards"):
        builder.add_values("a", "own", dones=True)
