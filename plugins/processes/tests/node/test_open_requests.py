"""What a head that is started again must hear of what processes still wait for."""

from __future__ import annotations

from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import Message, packed
from kernel_processes.node.open_requests import OpenRequests
from kernel_processes.protocol import head_messages
from kernel_spec.ids import ProcessId

ONE, TWO = ProcessId(b"one"), ProcessId(b"two")


def watching() -> OpenRequests:
    requests = OpenRequests()
    requests.watch = True
    return requests


def test_what_has_no_answer_is_told_again_in_the_order_of_asking() -> None:
    requests = watching()
    first, second, third = (
        (op.REQUEST_LEASE, b"a", "shape"),
        (op.CALL, 7, "kv_get", ()),
        packed(op.SubscribeActor(actor=b"x")),
    )
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
    requests.asked(ONE, packed(op.SubscribeActor(actor=b"x")))
    requests.answered(ONE, (op.LEASE_GRANTED, b"granted", b"worker", "", {}, {}))
    requests.answered(ONE, packed(op.LeaseFailed(lease=b"failed", error=b"why")))
    requests.asked(ONE, (op.CANCEL_LEASE, b"withdrawn"))
    requests.answered(ONE, (op.REPLY_PICKLED, 1, b"rows"))
    requests.answered(ONE, (op.REPLY_ERROR, 2, b"error"))
    requests.answered(
        ONE,
        packed(
            op.ActorState(
                actor=b"x",
                state="ALIVE",
                worker=b"worker",
                address="",
                attempt=0,
                cause="",
                failure=None,
                crashed=False,
            )
        ),
    )
    assert list(requests.messages()) == [(ONE, packed(op.SubscribeActor(actor=b"x")))], "an actor's news go on"
    requests.answered(
        ONE,
        packed(
            op.ActorState(
                actor=b"x", state="DEAD", worker=b"", address="", attempt=0, cause="killed", failure=None, crashed=False
            )
        ),
    )
    assert list(requests.messages()) == []


def test_who_creates_an_actor_hears_of_it_as_if_it_had_asked() -> None:
    requests = watching()
    requests.asked(ONE, packed(op.CreateActor(actor=b"plain", description=b"description")))
    requests.asked(ONE, (op.CALL, 1, "create_named_actor", (b"named", b"description")))
    requests.answered(ONE, (op.REPLY, 1, None))
    assert list(requests.messages()) == [
        (ONE, packed(op.SubscribeActor(actor=b"plain"))),
        (ONE, packed(op.SubscribeActor(actor=b"named"))),
    ]


def test_a_process_that_has_ended_waits_for_nothing() -> None:
    requests = watching()
    requests.asked(ONE, (op.CALL, 1, "nodes", ()))
    requests.forget(ONE)
    assert list(requests.messages()) == []


def test_nothing_is_kept_where_no_head_can_follow() -> None:
    requests = OpenRequests()
    requests.asked(ONE, (op.CALL, 1, "nodes", ()))
    assert list(requests.messages()) == []


# -- what another head must hear ---------------------------------------------------------------------------------------


def relayed(requests: OpenRequests, *messages: Message) -> list[Message]:
    """Have a process say something; return it as it goes to the head."""
    for message in messages:
        requests.asked(ONE, message)
    return [(head_messages.FROM_PROCESS, ONE, message) for message in messages]


def test_what_was_answered_is_not_done_a_second_time() -> None:
    requests = watching()
    call, wish = (op.CALL, 1, "kv_put", (b"k", b"1")), (op.REQUEST_LEASE, b"a", "shape")
    made = packed(op.CreateActor(actor=b"x", description=b"description"))
    unacknowledged = relayed(requests, call, made, wish)
    requests.answered(ONE, (op.REPLY, 1, True))
    requests.answered(ONE, (op.LEASE_GRANTED, b"a", b"worker", "", {}, {}))
    told = list(requests.to_resend(unacknowledged))
    assert told == [
        (head_messages.FROM_PROCESS, ONE, packed(op.SubscribeActor(actor=b"x"))),
        (head_messages.FROM_PROCESS, ONE, made),
    ]


def test_what_is_open_is_told_once_and_in_its_place() -> None:
    requests = watching()
    relayed(requests, old := (op.CALL, 1, "nodes", ()))
    unacknowledged = relayed(requests, packed(op.ForgetActor(actor=b"x")), (op.CALL, 2, "kill_actor", (b"x",)))
    assert list(requests.to_resend(unacknowledged)) == [(head_messages.FROM_PROCESS, ONE, old), *unacknowledged]


def test_what_an_earlier_head_was_told_of_the_node_is_told_as_it_is_now() -> None:
    outdated = [
        packed(head_messages.DescribeNode(description=b"")), packed(head_messages.StillDraining(seconds=None)),
        packed(head_messages.GrantedBefore(held=b"", worker=b"", blocked=False)),
        (head_messages.WORKER_FOUND, b"a", 1, b"w"), (head_messages.LEASE_BLOCKED, b"a", True),
        packed(head_messages.AskAnswered(number=1, value=None)), packed(head_messages.AllTold()),
    ]  # fmt: skip
    kept = packed(head_messages.WorkerDied(worker=b"w", pid=1, cause="killed", fault=op.DIED))
    assert list(watching().to_resend([*outdated, kept])) == [kept]


def test_a_worker_that_was_given_up_stays_open_until_its_end_is_told() -> None:
    requests = watching()
    requests.asked(ONE, (op.RETURN_LEASE, b"a", False, b"idle"))
    requests.asked(ONE, broken := (op.RETURN_LEASE, b"b", True, b"dead"))
    assert list(requests.messages()) == [(ONE, broken)]
    requests.answered(ONE, packed(op.LeasedWorkerDied(worker=b"dead", cause="signal 9", fault=op.DIED)))
    assert list(requests.messages()) == []
