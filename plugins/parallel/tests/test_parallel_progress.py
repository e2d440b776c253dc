"""Progress bars: what they show, on a terminal and in a file, from the program and from workers."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kernel_parallel import progress
from kernel_parallel.progress import bars, tqdm, trange
from kernel_parallel.progress.screen import PLAIN_SECONDS, Screen
from kernel_parallel.progress.state import BarState, number_in_words, render, render_plain, seconds_in_words

import kernel
from kernel.exceptions import OptionError


class Terminal(io.StringIO):
    """A terminal that understands what bars need: it has lines, and a cursor."""

    def __init__(self) -> None:
        super().__init__()
        self.lines = [""]
        self.row = self.column = 0
        self.lock = threading.Lock()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self.lock:
            for part in re.findall(r"\x1b\[\d*[AJ]|\r|\n|[^\x1b\r\n]+", text):
                self._take(part)
        return len(text)

    def _take(self, part: str) -> None:
        if part == "\r":
            self.column = 0
        elif part == "\n":
            self.row, self.column = self.row + 1, 0
            while len(self.lines) <= self.row:
                self.lines.append("")
        elif part.endswith("J") and part.startswith("\x1b"):
            self.lines[self.row] = self.lines[self.row][: self.column]
            del self.lines[self.row + 1 :]
        elif part.startswith("\x1b"):
            self.row -= int(part[2:-1])
            assert self.row >= 0
        else:
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + part + line[self.column + len(part) :]
            self.column += len(part)

    def seen(self) -> list[str]:
        with self.lock:
            return [line.rstrip() for line in self.lines]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def until(condition: Callable[[], Any], seconds: float = 120.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, "it did not become true"
        time.sleep(0.01)
    return found


# -- text ------------------------------------------------------------------------------------------------------------


def test_a_bar_as_text() -> None:
    state = BarState("a", 50, 200, 10.0, "load", "file", postfix="loss=0.5")
    assert render_plain(state) == "load:  25% 50/200 [00:10<00:30,  5.00file/s, loss=0.5]"
    line = render(state, 80)
    assert len(line) == 80 and line.startswith("load:  25%|███")
    assert line.endswith("| " + render_plain(state)[10:].strip())
    assert render(state, 20) == render_plain(state)[:20]
    assert render_plain(BarState("a", 7, None, 2.0, "x")) == "x: 7it [00:02,  3.50it/s]"
    assert render_plain(BarState("a", 0, 9, 0.0)) == "  0% 0/9 [00:00<?, ?it/s]"
    assert render_plain(BarState("a", 1, 4, 10.0)) == " 25% 1/4 [00:10<00:30, 10.00s/it]"
    scaled = BarState("a", 1536 << 10, 4 << 20, 1.0, unit="B", scale=True, divisor=1024)
    assert render_plain(scaled) == " 38% 1.50M/4.00M [00:01<00:01, 1.50MB/s]"
    assert [number_in_words(value) for value in (0, 5, 999, 1234, 12345, 1e6)] == [
        "0",
        "5",
        "999",
        "1.23k",
        "12.3k",
        "1.00M",
    ]
    assert [seconds_in_words(value) for value in (5, 65, 3605)] == ["00:05", "01:05", "1:00:05"]


def test_the_bar_itself_grows_by_eighths() -> None:
    lines = [render(BarState("a", n, 80, 1.0), 60) for n in range(81)]
    assert {len(line) for line in lines} == {60}
    full = [line.split("|")[1] for line in lines]
    assert full[0].strip() == "" and set(full[80]) == {"█"} and full[41].rstrip()[-1] in "▏▎▍▌▋▊▉"
    plain = render(BarState("a", 1, 2, 1.0, ascii=True), 60).split("|")[1]
    assert plain.count("#") == len(plain) // 2


# -- a terminal ------------------------------------------------------------------------------------------------------


@contextmanager
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    """A terminal that is standard output and standard error of this process, and the screen of its bars."""
    fake = Terminal()
    own = Screen(size=lambda: (70, 12), clock=Clock())
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", fake)
        patch.setattr(sys, "stderr", fake)
        patch.setattr(bars, "screen", own)
        patch.setattr("kernel_parallel.progress.board.screen", own)
        yield fake
        own.close()


def test_bars_stay_below_what_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    with on_terminal(monkeypatch) as terminal:
        with (
            tqdm(total=10, desc="first", mininterval=0) as first,
            tqdm(total=4, desc="second", mininterval=0) as second,
        ):
            print("hello")
            first.update(5)
            print("half", end="")
            print(" a line")
            second.update()
            sys.stderr.write("warning\n")
            seen = terminal.seen()
            assert seen[:3] == ["hello", "half a line", "warning"]
            assert seen[3].startswith("first:  50%|") and seen[4].startswith("second:  25%|") and len(seen) == 5
            tqdm.write("said")
            assert terminal.seen()[3] == "said" and len(terminal.seen()) == 6
        seen = terminal.seen()
        assert [line.split(":")[0] for line in seen] == [
            "hello",
            "half a line",
            "warning",
            "said",
            "second",
            "first",
            "",
        ]
        assert sys.stdout is terminal and sys.stderr is terminal  # given back


def test_bars_that_do_not_stay_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with on_terminal(monkeypatch) as terminal:
        for _ in tqdm(range(3), desc="gone", leave=False, mininterval=0):
            assert terminal.seen()[0].startswith("gone:")
        assert terminal.seen() == [""]


def test_more_bars_than_lines_do_not_scroll(monkeypatch: pytest.MonkeyPatch) -> None:
    with on_terminal(monkeypatch) as terminal:
        made = [tqdm(total=2, desc=f"bar {number}", mininterval=0, leave=False) for number in range(30)]
        assert len(terminal.seen()) == 10 and terminal.seen()[-1] == "... and 21 more"
        for bar in made:
            bar.close()
        assert terminal.seen() == [""]


def test_positions_say_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    with on_terminal(monkeypatch) as terminal:
        lower, upper = tqdm(total=1, desc="lower", position=1), tqdm(total=1, desc="upper", position=0)
        assert [line.split(":")[0] for line in terminal.seen()] == ["upper", "lower"]
        lower.close()
        upper.close()


# -- a file ----------------------------------------------------------------------------------------------------------


def test_in_a_file_bars_are_lines_now_and_then() -> None:
    file, clock = io.StringIO(), Clock()
    screen = Screen(file, clock=clock)
    for n in range(25):
        screen.show([BarState("a", n, 25, float(n + 1), "work")])
    screen.show([BarState("a", 25, 25, 25.0, "work", closed=True)])
    screen.show([BarState("b", 1, 2, 1.0, leave=False, closed=True), BarState("a", 3, 25, 1.0)])  # late, or not to stay
    lines = file.getvalue().splitlines()
    assert lines[-1] == "work: 100% 25/25 [00:25<00:00,  1.00it/s]"
    assert len(lines) == 1 + int(24 // PLAIN_SECONDS)
    assert all("\r" not in line and "\x1b" not in line for line in lines)


def test_bars_of_the_program_go_to_the_file_they_are_given() -> None:
    file = io.StringIO()
    assert sum(trange(5, desc="sum", file=file)) == 10
    assert re.fullmatch(r"sum: 100% 5/5 \[00:00<00:00, .*it/s\]\n", file.getvalue())


# -- the interface of tqdm -------------------------------------------------------------------------------------------


def test_a_bar_behaves_as_that_of_tqdm() -> None:
    bar = tqdm([1, 2, 3], file=io.StringIO(), mininterval=0)
    assert list(bar) == [1, 2, 3] and bar.n == 3 and bar.total == 3 == len(bar)
    with tqdm(total=10, file=io.StringIO(), initial=2, miniters=1, dynamic_ncols=True) as bar:
        bar.update(3)
        bar.set_description("now")
        bar.set_postfix({"a": 1}, loss=0.12345)
        assert (bar.n, bar.postfix) == (5, "a=1, loss=0.123") and str(bar).startswith("now:  50% 5/10")
        assert bar.format_dict["n"] == 5 and bar.format_dict["prefix"] == "now"
        bar.reset(total=4)
        assert (bar.n, bar.total) == (0, 4)
    assert list(tqdm(iter("ab"), disable=True)) == ["a", "b"]
    with pytest.raises(OptionError, match="a progress bar has no option 'colur'"):
        tqdm(total=3, colur="red")
    with pytest.raises(TypeError, match="total of this progress bar is not known"):
        len(tqdm(iter("ab"), disable=True))
    with pytest.raises(OptionError, match="given nothing to go through"):
        next(iter(tqdm(total=3, disable=True)))


def test_most_updates_only_count() -> None:
    reports = 0

    class Counting(io.StringIO):
        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> int:
            nonlocal reports
            reports += 1
            return len(text)

    bar = tqdm(total=300_000, file=Counting())
    begun = time.monotonic()
    for _ in range(300_000):
        bar.update()
    elapsed = time.monotonic() - begun
    bar.close()
    assert bar.n == 300_000 and reports <= 10 * (elapsed / 0.1 + 3)


# -- workers ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    kernel.shutdown()
    with kernel.init(num_cpus=2):
        yield


@kernel.remote
def work(name: str, count: int) -> int:
    for _ in tqdm(range(count), desc=name, mininterval=0.01):
        pass
    print(f"{name} is done", flush=True)
    return count


def test_bars_of_workers_are_drawn_by_the_program(session: None, monkeypatch: pytest.MonkeyPatch) -> None:
    with on_terminal(monkeypatch) as terminal:
        progress.show()

        @kernel.remote
        class Stepper:
            def __init__(self) -> None:
                self.bar = tqdm(total=4, desc="actor", mininterval=0)

            def step(self) -> None:
                self.bar.update()

            def close(self) -> None:
                self.bar.close()

        actor = Stepper.remote()
        kernel.get([actor.step.remote(), actor.step.remote()])
        until(lambda: any(line.startswith("actor:  50%|") for line in terminal.seen()))
        assert kernel.get([work.remote("one", 5000), work.remote("two", 10)]) == [5000, 10]

        def whole() -> bool:
            seen = terminal.seen()
            return all(
                any(line.startswith(f"{name}: 100%|") for line in seen)
                and any(line.endswith(f"{name} is done") for line in seen)
                for name in ("one", "two")
            )

        until(whole)
        until(lambda: terminal.seen()[-1].startswith("actor:  50%|"))  # below everything
        kernel.get(actor.close.remote())
        until(lambda: terminal.seen()[-1] == "")
        for line in terminal.seen():
            assert re.match(r"(one|two|actor): +\d+%\||.*(one|two) is done$|$", line), line


def test_where_nobody_draws_them_bars_of_workers_are_lines_of_output(capfd: pytest.CaptureFixture[str]) -> None:
    kernel.shutdown()
    with kernel.init(num_cpus=1):
        assert kernel.get(work.remote("alone", 20)) == 20
        seen = ""

        def shown() -> bool:
            nonlocal seen
            seen += "".join(capfd.readouterr())
            return "alone: 100% 20/20" in seen

        until(shown)


def test_the_last_reports_are_drawn_when_the_program_ends(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import kernel\n"
        "from kernel_parallel.progress import show, tqdm\n"
        "@kernel.remote\n"
        "def work(name):\n"
        "    return sum(1 for _ in tqdm(range(1000), desc=name))\n"
        "kernel.init(num_cpus=2)\n"
        "show()\n"
        "assert kernel.get([work.remote('one'), work.remote('two')]) == [1000, 1000]\n"
    )
    path = os.pathsep.join(entry for entry in sys.path if entry)
    run = subprocess.run(
        [sys.executable, str(program)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    lines = [line.split("[")[0] for line in run.stderr.splitlines()]
    assert sorted(lines) == ["one: 100% 1000/1000 ", "two: 100% 1000/1000 "], run.stderr
