"""What a head that is started again must hear of what processes still wait for."""

from __future__ import annotations

from kernel.node.open_requests import OpenRequests
from kernel.runtime import operations as op
from kernel_spec.ids import ProcessId

ONE, TWO = ProcessId(b"one"), ProcessId(b"two")


def watching() -> OpenRequests:
    requests = OpenRequests()
    requests.watch = True
    return requests


def test_what_has_no_answer_is_told_again_in_the_order_of_asking() -> None:
    requests = watching()
    first, second, third = (op.REQUEST_LEASE, b"a", "shape"), (op.CALL, 7, "kv_get", ()), (op.SUBSCRIBE_ACTOR, b"x")
    for message in (first, second, third):
        requests.asked(ONE, message)
    requests.asked(TWO, first)
    assert list(requests.messages()) == [(ONE, first), (ONE, second), (ONE, third), (TWO, first)]


def test_what_was_answered_or_withdrawn_is_not_told_again() -> None:
    requests = watching()
    requests.asked(ONE, (op.REQUEST_LEASE, b"granted", "shape"))
    requests.asked(ONE, (op.REQUEST_LEASE, b"failed", "shape"))
    requests.asked(ONE, (op.REQUEST_LEASE, b"withdrawn", "shape"))
    requests.asked(ONE, (op.CALL, 1, "nodes", ()))
    requests.asked(ONE, (op.CALL, 2, "nodes", ()))
    requests.asked(ONE, (op.SUBSCRIBE_ACTOR, b"x"))
    requests.answered(ONE, (op.LEASE_GRANTED, b"granted", b"worker", "", {}, {}))
    requests.answered(ONE, (op.LEASE_FAILED, b"failed", b"why"))
    requests.asked(ONE, (op.CANCEL_LEASE, b"withdrawn"))
    requests.answered(ONE, (op.REPLY_PICKLED, 1, b"rows"))
    requests.answered(ONE, (op.REPLY_ERROR, 2, b"error"))
    requests.answered(ONE, (op.ACTOR_STATE, b"x", "ALIVE", b"worker", "", 0, "", None))
    assert list(requests.messages()) == [(ONE, (op.SUBSCRIBE_ACTOR, b"x"))], "an actor's news go on"
    requests.answered(ONE, (op.ACTOR_STATE, b"x", "DEAD", b"", "", 0, "killed", None))
    assert list(requests.messages()) == []


def test_who_creates_an_actor_hears_of_it_as_if_it_had_asked() -> None:
    requests = watching()
    requests.asked(ONE, (op.CREATE_ACTOR, b"plain", b"description"))
    requests.asked(ONE, (op.CALL, 1, "create_named_actor", (b"named", b"description")))
    requests.answered(ONE, (op.REPLY, 1, None))
    assert list(requests.messages()) == [(ONE, (op.SUBSCRIBE_ACTOR, b"plain")), (ONE, (op.SUBSCRIBE_ACTOR, b"named"))]


def test_a_process_that_has_ended_waits_for_nothing() -> None:
    requests = watching()
    requests.asked(ONE, (op.CALL, 1, "nodes", ()))
    requests.forget(ONE)
    assert list(requests.messages()) == []


def test_nothing_is_kept_where_no_head_can_follow() -> None:
    requests = OpenRequests()
    requests.asked(ONE, (op.CALL, 1, "nodes", ()))
    assert list(requests.messages()) == []
