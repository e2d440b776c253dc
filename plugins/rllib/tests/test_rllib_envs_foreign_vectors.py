"""Vector environments of others: whichever way they reset, a lane's next episode begins in the same step."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from kernel_rllib.envs.foreign_vectors import EnvPoolVector, GymnasiumVector, infos_by_lane, is_envpool
from kernel_rllib.envs.games.chain import Chain
from kernel_rllib.envs.loop import LoopEnv
from kernel_rllib.envs.making import make_vector
from kernel_rllib.envs.native import NativeEnv
from kernel_rllib.envs.vector_base import UserVector, VectorEnvBase
from kernel_rllib.errors import EnvError
from kernel_rllib.testing.environments import Counter

LENGTHS = (2, 3)


def makers() -> list[Any]:
    return [lambda length=length: Counter(length, tells=True) for length in LENGTHS]


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("vector", [SyncVectorEnv, AsyncVectorEnv])
def test_lanes_of_gymnasium_are_those_of_a_loop(vector: Any, mode: AutoresetMode) -> None:
    found = GymnasiumVector(vector(makers(), autoreset_mode=mode))
    expected = LoopEnv(makers())
    try:
        assert found.independent_lanes and found.num_lanes == 2
        np.testing.assert_array_equal(found.reset([4, 5]), expected.reset([4, 5]))
        assert found.reset_infos == expected.reset_infos
        for number in range(9):
            actions = np.array([number % 5, 1])
            one, other = expected.step(actions), found.step(actions)
            for field in ("obs", "rewards", "terminateds", "truncateds"):
                np.testing.assert_array_equal(getattr(other, field), getattr(one, field), err_msg=field)
            assert other.final_obs.keys() == one.final_obs.keys() and other.void == ()
            assert all(np.array_equal(other.final_obs[lane], row) for lane, row in one.final_obs.items())
            assert other.infos == one.infos and other.reset_infos == one.reset_infos
    finally:
        found.close()


class NextStepOnly(VectorEnv[Any, Any, Any]):
    """Rings of three states in numpy, which reset with the step after an end, and can do so only together."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
    num_envs = 2
    single_observation_space = spaces.Box(0, 9, (1,), np.float32)
    single_action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.state = np.zeros(2)
        self.over = np.zeros(2, bool)
        self.seeds: list[Any] = []

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.seeds.append(seed)
        self.state = np.zeros(2)
        return self.seen(), {}

    def step(self, actions: Any) -> Any:
        self.state = np.where(self.over, 0, self.state + 1 + actions)
        rewards = np.where(self.over, 0.0, self.state)
        self.over = ~self.over & (self.state >= 3)
        return self.seen(), rewards, self.over, np.zeros(2, bool), {"at": self.state.copy()}

    def seen(self) -> Any:
        return self.state[:, None].astype(np.float32)


def test_a_reset_that_uses_up_a_step_is_void() -> None:
    env = GymnasiumVector(NextStepOnly())
    assert not env.independent_lanes
    assert env.reset([7, 8]).tolist() == [[0], [0]]
    actions = np.array([0, 1])
    steps = [env.step(actions) for _ in range(5)]
    assert [step.obs[:, 0].tolist() for step in steps] == [[1, 2], [2, 4], [3, 0], [0, 2], [1, 4]]
    assert [step.void for step in steps] == [(), (), (1,), (0,), ()]
    assert [step.final_obs for step in steps] == [{}, {1: [4]}, {0: [3]}, {}, {1: [4]}]
    assert [step.terminateds.tolist() for step in steps][1:3] == [[False, True], [True, False]]
    assert [step.rewards.tolist() for step in steps] == [[1, 2], [2, 4], [3, 0], [0, 2], [1, 4]]
    assert steps[2].reset_infos == {1: {"at": 0}} and steps[2].infos == {0: {"at": 3}}
    assert env.foreach(lambda inner: inner.seeds) == [[7]]
    env.reset([None, None])
    assert env.step(actions).void == ()  # a reset of all leaves nothing to be reset
    with pytest.raises(EnvError, match="^NextStepOnly can't reset one lane alone"):
        env.reset_lane(0)
    with pytest.raises(EnvError, match="can't be copied one by one"):
        env.snapshot(0)
    with pytest.raises(EnvError, match="can't be copied one by one"):
        env.restore(0, b"")


def test_gymnasium_s_own_vector_of_carts_is_not_reset_as_a_whole() -> None:
    env = make_vector(lambda config: gymnasium.make_vec("CartPole-v1", num_envs=3), 3)
    assert isinstance(env, GymnasiumVector)
    env.reset([0, 0, 0])
    due: set[int] = set()
    ends = 0
    for _ in range(60):
        step = env.step(np.array([1, 0, 1]))
        assert set(step.void) == due
        assert all(np.abs(step.obs[lane]).max() <= 0.05 for lane in step.void)
        due = set(step.final_obs)
        ends += len(due)
    assert ends > 8


