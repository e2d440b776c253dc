"""External environments: programs that ask for actions, what is learned of their episodes, and how they end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.callbacks.callbacks import RLlibCallback
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.config.policy_spec import PolicySpec
from kernel_rllib.data import columns
from kernel_rllib.distributions.catalog import for_space
from kernel_rllib.envs.checking import check_env
from kernel_rllib.envs.external import AGENT, ExternalEnv, ExternalLanes, ExternalMultiAgentEnv
from kernel_rllib.envs.external_calls import ActionsTaken, ActionsWanted, EpisodeCalls, EpisodeStarted
from kernel_rllib.errors import ConfigError, EnvError, EpisodeError, SpaceError
from kernel_rllib.exploration.exploration import StochasticSampling
from kernel_rllib.modules.actor_critic import ActorCritic, ActorCriticOptions
from kernel_rllib.runners import external_sampler
from kernel_rllib.runners.agent_lanes import AgentLanes
from kernel_rllib.runners.external_sampler import ExternalSampler
from kernel_rllib.runners.place import RunnerPlace
from kernel_rllib.runners.policy_blueprint import PolicyBlueprint

from kernel.rllib import DQNConfig, ESConfig, PPOConfig

SEEN = spaces.Box(-100.0, 100.0, (1,), np.float32)
TWO = spaces.Discrete(2)
Program = Callable[[Any], None]


class Told(ExternalEnv):
    """Runs a function of the test as its program; then waits until it is closed."""

    def __init__(self, program: Program = lambda env: None, action_space: Any = TWO, **options: Any) -> None:
        super().__init__(action_space, SEEN, **options)
        self.program, self.closed = program, threading.Event()

    def run(self) -> None:
        self.program(self)
        self.closed.wait()

    def close(self) -> None:
        self.closed.set()


class ToldOfSeveral(ExternalMultiAgentEnv):
    """As `Told`, with several agents."""

    def __init__(self, program: Program) -> None:
        super().__init__(TWO, SEEN)
        self.program, self.closed = program, threading.Event()

    def run(self) -> None:
        self.program(self)
        self.closed.wait()

    def close(self) -> None:
        self.closed.set()


def lanes_of(action_space: Any = TWO, policy_id: str = "p") -> AgentLanes:
    """Return lanes of a small policy."""
    distribution = for_space(action_space)
    made = PolicyBlueprint(
        observation_space=SEEN,
        action_space=action_space,
        module=ActorCritic(1, distribution.parameter_size, options=ActorCriticOptions(hidden=(4,))),
        exploration=StochasticSampling(distribution),
    )
    lanes = AgentLanes(policy_id, made, RunnerPlace(0, (0,), 0, 1), 0)
    lanes.vector[...] = made.module.initial(np.random.default_rng(3))
    return lanes


@pytest.fixture
def made() -> Iterator[list[ExternalSampler]]:
    """What is put in here is closed in the end."""
    samplers: list[ExternalSampler] = []
    yield samplers
    for sampler in samplers:
        sampler.close()


def sampler_of(env: Any, made: list[ExternalSampler], action_space: Any = TWO, **further: Any) -> ExternalSampler:
    """Return a sampler with one small policy, which ends with the test."""
    sampler = ExternalSampler(
        ExternalLanes(env),
        RunnerPlace(0, (0,), 0, 1),
        make_modules=lambda: {"p": lanes_of(action_space)},
        policy_of=lambda *_: "p",
        worker=None,
        **further,
    )
    sampler.set_weights(lanes_of(action_space).vector, 7)
    made.append(sampler)
    return sampler


def episode(env: Any, first: float, steps: int, **start: Any) -> list[Any]:
    """Play an episode that sees `first`, `first + 1`, ..., and is given what it saw; return the actions."""
    id = env.start_episode(**start)
    actions = []
    for step in range(steps):
        actions.append(env.get_action(id, [first + step]))
        env.log_returns(id, first + step)
    env.end_episode(id, [first + steps])
    return actions


# -- what is learned of ------------------------------------------------------------------------------------------------


def test_steps_of_an_episode_are_those_that_the_program_made(made: list[ExternalSampler]) -> None:
    acted: list[Any] = []
    sampler = sampler_of(Told(lambda env: acted.extend(episode(env, 1, 3)) or episode(env, 50, 9)), made)
    collected = sampler.collect(4)  # the fourth step is of the second episode, and is not over
    fragment = collected.fragments["p"]
    assert (collected.env_steps, collected.agent_steps) == (4, 4)
    assert fragment.columns[columns.OBS][:, 0, 0].tolist() == [1, 2, 3]
    assert fragment.columns[columns.ACTIONS][:, 0].tolist() == acted
    assert fragment.columns[columns.REWARDS][:, 0].tolist() == [1, 2, 3]
    assert fragment.columns[columns.TERMINATEDS][:, 0].tolist() == [False, False, True]
    assert fragment.final_at.tolist() == [[2, 0]]
    assert fragment.final_obs.tolist() == [[4]]
    assert fragment.last_obs.tolist() == [[50]]
    assert fragment.weights_version == 7
    (ended,) = sampler.take_episodes()
    assert (ended.total_reward, ended.length, ended.lane, ended.agents) == (6.0, 3, 0, ())


def test_a_step_that_was_open_is_in_the_next_sample(made: list[ExternalSampler]) -> None:
    sampler = sampler_of(Told(lambda env: episode(env, 0, 9)), made)
    sampler.collect(3)
    later = sampler.collect(3).fragments["p"]
    assert later.columns[columns.OBS][:, 0, 0].tolist() == [2, 3, 4]
    assert later.last_obs.tolist() == [[5]]


def test_rewards_add_up_and_count_for_the_last_action(made: list[ExternalSampler]) -> None:
    def program(env: Told) -> None:
        id = env.start_episode()
        env.log_returns(id, 100.0)  # before the first action: it counts for that
        env.get_action(id, [0])
        env.log_returns(id, 1.0)
        env.log_returns(id, 2.0)
        env.get_action(id, [1])
        env.get_action(id, [2])
        env.end_episode(id, [3])
        env.get_action(env.start_episode(), [9])

    fragment = sampler_of(Told(program), made).collect(4).fragments["p"]
    assert fragment.columns[columns.REWARDS][:, 0].tolist() == [103, 0, 0]


def test_episodes_go_on_side_by_side_in_one_forward_pass(made: list[ExternalSampler]) -> None:
    together = threading.Barrier(3)

    def play(env: Told, first: float) -> None:
        id = env.start_episode()
        for step in range(4):
            env.get_action(id, [first + step])
            env.log_returns(id, first + step)
            together.wait()  # each has a lane before one gives it back
        env.end_episode(id, [0])

    def program(env: Told) -> None:
        threads = [threading.Thread(target=play, args=(env, first), daemon=True) for first in (10, 20, 30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        env.get_action(env.start_episode(), [0])

    sampler = sampler_of(Told(program), made)
    fragment = sampler.collect(13).fragments["p"]
    seen = sorted(fragment.columns[columns.OBS][:, lane, 0].tolist() for lane in range(3))
    assert seen == [[10, 11, 12, 13], [20, 21, 22, 23], [30, 31, 32, 33]]
    assert sorted(each.total_reward for each in sampler.take_episodes()) == [46, 86, 126]


def test_logged_actions_are_learned_from_with_the_probability_that_the_policy_gives_them(
    made: list[ExternalSampler],
) -> None:
    logged = [1, 0, 0, 1]

    def program(env: Told) -> None:
        id = env.start_episode()
        for step, action in enumerate(logged):
            env.log_action(id, [step], action)
            env.log_returns(id, step)
        env.end_episode(id, [9])
        env.get_action(env.start_episode(), [0])

    fragment = sampler_of(Told(program), made).collect(5).fragments["p"]
    assert fragment.columns[columns.ACTIONS][:, 0].tolist() == logged
    assert fragment.columns[columns.REWARDS][:, 0].tolist() == [0, 1, 2, 3]
    inputs = fragment.columns[columns.ACTION_DIST_INPUTS][:, 0]
    expected = inputs - np.log(np.exp(inputs).sum(axis=1, keepdims=True))
    assert fragment.columns[columns.ACTION_LOGP][:, 0] == pytest.approx(expected[np.arange(4), logged], rel=1e-5)


def test_a_program_that_is_ahead_is_sampled_step_by_step(made: list[ExternalSampler]) -> None:
    def program(env: Told) -> None:
        id = env.start_episode()
        for step in range(100):
            env.log_action(id, [step], 0)
            env.log_returns(id, step)
        env.logged.set()

    env = Told(program)
    env.logged = threading.Event()  # type: ignore[attr-defined]
    sampler = sampler_of(env, made)
    sampler.envs.begin()
    assert env.logged.wait(20)  # type: ignore[attr-defined]
    assert [sampler.collect(30).env_steps for _ in range(3)] == [30, 30, 30]
    last = sampler.collect(10).fragments["p"]
    assert last.columns[columns.REWARDS][:, 0].tolist() == list(range(89, 99))


def test_logged_actions_of_a_box_are_those_of_the_environment(made: list[ExternalSampler]) -> None:
    box = spaces.Box(-2.0, 6.0, (1,), np.float32)

    def program(env: Told) -> None:
        id = env.start_episode()
        env.log_action(id, [0], [4.0])
        env.end_episode(id, [1])
        env.get_action(env.start_episode(), [0])

    fragment = sampler_of(Told(program, box), made, box).collect(2).fragments["p"]
    assert fragment.columns[columns.ACTIONS][:, 0].tolist() == [[0.5]]  # (4 - 2) / 4: learned between -1 and 1


def test_episodes_without_training_are_acted_for_and_not_learned_from(made: list[ExternalSampler]) -> None:
    acted: dict[bool, list[Any]] = {}

    def program(env: Told) -> None:
        for learns in (False, True):
            acted[learns] = episode(env, 0, 40, training_enabled=learns)
        episode(env, 0, 9)

    sampler = sampler_of(Told(program), made)
    sampler.set_weights(lanes_of().vector * 3, 8)
    fragment = sampler.collect(81).fragments["p"]
    assert fragment.steps == 40
    assert fragment.columns[columns.ACTIONS][:, 0].tolist() == acted[True]
    assert len(acted[False]) == 40
    assert [each.length for each in sampler.take_episodes()] == [40, 40]
    assert sampler._unlearned is not None
    assert sampler._unlearned.modules["p"].vector.tolist() == (lanes_of().vector * 3).tolist()  # type: ignore[union-attr]


def test_several_agents_act_when_they_see_something(made: list[ExternalSampler]) -> None:
    def program(env: ToldOfSeveral) -> None:
        id = env.start_episode()
        assert set(env.get_action(id, {"a": [0], "b": [10]})) == {"a", "b"}
        env.log_returns(id, {"a": 1.0, "b": 2.0}, {"a": {"told": True}})
        assert set(env.get_action(id, {"b": [11]})) == {"b"}
        env.log_returns(id, {"a": 4.0, "b": 8.0})
        env.end_episode(id, {"a": [1], "b": [12]})
        env.get_action(env.start_episode(), {"a": [0]})

    sampler = sampler_of(ToldOfSeveral(program), made)
    collected = sampler.collect(3)
    assert (collected.env_steps, collected.agent_steps) == (3, 4)
    fragment = collected.fragments["p"]
    found = {
        tuple(fragment.columns[columns.OBS][fragment.valid[:, lane], lane, 0]): tuple(  # type: ignore[index]
            fragment.columns[columns.REWARDS][fragment.valid[:, lane], lane]  # type: ignore[index]
        )
        for lane in range(2)
    }
    assert found == {(0.0,): (5.0,), (10.0, 11.0): (2.0, 8.0)}
    (ended,) = sampler.take_episodes()
    assert ended.agents == (("a", "p", 5.0), ("b", "p", 10.0))


def mapped(agent: Any, *_: Any) -> str:
    """Return the policy of an agent, as a function of a user's that knows two."""
    if agent == "typo":
        return "elsewhere"
    if agent not in ("a", "b"):
        raise LookupError(f"no role for {agent}")
    return "p"


