"""Who asked for an object of another node, and what becomes of that when it ends."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import pytest

from kernel_engine.messages import process_messages as op
from kernel_processes.node.object_exchange import ObjectExchange
from kernel_spec import store as contract
from kernel_spec.errors import ObjectLostError, OwnerDiedError, SpillError
from kernel_spec.ids import ObjectId, ProcessId

READER, OTHER, OWNER = ProcessId(b"reader"), ProcessId(b"other"), ProcessId(b"owner")
OBJECT = ObjectId(b"object")


class Store:
    """Has nothing, and says so when it is told to."""

    def __init__(self):
        self.answer, self.looking, self.handled, self.kept = None, [], [], []

    def serve_locally(self, client, answer):
        self.answer = answer

    def handle(self, event):
        self.handled.append(event)
        if isinstance(event, contract.Pin) and event.client not in (READER, OTHER):
            self.looking.append(event.request)

    def keep(self, object):
        self.kept.append(object)

    def say_found(self):
        self.answer(self.looking.pop(0), ("segment", 0), None)

    def explain(self, object):
        return "the store is asked"

    def say_lost(self, cause=None):
        error = ObjectLostError("not here")
        error.__cause__ = cause
        self.answer(self.looking.pop(0), None, error)


class Ticket:
    def __init__(self, then, keep, asked=()):
        self.then, self.keep, self.asked = then, keep, asked
        self.cancelled = False

    @property
    def waits(self):
        return self.then is not None

    def cancel(self):
        self.then, self.cancelled = None, True


class Links:
    """To other nodes: writes down what it is asked for."""

    def __init__(self):
        self.tickets, self.left, self.far = [], [], []

    def close(self):
        self.far.append(("close",))

    def pull(self, object, size, owner, places, then, urgent=True, keep=False):
        self.tickets.append(Ticket(then, keep, (object, size, owner, places, urgent)))
        return self.tickets[-1]

    def delete(self, *arguments):
        self.far.append(("delete", *arguments))

    def keep(self, *arguments):
        self.far.append(("keep", *arguments))

    def forward(self, *arguments):
        self.far.append(("forward", *arguments))

    def node_left(self, place):
        self.far.append(("node_left", place))

    def flush(self):
        self.far.append(("flush",))

    def owner_left(self, process):
        self.left.append(process)

    def explain(self, object):
        return "on its way" if self.tickets else ""


@pytest.fixture
def exchange():
    here = {READER, OTHER}
    links, sent, store = Links(), [], Store()
    made = ObjectExchange("10.0.0.1:1", store, links, lambda p, m: sent.append((p, m)), here.__contains__)
    return SimpleNamespace(exchange=made, store=store, links=links, sent=sent, here=here, far=links.far)


def ask(world, process, request=1, places=("10.0.0.2:1",), address=""):
    connection = SimpleNamespace(info=SimpleNamespace(id=process))
    message = (op.STORE_FETCH, request, OBJECT, 100, list(places), OWNER, address)
    world.exchange.handlers[op.STORE_FETCH](connection, message)


def test_what_a_process_waits_for_is_not_fetched_once_it_has_ended(exchange):
    ask(exchange, READER)
    ask(exchange, OTHER)
    assert exchange.exchange.explain(OBJECT) == "the store is asked"
    exchange.store.say_lost()
    exchange.store.say_lost()
    first, second = exchange.links.tickets
    assert exchange.exchange.explain(OBJECT) == "on its way"
    exchange.exchange.process_left(READER)
    assert first.cancelled and not second.cancelled
    assert exchange.links.left == [READER]
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
    assert [ticket.keep for ticket in exchange.links.tickets] == [False, True]


def test_nothing_is_fetched_for_a_process_that_ended_while_the_store_looked(exchange):
    ask(exchange, READER)
    exchange.here.remove(READER)
    exchange.exchange.process_left(READER)
    exchange.store.say_lost()
    assert exchange.links.tickets == [] and exchange.sent == []


NEAR, FAR = "10.0.0.2:1", "10.0.0.1:1~0123456789abcdef"


def failure(world):
    """Return what a process was told that asked: who, its request, the error."""
    ((process, (operation, request, error)),) = world.sent
    assert operation == op.REPLY_ERROR
    return process, request, pickle.loads(error)


def test_what_lies_here_is_pinned_for_who_asks_and_not_fetched(exchange):
    ask(exchange, READER, request=7)
    exchange.store.say_found()
    looked, pinned, unpinned = exchange.store.handled
    assert pinned == contract.Pin(READER, 7, OBJECT)
    assert unpinned == contract.Unpin(looked.client, OBJECT) and looked.client != READER
    assert exchange.links.tickets == [] and exchange.sent == [] and exchange.far == []


def test_who_ended_while_the_store_looked_has_nothing_pinned(exchange):
    ask(exchange, READER)
    exchange.here.remove(READER)
    exchange.store.say_found()
    assert [type(event) for event in exchange.store.handled] == [contract.Pin, contract.Unpin]
    assert exchange.store.handled[0].client != READER


def test_what_was_fetched_is_pinned_and_its_owner_told(exchange):
    ask(exchange, READER, request=7, address="tcp://10.0.0.9:1/owner")
    exchange.store.say_lost()
    (ticket,) = exchange.links.tickets
    assert ticket.asked == (OBJECT, 100, OWNER, [NEAR], True)
    ticket.then(None)
    assert exchange.store.handled[-1] == contract.Pin(READER, 7, OBJECT)
    assert exchange.far == [("forward", "10.0.0.9:1", OWNER, (op.COPIED, OBJECT, "10.0.0.1:1"))]
    exchange.exchange.process_left(READER)
    assert not ticket.cancelled, "it is over"


def test_an_owner_on_this_node_is_told_directly_and_one_that_nobody_knows_not_at_all(exchange):
    ask(exchange, READER)
    exchange.store.say_lost()
    exchange.links.tickets[0].then(None)
    assert exchange.far == [] and exchange.sent == []
    exchange.here.add(OWNER)
    ask(exchange, READER, address="tcp://10.0.0.9:1/owner")
    exchange.store.say_lost()
    exchange.links.tickets[1].then(None)
    assert exchange.sent == [(OWNER, (op.COPIED, OBJECT, "10.0.0.1:1"))] and exchange.far == []


def test_what_no_node_has_is_fetched_from_where_no_node_is(exchange):
    ask(exchange, READER, request=7, places=(FAR, NEAR))
    exchange.store.say_lost()
    near = exchange.links.tickets[0]
    near.then(ObjectLostError("gone"))
    far = exchange.links.tickets[1]
    assert (near.asked[3], far.asked[3]) == ([NEAR], [FAR])
    far.then(ObjectLostError("gone there, too"))
    process, request, error = failure(exchange)
    assert (process, request, type(error), str(error)) == (READER, 7, ObjectLostError, "gone there, too")
    assert len(exchange.links.tickets) == 2


@pytest.mark.parametrize("error", [OwnerDiedError("its owner is gone"), SpillError("the disk is full")])
def test_an_error_that_another_place_would_not_mend_is_told_at_once(exchange, error):
    ask(exchange, READER, places=(FAR, NEAR))
    exchange.store.say_lost()
    exchange.links.tickets[0].then(error)
    assert str(failure(exchange)[2]) == str(error) and len(exchange.links.tickets) == 1


@pytest.mark.parametrize("places", [(), ("10.0.0.1:1",)])
def test_what_is_nowhere_else_is_lost(exchange, places):
    ask(exchange, READER, request=7, places=places)
    exchange.store.say_lost()
    assert failure(exchange)[:2] == (READER, 7) and exchange.links.tickets == []


def test_what_the_store_can_t_bring_back_is_told_though_it_lies_elsewhere(exchange):
    ask(exchange, READER)
    exchange.store.answer(exchange.store.looking.pop(), None, SpillError("the disk is broken"))
    assert str(failure(exchange)[2]) == "the disk is broken" and exchange.links.tickets == []


def test_with_a_process_all_its_requests_are_over(exchange):
    for request in (1, 2):
        ask(exchange, READER, request=request)
        exchange.store.say_lost()
    exchange.exchange.process_left(READER)
    assert [ticket.cancelled for ticket in exchange.links.tickets] == [True, True]


def test_deleting_and_keeping_reach_the_node_where_a_copy_is(exchange):
    handlers = exchange.exchange.handlers
    handlers[op.STORE_DELETE_AT](None, (op.STORE_DELETE_AT, NEAR, [OBJECT]))
    handlers[op.STORE_KEEP_AT](None, (op.STORE_KEEP_AT, NEAR, OBJECT))
    assert exchange.far == [("delete", NEAR, [OBJECT]), ("keep", NEAR, OBJECT)] and exchange.store.kept == []
    handlers[op.STORE_KEEP_AT](None, (op.STORE_KEEP_AT, "10.0.0.1:1", OBJECT))
    assert exchange.store.kept == [OBJECT] and len(exchange.far) == 2


def test_at_the_end_all_that_is_on_its_way_is_broken_off(exchange):
    exchange.exchange.close()
    assert exchange.far == [("close",)]


def test_what_is_queued_goes_out_and_nothing_to_a_node_that_is_gone(exchange):
    exchange.exchange.flush()
    exchange.exchange.node_left(NEAR)
    assert exchange.far == [("flush",), ("node_left", NEAR)]


# -- copying from a node that goes -----------------------------------------------------------------------------------

SECOND = ObjectId(b"second")
ROWS = [(OBJECT, 100, OWNER, "tcp://10.0.0.9:1/owner"), (SECOND, 50, OWNER, "tcp://10.0.0.9:1/owner")]


def test_objects_of_a_node_that_goes_are_copied_and_kept(exchange):
    came = []
    exchange.exchange.copy(ROWS, NEAR, came.append)
    exchange.store.say_lost()
    exchange.store.say_found()
    assert came == [] and exchange.store.kept == [SECOND]
    assert exchange.store.handled[-1] == contract.Unpin(exchange.store.handled[0].client, SECOND)
    (ticket,) = exchange.links.tickets
    assert ticket.asked == (OBJECT, 100, OWNER, [NEAR], False) and ticket.keep
    ticket.then(None)
    assert came == [2]
    told = [("forward", "10.0.0.9:1", OWNER, (op.COPIED, object, "10.0.0.1:1")) for object in (SECOND, OBJECT)]
    assert exchange.far == told


def test_what_does_not_come_is_not_counted_and_its_owner_hears_nothing(exchange):
    came = []
    exchange.exchange.copy(ROWS, NEAR, came.append)
    exchange.store.say_lost()
    exchange.store.answer(exchange.store.looking.pop(), None, SpillError("the disk is broken"))
    exchange.links.tickets[0].then(ObjectLostError("it is gone"))
    assert came == [0] and exchange.far == [] and exchange.store.kept == []


def test_a_node_that_has_nothing_is_copied_at_once(exchange):
    came = []
    exchange.exchange.copy([], NEAR, came.append)
    assert came == [0]
