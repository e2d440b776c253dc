"""The live display, what it becomes without a terminal, and notebooks."""

from __future__ import annotations

import io
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from kernel_tune import reporters
from kernel_tune.errors import OptionalDependencyError
from kernel_tune.reporters import (
    CLIReporter,
    ExperimentInfo,
    JupyterNotebookReporter,
    LiveReporter,
    detect_reporter,
    show,
)
from kernel_tune.trial import Status, Trial

from kernel_runs.progress.terminal import sparkline


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("LINES", "50")


def some_trials() -> list[Trial]:
    statuses = [Status.TERMINATED, Status.RUNNING, Status.PAUSED, Status.ERROR, Status.PENDING]
    return [
        Trial("f", trial_id=f"{i}", name=f"f_{i}", local_dir="/r", status=status, evaluated_params={"lr": 0.1 * i},
              config={"lr": 0.1 * i}, error_file="/r/f_3/error.txt" if status is Status.ERROR else "",
              last_result={} if status is Status.PENDING else {"acc": 0.1 * i, "training_iteration": i + 1})
        for i, status in enumerate(statuses)
    ]  # fmt: skip


def reporter_on(stream: io.StringIO, now: list[float], **options: Any) -> LiveReporter:
    reporter = LiveReporter(stream=stream, width=100, clock=lambda: now[0], **options)
    reporter.setup(start_time=0.0, total_samples=10, metric="acc", mode="max")
    return reporter


def test_a_terminal_shows_bars_best_trial_table_and_time_left() -> None:
    stream, now, trials = Terminal(), [60.0], some_trials()
    reporter = reporter_on(stream, now)
    info = ExperimentInfo("digits", "/r/digits", "Using FIFO scheduling algorithm.", {"CPU": 1}, {"CPU": 2})
    assert show(reporter, trials, info)
    trials[1].last_result = {"acc": 0.7, "training_iteration": 9}
    now[0] += 0.21
    assert show(reporter, trials, info) and not show(reporter, trials, info)
    trials[1].last_result, trials[1].status = {"acc": 0.35, "training_iteration": 10}, Status.TERMINATED
    show(reporter, trials, info, done=True)
    show(reporter, trials, info, done=True)
    assert list(reporter._curves[trials[1]]) == [0.1, 0.7, 0.35] and list(reporter._curves[trials[0]]) == [0.0]
    text = stream.getvalue()
    assert "2/10  00:01:00  about 00:04:00 left" in text
    for shown in ("● 1 running", "◐ 1 paused", "✘ 1 error", "★ best", "acc 0.7", "f_1", "lr=0.1", "1/2 CPUs, 0/0 GPUs",
                  "Using FIFO scheduling", "Trial name", "▁█", "f_3  /r/f_3/error.txt", "━"):  # fmt: skip
        assert shown in text, shown
    assert "\x1b[" in text and "\x1b[1A" in text  # colours, and drawn in place
    assert reporter._live is None  # the terminal was given back


def test_the_display_is_not_higher_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "24")
    stream = Terminal()
    trials = [Trial("f", name=f"f_{i}", status=Status.RUNNING, last_result={"acc": i}) for i in range(30)]
    reporter = reporter_on(stream, [1.0])
    reporter.report(trials, True)
    assert "... 20 more trials not shown (20 RUNNING)" in stream.getvalue()


def test_drawing_takes_a_small_part_of_the_time() -> None:
    now = [0.0]

    class Slow(Terminal):
        def write(self, text: str) -> int:
            now[0] += 0.125  # as if there were very many trials
            return super().write(text)

    reporter = reporter_on(Slow(), now)
    assert show(reporter, some_trials(), ExperimentInfo())
    drawn, cost = now[0], now[0]
    now[0] = 7 * cost
    assert not show(reporter, some_trials(), ExperimentInfo())
    now[0] = drawn + 8 * cost
    assert show(reporter, some_trials(), ExperimentInfo())


@pytest.mark.parametrize(("name", "value"), [("TERM", "dumb"), ("NO_COLOR", "1"), ("", "")])
def test_elsewhere_a_line_is_written_when_something_has_changed(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name:
        monkeypatch.setenv(name, value)
    stream, now, trials = (Terminal() if name else io.StringIO()), [60.0], some_trials()
    reporter = reporter_on(stream, now)
    assert show(reporter, trials, ExperimentInfo())
    now[0] += 4
    assert not show(reporter, trials, ExperimentInfo())  # too soon
    now[0] += 2
    trials[4].status = Status.TERMINATED
    show(reporter, trials, ExperimentInfo(), done=True)
    assert stream.getvalue().splitlines() == [
        "[00:01:00] 2/10 trials ended, 1 running, 1 paused, 1 failed, about 00:04:00 left; "
        "best acc=0.3 by f_3 (lr=0.3)",
        "[00:01:06] 3/10 trials ended, 1 running, 1 paused, 1 failed, about 00:02:34 left; "
        "best acc=0.3 by f_3 (lr=0.3)",
    ]


def test_little_curves() -> None:
    assert sparkline([0, 0.5, 1]) == "▁▅█" and sparkline([2, 2]) == "▁▁" and sparkline([1]) == ""
    assert sparkline([0, float("inf"), 1]) == "▁█"


class Display:
    """As much of IPython.display as is used."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.cleared = 0
        self.module: Any = ModuleType("IPython.display")
        self.module.HTML = lambda text: text
        self.module.clear_output = self._clear
        self.module.display = self._display

    def _clear(self, wait: bool = False) -> None:
        self.cleared += 1

    def _display(self, page: str, display_id: bool = False) -> Any:
        self.shown.append(page)
        return SimpleNamespace(update=self.shown.append)


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_notebook_has_one_output_that_changes(overwrite: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    display = Display()
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display.module)
    reporter = JupyterNotebookReporter(overwrite, metric="acc", mode="max", max_progress_rows=2)
    reporter.add_metric_column("custom")
    trials = some_trials()
    trials[0].evaluated_params["lr"] = "<script>"
    for _ in range(2):
        reporter.report(trials, False, "Using FIFO\nscheduling")
    assert len(display.shown) == 2 and display.cleared == int(overwrite)
    page = display.shown[1]
    assert "<script>" not in page and "Using FIFO<br>scheduling" in page and "/r/f_3/error.txt" in page
    assert page.count("<tr>") == 3 and "... 3 more trials not shown" in page and "Current best trial: 3" in page


def test_without_ipython_a_notebook_reporter_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", None)
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    with pytest.raises(OptionalDependencyError, match=r"JupyterNotebookReporter needs.*pip install ipython"):
        JupyterNotebookReporter().report([], False)


def test_the_reporter_fits_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(detect_reporter(Terminal(), max_progress_rows=3)) is LiveReporter
    assert type(detect_reporter(io.StringIO())) is CLIReporter
    monkeypatch.setenv("NO_COLOR", "1")
    assert type(detect_reporter(Terminal())) is CLIReporter
    ipython: Any = ModuleType("IPython")
    ipython.get_ipython = type("ZMQInteractiveShell", (), {})
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert type(detect_reporter(Terminal())) is JupyterNotebookReporter
    assert all(getattr(reporters, name) for name in reporters.__all__)
