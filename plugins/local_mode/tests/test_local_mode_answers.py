"""What the in-process engine answers about its session, part by part."""

from __future__ import annotations

import hashlib
import io
import pickle
import threading
import zipfile
from pathlib import Path

import pytest
from kernel_local_mode.answers.facts import SessionFacts
from kernel_local_mode.answers.node import NodeAnswers
from kernel_local_mode.answers.storage import EnvironmentAnswers, KeyValueAnswers
from kernel_local_mode.answers.table import LocalAnswers
from kernel_local_mode.environment import LocalEnvironments
from kernel_local_mode.resources import LocalResources

from kernel_spec.errors import OptionError, ProtocolError, RuntimeEnvError
from kernel_spec.ids import JobId, NodeId, ProcessId

NODE = NodeId(b"n" * 8)
FACTS = SessionFacts(JobId(b"j" * 8), NODE, ProcessId(b"p" * 8), "space", {"zone": "a"}, "/session", 1.0)


@pytest.fixture
def node() -> NodeAnswers:
    return NodeAnswers(FACTS, threading.RLock(), LocalResources({"CPU": 2}, lambda function: function(), NODE))


def test_a_question_goes_to_the_part_that_answers_it() -> None:
    answers = LocalAnswers(KeyValueAnswers(), EnvironmentAnswers(LocalEnvironments("/session")))
    assert answers.ask("kv_put", "space", b"key", b"value", True) is True
    assert answers.ask("kv_get", "space", b"key") == b"value"
    assert answers.ask("own_environment") == {}


@pytest.mark.parametrize("method", ["nonsense", "_values", "__init__"])
def test_what_is_no_question_is_refused(method: str) -> None:
    with pytest.raises(ProtocolError, match=f"^local mode does not answer '{method}'$"):
        LocalAnswers(KeyValueAnswers()).ask(method)


def test_values_are_apart_by_namespace_and_kept_unless_they_may_be_overwritten() -> None:
    values = KeyValueAnswers()
    assert values.kv_put("one", b"key", b"1", False) and values.kv_put("two", b"key", b"2", False)
    assert not values.kv_put("one", b"key", b"3", False)
    assert values.kv_get("one", b"key") == b"1"
    assert values.kv_put("one", b"kez", b"3", True) and values.kv_put("one", b"other", b"4", True)
    assert values.kv_keys("one", b"ke") == [b"key", b"kez"]
    assert values.kv_delete("one", b"key") and not values.kv_delete("one", b"key")


def test_a_package_is_unpacked_when_its_last_piece_is_there(tmp_path: Path) -> None:
    environments = EnvironmentAnswers(LocalEnvironments(str(tmp_path)))
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as package:
        package.writestr("module.py", "X = 1")
    archive = data.getvalue()
    digest = hashlib.blake2b(archive, digest_size=16).hexdigest()
    environments.add_package(digest, 0, len(archive), archive[:10])
    assert not environments.has_package(digest)
    environments.add_package(digest, 10, len(archive), archive[10:])
    assert environments.has_package(digest)
    with pytest.raises(RuntimeEnvError, match="^package 00 is damaged; call init"):
        environments.add_package("00", 0, 4, b"junk")


def test_the_programs_environment_is_what_calls_are_made_in(tmp_path: Path) -> None:
    environments = LocalEnvironments(str(tmp_path))
    answers = EnvironmentAnswers(environments)
    assert environments.for_call(None) is None
    answers.add_environment(pickle.dumps({"env_vars": {"A": "1"}}))
    assert answers.own_environment() == {"env_vars": {"A": "1"}}
    inner = environments.for_call({"env_vars": {"B": "2"}})
    assert inner is not None and inner["env_vars"] == {"A": "1", "B": "2"}


def test_the_row_of_the_node(node: NodeAnswers) -> None:
    [row] = node.nodes()
    assert (row["NodeID"], row["Labels"], row["Resources"]["CPU"]) == (NODE.hex(), {"zone": "a"}, 2.0)


def test_custom_resources_can_be_set(node: NodeAnswers) -> None:
    node.set_resource("seats", 3)
    assert node.cluster_resources()["seats"] == node.available_resources()["seats"] == 3.0
    node.set_resource("seats", 0, NODE.hex())
    assert "seats" not in node.cluster_resources()


def test_a_resource_that_is_all_taken_is_shown_as_zero() -> None:
    resources = LocalResources({"CPU": 1}, lambda function: function(), NODE)
    assert resources.pool.acquire({"CPU": 10_000}) is not None
    assert NodeAnswers(FACTS, threading.RLock(), resources).available_resources()["CPU"] == 0.0


def test_what_can_not_be_set_or_drained_is_refused(node: NodeAnswers) -> None:
    with pytest.raises(OptionError, match="^the capacity of resource 'seats' must be zero or more, not -1$"):
        node.set_resource("seats", -1)
    with pytest.raises(OptionError, match="^CPU is fixed when the node starts; only custom resources"):
        node.set_resource("CPU", 3)
    with pytest.raises(OptionError, match="^there is no living node 'ff'; the living nodes are 6e6e"):
        node.set_resource("seats", 3, "ff")
    with pytest.raises(OptionError, match=r"is this process \(local mode\), the only node; shutdown\(\) ends it$"):
        node.drain_node(NODE.hex(), None)
    node.cancel_drain(NODE.hex())
    with pytest.raises(OptionError, match="can't be asked for: "):
        node.request_resources([{"CPU": -1.0}])
    node.request_resources([{"CPU": 100.0}])
    assert node.wait_for_demand(-1, 60.0) == 0 == node.wait_for_demand(0, 0.0)
    (row,) = node.demand().pop("nodes")
    assert (row["node_id"], row["is_head"], row["idle_seconds"]) == (NODE.hex(), True, None)
