"""The provider of hosts over SSH: the suite of providers, and what is said when a host fails."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from kernel_provider_local.leases import LeaseFile
from kernel_provider_local.plugin import make_local
from kernel_provider_local.settings import read_kinds

from kernel.conformance.node_provider import NodeProviderConformance
from kernel.testing.faults import wait_until
from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import CAPACITY, INVALID, UNKNOWN
from plugins.provider_local.tests.ssh_hosts import SshHosts, make_key

JOIN = NodeProviderConformance.join
SECONDS = 120.0


def kinds(hosts: SshHosts, count: int = 3) -> dict[str, Any]:
    return {"small": {"hosts": [host.name for host in hosts.hosts[:count]], "resources": {"CPU": 1.0}}}


class TestLocal(NodeProviderConformance):
    """Nodes whose start fails, on hosts of which each test has a list of leases of its own."""

    running_seconds = None

    @pytest.fixture(autouse=True)
    def _over(self, hosts: SshHosts, tmp_path: Path) -> Any:
        made: list[Any] = []
        places: dict[int, Path] = {}

        def make(place: Path | None = None) -> Any:
            place = place or tmp_path / str(len(made))
            provider = make_local(
                hosts.options(
                    kinds=kinds(hosts), session=str(place), leases_file=str(place / "leases"), command="false"
                )
            )
            made.append(provider)
            places[id(provider)] = place
            return provider

        type(self).make_provider = staticmethod(make)
        type(self).reopen_provider = staticmethod(lambda provider: make(places[id(provider)]))
        yield
        for provider in made:
            provider.terminate([node.id for node in provider.list()])
            wait_until(lambda provider=provider: not provider.list(), SECONDS, "all nodes to be gone")


def make(hosts: SshHosts, tmp_path: Path, **options: Any) -> Any:
    given = {"kinds": kinds(hosts), "session": str(tmp_path / "session"), "leases_file": str(tmp_path / "leases")}
    return make_local(hosts.options(**{**given, **options}))


def end_all(provider: Any) -> None:
    provider.terminate([node.id for node in provider.list()])
    wait_until(lambda: not provider.list(), SECONDS, "all nodes to be gone")


def test_two_clusters_never_have_one_host(hosts: SshHosts, tmp_path: Path) -> None:
    mine, other = (
        make(hosts, tmp_path, cluster_name=name, session=str(tmp_path / name), command="false")
        for name in ("mine", "other")
    )
    first = mine.create("small", 2, JOIN)
    second = other.create("small", 2, JOIN)
    assert len(first) == 2 and len(second) == 1, "there are three hosts"
    with pytest.raises(NodeProviderError) as caught:
        other.create("small", 1, JOIN)
    assert caught.value.code == CAPACITY
    text = "none of the 3 hosts of kind 'small' is free: 2 held by cluster mine, 1 held by cluster other"
    assert str(caught.value) == text
    other.terminate(first)
    assert {node.id for node in mine.list()} == set(first), "a cluster ends no node of another"
    end_all(mine)
    end_all(other)


def test_a_node_that_finds_no_head_is_failed_with_its_reason_and_its_host_is_taken_last(
    hosts: SshHosts, tmp_path: Path
) -> None:
    provider = make(hosts, tmp_path)
    (id,) = provider.create("small", 1, JOIN)
    wait_until(lambda: [node.state for node in provider.list()] == ["failed"], SECONDS, "the start to fail")
    (node,) = provider.list()
    assert node.problem.startswith(f"host {hosts.hosts[0].name}: ") and "KERNEL_TOKEN holds is no token" in node.problem
    end_all(provider)
    (again,) = provider.create("small", 1, JOIN)
    assert [node.address for node in provider.list()] == [hosts.hosts[1].name]
    assert again != id
    end_all(provider)


def test_a_host_that_is_not_known_or_not_there_is_said_by_name(hosts: SshHosts, tmp_path: Path) -> None:
    (tmp_path / "none").touch()
    strange = make(hosts, tmp_path, known_hosts=str(tmp_path / "none"), control_directory=hosts.new_control())
    strange.create("small", 1, JOIN)
    wait_until(lambda: [node.state for node in strange.list()] == ["failed"], SECONDS, "the host to be refused")
    advice = "check its key and put it into known_hosts (ssh-keyscan)"
    assert strange.list()[0].problem == f"host {hosts.hosts[0].name}: Host key verification failed.; {advice}"
    unreached = make(hosts, tmp_path, kinds={"away": ["127.0.0.1:1"]}, leases_file=str(tmp_path / "away"))
    with pytest.raises(NodeProviderError) as caught:
        unreached.kinds()
    assert caught.value.code == UNKNOWN
    assert "the resources of kind 'away' can't be detected, as none of its hosts answers: host 127.0.0.1:1" in str(
        caught.value
    )
    assert "Connection refused" in str(caught.value)


def test_a_key_that_is_not_let_in_is_said(hosts: SshHosts, tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    provider = make(hosts, tmp_path, key_file=str(tmp_path / "key"), control_directory=hosts.new_control())
    provider.create("small", 1, JOIN)
    wait_until(lambda: [node.state for node in provider.list()] == ["failed"], SECONDS, "the key to be refused")
    assert "Permission denied" in provider.list()[0].problem
    assert "its account must let this user's key in (authorized_keys)" in provider.list()[0].problem


def test_a_host_that_can_not_be_reached_stays_leased_until_it_can(hosts: SshHosts, tmp_path: Path) -> None:
    provider = make(hosts, tmp_path, kinds=kinds(hosts, 1), command="false")
    (id,) = provider.create("small", 1, JOIN)
    wait_until(lambda: [node.state for node in provider.list()] == ["failed"], SECONDS, "the start to fail")
    hosts.hosts[0].kill()
    provider.terminate([id])
    (node,) = provider.list()
    assert node.state == "stopping" and "Connection refused" in node.problem
    with pytest.raises(NodeProviderError, match="none of the 1 hosts of kind 'small' is free"):
        provider.create("small", 1, JOIN)
    hosts.hosts[0].start()
    wait_until(lambda: not provider.list(), SECONDS, "the host to be released")
    provider.create("small", 1, JOIN)
    end_all(provider)


def test_resources_are_detected(hosts: SshHosts, tmp_path: Path) -> None:
    provider = make(hosts, tmp_path, kinds={"any": [hosts.hosts[0].name]})
    assert provider.kinds()["any"]["CPU"] == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kind": {}}, "'kind' is not an option of the node provider 'local', which are"),
        ({"kinds": {}}, "kinds must be a table of groups of hosts"),
        ({"kinds": {"a": []}}, "kind 'a' of hosts needs hosts, each as [USER@]HOST[:PORT], not []"),
        ({"kinds": {"a": ["-oProxyCommand=x"]}}, "kind 'a' of hosts needs hosts, each as [USER@]HOST[:PORT]"),
        ({"kinds": {"a": ["x"], "b": ["me@X:22"]}}, "host 'me@X:22' is named twice, in kind 'a' and in kind 'b'"),
        ({"kinds": {"a": {"hosts": ["x"], "resource": {}}}}, "did you mean 'resources'?"),
        ({"kinds": {"a": {"hosts": ["x"], "resources": {"CPU": 0}}}}, "CPU of resources of kind 'a' of hosts must be"),
        ({"user": 1, "kinds": {"a": ["x"]}}, "user must be a text, not 1"),
        ({"connect_seconds": 0, "kinds": {"a": ["x"]}}, "connect_seconds must be a whole number of seconds"),
    ],
)
def test_wrong_options_are_refused_by_name(options: dict[str, Any], text: str) -> None:
    with pytest.raises(NodeProviderError) as caught:
        make_local(options)
    assert caught.value.code == INVALID and text in str(caught.value)


def test_a_file_that_has_no_leases_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "leases").write_text("[]")
    with pytest.raises(NodeProviderError, match="is not a file with leases of hosts; remove it"):
        LeaseFile(tmp_path / "leases", read_kinds({"a": ["x"]})).of_cluster("mine")
    assert (tmp_path / "leases").read_text() == "[]"
