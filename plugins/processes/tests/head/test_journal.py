"""What a head writes down, and what becomes of it while that can't be done."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from kernel_processes.head.journal import Journal
from kernel_spec.errors import HeadReplacedError, MetadataError
from kernel_spec.ids import NodeId


class Store:
    """Holds what it is given, unless `error` says that it can't."""

    durable = True

    def __init__(self) -> None:
        self.held: dict[tuple[str, bytes], bytes] = {}
        self.error: Exception | None = None

    def put(self, table: str, key: bytes, value: bytes) -> bool:
        if self.error is not None:
            raise self.error
        self.held[table, key] = value
        return True

    def get(self, table: str, key: bytes) -> bytes | None:
        return self.held.get((table, key))

    def delete(self, table: str, key: bytes) -> bool:
        if self.error is not None:
            raise self.error
        return self.held.pop((table, key), None) is not None

    def scan(self, table: str) -> list[tuple[bytes, bytes]]:
        return [(key, value) for (other, key), value in self.held.items() if other == table]


FULL = MetadataError("no room left for the metadata file")
ONE, TWO, THREE = NodeId(b"one"), NodeId(b"two"), NodeId(b"three")


def test_what_could_not_be_written_is_written_when_that_is_possible_again() -> None:
    store = Store()
    journal = Journal(store)  # type: ignore[arg-type]
    journal.node(ONE)
    store.error = FULL
    with capture_logs() as logs:
        journal.node(ONE, "it died")
        journal.node(TWO)
        journal.forget_job(b"a")
        journal.node(TWO, "it died, too")
        journal.catch_up()
        assert journal.nodes() == {ONE: ""} and journal.behind == 3
        store.error = None
        journal.catch_up()
    assert journal.nodes() == {ONE: "it died", TWO: "it died, too"}
    assert journal.behind == 0
    assert [line["event"] for line in logs] == [
        "the head can't write its metadata, and goes on without",
        "the head's metadata can be written again",
    ]
    assert "no room left" in logs[0]["reason"]


def test_what_is_new_waits_behind_what_is_late() -> None:
    store = Store()
    journal = Journal(store)  # type: ignore[arg-type]
    store.error = FULL
    journal.node(ONE)
    store.error = None
    journal.node(ONE, "it died")
    assert journal.nodes() == {}
    journal.catch_up()
    assert journal.nodes() == {ONE: "it died"}


def test_a_head_that_was_replaced_hears_so() -> None:
    store = Store()
    journal = Journal(store)  # type: ignore[arg-type]
    store.error = HeadReplacedError("another head has claimed it")
    with pytest.raises(HeadReplacedError):
        journal.node(ONE)
    store.error = FULL
    journal.node(ONE)
    store.error = HeadReplacedError("another head has claimed it")
    with pytest.raises(HeadReplacedError):
        journal.catch_up()


# -- what is written down, and read again ----------------------------------------------------------------------------


class Noted:
    """A record of which the journal needs the id alone."""

    def __init__(self, id: bytes, text: str) -> None:
        self.id, self.text = id, text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Noted) and (self.id, self.text) == (other.id, other.text)


def of_changes(write: Any) -> tuple[Any, Any]:
    """Return the functions that note and forget one record, made of the one that writes changes."""
    note = lambda journal, record: write(journal, {record.id}, {record.id: record})
    return note, lambda journal, id: write(journal, {id}, {})


KINDS = [
    (*of_changes(Journal.write_actors), Journal.actors),
    (*of_changes(Journal.write_groups), Journal.groups),
    (Journal.job, Journal.forget_job, Journal.jobs),
]


@pytest.mark.parametrize(("note", "forget", "read"), KINDS, ids=["actors", "groups", "jobs"])
def test_a_record_is_read_as_it_was_last_until_it_is_forgotten(note: Any, forget: Any, read: Any) -> None:
    store = Store()
    journal = Journal(store)  # type: ignore[arg-type]
    for record in (Noted(b"a", "new"), Noted(b"b", "new"), Noted(b"a", "changed")):
        note(journal, record)
    again = Journal(store)  # type: ignore[arg-type]
    assert sorted(read(again), key=lambda record: record.id) == [Noted(b"a", "changed"), Noted(b"b", "new")]
    assert sum(len(list(other(again))) for _, _, other in KINDS) == 2, "each kind has a table of its own"
    forget(journal, b"a")
    assert list(read(again)) == [Noted(b"b", "new")]


