"""With `deterministic` nothing depends on which answer comes first, also when the experiment is interrupted."""

from __future__ import annotations

import queue
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kernel_tune.execution.answer_order import AnswerOrder
from kernel_tune.execution.processes import Arrival, Processes
from kernel_tune.storage import event_log
from kernel_tune.storage.experiment_files import LOG_FILE
from kernel_tune.trainable.orders import Answer

from kernel import tune
from kernel.tune import schedulers

pytestmark = pytest.mark.usefixtures("session")
SECONDS = 60.0
"""How long an answer may take: the machine may be busy."""
LENGTH = 6


class Walk(tune.Trainable):
    def setup(self, config: dict[str, Any]) -> None:
        self.place = 0.0

    def step(self) -> dict[str, Any]:
        self.place += self.config["x"] / (1 + self.iteration)
        return {"score": self.place}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"place": self.place}

    def load_checkpoint(self, checkpoint: Any) -> None:
        self.place = checkpoint["place"]


class OneByOne(queue.Queue[Arrival]):
    """Gives an answer when those to all questions have come, so that it can say which of them is first."""

    asked = given = 0
    is_interrupted = False

    def __init__(self, change: Callable[[list[Arrival]], list[Arrival]]) -> None:
        super().__init__()
        self._change = change
        """What the answers that are there after the interrupt become."""
        self._there: list[Arrival] = []

    def get(self, block: bool = True, timeout: float | None = None) -> Arrival:
        if not block or self.asked == self.given:
            raise queue.Empty
        while len(self._there) < self.asked - self.given:
            self._there.append(super().get(timeout=SECONDS))
        self._there.sort(key=lambda arrival: arrival[1])
        if self.is_interrupted:
            self._there, self._change = self._change(self._there), list
        self.given += 1
        return self._there.pop(0)

    def empty(self) -> bool:
        return True  # all are told of a result before the next one comes


def run(folder: Path, **more: Any) -> Any:
    return tune.run(
        Walk, name="walk", local_dir=str(folder), config={"x": tune.uniform(0, 1)}, metric="score", mode="max",
        num_samples=4, stop={"training_iteration": LENGTH}, checkpoint_freq=2, seed=7, deterministic=True,
        scheduler=schedulers.ASHAScheduler(max_t=LENGTH, grace_period=1, reduction_factor=2), reuse_actors=True,
        verbose=0, resume="AUTO", **more,
    )  # fmt: skip


def heard(folder: Path) -> list[tuple[str, int]]:
    """Return of which trial and iteration the experiment heard, in that order."""
    records = [record for _, record in event_log.read(str(folder / "walk" / LOG_FILE))]
    answers = [record[1:3] for record in records if record[0] == "answer"]
    return [(trial_id, answer.results[0]["training_iteration"]) for trial_id, answer in answers]


@pytest.fixture(scope="module")
def whole(session: None, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, int]]:
    folder = tmp_path_factory.mktemp("whole")
    run(folder)
    return heard(folder)


def backwards(there: list[Arrival]) -> list[Arrival]:
    """The trial that was asked last is the quickest."""
    return there[::-1]


def not_yet(there: list[Arrival]) -> list[Arrival]:
    """The trial that was asked first has not come to its next result."""
    (trial_id, number, _, _), *others = there
    return [(trial_id, number, Answer(), ""), *others]


def dead(there: list[Arrival]) -> list[Arrival]:
    """The process of the trial that was asked first did not survive the Ctrl-C."""
    (trial_id, number, _, _), *others = there
    return [(trial_id, number, None, "it has died"), *others]


@pytest.mark.parametrize("change", [backwards, not_yet, dead])
def test_answers_after_an_interrupt_are_heard_in_their_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: list[tuple[str, int]],
    change: Callable[[list[Arrival]], list[Arrival]],
) -> None:  # fmt: skip
    answers = OneByOne(change)
    ask = Processes.ask

    def counted(self: Processes, *arguments: Any) -> int:
        answers.asked += 1
        self.arrivals = answers  # type: ignore[assignment]
        return ask(self, *arguments)

    class Interrupts(tune.Callback):
        results = 0

        def on_trial_result(self, *arguments: Any, **info: Any) -> None:
            self.results += 1
            if self.results == 5:
                answers.is_interrupted = True
                signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(Processes, "ask", counted)
        run(tmp_path, callbacks=[Interrupts()], raise_on_failed_trial=False)
    assert heard(tmp_path) == whole[: len(heard(tmp_path))]
    assert len(heard(tmp_path)) == (7 if change is backwards else 5)
    run(tmp_path)
    assert heard(tmp_path) == whole


def test_answers_wait_for_their_turn() -> None:
    def arrival(name: str) -> Arrival:
        return (name, 0, None, "")

    asked: dict[str, None] = dict.fromkeys("abc")
    turns = AnswerOrder(in_turn=True)
    assert not list(turns.let_through([arrival("b")], asked))
    passed = []
    for each in turns.let_through([arrival("a")], asked):
        passed.append(each[0])
        del asked[each[0]]
        asked[each[0]] = None  # it is asked again, behind the others
    assert passed == ["a", "b"] and list(asked) == ["c", "a", "b"]
    at_once = [each[0] for each in AnswerOrder(in_turn=False).let_through([arrival("c"), arrival("a")], asked)]
    assert at_once == ["c", "a"]
