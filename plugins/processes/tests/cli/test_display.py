"""How the command line shows and reads things."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

import kernel
import kernel_processes
from kernel.cli import display
from kernel.commands import nearest
from kernel_processes.cli.log_files import Follower, LogLine, parse, tail
from kernel_processes.cli.stacks import Frame, Thread, show
from kernel_processes.cli.values import id_of, parse_size

_KERNEL, _PROCESSES = (os.path.dirname(package.__file__ or "") for package in (kernel, kernel_processes))


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1000", 1000),
        ("1e9", 1_000_000_000),
        ("500MB", 500_000_000),
        ("500 mb", 500_000_000),
        ("2GiB", 2 << 30),
        ("2g", 2_000_000_000),
        ("1.5k", 1500),
        ("64B", 64),
        ("1Ti", 1 << 40),
    ],
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-5", "5 parsecs", "1.2.3", "0x10", "nan", "inf", "1e999", "9e307GB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


@pytest.mark.parametrize("text", ["aB12", " ObjectRef(aB12)", "Actor(Keeper, aB12)", "AsyncResult(x=(1, 2), aB12)"])
def test_an_id_is_taken_out_of_what_programs_print(text: str) -> None:
    assert id_of(text) == "aB12"


def test_a_name_is_taken_as_it_is() -> None:
    assert [id_of(name) for name in ("keeper", "f(x)", "a(1, 2)b")] == ["keeper", "f(x)", "a(1, 2)b"]


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_949, "999.9 kB"), (999_950, "1.0 MB"), (8.2e9, "8.2 GB")],
)
def test_sizes_are_shown_short(count: float, text: str) -> None:
    assert display.size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.6, "1 min"),
        (192, "3 min 12 s"),
        (7200, "2 h"),
        (180_000, "2 d 2 h"),
    ],
)
def test_times_are_shown_as_people_say_them(seconds: float, text: str) -> None:
    assert display.duration(seconds) == text


def test_quantities_and_counts() -> None:
    assert [display.quantity(one) for one in (2.0, 0.5, 0.0001, 10.0)] == ["2", "0.5", "0.0001", "10"]
    assert [display.count(one, "process") for one in (0, 1, 1000)] == ["0 processes", "1 process", "1,000 processes"]


def test_a_bar_shows_little_as_something_and_never_more_than_all() -> None:
    shown = [click.unstyle(display.bar(used, 10, width=4)) for used in (0, 0.01, 5, 10, 99)]
    full = shown[3][0]
    assert [text.count(full) for text in shown] == [0, 1, 2, 4, 4]
    assert click.unstyle(display.bar(0, 0, width=4)).count(full) == 0


def test_a_table_aligns_columns(capsys: pytest.CaptureFixture[str]) -> None:
    display.table(("NAME", "SIZE"), [("a", "1"), ("long name", "1,000")], indent=1, right=(1,))
    assert capsys.readouterr().out == " NAME        SIZE\n a              1\n long name  1,000\n"


@pytest.mark.parametrize(("cut", "shown"), [(True, 10), (False, 300)])
def test_a_table_fits_a_terminal_if_it_may_be_cut(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, cut: bool, shown: int
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "20")
    display.table(("A", "B"), [("x" * 10, "y" * 300)], cut=cut)
    assert len(capsys.readouterr().out.splitlines()[-1]) == 12 + shown


def test_what_is_too_long_loses_its_beginning() -> None:
    assert display.shorten("abcdef", 6) == "abcdef"
    assert display.shorten("abcdefgh", 6).endswith("efgh") and len(display.shorten("abcdefgh", 6)) == 6


def test_the_nearest_name_is_one_that_begins_so_or_looks_so() -> None:
    assert nearest("stat", ["start", "status"]) == ", did you mean 'status'?"
    assert nearest("strat", ["start", "status"]) == ", did you mean 'start'?"
    assert nearest("xyzzy", ["start", "status"]) == ""


# -- log files -----------------------------------------------------------------------------------------------------


def _text(number: int) -> str:
    return f"{number}.000\taabbccdd\t{number}\tdouble\tout\tline {number}\twith a tab"


def test_a_log_line_is_read_back_with_its_tabs() -> None:
    assert parse(_text(7) + "\n") == LogLine(7.0, "aabbccdd", 7, "double", "out", "line 7\twith a tab")


@pytest.mark.parametrize("text", ["", "cut off", "1.0\taa\tno pid\tname\tout\ttext", "1.0\taa\t3\tname"])
def test_what_a_full_disk_cut_short_is_no_line(text: str) -> None:
    assert parse(text) is None


def test_the_tail_goes_back_through_older_files(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("logs")
    for name, numbers in (("workers.log.1", range(5)), ("workers.log", range(5, 8))):
        (folder / name).write_text("".join(_text(number) + "\n" for number in numbers))
    end = (folder / "workers.log").stat().st_size
    numbers = [line.pid for line in tail(str(folder), 5, lambda line: line.pid != 6, end)]
    assert numbers == [2, 3, 4, 5, 7]
    assert [line.pid for line in tail(str(folder), 100, lambda line: True, 0)] == [0, 1, 2, 3, 4]
    assert tail(str(folder), 0, lambda line: True, end) == []


# -- stacks --------------------------------------------------------------------------------------------------------


def test_the_users_frames_stand_out_and_the_kernels_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    ours = f"{_PROCESSES}/worker/executor.py"
    frames = [
        Frame("poll", f"{_PROCESSES}/transport/reactor.py", 1),
        Frame("get", f"{_KERNEL}/api/operations.py", 2),
        Frame("train", "/srv/jobs/train.py", 34),
        Frame("run_call", ours, 3),
        Frame("run", "/usr/lib/python3/runpy.py", 4),
    ]
    show([Thread(1, "MainThread", frames), Thread(2, "worker-io", frames[:1])], full=False)
    lines = capsys.readouterr().out.replace("...", "…").splitlines()
    assert lines == [
        "  MainThread",
        "    … 2 frames of the kernel, in poll (transport/reactor.py:1)",
        "    train  /srv/jobs/train.py:34",
        "    … 2 frames of the kernel, in run_call (worker/executor.py:3)",
        "  worker-io  … 1 frame of the kernel, in poll (transport/reactor.py:1)",
    ]
    show([Thread(1, "MainThread", frames)], full=True)
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(frames)


def test_the_follower_goes_along_when_the_file_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "workers.log"
    file.write_text(_text(0) + "\n")
    follower = Follower(str(tmp_path))
    assert follower.position == file.stat().st_size and list(follower.new_lines()) == []
    with file.open("a") as writer:
        writer.write(_text(1) + "\n" + _text(2)[:5])
        writer.flush()
        assert [line.pid for line in follower.new_lines()] == [1]
        writer.write(_text(2)[5:] + "\n")
    file.rename(tmp_path / "workers.log.1")
    file.write_text(_text(3) + "\n")
    assert [line.pid for line in follower.new_lines()] == [2, 3]
