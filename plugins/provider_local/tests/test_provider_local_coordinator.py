"""The coordinator: several users' clusters share its hosts, and what it refuses."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kernel_provider_local.command import coordinator
from kernel_provider_local.coordinator_client import CoordinatorClient
from kernel_provider_local.plugin import make_coordinated

from kernel.testing.faults import wait_until
from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import CAPACITY, CREDENTIALS, INVALID, UNKNOWN

HOSTS = 'kinds.cpu = {hosts = ["10.255.0.1", "10.255.0.2", "10.255.0.3"], resources = {CPU = 4}, price = 0.5}\n'


class Coordinator:
    """`kernel coordinator` in a process of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "hosts.toml").write_text(HOSTS)
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "kernel.cli.main", "coordinator", "hosts.toml", "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(command, cwd=self.directory, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.endswith("; its token is in coordinator.token.\n"), line
        self.port = int(line.partition("127.0.0.1:")[2].partition(";")[0])
        self.token = (self.directory / "coordinator.token").read_text().strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def client(self) -> CoordinatorClient:
        return CoordinatorClient(f"http://127.0.0.1:{self.port}", self.token)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Coordinator]:
    server = Coordinator(tmp_path)
    yield server
    server.kill()


def test_clusters_share_hosts_and_a_killed_coordinator_forgets_nothing(served: Coordinator) -> None:
    def lease(number: int) -> list[str]:
        try:
            return [lease.host for lease in served.client().take(f"cluster {number}", "cpu", 1, f"token {number}")]
        except NodeProviderError as error:
            assert error.code == CAPACITY, error
            return []

    with ThreadPoolExecutor(6) as pool:
        taken = [host for hosts in pool.map(lease, range(6)) for host in hosts]
    assert sorted(taken) == ["10.255.0.1", "10.255.0.2", "10.255.0.3"], "six ask at once, each host is leased once"
    served.kill()
    with pytest.raises(NodeProviderError, match="can't be asked: .*Connection refused") as caught:
        served.client().kinds()
    assert caught.value.code == UNKNOWN
    served.start()
    holders = {number: served.client().of_cluster(f"cluster {number}") for number in range(6)}
    assert sorted(lease.host for leases in holders.values() for lease in leases) == sorted(taken)
    number, (held,) = next((number, leases) for number, leases in holders.items() if leases)
    assert list(served.client().take(f"cluster {number}", "cpu", 1, f"token {number}")) == [held], "a repeated order"
    served.client().end(f"cluster {number}", [held.id])
    served.client().release("cluster of others", [held.id])
    assert [one.ended for one in served.client().of_cluster(f"cluster {number}")] == [True]
    served.client().release(f"cluster {number}", [held.id])
    assert [one.host for one in served.client().take("another", "cpu", 3, "")] == [held.host]


def test_a_provider_asks_the_coordinator_for_its_kinds_and_says_what_it_refuses(
    served: Coordinator, tmp_path: Path
) -> None:
    given = {"url": f"http://127.0.0.1:{served.port}", "session": str(tmp_path / "session")}
    provider: Any = make_coordinated({**given, "token_file": str(tmp_path / "coordinator.token")})
    assert provider.kinds() == {"cpu": {"CPU": 4.0}} and provider.describe("cpu").price == 0.5
    assert provider.list() == []
    with pytest.raises(NodeProviderError, match="says: there is no kind 'gpu' of hosts; there are cpu") as caught:
        provider.create("gpu", 1, {"address": "127.0.0.1:1", "token": "token"})
    assert caught.value.code == INVALID
    (tmp_path / "wrong").write_text("wrong")
    wrong: Any = make_coordinated({**given, "token_file": str(tmp_path / "wrong")})
    with pytest.raises(NodeProviderError, match="the coordinator's token is missing or wrong") as caught:
        wrong.list()
    assert caught.value.code == CREDENTIALS


def test_only_readable_requests_with_the_token_are_answered(served: Coordinator) -> None:
    assert (served.directory / "coordinator.token").stat().st_mode & 0o777 == 0o600
    assert served.token not in Path(f"/proc/{served.process.pid}/cmdline").read_text()

    def ask(path: str, body: bytes, token: str, **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
        connection.request("POST", path, body, {"Authorization": f"Bearer {token}", **headers})
        answer = connection.getresponse()
        said = json.loads(answer.read())
        connection.close()
        return answer.status, said["error"]["message"]

    assert ask("/v1/kinds", b"{}", "") == (401, "the coordinator's token is missing or wrong")
    assert ask("/v1/kinds", b"{}", served.token[:-1])[0] == 401
    assert ask("/v1/nothing", b"{}", served.token) == (404, "there is no /v1/nothing; perhaps the coordinator is older")
    assert ask("/v1/kinds", b"nonsense", served.token)[0] == 400
    assert ask("/v1/kinds", b"[]", served.token)[0] == 400
    assert ask("/v1/take", b"{}", served.token)[0] == 400
    assert ask("/v1/end", b'{"cluster": "a", "ids": "b"}', served.token)[1].endswith("list of texts, not 'b'")
    assert ask("/v1/kinds", b"", served.token, **{"Content-Length": str(1 << 30)})[0] == 400
    assert served.client().of_cluster("a") == []


def test_it_is_not_started_for_other_machines_without_tls(tmp_path: Path) -> None:
    (tmp_path / "hosts.toml").write_text(HOSTS)
    outcome = CliRunner().invoke(coordinator, [str(tmp_path / "hosts.toml"), "--listen", "0.0.0.0:0"])
    assert outcome.exit_code == 2 and "0.0.0.0 is reached from other machines" in outcome.output
    with pytest.raises(NodeProviderError, match="would send the coordinator's token in plain text"):
        CoordinatorClient("http://10.0.0.1:6381", "token")


def test_it_ends_when_told(served: Coordinator) -> None:
    served.process.terminate()
    wait_until(lambda: served.process.poll() is not None, 60.0, "the coordinator to end")
    assert served.process.returncode == 0