NONE_FOUND = (
    "ToldOfSeveral.{method}() of the episode 'e' has the new agents '{agent}', and no policy was found for them: "
    "{error}. The episode is abandoned: name agents that policy_mapping_fn knows, or let it return the id of a policy "
    "for each"
)


@pytest.mark.parametrize(
    ("agent", "error"),
    [
        ("c", "LookupError: no role for c"),
        (
            "typo",
            "UnknownPolicyError: policy_mapping_fn returned 'elsewhere' for agent 'typo', and there is no policy of "
            "that id; there are p: return one of them, or name it in multi_agent(policies=...)",
        ),
    ],
)
@pytest.mark.parametrize("method", ["get_action", "log_action"])
def test_an_agent_without_a_policy_ends_its_episode_alone(
    made: list[ExternalSampler], agent: str, error: str, method: str
) -> None:
    raised: list[str] = []

    def program(env: ToldOfSeveral) -> None:
        other = env.start_episode("other")
        env.get_action(other, {"a": [50]})
        id = env.start_episode("e")
        env.get_action(id, {"a": [1]})
        try:
            if method == "log_action":
                env.log_action(id, {"a": [2], agent: [0]}, {"a": 1, agent: 0})
                while True:
                    env.log_returns(id, {"a": 1.0})
            env.get_action(id, {"a": [2], agent: [0]})
        except EnvError as found:
            raised.append(str(found))
        with pytest.raises(EpisodeError, match="no episode 'e' is open"):
            env.get_action(id, {"a": [3]})
        assert env.calls.open_episodes == 1
        again = env.start_episode("e")
        env.get_action(again, {"a": [7]})
        env.end_episode(again, {"a": [8]})
        env.get_action(other, {"a": [51]})

    env = ToldOfSeveral(program)
    sampler = ExternalSampler(
        ExternalLanes(env),
        RunnerPlace(0, (0,), 0, 1),
        make_modules=lambda: {"p": lanes_of()},
        policy_of=mapped,
        worker=None,
    )
    made.append(sampler)
    fragment = sampler.collect(4).fragments["p"]
    assert raised == [NONE_FOUND.format(method=method, agent=agent, error=error)]
    valid = np.ones(fragment.columns[columns.REWARDS].shape, bool) if fragment.valid is None else fragment.valid
    assert sorted(fragment.columns[columns.OBS][valid][:, 0]) == [7, 50]  # what went before the refused call is void
    assert [each.length for each in sampler.take_episodes()] == [1]


