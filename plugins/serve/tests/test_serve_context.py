"""The context that user code can ask for."""

from __future__ import annotations

import pickle
import threading
from contextvars import copy_context

import pytest
from kernel_serve import context
from kernel_serve.context import ReplicaContext, RequestContext
from kernel_serve.errors import NotServingError


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "_replica_of_process", None)


def test_a_replica_can_travel_and_stays_the_same() -> None:
    replica = context.ReplicaContext("app", "Model", "app#Model#1", None, context.ReplicaRank(2), 3)
    assert pickle.loads(pickle.dumps(replica)) == replica != context.ReplicaContext("app", "Model", "app#Model#1")


def test_a_request_that_runs_sees_what_the_replica_has_become_meanwhile() -> None:
    def seen() -> list[int]:
        ranks = []
        for rank in (2, 0):
            context.enter_replica(ReplicaContext("app", "Model", "r1", None, context.ReplicaRank(rank), 3))
            ranks.append(here.run(lambda: context.get_replica_context().rank))
        return ranks

    here = copy_context()
    assert copy_context().run(seen) == [2, 0]


def test_outside_of_a_replica_there_is_none_and_the_error_says_where_there_is() -> None:
    with pytest.raises(NotServingError, match="get_replica_context\\(\\) was called outside of a replica: call it in"):
        context.get_replica_context()
    assert context.get_multiplexed_model_id() == "" == context.current_request().request_id


def test_inside_it_is_seen_everywhere_also_in_threads_of_the_user() -> None:
    replica = ReplicaContext("app", "Model", "r1", servable_object=[1])
    copy_context().run(context.enter_replica, replica)
    seen: list[ReplicaContext] = []
    thread = threading.Thread(target=lambda: seen.append(context.get_replica_context()))
    thread.start()
    thread.join()
    assert seen == [replica] and replica.replica_tag == "r1"


def test_a_request_is_seen_in_its_context_only_and_gives_back_what_it_was_lent_once() -> None:
    returned: list[str] = []

    def serve() -> None:
        request = RequestContext("id", "/", "app", "Model", "m1", at_end=[lambda: returned.append("model")])
        token = context.enter_request(request)
        assert context.get_multiplexed_model_id() == "m1"
        context.end_request(request)
        context.end_request(request)
        context.leave_request(token)
        assert context.get_multiplexed_model_id() == ""

    copy_context().run(serve)
    assert returned == ["model"]


def test_the_size_of_the_batch_is_an_attribute_of_the_module() -> None:
    def serve() -> None:
        context.enter_batch((RequestContext("a"), RequestContext("b")))
        assert context.batch_size == 2

    copy_context().run(serve)
    assert context.batch_size == 1
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        context.nothing  # noqa: B018
