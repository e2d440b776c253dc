"""The examples of policies for other programs: a server and its clients, a game with its own clock, and a service."""

from __future__ import annotations

import queue
import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest
from kernel_rllib.errors import CheckpointError
from kernel_rllib.examples import cartpole_client, cartpole_server, external_game, serve_policy
from kernel_rllib.serving import access

from kernel import serve


@pytest.fixture(autouse=True)
def own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens are in a directory of the test's."""
    monkeypatch.setattr(access.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.delenv(access.VARIABLE, raising=False)


@pytest.mark.parametrize(("run", "mode"), [("PPO", "local"), ("PPO", "remote"), ("DQN", "local")])
def test_a_server_learns_from_its_client_until_it_is_told_to_end(
    run: str, mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    urls: queue.Queue[str] = queue.Queue()
    reached: list[float] = []
    asked = ["--run", run, "--port", "0", "--steps", "300", "--stop-iters", "2", "--checkpoint", str(tmp_path / "kept")]
    server = threading.Thread(target=lambda: reached.append(cartpole_server.main(asked, urls.put)))
    server.start()
    client = ["--server", urls.get(timeout=30), "--inference-mode", mode, "--update-interval", "0.2", "--seed", "1"]
    returns = cartpole_client.main(client)
    server.join(60)
    assert 8 < reached[0] < 200 and len(returns) > 10
    said = capsys.readouterr().out
    assert "Serving a policy at http://127.0.0.1:" in said and "2: mean return" in said
    assert f"Total reward: {returns[0]}" in said and "The server has ended: " in said
    assert list((tmp_path / "kept").iterdir())


def test_a_client_may_play_a_number_of_episodes_that_are_not_learned_from(capsys: pytest.CaptureFixture[str]) -> None:
    urls: queue.Queue[str] = queue.Queue()
    server = threading.Thread(
        target=lambda: cartpole_server.main(["--port", "0", "--steps", "300", "--stop-iters", "1"], urls.put)
    )
    server.start()
    url = urls.get(timeout=30)
    assert len(cartpole_client.main(["--server", url, "--episodes", "3", "--no-train"])) == 3
    cartpole_client.main(["--server", url])
    server.join(60)
    assert not server.is_alive()


def test_a_game_asks_its_agents_when_they_are_ready() -> None:
    class Watched(external_game.FruitGame):
        """Lets catchers stand still, and ends after an episode."""

        asked: ClassVar[list[list[str]]] = []
        gained: ClassVar[list[dict[str, float]]] = []

        def start_episode(self, *_: Any) -> str:
            return "e"

        def get_action(self, episode_id: str, observation_dict: Any) -> dict[Any, Any]:
            assert all(self.observation_space.contains(seen) for seen in observation_dict.values())
            self.asked.append(list(observation_dict))
            return dict.fromkeys(observation_dict, external_game.STAY)

        def log_returns(self, episode_id: str, reward_dict: Any, info_dict: Any = None) -> None:
            self.gained.append(reward_dict)

        def end_episode(self, episode_id: str, observation_dict: Any) -> None:
            assert list(observation_dict) == ["quick", "slow"]
            self.close()

    game = Watched({"pieces": 30})
    game.run()
    assert game.asked[:4] == [["quick", "slow"], ["quick"], ["slow"], ["quick"]]  # in frames 0, 2, 3 and 4
    assert len(game.gained) == 30 * external_game.HEIGHT
    fallen = game.gained[external_game.HEIGHT - 1 :: external_game.HEIGHT]
    assert sum(map(sum, (each.values() for each in game.gained))) == sum(map(sum, (each.values() for each in fallen)))
    assert 3 < sum(each["quick"] for each in fallen) < 12  # it stands below every fifth


def test_the_catchers_of_a_game_learn(capsys: pytest.CaptureFixture[str]) -> None:
    assert external_game.main(["--seed", "1", "--stop-iters", "10", "--stop-reward", "9", "--as-test"]) >= 9
    assert "mean return" in capsys.readouterr().out


def test_a_policy_is_served_without_its_algorithm(tmp_path: Path) -> None:
    serve_policy.train(tmp_path / "policy", iterations=4, seed=1)
    served = serve.run(serve_policy.ServedPolicy.bind(str(tmp_path / "policy")), _local_testing_mode=True)
    falls_right, falls_left = [0.0, 0.0, 0.15, 1.0], [0.0, 0.0, -0.15, -1.0]
    answers = [served.decide.remote(seen) for seen in (falls_right, falls_left, falls_right)]
    assert [answer.result() for answer in answers] == [1, 0, 1]
    with pytest.raises(CheckpointError):
        serve_policy.Policy.from_checkpoint(str(tmp_path))


def test_a_request_is_answered(tmp_path: Path) -> None:
    serve_policy.train(tmp_path / "policy", iterations=1, seed=1)
    served = serve.run(serve_policy.ServedPolicy.bind(str(tmp_path / "policy")), _local_testing_mode=True)

    class Asked:
        def __init__(self, body: Any) -> None:
            self.body = body

        async def json(self) -> Any:
            return self.body

    assert served.remote(Asked({"observation": [0.0, 0.0, 0.0, 0.0]})).result()["action"] in (0, 1)
    refused = served.remote(Asked({"observation": [0.0, 0.0]})).result()
    assert refused.status_code == 400 and b"SpaceError" in refused.body
    assert b"KeyError" in served.remote(Asked({})).result().body