def test_one_lane_is_reset_with_a_mask() -> None:
    env = GymnasiumVector(SyncVectorEnv(makers()))
    env.reset([0, 0])
    env.step(np.array([1, 1]))
    row = env.reset_lane(0, seed=3)
    np.testing.assert_array_equal(row, LoopEnv(makers()[:1]).reset([3])[0])
    assert env.reset_infos == {0: {"begun": True}}
    step = env.step(np.array([1, 1]))
    assert step.obs[:, 0].tolist() == [1, 2] and not step.final_obs
    assert env.render(1) is None or env.render(1).shape == (2, 2, 3)
    assert env.foreach(lambda inner: inner.count) == [1, 2]


def test_nan_in_a_vector_is_an_error() -> None:
    class Foggy(NextStepOnly):
        def seen(self) -> Any:
            return np.where(self.state[:, None] > 1, np.nan, 0).astype(np.float32)

    env = GymnasiumVector(Foggy())
    env.reset([0, 0])
    env.step(np.array([0, 0]))
    with pytest.raises(EnvError, match=r"^Foggy.step\(\) returned an observation with NaN in it"):
        env.step(np.array([1, 1]))


def test_a_vector_of_objects_is_refused() -> None:
    class Lists(NextStepOnly):
        single_observation_space = spaces.Sequence(spaces.Discrete(2))  # type: ignore[assignment]

    with pytest.raises(EnvError, match="^Lists: observations of Sequence.* can't be stepped as a vector"):
        GymnasiumVector(Lists())


def test_infos_of_a_vector_by_lane() -> None:
    infos = {
        "speed": np.array([1.0, 0.0, 3.0]), "_speed": np.array([True, False, True]), "all": np.array([7, 8, 9]),
        "inner": {"x": np.array([0, 5, 0]), "_x": np.array([False, True, False])},
        "_inner": np.array([False, True, False]),
    }  # fmt: skip
    assert infos_by_lane({"_odd": np.array([1, 2])}, 2) == {0: {"_odd": 1}, 1: {"_odd": 2}}
    assert infos_by_lane({"odd": np.array([1, 2]), "x_odd": np.array([3, 4])}, 2)[0] == {"odd": 1, "x_odd": 3}
    assert infos_by_lane(infos, 3) == {
        0: {"speed": 1.0, "all": 7}, 1: {"all": 8, "inner": {"x": 5}}, 2: {"speed": 3.0, "all": 9},
    }  # fmt: skip


class Pool:
    """An EnvPool as far as it is used: results of a few lanes, in any order; resets with the step after an end."""

    config = {"num_envs": 3, "batch_size": 3}
    observation_space = spaces.Box(0, 99, (1,), np.float32)
    action_space = spaces.Discrete(2)
    all_env_ids = async_reset = recv = send = None

    def __init__(self) -> None:
        self.state = np.zeros(3)
        self.over = np.zeros(3, bool)
        self.closed = False

    def reset(self, env_ids: Any = None) -> Any:
        ids = np.arange(3) if env_ids is None else np.asarray(env_ids)
        self.state[ids], self.over[ids] = 10.0 * ids, False
        return self.told(ids)

    def step(self, actions: Any) -> Any:
        assert not self.over.any(), "a lane was stepped after its end"
        self.state += 1 + actions
        self.over = self.state % 10 >= 3
        order = np.array([2, 0, 1])
        obs, infos = self.told(order)
        return obs, self.state[order], self.over[order], np.zeros(3, bool), infos

    def told(self, ids: Any) -> Any:
        shuffled = ids[::-1]
        return self.state[shuffled, None].astype(np.float32), {"env_id": shuffled}

    def close(self) -> None:
        self.closed = True


class PoolInOrder(Pool):
    def told(self, ids: Any) -> Any:
        return self.state[ids, None].astype(np.float32), {"env_id": ids}


def test_pools() -> None:
    pool = PoolInOrder()
    assert is_envpool(pool) and not is_envpool(Counter())
    env = make_vector(lambda config: pool, 3)
    assert isinstance(env, EnvPoolVector)
    assert env.reset([None] * 3).tolist() == [[0], [10], [20]]
    assert env.step(np.array([0, 1, 1])).obs.tolist() == [[1], [12], [22]]
    step = env.step(np.array([0, 0, 1]))
    assert step.terminateds.tolist() == [False, True, True] and step.rewards.tolist() == [2, 13, 24]
    assert step.obs.tolist() == [[2], [10], [20]]
    assert {lane: row.tolist() for lane, row in step.final_obs.items()} == {1: [13], 2: [24]}
    assert env.reset_lane(0).tolist() == [0]
    assert env.foreach(lambda inner: inner is pool) == [True]
    env.close()
    assert pool.closed
    for call in (lambda: env.snapshot(0), lambda: env.restore(0, b""), env.render):
        with pytest.raises(EnvError):
            call()


