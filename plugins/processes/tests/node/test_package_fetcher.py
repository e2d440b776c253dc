"""Packages come to a node piece by piece, once for all who wait, and beside the agent's loop."""

from __future__ import annotations

import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernel_engine.messages.named_messages import number_of
from kernel_processes.node import package_fetcher
from kernel_processes.node.package_fetcher import PackageFetcher
from kernel_processes.node.packages import Packages
from kernel_processes.protocol import head_messages
from kernel_processes.transport.reactor import Reactor
from plugins.processes.tests.transport.test_background import turn_until

SECONDS = 120.0
PIECE = 100


def archive(**files: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as package:
        for name, text in files.items():
            package.writestr(name, text)
    return buffer.getvalue()


class Bench:
    """A fetcher, and a head that has some archives. It answers when it is told to."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.reactor = Reactor()
        self.packages = Packages(str(directory))
        self.asked: list[tuple[str, int]] = []
        self.archives: dict[str, bytes] = {}
        self.outcomes: list[Any] = []
        self.fetcher = PackageFetcher(self.packages, self.reactor, self._on_message)

    def _on_message(self, message: Any) -> None:
        assert message[0] == number_of(head_messages.WantPackage)
        self.asked.append(message[1:])

    def has(self, *archives: bytes) -> list[str]:
        digests = [hashlib.blake2b(one, digest_size=16).hexdigest() for one in archives]
        self.archives |= dict(zip(digests, archives, strict=True))
        return digests

    def answer(self) -> None:
        digest, offset = self.asked.pop(0)
        data = self.archives.get(digest, b"")
        self.fetcher.on_piece(digest, offset, len(data), data[offset : offset + PIECE])

    def serve(self, outcomes: int) -> None:
        def step() -> bool:
            while self.asked:
                self.answer()
            return len(self.outcomes) == outcomes

        turn_until(self.reactor, step)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.fetcher.close()
    bench.reactor.close()


def test_an_environment_without_packages_is_there_at_once(bench: Bench) -> None:
    bench.fetcher.fetch([], bench.outcomes.append)
    assert bench.outcomes == [None]


def test_a_package_is_fetched_once_for_all_who_wait(bench: Bench) -> None:
    both = bench.has(archive(a="x" * 500), archive(b="y"))
    for _ in range(3):
        bench.fetcher.fetch(both, bench.outcomes.append)
    bench.serve(3)
    assert bench.outcomes == [None] * 3
    paths = [bench.packages.path(digest) for digest in both]
    assert (Path(paths[0]) / "a").read_text() == "x" * 500
    assert (Path(paths[1]) / "b").read_text() == "y"
    bench.fetcher.fetch(both, bench.outcomes.append)
    turn_until(bench.reactor, lambda: len(bench.outcomes) == 4)
    assert bench.asked == [], "it is here already"


def test_the_loop_goes_on_while_a_package_is_unpacked(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    one = bench.has(archive(a="x"))
    unpacking, go, turned = threading.Event(), threading.Event(), []
    extract = zipfile.ZipFile.extract

    def slow(self: zipfile.ZipFile, *arguments: Any) -> str:
        unpacking.set()
        assert go.wait(SECONDS)
        return extract(self, *arguments)

    monkeypatch.setattr(zipfile.ZipFile, "extract", slow)
    bench.fetcher.fetch(one, bench.outcomes.append)
    turn_until(bench.reactor, lambda: bench.asked)
    while not unpacking.is_set():
        if bench.asked:
            bench.answer()
        bench.reactor.poll(0.01)
    bench.reactor.call_later(0.0, lambda: turned.append("pulse"))
    turn_until(bench.reactor, lambda: turned)
    assert bench.outcomes == []
    go.set()
    bench.serve(1)
    assert bench.outcomes == [None]


def test_a_piece_that_comes_twice_counts_once(bench: Bench) -> None:
    one = (digest,) = bench.has(archive(a="x" * 500))
    bench.fetcher.fetch(one, bench.outcomes.append)
    turn_until(bench.reactor, lambda: bench.asked)
    data = bench.archives[digest]
    bench.fetcher.on_piece(digest, 0, len(data), data[:PIECE])
    bench.fetcher.on_piece(digest, 0, len(data), data[:PIECE])
    bench.asked.clear()
    bench.serve(1)
    assert bench.outcomes == [None]


def test_a_piece_that_was_lost_is_asked_for_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_fetcher, "PATIENCE_SECONDS", 0.01)
    one = (digest,) = bench.has(archive(a="x"))
    bench.fetcher.fetch(one, bench.outcomes.append)
    turn_until(bench.reactor, lambda: len(bench.asked) > 2)
    assert set(bench.asked) == {(digest, 0)}
    bench.serve(1)
    assert bench.outcomes == [None]


def test_what_the_head_has_no_more_and_what_arrives_damaged_is_said(bench: Bench) -> None:
    gone, damaged = bench.has(archive(a="x")), bench.has(archive(b="x"))
    del bench.archives[gone[0]]
    bench.archives[damaged[0]] = archive(b="y")
    bench.fetcher.fetch(gone, bench.outcomes.append)
    bench.fetcher.fetch(damaged, bench.outcomes.append)
    bench.serve(2)
    texts = sorted(map(str, bench.outcomes))
    assert f"package {gone[0]} of the runtime_env is not on this node, and the head has it no more" in " ".join(texts)
    assert f"package {damaged[0]} arrived damaged" in " ".join(texts)


def test_an_end_in_the_middle_of_unpacking_leaves_nothing_behind(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    one = bench.has(archive(a="x", b="y"))
    extract, seen = zipfile.ZipFile.extract, threading.Event()

    def ending(self: zipfile.ZipFile, *arguments: Any) -> str:
        bench.packages.close()
        seen.set()
        return extract(self, *arguments)

    monkeypatch.setattr(zipfile.ZipFile, "extract", ending)
    bench.fetcher.fetch(one, bench.outcomes.append)
    bench.serve(1)
    assert seen.is_set()
    assert "is not unpacked: the session ends" in str(bench.outcomes[0])
    assert list((bench.directory / "packages").iterdir()) == []
