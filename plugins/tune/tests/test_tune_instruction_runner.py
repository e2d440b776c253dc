"""In which order the instructions of the trial loop are carried out."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kernel_tune.execution.instruction_runner import MOST_UNTOLD, InstructionRunner
from kernel_tune.execution.instructions import Continue, DeleteCheckpoint, Instruction, Notify
from kernel_tune.trainable.orders import Saved


class Watched(InstructionRunner):
    """Notes what it does."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self._untold = deque()

    def notify(self, notify: Notify, again: bool = False) -> None:
        self.done.append(f"told {notify.event}")

    def _order(self, trial: Any, **changes: Any) -> Any:
        return None

    def _ask(self, trial: Any, order: Any) -> None:
        self.done.append(f"asked {trial.name}")


def told(event: str) -> Notify:
    return Notify(event, None)  # type: ignore[arg-type]


def asked(name: str) -> Continue:
    return Continue(SimpleNamespace(name=name))  # type: ignore[arg-type]


def test_processes_are_asked_before_others_are_told() -> None:
    runner = Watched()
    runner.carry_out([told("trial_result"), asked("a"), told("trial_complete"), asked("b")])
    assert runner.done == ["asked a", "asked b"]
    assert runner.tell_others()
    assert runner.done[2:] == ["told trial_result", "told trial_complete"]


def test_news_go_first_unless_much_is_untold() -> None:
    runner = Watched()
    runner.carry_out([told("trial_result")] * (MOST_UNTOLD + 5))
    assert not runner.tell_others(is_urged=lambda: True)
    assert len(runner.done) == 6, "what is beyond the most that may be untold"
    assert not runner.tell_others(is_urged=lambda: True)
    assert len(runner.done) == 7, "one, so that it comes to an end"
    assert runner.tell_others()


def test_a_checkpoint_is_deleted_after_its_news_and_before_its_trial_may_use_the_name_again(tmp_path: Path) -> None:
    runner, there = Watched(), tmp_path / "checkpoint_000008"
    there.mkdir()
    steps: list[Instruction] = [told("checkpoint"), DeleteCheckpoint(None, Saved(8, str(there))), asked("a")]  # type: ignore[arg-type]
    ask = runner._ask
    seen: list[bool] = []
    runner._ask = lambda trial, order: (seen.append(there.exists()), ask(trial, order))[1]  # type: ignore[method-assign]
    runner.carry_out(steps)
    assert runner.done == ["told checkpoint", "asked a"] and seen == [False]


def test_a_failure_that_finds_no_room_on_the_disk_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "full").touch()  # below a file nothing can be written either
    trial: Any = SimpleNamespace(failures=1, error_message="why", raised=b"", error_file="", logdir="")
    trial.logdir = str(tmp_path / "there")
    InstructionRunner._write_error(Watched(), trial)
    assert Path(trial.error_file).read_text() == "Failure number 1\nwhy\n" and not caplog.records
    trial.logdir = str(tmp_path / "full" / "trial")
    InstructionRunner._write_error(Watched(), trial)
    (said,) = caplog.messages
    assert said.startswith("why trial namespace(") and f"can't be kept in {trial.logdir}/error.txt: [Errno 20]" in said
    assert trial.error_file == ""
