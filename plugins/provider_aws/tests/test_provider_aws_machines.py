"""What becomes of machines: lists, ends, machines in reserve, announcements."""

from __future__ import annotations

import datetime
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kernel_provider_aws.clients import Clients
from kernel_provider_aws.interruptions import InterruptionWatch
from kernel_provider_aws.recent_changes import LAG_SECONDS, RecentChanges

from kernel_spec.errors import NodeProviderError
from kernel_spec.providers import CREDENTIALS, INVALID, ProvidedNode
from plugins.provider_aws.tests.aws_providers import clients, configuration, make_provider
from plugins.provider_aws.tests.ec2_stand_in import Ec2StandIn


def test_machines_that_are_not_there_keep_no_other_from_its_end(ec2: Ec2StandIn) -> None:
    provider = make_provider(configuration())
    ids = list(provider.create("small", 2, {}))
    provider.terminate(["i-0123456789abcdef0", ids[0], "i-0123456789abcdef1", "no such", ids[1], ids[0]])
    assert ec2.living() == []
    provider.terminate(["i-0123456789abcdef0"])


def test_a_refused_end_is_told(ec2: Ec2StandIn) -> None:
    provider = make_provider(configuration())
    ids = provider.create("small", 1, {})
    ec2.fail = lambda action, given: "UnauthorizedOperation" if action == "TerminateInstances" else ""
    with pytest.raises(NodeProviderError, match="^AWS: can't end 1 machines: ") as caught:
        provider.terminate(ids)
    assert caught.value.code == CREDENTIALS


def test_all_pages_are_read(ec2: Ec2StandIn) -> None:
    provider, ec2.page_size = make_provider(configuration()), 1
    ids = {provider.create("small", 1, {})[0] for _ in range(3)}
    assert {node.id for node in make_provider(configuration()).list()} == set()
    assert {node.id for node in provider.list()} == ids and ec2.calls["DescribeInstances"] >= 3


def test_a_machine_is_listed_where_a_launcher_reaches_it(ec2: Ec2StandIn) -> None:
    given = configuration()
    make_provider(given).create("small", 1, {})
    (said,) = ec2.living()
    assert said["PublicIpAddress"] != said["PrivateIpAddress"]
    for inside, address in ((False, said["PublicIpAddress"]), (True, said["PrivateIpAddress"])):
        (listed,) = make_provider({**given, "use_internal_ips": inside}).list()
        assert listed.address == address


def test_stopped_machines_are_started_again(ec2: Ec2StandIn) -> None:
    provider = make_provider(configuration(cache_stopped_nodes=True))
    ids = sorted(provider.create("small", 2, {}, token="order-1"))
    provider.terminate(ids)
    assert list(provider.list()) == [] and ec2.living() == []
    again = provider.create("small", 3, {}, token="order-2")
    assert list(again) == ids, "those in reserve first, and the next order for the rest"
    assert list(provider.create("small", 3, {}, token="order-2")) == ids
    assert len(provider.list()) == 2 == len(ec2.living())
    assert provider.create("small", 1, {}, token="order-3")[0] not in ids


def test_a_start_whose_answer_got_lost_is_done_again(ec2: Ec2StandIn) -> None:
    given = configuration(cache_stopped_nodes=True)
    provider = make_provider(given)
    ids = list(provider.create("small", 1, {}))
    provider.terminate(ids)
    ec2.fail = lambda action, given: "drop" if action == "StartInstances" else ""
    with pytest.raises(NodeProviderError, match="can't start 1 stopped machines"):
        provider.create("small", 1, {}, token="order-1")
    ec2.fail = lambda action, given: ""
    assert make_provider(given).create("small", 1, {}, token="order-1") == ids
    assert [one["InstanceId"] for one in ec2.living()] == ids


def test_a_machine_that_others_stopped_has_failed(ec2: Ec2StandIn) -> None:
    provider = make_provider(configuration())
    ids = list(provider.create("small", 1, {}))
    clients("")["ec2"].stop_instances(InstanceIds=ids)
    (node,) = provider.list()
    assert node.state == "failed" and "Client.UserInitiatedShutdown" in node.problem
    provider.terminate(ids)


def test_a_machine_that_could_not_start_is_listed_until_it_is_ended(ec2: Ec2StandIn) -> None:
    given = configuration()
    provider = make_provider(given)
    ec2.answers["DescribeInstances"] = f"""<reservationSet><item><instancesSet><item>
        <instanceId>i-0123456789abcdef0</instanceId><instanceState><name>terminated</name></instanceState>
        <stateReason><code>Client.VolumeLimitExceeded</code><message>too many volumes</message></stateReason>
        <tagSet><item><key>kernel-cluster</key><value>{given["cluster_name"]}</value></item>
        <item><key>kernel-kind</key><value>small</value></item></tagSet>
        </item></instancesSet></item></reservationSet>"""
    (node,) = provider.list()
    assert (node.kind, node.state, node.problem) == ("small", "failed", "too many volumes")
    provider.terminate([node.id])
    assert list(provider.list()) == []


NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)


def announced(ec2: Ec2StandIn, id: str) -> None:
    """Let EC2 announce the end of a spot machine, and maintenance of it in two hours."""
    ec2.answers["DescribeSpotInstanceRequests"] = f"""<spotInstanceRequestSet><item><instanceId>{id}</instanceId>
        <status><code>marked-for-termination</code><message>no capacity</message>
        <updateTime>2025-12-31T23:59:30.000Z</updateTime></status></item></spotInstanceRequestSet>"""
    ec2.answers["DescribeInstanceStatus"] = f"""<instanceStatusSet><item><instanceId>{id}</instanceId><eventsSet>
        <item><code>system-reboot</code><description>[Completed] it was</description>
        <notBefore>2026-01-01T00:00:05.000Z</notBefore></item>
        <item><code>instance-retirement</code><description>worn out</description>
        <notBefore>2026-01-01T02:00:00.000Z</notBefore></item></eventsSet></item></instanceStatusSet>"""


def test_announcements_are_told_once_with_the_time_that_is_left(ec2: Ec2StandIn) -> None:
    announced(ec2, "i-0123456789abcdef0")
    wall = [NOW.timestamp()]
    watch = InterruptionWatch(clients(""), True, lambda: wall[0])
    known = frozenset({"i-0123456789abcdef0"})
    assert watch.new(frozenset()) == watch.new(frozenset({"i-0123456789abcdef1"})) == []
    (told,) = watch.new(known)
    assert (told.id, told.seconds, told.reason) == ("i-0123456789abcdef0", 90.0, "no capacity")
    assert watch.new(known) == []
    wall[0] += 6000.0
    (told,) = InterruptionWatch(clients(""), False, lambda: wall[0]).new(known)
    assert (told.seconds, told.reason) == (1200.0, "instance-retirement: worn out")


def test_where_announcements_are_refused_machines_are_listed_all_the_same(ec2: Ec2StandIn) -> None:
    provider = make_provider(configuration())
    ids = list(provider.create("small", 1, {}))
    assert [node.id for node in provider.list()] == ids
    ec2.fail = lambda action, given: "UnauthorizedOperation" if action == "DescribeInstanceStatus" else ""
    assert list(provider.events()) == list(provider.events()) == [] and [node.id for node in provider.list()] == ids


def node(id: str, state: str = "running") -> ProvidedNode:
    """Return a machine."""
    return ProvidedNode(id, "small", state)


def test_what_was_done_counts_more_than_a_late_list() -> None:
    recent = RecentChanges()
    recent.made([node("a", "starting"), node("b", "starting")], 0.0)
    assert recent.applied([node("a")], [], 1.0) == [node("a"), node("b", "starting")]
    assert recent.applied([], [], 2.0) == [node("b", "starting")], "what was listed once is in lists from then on"
    recent.ended(["a"], 3.0)
    assert recent.applied([node("a"), node("b")], [], 4.0) == [node("a", "stopping"), node("b")]
    assert recent.applied([node("a")], [], 3.0 + LAG_SECONDS) == [node("a")], "the call had no effect"
    recent.made([node("c", "starting"), node("d", "starting")], 100.0)
    assert recent.applied([], ["c"], 101.0) == [node("d", "starting")]
    assert recent.applied([], [], 100.0 + LAG_SECONDS) == []
    recent.ended(["e"], 200.0)
    recent.made([node("e", "starting")], 201.0)
    assert recent.applied([node("e")], [], 202.0) == [node("e")], "it was started again"


def test_a_key_pair_is_made_once_and_only_its_owner_reads_it(ec2: Ec2StandIn, tmp_path: Path) -> None:
    file = tmp_path / "keys" / "key.pem"
    given = configuration(key_file=str(file))
    for _ in range(2):
        make_provider(given).create("small", 1, {})
        assert ec2.asked[-1]["KeyName"] == f"kernel-{given['cluster_name']}"
    assert "PRIVATE KEY" in file.read_text() and stat.S_IMODE(file.stat().st_mode) == 0o600
    file.rename(tmp_path / "moved")
    with pytest.raises(NodeProviderError, match="is there, but .*key.pem is not there: delete the key pair") as caught:
        make_provider(given).create("small", 1, {})
    assert caught.value.code == INVALID
    other = configuration(key_file=str(tmp_path / "moved"))
    with pytest.raises(NodeProviderError, match="is not there, but .*moved is: move the file, or give KeyName"):
        make_provider(other).create("small", 1, {})


def test_without_credentials_it_is_said_what_to_do(ec2: Ec2StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    provider = replace_clients(make_provider(configuration()), Clients("us-west-2", None))
    with pytest.raises(
        NodeProviderError, match="can't list the machines .* give the head an instance profile"
    ) as caught:
        provider.list()
    assert caught.value.code == CREDENTIALS


def replace_clients(provider: Any, other: Clients) -> Any:
    """Return a provider with the same settings and other clients."""
    return type(provider)(replace(provider._settings), other, lambda: 0.0, lambda: 0.0)
