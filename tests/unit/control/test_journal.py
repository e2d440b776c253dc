"""What a head writes down, and what becomes of it while that can't be done."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from kernel.control.journal import Journal
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

    def delete(self, table: str, key: bytes) -> bool:
        if self.error is not None:
            raise self.error
        return self.held.pop((table, key), None) is not None

    def scan(self, table: str) -> list[tuple[bytes, bytes]]:
        return [(key, value) for (other, key), value in self.held.items() if other == table]


FULL = MetadataError("no room left for the metadata file")
ONE, TWO = NodeId(b"one"), NodeId(b"two")


def test_what_could_not_be_written_is_written_when_that_is_possible_again() -> None:
    store = Store()
    journal = Journal(store)  # type: ignore[arg-type]
    journal.node(ONE)
    store.error = FULL
    with capture_logs() as logs:
        journal.node(ONE, "it died")
        journal.node(TWO)
        journal.forget_actor(b"a")
        journal.node(TWO, "it died, too")
        journal.catch_up()
        assert journal.nodes() == {ONE: ""} and journal.behind == 3
        store.error = None
        journal.catch_up()
    assert journal.nodes() == {ONE: "it died", TWO: "it died, too"}
    assert journal.behind == 0
    assert [line["event"] for line in logs] == [
        "the head can't write down what it must not forget, and goes on",
        "what the head must not forget is written down again",
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
