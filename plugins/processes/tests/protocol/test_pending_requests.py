"""Questions that wait for an answer: each is answered once, also when who was asked is gone."""

from __future__ import annotations

from typing import Any

from kernel_processes.protocol.pending_requests import PendingRequests


def test_each_answer_reaches_who_asked() -> None:
    questions: PendingRequests[str] = PendingRequests()
    received: list[Any] = []
    first = questions.begin("node", lambda answer: received.append(("first", answer)))
    second = questions.begin("node", lambda answer: received.append(("second", answer)))
    questions.answered(second, 2)
    questions.answered(first, 1)
    questions.answered(first, "again")
    assert received == [("second", 2), ("first", 1)]


def test_who_is_gone_answers_nothing_and_others_still_do() -> None:
    questions: PendingRequests[str] = PendingRequests()
    received: list[Any] = []
    lost = questions.begin("lost", lambda answer: received.append(answer))
    there = questions.begin("there", lambda answer: received.append(answer))
    questions.lost("lost")
    questions.answered(lost, "too late")
    questions.answered(there, "yes")
    assert received == [None, "yes"]


def test_an_answer_may_ask_again_or_settle_another_question() -> None:
    questions: PendingRequests[str] = PendingRequests()
    received: list[Any] = []
    numbers: list[int] = []

    def first(answer: Any) -> None:
        received.append(("first", answer))
        questions.answered(numbers[1], "from within")
        numbers.append(questions.begin("lost", lambda answer: received.append(("third", answer))))

    numbers.append(questions.begin("lost", first))
    numbers.append(questions.begin("lost", lambda answer: received.append(("second", answer))))
    questions.lost("lost")
    assert received == [("first", None), ("second", "from within")]
    questions.answered(numbers[2], 3)
    assert received[-1] == ("third", 3)
