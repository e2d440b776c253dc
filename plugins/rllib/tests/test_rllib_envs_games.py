"""The games that ship: equal to gymnasium's, one lane equal to many, and rules that are as written."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.envs.context import EnvContext
from kernel_rllib.envs.contract import VectorEnv
from kernel_rllib.envs.game import Game, SingleEnv
from kernel_rllib.envs.games.acrobot import Acrobot
from kernel_rllib.envs.games.cart_pole import CartPole, CartPoleGame, StatelessCartPole
from kernel_rllib.envs.games.catch import Catch
from kernel_rllib.envs.games.chain import Chain, ChainGame
from kernel_rllib.envs.games.contextual_bandits import (
    LinearDiscreteEnv,
    LinearDiscreteGame,
    SimpleContextualBandit,
    WheelBanditEnv,
    WheelBanditGame,
)
from kernel_rllib.envs.games.corridor import SimpleCorridor
from kernel_rllib.envs.games.deep_sea import DeepSea
from kernel_rllib.envs.games.guess_the_action import GuessTheAction
from kernel_rllib.envs.games.item_recommendation import ParametricItemRecoEnv
from kernel_rllib.envs.games.memory_chain import MemoryChain
from kernel_rllib.envs.games.mountain_car import MountainCar
from kernel_rllib.envs.games.pendulum import Pendulum
from kernel_rllib.envs.games.random_env import DebugCounterEnv, RandomEnv, RandomMultiAgentEnv
from kernel_rllib.envs.games.repeat_after_me import RepeatAfterMe, RepeatInitialObs
from kernel_rllib.envs.loop import LoopEnv
from kernel_rllib.envs.making import TWINS, make_vector
from kernel_rllib.envs.multi_agent_loop import MultiAgentLoop
from kernel_rllib.envs.native import NativeEnv
from kernel_rllib.errors import EnvError
from kernel_rllib.spaces import nested

LANES = 6
GAMES = [
    (Acrobot, {}), (CartPole, {}), (CartPole, {"max_episode_steps": 7}), (StatelessCartPole, {}), (Catch, {}),
    (Catch, {"rows": 5, "columns": 4, "channels": True}), (Chain, {}), (Chain, {"end": "truncated", "length": 4}),
    (SimpleCorridor, {"corridor_length": 3}), (DeepSea, {"size": 4, "mapping_seed": 3}), (GuessTheAction, {}),
    (GuessTheAction, {"episode_len": 5, "actions": 3}), (MemoryChain, {"memory_length": 4}), (MountainCar, {}),
    (Pendulum, {"max_episode_steps": 9}), (RepeatAfterMe, {"episode_len": 6, "repeat_delay": 2}),
    (RepeatInitialObs, {"episode_len": 5}), (SimpleContextualBandit, {}), (LinearDiscreteEnv, {"feature_dim": 3}),
    (WheelBanditEnv, {"delta": 0.8}),
]  # fmt: skip


def random_actions(env: VectorEnv, generator: np.random.Generator) -> Any:
    struct = nested.empty(env.action_space, env.num_lanes)
    env.action_space.seed(int(generator.integers(1 << 30)))
    for lane in range(env.num_lanes):
        nested.write_row(struct, lane, env.action_space.sample())
    return struct


def assert_equal_steps(one: VectorEnv, other: VectorEnv, steps: int, act: Any = random_actions) -> int:
    """Step both alike from the same seeds; return how many episodes ended."""
    seeds = [100 + lane for lane in range(one.num_lanes)]
    np.testing.assert_array_equal(one.reset(seeds), other.reset(seeds))
    generator = np.random.default_rng(0)
    ends = 0
    for _ in range(steps):
        actions = act(one, generator)
        expected, found = one.step(actions), other.step(actions)
        for field in ("obs", "rewards", "terminateds", "truncateds"):
            np.testing.assert_array_equal(getattr(found, field), getattr(expected, field), err_msg=field)
        assert found.final_obs.keys() == expected.final_obs.keys()
        for lane, row in expected.final_obs.items():
            np.testing.assert_array_equal(found.final_obs[lane], row)
        ends += len(expected.final_obs)
    return ends


def swing(column: int) -> Any:
    """Return a policy that pushes the way that something moves, and so gets episodes to their ends."""

    def act(env: Any, generator: np.random.Generator) -> Any:
        most = int(env.action_space.n) - 1
        moving = getattr(env, "last", np.zeros((env.num_lanes, 6)))[:, column]
        return np.where(moving > 0, most, 0) if generator.random() < 0.95 else random_actions(env, generator)

    return act


class Remembering:
    """Passes everything on, and keeps the last observations for a policy."""

    def __init__(self, env: Any) -> None:
        self._env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)

    def step(self, actions: Any) -> Any:
        step = self._env.step(actions)
        self.last = step.obs
        return step


@pytest.mark.parametrize(
    ("name", "steps", "act", "least_ends"),
    [
        ("CartPole-v1", 300, random_actions, 40), ("CartPole-v0", 450, swing(3), 6),
        ("Pendulum-v1", 450, random_actions, 12), ("MountainCar-v0", 450, swing(1), 12),
        ("Acrobot-v1", 300, swing(5), 6),
    ],
)  # fmt: skip
def test_the_numbers_are_those_of_gymnasium(name: str, steps: int, act: Any, least_ends: int) -> None:
    native = make_vector(name, LANES, kind="native")
    gym = make_vector(name, LANES, kind="loop")
    assert isinstance(native, NativeEnv) and isinstance(gym, LoopEnv)
    assert native.observation_space == gym.observation_space and native.action_space == gym.action_space
    ends = assert_equal_steps(Remembering(gym), native, steps, act)  # type: ignore[arg-type]
    assert ends >= least_ends


def test_the_simple_bandit_pays_by_the_sign_of_what_is_seen() -> None:
    env = SimpleContextualBandit()
    for seed in range(8):
        seen, told = env.reset(seed=seed)
        assert seen.tolist() in ([-1, 1], [1, -1]) and told == {}
        for arm, paid in enumerate((10, 0, -10)):
            env.reset(seed=seed)
            _, reward, terminated, _, told = env.step(arm)
            assert (reward, terminated, told) == (paid * seen[0], True, {"regret": 10 - paid * seen[0]})


def test_regret_of_linear_arms_is_what_the_best_is_worth_more() -> None:
    game = LinearDiscreteGame({"reward_noise_std": 0.5})
    game.allocate(500)
    generators = [np.random.default_rng(lane) for lane in range(500)]
    for lane, generator in enumerate(generators):
        game.begin(lane, generator)
    np.testing.assert_allclose(np.linalg.norm(game.context, axis=0), 1, rtol=1e-6)
    means = game.means(game.context)
    rewards, ended = game.advance(np.full(500, 2), generators)
    np.testing.assert_allclose(game.regret, means.max(axis=0) - means[2])
    assert ended.all() and np.std(rewards - means[2]) == pytest.approx(0.5, rel=0.1)
    np.testing.assert_array_equal(LinearDiscreteGame().means(game.context), means)  # other lanes have the same arms


def test_a_wheel_has_a_safe_arm_and_one_by_the_quadrant() -> None:
    game = WheelBanditGame()
    points = np.array([[0.1, 0.9, 0.9, -0.9, -0.9], [0.1, 0.1, -0.1, -0.1, 0.1]])
    expected = np.full((5, 5), 1.0)
    expected[0] = 1.2
    expected[[1, 2, 3, 4], [1, 2, 3, 4]] = 50
    np.testing.assert_array_equal(game.means(points), expected)
    radii = [np.linalg.norm(game.draw(np.random.default_rng(seed))) for seed in range(2000)]
    assert max(radii) <= 1 and np.mean(np.array(radii) < 0.5) == pytest.approx(0.25, abs=0.03)


def test_items_are_worth_what_they_have_in_common_with_the_user() -> None:
    env = ParametricItemRecoEnv({"num_users": 2, "reward_noise_std": 0.0, "num_candidates": 4, "num_items": 9})
    seen, told = env.reset(seed=3)
    assert env.observation_space.contains(seen) and told == {}
    assert len(set(seen["item_id"])) == 4
    np.testing.assert_allclose(seen["item"], env.game.item_vectors[seen["item_id"]], rtol=1e-6)
    worth = seen["item"] @ env.game.user_vectors[seen["user"]]
    _, reward, terminated, _, told = env.step(1)
    assert terminated and reward == pytest.approx(worth[1], abs=1e-6)
    assert told["regret"] == pytest.approx(worth.max() - worth[1], abs=1e-6)
    assert "user" not in ParametricItemRecoEnv().observation_space.spaces
    with pytest.raises(EnvError, match="num_candidates is 25, but there are only num_items=9 to show: make it smaller"):
        ParametricItemRecoEnv({"num_items": 9})


def test_many_users_with_items_are_stepped_like_one() -> None:
    settings = {"num_users": 3, "num_items": 6, "num_candidates": 2}
    one, many = (make_vector(ParametricItemRecoEnv, 3, EnvContext(settings), kind=kind) for kind in ("loop", "native"))
    seen = [env.reset([1, 2, 3]) for env in (one, many)]
    for _ in range(5):
        for name in ("item", "item_id", "user"):
            np.testing.assert_array_equal(seen[0][name], seen[1][name])
        steps = [env.step(np.array([0, 1, 0])) for env in (one, many)]
        np.testing.assert_array_equal(steps[0].rewards, steps[1].rewards)
        assert steps[0].infos == steps[1].infos
        seen = [step.obs for step in steps]


def test_every_twin_is_made() -> None:
    for name in TWINS:
        assert isinstance(make_vector(name, 2, kind="native"), NativeEnv)


def test_a_name_that_was_registered_has_no_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = "kernel_rllib.envs.registry.registered"
    monkeypatch.setattr(registry, {"CartPole-v1": SimpleCorridor}.get)
    made = make_vector("CartPole-v1", 2, kind="native")
    assert made.observation_space == SimpleCorridor().observation_space


class Halting(CartPole):
    """A game whose steps somebody changed."""

    def step(self, action: Any) -> Any:
        obs, reward, _, truncated, info = super().step(action)
        return obs, reward, True, truncated, info


def test_games_are_stepped_together_unless_somebody_changed_them() -> None:
    space = CartPole().action_space
    assert isinstance(make_vector(CartPole, 3, action_space=space), NativeEnv)
    assert isinstance(make_vector(CartPole, 3, kind="loop"), LoopEnv)
    assert isinstance(make_vector(CartPole, 3, action_space=spaces.Discrete(1)), LoopEnv)
    changed = make_vector(Halting, 3)
    changed.reset([0, 1, 2])
    assert changed.step(np.zeros(3, np.int64)).terminateds.all()


@pytest.mark.parametrize(("single", "settings"), GAMES)
def test_one_lane_of_gymnasium_has_the_same_rules(single: type[SingleEnv], settings: dict[str, Any]) -> None:
    native = NativeEnv(single.game_class(settings), LANES)
    loop = LoopEnv([lambda: single(settings)] * LANES)
    assert assert_equal_steps(loop, native, 60) > 0 or single in (Acrobot, MountainCar)


@pytest.mark.parametrize(("single", "settings"), GAMES)
def test_observations_and_actions_are_in_their_spaces(single: type[SingleEnv], settings: dict[str, Any]) -> None:
    env = single(settings)
    obs, info = env.reset(seed=1)
    env.action_space.seed(1)
    for _ in range(30):
        assert env.observation_space.contains(obs) and info == {}
        obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
        assert type(reward) is float and type(terminated) is bool and type(truncated) is bool
        if terminated or truncated:
            assert env.observation_space.contains(obs)
            obs, info = env.reset()


def test_a_lane_does_not_see_the_others() -> None:
    many, one = NativeEnv(CartPoleGame(), 5), NativeEnv(CartPoleGame(), 1)
    many.reset([0, 1, 2, 3, 4])
    one.reset([3])
    for step in range(80):
        actions = np.array([step % 2, 0, 1, step % 3 % 2, 1])
        np.testing.assert_array_equal(many.step(actions).obs[3], one.step(actions[3:4]).obs[0])


def test_native_lanes_are_saved_and_go_on_elsewhere() -> None:
    first, second = NativeEnv(CartPoleGame({"max_episode_steps": 12}), 3), NativeEnv(CartPoleGame(), 2)
    first.reset([0, 1, 2])
    for _ in range(7):
        first.step(np.array([0, 1, 0]))
    second = NativeEnv(CartPoleGame({"max_episode_steps": 12}), 2)
    second.restore(1, first.snapshot(2))
    for step in range(30):
        action = step % 2
        expected, found = first.step(np.full(3, action)), second.step(np.full(2, action))
        np.testing.assert_array_equal(found.obs[1], expected.obs[2])
        assert found.truncateds[1] == expected.truncateds[2] and found.terminateds[1] == expected.terminateds[2]


def test_a_native_lane_that_is_reset_has_its_whole_limit() -> None:
    env = NativeEnv(CartPoleGame({"max_episode_steps": 4}), 2)
    env.reset([0, 1])
    env.step(np.array([0, 1]))
    env.reset_lane(1)
    flags = [env.step(np.array([step % 2, step % 2])).truncateds.tolist() for step in range(4)]
    assert flags == [[False, False], [False, False], [True, False], [False, True]]


def test_one_native_lane_can_be_reset() -> None:
    env = NativeEnv(CartPoleGame(), 2)
    env.reset([0, 1])
    env.step(np.ones(2, np.int64))
    row = env.reset_lane(0, seed=9)
    np.testing.assert_array_equal(row, NativeEnv(CartPoleGame(), 1).reset([9])[0])
    assert env.foreach(lambda game: type(game)) == [CartPoleGame]
    env.close()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: NativeEnv(CartPoleGame(), 0), "needs one lane at least, not 0"),
        (
            lambda: NativeEnv(CartPoleGame(), 2).step(np.zeros(2)),
            r"^CartPoleGame: step\(\) was called before reset\(\)",
        ),
        (lambda: began(2).step(np.zeros(3, np.int64)), r"step\(\) got 3 actions for 2 lanes"),
        (lambda: began(1).step(np.array([2])), r"got the action \[2\], but action_space is Discrete\(2\)"),
        (lambda: began(1).step(np.array([-1])), r"got the action \[-1\]"),
        (lambda: began(1).render(), "draws nothing"),
        (
            lambda: CartPole({"length": 3}),
            "^CartPoleGame has no setting 'length': there are max_episode_steps, vel",
        ),
        (lambda: Chain({"end": "never"}), '^end is \'never\', but must be "terminated" or "truncated"'),
        (lambda: SimpleCorridor({"corridor_length": 0}), "^corridor_length is 0, but a corridor has at least one step"),
    ],
)
def test_wrong_calls(call: Any, words: str) -> None:
    with pytest.raises(EnvError, match=words):
        call()


def began(lanes: int) -> NativeEnv:
    env = NativeEnv(CartPoleGame(), lanes)
    env.reset([0] * lanes)
    return env


def play(env: gymnasium.Env[Any, Any], actions: list[Any]) -> list[tuple[Any, float, bool]]:
    env.reset(seed=0)
    return [(step[0], step[1], step[2] or step[3]) for step in (env.step(action) for action in actions)]


def test_the_corridor() -> None:
    steps = play(SimpleCorridor({"corridor_length": 2}), [0, 1, 0, 1, 1])
    assert [obs[0] for obs, _, _ in steps] == [0, 1, 0, 1, 2]
    assert [(reward, end) for _, reward, end in steps] == [(0, False)] * 4 + [(1, True)]
    env = SimpleCorridor({"step_reward": -0.5, "goal_reward": 2.0})
    env.set_corridor_length(1)
    assert env.observation_space.high == 1
    assert play(env, [0, 1])[1][1:] == (2.0, True) and play(env, [0])[0][1] == -0.5


@pytest.mark.parametrize("end", ["terminated", "truncated"])
@pytest.mark.parametrize("length", [1, 2, 3, 4, 7])
def test_the_values_of_the_chain_are_exact(end: str, length: int) -> None:
    gamma = 0.9
    chain = Chain({"end": end, "length": length})
    rewards = [reward for _, reward, _ in play(chain, [0] * length)]
    assert rewards == [float(1 + step % 3) for step in range(length)]
    env = Chain({"end": end, "length": length})
    env.reset()
    assert [env.step(0)[2:4] for _ in range(length)][-1] == (end == "terminated", end == "truncated")
    forever = [float(1 + step % 3) for step in range(length if end == "terminated" else 600)]
    values = ChainGame({"end": end, "length": length}).values(gamma)
    for step in range(length):
        rest = forever[step:]
        np.testing.assert_allclose(values[step], sum(gamma**k * reward for k, reward in enumerate(rest)), rtol=1e-9)


def test_catch() -> None:
    env = Catch({"rows": 4, "columns": 3})
    for seed in range(6):
        board, _ = env.reset(seed=seed)
        column = int(board[0].argmax())
        assert board[3].tolist() == [0, 1, 0]
        steps = [env.step(1 + int(np.sign(column - int(env.game.paddle[0])))) for _ in range(3)]  # type: ignore[attr-defined]
        assert [step[1] for step in steps] == [0, 0, 1] and steps[-1][2]
        env.reset(seed=seed)
        away = 0 if column > 0 else 2
        assert [env.step(away)[1] for _ in range(3)][-1] == -1


def test_deep_sea_pays_for_the_whole_way_only() -> None:
    env = DeepSea({"size": 3})
    steps = play(env, [1, 1, 1])
    np.testing.assert_allclose([reward for _, reward, _ in steps], [-0.01 / 3, -0.01 / 3, 1 - 0.01 / 3])
    assert steps[0][0][1, 1] == 1 and not steps[2][0].any() and steps[2][2]
    assert sum(reward for _, reward, _ in play(env, [1, 0, 1])) < 0
    mapped = DeepSea({"size": 3, "mapping_seed": 1})
    assert mapped.game._right.tolist() != [[1] * 3] * 3  # type: ignore[attr-defined]
    way = [int(mapped.game._right[row, row]) for row in range(3)]  # type: ignore[attr-defined]
    assert play(mapped, way)[2][1] > 0.9


def test_what_was_shown_is_to_be_repeated() -> None:
    env = RepeatAfterMe({"repeat_delay": 2, "episode_len": 6})
    shown = [env.reset(seed=3)[0]]
    rewards = []
    for step in range(6):
        obs, reward, end, _, _ = env.step(shown[step - 2] if step >= 2 else 0)
        shown.append(obs)
        rewards.append(reward)
    assert rewards == [0, 0, 1, 1, 1, 1] and end
    env = RepeatInitialObs({"episode_len": 3})
    first = env.reset(seed=3)[0]
    assert [env.step(first)[1] for _ in range(2)] == [1, 1] and env.step(1 - first)[1] == -1


def test_the_memory_chain_asks_at_the_end() -> None:
    env = MemoryChain({"memory_length": 3})
    for seed in range(4):
        first, _ = env.reset(seed=seed)
        assert first[0] == 1 and abs(first[1]) == 1 and first[2] == 0
        (second, *_), (third, *_) = env.step(0), env.step(1)
        assert second[1] == third[1] == 0 and (second[2], third[2]) == (0, 1)
        assert env.step(int(first[1] > 0))[1:3] == (1.0, True)
        env.reset(seed=seed)
        assert [env.step(int(first[1] < 0))[1] for _ in range(3)] == [0, 0, -1]


def test_guessing() -> None:
    env = GuessTheAction({"actions": 3, "episode_len": 2})
    obs, _ = env.reset(seed=0)
    second, reward, end, _, _ = env.step(int(obs.argmax()))
    assert reward == 1 and not end
    assert env.step((int(second.argmax()) + 1) % 3)[1:3] == (0.0, True)


def test_the_random_environment() -> None:
    box = gymnasium.spaces.Box(-1, 1, (2,))
    env = RandomEnv({"observation_space": box, "p_terminated": 0.5, "max_episode_len": 3, "check_action_bounds": True})
    lengths = set()
    env.reset(seed=0)
    for _ in range(40):
        steps = 0
        ended = False
        while not ended:
            obs, reward, terminated, truncated, _ = env.step(1)
            assert box.contains(obs) and -1 <= reward <= 1
            steps, ended = steps + 1, terminated or truncated
        lengths.add(steps)
        env.reset()
    assert lengths == {1, 2, 3}
    with pytest.raises(EnvError, match=r"got the action 7, which is not in Discrete\(2\)"):
        env.step(7)
    assert np.array_equal(env.reset(seed=5)[0], env.reset(seed=5)[0])
    static = RandomEnv({"static_samples": True, "observation_space": box})
    static.reset(seed=1)
    assert static.step(0)[0] is static.step(1)[0]


def test_the_counter() -> None:
    steps = play(DebugCounterEnv({"start_at_t": 2}), [0] * 15)
    assert [obs[0] for obs, _, _ in steps] == list(range(3, 18))
    assert [reward for _, reward, _ in steps][:4] == [0, 1, 2, 0] and [end for *_, end in steps] == [False] * 14 + [
        True
    ]


def test_random_agents_end_one_by_one() -> None:
    loop = MultiAgentLoop([lambda: RandomMultiAgentEnv({"num_agents": 3, "p_terminated": 0.4})])
    (obs,) = loop.reset([0])
    assert list(obs) == [0, 1, 2]
    sizes = set()
    for _ in range(40):
        step = loop.step([dict.fromkeys(obs, 0)])
        (obs,) = step.obs
        sizes.add(len(obs))
    assert sizes == {1, 2, 3}


def test_what_a_game_has_to_define() -> None:
    class Nothing(Game):
        pass

    for call in (lambda: Nothing().allocate(1), lambda: Nothing().begin(0, np.random.default_rng()),
                 lambda: Nothing().advance(0, []), lambda: Nothing().observe([0])):  # fmt: skip
        with pytest.raises(NotImplementedError):
            call()


def test_a_game_that_tells() -> None:
    class Telling(CartPoleGame):
        def infos(self, lane: int) -> dict[str, Any]:
            return {"x": float(self.state[0, lane])} if self.state[0, lane] > 0 else {}

    env = NativeEnv(Telling(), 8)
    obs = env.reset(range(8))
    assert {lane: round(info["x"], 6) for lane, info in env.reset_infos.items()} == {
        lane: round(float(x), 6) for lane, x in enumerate(obs[:, 0]) if x > 0
    }
    ended: set[int] = set()
    for _ in range(40):
        step = env.step(np.ones(8, np.int64))
        for lane, info in step.infos.items():
            row = step.final_obs.get(lane, step.obs[lane])
            np.testing.assert_allclose(info["x"], row[0], rtol=1e-6)
        ended |= set(step.reset_infos)
        assert all(info["x"] == pytest.approx(step.obs[lane, 0]) for lane, info in step.reset_infos.items())
    assert ended