def test_calls_that_follow_a_refused_one_in_its_episode_are_dropped(made: list[ExternalSampler]) -> None:
    def program(env: Any) -> None:
        for agent in ("c", "a"):  # the second episode has the id of the first one
            env.start_episode("e")
            env.log_action("e", {agent: [4]}, {agent: 1})
            env.log_returns("e", {agent: 2.0})
            env.end_episode("e", {agent: [5]})
        env.logged.set()

    env: Any = ToldOfSeveral(program)
    env.logged = threading.Event()
    sampler = ExternalSampler(
        ExternalLanes(env),
        RunnerPlace(0, (0,), 0, 1),
        make_modules=lambda: {"p": lanes_of()},
        policy_of=mapped,
        worker=None,
    )
    made.append(sampler)
    sampler.envs.begin()
    assert env.logged.wait(20)
    sampler.collect(1)
    with pytest.raises(EpisodeError, match="no episode 'e' is open"):  # the second one has ended as it should
        env.log_returns("e", {"a": 1.0})


# -- what goes wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda env: env.get_action("x", [0]),
            "Told: no episode 'x' is open: begin it by start_episode(), and call nothing for it after end_episode()",
        ),
        (
            lambda env: [env.start_episode("x"), env.start_episode("x")],
            "Told: the episode 'x' is open already: end it first, or give another id",
        ),
        (
            lambda env: [env.start_episode() for _ in range(3)],
            "Told: 2 episodes are open, and max_concurrent=2 allows no more: end some first, or allow more",
        ),
        (
            lambda env: env.log_action(env.start_episode(), [0], 5),
            "Told.log_action() got 5 as action, but action_space is Discrete(2)",
        ),
        (
            lambda env: env.get_action(env.start_episode(), [0, 1, 2]),
            "Told.get_action() got a list of shape (3,) as observation, but observation_space is Box",
        ),
        (
            lambda env: env.get_action(env.start_episode(), [np.nan]),
            "Told.get_action() got NaN in the observation of agent 'agent0'",
        ),
    ],
)
def test_a_wrong_call_is_an_error_where_it_is_made(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises((EpisodeError, SpaceError, EnvError)) as raised:
        call(Told(max_concurrent=2))
    assert str(raised.value).startswith(message)


@pytest.mark.parametrize("reward", ["much", None, float("nan"), [1.0, 2.0]])
def test_a_reward_that_is_no_number_is_refused(reward: Any) -> None:
    env = Told()
    id = env.start_episode()
    with pytest.raises(EnvError, match=r"Told\.log_returns\(\) got .* as the reward of agent 'agent0': give a number"):
        env.log_returns(id, reward)


@pytest.mark.parametrize(
    "outputs",
    [{}, {"action_dist_inputs": [0.0]}, {"action_dist_inputs": ["a", "b"]}, {"action_dist_inputs": [0.0, np.nan]}, [1]],
)
def test_outputs_that_are_not_the_policys_are_refused_where_they_are_logged(
    outputs: Any, made: list[ExternalSampler]
) -> None:
    def program(env: Told) -> None:
        id = env.start_episode()
        try:
            env.log_action(id, [0], 1, outputs)
        except EnvError as error:
            said.append(str(error))
        env.log_action(id, [1], 1, {"action_dist_inputs": [0.25, 0.75]})
        env.end_episode(id, [2])
        env.get_action(env.start_episode(), [0])

    said: list[str] = []
    fragment = sampler_of(Told(program), made).collect(2).fragments["p"]
    assert "the policy puts out numbers of shape [2]: log it as that did, or leave all outputs out" in said[0]
    assert fragment.columns[columns.OBS][:, 0, 0].tolist() == [1]
    assert fragment.columns[columns.ACTION_DIST_INPUTS][:, 0].tolist() == [[0.25, 0.75]]


def test_outputs_are_of_one_policy() -> None:
    env = Told()
    with pytest.raises(EnvError, match="got outputs, and several policies act, or none: leave them out"):
        env.log_action(env.start_episode(), [0], 1, {"action_dist_inputs": [0.0, 0.0]})


def test_an_episode_goes_on_in_one_thread() -> None:
    calls = EpisodeCalls("Env", 5)
    calls.start("x", True)
    waiting = threading.Thread(target=lambda: calls.wait_for_actions("x", {AGENT: np.zeros(1)}))
    waiting.start()
    start, wanted = _two(calls)
    with pytest.raises(EpisodeError, match="a thread waits for an action in the episode 'x', and another one called"):
        calls.reward("x", {AGENT: 1.0}, {})
    assert isinstance(start, EpisodeStarted)
    assert isinstance(wanted, ActionsWanted)
    wanted.actions.set_result({AGENT: 1})
    waiting.join()
    calls.reward("x", {AGENT: 1.0}, {})


def _two(calls: EpisodeCalls) -> list[Any]:
    found: list[Any] = []
    while len(found) < 2:
        found += calls.take(5.0)
    return found


def test_a_program_that_logs_too_quickly_waits_for_the_sampler() -> None:
    calls = EpisodeCalls("Env", 5, most_calls=3)
    calls.start("x", True)
    logged: list[int] = []

    def log() -> None:
        for number in range(7):
            calls.log_actions(ActionsTaken("x", {AGENT: np.zeros(1)}, {AGENT: np.zeros(1)}))
            logged.append(number)

    thread = threading.Thread(target=log)
    thread.start()
    found: list[Any] = []
    while len(found) < 8:
        taken = calls.take(5.0)
        assert len(taken) <= 3
        found += taken
    thread.join()
    assert sum(isinstance(call, ActionsTaken) for call in found) == len(logged) == 7


def test_what_a_program_raises_is_raised_by_the_sample(made: list[ExternalSampler]) -> None:
    def program(env: Told) -> None:
        episode(env, 0, 2)
        raise ZeroDivisionError("of the program")

    sampler = sampler_of(Told(program), made)
    with pytest.raises(EnvError, match=r"Told\.run\(\) raised ZeroDivisionError: of the program") as raised:
        sampler.collect(5)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


def test_a_program_that_returns_is_named(made: list[ExternalSampler]) -> None:
    class Short(Told):
        def run(self) -> None:
            self.program(self)

    sampler = sampler_of(Short(lambda env: episode(env, 0, 3)), made)
    assert sampler.collect(3).env_steps == 3
    with pytest.raises(EnvError, match=r"Short\.run\(\) has returned, so nothing asks for actions any more"):
        sampler.collect(1)


def test_closing_ends_who_waits_for_an_action(made: list[ExternalSampler]) -> None:
    errors: list[Exception] = []
    asks = threading.Event()

    def program(env: Told) -> None:
        id = env.start_episode()
        env.get_action(id, [0])
        asks.set()
        try:
            env.get_action(id, [1])
        except EnvError as error:
            errors.append(error)
        env.gone.set()

    env = Told(program)
    env.gone = threading.Event()  # type: ignore[attr-defined]
    sampler = sampler_of(env, made)
    sampler.collect(1)
    assert asks.wait(20)
    sampler.close()
    assert env.gone.wait(20)  # type: ignore[attr-defined]
    assert "what acted for its episodes was stopped" in str(errors[0])
    with pytest.raises(EnvError, match="was stopped"):
        env.start_episode()


def test_an_error_of_the_sample_reaches_who_waits(made: list[ExternalSampler], monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[Exception] = []
    told = threading.Event()

    def program(env: Told) -> None:
        try:
            episode(env, 0, 3)
        except EnvError as error:
            errors.append(error)
        told.set()

    sampler = sampler_of(Told(program), made)

    def broken(timestep: int) -> Any:
        raise FloatingPointError("a module has failed")

    monkeypatch.setattr(sampler._agents, "act", broken)
    with pytest.raises(FloatingPointError, match="a module has failed"):
        sampler.collect(1)
    assert told.wait(20)
    assert "a module has failed" in str(errors[0])


def test_a_silent_program_is_warned_of(
    made: list[ExternalSampler], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(external_sampler, "LOOK_SECONDS", 0.01)
    now = [0.0]
    goes_on = threading.Event()

    def clock() -> float:
        now[0] += 31.0
        if now[0] > 200:
            goes_on.set()
        return now[0]

    def program(env: Told) -> None:
        id = env.start_episode()
        goes_on.wait()
        env.get_action(id, [0])

    sampler_of(Told(program), made, clock=clock).collect(1)
    assert "Told: nothing has asked for an action for 60 s; 1 episodes are open" in caplog.text


def test_what_can_not_be_had_is_refused(made: list[ExternalSampler]) -> None:
    with pytest.raises(ConfigError, match="samples of whole episodes can't be asked for"):
        sampler_of(Told(), made, complete_episodes=True)
    with pytest.raises(ConfigError, match="a runner was told to step 2 copies of it"):
        ExternalSampler(
            ExternalLanes(Told()), RunnerPlace(0, (0, 1), 0, 2), make_modules=dict, policy_of=str, worker=None
        )
    with pytest.raises(EnvError, match="Told is an external environment: its program makes the steps"):
        check_env(Told())


def test_a_class_that_does_not_call_super_is_named() -> None:
    class Bare(ExternalEnv):
        def __init__(self) -> None:
            pass

    with pytest.raises(EnvError, match=r"Bare\.__init__\(\) has not called super\(\).__init__"):
        ExternalLanes(Bare())


# -- training ----------------------------------------------------------------------------------------------------------


class Guess(ExternalEnv):
    """Shows 0 or 1, and rewards the action that is it; ten steps an episode."""

    def __init__(self, env_config: Mapping[str, Any]) -> None:
        super().__init__(TWO, spaces.Box(0.0, 1.0, (1,), np.float32))

    def run(self) -> None:
        stream = np.random.default_rng(0)
        while True:
            id = self.start_episode()
            for _ in range(10):
                shown = int(stream.integers(2))
                self.log_returns(id, float(self.get_action(id, [shown]) == shown))
            self.end_episode(id, [0])


class GuessOfTwo(ExternalMultiAgentEnv):
    """As `Guess`, for two agents, of which the second one is to say the opposite."""

    def __init__(self, env_config: Mapping[str, Any]) -> None:
        super().__init__(TWO, spaces.Box(0.0, 1.0, (1,), np.float32))

    def run(self) -> None:
        stream = np.random.default_rng(0)
        while True:
            id = self.start_episode()
            for _ in range(10):
                shown = int(stream.integers(2))
                acted = self.get_action(id, {"same": [shown], "other": [shown]})
                self.log_returns(id, {"same": float(acted["same"] == shown), "other": float(acted["other"] != shown)})
            self.end_episode(id, {})


def ppo(env: Any) -> AlgorithmConfig:
    """Return a config that learns to guess."""
    return (
        PPOConfig()
        .environment(env)
        .env_runners(num_env_runners=0)
        .training(train_batch_size=200, minibatch_size=50, num_epochs=6, lr=1e-2, gamma=0.5)
        .debugging(seed=1)
    )


def test_ppo_learns_from_a_program_that_asks() -> None:
    algorithm = ppo(Guess).env_runners(observation_filter="MeanStdFilter").build()
    for _ in range(12):
        result = algorithm.train()
    assert result["episode_len_mean"] == 10
    assert result["num_env_steps_sampled_lifetime"] == 2400
    assert algorithm.compute_single_action([1.0], explore=False) == 1
    assert algorithm.compute_single_action([0.0], explore=False) == 0
    algorithm.stop()


def test_dqn_learns_from_actions_that_a_program_takes_itself() -> None:
    class Shown(Guess):
        def run(self) -> None:
            stream = np.random.default_rng(0)
            while True:
                id = self.start_episode()
                for _ in range(10):
                    shown, action = stream.integers(2, size=2)
                    self.log_action(id, [shown], action)
                    self.log_returns(id, float(action == shown))
                self.end_episode(id, [0])

    config = DQNConfig().environment(Shown).env_runners(num_env_runners=0, rollout_fragment_length=20)
    config.training(train_batch_size=64, lr=5e-3, gamma=0.0, num_steps_sampled_before_learning_starts=100)
    algorithm = config.reporting(min_sample_timesteps_per_iteration=1000).debugging(seed=0).build()
    algorithm.train()
    assert algorithm.compute_single_action([1.0], explore=False) == 1
    assert algorithm.compute_single_action([0.0], explore=False) == 0
    algorithm.stop()


def test_policies_of_several_agents_learn_each_its_own() -> None:
    config = ppo(GuessOfTwo).multi_agent(
        policies={"same": PolicySpec(), "other": PolicySpec()}, policy_mapping_fn=lambda agent, *_, **__: agent
    )
    algorithm = config.build()
    for _ in range(12):
        result = algorithm.train()
    assert result["policy_reward_mean"].keys() == {"same", "other"}
    chosen = [algorithm.compute_single_action([1.0], policy_id=each, explore=False) for each in ("same", "other")]
    assert chosen == [1, 0]
    algorithm.stop()


class Summed(RLlibCallback):
    """Keeps what an episode brought."""

    def on_episode_end(self, *, episode: Any, **kwargs: Any) -> None:
        episode.custom_metrics["reward"] = episode.total_reward


def test_callbacks_hear_of_episodes() -> None:
    algorithm = ppo(Guess).callbacks(Summed).build()
    result = algorithm.train()
    assert result["custom_metrics"]["reward_mean"] == pytest.approx(result["episode_reward_mean"])
    algorithm.stop()


@pytest.mark.usefixtures("session")
def test_runners_have_programs_of_their_own() -> None:
    algorithm = ppo(Guess).env_runners(num_env_runners=2, rollout_fragment_length=50).build()
    results = [algorithm.train() for _ in range(3)]
    assert results[-1]["num_env_steps_sampled_lifetime"] == 600
    algorithm.stop()


def test_a_checkpoint_is_gone_on_from(tmp_path: Any) -> None:
    algorithm = ppo(Guess).build()
    algorithm.train()
    path = algorithm.save(str(tmp_path))
    algorithm.stop()
    again = ppo(Guess).build()
    again.restore(path)
    assert again.train()["num_env_steps_sampled_lifetime"] == 400
    again.stop()


def test_what_steps_environments_itself_refuses_them() -> None:
    with pytest.raises(EnvError, match="Guess is an external environment, whose program makes the steps"):
        ESConfig().environment(Guess).env_runners(num_env_runners=0).build().train()
