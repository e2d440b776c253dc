"""What workers write as it is shown: lines written over, progress bars, and what a terminal must not get."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernel.testing.faults import wait_until
from kernel_engine.messages import process_messages as op
from kernel_engine.messages.named_messages import packed
from kernel_engine.terminal_text import harmless, without_colours
from kernel_processes.node.log_service import LogService
from kernel_processes.protocol.carriage_returns import overwritten
from kernel_processes.protocol.named_output import by_name, without_overwritten
from kernel_processes.session import log_printer
from kernel_processes.session.log_printer import PLAIN_SECONDS, LogPrinter
from kernel_processes.transport.reactor import Reactor

# -- carriage returns ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("plain", "plain"),
        ("\r 10%\r 50%\r100%", "100%"),
        ("abcdef\rxy", "xycdef"),
        ("of Windows\r", "of Windows"),
        ("long text\r         \r", ""),
        ("\r\r\r", ""),
    ],
)
def test_a_line_is_what_is_left_of_it(line: str, shown: str) -> None:
    assert overwritten(line) == shown
    assert by_name([b"\x1e\x1ftask\x1f" + line.encode()]) == [("task", [shown])]


@pytest.mark.parametrize("cut", range(1, 30))
def test_the_beginning_of_a_line_may_be_shortened_at_any_time(cut: int) -> None:
    mark = b"\x1e\x1ftask\x1f"
    written = b"\r".join([mark + "0 % ░░".encode(), mark + "50% █░".encode(), b"", "100% ██".encode(), b"x"])
    rest = without_overwritten(written[:cut]) if b"\r" in written[:cut] else written[:cut]
    assert by_name([rest + written[cut:]]) == by_name([written]) == [("task", ["x00% ██"])]


def test_what_is_written_over_does_not_pile_up() -> None:
    rest = b""
    for number in range(10_000):
        rest = without_overwritten(rest + b"\rstep %d" % number)
    assert len(rest) < 100


# -- reading along ---------------------------------------------------------------------------------------------------


@pytest.fixture
def told(tmp_path: Path) -> Iterator[tuple[LogService, Reactor, list[Any]]]:
    """A service, its loop, and what it says: streams and lines."""
    said: list[Any] = []
    reactor = Reactor()
    service = LogService(
        reactor,
        str(tmp_path),
        lambda worker: (1, "Actor"),
        lambda worker, name, stream, lines: said.append((stream, lines)),
    )
    yield service, reactor, said
    service.close()
    reactor.close()


def test_a_bar_is_told_of_while_it_is_drawn(told: tuple[LogService, Reactor, list[Any]], tmp_path: Path) -> None:
    service, reactor, said = told
    out, errors = service.open(b"worker")
    os.write(errors, b"\r 10%\r 20%")
    while not said:
        reactor.poll(1.0)
    assert said == [("stderr" + op.UNFINISHED, [" 20%"])]
    os.write(errors, b"\r 90%\r100%\n")
    while len(said) < 2:
        reactor.poll(1.0)
    assert said[1] == ("stderr", ["100%"])
    os.close(out)
    os.close(errors)
    service.drain()
    assert said[2:] == []
    file = tmp_path / "workers.log"
    wait_until(lambda: file.read_text().endswith("\n"), 120.0, "the writing of the file, which a thread does")
    (line,) = file.read_text().splitlines()
    assert line.endswith("\terr\t100%")


def test_the_beginning_of_a_line_that_is_not_written_over_is_not_told_of(
    told: tuple[LogService, Reactor, list[Any]],
) -> None:
    service, reactor, said = told
    out, errors = service.open(b"worker")
    os.write(out, b"half a line")
    os.write(errors, b"a line\n")
    while not said:
        reactor.poll(1.0)
    assert said == [("stderr", ["a line"])]
    os.close(out)
    os.close(errors)


# -- showing ---------------------------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Return that it is one."""
        return True


@pytest.fixture
def hints(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was logged."""
    said: list[str] = []

    class Log:
        def warning(self, text: str) -> None:
            said.append(text)

    monkeypatch.setattr(log_printer, "_log", Log())
    return said


def show(printer: LogPrinter, stream: str, *lines: str, pid: int = 7) -> None:
    """Have lines shown."""
    printer.on_lines(None, packed(op.LogLines(pid=pid, name="f", stream=stream, lines=list(lines))))  # type: ignore[arg-type]


@pytest.mark.usefixtures("hints")
def test_a_terminal_shows_a_bar_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    printer = LogPrinter(columns=lambda: 30)
    show(printer, "stderr~", " 10%")
    show(printer, "stderr~", "\x1b[31m 50% " + "#" * 50)
    show(printer, "stderr", "100%", pid=8)
    show(printer, "stderr", "100%")
    origin, clear = "\x1b[36m(f pid={}) \x1b[0m", "\r\x1b[K"
    assert terminal.getvalue() == (
        f"{clear}{origin.format(7)} 10%"
        f"{clear}{origin.format(7)} 50% {'#' * 14}"
        f"{clear}{origin.format(8)}100%\n"
        f"{origin.format(7)}100%\n"
    )


@pytest.mark.usefixtures("hints")
def test_a_file_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", file := io.StringIO())
    now = [0.0]
    printer = LogPrinter(clock=lambda: now[0])
    for percent in range(100):
        now[0] = percent * PLAIN_SECONDS / 40
        show(printer, "stderr~", f"{percent}%")
    show(printer, "stderr", "100%")
    assert file.getvalue() == "(f pid=7) 40%\n(f pid=7) 80%\n(f pid=7) 100%\n"


def test_a_bar_is_answered_by_one_hint(monkeypatch: pytest.MonkeyPatch, hints: list[str]) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    printer = LogPrinter()
    show(printer, "stderr~", "working /-\\|")
    assert not hints
    for percent in (10, 20):
        show(printer, "stderr~", f"{percent}%|###       | {percent}/100 [00:01<00:03, 9.9it/s]")
    (hint,) = hints
    assert "from kernel.parallel import tqdm" in hint


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext ü █", "plain\ttext ü █"),
        ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m\x1b[0m"),
        ("\x1b[38;5;9mred", "\x1b[38;5;9mred\x1b[0m"),
        ("\x1b[2J\x1b[Hcleared", "cleared"),
        ("\x1b[?1049hother screen\x1b[6n", "other screen"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]52;c;aGVsbG8=\x1b\\text", "text"),
        ("\x1b]0;never ended", ""),
        ("\x1bPq#0\x1b\\text\x1bc", "text"),
        ("\x9b2Jeight bits\x9d0;t\x9c", "eight bits"),
        ("bell\x07, back\x08space, \x1b", "bell, backspace, "),
    ],
)
def test_a_terminal_gets_no_more_than_text_and_colours(text: str, shown: str) -> None:
    assert harmless(text) == shown
    assert without_colours(shown).isprintable() or "\t" in shown


def test_files_get_what_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", file := io.StringIO())
    show(LogPrinter(), "stdout", "\x1b[2Jtext")
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    show(LogPrinter(), "stdout", "\x1b[2Jtext")
    assert file.getvalue() == "(f pid=7) \x1b[2Jtext\n"
    assert terminal.getvalue() == "\x1b[36m(f pid=7) \x1b[0mtext\n"
