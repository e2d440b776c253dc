"""Who asked for an object of another node, and what becomes of that when it ends."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kernel.node.object_exchange import ObjectExchange
from kernel.runtime import operations as op
from kernel_spec import store as contract
from kernel_spec.errors import ObjectLostError, SpillError
from kernel_spec.ids import ObjectId, ProcessId

READER, OTHER, OWNER = ProcessId(b"reader"), ProcessId(b"other"), ProcessId(b"owner")
OBJECT = ObjectId(b"object")


class Store:
    """Has nothing, and says so when it is told to."""

    def __init__(self):
        self.answer, self.looking, self.handled = None, [], []

    def serve_locally(self, client, answer):
        self.answer = answer

    def handle(self, event):
        self.handled.append(event)
        if event.client not in (READER, OTHER):
            self.looking.append(event.request)

    def explain(self, object):
        return "the store is asked"

    def say_lost(self, cause=None):
        error = ObjectLostError("not here")
        error.__cause__ = cause
        self.answer(self.looking.pop(0), None, error)


class Ticket:
    def __init__(self, then, keep):
        self.then, self.keep = then, keep
        self.cancelled = False

    def cancel(self):
        self.then, self.cancelled = None, True


class Transfer:
    def __init__(self):
        self.tickets, self.left = [], []

    def pull(self, object, size, owner, sources, then, urgent=True, keep=False):
        self.tickets.append(Ticket(then, keep))
        return self.tickets[-1]

    def owner_left(self, process):
        self.left.append(process)

    def explain(self, object):
        return "on its way" if self.tickets else ""


@pytest.fixture
def exchange(monkeypatch):
    here = {READER, OTHER}
    transfer, sent = Transfer(), []
    monkeypatch.setattr("kernel.node.object_exchange.TransferService", lambda *arguments: transfer)
    store = Store()
    neighbours = SimpleNamespace(delete=None)
    made = ObjectExchange(
        "10.0.0.1:1", b"", None, None, store, neighbours, lambda p, m: sent.append((p, m)), here.__contains__
    )
    return SimpleNamespace(exchange=made, store=store, transfer=transfer, sent=sent, here=here)


def ask(world, process, request=1):
    connection = SimpleNamespace(info=SimpleNamespace(id=process))
    message = (op.STORE_FETCH, request, OBJECT, 100, ["10.0.0.2:1"], OWNER, "")
    world.exchange.handlers[op.STORE_FETCH](connection, message)


def test_what_a_process_waits_for_is_not_fetched_once_it_has_ended(exchange):
    ask(exchange, READER)
    ask(exchange, OTHER)
    assert exchange.exchange.explain(OBJECT) == "the store is asked"
    exchange.store.say_lost()
    exchange.store.say_lost()
    first, second = exchange.transfer.tickets
    assert exchange.exchange.explain(OBJECT) == "on its way"
    exchange.exchange.process_left(READER)
    assert first.cancelled and not second.cancelled
    assert exchange.transfer.left == [READER]
    second.then(None)
    assert exchange.store.handled[-1] == contract.Pin(OTHER, 1, OBJECT)
    exchange.exchange.process_left(OTHER)
    assert not second.cancelled


def test_what_takes_the_place_of_a_spilled_copy_that_is_lost_is_not_dropped(exchange):
    """The others may be copies that are: dropped with this one, the object would be lost."""
    ask(exchange, READER)
    ask(exchange, OTHER)
    exchange.store.say_lost()
    exchange.store.say_lost(cause=SpillError("its file is gone"))
    assert [ticket.keep for ticket in exchange.transfer.tickets] == [False, True]


def test_nothing_is_fetched_for_a_process_that_ended_while_the_store_looked(exchange):
    ask(exchange, READER)
    exchange.here.remove(READER)
    exchange.exchange.process_left(READER)
    exchange.store.say_lost()
    assert exchange.transfer.tickets == [] and exchange.sent == []
