"""Policies for other programs: calls over HTTP, who may call, who dies, and what is learned."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from kernel_rllib.config.algorithm_config import AlgorithmConfig
from kernel_rllib.envs.external import ExternalEnv, ExternalMultiAgentEnv
from kernel_rllib.envs.external_calls import (
    ActionsTaken,
    ActionsWanted,
    Call,
    EpisodeAbandoned,
    EpisodeEnded,
    EpisodeStarted,
)
from kernel_rllib.errors import ConfigError, DataError, EnvError, EpisodeError, PolicyServerError, SpaceError
from kernel_rllib.serving import access
from kernel_rllib.serving.client import PolicyClient
from kernel_rllib.serving.policy_files import write_described
from kernel_rllib.serving.server import LARGEST_BODY, PolicyServer
from kernel_rllib.serving.server_input import PolicyServerInput

from kernel.rllib import DQNConfig, PPOConfig

SEEN = spaces.Box(0.0, 1.0, (1,), np.float32)
TWO = spaces.Discrete(2)


@pytest.fixture(autouse=True)
def own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens are in a directory of the test's."""
    monkeypatch.setattr(access.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.delenv(access.VARIABLE, raising=False)


class Served(ExternalEnv):
    """Episodes that a test answers."""

    def __init__(self) -> None:
        super().__init__(TWO, SEEN)


class Answering:
    """Takes the calls of an environment in a thread, and answers all who want an action with 1."""

    def __init__(self, env: ExternalMultiAgentEnv) -> None:
        self.calls: list[Call] = []
        self._env, self._changed = env, threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                taken = self._env.calls.take(60.0)
            except EnvError:
                return
            for call in taken:
                if isinstance(call, ActionsWanted):
                    call.actions.set_result(dict.fromkeys(call.seen, 1))
            with self._changed:
                self.calls += taken
                self._changed.notify_all()

    def wait_for(self, kind: type) -> Any:
        """Return the first call of a kind, once it is there."""
        with self._changed:
            found = lambda: next((call for call in self.calls if isinstance(call, kind)), None)
            assert self._changed.wait_for(found, 30), f"no {kind.__name__} has come"
            return found()


@pytest.fixture
def served() -> Iterator[tuple[PolicyServer, Answering]]:
    """A server whose episodes are answered."""
    yield from _serving(Served())


def _serving(env: ExternalMultiAgentEnv, **options: Any) -> Iterator[tuple[PolicyServer, Answering]]:
    server = PolicyServer(env, **{"port": 0, **options})
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    answering = Answering(env)
    yield server, answering
    server.close()
    thread.join()
    env.calls.fail(EnvError("the test is over"))


def request(server: PolicyServer, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, Any]:
    """Make a request, with the token unless another one is given; return the status and the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    given = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body, {name: value for name, value in given.items() if value})
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response.status, json.loads(content) if content else None


# -- calls -------------------------------------------------------------------------------------------------------------


def test_a_client_plays_an_episode(served: tuple[PolicyServer, Answering]) -> None:
    server, answering = served
    client = PolicyClient(server.url, "remote")
    id = client.start_episode(training_enabled=False)
    assert client.get_action(id, np.array([0.5], np.float32)) == 1
    client.log_returns(id, 2.0, {"told": 1})
    client.log_returns(id, 3.0)
    client.log_action(id, [0.25], 0)
    client.end_episode(id, [1.0])
    answering.wait_for(EpisodeEnded)
    kinds = [type(call).__name__ for call in answering.calls]
    assert kinds == ["EpisodeStarted", "ActionsWanted", "Rewarded", "Rewarded", "ActionsTaken", "EpisodeEnded"]
    assert answering.wait_for(EpisodeStarted) == EpisodeStarted(id, learns=False)
    assert answering.wait_for(ActionsTaken).actions["agent0"] == 0
    client.close()


def test_whoever_can_say_json_can_play(served: tuple[PolicyServer, Answering]) -> None:
    server, answering = served
    calls = [
        {"method": "start_episode", "episode_id": "mine"},
        {"method": "get_action", "episode_id": "mine", "observation": [0.5]},
        {"method": "log_returns", "episode_id": "mine", "reward": 1},
        {"method": "end_episode", "episode_id": "mine", "observation": [0.75]},
    ]
    body = json.dumps({"calls": calls}).encode()
    assert request(server, "POST", "/v1/calls", body) == (200, {"results": ["mine", 1, None, None]})
    assert answering.wait_for(EpisodeEnded).episode_id == "mine"


def test_several_agents_act_by_name() -> None:
    class Several(ExternalMultiAgentEnv):
        pass

    for server, answering in _serving(Several(TWO, SEEN)):
        client = PolicyClient(server.url, "remote")
        id = client.start_episode()
        assert client.get_action(id, {"a": [0.0], 7: [1.0]}) == {"a": 1, 7: 1}
        client.log_returns(id, {"a": 1.0, 7: 2.0})
        client.end_episode(id, {})
        assert set(answering.wait_for(ActionsWanted).seen) == {"a", 7}
        client.close()


def test_errors_of_calls_are_raised_where_they_are_made(served: tuple[PolicyServer, Answering]) -> None:
    client = PolicyClient(served[0].url, "remote")
    with pytest.raises(EpisodeError, match="no episode 'x' is open"):
        client.get_action("x", [0.5])
    id = client.start_episode()
    with pytest.raises(SpaceError, match=r"get_action\(\) got a list of shape \(2,\) as observation"):
        client.get_action(id, [0.5, 0.5])
    with pytest.raises(EpisodeError, match="is open already"):
        client.start_episode(id)
    assert client.get_action(id, [0.5]) == 1
    client.close()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[]", 'the body has no calls: send {"calls": ['),
        (b'{"calls": [1]}', "1 is no method: there are start_episode, get_action"),
        (b'{"calls": [{"method": "__init__"}]}', "'__init__' is no method"),
        (b'{"calls": [{"method": "get_action", "episode_id": "x"}]}', "a call of get_action has no observation"),
        (b'{"calls": [{"method": "start_episode", "more": 1}]}', "a call of start_episode has 'more'"),
        (b'{"calls": [{"method": "start_episode", "episode_id": 3}]}', "the episode_id of a call is 3"),
        (b"nonsense", "is no value of application/json"),
    ],
)
def test_bodies_that_are_no_calls_are_refused(
    served: tuple[PolicyServer, Answering], body: bytes, message: str
) -> None:
    status, answer = request(served[0], "POST", "/v1/calls", body)
    assert status == 400
    assert message in answer["error"]["message"]


def test_what_a_call_raises_is_answered(
    served: tuple[PolicyServer, Answering], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any, **named: Any) -> None:
        raise ZeroDivisionError("of the environment")

    monkeypatch.setattr(served[0].env, "log_returns", broken)
    client = PolicyClient(served[0].url, "remote")
    id = client.start_episode()
    client.log_returns(id, 1.0)
    with pytest.raises(PolicyServerError, match="ZeroDivisionError: of the environment"):
        client.get_action(id, [0.5])
    assert client.get_action(id, [0.5]) == 1  # on the same connection
    client.close()


@pytest.mark.parametrize("mode", ["remote", "local"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"reward": 1.0, "info": {"made": object}},
            "the info of log_returns() of the episode 'e' can't be sent: <class",
        ),
        (
            {"reward": {1, 2}},
            "the reward of log_returns() of the episode 'e' can't be sent: {1, 2} (set) can't be sent",
        ),
    ],
)
def test_what_can_not_be_sent_is_refused_where_it_is_given(
    mode: str, given: dict[str, Any], message: str, served: tuple[PolicyServer, Answering]
) -> None:
    client = PolicyClient(served[0].url, mode)
    id = client.start_episode("e")
    with pytest.raises(DataError) as raised:
        client.log_returns(id, **given)
    assert message in str(raised.value)
    client.log_returns(id, 1.0, {"made": [1, "text", None]})  # nothing is left of the refused call
    client.end_episode(id, [0.5])
    client.close()


# -- who may -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer wrong", "Basic dXNlcjpwYXNz"])
@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/calls"), ("GET", "/v1/policy"), ("GET", "/v1/weights")])
def test_nothing_is_answered_without_the_token(
    served: tuple[PolicyServer, Answering], method: str, path: str, authorization: str
) -> None:
    body = b'{"calls": [{"method": "start_episode"}]}'
    status, answer = request(served[0], method, path, body, Authorization=authorization)
    assert (status, answer["error"]["kind"]) == (401, "Unauthorized")
    assert served[1].calls == []


def test_a_client_with_another_token_is_told(served: tuple[PolicyServer, Answering]) -> None:
    with pytest.raises(PolicyServerError, match="refuses the token"):
        PolicyClient(served[0].url, "remote", token="another").start_episode()


def test_paths_that_are_not_there(served: tuple[PolicyServer, Answering]) -> None:
    assert request(served[0], "GET", "/v1/calls")[0] == 404
    assert request(served[0], "POST", "/../etc/passwd")[0] == 404
    assert request(served[0], "GET", "/v1/weights?have=x")[0] == 400


def test_bodies_that_are_too_large_are_not_read(served: tuple[PolicyServer, Answering]) -> None:
    status, answer = request(served[0], "POST", "/v1/calls", b"", Content_Length=str(LARGEST_BODY + 1))
    assert (status, answer["error"]["kind"]) == (413, "TooLarge")
    status, answer = request(served[0], "POST", "/v1/calls", b"", Transfer_Encoding="chunked")
    assert (status, answer["error"]["kind"]) == (411, "LengthRequired")


def test_the_token_of_a_server_is_in_a_file_of_the_users(served: tuple[PolicyServer, Answering]) -> None:
    path = access.token_file(served[0].port)
    assert path.read_text() == served[0].token
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_the_file_of_a_token_goes_with_its_server() -> None:
    for server, _ in _serving(Served()):
        path = access.token_file(server.port)
        assert path.exists()
    assert not path.exists()


def test_a_directory_that_others_can_read_is_refused() -> None:
    directory = access.token_file(1).parent
    directory.chmod(0o755)
    with pytest.raises(ConfigError, match="must be a directory of this user's that nobody else can read"):
        PolicyServer(Served(), port=0)


def test_beyond_this_machine_a_token_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="can be reached from other machines, and has no token"):
        access.server_token("0.0.0.0", 9900, None)
    monkeypatch.setenv(access.VARIABLE, "shared")
    assert access.server_token("0.0.0.0", 9900, None) == "shared"
    assert access.client_token("10.0.0.1", 9900, None) == "shared"
    assert access.client_token("10.0.0.1", 9900, "given") == "given"


def test_a_client_without_a_token_is_told_where_it_would_be(served: tuple[PolicyServer, Answering]) -> None:
    port = served[0].port
    access.token_file(port).unlink()
    with pytest.raises(
        ConfigError, match=rf"there is no token for the policy server at 127.0.0.1:{port}: .*{port}\.token"
    ):
        PolicyClient(served[0].url).start_episode()


def test_a_client_may_be_there_before_its_server() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    access.token_file(port).write_text("of a server that was killed")
    started: list[str] = []
    client = PolicyClient(f"localhost:{port}", "remote")
    thread = threading.Thread(target=lambda: started.append(client.start_episode("x")))
    thread.start()
    for _ in _serving(Served(), port=port):
        thread.join(30)
        assert started == ["x"]


@pytest.mark.parametrize("address", ["localhost", "ftp://localhost:9900", "http://:9900", ""])
def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(ConfigError, match="must be as 'localhost:9900'"):
        PolicyClient(address, token="t")


def test_modes_that_are_none() -> None:
    with pytest.raises(ConfigError, match="inference_mode is 'far', but must be 'local' or 'remote'"):
        PolicyClient("localhost:9900", "far", token="t")


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"no policy server can listen at 127.0.0.1:{port}: Address already"):
            PolicyServer(Served(), port=port)


# -- who is gone -------------------------------------------------------------------------------------------------------

CLIENT = """
import sys
from kernel_rllib.serving.client import PolicyClient

client = PolicyClient(sys.argv[1], "remote", token=sys.argv[2])
id = client.start_episode("of the dead")
client.get_action(id, [0.5])
print("acted", flush=True)
sys.stdin.read()
"""


def test_the_episodes_of_a_client_that_is_killed_are_abandoned() -> None:
    for server, answering in _serving(Served(), abandoned_seconds=0.3):
        alive = PolicyClient(server.url, "remote")
        kept = alive.start_episode()
        alive.get_action(kept, [0.5])
        command = [sys.executable, "-c", CLIENT, server.url, server.token]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"acted\n"
            os.kill(process.pid, signal.SIGKILL)
        assert answering.wait_for(EpisodeAbandoned).episode_id == "of the dead"
        assert alive.get_action(kept, [0.5]) == 1  # whose connection is open
        alive.close()


def test_an_episode_is_not_abandoned_while_another_connection_goes_on_with_it() -> None:
    now = [0.0]
    for server, _ in _serving(Served(), abandoned_seconds=10.0, clock=lambda: now[0]):
        first, second = object(), object()
        server.results({"calls": [{"method": "start_episode", "episode_id": "x"}]}, first)
        server.disconnected(first)
        now[0] = 9.0
        server.results({"calls": [{"method": "get_action", "episode_id": "x", "observation": [0.5]}]}, second)
        now[0] = 30.0
        assert server._attendance.abandoned() == []
        server.disconnected(second)
        now[0] = 39.0
        assert server._attendance.abandoned() == []
        now[0] = 40.0
        assert server._attendance.abandoned() == ["x"]


def test_a_server_that_is_gone_is_named_and_found_again() -> None:
    env = Served()
    for server, _ in _serving(env):
        client = PolicyClient(server.url, "remote", token=server.token, connect_seconds=0.2)
        client.start_episode()
        port = server.port
    client.close()
    with pytest.raises(PolicyServerError, match=f"no policy server can be reached at 127.0.0.1:{port} within 0.2 s"):
        client.start_episode()


def test_a_server_that_ends_under_a_call_is_named() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        hang_up = threading.Thread(target=lambda: listening.accept()[0].close())
        hang_up.start()
        client = PolicyClient(f"127.0.0.1:{port}", "remote", token="t")
        with pytest.raises(PolicyServerError, match="is gone, or has not answered: .*Its open episodes are lost"):
            client.start_episode()
        hang_up.join()


# -- training ----------------------------------------------------------------------------------------------------------


def guess(client: Any, stream: np.random.Generator, steps: int = 10) -> float:
    """Play an episode that shows 0 or 1 and rewards the action that is it; return what it brought."""
    id, total = client.start_episode(), 0.0
    for _ in range(steps):
        shown = int(stream.integers(2))
        reward = float(client.get_action(id, [shown]) == shown)
        client.log_returns(id, reward)
        total += reward
    client.end_episode(id, [0])
    return total


INPUTS: list[PolicyServerInput] = []
"""All that were made; the last one is sampled."""


def served_input(context: Any) -> PolicyServerInput:
    """Return a server at a port that is free."""
    INPUTS.append(PolicyServerInput(None, port=0, observation_space=SEEN, action_space=TWO))
    return INPUTS[-1]


class Training:
    """An algorithm that serves, and clients that play until they are told to end."""

    def __init__(self, config: AlgorithmConfig) -> None:
        self.algorithm = config.environment(served_input).env_runners(num_env_runners=0).debugging(seed=1).build()
        self.totals: list[float] = []
        self.errors: list[Exception] = []
        self._threads: list[threading.Thread] = []
        self._ends = threading.Event()

    def play(self, mode: str, **options: Any) -> None:
        """Let a client play in a thread."""
        self._threads.append(threading.Thread(target=self._play, args=(mode, options), daemon=True))
        self._threads[-1].start()

    def _play(self, mode: str, options: Any) -> None:
        try:
            client = PolicyClient(INPUTS[-1].server.url, mode, **options)
            stream = np.random.default_rng(len(self._threads))
            while not self._ends.is_set():
                self.totals.append(guess(client, stream))
            client.close()
        except Exception as error:
            self.errors.append(error)

    def stop(self) -> None:
        """End the clients by ending the server."""
        self._ends.set()
        self.algorithm.stop()
        for thread in self._threads:
            thread.join(30)


def ppo() -> AlgorithmConfig:
    """Return a config that learns to guess."""
    return PPOConfig().training(train_batch_size=200, minibatch_size=50, num_epochs=6, lr=1e-2, gamma=0.5)


@pytest.mark.parametrize("mode", ["remote", "local"])
def test_ppo_learns_from_clients(mode: str) -> None:
    training = Training(ppo())
    for _ in range(2):
        training.play(mode, update_interval=0.0)
    results = [training.algorithm.train() for _ in range(14)]
    assert results[-1]["episode_len_mean"] == 10
    assert training.algorithm.compute_single_action([1.0], explore=False) == 1
    assert training.algorithm.compute_single_action([0.0], explore=False) == 0
    training.stop()


def test_steps_of_local_clients_have_the_probabilities_that_they_were_chosen_with() -> None:
    training = Training(ppo())
    training.play("local", update_interval=1000.0)  # it acts by the first parameters throughout
    first = training.algorithm.get_weights()["default_policy"]
    for _ in range(3):
        training.algorithm.train()
    sampler: Any = training.algorithm.runners.local.sampler  # type: ignore[union-attr]
    fragment = sampler.collect(20).fragments["default_policy"]
    rows = fragment.batch()
    training.algorithm.set_weights({"default_policy": first})
    for obs, inputs in zip(rows["obs"], rows["action_dist_inputs"], strict=True):
        *_, found = training.algorithm.compute_single_action(obs, explore=False, full_fetch=True)
        assert inputs == pytest.approx(np.ravel(found["action_dist_inputs"]), abs=1e-5)
    training.stop()


def test_dqn_explores_in_local_clients() -> None:
    config = DQNConfig().training(num_steps_sampled_before_learning_starts=1000, train_batch_size=8)
    training = Training(config.reporting(min_sample_timesteps_per_iteration=100))
    training.play("local")
    training.algorithm.train()
    assert 2 < np.mean(training.totals) < 8  # epsilon is near 1
    training.stop()


def test_local_clients_need_a_policy_that_learns_where_the_server_is(
    served: tuple[PolicyServer, Answering],
) -> None:
    client = PolicyClient(served[0].url, "local")
    id = client.start_episode()
    with pytest.raises(ConfigError, match="set num_env_runners=0, or let clients use inference_mode='remote'"):
        client.get_action(id, [0.5])
    client.close()


def test_a_policy_that_remembers_is_for_remote_clients() -> None:
    training = Training(ppo().training(model={"use_lstm": True, "lstm_cell_size": 4}))
    training.play("local")
    training.play("remote")
    training.algorithm.train()
    assert "use inference_mode='remote'" in str(training.errors[0])
    training.stop()


def test_files_of_a_server_stay_in_their_directory(tmp_path: Path) -> None:
    for name in ("../out", "settings.pickles", "/etc/passwd"):
        with pytest.raises(DataError, match="which is not taken from a server"):
            write_described({"files": {name: np.zeros(1, np.uint8)}}, tmp_path)


def test_a_server_that_is_stopped_tells_its_clients() -> None:
    training = Training(ppo())
    training.play("remote")
    training.algorithm.train()
    training.stop()
    assert len(training.errors) <= 1
    assert all(isinstance(error, (EnvError, PolicyServerError)) for error in training.errors)


def test_an_input_without_spaces_is_refused() -> None:
    with pytest.raises(ConfigError, match="nothing says what clients of the policy server observe and do"):
        PolicyServerInput(None, port=0)