def test_a_pool_of_smaller_batches_is_refused() -> None:
    pool = Pool()
    pool.config = {"num_envs": 3, "batch_size": 2}
    with pytest.raises(EnvError, match="has a batch_size of 2 and 3 lanes: make it with batch_size equal to num_envs"):
        EnvPoolVector(pool)


class Written(VectorEnvBase):
    """A vector environment as users wrote them."""

    def __init__(self, generation: int) -> None:
        super().__init__(spaces.Box(0, 9, (1,)), spaces.Discrete(2), 2)
        self.generation = generation
        self.counts = [0, 0]

    def vector_reset(self) -> Any:
        self.counts = [0, 0]
        return [[0], [0]] if self.generation == 1 else ([[0], [0]], [{}, {"begun": 1}])

    def reset_at(self, index: int) -> Any:
        self.counts[index] = 0
        return [0] if self.generation == 1 else ([0], {"again": index})

    def vector_step(self, actions: list[Any]) -> Any:
        self.counts = [count + 1 + int(action) for count, action in zip(self.counts, actions, strict=True)]
        ends = [count >= 3 for count in self.counts]
        cut = [{"TimeLimit.truncated": end and lane == 1} for lane, end in enumerate(ends)]
        obs = [[count] for count in self.counts]
        if self.generation == 1:
            return obs, [1, 2.5], ends, cut
        return obs, [1, 2.5], [ends[0], False], [False, ends[1]], [{}, {"told": 1}]


@pytest.mark.parametrize("generation", [1, 2])
def test_vectors_as_users_wrote_them(generation: int) -> None:
    env = make_vector(lambda config: Written(generation), 2)
    assert isinstance(env, UserVector) and not env.independent_lanes
    assert env.reset([None, None]).tolist() == [[0], [0]]
    assert env.reset_infos == ({} if generation == 1 else {1: {"begun": 1}})
    step = env.step(np.array([0, 0]))
    assert step.obs.tolist() == [[1], [1]] and step.rewards.tolist() == [1, 2.5]
    step = env.step(np.array([1, 1]))
    assert step.terminateds.tolist() == [True, False] and step.truncateds.tolist() == [False, True]
    assert step.obs.tolist() == [[0], [0]] and step.final_obs[1].tolist() == [3]
    assert step.reset_infos == ({} if generation == 1 else {0: {"again": 0}, 1: {"again": 1}})
    assert env.reset_lane(1).tolist() == [0]
    assert env.foreach(lambda inner: type(inner)) == [Written]


def test_wrong_vectors_of_users() -> None:
    class Short(Written):
        def vector_step(self, actions: list[Any]) -> Any:
            return [[0]], [0, 0], [False, False], [{}, {}]

    class Three(Written):
        def vector_step(self, actions: list[Any]) -> Any:
            return [[0], [0]], [0, 0], [False, False]

    for wrong, words in ((Short, "list with an item for each of its 2"), (Three, "return .observations, rewards")):
        env = UserVector(wrong(1))
        env.reset([None, None])
        with pytest.raises(EnvError, match=words):
            env.step(np.array([0, 0]))
    bare = Written(1)
    bare.num_envs = None  # type: ignore[assignment]
    with pytest.raises(EnvError, match="^Written has no num_envs"):
        UserVector(bare)
    for call in (
        lambda: VectorEnvBase.vector_reset(bare),
        lambda: VectorEnvBase.reset_at(bare, 0),
        lambda: VectorEnvBase.vector_step(bare, []),
    ):
        with pytest.raises(NotImplementedError, match="^Written has no"):
            call()


def test_the_chain_is_exact_in_every_kind() -> None:
    """Rewards that belong to a step, and ends that belong to a state, whichever way lanes are stepped."""
    vectors = [
        LoopEnv([Chain] * 2),
        NativeEnv(Chain.game_class(), 2),
        GymnasiumVector(SyncVectorEnv([Chain] * 2)),
        GymnasiumVector(SyncVectorEnv([Chain] * 2, autoreset_mode=AutoresetMode.SAME_STEP)),
    ]
    for env in vectors:
        env.reset([0, 0])
        steps = [env.step(np.zeros(2, np.int64)) for _ in range(6)]
        assert [step.rewards[0] for step in steps] == [1, 2, 3, 1, 2, 3]
        assert [bool(step.terminateds[0]) for step in steps] == [False, False, True] * 2
        assert [int(step.obs[0].argmax()) for step in steps] == [1, 2, 0] * 2
        assert [step.final_obs[0].argmax() for step in steps if step.final_obs] == [0, 0]