def test_of_many_changes_each_is_written_and_none_is_left() -> None:
    journal = Journal(Store())  # type: ignore[arg-type]
    records: Any = {id: Noted(id, "new") for id in (b"a", b"b", b"c")}
    journal.write_actors(changed := {b"a", b"b", b"d"}, records)  # type: ignore[arg-type]
    assert sorted(record.id for record in journal.actors()) == [b"a", b"b"] and changed == set()
    del records[b"a"]
    journal.write_actors({b"a", b"c"}, records)  # type: ignore[arg-type]
    assert sorted(record.id for record in journal.actors()) == [b"b", b"c"]


def test_environments_and_remote_drivers_are_read_again() -> None:
    journal = Journal(Store())  # type: ignore[arg-type]
    journal.environment("key", {"env_vars": {"A": "1"}})
    assert list(journal.environments()) == [{"env_vars": {"A": "1"}}]
    journal.client(ONE)
    journal.client(TWO, "it left")
    assert journal.clients() == {ONE: "", TWO: "it left"}
    journal.forget_client(TWO)
    assert journal.clients() == {ONE: ""} and journal.nodes() == {}


def test_the_addresses_of_nodes_are_those_that_they_had_last() -> None:
    journal = Journal(Store())  # type: ignore[arg-type]
    journal.address(ONE, "10.0.0.1:5")
    journal.address(ONE, "10.0.0.1:6")
    journal.address(TWO, "10.0.0.2:6")
    journal.address(THREE, "")
    assert journal.addresses_of([ONE, THREE]) == {"10.0.0.1:6"}
    assert journal.addresses_of([]) == set()


def test_the_node_beside_a_head_that_is_gone_has_ended_with_it() -> None:
    store = Store()
    first = Journal(store)  # type: ignore[arg-type]
    first.beside(ONE)
    first.node(ONE)
    first.node(THREE)
    Journal(store).beside(ONE)  # type: ignore[arg-type]
    assert first.nodes() == {ONE: "", THREE: ""}, "it is the same node"
    second = Journal(store)  # type: ignore[arg-type]
    second.beside(TWO)
    assert second.nodes() == {ONE: "it was beside a head that was killed with it", THREE: ""}
    second.beside(THREE)
    assert second.nodes() == {ONE: "it was beside a head that was killed with it", THREE: ""}, "two never joined"


def test_a_node_that_left_keeps_its_cause_when_its_head_is_gone() -> None:
    store = Store()
    first = Journal(store)  # type: ignore[arg-type]
    first.beside(ONE)
    first.node(ONE, "it was drained")
    Journal(store).beside(TWO)  # type: ignore[arg-type]
    assert first.nodes() == {ONE: "it was drained"}


def test_what_is_late_is_written_once_and_in_the_order_of_its_last_change() -> None:
    store = Store()
    journal = Journal(store)  # type: ignore[arg-type]
    store.error = FULL
    with capture_logs():
        for id in (ONE, TWO, ONE):
            journal.node(id, "late")
    assert journal.behind == 2
    store.error = None
    journal.catch_up()
    assert list(journal.nodes()) == [TWO, ONE]


def test_to_a_store_that_does_not_last_nothing_is_written() -> None:
    store = Store()
    store.durable = False
    journal = Journal(store)  # type: ignore[arg-type]
    journal.beside(ONE)
    journal.node(ONE)
    journal.job(Noted(b"a", "new"))  # type: ignore[arg-type]
    journal.forget_job(b"a")
    journal.write_actors(changed := {b"a", b"b"}, {b"a": Noted(b"a", "new")})  # type: ignore[arg-type,dict-item]
    assert changed == set()
    assert store.held == {} and journal.durable is False
