"""Lines with the name of the task that wrote them: marked in the worker, sorted in the agent."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import TextIO

import pytest

from kernel_processes.protocol.named_output import by_name, named


class Pipe:
    """A pipe with a stream at one end; what is read at the other is a list of (name, lines)."""

    def __init__(self) -> None:
        self.task = ""
        self.reader, self.writer = os.pipe()
        self.plain = os.fdopen(self.writer, "w", encoding="utf-8")
        self.stream: TextIO = named(self.plain, lambda: self.task)

    def read(self) -> list[tuple[str, list[str]]]:
        return by_name(os.read(self.reader, 1 << 16).split(b"\n")[:-1])


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.plain.close()
    os.close(pipe.reader)


def test_lines_are_of_the_task_that_ran_when_they_were_written(pipe: Pipe) -> None:
    pipe.task = "f"
    print("one\ntwo", file=pipe.stream)
    pipe.task = "g"
    print("three", file=pipe.stream)
    pipe.task = ""
    print("four", file=pipe.stream)
    os.write(pipe.writer, b"five\n")
    assert pipe.read() == [("f", ["one", "two"]), ("g", ["three"]), ("", ["four", "five"])]


def test_a_line_written_in_pieces_is_one_line(pipe: Pipe) -> None:
    pipe.task = "f"
    for piece in ("al", "pha \u03b1", " beta\ngam"):
        pipe.stream.write(piece)
        pipe.stream.flush()
    pipe.stream.write("ma\n\n")
    assert pipe.read() == [("f", ["alpha \u03b1 beta", "gamma", ""])]


def test_a_name_may_be_anything(pipe: Pipe) -> None:
    pipe.task = "a\tna\x1fme\nof \u03b1"
    print("line", file=pipe.stream)
    assert pipe.read() == [("a na me of \u03b1", ["line"])]


def test_what_takes_the_place_of_the_pipe_gets_no_marks(pipe: Pipe, tmp_path) -> None:  # type: ignore[no-untyped-def]
    pipe.task = "f"
    saved = os.dup(pipe.writer)
    with open(tmp_path / "elsewhere", "wb") as file:
        os.dup2(file.fileno(), pipe.writer)
    print("to a file", file=pipe.stream)
    os.dup2(saved, pipe.writer)
    os.close(saved)
    print("to the pipe", file=pipe.stream)
    assert (tmp_path / "elsewhere").read_text() == "to a file\n"
    assert pipe.read() == [("f", ["to the pipe"])]


def test_much_goes_through_a_pipe_that_was_made_non_blocking(pipe: Pipe) -> None:
    pipe.task = "f"
    os.set_blocking(pipe.writer, False)
    got: list[bytes] = []

    def read() -> None:
        while not got or not got[-1].endswith(b"the end\n"):
            got.append(os.read(pipe.reader, 1 << 16))

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(100):
        print("x" * 9_999, file=pipe.stream)
    print("the end", file=pipe.stream)
    reader.join(timeout=120)
    assert by_name(b"".join(got).split(b"\n")[:-1]) == [("f", ["x" * 9_999] * 100 + ["the end"])]


def test_a_stream_is_like_the_one_it_stands_for(pipe: Pipe) -> None:
    assert pipe.stream.fileno() == pipe.writer
    assert pipe.stream.encoding == "utf-8" and pipe.stream.name == pipe.plain.name
    assert not pipe.stream.isatty()


def test_bytes_that_are_no_text_and_look_like_half_a_mark_stay() -> None:
    assert by_name([b"\xff", b'\x1e{"a": 1}', b"\x1e\x1fopen"]) == [("", ["\ufffd", '\x1e{"a": 1}', "\x1e\x1fopen"])]
